"""Trigger: intervals between two levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Mask, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.ops.detectors.above import OPEN, AboveKernel, interval_type
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Trigger(Node):
    """Intervals that begin at the first sample above `on` and last until the first that is below `off`.

    Definition, sample by sample: an interval begins where ``x > on``, goes on while ``x >= off``, and the first sample for
    which that is false is its end. Start: no interval is open. Gap: a hole ends an interval, and so does NaN.
    End: the end of the data ends an interval after the last sample. `report` cuts intervals as in `Above`.
    Columns: `peak`, the largest sample, and `samples`, how many.
    """

    stable_name = "trigger"

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

    @property
    def stalls(self) -> str | None:
        """An open interval does, unless it is cut."""
        return None if self.report is not None else OPEN

    def output_type(self, x: UniformType) -> StreamType:
        """A stream of intervals."""
        return interval_type(x, "trigger")

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
        return self.grids.ended_before(np.where(on > 0, due, MIN_TIME), marks[0])


@compiled
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
