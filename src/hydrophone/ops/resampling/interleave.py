"""Interleave and deinterleave: from channels to one fast signal, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Segments, Windows
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.timebase import check_indices
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.ops.windows.reduce import Label, ReduceKernel
from hydrophone.ops.windows.refusals import refuse_labels
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class Interleave(Node):
    """The channels of every sample one after the other, as many times as fast; reference: ``x.reshape(-1)``.

    Start: with the first channel of the first sample. Gap: a hole. End: the last channel of the last sample.
    """

    stable_name = "interleave"

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """A shorter period."""
        if not x.channels:
            raise SignalTypeError(
                f"interleave: {x.describe()} has one channel", hint="hp.zip(a, b) makes channels of signals"
            )
        return replace(x, channels=0, timebase=_regrid(x).timebase(x.timebase))

    def reach(self, x: UniformType) -> Reach:
        """The sample whose channel it is."""
        return Reach.samples(x.timebase, before=1)

    def kernel(self, x: UniformType) -> Kernel:
        """Reshape."""
        return InterleaveKernel(x.channels, _regrid(x))


def _regrid(x: UniformType) -> Regrid:
    return Regrid(Fraction(1, x.channels))


class InterleaveKernel(Stateless):
    """Keeps nothing."""

    def __init__(self, channels: int, regrid: Regrid) -> None:
        self.channels, self.regrid = channels, regrid

    def map(self, batch: Batch) -> Batch:
        """Reshape one batch."""
        assert isinstance(batch, Segments)
        n = self.channels
        if len(batch):
            check_indices(int(batch.first.min()) * n, int(batch.next.max()) * n)
        values = np.ascontiguousarray(batch.values).reshape(-1)
        return Segments(batch.slot, batch.first * n, batch.offsets * n, values, self.regrid.bases(batch.base))


@dataclass(frozen=True, kw_only=True, eq=False)
class Deinterleave(Node):
    """Windows that follow each other as the channels of one sample each; reference: ``x.reshape(-1, n)``."""

    stable_name = "deinterleave"

    gives = None

    def output_type(self, x: WindowedType) -> UniformType:
        """A longer period, that of the first channel's samples."""
        refuse_labels("deinterleave", x)
        if x.channels:
            raise SignalTypeError(f"deinterleave: {x.describe()} has channels already", hint="pick a channel(0) first")
        if not x.length == x.size == x.hop:
            raise ParameterError("deinterleave: needs windows that follow each other", hint="signal.deinterleave(n)")
        grid = _label(x).regrid
        return UniformType(x.key, x.time, x.clock, x.dtype, x.length, grid.timebase(x.timebase))

    def reach(self, x: WindowedType) -> Reach:
        """The window itself."""
        return _label(x).reach(x.timebase)

    def kernel(self, x: WindowedType) -> Kernel:
        """Lay down."""
        return DeinterleaveKernel(lambda windows: windows, x, self.type, "start")


def _label(x: WindowedType) -> Label:
    return Label(x.size, x.hop, "start")


class DeinterleaveKernel(ReduceKernel):
    """Lays every window down as one sample."""

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Lay one batch down."""
        assert isinstance(batch, Windows)
        if not len(batch):
            return ()
        base, index = self.label.regrid.bases(batch.base), self.label.index(batch.last)
        return (Segments.of_samples(batch.slot, index, np.ascontiguousarray(batch.values), base),)
