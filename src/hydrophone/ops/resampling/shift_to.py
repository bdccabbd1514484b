"""ShiftTo: samples at the nearest beats of another grid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from hydrophone.errors import SignalTypeError
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, map_mark
from hydrophone.model.time import exact_sum
from hydrophone.model.timebase import Timebase, Timebases
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, rate


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftTo(Node):
    """Every sample at the nearest beat of another grid with the same period: all move by the same time, at most half a period.

    Reference: the samples as they are, with other instants. Half a period moves them later. Start, gap and end move along.
    """

    stable_name = "shift_to"

    timebase: Timebase

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """The other grid."""
        if x.timebase is None:
            raise SignalTypeError("shift_to: every key has a period of its own", hint="resample with a fill instead")
        if x.timebase.period != self.timebase.period:
            raise SignalTypeError(
                f"shift_to: the periods differ ({rate(x.timebase)}, {rate(self.timebase)})",
                hint="resample one of the signals to the period of the other",
            )
        return replace(x, timebase=self.timebase)

    def samples(self, x: UniformType) -> int:
        """How many indices further a sample is on the other grid."""
        assert x.timebase is not None
        return math.floor((x.timebase.origin - self.timebase.origin) / x.timebase.period + Fraction(1, 2))

    def reach(self, x: UniformType) -> Reach:
        """As far as samples move, and the rounding of instants."""
        assert x.timebase is not None
        by = self.timebase.instant(self.samples(x)) - x.timebase.origin
        return Reach(max(by, 0) + 1, max(-by, 0) + 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Count from another origin."""
        assert x.timebase is not None
        return ShiftToKernel(self.samples(x), x.timebase, self.timebase)


class ShiftToKernel(Kernel):
    """Keeps nothing."""

    keyed = True

    def __init__(self, samples: int, old: Timebase, new: Timebase) -> None:
        self.samples, self.old, self.new, self.base = samples, old, new, Timebases.shared(new)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Move one batch."""
        assert isinstance(batch, Segments)
        return (replace(batch, first=exact_sum(batch.first, self.samples), base=self.base).checked(),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """The mark moves along."""
        return (), map_mark(marks[0], lambda m: self.new.instant(self.old.index_from(m) + self.samples))
