"""Aggregates of windows: sums, extremes and moments, over samples (without cutting windows) and over arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from hydrophone.batch import Batch, Mask, Segments
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.ops.arrays import refuse_complex
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import History
from hydrophone.ops.reduce import Label, ReduceKernel, check_at
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType, WindowedType
from hydrophone.runs import ranges

Array = npt.NDArray[Any]

KINDS = ("sum", "mean", "min", "max", "energy", "power", "rms", "std", "kurtosis", "crest")
_REAL = ("min", "max", "std", "kurtosis", "crest")
_KEEP = ("min", "max")


def aggregate_dtype(kind: str, x: np.dtype[Any]) -> np.dtype[Any]:
    """Extremes keep the type, sums of whole numbers stay whole, everything else is at least double precision."""
    if kind in _KEEP:
        return x
    if kind == "sum" and x.kind in "iu":
        return np.dtype(np.uint64 if x.kind == "u" else np.int64)
    if kind in ("sum", "mean"):
        return np.result_type(x, np.float64)
    return np.dtype(np.float64)


def check_kind(what: str, kind: str) -> None:
    """A user's word for an aggregate."""
    if kind not in KINDS:
        raise ParameterError(f"{what}: no aggregate {kind!r}; there are: {', '.join(KINDS)}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rolling(Node):
    """An aggregate of the last `size` samples, every `hop` samples.

    Reference: NumPy's function of that name over ``sliding_window_view(x, size)[::hop]``; ``energy`` is ``sum(abs(x)**2)``, ``power``
    its mean, ``rms`` the root of that, ``crest`` ``max(abs(x)) / rms``, ``std`` that of the population, ``kurtosis``
    ``scipy.stats.kurtosis`` (the excess, NaN where all samples are equal).

    Start and gap: no value for a window that lacks a sample. End: nothing follows the last whole window. A NaN leaves with its window.

    Nothing is ever subtracted: a window is the end of one block of `size` samples and the beginning of the next, and
    both are aggregated once for all windows. So the cost per sample does not grow with ``size / hop``, and no error stays behind.
    """

    kind: str
    size: int
    hop: int
    at: str = "end"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """An aggregate, and at least one sample."""
        check_kind("rolling", self.kind)
        check_at(self.kind, self.at)
        if self.size < 1:
            raise ParameterError(f"{self.kind}: size must be at least 1 sample, got {self.size}")
        if self.hop < 1:
            raise ParameterError(
                f"{self.kind}: hop must be at least 1 sample, got {self.hop}",
                hint="hop=size makes windows that do not overlap",
            )

    def output_type(self, x: UniformType) -> UniformType:
        """One value per hop; every channel by itself."""
        if self.kind in _REAL:
            refuse_complex(self.kind, x.dtype, "take abs() or real() first")
        grid = Label(self.size, self.hop, self.at).regrid
        dtype = aggregate_dtype(self.kind, x.dtype)
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, grid.timebase(x.timebase))

    def reach(self, x: UniformType) -> Reach:
        """The samples of the window."""
        own = Reach.samples(x.timebase, before=self.size - 1)
        return own + Label(self.size, self.hop, self.at).reach(x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """Aggregate."""
        return RollingKernel(self, x)


class RollingKernel(Kernel):
    """The last ``size - 1`` samples of every key; blocks lie on the absolute grid, so that no cut can change a bit."""

    def __init__(self, node: Rolling, kind: UniformType) -> None:
        self.kind, self.size, self.hop, self.timebase = node.kind, node.size, node.hop, kind.timebase
        self.dtype = aggregate_dtype(node.kind, kind.dtype)
        self.label = Label(node.size, node.hop, node.at)
        self.grids = Grids(kind.timebase)
        self.history = History(node.size - 1, kind.dtype, kind.channels, Missing.DROP)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """All windows that end inside the runs of the batch."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        wide = self.history.extend(batch, len(self.keys))
        start = batch.first - wide.seen  # the first window that may begin, on the grid of the hops
        start = np.maximum(start, batch.first - self.size + 1)
        start += -start % self.hop
        counts = np.maximum(-((start + self.size - 1 - batch.next) // self.hop), 0)
        if not counts.any():
            return ()
        places = wide.at - batch.first
        values = wide.values.reshape(len(wide.values), -1)
        columns = [
            self._column(np.ascontiguousarray(values[:, c]), start, counts, places) for c in range(values.shape[1])
        ]
        out = columns[0] if batch.values.ndim == 1 else np.stack(columns, axis=1)
        last = ranges(start, counts)  # counts of hops, scaled below
        which = np.repeat(np.arange(len(batch)), counts)
        last = start[which] + (last - start[which]) * self.hop + self.size - 1
        base = self.label.regrid.bases(batch.base)
        return (Segments.of_samples(batch.slot[which], self.label.index(last), out, base),)

    def _column(self, x: Array, start: Array, counts: Array, places: Array) -> Array:
        where = start, counts, places, self.size, self.hop
        with np.errstate(all="ignore"):
            return finish(
                self.kind,
                self.size,
                lambda v: _sums(v, *where),
                lambda v: _blocks(v, *where, 1 if self.kind == "min" else 2),
                lambda v: _moments(v, *where),
                x,
            ).astype(self.dtype, copy=False)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], int]:
        """Nothing waits."""
        return (), self.label.mark(marks[0], self.timebase)

    def idle(self, marks: Marks) -> Mask:
        """Keys whose last window is complete and cannot be followed by another that overlaps it."""
        return self.history.idle(self.grids, len(self.keys), marks[0])


def finish(
    kind: str,
    size: int,
    total: Callable[[Array], Array],
    extreme: Callable[[Array], Array],
    moments: Callable[[Array], Array],
    x: Array,
) -> Array:
    """An aggregate from sums, extremes and moments (mean, and sums of the second to fourth powers of the rest)."""
    wide = np.result_type(x.dtype, np.float64)
    if kind in _KEEP:
        return extreme(x)
    if kind == "sum":
        return total(x.astype(aggregate_dtype("sum", x.dtype), copy=False))
    if kind == "mean":
        return total(x.astype(wide, copy=False)) / size
    if kind in ("std", "kurtosis"):
        mean, second, _, fourth = moments(x.astype(np.float64, copy=False))
        if kind == "std":
            return np.where(np.isfinite(mean), np.sqrt(second / size), np.nan)
        flat = ~np.isfinite(mean) | (second / size <= (np.finfo(np.float64).eps * mean) ** 2)
        return np.where(flat, np.nan, size * fourth / np.where(flat, 1, second) ** 2 - 3)
    energy = total(_squares(x))
    if kind == "energy":
        return energy
    if kind == "power":
        return energy / size
    rms = np.sqrt(energy / size)
    return np.asarray(rms if kind == "rms" else extreme(np.abs(x.astype(np.float64, copy=False))) / rms)


def _squares(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.asarray(x.real.astype(np.float64) ** 2 + x.imag.astype(np.float64) ** 2)
    return np.square(x.astype(np.float64, copy=False))


def _sums(x: Array, *where: Any) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(_blocks(*(x, *where, 0)))
    return np.asarray(_blocks(*(x.real.copy(), *where, 0)) + 1j * _blocks(*(x.imag.copy(), *where, 0)))


@numba.njit(cache=True, nogil=True)
def _join(a: Any, b: Any, operation: int) -> Any:
    if operation == 0:
        return a + b
    if a != a or b != b:
        return a + b  # NaN
    if operation == 1:
        return b if b < a else a
    return b if b > a else a


@numba.njit(cache=True, nogil=True)
def _blocks(x: Any, start: Any, counts: Any, places: Any, size: int, hop: int, operation: int) -> Any:
    """Windows from ``start, start + hop, …`` of every run; the sample of index k lies at ``places + k``.

    Each is the rest of the block in which it begins, joined with the beginning of the next block.
    """
    out = np.empty(counts.sum(), x.dtype)
    rest = np.empty(size, x.dtype)
    n = 0
    for run in range(len(start)):
        at, left = start[run], counts[run]
        while left > 0:
            begin = at - at % size
            stop = begin + size
            base = places[run]
            rest[size - 1] = x[base + stop - 1]
            for k in range(stop - 2, at - 1, -1):
                rest[k - begin] = _join(x[base + k], rest[k - begin + 1], operation)
            if at == begin:
                out[n] = rest[0]
                n, left, at = n + 1, left - 1, at + hop
            if left == 0 or at >= stop:
                continue
            k = stop
            ahead = x[base + k]
            while left > 0 and at < stop:
                while k < at + size - 1:
                    k += 1
                    ahead = _join(ahead, x[base + k], operation)
                out[n] = _join(rest[at - begin], ahead, operation)
                n, left, at = n + 1, left - 1, at + hop
    return out


@numba.njit(cache=True, nogil=True)
def _merge(na: int, a: Any, nb: int, b: Any, out: Any) -> None:
    """Moments of two sets together (mean, and sums of powers of the distance from it), after Pebay (2008)."""
    n = na + nb
    d = b[0] - a[0]
    ra, rb = na / n, nb / n
    m2 = a[1] + b[1] + d * d * na * rb
    m3 = a[2] + b[2] + d * d * d * na * rb * (ra - rb) + 3 * d * (ra * b[1] - rb * a[1])
    m4 = (
        a[3]
        + b[3]
        + d * d * d * d * na * rb * (ra * ra - ra * rb + rb * rb)
        + 6 * d * d * (ra * ra * b[1] + rb * rb * a[1])
        + 4 * d * (ra * b[2] - rb * a[2])
    )
    out[0], out[1], out[2], out[3] = a[0] + d * rb, m2, m3, m4


@numba.njit(cache=True, nogil=True)
def _moments(x: Any, start: Any, counts: Any, places: Any, size: int, hop: int) -> Any:
    """As `_blocks`, with the four moments of `_merge`."""
    out = np.empty((4, counts.sum()))
    rest, ahead, one, both = np.zeros((size, 4)), np.zeros(4), np.zeros(4), np.zeros(4)
    n = 0
    for run in range(len(start)):
        at, left = start[run], counts[run]
        while left > 0:
            begin = at - at % size
            stop = begin + size
            base = places[run]
            rest[size - 1] = 0.0
            rest[size - 1, 0] = x[base + stop - 1]
            for k in range(stop - 2, at - 1, -1):
                one[0] = x[base + k]
                _merge(1, one, stop - 1 - k, rest[k - begin + 1], rest[k - begin])
            if at == begin:
                out[:, n] = rest[0]
                n, left, at = n + 1, left - 1, at + hop
            if left == 0 or at >= stop:
                continue
            k = stop
            ahead[:] = 0.0
            ahead[0] = x[base + k]
            while left > 0 and at < stop:
                while k < at + size - 1:
                    k += 1
                    one[0] = x[base + k]
                    _merge(k - stop, ahead, 1, one, ahead)
                _merge(stop - at, rest[at - begin], k - stop + 1, ahead, both)
                out[:, n] = both
                n, left, at = n + 1, left - 1, at + hop
    return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistic(Node):
    """An aggregate of the values of every window (of any array, such as a spectrum); see `Rolling` for what each means."""

    kind: str
    at: str = "end"

    gives = None

    def check(self) -> None:
        """An aggregate."""
        check_kind("statistic", self.kind)
        check_at(self.kind, self.at)

    def output_type(self, x: WindowedType) -> UniformType:
        """One value per window."""
        if self.kind in _REAL:
            refuse_complex(self.kind, x.dtype, "take magnitude() or power() first")
        grid = Label(x.size, x.hop, self.at).regrid
        return UniformType(x.key, x.time, x.clock, aggregate_dtype(self.kind, x.dtype), 0, grid.timebase(x.timebase))

    def reach(self, x: WindowedType) -> Reach:
        """The window itself."""
        return Label(x.size, x.hop, self.at).reach(x.timebase)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return ReduceKernel(lambda windows: self._of(windows), x, self.at)

    def _of(self, windows: Array) -> Array:
        smallest = self.kind == "min"
        with np.errstate(all="ignore"):
            return finish(
                self.kind,
                windows.shape[1],
                lambda v: v.sum(axis=1),
                lambda v: v.min(axis=1) if smallest else v.max(axis=1),
                _row_moments,
                windows,
            ).astype(self.type.dtype, copy=False)


def _row_moments(x: Array) -> Array:
    mean = x.mean(axis=1)
    rest = x - mean[:, None]
    return np.stack([mean, *((rest**p).sum(axis=1) for p in (2, 3, 4))])
