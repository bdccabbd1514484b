"""What lies in a source that tasks share out: its pieces, their sizes and the stretch of time of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.engine.scan import ROWS_AT_ONCE, ReadRange, Scan, earliest_start, scalar_nanoseconds
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.source import Source

Ints = npt.NDArray[np.int64]

_READERS = 8


@dataclass(frozen=True, eq=False)
class SourcePieces:
    """The pieces of a source, one element each, as `Piece` describes them.

    Attributes
    ----------
    units : what pieces lie in
    unit : position in `units`
    measured : how many pieces had no statistics and were measured
    """

    units: tuple[Any, ...]
    unit: Ints
    number: Ints
    rows: Ints
    size: Ints
    low: Ints
    high: Ints
    nulls: Ints
    known: npt.NDArray[np.bool_]
    measured: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all pieces, uncompressed."""
        return int(self.size.sum())

    def touching(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """The pieces with rows that are alive in ``[start, stop)``; rows without a time count as before all others."""
        found: npt.NDArray[np.bool_] = (self.low < stop) & (self.high > start)
        return found | (self.nulls > 0) if start == MIN_TIME else found

    def ranges(
        self, chosen: npt.NDArray[np.bool_], start: int = MIN_TIME, stop: int = MAX_TIME, rows: int | None = None
    ) -> tuple[ReadRange, ...]:
        """The chosen pieces by unit, about `rows` at once; those with rows beyond ``[start, stop)`` are marked."""
        whole = (self.low >= start) & (self.high <= stop) & ((self.nulls == 0) | (start == MIN_TIME))
        if start == MIN_TIME and stop == MAX_TIME:
            whole[:] = True
        # In the order of time as far as possible: rows that come in order need no sorting.
        begin = np.where(self.known, self.low, MIN_TIME)
        picked = np.flatnonzero(chosen)
        picked = picked[np.lexsort((picked, begin[picked]))]
        apart = (np.diff(self.unit[picked]) != 0) | (np.diff(whole[picked]) != 0) | (np.diff(self.number[picked]) != 1)
        made = []
        for run in np.split(picked, np.flatnonzero(apart) + 1):
            for piece in np.split(
                run, np.flatnonzero(np.diff(np.cumsum(self.rows[run]) // (rows or ROWS_AT_ONCE))) + 1
            ):
                if len(piece):
                    made.append(self.range_of(piece, int(begin[piece[0]]), not whole[piece[0]]))
        return tuple(made)

    def range_of(self, pieces: Ints, low: int, edge: bool) -> ReadRange:
        """Some pieces of one unit."""
        unit, numbers = self.units[self.unit[pieces[0]]], tuple(self.number[pieces].tolist())
        return ReadRange(unit, numbers, low, edge, int(self.size[pieces].sum()))


def survey_pieces(source: Source) -> SourcePieces | None:
    """What a source says of its pieces; None where one task must read everything."""
    found = source.data.pieces(source.layout.columns, source.layout.times)
    if found is None:
        return None
    units = {unit: n for n, unit in enumerate(dict.fromkeys(p.unit for p in found))}
    told = [(units[p.unit], p.number, p.rows, p.size, p.low, p.high, p.nulls, p.known) for p in found]
    unit, number, rows, size, low, high, nulls, known = np.array(told, np.int64).reshape(-1, 8).T.copy()
    return SourcePieces(tuple(units), unit, number, rows, size, low, high, nulls, known.astype(np.bool_))


# --- where there are no statistics ------------------------------------------------------------------------------------

Measure = Callable[[Scan, Sequence[ReadRange]], list[list[int]]]
"""Reads the time columns of pieces; gives low, high and nulls of each."""

_measured_times: dict[tuple[Any, int, str, str | None, int], list[int]] = {}


def measure_times(lake: SourcePieces, source: Source, measure: Measure) -> SourcePieces:
    """Fill in what the statistics did not say by a pass over the time columns alone; remembered as long as this process lives."""
    layout = source.layout
    times = [layout.time, *([layout.end] if layout.end else [])]
    narrow = replace(layout, schema=pa.schema([layout.schema.field(n) for n in times]), key=(), sequence=None)
    narrow = replace(narrow, samples=None, period=None, timebase=None)
    where = zip(lake.unit, lake.number, strict=True)
    keys = [(lake.units[u], int(n), layout.time, layout.end, layout.lasts) for u, n in where]
    unknown = np.flatnonzero(~lake.known)
    todo = [i for i in unknown.tolist() if keys[i] not in _measured_times]
    ranges = [lake.range_of(np.array([i]), MIN_TIME, edge=False) for i in todo]
    scan = Scan(source.data.for_tasks(times), narrow, None)
    for i, found in zip(todo, measure(scan, ranges) if ranges else [], strict=True):
        _measured_times[keys[i]] = found
    low, high, nulls = lake.low.copy(), lake.high.copy(), lake.nulls.copy()
    for i in unknown.tolist():
        low[i], high[i], nulls[i] = _measured_times[keys[i]]
    return replace(lake, low=low, high=high, nulls=nulls, known=np.ones_like(lake.known), measured=len(unknown))


def measure_here(scan: Scan, ranges: Sequence[ReadRange]) -> list[list[int]]:
    """Read the time columns in this process."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda given: measure_range(scan, given), ranges))


def measure_range(scan: Scan, given: ReadRange) -> list[int]:
    """First start, last end and nulls of some pieces."""
    low, high, nulls = MAX_TIME, MIN_TIME, 0
    for table in scan.tables([given]):
        start, end = table[scan.layout.time], table[scan.layout.end or scan.layout.time]
        nulls += start.null_count
        if len(start) > start.null_count:
            last = max(scalar_nanoseconds(pc.max(end)), scalar_nanoseconds(pc.max(start)))
            low, high = min(low, earliest_start(table, scan.layout)), max(high, scan.layout.times.ended(last))
    return [low, high, nulls]
