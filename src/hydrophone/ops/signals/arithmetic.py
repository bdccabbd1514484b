"""Arithmetic on uniform signals: sample by sample, between two signals or with a number."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.batch import COLUMNS_AT_ONCE, Batch, Ints, Mask, Segments, merge_bases
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, lowest_marks, marks_of_slots
from hydrophone.model.sorted_rows import intersect_ranges
from hydrophone.model.state import Field, HeldBatches, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.base_kernels import PointwiseKernel
from hydrophone.ops.user.calls import as_declared, call_guarded, name_of
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import UniformType, rate, same_clock

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def result_dtype(operation: str, a: np.dtype[Any], b: Any) -> np.dtype[Any]:
    """What NumPy makes of these types."""
    with np.errstate(all="ignore"):
        return np.asarray(OPERATIONS[operation](np.ones(1, a), b)).dtype


def check_pair(what: str, a: UniformType, b: UniformType) -> None:
    """The same keys, the same grid."""
    if a.scope != b.scope:
        raise SignalTypeError(
            f"{what}: the signals have different keys: {list(a.key.names)} and {list(b.key.names)}",
            hint="bring both to one key with key_by",
        )
    same_clock(a, b, what)
    if a.timebase != b.timebase:
        raise SignalTypeError(
            f"{what}: the signals lie on different grids ({rate(a.timebase)}, {rate(b.timebase)})",
            hint='bring both to one grid first: .resample("10ms", fill=hp.linear(max_gap="1s"))',
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Combine(Node):
    """``a + b`` and its kin: a sample where both signals have one; everywhere else a hole."""

    stable_name = "combine"

    operation: str

    needs = Order.INDEX
    gives = Order.INDEX

    def output_type(self, a: UniformType, b: UniformType) -> UniformType:
        """The same keys, the same grid."""
        what = f"'{self.operation}'"
        check_pair(what, a, b)
        if a.channels != b.channels and min(a.channels, b.channels) > 0:
            raise SignalTypeError(f"{what}: {a.channels} channels cannot be combined with {b.channels}")
        dtype = result_dtype(self.operation, a.dtype, np.ones(1, b.dtype))
        return UniformType(a.key, a.time, a.clock, dtype, max(a.channels, b.channels), a.timebase)

    def kernel(self, a: UniformType, b: UniformType) -> Kernel:
        """Match samples."""
        return CombineKernel(OPERATIONS[self.operation])


class CombineKernel(Kernel):
    """Holds the samples of either side that the other side may still answer."""

    keyed = True

    def __init__(self, operation: Callable[[Any, Any], Any], *, broadcast: bool = True) -> None:
        self.operation, self.broadcast = operation, broadcast
        self.left: HeldBatches[Segments] = HeldBatches(Segments)
        self.right: HeldBatches[Segments] = HeldBatches(Segments)
        self.seen = SlotArrays(left=Field(np.int64, MIN_TIME), right=Field(np.int64, MIN_TIME))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Match the new samples of one side with the waiting ones of the other."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.seen.reserve(len(self.keys))
        name = "right" if port else "left"
        self.seen[name][batch.slot] = batch.next  # in order: of several runs of a slot the last counts
        self.seen.touch(batch.slot)
        (self.right if port else self.left).add(batch)
        return self._match()

    def _match(self) -> Iterable[Batch]:
        a, b = self.left.all(), self.right.all()
        if a is None or b is None:
            return ()
        # One grid for all, or one per key, which must then be the same on both sides.
        merge_bases([a, b])
        i, j, start, stop = intersect_ranges(a.slot, a.first, a.next, b.slot, b.first, b.next)
        self._drop(a, b, self.seen["right"][a.slot], self.seen["left"][b.slot])
        if not len(i):  # a user-defined function need not take empty arrays
            return ()
        return self._combined(a, b, i, j, start, stop)

    def _combined(self, a: Segments, b: Segments, i: Ints, j: Ints, start: Ints, stop: Ints) -> Iterator[Segments]:
        """Some runs at a time, so that what follows finds the results in the cache, and they need no fresh memory."""
        until = np.cumsum(stop - start)
        cuts = np.searchsorted(until, np.arange(COLUMNS_AT_ONCE, until[-1], COLUMNS_AT_ONCE), "right")
        for piece in itertools.pairwise(np.unique([0, *cuts, len(i)]).tolist()):
            some = slice(*piece)
            x = a.cut(i[some], start[some], stop[some])
            xs, ys = x.values, b.stretches(j[some], start[some], x.lengths)
            if xs.ndim != ys.ndim and self.broadcast:
                xs, ys = (v if v.ndim == 2 else v[:, None] for v in (xs, ys))
            with np.errstate(all="ignore"):
                yield x.with_values(self.operation(xs, ys))

    def _drop(self, a: Segments, b: Segments, below_a: Any, below_b: Any) -> None:
        """Forget samples whose partner has come or cannot come any more."""
        for held, batch, below in ((self.left, a, below_a), (self.right, b, below_b)):
            held.replace(batch.split(below)[1], batch.slot[batch.first < below])

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """A sample before the other side's mark has no partner."""
        for held, mark in ((self.left, marks[1]), (self.right, marks[0])):
            batch = held.all()
            if batch is not None:
                below = batch.base.index_from_mark(batch.slot, marks_of_slots(mark, batch.slot))
                held.replace(batch.split(below)[1], batch.slot[batch.first < below])
        return (), lowest_marks(marks)

    def idle(self, marks: Marks) -> Mask:
        """What was seen matters only while samples wait."""
        return np.ones(len(self.keys), np.bool_)


@dataclass(frozen=True, kw_only=True, eq=False)
class CombineSamples(Node):
    """A user's function of two signals where both have a sample: two arrays with a row per sample in, one with as many rows out.

    Many samples of many keys come in one call: a row must depend on these two rows alone. Where one of the signals lacks a sample: a hole.
    """

    stable_name = "combine_samples"

    function: Callable[[Any, Any], Any]

    needs = Order.INDEX
    gives = Order.INDEX

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "combine"

    def output_type(self, a: UniformType, b: UniformType) -> UniformType:
        """The function is tried on a few samples of one."""
        check_pair("combine", a, b)
        # Another number of samples than of channels, so that a function that reduces the wrong axis is found out.
        rows = next(n for n in (3, 4, 5) if n not in (a.channels, b.channels))
        probe = self.of(*(np.ones((rows, x.channels) if x.channels else rows, x.dtype) for x in (a, b)))
        channels = probe.shape[1] if probe.ndim == 2 else 0
        return UniformType(a.key, a.time, a.clock, probe.dtype, channels, a.timebase)

    def of(self, a: Any, b: Any) -> Any:
        """Call it; a wrong shape, a wrong type or an exception names the function."""
        out = call_guarded("combine", "it gets two arrays with a row per sample", self.function, a, b)
        if out.ndim not in (1, 2) or len(out) != len(a) or out.dtype.kind not in "iufc":
            raise DataError(
                f"combine: {name_of(self.function)} turned arrays of shape {a.shape} and {b.shape} into {out.dtype} of {out.shape}",
                hint="it must give one row of numbers per sample",
            )
        return out

    def kernel(self, a: UniformType, b: UniformType) -> Kernel:
        """Match samples."""
        return CombineKernel(self._checked, broadcast=False)

    def _checked(self, a: Any, b: Any) -> Any:
        return as_declared("combine", self.function, self.of(a, b), self.type.dtype, self.type.channels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scalar(Node):
    """``signal * 2`` and its kin; `reflected` for ``2 * signal``."""

    stable_name = "scalar"

    operation: str
    number: float | complex | int
    reflected: bool = False

    gives = None

    def check(self) -> None:
        """A number."""
        if isinstance(self.number, bool) or not isinstance(self.number, int | float | complex):
            raise ParameterError(f"'{self.operation}': expected a signal or a number, got {type(self.number).__name__}")

    def output_type(self, x: UniformType) -> UniformType:
        """As NumPy."""
        try:
            dtype = result_dtype(self.operation, x.dtype, self.number)
        except OverflowError:
            raise ParameterError(
                f"'{self.operation}': {self.number} does not fit into samples of type {x.dtype}",
                hint="write it as a float, or make the column wider first",
            ) from None
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def group_delay(self, frequency: float) -> float | None:
        """Products with numbers have none."""
        product = self.operation == "*" or (self.operation == "/" and not self.reflected)
        return 0.0 if product else None

    def kernel(self, x: UniformType) -> Kernel:
        """Sample by sample."""
        operation, number = OPERATIONS[self.operation], self.number
        return PointwiseKernel(lambda v: operation(number, v) if self.reflected else operation(v, number))
