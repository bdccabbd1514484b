"""What the clocks of data do: by key how long, how fast, and where times have gaps, repeat or go back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.model.batch import Ints
from hydrophone.model.key_table import KeyTable
from hydrophone.model.time import format_duration
from hydrophone.plan.types import DataType

Floats = npt.NDArray[np.float64]

_GAP = 1.5
"""Events have a gap where the next is later than so many usual steps."""
_SHOWN = 20
"""Keys that are shown."""


@dataclass(frozen=True, eq=False)
class ClockReport:
    """A row for every key.

    Attributes
    ----------
    table : the key, then ``rows``, ``first`` and ``last`` time, ``rate`` in Hz (of events by the median step), ``gaps``, the
        ``longest_gap`` in nanoseconds, ``duplicates`` (rows whose time another row of the key has) and ``back_jumps`` (rows that come
        after a later one)
    """

    table: pa.Table

    def __repr__(self) -> str:
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(row, self._widths, strict=True)).rstrip() for row in self._cells
        )

    def _repr_html_(self) -> str:
        head, *rows = self._cells
        cells = [
            "<tr>" + "".join(f"<{t}>{escape(c)}</{t}>" for c in row) + "</tr>"
            for t, row in [("th", head), *(("td", r) for r in rows)]
        ]
        return f"<table>{''.join(cells)}</table>"

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(*self._cells, strict=True)]

    @property
    def _cells(self) -> list[list[str]]:
        shown = self.table.slice(0, _SHOWN).to_pydict()
        shown["longest_gap"] = [format_duration(gap) if gap else "-" for gap in shown["longest_gap"]]
        shown["rate"] = ["-" if rate is None else f"{rate:.6g} Hz" for rate in shown["rate"]]
        rows = [[str(v) for v in row] for row in zip(*shown.values(), strict=True)]
        more = len(self.table) - _SHOWN
        rest = [[f"and {more} more"] + [""] * (len(shown) - 1)] if more > 0 else []
        return [list(shown), *rows, *rest]


def report(tables: Iterable[pa.Table], kind: DataType, segments: bool) -> ClockReport:
    """Look at the times of an answer, in the order in which they come; 40 bytes are kept for every row, or segment."""
    keys = KeyTable(kind.key)
    parts: list[tuple[Any, ...]] = []
    for table in tables:
        slot = keys.slots([table[n] for n in kind.key.names]) if kind.key.names else keys.zeros(len(table))
        start: Ints = table[kind.time].cast(pa.int64()).to_numpy()
        one = np.ones(len(start), np.int64)
        if segments:
            count = pa.compute.list_value_length(_plain(table["values"])).to_numpy().astype(np.int64)
            period = table["period"].to_numpy()
            parts.append((slot, start, start + np.floor(count * period).astype(np.int64), count, period))
        else:
            parts.append((slot, start, start, one, np.zeros(len(start))))
    columns: list[Any] = [np.concatenate(c) for c in zip(*parts, strict=True)] if parts else [np.zeros(0, np.int64)] * 5
    return ClockReport(_described(keys, kind, segments, *columns))


def _plain(arrays: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of complex samples the real parts."""
    return pa.chunked_array([c.field("re") for c in arrays.chunks]) if pa.types.is_struct(arrays.type) else arrays


def _described(
    keys: KeyTable, kind: DataType, segments: bool, slot: Ints, start: Ints, end: Ints, count: Ints, period: Floats
) -> pa.Table:
    slots = len(keys)

    def counted(which: Ints) -> Ints:
        return np.bincount(which, minlength=slots)

    came = np.argsort(slot, kind="stable")
    back = counted(slot[came][1:][(np.diff(slot[came]) == 0) & (np.diff(start[came]) < 0)])
    order = np.lexsort((start, slot))
    slot, start, end, count = (x[order] for x in (slot, start, end, count))
    period = period[order]
    begin = np.flatnonzero(np.diff(slot, prepend=-1))
    of = slot[begin]
    rows, first, last = (np.zeros(slots, np.int64) for _ in range(3))
    if len(begin):
        rows[of], first[of] = np.add.reduceat(count, begin), start[begin]
        last[of] = np.maximum.reduceat(end - np.ceil(period).astype(np.int64), begin)
    same = np.diff(slot) == 0
    if segments:
        # From the last end so far: a run may lie inside an earlier one.
        reached = _running_max(end, slot)
        step, at = (start[1:] - reached[:-1])[same], slot[1:][same]
        # Times are whole nanoseconds: a run that goes on may start one after the end of the other, rounded down.
        gap, twice = step > 1, step < -1
        spacing = np.full(slots, np.nan)
        spacing[slot] = period
        covered = np.minimum(-step, (end - start)[1:][same])[twice]
        duplicates = np.rint(np.bincount(at[twice], covered / period[1:][same][twice], slots)).astype(np.int64)
    else:
        step, at = np.diff(start)[same], slot[1:][same]
        spacing = _medians(at[step > 0], step[step > 0], slots)
        gap, duplicates = step > _GAP * spacing[at], counted(at[step == 0])
    longest = np.zeros(slots, np.int64)
    np.maximum.at(longest, at[gap], step[gap])
    rate = pa.array(1e9 / spacing, mask=np.isnan(spacing))
    named = dict(zip(kind.key.names, keys.columns(np.arange(slots)), strict=True)) if kind.key.names else {}
    times = {"first": pa.array(first).cast(kind.stamp), "last": pa.array(last).cast(kind.stamp)}
    counts = {"gaps": counted(at[gap]), "longest_gap": longest, "duplicates": duplicates, "back_jumps": back}
    return pa.table({**named, "rows": rows, **times, "rate": rate, **counts})


def _running_max(end: Ints, slot: Ints) -> Ints:
    """The largest end so far within every key; keys follow each other."""
    order = np.lexsort((end, slot))
    rank = np.empty(len(end), np.int64)
    rank[order] = np.arange(len(end))
    return end[order[np.maximum.accumulate(rank)]] if len(end) else end


def _medians(slot: Ints, step: Ints, slots: int) -> Floats:
    order = np.lexsort((step, slot))
    slot, step = slot[order], step[order]
    begin = np.flatnonzero(np.diff(slot, prepend=-1))
    size = np.diff(np.append(begin, len(slot)))
    found = np.full(slots, np.nan)
    found[slot[begin]] = step[begin + size // 2]
    return found
