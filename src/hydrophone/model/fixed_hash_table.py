"""A hash table of fixed size for partial aggregates: the low level of two-level aggregation. It sheds entries instead of growing.

After Li et al., "Out-of-Order Processing", section 6. Rows are merged into the partial aggregate of their group and window.
Where two groups hash to the same entry, and the next one is taken too, one aggregate is shed to the high level, which merges them in any
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.hashing import mix

ENTRIES = 1 << 17
"""Entries per task: with five numbers each 7.3 MB, including room for what a batch sheds."""
KEY_COLUMNS = 4 * ENTRIES
"""Keys that a task holds at most, besides those of one batch. Beyond it the table is emptied."""

_CODES: dict[tuple[np.ufunc, str], int] = {
    (np.add, "i"): 0,
    (np.add, "u"): 0,
    (np.add, "f"): 1,
    (np.minimum, "i"): 2,
    (np.minimum, "f"): 3,
    (np.maximum, "i"): 4,
    (np.maximum, "f"): 5,
    (np.minimum, "u"): 6,
    (np.maximum, "u"): 7,
}


class FlushMode(IntEnum):
    """When the aggregates of windows that are over leave the table.

    LAZY : when another group wants their entry, and at the latest when they are `late` windows old
    SLOW : also one of them for every so many rows
    IN_ORDER : as SLOW, in the order of windows: before an aggregate of the new window is shed, all old ones are
    """

    LAZY = 0
    SLOW = 1
    IN_ORDER = 2


class FixedHashTable:
    """A table of `size` partial aggregates by (group, window).

    Parameters
    ----------
    size : entries
    merge : for every part of an aggregate the ufunc that merges it (add, minimum or maximum) and its dtype
    flush : when old aggregates leave
    every : with SLOW and IN_ORDER, the rows for each old aggregate that leaves
    late : how many windows an aggregate may stay after its own; None: until its entry is wanted

    Examples
    --------
    >>> table = FixedHashTable(4, [(np.add, np.int64)])
    >>> group, window = np.array([7, 7, 9]), np.array([0, 0, 0])
    >>> len(table.add(group, window, [np.array([1, 1, 1])])[0])
    0
    >>> groups, windows, (counts,) = table.rest()
    >>> sorted(zip(groups.tolist(), windows.tolist(), counts.tolist()))
    [(7, 0, 2), (9, 0, 1)]
    """

    def __init__(
        self,
        size: int,
        merge: Sequence[tuple[np.ufunc, npt.DTypeLike]],
        flush: FlushMode = FlushMode.LAZY,
        *,
        every: int = 160,
        late: int | None = 2,
    ) -> None:
        for name, value, least in (("size", size, 1), ("every", every, 1), ("late", late, 0)):
            if value is not None and value < least:
                raise ParameterError(f"low level: {name} must be at least {least}, got {value}")
        self.kinds = [np.dtype(d) for _, d in merge]
        self.codes = np.array([_CODES[m, d.kind] for (m, _), d in zip(merge, self.kinds, strict=True)], np.int64)
        self.flush, self.every, self.late = flush, every, late
        self.group = np.zeros(size, np.int64)
        self.window = np.full(size, _EMPTY, np.int64)
        self.partials = np.zeros((size, len(merge)), np.int64)
        # The newest window, where slow flush goes on, and rows until it does.
        self._at = np.array([_EMPTY, size, every], np.int64)
        # Aggregates in the table by age in windows; the last counts all that are too old. Where none ever is, there is but one age.
        self._ages = np.zeros(1 if late is None else late + 2, np.int64)
        self._out = _ShedRows(size, len(merge))

    @property
    def oldest(self) -> int | None:
        """The oldest window that still has an aggregate in the table."""
        there = self.window[self.taken]
        return int(there.min()) if len(there) else None

    @property
    def taken(self) -> Ints:
        """The entries that have an aggregate."""
        return np.flatnonzero(self.window != _EMPTY)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, with room for what is shed."""
        out = self._out
        return sum(a.nbytes for a in (self.group, self.window, self.partials, out.group, out.window, out.partials))

    def add(self, group: Ints, window: Ints, parts: Sequence[npt.NDArray[Any]]) -> tuple[Ints, Ints, list[Any]]:
        """Take rows; give the aggregates that are shed: groups, windows and parts."""
        rows = self._bits(parts, len(group))
        if len(self._out.group) < len(self.group) + len(group):  # upper bound: entries before, plus new rows
            self._out = _ShedRows(len(self.group) + len(group), len(self.kinds))
        out = self._out
        n = _add(
            group, window, rows, rows.view(np.float64), self.codes, int(self.flush), self.every,
            self.group, self.window, self.partials, self.partials.view(np.float64), self._at, self._ages,
            out.group, out.window, out.partials,
        )  # fmt: skip
        return self._given(out, n)

    def rest(self) -> tuple[Ints, Ints, list[Any]]:
        """Give everything, old windows first, and be empty."""
        out = self._out
        n = _flush(
            np.iinfo(np.int64).max, self.group, self.window, self.partials, out.group, out.window, out.partials, 0
        )
        self._ages[:] = 0
        groups, windows, parts = self._given(out, n)
        order = np.argsort(windows, kind="stable")
        return groups[order], windows[order], [p[order] for p in parts]

    def _bits(self, parts: Sequence[npt.NDArray[Any]], rows: int) -> Ints:
        """Columns of different types as one int64 matrix of bits."""
        bits = np.empty((rows, len(self.kinds)), np.int64)
        for i, (part, kind) in enumerate(zip(parts, self.kinds, strict=True)):
            bits[:, i] = part.astype(_entry_dtype(kind), copy=False).view(np.int64)
        return bits

    def _given(self, out: _ShedRows, n: int) -> tuple[Ints, Ints, list[Any]]:
        parts = []
        for i, kind in enumerate(self.kinds):
            parts.append(out.partials[:n, i].copy().view(_entry_dtype(kind)).astype(kind, copy=False))
        return out.group[:n].copy(), out.window[:n].copy(), parts


class _ShedRows:
    """Room for what is shed."""

    def __init__(self, rows: int, width: int) -> None:
        self.group, self.window = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self.partials = np.empty((rows, width), np.int64)


def _entry_dtype(kind: np.dtype[Any]) -> type[np.int64 | np.float64]:
    """The type in which the table holds numbers; unsigned ones as their bits."""
    return np.int64 if kind.kind in "iu" else np.float64


_EMPTY = np.iinfo(np.int64).min


@compiled
def _entry_of(group, window, size):  # type: ignore[no-untyped-def]
    """The entry of a group and window: its hash, reduced to the table size."""
    x = mix(np.uint64(group) ^ (np.uint64(window) * np.uint64(0x9E3779B97F4A7C15)))
    return np.int64(((x >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@compiled
def _merge(codes, ints, floats, at, row_ints, row_floats, i):  # type: ignore[no-untyped-def]
    for j in range(len(codes)):
        code = codes[j]
        if code == 0:
            ints[at, j] += row_ints[i, j]
        elif code == 1:
            floats[at, j] += row_floats[i, j]
        elif code == 2:
            ints[at, j] = min(ints[at, j], row_ints[i, j])
        elif code == 4:
            ints[at, j] = max(ints[at, j], row_ints[i, j])
        elif code >= 6:
            less = np.uint64(row_ints[i, j]) < np.uint64(ints[at, j])
            if less == (code == 6):
                ints[at, j] = row_ints[i, j]
        else:
            a, b = floats[at, j], row_floats[i, j]
            wins = b < a if code == 3 else b > a
            if not np.isnan(a) and (wins or np.isnan(b)):  # NaN wins over numbers
                floats[at, j] = b


@compiled
def _shed(at, group, window, parts, out_group, out_window, out_parts, n):  # type: ignore[no-untyped-def]
    out_group[n], out_window[n] = group[at], window[at]
    for j in range(parts.shape[1]):
        out_parts[n, j] = parts[at, j]
    window[at] = _EMPTY
    return n + 1


@compiled
def _flush(before, group, window, parts, out_group, out_window, out_parts, n):  # type: ignore[no-untyped-def]
    """Shed all aggregates of windows before one."""
    for at in range(len(window)):
        if window[at] != _EMPTY and window[at] < before:
            n = _shed(at, group, window, parts, out_group, out_window, out_parts, n)
    return n


@compiled
def _age(newer, older, last):  # type: ignore[no-untyped-def]
    """By how many windows one is older, up to `last`.

    Unsigned: with signed integers LLVM may drop the check for a wrapped difference.
    """
    by = np.uint64(newer) - np.uint64(older)
    return np.int64(by) if by < np.uint64(last) else last


@compiled
def _age_all(by, ages):  # type: ignore[no-untyped-def]
    """All aggregates grow older by so many windows."""
    last = len(ages) - 1
    for age in range(last, -1, -1):
        count, ages[age] = ages[age], 0
        ages[min(age + by, last)] += count


@compiled
def _add(  # type: ignore[no-untyped-def]
    rows_group, rows_window, rows_ints, rows_floats, codes, flush, every,
    group, window, ints, floats, state, ages, out_group, out_window, out_parts,
):  # fmt: skip
    """Take rows; gives how many aggregates were shed."""
    size, last = len(group), len(ages) - 1
    newest, cursor, countdown = state[0], state[1], state[2]
    n = 0
    for i in range(len(rows_group)):
        g, w = rows_group[i], rows_window[i]
        if w > newest:
            if newest != _EMPTY:
                if flush == 2 and cursor < size:  # the rest of the window before, which slow flush has not reached
                    n = _flush(newest, group, window, ints, out_group, out_window, out_parts, n)
                    ages[1:] = 0
                _age_all(_age(w, newest, last), ages)
                if last > 0 and ages[last] > 0:
                    n = _flush(w - (last - 1), group, window, ints, out_group, out_window, out_parts, n)
                    ages[last] = 0
            newest, cursor, countdown = w, 0, every
        if flush != 0 and cursor < size:
            countdown -= 1
            if countdown <= 0:
                countdown = every
                # Flush one old aggregate; skip empty or new entries, a few at a time.
                for _ in range(16):
                    if cursor >= size:
                        break
                    old = window[cursor] != _EMPTY and window[cursor] < newest
                    if old:
                        ages[_age(newest, window[cursor], last)] -= 1
                        n = _shed(cursor, group, window, ints, out_group, out_window, out_parts, n)
                    cursor += 1
                    if old:
                        break
        first = _entry_of(g, w, size)
        other = first + 1 if first + 1 < size else 0
        at = -1
        if window[first] == w and group[first] == g:
            at = first
        elif window[other] == w and group[other] == g:
            at = other
        if at >= 0:
            _merge(codes, ints, floats, at, rows_ints, rows_floats, i)
            continue
        if window[first] == _EMPTY:
            at = first
        elif window[other] == _EMPTY:
            at = other
        else:
            at = other if window[other] < window[first] else first
            if flush == 2 and window[at] == newest and cursor < size:
                n = _flush(newest, group, window, ints, out_group, out_window, out_parts, n)
                ages[1:] = 0
                cursor = size
            ages[_age(newest, window[at], last)] -= 1
            n = _shed(at, group, window, ints, out_group, out_window, out_parts, n)
        group[at], window[at] = g, w
        ages[_age(newest, w, last)] += 1
        for j in range(len(codes)):
            ints[at, j] = rows_ints[i, j]
    state[0], state[1], state[2] = newest, cursor, countdown
    return n
