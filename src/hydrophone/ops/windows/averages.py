"""Averages over windows: of so many that follow each other, or of all that went before, fading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.batch import Batch, Mask, Segments, Windows
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.ops.base_kernels import GridKernel
from hydrophone.ops.filters.ema import EmaKernel, settle_ema
from hydrophone.ops.filters.sos import LONGEST_SETTLE
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.ops.windows.refusals import refuse_labels
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class Average(Node):
    """The mean of every `count` windows, value by value; groups do not overlap and lie on the absolute grid.

    Reference: ``windows.reshape(-1, count, n).mean(axis=1)`` over all windows from number 0 of the grid on. The answer stands for all
    samples under its windows, and belongs to the last of them. Without a count it is the mean of all windows of a key,
    ``windows.mean(axis=0)``: it comes at the end of the data, and streams refuse it.

    Start and gap: a group that lacks a window gives nothing. End: nothing follows the last whole group.
    """

    stable_name = "average"

    count: int | None

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """At least one."""
        if self.count is not None and self.count < 1:
            raise ParameterError(f"average: count must be at least 1 window, got {self.count}")

    def check_stream(self, waiting: str | None) -> None:
        """There must be an end."""
        if self.count is None:
            raise PlanError(
                "average: the mean over the whole signal comes at its end, which a stream does not have",
                hint="average=8 gives the mean of every 8 windows, alpha=0.1 an exponential one",
                where=self.where,
            )

    def output_type(self, x: WindowedType) -> WindowedType:
        """As long, over more samples, at least single precision."""
        refuse_labels("average", x)
        dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
        if self.count is None:
            return replace(x, dtype=dtype)
        return replace(x, dtype=dtype, size=x.size + (self.count - 1) * x.hop, hop=x.hop * self.count)

    def reach(self, x: WindowedType) -> Reach:
        """The windows of the group."""
        if self.count is None:
            return Reach.unbounded("average: over the whole signal")
        return Reach.samples(x.timebase, before=(self.count - 1) * x.hop)

    def kernel(self, x: WindowedType) -> Kernel:
        """Add up."""
        return WholeAverageKernel(x, self.type) if self.count is None else AverageKernel(self.count, x, self.type)


class AverageKernel(GridKernel[Windows]):
    """Per key the sum of the group that is open, its number, and how many windows are in it."""

    def __init__(self, count: int, kind: WindowedType, out: WindowedType) -> None:
        super().__init__(kind.timebase)
        self.count, self.kind, self.out = count, kind, out
        wide = np.result_type(out.dtype, np.float64)
        self.width = kind.length * max(kind.channels, 1)
        self.open = SlotArrays(
            total=Field(wide, 0, (self.width,)), group=Field(np.int64, MIN_TIME), count=Field(np.int64)
        )

    def take(self, batch: Windows) -> Iterable[Batch]:
        """All groups that end in the batch."""
        self.open.reserve(len(self.keys))
        number = (batch.last - self.kind.size + 1) // self.kind.hop
        group, ends = number // self.count, number % self.count == self.count - 1
        out = np.empty((int(ends.sum()), self.width), self.open["total"].dtype)
        rows = np.empty(len(out), np.int64)
        values = np.ascontiguousarray(batch.values, out.dtype).reshape(len(batch), self.width)
        state = self.open["total"], self.open["group"], self.open["count"]
        made = _groups(batch.slot, group, ends, values, self.count, *state, rows, out)
        self.open.touch(batch.slot)
        done = rows[:made]
        mean = (out[:made] / self.count).astype(self.out.dtype, copy=False)
        return (Windows(batch.slot[done], batch.last[done], mean.reshape(made, *batch.values.shape[1:]), batch.base),)

    def idle(self, marks: Marks) -> Mask:
        """Keys whose open group can have no more windows."""
        self.open.reserve(len(self.keys))
        group = self.open["group"][: len(self.keys)]
        none = group == MIN_TIME
        end = ((np.where(none, 0, group) + 1) * self.count - 1) * self.kind.hop + self.kind.size - 1
        return self.grids.ended_before(np.where(none, MIN_TIME, end), marks[0])


class WholeAverageKernel(GridKernel[Windows]):
    """Per key the sum of all windows, how many there are, and where the last one ends."""

    keyed = True

    def __init__(self, kind: WindowedType, out: WindowedType) -> None:
        super().__init__(kind.timebase)
        self.shape = (kind.channels, kind.length) if kind.channels else (kind.length,)
        self.out = out
        wide = np.result_type(out.dtype, np.float64)
        width = int(np.prod(self.shape))
        self.open = SlotArrays(total=Field(wide, 0, (width,)), count=Field(np.int64), last=Field(np.int64, MIN_TIME))

    def take(self, batch: Windows) -> Iterable[Batch]:
        """Add."""
        self.open.reserve(len(self.keys))
        total, count, last = self.open["total"], self.open["count"], self.open["last"]
        _add_windows(batch.slot, np.ascontiguousarray(batch.values, total.dtype).reshape(len(batch), -1), total, count)
        np.maximum.at(last, batch.slot, batch.last)
        self.open.touch(batch.slot)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """At the end of a key's data its mean; what is open holds the output mark."""
        mark = marks[0]
        self.open.reserve(len(self.keys))
        slot = np.flatnonzero(self.open["count"][: len(self.keys)])
        if not len(slot):
            return (), mark
        last, base = self.open["last"][slot], self.grids.base
        ended = np.broadcast_to(np.equal(marks_of_slots(mark, slot), MAX_TIME), slot.shape)
        held = hold_back_mark(mark, slot, base.instant(slot, last))
        if not ended.any():
            return (), held
        slot, last = slot[ended], last[ended]
        mean = (self.open["total"][slot] / self.open["count"][slot, None]).astype(self.out.dtype, copy=False)
        self.open["count"][slot] = 0
        self.open.touch(slot)
        return (Windows(slot, last, mean.reshape(len(slot), *self.shape), base),), held

    def idle(self, marks: Marks) -> Mask:
        """Keys without a window."""
        self.open.reserve(len(self.keys))
        return self.open["count"][: len(self.keys)] == 0


@compiled
def _add_windows(slot: Any, values: Any, total: Any, count: Any) -> None:
    """One after the other, so that no cut into batches shows in a sum."""
    for w in range(len(slot)):
        count[slot[w]] += 1
        for j in range(values.shape[1]):
            total[slot[w], j] += values[w, j]


@compiled
def _groups(
    slot: Any,
    group: Any,
    ends: Any,
    values: Any,
    size: int,
    total: Any,
    current: Any,
    count: Any,
    rows: Any,
    out: Any,
) -> int:
    """Add windows in order; a whole group leaves with its last window."""
    made = 0
    for w in range(len(slot)):
        s = slot[w]
        if current[s] != group[w]:
            current[s], count[s] = group[w], 0
            for j in range(values.shape[1]):
                total[s, j] = 0
        for j in range(values.shape[1]):
            total[s, j] += values[w, j]
        count[s] += 1
        if ends[w] and count[s] == size:
            rows[made] = w
            for j in range(values.shape[1]):
                out[made, j] = total[s, j]
            made += 1
    return made


@dataclass(frozen=True, kw_only=True, eq=False)
class EmaWindows(Node):
    """Exponential moving average over windows, value by value: `Ema` with one step per hop.

    Start: the first window of a key is its own average. Gap: the past fades by the windows that are missing. End: nothing follows
    the last window. A value that is NaN or infinite gives NaN and counts as missing.
    """

    stable_name = "ema_windows"

    alpha: float

    needs = Order.INDEX
    gives = Order.INDEX

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "ema"

    def check(self) -> None:
        """A weight."""
        if not 0 < self.alpha <= 1:
            raise ParameterError(f"ema: alpha must be above 0 and at most 1, got {self.alpha!r}")

    def output_type(self, x: WindowedType) -> WindowedType:
        """At least double precision."""
        refuse_labels("ema", x)
        return replace(x, dtype=np.result_type(x.dtype, np.float64))

    def reach(self, x: WindowedType) -> Reach:
        """As long as a window weighs more than rounding."""
        steps = settle_ema(self.alpha)
        if steps >= LONGEST_SETTLE:
            return Reach.unbounded(f"ema: remembers more than {LONGEST_SETTLE:,} windows (alpha {self.alpha:g})")
        return Reach.samples(x.timebase, before=steps * x.hop)

    def kernel(self, x: WindowedType) -> Kernel:
        """Average."""
        return EmaWindowsKernel(self.alpha, x, self.type)


class EmaWindowsKernel(EmaKernel):
    """Windows as samples that are vectors, on the grid of the hops."""

    def __init__(self, alpha: float, kind: WindowedType, out: WindowedType) -> None:
        self.regrid = Regrid(Fraction(kind.hop), (kind.size - 1) % kind.hop)
        self.size, self.hop = kind.size, kind.hop
        grid = self.regrid.timebase(kind.timebase)
        self.width = kind.length * max(kind.channels, 1)
        vectors = UniformType(kind.key, kind.time, kind.clock, out.dtype, self.width, grid)
        super().__init__(alpha, settle_ema(alpha), vectors)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Average one batch."""
        assert isinstance(batch, Windows)
        index = (batch.last - self.regrid.phase) // self.hop
        flat = batch.values.reshape(len(batch), self.width)
        samples = Segments.of_samples(batch.slot, index, flat, self.regrid.bases(batch.base))
        for out in super().step(port, samples):
            assert isinstance(out, Segments)
            yield batch.with_values(out.values.reshape(batch.values.shape))
