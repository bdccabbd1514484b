"""Overlap-add: from windows back to samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import SignalTypeError
from hydrophone.model.batch import Batch, Ints, Mask, Segments, Windows
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, low_water_mark, lowest_marks, map_mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.ops.base_kernels import GridKernel
from hydrophone.ops.filters.rolling import aggregate_dtype
from hydrophone.ops.windows.refusals import refuse_labels
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class OverlapAdd(Node):
    """Lay windows back on the time axis, the last value at the window's instant, and add where they overlap.

    Windows with another number of values than samples have no place there: a value of a spectrum belongs to no instant.
    Samples that no window covers are holes. Sums of whole numbers are 64 bits wide. They are taken in the order of the windows, so
    that chunking cannot change a bit.
    """

    stable_name = "overlap_add"

    gives = Order.INDEX
    needs = Order.INDEX

    def output_type(self, x: WindowedType) -> UniformType:
        """Samples again."""
        refuse_labels("overlap_add", x)
        refuse_other_length(x, "overlap_add")
        return UniformType(x.key, x.time, x.clock, summed_dtype(x), x.channels, x.timebase)

    def reach(self, x: WindowedType) -> Reach:
        """A sample needs all windows that cover it, and these end after it."""
        return Reach.samples(x.timebase, after=x.length - 1)

    def kernel(self, x: WindowedType) -> Kernel:
        """Add."""
        return OverlapAddKernel(x)


def summed_dtype(x: WindowedType) -> np.dtype[Any]:
    """Sums of whole numbers are 64 bits wide, where windows overlap; all else stays as it is."""
    return aggregate_dtype("sum", x.dtype) if x.dtype.kind in "iu" and x.hop < x.length else x.dtype


def refuse_other_length(x: WindowedType, what: str) -> None:
    """Windows whose values are not one per sample, as those of spectra and correlations."""
    if x.length == x.size:
        return
    undo = "irfft" if x.length == x.size // 2 + 1 else "what makes samples of them again"
    raise SignalTypeError(
        f"{what}: windows of {x.size} samples have {x.length} values, so none of them has an instant",
        hint=f"go back first ({undo}); of windows that are cut short on purpose, make the rest zeros instead",
    )


class OverlapAddKernel(GridKernel[Windows]):
    """Per key the sums under its last window, and the next index that it owes."""

    VERSION = 2
    keyed = True

    def __init__(self, kind: WindowedType) -> None:
        super().__init__(kind.timebase)
        self.kind, self.length = kind, kind.length
        shape = (kind.length, kind.channels) if kind.channels else (kind.length,)
        self.sums = SlotArrays(
            sum=Field(summed_dtype(kind), 0, shape),
            last=Field(np.int64, MIN_TIME),
            owed=Field(np.int64, MIN_TIME),
        )

    def take(self, batch: Windows) -> Iterable[Batch]:
        """What no later window can cover."""
        self.sums.reserve(len(self.keys))
        most = np.full(len(batch), self.length)
        same = batch.slot[1:] == batch.slot[:-1]
        most[1:][same] = np.minimum(batch.last[1:] - batch.last[:-1], self.length)[same]
        room, sums = int(most.sum()), self.sums["sum"]
        slot, index = np.empty(room, np.int64), np.empty(room, np.int64)
        value = np.empty((room, *sums.shape[2:]), sums.dtype)
        count = self._add(batch, slot, index, value)
        self.sums.touch(batch.slot)
        return (Segments.of_samples(slot[:count], index[:count], value[:count], batch.base),)

    def _add(self, batch: Windows, slot: Ints, index: Ints, value: npt.NDArray[Any]) -> int:
        """Add windows to the sums of their keys; what leaves is written to the arrays, and counted."""
        sums, windows = self.sums["sum"], laid_out(batch.values)
        flat = sums.reshape(len(sums), -1), windows.reshape(len(windows), -1)
        out = slot, index, value.reshape(len(value), math.prod(value.shape[1:]))
        return int(_overlap_add(batch.slot, batch.last, *flat, self.sums["last"], self.sums["owed"], *out))

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """What the next window that progress allows cannot cover."""
        mark = marks[0]
        slot = np.flatnonzero(self.sums.used)
        if not len(slot):
            return (), self._bound(mark, self.kind.timebase)
        base, after = self.grids.base, self.sums["last"][slot] + 1
        # A window that ends a whole length later covers nothing of what is owed: no need to look (or overflow) further.
        next_end = self._grid(
            np.clip(base.index_from_mark(slot, marks_of_slots(mark, slot)), after, after + self.length)
        )
        start, stop = self.sums["owed"][slot], np.minimum(next_end - self.length + 1, after)
        ripe = start < stop
        slot, start, stop, first = slot[ripe], start[ripe], stop[ripe], (after - self.length)[ripe]
        batches: tuple[Batch, ...] = ()
        if len(slot):
            lengths = stop - start
            flat = slot * self.length + start - first
            sums = self.sums["sum"]
            values = sums.reshape(-1, *sums.shape[2:])[concat_ranges(flat, lengths)]
            batches = (Segments(slot, start, np.concatenate([[0], np.cumsum(lengths)]), values, base),)
            self.sums["owed"][slot] = stop
            self.sums.touch(slot)
        return batches, self._bound(mark, self.kind.timebase)

    def idle(self, marks: Marks) -> Mask:
        """Keys that owe nothing."""
        self.sums.reserve(len(self.keys))
        last, owed = self.sums["last"][: len(self.keys)], self.sums["owed"][: len(self.keys)]
        return (last == MIN_TIME) | (owed > last)

    def _grid(self, index: Any) -> Any:
        """The first window end at or after an index."""
        return index + (self.kind.size - 1 - index) % self.kind.hop

    def _bound(self, mark: Mark, timebase: Timebase | None) -> Mark:
        """No sample before this can still come; where every key has a period of its own that is known at the end only."""
        if timebase is None:
            # The next window may be of a key whose period is not known here, and cover any number of nanoseconds.
            return MAX_TIME if low_water_mark(mark) == MAX_TIME else MIN_TIME

        def first(m: Any) -> Mark:
            return lowest_marks((m, timebase.instant(self._grid(timebase.index_from(m)) - self.length + 1)))

        return map_mark(mark, first)


def laid_out(windows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Windows as samples lie: with channels a sample after the other, each with all of its channels."""
    return np.ascontiguousarray(windows.swapaxes(1, 2) if windows.ndim == 3 else windows)


@compiled
def write_finished(
    s: int, end: int, sums: Any, prior: Any, owed: Any, count: int, slot: Any, index: Any, value: Any
) -> tuple[int, int]:
    """Write what a window that ends at `end` cannot reach; gives how far the window moves on, and how many have left.

    All numbers of a sample lie together in `sums`, and are a row of `value`.
    """
    width = value.shape[1]
    length = shift = len(sums) // width
    if prior[s] != MIN_TIME:
        first = prior[s] - length + 1
        shift = min(end - prior[s], length)
        for k in range(max(owed[s], first), first + shift):
            slot[count], index[count] = s, k
            for j in range(width):
                value[count, j] = sums[(k - first) * width + j]
            count += 1
    owed[s] = max(owed[s], end - length + 1)
    prior[s] = end
    return shift, count


@compiled
def _overlap_add(
    slot: Any,
    last: Any,
    total: Any,
    windows: Any,
    prior: Any,
    owed: Any,
    out_slot: Any,
    out_index: Any,
    out_value: Any,
) -> int:
    """Add windows in order; what the next window of the key cannot reach leaves."""
    room, count = windows.shape[1], 0
    for w in range(len(slot)):
        s = slot[w]
        sums = total[s]
        shift, count = write_finished(s, last[w], sums, prior, owed, count, out_slot, out_index, out_value)
        step = shift * out_value.shape[1]
        for i in range(room - step):
            sums[i] = sums[i + step] + windows[w, i]
        for i in range(room - step, room):
            sums[i] = windows[w, i]
    return count
