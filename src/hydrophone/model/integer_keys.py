"""Keys of several integer columns: rows by slot, and a compiled hash table to find them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.model.batch import Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.hashing import mix

_FREE, _GONE = -1, -2


class IntegerKeys:
    """Rows of integers at slots, found by a hash table.

    Examples
    --------
    >>> keys = IntegerKeys(2)
    >>> one, other = np.array([[5, 7], [5, 8], [5, 7]]), np.array([[5, 8]])
    >>> keys.slots(one, free=np.array([0, 1, 2])), keys.slots(other, free=np.array([2]))
    (array([0, 1, 0]), array([1]))
    >>> keys.drop(np.array([1]))
    >>> keys.slots(other, free=np.array([1])), keys.rows[1]
    (array([1]), array([5, 8]))
    """

    def __init__(self, width: int) -> None:
        self.rows = np.zeros((0, width), np.int64)
        self._table = np.full(16, _FREE, np.int32)
        self._live = self._taken = 0  # used entries, and used or dropped entries

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.rows.nbytes + self._table.nbytes

    def known(self, keys: Ints) -> Ints:
        """The slot of every row, or -1."""
        return _find_slots(keys, self.rows, self._table)

    def slots(self, keys: Ints, free: Ints) -> Ints:
        """The slot of every row; new ones get slots from `free`, one after the other in the order in which they come."""
        self._reserve(int(free.max(initial=-1)) + 1, len(free))
        return self._added(keys, free)

    def put(self, slots: Ints, keys: Ints) -> None:
        """Rows that are not known yet, at given slots."""
        self._reserve(int(slots.max(initial=-1)) + 1, len(slots))
        self._added(keys, slots)

    def _added(self, keys: Ints, free: Ints) -> Ints:
        slot, added, taken = _find_or_add_slots(keys, free, self.rows, self._table)
        self._live, self._taken = self._live + added, self._taken + taken
        return slot

    def drop(self, slots: Ints) -> None:
        """Forget rows."""
        self._live -= _drop_rows(slots, self.rows, self._table)

    def _reserve(self, slots: int, more: int) -> None:
        if slots > len(self.rows):
            grown = np.zeros((max(slots, len(self.rows) * 5 // 4), self.rows.shape[1]), np.int64)
            grown[: len(self.rows)] = self.rows
            self.rows = grown
        size = len(self._table)
        # New rows reuse the entries of dropped rows; until then these lengthen the search.
        if 2 * (self._live + more) <= size and 4 * (self._taken + more) <= 3 * size:
            return
        live = self._table[self._table >= 0].astype(np.int64)
        size = 16
        while size < 2 * (len(live) + more):
            size *= 2
        # No slot will exceed this sum before the next rebuild.
        self._table = np.full(size, _FREE, np.int32 if size + len(self.rows) < 1 << 31 else np.int64)
        self._live = self._taken = 0
        self._added(self.rows[live], live)


@compiled
def _home_entry(keys: Any, i: int, size: int) -> Any:
    """Where to look first."""
    x = np.uint64(0x9E3779B97F4A7C15)
    for j in range(keys.shape[1]):
        x = mix(x ^ np.uint64(keys[i, j]))
    return np.int64(x & np.uint64(size - 1))


@compiled
def _equal_rows(keys: Any, i: int, rows: Any, slot: int) -> bool:
    for j in range(keys.shape[1]):  # noqa: SIM110  compiled: a generator would not be
        if keys[i, j] != rows[slot, j]:
            return False
    return True


@compiled
def _find(keys: Any, i: int, rows: Any, table: Any) -> Any:
    """The entry of a row, or the free entry for it."""
    at = _home_entry(keys, i, len(table))
    while table[at] != _FREE and (table[at] == _GONE or not _equal_rows(keys, i, rows, table[at])):
        at = (at + 1) & (len(table) - 1)
    return at


@compiled
def _free_entry(keys: Any, i: int, table: Any) -> Any:
    """The entry for a new row: that of a dropped row if one comes first, so that the table does not grow as keys come and go."""
    at = _home_entry(keys, i, len(table))
    while table[at] >= 0:
        at = (at + 1) & (len(table) - 1)
    return at


@compiled
def _find_slots(keys: Any, rows: Any, table: Any) -> Any:
    """The slots of rows, or -1. Most rows are at their first entry, so that one is tried for all rows first.

    Each loop does only one thing, so that the processor loads many entries at a time.
    """
    slot = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        slot[i] = _home_entry(keys, i, len(table))
    for i in range(len(keys)):
        slot[i] = table[slot[i]]
    for i in range(len(keys)):
        if slot[i] < 0 or not _equal_rows(keys, i, rows, slot[i]):
            slot[i] = table[_find(keys, i, rows, table)]
    return slot


@compiled
def _find_or_add_slots(keys: Any, free: Any, rows: Any, table: Any) -> tuple[Any, int, int]:
    """The slots of rows; unknown ones are added. Also gives how many were, and how many free entries they took."""
    slot, added, taken = np.empty(len(keys), np.int64), 0, 0
    for i in range(len(keys)):
        at = _find(keys, i, rows, table)
        if table[at] == _FREE:
            room = _free_entry(keys, i, table)
            taken += table[room] == _FREE
            table[room] = free[added]
            for j in range(keys.shape[1]):
                rows[free[added], j] = keys[i, j]
            added, at = added + 1, room
        slot[i] = table[at]
    return slot, added, taken


@compiled
def _drop_rows(slots: Any, rows: Any, table: Any) -> int:
    """Forget rows; gives how many there were."""
    dropped = 0
    place = np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        place[i] = _home_entry(rows, slots[i], len(table))
    for i in range(len(slots)):
        at = place[i]
        if table[at] != slots[i]:
            at = _find(rows, slots[i], rows, table)
        if table[at] == slots[i]:
            table[at] = _GONE
            dropped += 1
    return dropped
