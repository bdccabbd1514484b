"""Peaks: samples that stand out from their neighbours on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pyarrow as pa

from hydrophone.batch import Batch, Events, Mask, Segments
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import History
from hydrophone.ops.intervals import refuse_order, refuse_taken
from hydrophone.ops.shift import mark_before
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, StreamType, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class FindPeaks(Node):
    """Point events at samples above all `distance` samples before and not below any of the `distance` samples after them.

    Reference: ``scipy.signal.find_peaks(x, height)`` for a distance of 1, up to plateaus, of which this gives the first
    sample and SciPy the middle. For larger distances SciPy removes peaks by height, and one removal can decide the next, any
    number of samples away; here a peak is decided by its neighbours alone, as in ``scipy.signal.argrelmax(x, order=distance)``.
    `prominence` is that of ``scipy.signal.peak_prominences(x, peaks, wlen)``, with ``wlen = 2 * within + 1``.

    Start, gap and end: a sample with fewer neighbours than `distance` (and `within`) on either side is no peak.
    NaN is no peak, and what has NaN within `distance` is none. Columns: `height`, and `prominence` where it is asked for.
    """

    height: float | None = None
    distance: int = 1
    prominence: float | None = None
    within: int = 0

    needs = Order.INDEX

    def check(self) -> None:
        """A bound on what must be looked at."""
        if self.distance < 1:
            raise ParameterError(f"find_peaks: distance must be at least 1 sample, got {self.distance}")
        if any(v is not None and np.isnan(v) for v in (self.height, self.prominence)):
            raise ParameterError("find_peaks: height and prominence must be numbers")
        if (self.prominence is None) != (self.within == 0) or self.within < 0:
            raise ParameterError(
                "find_peaks: prominence and within (at least 1 sample) go together",
                hint="within says how far to look for the foot of a peak: find_peaks(prominence=2.0, within=100)",
            )

    @property
    def sides(self) -> int:
        """Samples that a peak needs on either side."""
        return max(self.distance, self.within)

    def output_type(self, x: UniformType) -> StreamType:
        """A stream of points."""
        refuse_order(x, "find_peaks")
        names = ["height"] if self.prominence is None else ["height", "prominence"]
        refuse_taken(x, names, "find_peaks: peaks")
        return StreamType(x.key, x.time, x.clock, pa.schema([(n, pa.float64()) for n in names]), None)

    def reach(self, x: UniformType) -> Reach:
        """The neighbours."""
        return Reach.samples(x.timebase, before=self.sides, after=self.sides)

    def kernel(self, x: UniformType) -> Kernel:
        """Find them."""
        return FindPeaksKernel(self, x)


class FindPeaksKernel(Kernel):
    """The last samples of every key; the one in their middle is judged when the last neighbour comes."""

    keyed = True

    def __init__(self, node: FindPeaks, kind: UniformType) -> None:
        self.node, self.kind, self.out = node, kind, node.type
        self.grids = Grids(kind.timebase)
        self.history = History(2 * node.sides, np.dtype(np.float64), 0, Missing.DROP)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Judge the samples that now have all their neighbours."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        wide = self.history.extend(batch, len(self.keys))
        sides = self.node.sides
        high = np.zeros(len(batch.values), np.bool_)
        rise = np.zeros(len(batch.values))
        _peaks(wide.values, wide.at, wide.seen, batch.offsets, sides, self.node.distance, self.node.within, high, rise)
        middle = wide.values[np.repeat(wide.at - batch.offsets[:-1], batch.lengths) + np.arange(len(high)) - sides]
        if self.node.height is not None:
            high &= middle >= self.node.height
        if self.node.prominence is not None:
            high &= rise >= self.node.prominence
        at = np.flatnonzero(high)
        slot = batch.sample_slot[at]
        time = self.grids.base.instant(slot, batch.sample_index[at] - sides)
        found = {"height": middle[at], "prominence": rise[at]}
        columns = pa.table([found[n] for n in self.out.columns.names], schema=self.out.columns)
        return (Events(slot, time, None, columns),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Peaks lie before the sample that decides them."""
        return (), mark_before(marks[0], self.kind.timebase, self.node.sides)

    def idle(self, marks: Marks) -> Mask:
        """Keys that have missed a sample."""
        return self.history.idle(self.grids, len(self.keys), marks[0])


@numba.njit(cache=True, nogil=True)
def _peaks(
    x: Any, at: Any, seen: Any, offsets: Any, sides: int, distance: int, within: int, high: Any, rise: Any
) -> None:
    for run in range(len(at)):
        for i in range(offsets[run], offsets[run + 1]):
            if seen[run] + i - offsets[run] < 2 * sides:
                continue
            peak = at[run] + i - offsets[run] - sides
            value = x[peak]
            found = True
            for j in range(1, distance + 1):
                if not (value > x[peak - j] and value >= x[peak + j]):
                    found = False
                    break
            high[i] = found
            if found and within > 0:
                rise[i] = value - max(_foot(x, peak, -1, within), _foot(x, peak, 1, within))


@numba.njit(cache=True, nogil=True)
def _foot(x: Any, peak: int, step: int, within: int) -> float:
    """The lowest sample on one side before anything higher than the peak."""
    lowest = x[peak]
    for j in range(1, within + 1):
        value = x[peak + step * j]
        if not value <= x[peak]:
            break
        lowest = min(lowest, value)
    return lowest
