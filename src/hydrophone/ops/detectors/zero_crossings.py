"""ZeroCrossings: where a signal changes its sign."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hydrophone.model.batch import Batch, Events, Segments
from hydrophone.model.kernel import Kernel
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.detectors.above import refuse_taken_names, refuse_unordered
from hydrophone.ops.filters.history import Extended
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, StreamType, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class ZeroCrossings(Node):
    """Point events where a signal changes its sign, at the first sample of the new sign; ``numpy.flatnonzero(numpy.diff(x < 0)) + 1``.

    Zero counts as positive. Start and gap: nothing is crossed between samples that are not neighbours. End: nothing follows.
    NaN has no sign: nothing is crossed to or from it. Column: `rising`, whether the new sign is positive.
    """

    stable_name = "zero_crossings"

    needs = Order.INDEX

    def output_type(self, x: UniformType) -> StreamType:
        """A stream of points."""
        refuse_unordered(x, "zero_crossings")
        refuse_taken_names(x, ["rising"], "zero_crossings: they")
        return StreamType(x.key, x.time, x.clock, pa.schema([("rising", pa.bool_())]), None)

    def reach(self, x: UniformType) -> Reach:
        """The sample before."""
        return Reach.samples(x.timebase, before=1)

    def kernel(self, x: UniformType) -> Kernel:
        """Find them."""
        return ZeroCrossingsKernel(x, self.type)


class ZeroCrossingsKernel(LookBackKernel):
    """The last sample of every key."""

    def __init__(self, kind: UniformType, out: StreamType) -> None:
        super().__init__(kind, 1, Missing.DROP)
        self.out = out

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """Compare neighbours."""
        x, before = batch.values, wide.lagged(1)
        crossed = ((x < 0) != (before < 0)) & (x == x) & (before == before)
        crossed[batch.offsets[:-1][wide.seen == 0]] = False
        at = np.flatnonzero(crossed)
        run = batch.runs_of(at)
        slot = batch.slot[run]
        time = self.grids.base.times(slot, at + (batch.first - batch.offsets[:-1])[run])
        return (Events(slot, time, None, pa.table({"rising": x[at] >= 0}, schema=self.out.columns)),)
