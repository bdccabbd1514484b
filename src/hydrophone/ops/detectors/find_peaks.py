"""Peaks: samples that stand out from their neighbours on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.base_kernels import LookAroundKernel
from hydrophone.ops.detectors.above import refuse_taken_names, refuse_unordered
from hydrophone.ops.filters.history import Extended
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class FindPeaks(Node):
    """Point events at samples above all `distance` samples before and not below any of the `distance` samples after them.

    Equal samples in a row are a plateau. It is a peak if the signal rises to it and falls after it, and the peak lies at its first
    sample. A shoulder, from which the signal rises further, is none; neither is a plateau of more than `plateau` samples.

    Reference: ``scipy.signal.find_peaks(x, height, plateau_size=(1, plateau))`` for a distance of 1, whose ``left_edges`` these are;
    SciPy's peaks are the middles of plateaus. For larger distances SciPy removes peaks by height, and one removal can decide the next, any
    number of samples away; here a peak is decided by its neighbours alone, as in ``scipy.signal.argrelmax(x, order=distance)``.
    `prominence` is that of ``scipy.signal.peak_prominences(x, peaks, wlen)``, with ``wlen = 2 * within + 1``.

    Start, gap and end: a sample with fewer neighbours than `distance` (and `within`) on either side is no peak, and neither is a plateau
    whose end is not seen. NaN is no peak, and what has NaN within `distance`, or right after its plateau, is none. Columns: `height`, and
    `prominence` where it is asked for.
    """

    stable_name = "find_peaks"

    height: float | None = None
    distance: int = 1
    prominence: float | None = None
    within: int = 0
    plateau: int = 1000

    needs = Order.INDEX

    def check(self) -> None:
        """A bound on what must be looked at."""
        if self.distance < 1:
            raise ParameterError(f"find_peaks: distance must be at least 1 sample, got {self.distance}")
        if self.plateau < 1:
            raise ParameterError(f"find_peaks: plateau must be at least 1 sample, got {self.plateau}")
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
        refuse_unordered(x, "find_peaks")
        names = ["height"] if self.prominence is None else ["height", "prominence"]
        refuse_taken_names(x, names, "find_peaks: peaks")
        return StreamType(x.key, x.time, x.clock, pa.schema([(n, pa.float64()) for n in names]), None)

    def reach(self, x: UniformType) -> Reach:
        """The neighbours, and the end of the plateau."""
        return Reach.samples(x.timebase, before=self.sides, after=max(self.sides, self.plateau))

    def kernel(self, x: UniformType) -> Kernel:
        """Find them."""
        return FindPeaksKernel(self, x)


class FindPeaksKernel(LookAroundKernel):
    """The last samples of every key, of which the one in the middle is judged when its last neighbour comes.

    A plateau that is longer than these samples stays open until it ends: where it began, its height and prominence.
    """

    VERSION = 2

    def __init__(self, node: FindPeaks, kind: UniformType) -> None:
        # Long integers stay what they are: as doubles many of them would be equal.
        self.dtype = kind.dtype if kind.dtype.kind in "iu" else np.dtype(np.float64)
        super().__init__(kind, node.sides, node.sides, self.dtype)
        self.node, self.out = node, node.type
        self.open = SlotArrays(start=Field(np.int64, MIN_TIME), height=Field(self.dtype), rise=Field(np.float64))

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """Judge the samples that now have all their neighbours, and the plateaus that now end."""
        self.open.reserve(len(self.keys))
        room = len(batch.values)
        index, height, rise = np.full(room, MIN_TIME), np.zeros(room, self.dtype), np.zeros(room)
        buffer, runs = (wide.values, wide.at, wide.seen), (batch.slot, batch.first, batch.offsets)
        bounds = self.node.sides, self.node.distance, self.node.within, self.node.plateau
        state = self.open["start"], self.open["height"], self.open["rise"]
        _peaks(*(*buffer, *runs, *bounds, *state, index, height, rise))
        self.open.touch(batch.slot)
        high = index != MIN_TIME
        if self.node.height is not None:
            high &= height >= self.node.height
        if self.node.prominence is not None:
            high &= rise >= self.node.prominence
        at = np.flatnonzero(high)
        slot = batch.sample_slot[at]
        time = self.grids.base.times(slot, index[at])
        found = {"height": height[at].astype(np.float64), "prominence": rise[at]}
        columns = pa.table([found[n] for n in self.out.columns.names], schema=self.out.columns)
        return (Events(slot, time, None, columns),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Peaks lie before the sample that decides them, and a plateau that may be one holds the mark at its first sample."""
        _, mark = super().advance(marks)
        self.open.reserve(len(self.keys))
        slot = np.flatnonzero(self.open["start"][: len(self.keys)] != MIN_TIME)
        if not len(slot):
            return (), mark
        # A sample that progress has passed will not come, and without it a plateau has no end.
        gone = self.grids.base.instant(slot, self.history["due"][slot]) < marks_of_slots(marks[0], slot)
        self.open["start"][slot[gone]] = MIN_TIME
        self.open.touch(slot[gone])
        slot = slot[~gone]
        return (), hold_back_mark(mark, slot, self.grids.base.instant(slot, self.open["start"][slot]))


@compiled
def _peaks(
    x: Any, at: Any, seen: Any, slot: Any, first: Any, offsets: Any, sides: int, distance: int, within: int, plateau: int,
    start: Any, level: Any, ascent: Any, index: Any, height: Any, rise: Any,
) -> None:  # fmt: skip
    """Sample by sample; one sample decides one peak at most, because a peak that waits for its end lies on a plateau up to here."""
    for run in range(len(at)):
        s = slot[run]
        if seen[run] == 0:
            start[s] = MIN_TIME
        for i in range(offsets[run], offsets[run + 1]):
            behind = i - offsets[run]
            value = x[at[run] + behind]
            if start[s] != MIN_TIME and value != level[s]:
                if value < level[s]:
                    index[i], height[i], rise[i] = start[s], level[s], ascent[s]
                start[s] = MIN_TIME
            elif start[s] != MIN_TIME and first[run] + behind - start[s] >= plateau:
                start[s] = MIN_TIME
            if seen[run] + behind < 2 * sides:
                continue
            peak = at[run] + behind - sides
            if not _stands_out(x, peak, distance):
                continue
            length = 1
            while length <= sides and x[peak + length] == x[peak]:
                length += 1
            if length > plateau or (length <= sides and not x[peak + length] < x[peak]):
                continue
            foot = max(_foot(x, peak, -1, within), _foot(x, peak, 1, within))
            if length <= sides:
                index[i], height[i], rise[i] = first[run] + behind - sides, x[peak], float(x[peak]) - float(foot)
            else:
                start[s], level[s] = first[run] + behind - sides, x[peak]
                ascent[s] = float(x[peak]) - float(foot)


@compiled
def _stands_out(x: Any, peak: int, distance: int) -> bool:
    """Whether a sample is above those before it and not below those after it."""
    stands = True
    for j in range(1, distance + 1):
        stands &= x[peak] > x[peak - j] and x[peak] >= x[peak + j]
    return stands


@compiled
def _foot(x: Any, peak: int, step: int, within: int) -> Any:
    """The lowest sample on one side before anything higher than the peak."""
    lowest = x[peak]
    for j in range(1, within + 1):
        value = x[peak + step * j]
        if not value <= x[peak]:
            break
        lowest = min(lowest, value)
    return lowest
