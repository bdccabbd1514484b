"""What lies in a lake of Parquet files: its row groups, their sizes and the stretch of time of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hydrophone.io.parquet import File, ParquetData, check_schema, dataset, named
from hydrophone.plan.source import Layout, Source
from hydrophone.spark.scan import NANOSECONDS, ROWS_AT_ONCE, ParquetScan, Part, columns, earliest, nanoseconds
from hydrophone.time import MAX_TIME, MIN_TIME, add_time

Ints = npt.NDArray[np.int64]

_READERS = 8


@dataclass(frozen=True, eq=False)
class Lake:
    """The row groups of a Parquet source, one element each.

    Attributes
    ----------
    files, folders : the files, and what their ``name=value`` folders say about their rows
    file, group, rows, size : position in `files`, number in the file, rows, bytes of the columns that are read
    low, high : the first start and the last end; where there is no row with a time, an interval that touches nothing
    nulls : rows without a time
    known : false where nothing is known about times
    measured : how many row groups had no statistics and were measured
    """

    files: tuple[File, ...]
    folders: tuple[pc.Expression, ...]
    file: Ints
    group: Ints
    rows: Ints
    size: Ints
    low: Ints
    high: Ints
    nulls: Ints
    known: npt.NDArray[np.bool_]
    measured: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all row groups, uncompressed."""
        return int(self.size.sum())

    def touching(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """The row groups with rows that are alive in ``[start, stop)``; rows without a time count as before all others."""
        found: npt.NDArray[np.bool_] = (self.low < stop) & (self.high > start)
        return found | (self.nulls > 0) if start == MIN_TIME else found

    def parts(self, chosen: npt.NDArray[np.bool_], start: int = MIN_TIME, stop: int = MAX_TIME) -> tuple[Part, ...]:
        """The chosen row groups by file; those with rows beyond ``[start, stop)`` are marked."""
        whole = (self.low >= start) & (self.high <= stop) & ((self.nulls == 0) | (start == MIN_TIME))
        if start == MIN_TIME and stop == MAX_TIME:
            whole[:] = True
        # In the order of time as far as possible: rows that come in order need no sorting.
        begin = np.where(self.known, self.low, MIN_TIME)
        picked = np.flatnonzero(chosen)
        picked = picked[np.lexsort((picked, begin[picked]))]
        apart = (np.diff(self.file[picked]) != 0) | (np.diff(whole[picked]) != 0) | (np.diff(self.group[picked]) != 1)
        made = []
        for run in np.split(picked, np.flatnonzero(apart) + 1):
            for piece in np.split(run, np.flatnonzero(np.diff(np.cumsum(self.rows[run]) // ROWS_AT_ONCE)) + 1):
                if len(piece):
                    number, groups = self.file[piece[0]], tuple(self.group[piece].tolist())
                    low, edge = int(begin[piece[0]]), not whole[piece[0]]
                    made.append(Part(self.files[number], self.folders[number], groups, low, edge))
        return tuple(made)


def survey(source: Source) -> Lake:
    """Look at the footers of all files."""
    data = source.data
    assert isinstance(data, ParquetData)
    with ThreadPoolExecutor(_READERS) as pool:
        footers = list(pool.map(lambda f: _footer(f, source.layout), data.files))
    table = np.array([g for footer in footers for g in footer], np.int64).reshape(-1, 7)
    file = np.repeat(np.arange(len(footers)), [len(f) for f in footers])
    group, rows, size, low, high, nulls, known = table.T.copy()
    return Lake(data.files, folders(data), file, group, rows, size, low, high, nulls, known.astype(np.bool_))


def folders(data: ParquetData) -> tuple[pc.Expression, ...]:
    """What the folders of every file say about its rows."""
    files = dataset([f.path for f in data.files], data.root, data.schema)
    found = {f.path: f.partition_expression for f in files.get_fragments()}
    return tuple(found[f.path] for f in data.files)


def folder_values(lake: Lake) -> list[dict[str, Any]]:
    """The columns that the folders of every file give."""
    return [ds.get_partition_keys(folder) for folder in lake.folders]


# --- footers ----------------------------------------------------------------------------------------------------------

Group = tuple[int, int, int, int, int, int, bool]
"""Number, rows, size, low, high, nulls, known."""


def _footer(file: File, layout: Layout) -> list[Group]:
    file.check()
    with named(file.path):
        meta = pq.read_metadata(file.path)
        schema, wanted = meta.schema.to_arrow_schema(), set(columns(layout))
    check_schema(file.path, schema, layout.schema, wanted)
    place = {meta.schema.column(i).path: i for i in range(meta.num_columns)}
    read = [i for path, i in place.items() if path in wanted or path.split(".")[0] in wanted]
    found: list[Group] = []
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        size = sum(group.column(i).total_uncompressed_size for i in read)
        start = _range(group, place, schema, layout.time)
        end = _range(group, place, schema, layout.end) if layout.end else start
        if start is None or end is None:
            found.append((number, group.num_rows, size, MAX_TIME, MIN_TIME, 0, group.num_rows == 0))
        else:
            low, high, nulls = start[0], _after(max(end[1], start[1]), layout), start[2]
            found.append((number, group.num_rows, size, low, high, nulls, True))
    return found


def _after(last: int, layout: Layout) -> int:
    """When all rows have ended, from the last end or, where there is none, the last start."""
    return last if layout.end else add_time(last, layout.lasts)


def _range(group: Any, place: dict[str, int], schema: pa.Schema, name: str) -> tuple[int, int, int] | None:
    """Least and largest time of a row group in nanoseconds and the number of nulls, if its statistics say all three."""
    if name not in place:
        return None
    chunk = group.column(place[name])
    stats = chunk.statistics
    if stats is None or not stats.has_null_count or chunk.physical_type not in ("INT64", "INT32"):
        return None
    if stats.null_count == group.num_rows:
        return MAX_TIME, MIN_TIME, group.num_rows
    kind = schema.field(name).type
    if not stats.has_min_max or pa.types.is_uint32(kind):
        return None
    scale = NANOSECONDS[kind.unit] if pa.types.is_timestamp(kind) else 1
    return int(stats.min_raw) * scale, int(stats.max_raw) * scale, stats.null_count


# --- where there are no statistics ------------------------------------------------------------------------------------

Measure = Callable[[ParquetScan, Sequence[Part]], list[list[int]]]
"""Reads the time columns of row groups; gives low, high and nulls of each."""

_measured: dict[tuple[File, int, str, str | None, int], list[int]] = {}


def measured(lake: Lake, source: Source, measure: Measure) -> Lake:
    """Fill in what the statistics did not say by a pass over the time columns alone; remembered as long as this process lives."""
    layout = source.layout
    times = [layout.time, *([layout.end] if layout.end else [])]
    narrow = replace(layout, schema=pa.schema([layout.schema.field(n) for n in times]), key=(), sequence=None)
    scan = ParquetScan(source.data.schema, replace(narrow, samples=None, period=None, timebase=None), None)
    where = zip(lake.file, lake.group, strict=True)
    keys = [(lake.files[f], int(g), layout.time, layout.end, layout.lasts) for f, g in where]
    todo = [i for i in np.flatnonzero(~lake.known).tolist() if keys[i] not in _measured]
    parts = [Part(lake.files[lake.file[i]], lake.folders[lake.file[i]], (int(lake.group[i]),), MIN_TIME) for i in todo]
    for i, found in zip(todo, measure(scan, parts) if parts else [], strict=True):
        _measured[keys[i]] = found
    low, high, nulls = lake.low.copy(), lake.high.copy(), lake.nulls.copy()
    unknown = np.flatnonzero(~lake.known)
    for i in unknown.tolist():
        low[i], high[i], nulls[i] = _measured[keys[i]]
    return replace(lake, low=low, high=high, nulls=nulls, known=np.ones_like(lake.known), measured=len(unknown))


def measure_here(scan: ParquetScan, parts: Sequence[Part]) -> list[list[int]]:
    """Read the time columns in this process."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda part: measure_part(scan, part), parts))


def measure_part(scan: ParquetScan, part: Part) -> list[int]:
    """First start, last end and nulls of one row group."""
    table = scan.read([part])
    start, end = table[scan.layout.time], table[scan.layout.end or scan.layout.time]
    if len(start) == start.null_count:
        return [MAX_TIME, MIN_TIME, start.null_count]
    high = max(nanoseconds(pc.max(end)), nanoseconds(pc.max(start)))
    return [earliest(table, scan.layout), _after(high, scan.layout), start.null_count]
