"""Panes: stretches of time in which events are merged, whatever their order, until progress closes the windows over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Marks
from hydrophone.model.marks import Mark, floor_mark, is_same_mark
from hydrophone.model.sorted_rows import stable_order
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import MIN_TIME, check_finite, step_number
from hydrophone.ops.aggregates.aggregates import Aggregates, Aggregating, partials_from_table, partials_to_table
from hydrophone.ops.aggregates.flush import Flush, PendingResults, longest_wait
from hydrophone.ops.aggregates.order_statistics import value_column
from hydrophone.ops.aggregates.summaries import Partials
from hydrophone.ops.aggregates.task_aggregates import TaskAggregateTable
from hydrophone.ops.signals.place import sort_events
from hydrophone.plan.types import StreamType


class PaneKernel(Aggregating):
    """Events gathered in panes: stretches of `pane` nanoseconds from multiples of it after `offset`."""

    MANY = 64
    """Batches of open windows that are held before they are merged, at most."""
    CROWD = 2
    """Rows of open windows that are not merged yet are at most one to so many that are: a merge touches them all."""
    ROOMY = 4
    """Cells of a full table per event up to which the table is cheaper than sorting."""
    ALONE = 2 / 3
    """Panes per event of a batch beyond which events are held as they come: to look for those that share a pane would find few."""

    def __init__(self, pane: int, offset: int, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        super().__init__(aggregates, kind, out)
        self.pane, self.offset = pane, offset % pane
        self.open: HeldBatches[Events] = HeldBatches(Events)
        self.merges = [m for a in self.summaries for m in a.merge]
        self.plain = all(a.merge for a in self.summaries)
        self._added = self._fresh = 0
        self._settled: int | None = None  # not known after a restore
        self._buffers = False  # whether events are held as they come

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add events to their panes."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        if self.order_statistics:
            self.order_statistic_rows(batch, self._pane_of(batch.start))
        if self._buffers:
            cells = self.unmerged(batch)
        else:
            cells = self.partial_aggregates(batch)
            self._buffers = len(cells) > self.ALONE * len(batch)
        self.merge_partials(cells, len(batch) if self.order_statistics else 0)
        return ()

    def partial_aggregates(self, batch: Events) -> Events:
        """The parts of a batch, one row per slot and pane: all that is kept of it but for picks, so that it can be made elsewhere."""
        self._check(batch)
        return self._merged(batch.slot, batch.start, self.partials(batch))

    def unmerged(self, batch: Events) -> Events:
        """The parts of a batch, one row per event, at the starts of their panes."""
        self._check(batch)
        return Events(batch.slot, self._pane_of(batch.start), None, partials_to_table(self.partials(batch)))

    def merge_partials(self, cells: Events, picked: int = 0) -> None:
        """Hold cells, and merge them with others once there are enough; `picked` rows are held beside them."""
        if self._settled is None:
            self._settled = sum(len(part) for part in self.open.batches)
        self.open.add(cells)
        self._added += 1
        self._fresh += picked or len(cells)
        if self._added >= self.MANY or (1 if self._buffers else self.CROWD) * self._fresh >= self._settled:
            self._compact()

    def task_table(self, who: str, worth: float) -> TaskAggregateTable:
        """A table for the cells of one task."""
        return TaskAggregateTable(self, who, worth)

    def compact(self) -> None:
        """Merge what came since the last time."""
        self._compact()

    def check_room(self, first: int, last: int) -> None:
        """Refuse events from `first` to `last` that lie in windows which 64 bits cannot hold."""
        check_finite(self._pane_of(first), self._pane_of(last) + self.pane)

    def _check(self, batch: Events) -> None:
        if len(batch):
            self.check_room(int(batch.start.min()), int(batch.start.max()))

    def _number(self, start: Any) -> Any:
        return step_number(start, self.pane, self.offset)

    def _pane_of(self, start: Any) -> Any:
        return self._number(start) * self.pane + self.offset

    def _compact(self) -> Events | None:
        held, added, fresh = self.open.all(), self._added, self._fresh
        self._added = self._fresh = 0
        if added:
            self._compact_rows()
        if held is not None and (added > 1 or not self._is_merged(held)):
            rows = len(held)
            held = self._merged(held.slot, held.start, partials_from_table(held))
            self.open.replace(held, np.zeros(0, np.int64))
            # Where half of them are gone many share a pane after all, and the next batch says how many.
            self._buffers &= rows - len(held) < fresh / 2
        self._settled = 0 if held is None else len(held)
        return held

    def _compact_rows(self) -> None:
        """Leave away the rows that no answer can need."""
        for pick, held in self.rows():
            rows = held.all()
            if rows is None:
                continue
            rows = sort_events(rows)
            fresh = _row_changes(rows.slot, self._pane_of(rows.start))
            keep = pick.keep(value_column(rows), fresh, np.append(fresh[1:], len(rows)))
            held.replace(rows if keep is None or keep.all() else rows.select(keep), np.zeros(0, np.int64))

    @staticmethod
    def _is_merged(held: Events) -> bool:
        later = (held.slot[1:] > held.slot[:-1]) | (
            (held.slot[1:] == held.slot[:-1]) & (held.start[1:] > held.start[:-1])
        )
        return bool(later.all())

    def _merged(self, slot: Ints, start: Ints, partials: Partials) -> Events:
        """One row per slot and pane, ordered by both."""
        if self.plain and all(_is_count(m, p) for m, p in zip(self.merges, partials, strict=True)):
            counted = self._counted(slot, start, partials)
            if counted is not None:
                return counted
        low, width, cells = self._table(slot, start)
        if self.plain and cells <= self.ROOMY * len(slot):
            where, counts = np.empty(len(slot), np.int64), np.zeros(cells, np.int64)
            _cell_of_events(slot, start, self.offset, self.pane, low, width, where, counts)
            found, slot, number = _filled_cells(counts, low, width)
            merged = [_merge_scattered(m, where, p, counts)[found] for m, p in zip(self.merges, partials, strict=True)]
        else:
            number = self._number(start)
            order = stable_order(slot, number)
            if order is not None:
                slot, number, partials = slot[order], number[order], [p[order] for p in partials]
            first = _row_changes(slot, number)
            merged = self.folded(partials, first, np.append(first[1:], len(slot)))
            slot, number = slot[first], number[first]
        return Events(slot, number * self.pane + self.offset, None, partials_to_table(merged))

    def _table(self, slot: Ints, start: Ints) -> tuple[int, int, int]:
        """The first pane of a table of all slots and panes, how many panes there are, and how many cells."""
        first, last, most = _time_extent(slot, start)
        low, high = (self._number(int(t)) for t in (first, last))
        return low, high - low + 1, (int(most) + 1) * (high - low + 1)

    def _counted(self, slot: Ints, start: Ints, partials: Partials) -> Events | None:
        """As `_merged` where nothing but events is counted, without a place for every event; None where a table would be too large."""
        low, width, cells = self._table(slot, start)
        if cells > self.ROOMY * len(slot):
            return None
        counts = np.zeros(cells, np.int64)
        _count(slot, start, self.offset, self.pane, low, width, counts)
        found, slot, number = _filled_cells(counts, low, width)
        merged = [counts[found] * p[0] for p in partials]
        return Events(slot, number * self.pane + self.offset, None, partials_to_table(merged))


class ClosingKernel(PaneKernel):
    """Windows over panes, which marks close; their results leave at once, or as `flush` says."""

    keyed = True
    pending: PendingResults | None = None
    _reached: Mark = MIN_TIME  # the panes that were over at the last mark; not known after a restore

    def smooth(self, flush: Flush | None, every: int) -> None:
        """Let results leave as `flush` says; windows follow each other `every` so often."""
        if flush is not None:
            self.pending = PendingResults(longest_wait(flush, every), flush.every)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add events to their panes; old results that they want leave."""
        super().step(port, batch)
        return () if self.pending is None else self.pending.wanted(batch.slot)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the windows that ended at or before the mark, or those of them that should leave now."""
        mark = marks[0]
        reached, before = floor_mark(mark, self.pane, self.offset), self._reached
        self._reached = reached
        results = () if is_same_mark(before, reached) else self.closed(mark)  # marks come more often than panes end
        bound = self.first_open(mark)
        return (results, bound) if self.pending is None else self.pending.later(results, bound, mark)

    def closed(self, mark: Mark) -> Iterable[Batch]:
        """The results that a mark makes final."""
        raise NotImplementedError

    def first_open(self, mark: Mark) -> Mark:
        """The start of the first window that a mark does not make final."""
        raise NotImplementedError

    def compact(self) -> None:
        """Merge what came since the last time."""
        super().compact()
        if self.pending is not None:
            self.pending.compact()


@compiled
def _pane_number(start: int, offset: int, pane: int) -> tuple[int, int, int]:
    """The number of the pane of an instant, and its first and last one. Differences of times may wrap, so there are none here."""
    here = start // pane - (start % pane < offset)
    begin = here * pane + offset
    return here, begin, begin + (pane - 1)


@compiled
def _cell_of_events(
    slot: Any, start: Any, offset: int, pane: int, low: int, width: int, where: Any, counts: Any
) -> None:
    """The cell of every event in a table of all slots and panes, and the events of every cell."""
    here, begin, last = _pane_number(start[0], offset, pane)
    for i in range(len(slot)):
        if not begin <= start[i] <= last:  # neighbours are often in one pane, which saves a division
            here, begin, last = _pane_number(start[i], offset, pane)
        cell = slot[i] * width + here - low
        where[i] = cell
        counts[cell] += 1


@compiled
def _filled_cells(counts: Any, low: int, width: int) -> tuple[Any, Any, Any]:
    """The cells that have events, and their slots and panes, without a division for each."""
    size = 0
    for cell in range(len(counts)):
        size += counts[cell] != 0
    found, slot, number = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    n, cell = 0, 0
    for s in range(len(counts) // width):
        for w in range(width):
            if counts[cell] != 0:
                found[n], slot[n], number[n] = cell, s, low + w
                n += 1
            cell += 1
    return found, slot, number


@compiled
def _time_extent(slot: Any, start: Any) -> tuple[int, int, int]:
    """The first and the last start, and the largest slot."""
    first, last, most = start[0], start[0], slot[0]
    for i in range(len(start)):
        first, last, most = min(first, start[i]), max(last, start[i]), max(most, slot[i])
    return first, last, most


@compiled
def _count(slot: Any, start: Any, offset: int, pane: int, low: int, width: int, counts: Any) -> None:
    """The events of every cell of a table of all slots and panes."""
    here, begin, last = _pane_number(start[0], offset, pane)
    for i in range(len(start)):
        if not begin <= start[i] <= last:
            here, begin, last = _pane_number(start[i], offset, pane)
        counts[slot[i] * width + here - low] += 1


def _is_count(merge: np.ufunc, part: npt.NDArray[Any]) -> bool:
    """Whether a part is the same number for every event, to be added up."""
    return merge is np.add and part.strides == (0,) and part.dtype == np.int64


def _row_changes(slot: Ints, number: Ints) -> Ints:
    """Where rows differ from the one before."""
    fresh = np.concatenate([[True], (slot[1:] != slot[:-1]) | (number[1:] != number[:-1])])[: len(slot)]
    return np.flatnonzero(fresh)


def _merge_scattered(merge: np.ufunc, where: Ints, part: npt.NDArray[Any], counts: Ints) -> npt.NDArray[Any]:
    """Merge the parts that belong to the same cell of a full table, in the order in which they came."""
    if _is_count(merge, part):
        return counts * part[0]
    out = np.zeros(len(counts), part.dtype)
    if merge.identity is None:
        out[where] = part
    with np.errstate(all="ignore"):
        merge.at(out, where, part)
    return out
