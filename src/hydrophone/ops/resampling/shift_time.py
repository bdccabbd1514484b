"""ShiftTime: samples and their grid by a duration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.time import add_time, exact_sum
from hydrophone.model.timebase import Timebases
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftTime(Node):
    """All samples later by a duration (earlier, where negative); the grid moves with them.

    Reference: ``x.shift(freq=by)`` in pandas. Start, gap and end move along.
    """

    stable_name = "shift_time"

    by: int

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """Another origin."""
        return replace(x, timebase=None if x.timebase is None else x.timebase.shifted(self.by))

    def reach(self, x: UniformType) -> Reach:
        """The sample that comes here."""
        return Reach(before=max(self.by, 0), after=max(-self.by, 0))

    def group_delay(self, frequency: float) -> float:
        """The shift."""
        return self.by / 1e9

    def kernel(self, x: UniformType) -> Kernel:
        """Move."""
        return ShiftTimeKernel(self.by)


class ShiftTimeKernel(Kernel):
    """Keeps nothing; the mark moves along."""

    keyed = True

    def __init__(self, by: int) -> None:
        self.by = by

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Move one batch."""
        assert isinstance(batch, Segments)
        base = batch.base
        moved = Timebases(base.num, base.den, exact_sum(base.origin, self.by))
        return (replace(batch, base=moved).checked(),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """A mark that is as much later."""
        return (), add_time(marks[0], self.by)
