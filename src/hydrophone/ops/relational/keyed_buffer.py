"""Rows that wait by key, of which a mark looks at few: those of keys to which something happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hydrophone.model.batch import Events, Ints, Mask
from hydrophone.model.compiled import compiled
from hydrophone.model.marks import Mark, hold_back_mark, marks_by_slot
from hydrophone.model.state import KeptBatches
from hydrophone.model.time import MAX_TIME, MIN_TIME


class KeyedBuffer(KeptBatches[Events]):
    """Rows of keys that are taken and put back together, while those of all other keys stay where they lie.

    Rows that are put back are *due* at a mark, from which on they should be looked at again; those that are added are due at once. Rows
    that were taken are left out when they are more than those that wait, so that to take costs nothing for the others.

    Parameters
    ----------
    due : function, optional
        When rows are due that a restart puts back; without it they are at once, and so a checkpoint soon has to write all of them again.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = KeyedBuffer()
    >>> rows.add(Events(np.array([0, 1, 0]), np.array([3, 4, 5]), None, pa.table({"v": [1, 2, 3]})))
    >>> taken = rows.take_due(5)
    >>> taken.slot.tolist()
    [0, 1, 0]
    >>> rows.put(taken, due=taken.start + 10)
    >>> rows.held_back(5), rows.take_due(12), rows.take_due(13).columns["v"].to_pylist(), rows.held_back(13)
    (3, None, [1, 3], 4)
    """

    MANY = 8
    """Parts in which rows may lie, but for a few that are each more than twice as long as the next: to take looks at all of them."""

    def __init__(self, due: Callable[[Events], Ints] | None = None) -> None:
        super().__init__(Events)
        self._due_of = due
        self._waits: list[Mask] = []  # by part: which rows have not been taken
        self._count = 0  # of rows that wait
        self._due = np.zeros(0, np.int64)  # by slot: the mark from which on to look at it
        self._since = np.zeros(0, np.int64)  # by slot: its earliest start

    def add(self, batch: Events) -> None:
        """Let rows wait; their keys are due."""
        self.put(batch, np.full(len(batch), MIN_TIME))

    def put(self, batch: Events, due: Ints) -> None:
        """Let rows wait until they are due."""
        if len(batch):
            self._mark(batch.slot)
            self._let_wait(batch, due)

    def _let_wait(self, batch: Events, due: Ints) -> None:
        self._batches.append(batch)
        self._waits.append(np.ones(len(batch), np.bool_))
        self._count += len(batch)
        more = int(batch.slot.max()) + 1 - len(self._due)
        if more > 0:
            never = np.full(max(more, len(self._due)), MAX_TIME)
            self._due, self._since = np.concatenate([self._due, never]), np.concatenate([self._since, never])
        _earliest_due(batch.slot, due, batch.start, self._due, self._since)
        while len(self._batches) > self.MANY and len(self._batches[-2]) <= 2 * len(self._batches[-1]):
            self._settle(-2)

    def take_of(self, slots: Ints) -> Events | None:
        """Take all rows of some keys, in the order in which they came, or None."""
        wanted = np.zeros(len(self._due), np.bool_)
        wanted[slots[slots < len(wanted)]] = True
        return self._taken(wanted)

    def take_due(self, mark: Mark) -> Events | None:
        """Take all rows of the keys that are due at a mark, in the order in which they came, or None."""
        return self._taken(self._due <= (marks_by_slot(mark, len(self._due)) if isinstance(mark, np.ndarray) else mark))

    def held_back(self, mark: Mark) -> Mark:
        """The mark where what waits here is still open."""
        slots = np.flatnonzero(self._since < MAX_TIME)
        return hold_back_mark(mark, slots, self._since[slots])

    def _taken(self, wanted: Mask) -> Events | None:
        if not wanted.any():
            return None
        taken = []
        for part, waits in zip(self._batches, self._waits, strict=True):
            rows = _take_rows(part.slot, waits, wanted)
            if len(rows):
                taken.append(part.select(rows))
                self._mark(taken[-1].slot)
                self._count -= len(rows)
        self._due[wanted] = self._since[wanted] = MAX_TIME
        if 2 * self._count < sum(map(len, self._batches)):
            self._settle(0)
        return Events.concat(taken) if taken else None

    def _settle(self, first: int) -> None:
        """Make one of the parts from one on, without the rows that were taken."""
        kept = [p.select(w) for p, w in zip(self._batches[first:], self._waits[first:], strict=True)]
        whole = [Events.concat(kept)] if any(len(p) for p in kept) else []
        self._batches[first:], self._waits[first:] = whole, [np.ones(len(p), np.bool_) for p in whole]

    # --- as state -----------------------------------------------------------------------------------------------------------

    def all(self) -> Events | None:
        """All rows that wait, as one batch, or None."""
        if len(self._batches) > 1 or any(not w.all() for w in self._waits):
            self._settle(0)
        return self._batches[0] if self._batches else None

    def holds(self, slots: int) -> Mask:
        """Which of the first `slots` slots have rows here."""
        mask = np.zeros(slots, np.bool_)
        there = np.flatnonzero(self._since < MAX_TIME)
        mask[there] = True
        return mask

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._count

    @property
    def nbytes(self) -> int:
        """Bytes of memory, of rows that were taken too as long as they take some."""
        return super().nbytes + self._due.nbytes + self._since.nbytes + sum(w.nbytes for w in self._waits)

    def _put_back(self, rows: Events) -> None:
        self._let_wait(rows, np.full(len(rows), MIN_TIME) if self._due_of is None else self._due_of(rows))


def due_at_end(rows: Events) -> Ints:
    """Rows are due when they end."""
    return rows.stop


@compiled
def _earliest_due(slot: Any, due: Any, start: Any, soonest: Any, since: Any) -> None:
    for i in range(len(slot)):
        s = slot[i]
        soonest[s], since[s] = min(soonest[s], due[i]), min(since[s], start[i])


@compiled
def _take_rows(slot: Any, waits: Any, wanted: Any) -> Any:
    """The rows of the slots that are wanted, which wait no more."""
    rows, found = np.empty(len(slot), np.int64), 0
    for i in range(len(slot)):
        if waits[i] and wanted[slot[i]]:
            waits[i] = False
            rows[found] = i
            found += 1
    return rows[:found].copy()
