"""Upsample: n samples for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.timebase import check_indices
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.ops.room import room_for
from hydrophone.plan.node import Node
from hydrophone.plan.parameters import length
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Upsample(Node):
    """`n` samples for one, ``hold``: n times the same (``numpy.repeat(x, n)``), ``zero``: zeros after it (``numpy.kron(x, [1, 0, …])``).

    Start: with the first sample. Gap: as long as before, less ``n - 1`` new samples. End: ``n - 1`` samples after the last one.
    """

    stable_name = "upsample"

    n: int
    how: str = "zero"

    gives = None

    def check(self) -> None:
        """A number, and a way."""
        if length(self.n, "upsample: n") < 1:
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
        low, high = (batch.base.instant(batch.slot, i) for i in (batch.first, batch.next - 1))
        hint = "a smaller n, or smaller batches"
        with room_for("upsample", self.keys, batch.slot, low, high, batch.lengths * float(self.n), hint=hint):
            values = np.repeat(batch.values, self.n, axis=0)
        if self.how == "zero":
            values[np.arange(len(values)) % self.n > 0] = 0
        base = self.regrid.bases(batch.base)
        if len(batch):
            check_indices(int(batch.first.min()) * self.n, int(batch.next.max()) * self.n)
        return Segments(batch.slot, batch.first * self.n, batch.offsets * self.n, values, base)
