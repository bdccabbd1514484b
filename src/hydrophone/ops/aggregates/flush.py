"""Workload smoothing: results of windows that are over leave a few at a time, instead of all at the mark.

After Li et al., "Out-of-Order Processing", section 6: no order is promised, so an old result may leave after newer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError, located
from hydrophone.model.batch import Batch, Events, Ints, Mask
from hydrophone.model.compiled import compiled
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.state import KeptBatches
from hydrophone.model.time import MAX_TIME, add_time, multiples
from hydrophone.plan.parameters import whole


@dataclass(frozen=True)
class Flush:
    """When results of windows that are over leave.

    Attributes
    ----------
    late : how many windows further progress may be before the last of them has left
    every : how many events there are for each result that leaves without being wanted; None: none does
    """

    late: int
    every: int | None = None


@located
def lazy(*, late: int = 2) -> Flush:
    """Lazy flush: a result leaves with the next event of its key, and at most `late` windows after its own.

    The answer is the same. See ``docs/out-of-order.md``.

    Examples
    --------
    >>> lazy(late=3)
    Flush(late=3, every=None)
    """
    return Flush(_whole("lazy", "late", late))


@located
def slow(*, every: int, late: int = 2) -> Flush:
    """Slow flush: as `lazy`, and one more result leaves for every so many events of any key, the oldest first.

    Examples
    --------
    >>> slow(every=8)
    Flush(late=2, every=8)
    """
    return Flush(_whole("slow", "late", late), _whole("slow", "every", every))


def _whole(what: str, name: str, value: int) -> int:
    try:
        count = whole(value, f"{what}: {name}")
    except ParameterError:
        count = 0
    if count < 1:
        raise ParameterError(
            f"{what}: {name} must be a whole number, at least 1, got {value!r}",
            hint="hp.lazy(late=2), or hp.slow(every=8, late=2); without flush results leave at once",
        )
    return count


def check_flush(flush: object, what: str) -> None:
    """A way to flush, or none."""
    if flush is not None and not isinstance(flush, Flush):
        raise ParameterError(
            f"{what}: flush must say when results leave, got {flush!r}", hint="hp.lazy(late=2), or hp.slow(every=8)"
        )


def longest_wait(flush: Flush | None, every: int) -> int:
    """How far progress may be behind a window that has not left, where windows follow each other `every` so often."""
    wait: int = 0 if flush is None else multiples(flush.late, every)
    return wait


class PendingResults(KeptBatches[Events]):
    """Results that wait, and which of them leave when.

    A row has a number, in the order in which rows came, and is found by its slot through a chain of numbers. Rows that have left
    stay where they are until they are more than those that wait, so that to leave costs nothing for the others.

    Examples
    --------
    >>> import pyarrow as pa
    >>> def results(slot, start):
    ...     return Events(np.array(slot), np.array(start), np.array(start) + 10, pa.table({"n": slot}))
    >>> pending = PendingResults(wait=20, every=2)
    >>> out, mark = pending.later([results([0, 1, 2], [0, 0, 0])], bound=10, mark=10)
    >>> list(out), mark
    ([], 0)
    >>> [b.slot.tolist() for b in pending.wanted(np.array([1, 1]))]  # its own, and one more for two events
    [[0, 1]]
    >>> out, mark = pending.later([results([1], [20])], bound=30, mark=30)
    >>> [b.slot.tolist() for b in out], mark
    ([[2]], 20)
    """

    MANY = 8
    """Parts in which rows may lie, but for a few that are each more than twice as long as the next: to leave looks at all of them."""

    def __init__(self, wait: int, every: int | None = None) -> None:
        super().__init__(Events)
        self.wait, self.every = wait, every
        self._fresh = False  # whether blocks were loaded that have no numbers yet
        self._events = 0  # since the last result that left for so many events
        self._clear()

    def _clear(self) -> None:
        self._batches = []
        self._newest = np.zeros(0, np.int64)  # by slot: the number of its newest row, or -1
        self._before = np.zeros(0, np.int64)  # by number: that of the row before it in the same slot, or -1
        self._waits = np.zeros(0, np.bool_)  # by number
        self._count = 0  # of rows that wait
        self._oldest = 0  # nothing before this number waits
        self._due = MAX_TIME  # no row must leave before this mark

    # --- when rows leave --------------------------------------------------------------------------------------------------

    def wanted(self, slot: Ints) -> Iterable[Events]:
        """Take notice of events; give what waits for them, and with slow flush the oldest of the others."""
        self._number()
        old = 0
        if self.every is not None:
            self._events += len(slot)
            old, self._events = divmod(self._events, self.every)
        if not self._count:
            return ()
        rows = np.empty(self._count, np.int64)
        found = _leave_by_slot(slot, self._newest, self._before, self._waits, rows)
        found, self._oldest = _leave_by_age(self._oldest, old, self._waits, rows, found)
        return self._left(np.sort(rows[:found]))

    def later(self, results: Iterable[Batch], bound: Mark, mark: Mark) -> tuple[Iterable[Batch], Mark]:
        """Hold what became final at a mark; give what has waited long enough, and hold back the output mark for the rest."""
        self._number()
        for batch in results:
            assert isinstance(batch, Events)
            self._add(batch if (batch.stop[1:] >= batch.stop[:-1]).all() else _in_order(batch))
        given = list(self._overdue(mark))
        if not self._count:
            return given, bound
        if not isinstance(bound, np.ndarray):
            return given, min(bound, min(_least(p.start, w) for p, w in self._by_part()))
        slot, start = (
            np.concatenate(c) for c in zip(*((p.slot[w], p.start[w]) for p, w in self._by_part()), strict=True)
        )
        return given, hold_back_mark(bound, slot, start)

    def _overdue(self, mark: Mark) -> Iterable[Events]:
        if self._due > int(np.max(mark)):
            return ()
        over: list[Mask] = []
        self._due = MAX_TIME
        for part, waits in self._by_part():
            due = add_time(part.stop, self.wait)
            over.append(waits & (due <= marks_of_slots(mark, part.slot)))
            self._due = min(self._due, _least(due, waits & ~over[-1]))
        rows = np.flatnonzero(np.concatenate(over)) if over else np.zeros(0, np.int64)
        self._waits[rows] = False
        return self._left(rows)

    def _left(self, rows: Ints) -> list[Events]:
        """The rows of these numbers, in order, which wait no more."""
        given, at = [], 0
        for part in self._batches:
            first, stop = np.searchsorted(rows, (at, at + len(part)))
            if first < stop:
                given.append(part.select(rows[first:stop] - at))
                self._mark(given[-1].slot)
            at += len(part)
        self._count -= len(rows)
        if not self._count:
            self._clear()
        elif 2 * self._count < len(self._waits):
            self._settle()
        return given

    # --- where rows are -----------------------------------------------------------------------------------------------------

    def _add(self, batch: Events) -> None:
        if not len(batch):
            return
        self._mark(batch.slot)
        self._due = min(self._due, add_time(int(batch.stop.min()), self.wait))
        at, most = len(self._waits), int(batch.slot.max())
        self._waits = np.concatenate([self._waits, np.ones(len(batch), np.bool_)])
        self._before = np.concatenate([self._before, np.empty(len(batch), np.int64)])
        if most >= len(self._newest):
            more = max(most + 1, 2 * len(self._newest)) - len(self._newest)
            self._newest = np.concatenate([self._newest, np.full(more, -1, np.int64)])
        _link(batch.slot, at, self._newest, self._before)
        self._count += len(batch)
        self._batches.append(batch)
        # Where there are many the small ones become one; numbers stay.
        while len(self._batches) > self.MANY and len(self._batches[-2]) <= 2 * len(self._batches[-1]):
            self._batches[-2:] = [Events.concat(self._batches[-2:])]

    def _by_part(self) -> Iterator[tuple[Events, Mask]]:
        """The parts, and which of their rows wait."""
        at = 0
        for part in self._batches:
            yield part, self._waits[at : at + len(part)]
            at += len(part)

    def _settle(self) -> None:
        """Give back the memory of rows that have left."""
        self._renew([part.select(waits) for part, waits in self._by_part()])

    def _renew(self, parts: list[Events]) -> None:
        dirty, self._fresh = self._dirty, False
        self._dirty = None  # nothing changes
        self._clear()
        for part in parts:
            self._add(part)
        self._dirty = dirty

    def _number(self) -> None:
        if self._fresh:
            self._renew([_in_order(Events.concat(self._batches))])

    # --- as state -----------------------------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Be as after a restore, so that what leaves next does not depend on whether there was one."""
        self._events = 0
        held = self.all()
        if held is not None:
            self._renew([held])

    def all(self) -> Events | None:
        """All rows that wait, the oldest first, or None."""
        self._number()
        waiting = [part.select(waits) for part, waits in self._by_part()]
        return _in_order(Events.concat(waiting)) if self._count else None

    def holds(self, slots: int) -> Mask:
        """Which of the first `slots` slots have rows that wait."""
        self._number()
        mask = np.zeros(slots, np.bool_)
        for part, waits in self._by_part():
            mask[part.slot[waits]] = True
        return mask

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._count and not self._fresh

    @property
    def nbytes(self) -> int:
        """Bytes of memory, of rows that have left too as long as they take some."""
        return super().nbytes + self._newest.nbytes + self._before.nbytes + self._waits.nbytes

    def _put_back(self, rows: Events) -> None:
        self._batches.append(rows)
        self._fresh = True


def _in_order(events: Events) -> Events:
    """By end and slot, of which there is one row."""
    return events.select(np.lexsort((events.slot, events.stop)))


@compiled
def _link(slot: Any, at: int, newest: Any, before: Any) -> None:
    """Put rows with numbers from `at` on into the chains of their slots."""
    for i in range(len(slot)):
        before[at + i] = newest[slot[i]]
        newest[slot[i]] = at + i


@compiled
def _leave_by_slot(slot: Any, newest: Any, before: Any, waits: Any, rows: Any) -> int:
    """Let go of all rows of some slots; gives how many there were."""
    found = 0
    for i in range(len(slot)):
        if slot[i] >= len(newest):
            continue
        row = newest[slot[i]]
        newest[slot[i]] = -1
        while row >= 0:
            if waits[row]:
                waits[row] = False
                rows[found] = row
                found += 1
            row = before[row]
    return found


@compiled
def _leave_by_age(oldest: int, most: int, waits: Any, rows: Any, found: int) -> tuple[int, int]:
    """Let go of so many rows from the oldest on; gives how many were found in all, and where to go on."""
    stop = found + most
    while found < stop and oldest < len(waits):
        if waits[oldest]:
            waits[oldest] = False
            rows[found] = oldest
            found += 1
        oldest += 1
    return found, oldest


@compiled
def _least(times: Any, waits: Any) -> int:
    """The earliest of the times of rows that wait."""
    least = MAX_TIME
    for i in range(len(times)):
        if waits[i] and times[i] < least:
            least = times[i]
    return least
