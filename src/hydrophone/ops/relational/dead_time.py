"""Dead time: after an event that counts, its key is blind for a while."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.model.batch import Batch, Events, Mask
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import marks_by_slot
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME, add_time
from hydrophone.ops.aggregates.aggregates import check_span
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class DeadTime(Node):
    """Events that start at least `span` after the last event of their key that was kept; reference: a loop over the events of a key.

    Of events that start together the first in order of end and columns counts. What is left out does not make the dead time longer
    (a non-paralysable detector).
    """

    stable_name = "dead_time"

    span: int

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A duration."""
        check_span(self.span, "dead_time", "span")

    def output_type(self, x: StreamType) -> StreamType:
        """As the input."""
        return x

    def reach(self, x: StreamType) -> Reach:
        """Each event that is kept depends on the one before."""
        return Reach.unbounded("dead_time: which events count depends on the events before, without end")

    def kernel(self, x: StreamType) -> Kernel:
        """Leave out."""
        return DeadTimeKernel(self.span)


class DeadTimeKernel(Kernel):
    """When the last event of every key that was kept started."""

    def __init__(self, span: int) -> None:
        self.span = span
        self.kept = SlotArrays(start=Field(np.int64, MIN_TIME))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Go through one batch, which comes in order."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        self.kept.reserve(len(self.keys))
        keep = np.zeros(len(batch), np.bool_)
        _keep_apart(batch.slot, batch.start, self.span, self.kept["start"], keep)
        self.kept.touch(batch.slot[keep])
        return (batch.select(keep),) if keep.any() else ()

    def idle(self, marks: Marks) -> Mask:
        """Keys that no event makes blind any more."""
        self.kept.reserve(len(self.keys))
        start = self.kept["start"][: len(self.keys)]
        idle: Mask = (start == MIN_TIME) | (add_time(start, self.span) <= marks_by_slot(marks[0], len(self.keys)))
        return idle


@compiled
def _keep_apart(slot: Any, start: Any, span: int, last: Any, keep: Any) -> None:
    for i in range(len(slot)):
        s = slot[i]
        # Unsigned: the distance of two instants may not fit a signed number.
        if last[s] == MIN_TIME or np.uint64(start[i]) - np.uint64(last[s]) >= np.uint64(span):
            last[s] = start[i]
            keep[i] = True
