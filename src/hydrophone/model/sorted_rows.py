"""Array primitives on rows sorted by (slot, time), shared by kernels."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hydrophone.errors import ParameterError
from hydrophone.model.compiled import compiled

__all__ = [
    "concat_ranges",
    "expand_ranges",
    "gather_ranges",
    "intersect_ranges",
    "merge_rows",
    "rows_between",
    "search_rows",
    "stable_order",
]

Ints = NDArray[np.int64]

# Counting sort needs an array over all slots; above this many slots per row it no longer pays.
_SLOTS_PER_ROW = 4

# Bits of a digit where there are more: as many counters as the nearest cache holds.
_DIGIT = 11

# Rows in one bucket are sorted by insertion; with more rows in one bucket, times are too uneven for buckets.
_ROWS_PER_BOX = 16


def concat_ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return ``arange(start, start + length)`` of every run, one after the other.

    Examples
    --------
    >>> concat_ranges(np.array([5, 0, 9]), np.array([2, 0, 3]))
    array([ 5,  6,  9, 10, 11])
    """
    before = np.cumsum(lengths) - lengths
    positions: Ints = np.arange(int(np.sum(lengths)), dtype=np.int64)
    positions += np.repeat(starts - before, lengths)
    return positions


def gather_ranges(values: NDArray[Any], starts: Ints, lengths: Ints) -> NDArray[Any]:
    """Return the stretches ``values[start : start + length]``, one after the other.

    This is ``values[ranges(starts, lengths)]`` without the index array; stretches that touch are a view.

    Examples
    --------
    >>> gather_ranges(np.arange(10.0), np.array([7, 1]), np.array([2, 3]))
    array([7., 8., 1., 2., 3.])
    """
    stops = starts + lengths
    if not len(starts) or (starts[1:] == stops[:-1]).all():
        return values[int(starts[0]) : int(stops[-1])] if len(starts) else values[:0]
    out = np.empty((int(lengths.sum()), *values.shape[1:]), values.dtype)
    words, width = _words(values)
    _gather(words, width, starts, lengths, _words(out)[0])
    return out


def scatter_ranges(values: NDArray[Any], starts: Ints, lengths: Ints, to: Ints, out: NDArray[Any]) -> None:
    """Put the stretches ``values[start : start + length]`` where they belong in `out`, which is contiguous.

    Examples
    --------
    >>> out = np.zeros(5)
    >>> scatter_ranges(np.arange(10.0), np.array([7, 1]), np.array([2, 3]), np.array([3, 0]), out)
    >>> out
    array([1., 2., 3., 7., 8.])
    """
    words, width = _words(values)
    _scatter(words, width, starts, lengths, to, _words(out)[0])


def _words(values: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """The memory as one row of words, and the words of an element: what only copies is compiled once for all types of a size."""
    flat = np.ascontiguousarray(values).reshape(-1)
    words = flat.view(f"i{min(flat.itemsize, 8)}")
    return words, math.prod(values.shape[1:]) * (flat.itemsize // words.itemsize)


@compiled
def _scatter(values, width, starts, lengths, to, out):  # type: ignore[no-untyped-def]
    for i in range(len(starts)):
        source, target = starts[i] * width, to[i] * width
        for j in range(lengths[i] * width):
            out[target + j] = values[source + j]


@compiled
def _gather(values, width, starts, lengths, out):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(len(starts)):
        source, size = starts[i] * width, lengths[i] * width
        for j in range(size):
            out[at + j] = values[source + j]
        at += size


def search_rows(
    sorted_slot: Ints,
    sorted_time: Ints,
    query_slot: Ints,
    query_time: Ints,
    side: Literal["left", "right"] = "left",
) -> Ints:
    """Return where each (slot, time) would be inserted: `numpy.searchsorted` on pairs.

    Parameters
    ----------
    sorted_slot, sorted_time : ndarray of int64
        Rows in order of (slot, time).
    query_slot, query_time : ndarray of int64
        Pairs to look up, in any order.
    side : {"left", "right"}
        Before or after rows that equal the query.

    Examples
    --------
    >>> search_rows(np.array([0, 0, 2]), np.array([10, 20, 5]), np.array([0, 1, 2]), np.array([20, 7, 9]))
    array([1, 2, 3])
    """
    if side not in ("left", "right"):
        raise ParameterError(f"search: side must be 'left' or 'right', got {side!r}")
    rows, queries = (_plain(sorted_slot), _plain(sorted_time)), (_plain(query_slot), _plain(query_time))
    return _search_rows(*rows, *queries, side == "right")


def rows_between(sorted_slot: Ints, sorted_time: Ints, slot: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each slot with a time in ``[low, high]``, and the number of such rows.

    Examples
    --------
    >>> rows_between(np.array([0, 0, 2]), np.array([10, 20, 5]), np.array([0, 2]), np.array([15, 0]), np.array([20, 4]))
    (array([1, 2]), array([1, 0]))
    """
    return _rows_between(*map(_plain, (sorted_slot, sorted_time, slot, low, high)))


def expand_ranges(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return the `concat_ranges` of runs, and before them for each element the number of its run.

    Examples
    --------
    >>> expand_ranges(np.array([5, 0, 9]), np.array([2, 0, 3]))
    (array([0, 0, 2, 2, 2]), array([ 5,  6,  9, 10, 11]))
    """
    return _expand_ranges(_plain(starts), _plain(lengths))


def merge_rows(slot: Ints, time: Ints, other_slot: Ints, other_time: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the rows of two sorted runs as one, and where each stood in the one run followed by the other.

    Examples
    --------
    >>> merge_rows(np.array([0, 2]), np.array([10, 5]), np.array([0, 2]), np.array([10, 1]))
    (array([0, 0, 2, 2]), array([10, 10,  1,  5]), array([0, 2, 3, 1]))
    """
    return _merge_rows(*map(_plain, (slot, time, other_slot, other_time)))


def stable_order(slot: Ints, time: Ints) -> Ints | None:
    """Return the permutation that sorts rows by (slot, time), equal rows in their given order.

    Parameters
    ----------
    slot, time : ndarray of int64
        One row each. Rows in time order with the keys interleaved are the fast case.

    Returns
    -------
    ndarray of int64 or None
        None when the rows are in order already, so that the caller need not copy them.

    Examples
    --------
    >>> stable_order(np.array([1, 0, 1, 0]), np.array([1, 2, 3, 4]))
    array([1, 3, 0, 2])
    >>> stable_order(np.array([0, 0, 1]), np.array([1, 2, 0])) is None
    True
    """
    slot, time = _plain(slot), _plain(time)
    if _is_sorted(slot, time):
        return None
    order = order_by_slot(slot)
    if (time[1:] < time[:-1]).any():
        _sort_times_within_slots(order, slot, time)
    return order


def intersect_ranges(
    slot_a: Ints, first_a: Ints, next_a: Ints, slot_b: Ints, first_b: Ints, next_b: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return all overlaps between two lists of runs ``[first, next)``.

    Parameters
    ----------
    slot_a, first_a, next_a, slot_b, first_b, next_b : ndarray of int64
        Two lists, each in order of (slot, first) and without overlap in itself.

    Returns
    -------
    ia, ib, start, stop : ndarray of int64
        Run ``ia[n]`` of the first and ``ib[n]`` of the second list share ``[start[n], stop[n])``, which is not empty.
        In order of (slot, start).

    Examples
    --------
    >>> a = np.array([0, 0]), np.array([0, 10]), np.array([8, 20])
    >>> b = np.array([0, 1]), np.array([5, 0]), np.array([12, 9])
    >>> intersect_ranges(*a, *b)
    (array([0, 1]), array([0, 0]), array([ 5, 10]), array([ 8, 12]))
    """
    a, b = (_plain(slot_a), _plain(first_a), _plain(next_a)), (_plain(slot_b), _plain(first_b), _plain(next_b))
    found = _intersect_ranges(*a, *b)
    return found[0], found[1], found[2], found[3]


def _plain(x: Ints) -> Ints:
    # One layout and type, so that each loop is compiled once.
    return np.ascontiguousarray(x, dtype=np.int64)


def order_by_slot(slot: Ints) -> Ints:
    """Return the permutation that sorts rows by slot, rows of one slot in their given order."""
    lowest, highest = int(slot.min(initial=0)), int(slot.max(initial=0))
    if lowest < 0:
        return np.argsort(slot, kind="stable")
    return _counting_order(slot, highest + 1) if highest < _SLOTS_PER_ROW * len(slot) else _digit_order(slot, highest)


@compiled
def _counting_order(slot, slots):  # type: ignore[no-untyped-def]
    place = np.zeros(slots + 1, np.int64)
    for s in slot:
        place[s + 1] += 1
    for s in range(slots):
        place[s + 1] += place[s]
    order = np.empty(len(slot), np.int64)
    for i in range(len(slot)):
        order[place[slot[i]]] = i
        place[slot[i]] += 1
    return order


@compiled
def _digit_order(slot, highest):  # type: ignore[no-untyped-def]
    """As `_counting_order`, digit by digit: for few rows among many slots, whose array would be larger than the rows."""
    rows, digits = len(slot), 1 << _DIGIT
    number, other = np.empty(rows, np.int64), np.empty(rows, np.int64)
    order, moved = np.empty(rows, np.int64), np.empty(rows, np.int64)
    place = np.empty(digits + 1, np.int64)
    for i in range(rows):
        number[i], order[i] = slot[i], i
    shift = 0
    while shift < 63 and highest >> shift:
        for d in range(digits + 1):
            place[d] = 0
        for i in range(rows):
            place[((number[i] >> shift) & (digits - 1)) + 1] += 1
        for d in range(digits):
            place[d + 1] += place[d]
        for i in range(rows):
            digit = (number[i] >> shift) & (digits - 1)
            to = place[digit]
            place[digit] += 1
            other[to], moved[to] = number[i], order[i]
        number, other, order, moved = other, number, moved, order
        shift += _DIGIT
    return order


@compiled
def _sort_times_within_slots(order, slot, time):  # type: ignore[no-untyped-def]
    rows = len(order)
    slots, times = np.empty(rows, np.int64), np.empty(rows, np.int64)
    longest = run = 1
    for i in range(rows):
        slots[i], times[i] = slot[order[i]], time[order[i]]
        run = run + 1 if i and slots[i] == slots[i - 1] else 1
        longest = max(longest, run)
    scratch = np.empty((3, longest + 1), np.int64)
    start = 0
    while start < rows:
        stop, ordered, low, high = start + 1, True, times[start], times[start]
        while stop < rows and slots[stop] == slots[start]:
            ordered &= times[stop - 1] <= times[stop]
            low, high = min(low, times[stop]), max(high, times[stop])
            stop += 1
        if not ordered:
            _sort_slot(order[start:stop], times[start:stop], low, high, scratch)
        start = stop


@compiled
def _sort_slot(order, times, low, high, scratch):  # type: ignore[no-untyped-def]
    """Sort one run in place by as many boxes of equal width as it has rows, which for samples is one row a box."""
    n, most = len(order), 0
    place, rows, unsorted = scratch[0], scratch[1], scratch[2]
    # Unsigned: the difference of two times may not fit a signed number.
    scale = n / (np.float64(np.uint64(high) - np.uint64(low)) + 1.0)
    for i in range(n + 1):
        place[i] = 0
    for i in range(n):
        rows[i], unsorted[i] = order[i], times[i]
        box = _box(times[i], low, scale, n)
        place[box + 1] += 1
        most = max(most, place[box + 1])
    if most > _ROWS_PER_BOX:
        _merge_sort(order, times, rows, unsorted)
        return
    for i in range(n):
        place[i + 1] += place[i]
    for i in range(n):
        box = _box(unsorted[i], low, scale, n)
        to = place[box]
        place[box] += 1
        order[to], times[to] = rows[i], unsorted[i]
    for i in range(1, n):
        row, time, j = order[i], times[i], i
        while j > 0 and times[j - 1] > time:
            order[j], times[j] = order[j - 1], times[j - 1]
            j -= 1
        order[j], times[j] = row, time


@compiled
def _box(time, low, scale, n):  # type: ignore[no-untyped-def]
    return min(int(np.float64(np.uint64(time) - np.uint64(low)) * scale), n - 1)


@compiled
def _merge_sort(order, times, rows, unsorted):  # type: ignore[no-untyped-def]
    """Sort one run in place, however its times lie; `rows` and `unsorted` are room for it."""
    n, width = len(order), 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for to in range(low, high):
                if i < middle and (j == high or times[i] <= times[j]):
                    rows[to], unsorted[to] = order[i], times[i]
                    i += 1
                else:
                    rows[to], unsorted[to] = order[j], times[j]
                    j += 1
        for i in range(n):
            order[i], times[i] = rows[i], unsorted[i]
        width *= 2


@compiled
def _is_sorted(slot, time):  # type: ignore[no-untyped-def]
    for i in range(1, len(slot)):  # noqa: SIM110 (compiled)
        if slot[i] < slot[i - 1] or (slot[i] == slot[i - 1] and time[i] < time[i - 1]):
            return False
    return True


@compiled
def _is_left_of(slot, time, query_slot, query_time, after_equal):  # type: ignore[no-untyped-def]
    if slot != query_slot:
        return slot < query_slot
    return time < query_time or (after_equal and time == query_time)


@compiled
def _search_rows(sorted_slot, sorted_time, query_slot, query_time, after_equal):  # type: ignore[no-untyped-def]
    found = np.empty(len(query_slot), np.int64)
    last = 0
    for q in range(len(query_slot)):
        s, t = query_slot[q], query_time[q]
        # Queries often come in order: search from the last answer on, in steps that double.
        low, high, step = 0, len(sorted_slot), 1
        if last > 0 and _is_left_of(sorted_slot[last - 1], sorted_time[last - 1], s, t, after_equal):
            low = last
            while low + step < high and _is_left_of(
                sorted_slot[low + step], sorted_time[low + step], s, t, after_equal
            ):
                low += step + 1
                step *= 2
            high = min(low + step, high)
        while low < high:
            middle = (low + high) // 2
            if _is_left_of(sorted_slot[middle], sorted_time[middle], s, t, after_equal):
                low = middle + 1
            else:
                high = middle
        found[q] = last = low
    return found


@compiled
def _rows_between(sorted_slot, sorted_time, slot, low, high):  # type: ignore[no-untyped-def]
    first = _search_rows(sorted_slot, sorted_time, slot, low, False)
    counts = np.empty(len(slot), np.int64)
    for q in range(len(slot)):
        # Few rows lie between both ends: search the second from the first on, in steps that double.
        below, step, above = first[q], 1, len(sorted_slot)
        while below + step <= above and _is_left_of(
            sorted_slot[below + step - 1], sorted_time[below + step - 1], slot[q], high[q], True
        ):
            below += step
            step *= 2
        above = min(below + step - 1, above)
        while below < above:
            middle = (below + above) // 2
            if _is_left_of(sorted_slot[middle], sorted_time[middle], slot[q], high[q], True):
                below = middle + 1
            else:
                above = middle
        counts[q] = below - first[q]
    return first, counts


@compiled
def _expand_ranges(starts, lengths):  # type: ignore[no-untyped-def]
    size = 0
    for i in range(len(lengths)):
        size += lengths[i]
    run, position, n = np.empty(size, np.int64), np.empty(size, np.int64), 0
    for i in range(len(starts)):
        for at in range(starts[i], starts[i] + lengths[i]):
            run[n], position[n] = i, at
            n += 1
    return run, position


@compiled
def _merge_rows(slot_a, time_a, slot_b, time_b):  # type: ignore[no-untyped-def]
    rows = len(slot_a) + len(slot_b)
    slot, time, order = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    i = j = 0
    for n in range(len(slot)):
        if j == len(slot_b) or (
            i < len(slot_a) and (slot_a[i] < slot_b[j] or (slot_a[i] == slot_b[j] and time_a[i] <= time_b[j]))
        ):
            slot[n], time[n], order[n] = slot_a[i], time_a[i], i
            i += 1
        else:
            slot[n], time[n], order[n] = slot_b[j], time_b[j], len(slot_a) + j
            j += 1
    return slot, time, order


@compiled
def _intersect_ranges(slot_a, first_a, next_a, slot_b, first_b, next_b):  # type: ignore[no-untyped-def]
    # Every step leaves one run behind, so there are at most this many overlaps.
    found = np.empty((4, len(slot_a) + len(slot_b)), np.int64)
    i = j = n = 0
    while i < len(slot_a) and j < len(slot_b):
        if slot_a[i] != slot_b[j]:
            behind = slot_a[i] < slot_b[j]
        else:
            start, stop = max(first_a[i], first_b[j]), min(next_a[i], next_b[j])
            if start < stop:
                found[0, n], found[1, n], found[2, n], found[3, n] = i, j, start, stop
                n += 1
            behind = next_a[i] < next_b[j]
        i, j = (i + 1, j) if behind else (i, j + 1)
    return found[:, :n]
