"""Aggregates of windows: sums, extremes and moments, over samples (without cutting windows) and over arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.history import Extended, History
from hydrophone.ops.filters.moving import MovingWindows
from hydrophone.ops.windows.reduce import Label, ReduceKernel, check_at, labelled_order, reduced_dtype, reduced_type
from hydrophone.ops.windows.refusals import refuse_complex
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, StreamType, UniformType, WindowedType

Array = npt.NDArray[Any]

KINDS = ("sum", "mean", "min", "max", "energy", "power", "rms", "std", "kurtosis", "crest", "median")
_REAL = ("min", "max", "std", "kurtosis", "crest", "median")
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


def check_kind(what: str, kind: str, ddof: int = 0) -> None:
    """A user's word for an aggregate."""
    if kind not in KINDS:
        raise ParameterError(f"{what}: no aggregate {kind!r}; there are: {', '.join(KINDS)}")
    if ddof and kind != "std":
        raise ParameterError(f"{kind}: ddof is for std alone, got {ddof}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rolling(Node):
    """An aggregate of the last `size` samples, every `hop` samples.

    Reference: NumPy's function of that name over ``sliding_window_view(x, size)[::hop]``; ``energy`` is ``sum(abs(x)**2)``, ``power``
    its mean, ``rms`` the root of that, ``crest`` ``max(abs(x)) / rms``, ``std`` that of the population (or with `ddof`), ``kurtosis``
    ``scipy.stats.kurtosis`` (the excess, NaN where all samples are equal).

    Start and gap: ``drop`` gives no value for a window that lacks a sample; ``skip`` aggregates those that are there, as pandas'
    ``rolling(size, min_periods=1)`` over all beats, at beats with a sample. End: nothing follows the last sample.
    NaN: as NumPy, a window that holds one gives NaN, and no other window does.

    Nothing is ever subtracted (see `hydrophone.ops.filters.moving`): a sample costs the same for any size, and no error stays behind.
    State: the last ``size - 1`` samples of a key, and 16 bytes; ``skip`` keeps as many bytes more, and 16.
    """

    stable_name = "rolling"

    kind: str
    size: int
    hop: int = 1
    at: str = "end"
    ddof: int = 0
    missing: str = "drop"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """An aggregate, and at least one sample."""
        check_kind("rolling", self.kind, self.ddof)
        check_at(self.kind, self.at)
        if self.size < 1:
            raise ParameterError(f"{self.kind}: size must be at least 1 sample, got {self.size}")
        if self.hop < 1:
            raise ParameterError(
                f"{self.kind}: hop must be at least 1 sample, got {self.hop}",
                hint="hop=size makes windows that do not overlap",
            )
        if not 0 <= self.ddof < self.size:
            raise ParameterError(f"{self.kind}: ddof must be at least 0 and below the size, got {self.ddof}")
        if self.missing not in ("drop", "skip"):
            raise ParameterError(f"{self.kind}: missing must be one of 'drop', 'skip', got {self.missing!r}")

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


class RollingKernel(LookBackKernel):
    """The last ``size - 1`` samples of every key; with ``skip`` also which of them are there."""

    keyed = True

    def __init__(self, node: Rolling, kind: UniformType) -> None:
        self.skip = node.missing == "skip"
        missing = Missing.ZERO if self.skip else Missing.DROP
        super().__init__(kind, node.size - 1, missing)
        self.node, self.timebase = node, kind.timebase
        self.dtype, self.label = aggregate_dtype(node.kind, kind.dtype), Label(node.size, node.hop, node.at)
        self.there = History(node.size - 1 if self.skip else 0, np.dtype(np.int8), 0, missing)

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """All windows that end inside the runs of the batch."""
        there = np.ones(len(batch.values if self.skip else wide.values), np.int8)
        if self.skip:
            there = self.there.extend(batch.with_values(there), len(self.keys)).values
        size, hop = self.node.size, self.node.hop
        last = batch.first if self.skip else batch.first + size - 1 - wide.seen
        last = last + (size - 1 - last) % hop  # windows begin on the grid of the hops
        counts = np.maximum(-((last - batch.next) // hop), 0)
        given = np.flatnonzero(counts)
        if not len(given):
            return ()
        last, counts = last[given], counts[given]
        spans = MovingWindows(there, (wide.at - batch.first)[given], last, counts, size, hop)
        out = self._aggregated(wide.values.reshape(len(wide.values), -1), spans)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        values = out.reshape(-1, *batch.values.shape[1:])
        base = self.label.regrid.bases(batch.base)
        return (Segments(batch.slot[given], self.label.index(last), offsets, values, base).joined(),)

    def _aggregated(self, x: Array, spans: MovingWindows) -> Array:
        kind = self.node.kind
        with np.errstate(all="ignore"):
            if kind == "median":
                return spans.medians(x)
            numbers = spans.numbers() if self.skip else self.node.size
            if kind == "std":
                freedom = numbers - self.node.ddof
                return np.sqrt(np.where(freedom > 0, spans.spreads(x) / freedom, np.nan))
            ways = spans.sums, lambda v: spans.extremes(v, kind != "min"), spans.moments
            return finish_aggregate(kind, numbers, *ways, x).astype(self.dtype, copy=False)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Nothing waits."""
        return (), self.label.mark(marks[0], self.timebase)


def finish_aggregate(
    kind: str,
    size: Any,
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
        return _exact_sum(total, x.astype(aggregate_dtype("sum", x.dtype), copy=False), size)
    if kind == "mean":
        sums = total(x.astype(wide, copy=False))
        return np.divide(sums, size, out=sums)
    if kind in ("std", "kurtosis"):
        mean, second, *higher = moments(x.astype(np.float64, copy=False))
        if kind == "std":
            return np.where(np.isfinite(mean), np.sqrt(second / size), np.nan)
        flat = ~np.isfinite(mean) | (second / size <= (np.finfo(np.float64).eps * mean) ** 2)
        return np.where(flat, np.nan, size * higher[1] / np.where(flat, 1, second) ** 2 - 3)
    energy = total(_squares(x))
    if kind == "energy":
        return energy
    if kind == "power":
        return energy / size
    rms = np.sqrt(energy / size)
    return np.asarray(rms if kind == "rms" else extreme(np.abs(x.astype(np.float64, copy=False))) / rms)


def _exact_sum(total: Callable[[Array], Array], x: Array, size: Any) -> Array:
    """Sums of whole numbers wrap by a multiple of 2**64: too far from the same sums of doubles to be overlooked, and an error."""
    sums = total(x)
    if x.dtype.kind not in "iu" or not x.size:
        return sums
    largest = max(abs(int(x.min())), abs(int(x.max())))
    if largest * int(np.max(size)) < 2**63:
        return sums
    near = total(x.astype(np.float64))
    wrong = np.flatnonzero(np.abs(near - sums.astype(np.float64)) > 2.0**63)
    if len(wrong):
        raise DataError(
            f"sum: the samples of a window add up to about {near.flat[wrong[0]]:.6g}, which {sums.dtype} cannot hold",
            hint="add up floats: (signal * 1.0)",
        )
    return sums


def _squares(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.asarray(x.real.astype(np.float64) ** 2 + x.imag.astype(np.float64) ** 2)
    return np.square(x.astype(np.float64, copy=False))


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistic(Node):
    """An aggregate of the values of every window (of any array, such as a spectrum); see `Rolling` for what each means."""

    stable_name = "statistic"

    kind: str
    at: str = "end"

    gives = None

    def check(self) -> None:
        """An aggregate."""
        check_kind("statistic", self.kind)
        check_at(self.kind, self.at)

    @cached_property
    def order(self) -> Order:
        """That of the windows; values with labels may tie."""
        return labelled_order(self)

    def output_type(self, x: WindowedType) -> UniformType | StreamType:
        """One value per window."""
        if self.kind in _REAL:
            refuse_complex(self.kind, x.dtype, "take magnitude() or power() first")
        return reduced_type(self.kind, x, aggregate_dtype(self.kind, x.dtype), self.at)

    def reach(self, x: WindowedType) -> Reach:
        """The window itself."""
        return Label(x.size, x.hop, self.at).reach(x.timebase)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return ReduceKernel(lambda windows: self._of(windows), x, self.type, self.at)

    def _of(self, windows: Array) -> Array:
        smallest = self.kind == "min"
        with np.errstate(all="ignore"):
            if self.kind == "median":
                return np.asarray(np.median(windows.astype(np.float64, copy=False), axis=1))
            return finish_aggregate(
                self.kind,
                windows.shape[1],
                lambda v: v.sum(axis=1),
                lambda v: v.min(axis=1) if smallest else v.max(axis=1),
                partial(_row_moments, powers=(2,) if self.kind == "std" else (2, 3, 4)),
                windows,
            ).astype(reduced_dtype(self.type), copy=False)


def _row_moments(x: Array, powers: tuple[int, ...]) -> Array:
    """The mean, and the sums of these powers of the rest."""
    mean = x.mean(axis=1)
    rest = x - mean[:, None]
    return np.stack([mean, *((rest**p).sum(axis=1) for p in powers)])
