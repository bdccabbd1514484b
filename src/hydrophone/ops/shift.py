"""Samples that move on their grid, and what is made of a sample and an earlier one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.batch import Batch, Mask, Segments
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark, least, lowest, moved
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import History
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType
from hydrophone.runs import ranges
from hydrophone.time import MAX_TIME, MIN_TIME
from hydrophone.timebase import Timebase


@dataclass(frozen=True, kw_only=True, eq=False)
class Shift(Node):
    """Every sample so many steps of the grid later (earlier, where negative): ``y[n] = x[n - samples]``.

    Reference: ``x.shift(samples, freq=period)`` in pandas. Start, gap and end move along; nothing is filled in or lost.
    """

    samples: int

    needs = Order.INDEX
    gives = Order.INDEX

    def output_type(self, x: UniformType) -> UniformType:
        """As the input."""
        return x

    def reach(self, x: UniformType) -> Reach:
        """The sample that comes here."""
        return Reach.samples(x.timebase, before=max(self.samples, 0), after=max(-self.samples, 0))

    def kernel(self, x: UniformType) -> Kernel:
        """Move."""
        return ShiftKernel(self.samples, x.timebase)


class ShiftKernel(Kernel):
    """Keeps nothing; samples that move to earlier times hold the mark back by as much."""

    keyed = True

    def __init__(self, samples: int, timebase: Timebase | None) -> None:
        self.samples, self.timebase = samples, timebase

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Move one batch."""
        assert isinstance(batch, Segments)
        return (replace(batch, first=batch.first + self.samples),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """No sample comes before where the next one may move to."""
        return (), mark_before(marks[0], self.timebase, max(-self.samples, 0))


def mark_before(mark: Mark, timebase: Timebase | None, samples: int) -> Mark:
    """The mark of outputs that lie up to so many samples before the input that brings them.

    Where every key has a period of its own, so many samples may be any number of nanoseconds: only the end is known.
    """
    if not samples:
        return mark
    if timebase is None:
        return MAX_TIME if least(mark) == MAX_TIME else MIN_TIME
    return moved(mark, lambda m: lowest((m, timebase.instant(timebase.index_from(m) - samples))))


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference(Node):
    """The change from the sample `lag` steps before; reference: ``x[lag:] - x[:-lag]`` in NumPy.

    Start: nothing until there is a sample to compare with (``zero``: the difference from zero). Gap: ``drop`` gives
    nothing where the sample `lag` steps before is missing, whatever lies between; ``zero`` counts it as zero.
    End: nothing follows the last sample. NaN shows where it is compared, and nowhere else. Whole numbers stay whole.
    """

    lag: int = 1
    missing: Missing = Missing.DROP

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """An earlier sample."""
        if self.lag < 1:
            raise ParameterError(f"difference: lag must be at least 1 sample, got {self.lag}")

    def output_type(self, x: UniformType) -> UniformType:
        """As the input."""
        return x

    def reach(self, x: UniformType) -> Reach:
        """The sample before."""
        return Reach.samples(x.timebase, before=self.lag)

    def kernel(self, x: UniformType) -> Kernel:
        """Subtract."""
        return DifferenceKernel(self.lag, self.missing, x)


class DifferenceKernel(Kernel):
    """The last `lag` samples of every key, and which of them are there."""

    def __init__(self, lag: int, missing: Missing, kind: UniformType) -> None:
        self.lag, self.missing = lag, missing
        self.grids = Grids(kind.timebase)
        self.history = History(lag, kind.dtype, kind.channels, Missing.ZERO)
        self.there = History(lag, np.dtype(np.int8), 0, Missing.ZERO)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Subtract in one batch."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        wide = self.history.extend(batch, len(self.keys))
        before = ranges(wide.at - self.lag, batch.lengths)
        with np.errstate(all="ignore"):
            y = batch.with_values(batch.values - wide.values[before])
        if self.missing is Missing.ZERO:
            return (y,)
        there = self.there.extend(batch.with_values(np.ones(len(batch.values), np.int8)), len(self.keys))
        return (keep_samples(y, there.values[before] > 0),)

    def idle(self, marks: Marks) -> Mask:
        """Keys that have been silent for longer than the lag."""
        return self.history.idle(self.grids, len(self.keys), marks[0])


def keep_samples(x: Segments, keep: Mask) -> Segments:
    """The samples where the mask is true; the others become holes."""
    if keep.all():
        return x
    at = np.flatnonzero(keep)
    if len(at) < len(x):
        run = np.searchsorted(x.offsets[1:], at, "right")
    else:
        run = np.repeat(np.arange(len(x)), np.diff(np.searchsorted(at, x.offsets)))
    return Segments.of_samples(x.slot[run], at + (x.first - x.offsets[:-1])[run], x.values[at], x.base)
