"""Aggregates of the last samples: at every sample, over those before it and itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from hydrophone.batch import Batch, Ints, Mask, Segments
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.kernel import Kernel, Marks
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import Extended, History
from hydrophone.ops.ranks import medians
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType

HOW = ("sum", "mean", "min", "max", "std", "energy", "rms", "median")


@dataclass(frozen=True, kw_only=True, eq=False)
class Moving(Node):
    """An aggregate of the last `size` samples; reference: ``how(sliding_window_view(x, size), axis=-1)`` with NumPy's ``sum``, ``std``, ….

    Start and gap: ``drop`` gives nothing until the last `size` beats all have a sample; ``skip`` aggregates those that are
    there, as pandas' ``rolling(size, min_periods=1)`` over all beats. End: nothing follows the last sample.
    NaN: as NumPy, a window that holds one gives NaN (for ``energy`` and ``rms`` too), and no other window does.

    There is no running total. Each window is the sum of two parts, each begun anew at a multiple of `size` on the absolute
    grid: nothing of a loud sample is left once it is out of the window, no cut can change a bit, and a sample costs the same
    for any size.
    """

    how: str
    size: int
    ddof: int = 0
    missing: str = "drop"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A known aggregate of at least one sample."""
        what = f"moving_{self.how}"
        if self.how not in HOW:
            raise ParameterError(f"moving: how must be one of {', '.join(HOW)}, got {self.how!r}")
        if self.size < 1:
            raise ParameterError(f"{what}: size must be at least 1 sample, got {self.size}")
        if not 0 <= self.ddof < self.size:
            raise ParameterError(f"{what}: ddof must be at least 0 and below the size, got {self.ddof}")
        if self.missing not in ("drop", "skip"):
            raise ParameterError(f"{what}: missing must be one of 'drop', 'skip', got {self.missing!r}")

    def output_type(self, x: UniformType) -> UniformType:
        """Sums of whole numbers are whole, extremes have the type of the samples; all else is at least double precision."""
        if x.dtype.kind == "c" and self.how in ("min", "max", "std", "median"):
            raise SignalTypeError(f"moving_{self.how}: {x.describe()} has no order", hint="take the magnitude() first")
        return UniformType(x.key, x.time, x.clock, _dtype(self.how, x.dtype), x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """The samples in the window."""
        return Reach.samples(x.timebase, before=self.size - 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Aggregate."""
        return MovingKernel(self.how, self.size, self.ddof, self.missing == "skip", x, self.type)


def _dtype(how: str, x: np.dtype[Any]) -> np.dtype[Any]:
    if how in ("min", "max"):
        return x
    if how == "sum" and x.kind in "iu":
        return np.dtype(np.int64)
    return np.result_type(x, np.float64) if how in ("sum", "mean") else np.dtype(np.float64)


class MovingKernel(Kernel):
    """The last samples of every key; with ``skip`` also which of them are there."""

    def __init__(self, how: str, size: int, ddof: int, skip: bool, kind: UniformType, out: UniformType) -> None:
        self.how, self.size, self.ddof, self.skip, self.out = how, size, ddof, skip, out
        self.grids = Grids(kind.timebase)
        missing = Missing.ZERO if skip else Missing.DROP
        self.history = History(size - 1, kind.dtype, kind.channels, missing)
        self.there = History(size - 1 if skip else 0, np.dtype(np.int8), 0, missing)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Aggregate in one batch."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        wide = self.history.extend(batch, len(self.keys))
        ones = np.ones(len(wide.values), np.int8)
        if self.skip:
            ones = self.there.extend(batch.with_values(np.ones(len(batch.values), np.int8)), len(self.keys)).values
        with np.errstate(all="ignore"):
            values = aggregate(self.how, wide, ones, batch, self.size, self.ddof)
        y = batch.with_values(values.astype(self.out.dtype, copy=False).reshape(batch.values.shape))
        if self.skip:
            return (y,)
        return (y.cut(np.arange(len(y)), np.minimum(y.first + self.history.size - wide.seen, y.next), y.next),)

    def idle(self, marks: Marks) -> Mask:
        """Keys that have been silent for a whole window."""
        return self.history.idle(self.grids, len(self.keys), marks[0])


def aggregate(
    how: str, wide: Extended, there: npt.NDArray[np.int8], x: Segments, size: int, ddof: int = 0
) -> npt.NDArray[Any]:
    """One aggregate for every sample of a batch, a row each; `there` marks the samples of the buffer that count."""
    values = wide.values.reshape(len(wide.values), -1)
    runs = wide.at, x.first, x.offsets, size
    shape = (int(x.offsets[-1]), values.shape[1])
    if how in ("min", "max"):
        # Adding zero makes -0.0 plain: which of the two zeros is larger would depend on the cut.
        best = np.empty(shape, values.dtype)
        _extremes(values + values.dtype.type(0), there, *runs, how == "max", best)
        return best
    if how == "median":
        middle, _, bad = medians(values.astype(np.float64), there, wide.at, x.offsets, size)
        return np.where(bad > 0, np.nan, middle)
    if how == "std":
        spread, count = np.empty(shape), np.empty(shape)
        _spreads(values.astype(np.float64), there, *runs, spread, count)
        return np.sqrt(np.where(count > ddof, spread / (count - ddof), np.nan))
    if how in ("energy", "rms"):
        values = values.real.astype(np.float64) ** 2 + (values.imag**2 if values.dtype.kind == "c" else 0)
    total = sums(values, *runs, np.int64 if how == "sum" and values.dtype.kind in "iu" else None)
    if how in ("sum", "energy"):
        return total
    mean = total / sums(there[:, None], *runs, np.int64)
    return np.sqrt(mean) if how == "rms" else mean


def sums(
    values: npt.NDArray[Any], at: Ints, first: Ints, offsets: Ints, size: int, dtype: Any = None
) -> npt.NDArray[Any]:
    """The sum of the last `size` rows of a buffer at every sample."""
    values = np.ascontiguousarray(values, dtype or np.result_type(values, np.float64))
    total = np.empty((int(offsets[-1]), values.shape[1]), values.dtype)
    _sums(values, at, first, offsets, size, total)
    return total


@numba.njit(cache=True, nogil=True)
def _sums(x: Any, at: Any, first: Any, offsets: Any, size: int, total: Any) -> None:
    """Block by block of the absolute grid: the end of the block before, summed backwards, and the begin of this one."""
    tail = np.zeros((size + 1, x.shape[1]), x.dtype)
    for run in range(len(at)):
        shift, k, end = at[run] - first[run], first[run], first[run] + offsets[run + 1] - offsets[run]
        while k < end:
            block = k - k % size
            stop = min(block + size, end)
            tail[size] = 0
            for j in range(block - 1, k - size, -1):
                for c in range(x.shape[1]):
                    tail[j - block + size, c] = tail[j - block + size + 1, c] + x[j + shift, c]
            for c in range(x.shape[1]):
                head = tail[size, c]
                for j in range(block, stop):
                    head += x[j + shift, c]
                    if j >= k:
                        total[offsets[run] + j - first[run], c] = tail[j + 1 - block, c] + head
            k = stop


@numba.njit(cache=True, nogil=True)
def _extremes(x: Any, there: Any, at: Any, first: Any, offsets: Any, size: int, largest: bool, best: Any) -> None:
    """As `_sums`; NaN is larger and smaller than everything."""
    tail, known = np.zeros(size + 1, x.dtype), np.zeros(size + 1, np.bool_)
    for run in range(len(at)):
        shift, end = at[run] - first[run], first[run] + offsets[run + 1] - offsets[run]
        for c in range(x.shape[1]):
            k = first[run]
            while k < end:
                block = k - k % size
                stop = min(block + size, end)
                for j in range(block - 1, k - size, -1):
                    i = j - block + size
                    tail[i], known[i] = tail[i + 1], known[i + 1]
                    if there[j + shift]:
                        tail[i] = _better(tail[i], x[j + shift, c], largest) if known[i] else x[j + shift, c]
                        known[i] = True
                head, begun = x[0, c], False
                for j in range(block, stop):
                    if there[j + shift]:
                        head = _better(head, x[j + shift, c], largest) if begun else x[j + shift, c]
                        begun = True
                    if j >= k:
                        i = j + 1 - block
                        value = head if begun else tail[i]
                        best[offsets[run] + j - first[run], c] = _better(value, tail[i], largest) if known[i] else value
                k = stop


@numba.njit(cache=True, nogil=True)
def _better(a: Any, b: Any, largest: bool) -> Any:
    if a != a:
        return a
    return b if b != b or (b > a if largest else b < a) else a


@numba.njit(cache=True, nogil=True)
def _spreads(x: Any, there: Any, at: Any, first: Any, offsets: Any, size: int, spread: Any, count: Any) -> None:
    """As `_sums`: squared distances from the mean, by Welford's method in each part and Chan's where they meet.

    All windows of a block hold its first sample. What it is subtracted from is small where samples are large and alike.
    """
    tail = np.zeros((size + 1, 3))
    for run in range(len(at)):
        shift, end = at[run] - first[run], first[run] + offsets[run + 1] - offsets[run]
        for c in range(x.shape[1]):
            k = first[run]
            while k < end:
                block = k - k % size
                stop = min(block + size, end)
                near = 0.0
                for j in range(block, stop):
                    if there[j + shift]:
                        near = x[j + shift, c] if x[j + shift, c] - x[j + shift, c] == 0 else 0.0
                        break
                for j in range(block - 1, k - size, -1):
                    i = j - block + size
                    tail[i] = tail[i + 1]
                    if there[j + shift]:
                        _welford(tail[i], x[j + shift, c] - near)
                head = np.zeros(3)
                for j in range(block, stop):
                    if there[j + shift]:
                        _welford(head, x[j + shift, c] - near)
                    if j >= k:
                        before, n = tail[j + 1 - block], offsets[run] + j - first[run]
                        count[n, c] = both = head[0] + before[0]
                        gap = head[1] - before[1] if head[0] > 0 and before[0] > 0 else 0.0
                        spread[n, c] = head[2] + before[2]
                        if both > 0:
                            spread[n, c] += gap * gap * (head[0] / both) * before[0]
                k = stop


@numba.njit(cache=True, nogil=True)
def _welford(part: Any, value: float) -> None:
    part[0] += 1
    gap = value - part[1]
    part[1] += gap / part[0]
    part[2] += gap * (value - part[1])
