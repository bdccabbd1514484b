"""Other rates by whole numbers: every n-th sample, or n samples for one; time stays exact."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hydrophone.batch import Batch, Segments
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.kernel import Kernel, Marks, Stateless
from hydrophone.marks import Mark, moved
from hydrophone.ops.regrid import Regrid
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, rate
from hydrophone.time import add_time
from hydrophone.timebase import Timebase, Timebases


@dataclass(frozen=True, kw_only=True, eq=False)
class Downsample(Node):
    """Every `n`-th sample: those whose index on the absolute grid leaves the remainder `phase`; reference: ``x[phase::n]``.

    Nothing is filtered: frequencies above half the new rate fold back (`decimate` has a filter). Start, gap and end: sample by sample.
    """

    n: int
    phase: int = 0

    gives = None

    def check(self) -> None:
        """A step, and a place in it."""
        if self.n < 1:
            raise ParameterError(f"downsample: n must be at least 1, got {self.n}")
        if not 0 <= self.phase < self.n:
            raise ParameterError(f"downsample: phase must be from 0 to {self.n - 1}, got {self.phase}")

    @property
    def regrid(self) -> Regrid:
        """The new grid."""
        return Regrid(Fraction(self.n), self.phase)

    def output_type(self, x: UniformType) -> UniformType:
        """A longer period."""
        return replace(x, timebase=self.regrid.timebase(x.timebase))

    def reach(self, x: UniformType) -> Reach:
        """The sample itself, whose instant may be a nanosecond later."""
        return Reach() if self.regrid.exact(x.timebase) else Reach(after=1)

    def kernel(self, x: UniformType) -> Kernel:
        """Pick."""
        return DownsampleKernel(self.regrid, x.timebase)


class DownsampleKernel(Kernel):
    """Keeps nothing."""

    keyed = True

    def __init__(self, regrid: Regrid, timebase: Timebase | None) -> None:
        self.regrid, self.n, self.timebase = regrid, int(regrid.step), timebase

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Pick from one batch."""
        assert isinstance(batch, Segments)
        index = batch.sample_index
        keep = (index - self.regrid.phase) % self.n == 0
        base = self.regrid.bases(batch.base)
        new = (index[keep] - self.regrid.phase) // self.n
        return (Segments.of_samples(batch.sample_slot[keep], new, batch.values[keep], base),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Nothing waits."""
        return (), self.regrid.mark(marks[0], self.timebase)


@dataclass(frozen=True, kw_only=True, eq=False)
class Upsample(Node):
    """`n` samples for one, ``hold``: n times the same (``numpy.repeat(x, n)``), ``zero``: zeros after it (``numpy.kron(x, [1, 0, …])``).

    Start: with the first sample. Gap: as long as before, less ``n - 1`` new samples. End: ``n - 1`` samples after the last one.
    """

    n: int
    how: str = "zero"

    gives = None

    def check(self) -> None:
        """A number, and a way."""
        if self.n < 1:
            raise ParameterError(f"upsample: n must be at least 1, got {self.n}")
        if self.how not in ("zero", "hold"):
            raise ParameterError(
                f"upsample: how must be 'zero' or 'hold', got {self.how!r}",
                hint="resample_poly(up=n) interpolates without images, resample(period) on straight lines",
            )

    def output_type(self, x: UniformType) -> UniformType:
        """A shorter period."""
        return replace(x, timebase=Regrid(Fraction(1, self.n)).timebase(x.timebase))

    def reach(self, x: UniformType) -> Reach:
        """The sample before."""
        return Reach.samples(x.timebase, before=1)

    def kernel(self, x: UniformType) -> Kernel:
        """Repeat."""
        return UpsampleKernel(self.n, self.how)


class UpsampleKernel(Stateless):
    """Keeps nothing."""

    def __init__(self, n: int, how: str) -> None:
        self.n, self.how, self.regrid = n, how, Regrid(Fraction(1, n))

    def map(self, batch: Batch) -> Batch:
        """Repeat one batch."""
        assert isinstance(batch, Segments)
        values = np.repeat(batch.values, self.n, axis=0)
        if self.how == "zero":
            values[np.arange(len(values)) % self.n > 0] = 0
        base = self.regrid.bases(batch.base)
        return Segments(batch.slot, batch.first * self.n, batch.offsets * self.n, values, base)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftTime(Node):
    """All samples later by a duration (earlier, where negative); the grid moves with them.

    Reference: ``x.shift(freq=by)`` in pandas. Start, gap and end move along.
    """

    by: int

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """Another origin."""
        return replace(x, timebase=None if x.timebase is None else x.timebase.shifted(self.by))

    def reach(self, x: UniformType) -> Reach:
        """The sample that comes here."""
        return Reach(before=max(self.by, 0), after=max(-self.by, 0))

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
        moved = Timebases(base.num, base.den, np.asarray(add_time(base.origin, self.by)))
        return (replace(batch, base=moved),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """A mark that is as much later."""
        return (), add_time(marks[0], self.by)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftTo(Node):
    """Every sample at the nearest beat of another grid with the same period: all move by the same time, at most half a period.

    Reference: the samples as they are, with other instants. Half a period moves them later. Start, gap and end move along.
    """

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
        return (replace(batch, first=batch.first + self.samples, base=self.base),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """The mark moves along."""
        return (), moved(marks[0], lambda m: self.new.instant(self.old.index_from(m) + self.samples))
