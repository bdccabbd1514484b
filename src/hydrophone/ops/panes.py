"""Panes: stretches of time in which events are merged, whatever their order, until progress closes the windows over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from hydrophone.batch import Batch, Events, Ints
from hydrophone.kernel import Marks
from hydrophone.marks import Mark, floored, unmoved
from hydrophone.ops.aggregates import (
    Aggregates,
    Aggregating,
    part_table,
    parts_of,
)
from hydrophone.ops.flush import Flush, Pending, longest_wait
from hydrophone.ops.picks import flat
from hydrophone.ops.place import in_order
from hydrophone.ops.summaries import Parts
from hydrophone.plan.types import StreamType
from hydrophone.runs import stable_order
from hydrophone.state import Held
from hydrophone.time import MIN_TIME


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
        self.pane, self.offset = pane, offset
        self.open: Held[Events] = Held(Events)
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
        if self.picks:
            self.pick_rows(batch, self._pane_of(batch.start))
        if self._buffers:
            cells = Events(batch.slot, self._pane_of(batch.start), None, part_table(self.parts(batch)))
        else:
            cells = self.cells(batch)
            self._buffers = len(cells) > self.ALONE * len(batch)
        self.absorb(cells, len(batch) if self.picks else 0)
        return ()

    def cells(self, batch: Events) -> Events:
        """The parts of a batch, one row per slot and pane: all that is kept of it but for picks, so that it can be made elsewhere."""
        return self._merged(batch.slot, batch.start, self.parts(batch))

    def absorb(self, cells: Events, picked: int = 0) -> None:
        """Hold cells, and merge them with others once there are enough; `picked` rows are held beside them."""
        if self._settled is None:
            self._settled = sum(len(part) for part in self.open.parts)
        self.open.add(cells)
        self._added += 1
        self._fresh += picked or len(cells)
        if self._added >= self.MANY or (1 if self._buffers else self.CROWD) * self._fresh >= self._settled:
            self._compact()

    def compact(self) -> None:
        """Merge what came since the last time."""
        self._compact()

    def _pane_of(self, start: Any) -> Any:
        return (start - self.offset) // self.pane * self.pane + self.offset

    def _compact(self) -> Events | None:
        held, added, fresh = self.open.all(), self._added, self._fresh
        self._added = self._fresh = 0
        if added:
            self._compact_rows()
        if held is not None and (added > 1 or not self._is_merged(held)):
            rows = len(held)
            held = self._merged(held.slot, held.start, parts_of(held))
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
            rows = in_order(rows)
            fresh = _changes(rows.slot, self._pane_of(rows.start))
            keep = pick.keep(flat(rows), fresh, np.append(fresh[1:], len(rows)))
            held.replace(rows if keep is None or keep.all() else rows.select(keep), np.zeros(0, np.int64))

    @staticmethod
    def _is_merged(held: Events) -> bool:
        later = (held.slot[1:] > held.slot[:-1]) | (
            (held.slot[1:] == held.slot[:-1]) & (held.start[1:] > held.start[:-1])
        )
        return bool(later.all())

    def _merged(self, slot: Ints, start: Ints, parts: Parts) -> Events:
        """One row per slot and pane, ordered by both."""
        if self.plain and all(_counts(m, p) for m, p in zip(self.merges, parts, strict=True)):
            counted = self._counted(slot, start, parts)
            if counted is not None:
                return counted
        low, width, cells = self._table(slot, start)
        if self.plain and cells <= self.ROOMY * len(slot):
            where, counts = np.empty(len(slot), np.int64), np.zeros(cells, np.int64)
            _cells(slot, start, self.offset, self.pane, low, width, where, counts)
            found, slot, number = _filled(counts, low, width)
            merged = [_scattered(m, where, p, counts)[found] for m, p in zip(self.merges, parts, strict=True)]
        else:
            number = (start - self.offset) // self.pane
            order = stable_order(slot, number)
            if order is not None:
                slot, number, parts = slot[order], number[order], [p[order] for p in parts]
            first = _changes(slot, number)
            merged = self.folded(parts, first, np.append(first[1:], len(slot)))
            slot, number = slot[first], number[first]
        return Events(slot, number * self.pane + self.offset, None, part_table(merged))

    def _table(self, slot: Ints, start: Ints) -> tuple[int, int, int]:
        """The first pane of a table of all slots and panes, how many panes there are, and how many cells."""
        first, last, most = _extent(slot, start)
        low, high = ((int(t) - self.offset) // self.pane for t in (first, last))
        return low, high - low + 1, (int(most) + 1) * (high - low + 1)

    def _counted(self, slot: Ints, start: Ints, parts: Parts) -> Events | None:
        """As `_merged` where nothing but events is counted, without a place for every event; None where a table would be too large."""
        low, width, cells = self._table(slot, start)
        if cells > self.ROOMY * len(slot):
            return None
        counts = np.zeros(cells, np.int64)
        _count(slot, start, self.offset, self.pane, low, width, counts)
        found, slot, number = _filled(counts, low, width)
        merged = [counts[found] * p[0] for p in parts]
        return Events(slot, number * self.pane + self.offset, None, part_table(merged))


class ClosingKernel(PaneKernel):
    """Windows over panes, which marks close; their results leave at once, or as `flush` says."""

    keyed = True
    pending: Pending | None = None
    _reached: Mark = MIN_TIME  # the panes that were over at the last mark; not known after a restore

    def smooth(self, flush: Flush | None, every: int) -> None:
        """Let results leave as `flush` says; windows follow each other `every` so often."""
        if flush is not None:
            self.pending = Pending(longest_wait(flush, every), flush.every)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add events to their panes; old results that they want leave."""
        super().step(port, batch)
        return () if self.pending is None else self.pending.wanted(batch.slot)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the windows that ended at or before the mark, or those of them that should leave now."""
        mark = marks[0]
        reached, before = floored(mark, self.pane, self.offset), self._reached
        self._reached = reached
        results = () if unmoved(before, reached) else self.closed(mark)  # marks come more often than panes end
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


@numba.njit(cache=True, nogil=True)
def _cells(slot: Any, start: Any, offset: int, pane: int, low: int, width: int, where: Any, counts: Any) -> None:
    """The cell of every event in a table of all slots and panes, and the events of every cell."""
    here = (start[0] - offset) // pane
    begin = here * pane + offset
    for i in range(len(slot)):
        if not 0 <= start[i] - begin < pane:  # neighbours are often in one pane, which saves a division
            here = (start[i] - offset) // pane
            begin = here * pane + offset
        cell = slot[i] * width + here - low
        where[i] = cell
        counts[cell] += 1


@numba.njit(cache=True, nogil=True)
def _filled(counts: Any, low: int, width: int) -> tuple[Any, Any, Any]:
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


@numba.njit(cache=True, nogil=True)
def _extent(slot: Any, start: Any) -> tuple[int, int, int]:
    """The first and the last start, and the largest slot."""
    first, last, most = start[0], start[0], slot[0]
    for i in range(len(start)):
        first, last, most = min(first, start[i]), max(last, start[i]), max(most, slot[i])
    return first, last, most


@numba.njit(cache=True, nogil=True)
def _count(slot: Any, start: Any, offset: int, pane: int, low: int, width: int, counts: Any) -> None:
    """The events of every cell of a table of all slots and panes."""
    here = (start[0] - offset) // pane
    begin = here * pane + offset
    for i in range(len(start)):
        if not 0 <= start[i] - begin < pane:
            here = (start[i] - offset) // pane
            begin = here * pane + offset
        counts[slot[i] * width + here - low] += 1


def _counts(merge: np.ufunc, part: npt.NDArray[Any]) -> bool:
    """Whether a part is the same number for every event, to be added up."""
    return merge is np.add and part.strides == (0,) and part.dtype == np.int64


def _changes(slot: Ints, number: Ints) -> Ints:
    """Where rows differ from the one before."""
    fresh = np.concatenate([[True], (slot[1:] != slot[:-1]) | (number[1:] != number[:-1])])[: len(slot)]
    return np.flatnonzero(fresh)


def _scattered(merge: np.ufunc, where: Ints, part: npt.NDArray[Any], counts: Ints) -> npt.NDArray[Any]:
    """Merge the parts that belong to the same cell of a full table, in the order in which they came."""
    if _counts(merge, part):
        return counts * part[0]
    out = np.zeros(len(counts), part.dtype)
    if merge.identity is None:
        out[where] = part
    with np.errstate(all="ignore"):
        merge.at(out, where, part)
    return out
