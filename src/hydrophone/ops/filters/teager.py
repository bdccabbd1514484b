"""The Teager-Kaiser energy: how loud and how fast a signal oscillates, from three samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.model.batch import Values
from hydrophone.model.kernel import Kernel
from hydrophone.ops.base_kernels import LookAroundKernel
from hydrophone.ops.windows.refusals import refuse_complex
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Teager(Node):
    """The Teager-Kaiser energy; reference: ``x[1:-1] ** 2 - x[:-2] * x[2:]`` in NumPy, of doubles.

    Start, gap and end: nothing for a sample without a neighbour on both sides. A sample is given when the next one has come.
    NaN shows in the three samples that it is a neighbour of, and nowhere else. Integers are computed as doubles: they do not wrap.
    """

    stable_name = "teager"

    needs = Order.INDEX
    gives = Order.INDEX

    def output_type(self, x: UniformType) -> UniformType:
        """Double precision."""
        refuse_complex("teager", x.dtype, "take real() or magnitude() first")
        return replace(x, dtype=np.dtype(np.float64))

    def reach(self, x: UniformType) -> Reach:
        """Both neighbours."""
        return Reach.samples(x.timebase, before=1, after=1)

    def kernel(self, x: UniformType) -> Kernel:
        """Compare neighbours."""
        return TeagerKernel(self.type, before=1, after=1)


class TeagerKernel(LookAroundKernel):
    """The last two samples of every key."""

    def values(self, at: Callable[[int], Values]) -> Values:
        """The energy of many samples."""
        return at(0) * at(0) - at(-1) * at(1)
