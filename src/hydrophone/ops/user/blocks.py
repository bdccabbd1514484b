"""Blocks: windows that follow each other, laid end to end as samples of another rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hydrophone.model.batch import Batch, Segments, Windows
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks(Node):
    """The values of windows that do not overlap (``hop == size``), end to end: `length` samples for every `size`; ``values.ravel()``.

    The first value lies at the first sample of its window, and the others are spread evenly over it: the period becomes
    ``size / length`` times as long, exactly. Start, gap and end: where there is no window there is a hole.
    """

    stable_name = "blocks"

    needs = Order.INDEX
    gives = Order.INDEX

    def output_type(self, x: WindowedType) -> UniformType:
        """Another period."""
        timebase = _regrid(x).timebase(x.timebase)
        return UniformType(x.key, x.time, x.clock, x.dtype, 0, timebase)

    def reach(self, x: WindowedType) -> Reach:
        """A window ends after its first value; its last one may lie between its last sample and the next."""
        return Reach.samples(x.timebase, before=1, after=x.size - 1)

    def kernel(self, x: WindowedType) -> Kernel:
        """Lay them out."""
        return BlocksKernel(x)


class BlocksKernel(Kernel):
    """Keeps nothing."""

    keyed = True

    def __init__(self, kind: WindowedType) -> None:
        self.kind, self.regrid = kind, _regrid(kind)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """The values of one batch."""
        assert isinstance(batch, Windows)
        size, length = self.kind.size, self.kind.length
        first = (batch.last + 1 - size) // size * length
        index = (first[:, None] + np.arange(length)).ravel()
        values = np.ascontiguousarray(batch.values).ravel()
        return (Segments.of_samples(np.repeat(batch.slot, length), index, values, self.regrid.bases(batch.base)),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Nothing waits."""
        return (), self.regrid.mark(marks[0], self.kind.timebase, back=self.kind.size - 1)


def _regrid(kind: WindowedType) -> Regrid:
    return Regrid(Fraction(kind.size, kind.length))
