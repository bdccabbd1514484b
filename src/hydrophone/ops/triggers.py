"""Triggers: intervals with hysteresis, and the instants at which a signal crosses zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pyarrow as pa

from hydrophone.batch import Batch, Events, Mask, Segments
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import History
from hydrophone.ops.intervals import AboveKernel, intervals, refuse_order, refuse_taken
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, StreamType, UniformType
from hydrophone.runs import ranges
from hydrophone.state import Field, SlotArrays
from hydrophone.time import MIN_TIME
from hydrophone.timebase import Timebase


@dataclass(frozen=True, kw_only=True, eq=False)
class Trigger(Node):
    """Intervals that begin at the first sample above `on` and last until the first that is below `off`.

    Definition, sample by sample: an interval begins where ``x > on``, goes on while ``x >= off``, and the first sample for
    which that is false is its end. Start: no interval is open. Gap: a hole ends an interval, and so does NaN.
    End: the end of the data ends an interval after the last sample. `report` cuts intervals as in `Above`.
    Columns: `peak`, the largest sample, and `samples`, how many.
    """

    on: float
    off: float
    report: int | None = None

    needs = Order.INDEX

    def check(self) -> None:
        """Two levels in order."""
        if not self.off <= self.on:
            raise ParameterError(
                f"trigger: off must not be above on, got on={self.on!r} and off={self.off!r}",
                hint="an interval begins above on and ends below off",
            )
        if self.report is not None and self.report <= 0:
            raise ParameterError(f"trigger: report must be positive, got {self.report}")

    def output_type(self, x: UniformType) -> StreamType:
        """A stream of intervals."""
        return intervals(x, "trigger")

    def reach(self, x: UniformType) -> Reach:
        """Between the levels what was before decides."""
        return Reach.unbounded("trigger: a signal may stay between the two levels for ever")

    def kernel(self, x: UniformType) -> Kernel:
        """Find them."""
        return TriggerKernel(self.on, self.off, self.report, x.timebase, self.type)


class TriggerKernel(AboveKernel):
    """As `AboveKernel`, and per key whether it is on, and the index that is due."""

    def __init__(self, on: float, off: float, report: int | None, timebase: Timebase | None, out: StreamType) -> None:
        super().__init__(on, report, timebase, out)
        self.off = off
        self.level = SlotArrays(on=Field(np.int8), due=Field(np.int64, MIN_TIME))

    def inside(self, x: Segments) -> Mask:
        """Which samples belong to an interval."""
        self.level.reserve(len(self.keys))
        found = np.zeros(len(x.values), np.bool_)
        state = self.level["on"], self.level["due"]
        _trigger(x.values, x.slot, x.first, x.offsets, self.threshold, self.off, *state, found)
        self.level.touch(x.slot)
        return found

    def idle(self, marks: Marks) -> Mask:
        """Keys that are off, or have missed a sample."""
        self.level.reserve(len(self.keys))
        due, on = self.level["due"][: len(self.keys)], self.level["on"][: len(self.keys)]
        return self.grids.passed(np.where(on > 0, due, MIN_TIME), marks[0])


@numba.njit(cache=True, nogil=True)
def _trigger(
    x: Any, slot: Any, first: Any, offsets: Any, high: float, low: float, on: Any, due: Any, found: Any
) -> None:
    for run in range(len(slot)):
        s = slot[run]
        inside = on[s] > 0 and due[s] == first[run]
        for i in range(offsets[run], offsets[run + 1]):
            inside = x[i] > high or (inside and x[i] >= low)
            found[i] = inside
        on[s], due[s] = inside, first[run] + offsets[run + 1] - offsets[run]


@dataclass(frozen=True, kw_only=True, eq=False)
class ZeroCrossings(Node):
    """Point events where a signal changes its sign, at the first sample of the new sign; ``numpy.flatnonzero(numpy.diff(x < 0)) + 1``.

    Zero counts as positive. Start and gap: nothing is crossed between samples that are not neighbours. End: nothing follows.
    NaN has no sign: nothing is crossed to or from it. Column: `rising`, whether the new sign is positive.
    """

    needs = Order.INDEX

    def output_type(self, x: UniformType) -> StreamType:
        """A stream of points."""
        refuse_order(x, "zero_crossings")
        refuse_taken(x, ["rising"], "zero_crossings: they")
        return StreamType(x.key, x.time, x.clock, pa.schema([("rising", pa.bool_())]), None)

    def reach(self, x: UniformType) -> Reach:
        """The sample before."""
        return Reach.samples(x.timebase, before=1)

    def kernel(self, x: UniformType) -> Kernel:
        """Find them."""
        return ZeroCrossingsKernel(x, self.type)


class ZeroCrossingsKernel(Kernel):
    """The last sample of every key."""

    def __init__(self, kind: UniformType, out: StreamType) -> None:
        self.out = out
        self.grids = Grids(kind.timebase)
        self.history = History(1, kind.dtype, 0, Missing.DROP)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Compare neighbours."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        wide = self.history.extend(batch, len(self.keys))
        x, before = batch.values, wide.values[ranges(wide.at - 1, batch.lengths)]
        crossed = ((x < 0) != (before < 0)) & (x == x) & (before == before)
        crossed[batch.offsets[:-1][wide.seen == 0]] = False
        at = np.flatnonzero(crossed)
        slot = batch.sample_slot[at]
        time = self.grids.base.instant(slot, batch.sample_index[at])
        return (Events(slot, time, None, pa.table({"rising": x[at] >= 0}, schema=self.out.columns)),)

    def idle(self, marks: Marks) -> Mask:
        """Keys that have missed a sample."""
        return self.history.idle(self.grids, len(self.keys), marks[0])
