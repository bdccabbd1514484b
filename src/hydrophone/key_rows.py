"""Keys that are several integers: their rows by slot, and a compiled hash table that finds them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from hydrophone.batch import Ints
from hydrophone.hashing import mix

_FREE, _GONE = -1, -2


class KeyRows:
    """Rows of integers at slots; a row is found in a few steps, however many there are.

    Examples
    --------
    >>> keys = KeyRows(2)
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
        self._live = self._taken = 0  # entries of the table that hold rows, and with them those of dropped rows

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.rows.nbytes + self._table.nbytes

    def known(self, keys: Ints) -> Ints:
        """The slot of every row, or -1."""
        return _known(keys, self.rows, self._table)

    def slots(self, keys: Ints, free: Ints) -> Ints:
        """The slot of every row; new ones get slots from `free`, one after the other in the order in which they come."""
        self._reserve(int(free.max(initial=-1)) + 1, len(free))
        return self._added(keys, free)

    def put(self, slots: Ints, keys: Ints) -> None:
        """Rows that are not known yet, at given slots."""
        self._reserve(int(slots.max(initial=-1)) + 1, len(slots))
        self._added(keys, slots)

    def _added(self, keys: Ints, free: Ints) -> Ints:
        slot, added, taken = _known_or_added(keys, free, self.rows, self._table)
        self._live, self._taken = self._live + added, self._taken + taken
        return slot

    def drop(self, slots: Ints) -> None:
        """Forget rows."""
        self._live -= _drop(slots, self.rows, self._table)

    def _reserve(self, slots: int, more: int) -> None:
        if slots > len(self.rows):
            grown = np.zeros((max(slots, len(self.rows) * 5 // 4), self.rows.shape[1]), np.int64)
            grown[: len(self.rows)] = self.rows
            self.rows = grown
        size = len(self._table)
        # Rows take entries of dropped ones again, which are in the way of others until then.
        if 2 * (self._live + more) <= size and 4 * (self._taken + more) <= 3 * size:
            return
        live = self._table[self._table >= 0].astype(np.int64)
        size = 16
        while size < 2 * (len(live) + more):
            size *= 2
        # Until it is made again, there will be no slot beyond this sum.
        self._table = np.full(size, _FREE, np.int32 if size + len(self.rows) < 1 << 31 else np.int64)
        self._live = self._taken = 0
        self._added(self.rows[live], live)


@numba.njit(cache=True, nogil=True)
def _place(keys: Any, i: int, size: int) -> Any:
    """Where to look first."""
    x = np.uint64(0x9E3779B97F4A7C15)
    for j in range(keys.shape[1]):
        x = mix(x ^ np.uint64(keys[i, j]))
    return np.int64(x & np.uint64(size - 1))


@numba.njit(cache=True, nogil=True)
def _same(keys: Any, i: int, rows: Any, slot: int) -> bool:
    for j in range(keys.shape[1]):  # noqa: SIM110  compiled: a generator would not be
        if keys[i, j] != rows[slot, j]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _find(keys: Any, i: int, rows: Any, table: Any) -> Any:
    """The entry of a row, or the free one where it would stand."""
    at = _place(keys, i, len(table))
    while table[at] != _FREE and (table[at] == _GONE or not _same(keys, i, rows, table[at])):
        at = (at + 1) & (len(table) - 1)
    return at


@numba.njit(cache=True, nogil=True)
def _room(keys: Any, i: int, table: Any) -> Any:
    """The entry for a row that is not there: that of a dropped row if one comes first, so that keys that come and go need no more."""
    at = _place(keys, i, len(table))
    while table[at] >= 0:
        at = (at + 1) & (len(table) - 1)
    return at


@numba.njit(cache=True, nogil=True)
def _known(keys: Any, rows: Any, table: Any) -> Any:
    """The slots of rows, or -1. Most stand where they are looked for first, so that is tried for all of them.

    In loops that do nothing else: then the processor waits for many entries at a time, and not for one after the other.
    """
    slot = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        slot[i] = _place(keys, i, len(table))
    for i in range(len(keys)):
        slot[i] = table[slot[i]]
    for i in range(len(keys)):
        if slot[i] < 0 or not _same(keys, i, rows, slot[i]):
            slot[i] = table[_find(keys, i, rows, table)]
    return slot


@numba.njit(cache=True, nogil=True)
def _known_or_added(keys: Any, free: Any, rows: Any, table: Any) -> tuple[Any, int, int]:
    """The slots of rows; unknown ones are added. Also gives how many were, and how many free entries they took."""
    slot, added, taken = np.empty(len(keys), np.int64), 0, 0
    for i in range(len(keys)):
        at = _find(keys, i, rows, table)
        if table[at] == _FREE:
            room = _room(keys, i, table)
            taken += table[room] == _FREE
            table[room] = free[added]
            rows[free[added]] = keys[i]
            added, at = added + 1, room
        slot[i] = table[at]
    return slot, added, taken


@numba.njit(cache=True, nogil=True)
def _drop(slots: Any, rows: Any, table: Any) -> int:
    """Forget rows; gives how many there were."""
    dropped = 0
    place = np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        place[i] = _place(rows, slots[i], len(table))
    for i in range(len(slots)):
        at = place[i]
        if table[at] != slots[i]:
            at = _find(rows, slots[i], rows, table)
        if table[at] == slots[i]:
            table[at] = _GONE
            dropped += 1
    return dropped
