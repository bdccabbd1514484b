"""Kernels for the shapes that operators on signals repeat: an operator adds its arithmetic, and little else.

=================== ==============================================================================================
`PointwiseKernel`   a function of every sample alone
`LookBackKernel`    the last samples of every key in front of its new ones
`LookAroundKernel`  the samples before and after each one
`RecursiveKernel`   a compiled loop over segments, which carries a memory per key
`GridKernel`        what the last three share; for kernels with other state
=================== ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hydrophone.model.batch import Batch, Mask, Segments, Values, Windows
from hydrophone.model.kernel import Kernel, Marks, Stateless
from hydrophone.model.marks import Mark, low_water_mark, lowest_marks, map_mark
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.ops.filters.history import Extended, History
from hydrophone.ops.signals.grids import KeyGrids
from hydrophone.plan.types import Missing, UniformType

B = TypeVar("B", Segments, Windows)


class PointwiseKernel(Stateless):
    """A function of the values of a batch, which looks at every sample alone."""

    def __init__(self, function: Callable[[Values], Values]) -> None:
        self.function = function

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Segments)
        with np.errstate(all="ignore"):
            return batch.with_values(self.function(batch.values))


class GridKernel(Kernel, Generic[B]):
    """Takes the batches of a signal that are not empty, and knows the grid of every key."""

    def __init__(self, timebase: Timebase | None) -> None:
        self.grids = KeyGrids(timebase)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Leave out empty batches, and learn the grids of keys."""
        assert isinstance(batch, Segments | Windows)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        return self.take(cast(B, batch))

    def take(self, batch: B) -> Iterable[Batch]:
        """What a batch gives at once."""
        raise NotImplementedError


class LookBackKernel(GridKernel[Segments]):
    """The last `size` samples of every key in front of its new ones.

    Parameters
    ----------
    x : the type of the samples
    size : how many samples before each one it needs
    missing : what a hole is, see `History`
    dtype : the precision in which samples are kept; by default their own
    """

    def __init__(self, x: UniformType, size: int, missing: Missing, dtype: np.dtype[Any] | None = None) -> None:
        super().__init__(x.timebase)
        self.history = History(size, x.dtype if dtype is None else dtype, x.channels, missing)

    def take(self, batch: Segments) -> Iterable[Batch]:
        """Put the history in front."""
        return self.extended(batch, self.history.extend(batch, len(self.keys)))

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """What a batch gives; `wide` has its samples with the history in front."""
        raise NotImplementedError

    def idle(self, marks: Marks) -> Mask:
        """Keys whose history can no longer show in any output."""
        return self.history.idle(self.grids, len(self.keys), marks[0])


class LookAroundKernel(LookBackKernel):
    """Every sample from those up to `before` steps before and `after` steps after it.

    A sample that lacks one of these gives nothing. An output is known when the last sample that it needs has come.
    """

    keyed = True

    def __init__(self, x: UniformType, before: int, after: int, dtype: np.dtype[Any] | None = None) -> None:
        super().__init__(x, before + after, Missing.DROP, dtype)
        self.after, self.timebase = after, x.timebase

    def values(self, at: Callable[[int], Values]) -> Values:
        """The outputs of many samples at once; ``at(-1)`` is the sample before each of them, ``at(1)`` the one after."""
        raise NotImplementedError

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """The samples whose last neighbour has come."""
        with np.errstate(all="ignore"):
            y = batch.with_values(self.values(lambda steps: wide.lagged(self.after - steps)))
        y = self.history.complete(y, wide.seen)
        return (replace(y, first=y.first - self.after),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Outputs lie before the sample that brings them."""
        return (), mark_before_samples(marks[0], self.timebase, self.after)


class RecursiveKernel(GridKernel[Segments]):
    """A compiled loop over segments: as many samples out as in, with a memory per key.

    Parameters
    ----------
    out : the type of what comes out; samples are brought to its precision first
    longest : samples of a hole after which a key starts afresh
    memory : what is kept per key, and with it ``due``, the index after the last sample (or one per channel)
    """

    def __init__(self, out: UniformType, longest: int, **memory: Field) -> None:
        super().__init__(out.timebase)
        self.out, self.longest = out, longest
        self.memory = SlotArrays(**{"due": Field(np.int64, MIN_TIME), **memory})

    def loop(self, x: npt.NDArray[Any], batch: Segments) -> None:
        """Turn the samples of a batch (a row each, a column per channel) into what comes out, in place, and remember."""
        raise NotImplementedError

    def take(self, batch: Segments) -> Iterable[Batch]:
        """Run the loop over a copy of the samples."""
        self.memory.reserve(len(self.keys))
        x = batch.values.astype(self.out.dtype, copy=True).reshape(len(batch.values), -1)
        self.loop(x, batch)
        self.memory.touch(batch.slot)
        return (batch.with_values(x.reshape(batch.values.shape)),)

    def idle(self, marks: Marks) -> Mask:
        """Keys whose next sample will be a start."""
        self.memory.reserve(len(self.keys))
        due = self.memory["due"][: len(self.keys)]
        due = due if due.ndim == 1 else due.max(axis=1)
        return self.grids.ended_before(np.where(due == MIN_TIME, due, due + self.longest), marks[0])


def mark_before_samples(mark: Mark, timebase: Timebase | None, samples: int) -> Mark:
    """The mark of outputs that lie up to so many samples before the input that brings them.

    Where every key has its own period, so many samples may be any number of nanoseconds: only the end is known.
    """
    if not samples:
        return mark
    if timebase is None:
        return MAX_TIME if low_water_mark(mark) == MAX_TIME else MIN_TIME
    return map_mark(mark, lambda m: lowest_marks((m, timebase.instant(timebase.index_from(m) - samples))))
