"""Shift: samples that move along their grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.time import exact_sum
from hydrophone.model.timebase import Timebase
from hydrophone.ops.base_kernels import mark_before_samples
from hydrophone.ops.filters.group_delay import rate_hz
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Shift(Node):
    """Every sample so many steps of the grid later (earlier, where negative): ``y[n] = x[n - samples]``.

    Reference: ``x.shift(samples, freq=period)`` in pandas. Start, gap and end move along; nothing is filled in or lost.
    """

    stable_name = "shift_samples"

    samples: int

    needs = Order.INDEX
    gives = Order.INDEX

    def output_type(self, x: UniformType) -> UniformType:
        """As the input."""
        return x

    def reach(self, x: UniformType) -> Reach:
        """The sample that comes here."""
        return Reach.samples(x.timebase, before=max(self.samples, 0), after=max(-self.samples, 0))

    def group_delay(self, frequency: float) -> float:
        """The shift."""
        return self.samples / rate_hz(self.inputs[0].type)

    def kernel(self, x: UniformType) -> Kernel:
        """Move."""
        return ShiftKernel(self.samples, x.timebase)


class ShiftKernel(Kernel):
    """Keeps nothing; samples that move to earlier times hold the mark back by as much."""

    keyed = True

    def __init__(self, samples: int, timebase: Timebase | None) -> None:
        self.samples, self.timebase = samples, timebase

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Move one batch."""
        assert isinstance(batch, Segments)
        return (replace(batch, first=exact_sum(batch.first, self.samples)).checked(),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """No sample comes before where the next one may move to."""
        return (), mark_before_samples(marks[0], self.timebase, max(-self.samples, 0))
