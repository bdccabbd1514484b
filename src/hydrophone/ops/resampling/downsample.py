"""Downsample: every n-th sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.timebase import Timebase
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Downsample(Node):
    """Every `n`-th sample: those whose index on the absolute grid leaves the remainder `phase`; reference: ``x[phase::n]``.

    Nothing is filtered: frequencies above half the new rate fold back (`decimate` has a filter). Start, gap and end: sample by sample.
    """

    stable_name = "downsample"

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
        n, phase, base = self.n, self.regrid.phase, self.regrid.bases(batch.base)
        first, stop = (-((phase - index) // n) for index in (batch.first, batch.next))
        some = np.flatnonzero(stop > first)
        counts = (stop - first)[some]
        at = batch.offsets[some] + first[some] * n + phase - batch.first[some]
        places = np.repeat(at, counts) + n * concat_ranges(np.zeros_like(counts), counts)
        values = (
            batch.values[int(at[0]) : int(at[0]) + int(counts[0]) * n : n] if len(some) == 1 else batch.values[places]
        )
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return (Segments(batch.slot[some], first[some], offsets, np.ascontiguousarray(values), base).joined(),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Nothing waits."""
        return (), self.regrid.mark(marks[0], self.timebase)
