"""What kernels with feedback share: samples in, as many samples out, by a compiled loop over runs that carries a memory per key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.batch import Batch, Mask, Segments
from hydrophone.kernel import Kernel, Marks
from hydrophone.ops.grids import Grids
from hydrophone.plan.types import UniformType
from hydrophone.state import Field, SlotArrays
from hydrophone.time import MIN_TIME


class RecursiveKernel(Kernel):
    """Runs `loop` over every batch, in place.

    Parameters
    ----------
    out : the type of what comes out; samples are brought to its precision first
    longest : samples of a hole after which a key starts afresh
    memory : what is kept per key, and with it ``due``, the index after the last sample (or one per channel)
    """

    def __init__(self, out: UniformType, longest: int, **memory: Field) -> None:
        self.out, self.longest = out, longest
        self.grids = Grids(out.timebase)
        self.memory = SlotArrays(**{"due": Field(np.int64, MIN_TIME), **memory})

    def loop(self, x: npt.NDArray[Any], batch: Segments) -> None:
        """Turn the samples of a batch (a row each, a column per channel) into what comes out, and remember."""
        raise NotImplementedError

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """One batch."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.memory.reserve(len(self.keys))
        self.grids.learn(batch, len(self.keys))
        x = batch.values.astype(self.out.dtype, copy=True).reshape(len(batch.values), -1)
        self.loop(x, batch)
        self.memory.touch(batch.slot)
        return (batch.with_values(x.reshape(batch.values.shape)),)

    def idle(self, marks: Marks) -> Mask:
        """Keys whose next sample will be a start."""
        self.memory.reserve(len(self.keys))
        due = self.memory["due"][: len(self.keys)]
        due = due if due.ndim == 1 else due.max(axis=1)
        return self.grids.passed(np.where(due == MIN_TIME, due, due + self.longest), marks[0])
