"""Sums, extremes and moments of the last samples: compiled loops over runs, which `Rolling` is made of.

There are no running totals. A window is the end of one block of `size` samples of the absolute grid and the beginning of the next. Each of
the two parts is aggregated once for all windows, from the border between the blocks outwards. So nothing of a loud sample is left
once it is out of the window, no cut can change a bit, and a sample costs the same for any size.

The walk along the blocks stands in each of the loops: one that took the arithmetic as a function would be compiled anew in every
process, because Numba keeps no such function in its cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.model.batch import COLUMNS_AT_ONCE, Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.ops.filters.hampel import moving_medians

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class MovingWindows:
    """Windows over a buffer.

    Attributes
    ----------
    there : for every row of the buffer, whether it counts
    shift : sample k of each run is row ``shift + k``
    last : the index of the last sample of the first window of each run; others follow every `hop` samples
    counts : windows of each run, at least one
    """

    there: npt.NDArray[np.int8]
    shift: Ints
    last: Ints
    counts: Ints
    size: int
    hop: int

    @property
    def _where(self) -> tuple[Any, ...]:
        return self.shift, self.last, self.counts, self.size, self.hop

    def _room(self, x: Array, dtype: Any) -> Array:
        return np.empty((int(self.counts.sum()), x.shape[1]), dtype)

    def sums(self, x: Array) -> Array:
        """Sums of all rows; those that do not count must be zero."""
        x = np.ascontiguousarray(x)
        out = self._room(x, x.dtype)
        _sums(*(x, *self._where, out))
        return out

    def numbers(self) -> Ints:
        """How many rows count."""
        return np.asarray(self.sums(self.there[:, None].astype(np.int64)))

    def extremes(self, x: Array, largest: bool) -> Array:
        """The largest or smallest, or NaN where there is one."""
        # Adding zero makes -0.0 plain: which of the two zeros is larger would depend on the cut.
        x = x + x.dtype.type(0)
        out = self._room(x, x.dtype)
        _extremes(*(np.ascontiguousarray(x), self.there, *self._where, largest, out))
        return out

    def spreads(self, x: Array) -> Array:
        """Sums of squared distances from the mean."""
        out = self._room(x, np.float64)
        _spreads(*(np.ascontiguousarray(x, np.float64), self.there, *self._where, out))
        return out

    def moments(self, x: Array) -> Array:
        """The mean, and the sums of the second, third and fourth powers of the distance from it."""
        out = np.empty((4, int(self.counts.sum()), x.shape[1]))
        _moments(*(np.ascontiguousarray(x, np.float64), self.there, *self._where, out))
        return out

    def medians(self, x: Array) -> Array:
        """Medians, or NaN where there is one."""
        if self.hop > 1 and self.hop * _FAR >= self.size and self.there.all():
            return self._medians_apart(x)
        at = self.last + self.shift
        until = (self.counts - 1) * self.hop + 1
        offsets = np.concatenate([[0], np.cumsum(until)])
        middle, _, bad = moving_medians(x.astype(np.float64), self.there, at, offsets, self.size, distances=False)
        found = np.where(bad > 0, np.nan, middle)
        if self.hop == 1:
            return found
        inside = np.arange(len(found)) - np.repeat(offsets[:-1], until)
        return found[inside % self.hop == 0]

    def _medians_apart(self, x: Array) -> Array:
        """Each by itself, some at once: windows that lie far apart have little in common."""
        begin = np.repeat(self.last + self.shift - self.size + 1, self.counts)
        begin += concat_ranges(np.zeros_like(self.counts), self.counts) * self.hop
        windows = np.lib.stride_tricks.sliding_window_view(x, self.size, axis=0)
        out, some = self._room(x, np.float64), max(1, COLUMNS_AT_ONCE // self.size)
        for i in range(0, len(begin), some):
            rows = windows[begin[i : i + some]].astype(np.float64, copy=False)
            rows += 0.0  # as in `moving_medians`
            out[i : i + some] = np.median(rows, axis=2, overwrite_input=True)
        return out


_FAR = 8
"""Windows whose hop is at least this part of their size are sorted apart."""


@compiled
def _sums(x: Any, shift: Any, last: Any, counts: Any, size: int, hop: int, out: Any) -> None:
    tail = np.zeros(size + 1, x.dtype)
    first = 0
    for run in range(len(shift)):
        for c in range(x.shape[1]):
            k, n, stop = last[run], first, first + counts[run]
            while n < stop:
                block = k - k % size
                base = shift[run] + block
                total = head = tail[size]  # nothing yet
                for j in range(-1, k - block - size, -1):
                    total += x[base + j, c]
                    tail[j + size] = total
                if hop == 1:
                    begin, end = k - block, min(size, k - block + stop - n)
                    for j in range(begin):
                        head += x[base + j, c]
                    for j in range(begin, end):
                        head += x[base + j, c]
                        out[n + j - begin, c] = tail[j + 1] + head
                    n, k = n + end - begin, k + end - begin
                    continue
                j = 0
                while n < stop and k < block + size:
                    while j <= k - block:
                        head += x[base + j, c]
                        j += 1
                    out[n, c] = tail[k + 1 - block] + head
                    n, k = n + 1, k + hop
        first += counts[run]


@compiled
def _extremes(
    x: Any, there: Any, shift: Any, last: Any, counts: Any, size: int, hop: int, largest: bool, out: Any
) -> None:
    """NaN is larger and smaller than everything."""
    tail, known = np.zeros(size + 1, x.dtype), np.zeros(size + 1, np.bool_)
    first = 0
    for run in range(len(shift)):
        for c in range(x.shape[1]):
            k, n, stop = last[run], first, first + counts[run]
            while n < stop:
                block = k - k % size
                base = shift[run] + block
                for j in range(-1, k - block - size, -1):
                    i = j + size
                    tail[i], known[i] = tail[i + 1], known[i + 1]
                    if there[base + j]:
                        tail[i] = _is_more_extreme(tail[i], x[base + j, c], largest) if known[i] else x[base + j, c]
                        known[i] = True
                head, begun, j = tail[size], False, 0
                while n < stop and k < block + size:
                    while j <= k - block:
                        if there[base + j]:
                            head = _is_more_extreme(head, x[base + j, c], largest) if begun else x[base + j, c]
                            begun = True
                        j += 1
                    i = k + 1 - block
                    value = head if begun else tail[i]
                    out[n, c] = _is_more_extreme(value, tail[i], largest) if known[i] else value
                    n, k = n + 1, k + hop
        first += counts[run]


@compiled
def _is_more_extreme(a: Any, b: Any, largest: bool) -> Any:
    if a != a:
        return a
    return b if b != b or (b > a if largest else b < a) else a


# Rows of a table by their number, not as arrays of their own: counting references to these would take longer than the arithmetic.


@compiled
def _spreads(x: Any, there: Any, shift: Any, last: Any, counts: Any, size: int, hop: int, out: Any) -> None:
    """By Welford's method in each part and Chan's where they meet.

    All windows of a block hold its first sample. What it is subtracted from is small where samples are large and alike.
    """
    part, head = np.zeros((size + 2, 3)), size + 1  # the row before it stays zero
    first = 0
    for run in range(len(shift)):
        for c in range(x.shape[1]):
            k, n, stop = last[run], first, first + counts[run]
            while n < stop:
                block = k - k % size
                base, near = shift[run] + block, 0.0
                for j in range(base, base + min(size, k - block + (stop - n - 1) * hop + 1)):
                    if there[j]:
                        near = x[j, c] if x[j, c] - x[j, c] == 0 else 0.0
                        break
                for j in range(-1, k - block - size, -1):
                    _welford(part, j + size + 1, there[base + j], x[base + j, c] - near, j + size)
                for m in range(3):
                    part[head, m] = 0
                j = 0
                while n < stop and k < block + size:
                    while j <= k - block:
                        _welford(part, head, there[base + j], x[base + j, c] - near, head)
                        j += 1
                    tail = k + 1 - block
                    both = part[head, 0] + part[tail, 0]
                    out[n, c] = part[head, 2] + part[tail, 2]
                    if part[head, 0] > 0 and part[tail, 0] > 0:
                        gap = part[head, 1] - part[tail, 1]
                        out[n, c] += gap * gap * (part[head, 0] / both) * part[tail, 0]
                    n, k = n + 1, k + hop
        first += counts[run]


@compiled
def _welford(part: Any, source: int, there: int, value: float, target: int) -> None:
    """Number, mean and squared distances of a row and one more value, into another row."""
    number, mean, squares = part[source, 0], part[source, 1], part[source, 2]
    if there:
        number += 1
        gap = value - mean
        mean += gap / number
        squares += gap * (value - mean)
    part[target, 0], part[target, 1], part[target, 2] = number, mean, squares


@compiled
def _moments(x: Any, there: Any, shift: Any, last: Any, counts: Any, size: int, hop: int, out: Any) -> None:
    part, head = np.zeros((size + 2, 5)), size + 1
    first = 0
    for run in range(len(shift)):
        for c in range(x.shape[1]):
            k, n, stop = last[run], first, first + counts[run]
            while n < stop:
                block = k - k % size
                base = shift[run] + block
                for j in range(-1, k - block - size, -1):
                    _add(part, j + size + 1, there[base + j], x[base + j, c], j + size)
                for m in range(5):
                    part[head, m] = 0
                j = 0
                while n < stop and k < block + size:
                    while j <= k - block:
                        _add(part, head, there[base + j], x[base + j, c], head)
                        j += 1
                    _merge(part, k + 1 - block, head, out, n, c)
                    n, k = n + 1, k + hop
        first += counts[run]


@compiled
def _add(part: Any, source: int, there: int, value: float, target: int) -> None:
    """As `_welford`, with sums of the third and fourth powers of the distance from the mean."""
    n, mean = part[source, 0], part[source, 1]
    m2, m3, m4 = part[source, 2], part[source, 3], part[source, 4]
    if there and n == 0:
        n, mean = 1.0, value
    elif there:
        share = 1 / (n + 1)
        d, rest = value - mean, 1 - share
        step = d * share
        grown = d * step * n
        m4 += grown * d * d * (rest * rest - rest * share + share * share) + 6 * step * step * m2 - 4 * step * m3
        m3 += grown * d * (rest - share) - 3 * step * m2
        m2 += grown
        n, mean = n + 1, mean + step
    part[target, 0], part[target, 1], part[target, 2], part[target, 3], part[target, 4] = n, mean, m2, m3, m4


@compiled
def _merge(part: Any, a: int, b: int, out: Any, n: int, c: int) -> None:
    """Moments of two sets together, after Pebay (2008)."""
    na, nb = part[a, 0], part[b, 0]
    if na == 0 or nb == 0:
        for i in range(4):
            out[i, n, c] = part[b if na == 0 else a, i + 1]
        return
    d = part[b, 1] - part[a, 1]
    ra, rb = na / (na + nb), nb / (na + nb)
    a2, b2, a3, b3 = part[a, 2], part[b, 2], part[a, 3], part[b, 3]
    grown = d * d * na * rb
    out[0, n, c] = part[a, 1] + d * rb
    out[1, n, c] = a2 + b2 + grown
    out[2, n, c] = a3 + b3 + grown * d * (ra - rb) + 3 * d * (ra * b2 - rb * a2)
    out[3, n, c] = (
        part[a, 4]
        + part[b, 4]
        + grown * d * d * (ra * ra - ra * rb + rb * rb)
        + 6 * d * d * (ra * ra * b2 + rb * rb * a2)
        + 4 * d * (ra * b3 - rb * a3)
    )
