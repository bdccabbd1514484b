"""A run of rows in a SweepArea, in memory or in a file, and the ways to find rows in it."""

from __future__ import annotations

import os
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.model.batch import Events, Ints, Mask, table_without_columns
from hydrophone.model.compiled import compiled
from hydrophone.model.marks import Mark, low_water_mark, marks_of_slots
from hydrophone.model.sorted_rows import expand_ranges, merge_rows, rows_between, search_rows, stable_order
from hydrophone.model.take_rows import take_table, take_values
from hydrophone.model.time import MAX_TIME, MIN_TIME

_LONG_CHAIN = 16
"""Rows that a look-up by hash may meet on average; where keys have more, a run is sorted instead."""
_EXPIRED_SHARE = 0.25
"""Share of the rows of a file that must have expired before it is read and written again."""
_SPARE = 1 / 32
"""Share of the rows of a run in memory that may have expired before the others are copied."""

Found = tuple[Ints, Ints]
"""Positions in the rows that ask, and in the run."""


class RowQueries:
    """Rows that ask a run for rows of their slot that are found somewhere in ``[low, high]``."""

    def __init__(self, slot: Ints, low: Ints, high: Ints) -> None:
        self.slot, self.low, self.high = slot, low, high

    @cached_property
    def in_order(self) -> tuple[Ints | None, Ints, Ints, Ints]:
        """By (slot, low), and before that where each stood."""
        order = stable_order(self.slot, self.low)
        if order is None:
            return None, self.slot, self.low, self.high
        return order, self.slot[order], self.low[order], self.high[order]


class StoredRows:
    """Rows that lie together, of which some may have expired.

    Parameters
    ----------
    rows : Events
    form : "hash", "sorted", "band" or "list"
        How rows are found, where they are in memory; in a file they are in order, because that needs no index.
    starts : bool
        Whether rows are found and forgotten by their start; by their lifetime otherwise.
    ordered, filed : bool
        Whether they are in order of (slot, start), and whether they lie in a file.
    """

    def __init__(
        self, rows: Events, form: str, *, starts: bool = False, ordered: bool = False, filed: bool = False
    ) -> None:
        self.rows, self.form, self.starts, self.ordered, self.filed = rows, form, starts, ordered, filed
        self._over: npt.NDArray[np.uint8] | None = None  # a bit for every row that has expired, where there are some
        self._chains: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    # --- what lies here -------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> Mask | None:
        """Which rows have not expired; None says all."""
        return None if self._over is None else np.unpackbits(self._over, count=len(self)) == 0

    @property
    def rest(self) -> Events:
        """The rows that have not expired."""
        return self.rows if (alive := self.alive) is None else self.rows.select(alive)

    @property
    def last(self) -> Ints:
        """The last instant at which each row is found."""
        return self.rows.start if self.starts else self.rows.stop - 1

    @cached_property
    def _lasts(self) -> tuple[int, int]:
        """The first and the last of those of rows that have not expired."""
        first, last = _find_range(self.last, self.alive)
        return int(first), int(last)

    @cached_property
    def longest(self) -> int:
        """The longest lifetime."""
        if self.starts or self.rows.end is None:
            return 1
        return int((self.rows.end.view(np.uint64) - self.rows.start.view(np.uint64)).max())  # exact, however far apart

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        known = sum(a.nbytes for a in self._chains or ()) + (0 if self._over is None else self._over.nbytes)
        return known if self.filed else known + self.rows.nbytes

    # --- what goes ------------------------------------------------------------------------------------------------------

    def gone(self, before: Mark) -> Mask | bool:
        """Which rows have their last instant before a mark and have not expired yet; True says all that are here, False none."""
        first, last = self._lasts
        if first >= (before if isinstance(before, int) else before.max()):
            return False
        if self._over is None and last < low_water_mark(before):
            return True
        over: Mask = self.last < marks_of_slots(before, self.rows.slot)
        if (alive := self.alive) is not None:
            over &= alive
        return over if over.any() else False

    def without(self, gone: Mask | bool) -> StoredRows | None:
        """What the run is when these rows have expired, or None if it is empty; a few stay until it is worth to copy the others."""
        if isinstance(gone, bool):
            return None if gone else self
        over = gone if (alive := self.alive) is None else gone | ~alive
        count = np.count_nonzero(over)
        if count == len(self):
            return None
        if count > len(self) * (_EXPIRED_SHARE if self.filed else _SPARE):
            rest = self.rows.select(~over)
            return self._like(spill_to_file(rest) if self.filed else rest, ordered=self.ordered, filed=self.filed)
        self._over = np.packbits(over)
        for known in ("_lasts", "_firsts"):
            self.__dict__.pop(known, None)
        return self

    def to_file(self) -> StoredRows:
        """What is left of this run, in a file."""
        return self._like(spill_to_file(sort_by_time(self.rest)), ordered=True, filed=True)

    def merged(self, other: StoredRows) -> StoredRows:
        """What is left of this run and a later one, as one."""
        if self.form in ("band", "sorted"):
            return self._like(
                _merge_sorted(*(r.rest if r.ordered else sort_by_time(r.rest) for r in (self, other))), ordered=True
            )
        return self._like(Events.concat([self.rest, other.rest]))

    def _like(self, rows: Events, *, ordered: bool = False, filed: bool = False) -> StoredRows:
        return StoredRows(rows, self.form, starts=self.starts, ordered=ordered, filed=filed)

    # --- how it is found ------------------------------------------------------------------------------------------------

    def find(self, asked: RowQueries, *, adaptive: bool) -> Found:
        """Pairs with the rows that ask; what has expired may be among them."""
        if self.form == "list" and not self.filed:
            return _find_by_scan(self.rows.slot, self.rows.start, self.last, asked.slot, asked.low, asked.high)
        if self._hashed(adaptive):
            assert self._chains is not None
            chains = self._chains
            return _find_by_hash(self.rows.slot, self.rows.start, self.last, *chains, asked.slot, asked.low, asked.high)
        self._in_order()
        order, *bounds = asked.in_order
        i, j = self._by_order(*bounds)
        return i if order is None else order[i], j

    def meet(self, low: Ints, high: Ints) -> Events:
        """The rows that are found somewhere in the ``[low, high]`` of their slot; what has expired may be among them."""
        if self.ordered:
            slot = np.flatnonzero(low <= high)
            rows = self._by_order(slot, low[slot], high[slot])[1]
        else:
            rows = _in_bounds(self.rows.slot, self.rows.start, self.last, low, high)
        return self.rows if len(rows) == len(self) and not self.filed else self.rows.select(rows)

    def _hashed(self, adaptive: bool) -> bool:
        """Whether rows are found by hash; makes the index."""
        if self.form == "hash" and not self.ordered and self._chains is None:
            *chains, met = _hash_chains(self.rows.slot)
            if adaptive and met > _LONG_CHAIN:
                self._in_order()
            else:
                self._chains = chains[0], chains[1]
        return self._chains is not None

    def _in_order(self) -> Events:
        if not self.ordered:
            self.rows, self._over, self.ordered = sort_by_time(self.rest), None, True
        return self.rows

    def _by_order(self, slot: Ints, low: Ints, high: Ints) -> Found:
        run, longest = self.rows, self.longest
        if longest > MAX_TIME:
            return self._both_ways(slot, low, high)
        since = np.maximum(low, MIN_TIME + longest - 1) - (longest - 1)  # what begins before it is over by `low`
        first, counts = rows_between(run.slot, run.start, slot, since, high)
        if longest > 1 and counts.sum() > len(run):
            return self._both_ways(slot, low, high)
        i, j = expand_ranges(first, counts)
        if longest == 1:
            return i, j
        alive = run.stop[j] > low[i]
        return i[alive], j[alive]

    def _both_ways(self, slot: Ints, low: Ints, high: Ints) -> Found:
        """Where lifetimes differ much: who begins inside the other is found from the other, so that no pair is tried in vain."""
        run = self.rows
        i, j = expand_ranges(*rows_between(run.slot, run.start, slot, low, high))
        first = search_rows(slot, low, run.slot, run.start, "right")
        older, begun = expand_ranges(first, np.maximum(search_rows(slot, low, run.slot, run.stop, "left") - first, 0))
        return np.concatenate([i, begun]), np.concatenate([j, older])

    # --- by slot --------------------------------------------------------------------------------------------------------

    @cached_property
    def _firsts(self) -> tuple[Ints, Ints]:
        """Of a run in order: the slots of what has not expired, and the earliest start of each."""
        slot, start = self.rows.slot, self.rows.start
        if (alive := self.alive) is not None:
            slot, start = slot[alive], start[alive]
        first = np.flatnonzero(np.diff(slot, prepend=-1))
        return slot[first], start[first]

    def earliest(self, since: Ints) -> None:
        """Lower the times of slots to the start of what has not expired."""
        if self.ordered:
            slot, start = self._firsts
            since[slot] = np.minimum(since[slot], start)
        else:
            _earliest(self.rows.slot, self.rows.start, self.alive, since)

    def latest(self, until: Ints, start: Ints, count: Ints) -> None:
        """Raise the times of slots to the latest start here that is not after `until`, and count the rows that start then."""
        if int(self.rows.start.min()) <= int(until.max(initial=MIN_TIME)):
            _latest(self.rows.slot, self.rows.start, self.alive, until, start, count)


def sort_by_time(rows: Events) -> Events:
    """In order of (slot, start)."""
    order = stable_order(rows.slot, rows.start)
    return rows if order is None else rows.select(order)


def spill_to_file(rows: Events) -> Events:
    """The rows in a file, mapped into memory; it has no name any more, so that it goes with its last reader."""
    handle, name = tempfile.mkstemp(suffix=".arrow", prefix="hydrophone-")
    os.close(handle)
    table = rows.to_table().combine_chunks()  # columns that are read in pieces would have to be put together in memory
    try:
        with pa.OSFile(name, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return Events.from_table(pa.ipc.open_file(pa.memory_map(name)).read_all())
    finally:
        Path(name).unlink()


def _merge_sorted(one: Events, other: Events) -> Events:
    """Two runs that are in order as one."""
    slot, start, order = merge_rows(one.slot, one.start, other.slot, other.start)
    end = None
    if one.end is not None or other.end is not None:
        end = take_values(np.concatenate([one.stop, other.stop]), order)
    if not one.columns.num_columns:
        return Events(slot, start, end, table_without_columns(len(slot)))
    return Events(slot, start, end, take_table(pa.concat_tables([one.columns, other.columns]), order))


# --- compiled -----------------------------------------------------------------------------------------------------------


@compiled
def _hash_chains(slot):  # type: ignore[no-untyped-def]
    """Buckets by slot: the first row of each, after every row the next one of its bucket, and how many rows a look-up meets."""
    size = 1
    while size < len(slot):
        size *= 2
    heads = np.full(size, -1, np.int64)
    nexts = np.empty(len(slot), np.int64)
    counts = np.zeros(size, np.int64)
    met = 0.0
    for i in range(len(slot) - 1, -1, -1):
        bucket = slot[i] & (size - 1)
        nexts[i] = heads[bucket]
        heads[bucket] = i
        met += 2 * counts[bucket] + 1  # the sum of the squares of the counts, in the end
        counts[bucket] += 1
    return heads, nexts, met / len(slot)


@compiled
def _find_by_hash(slot, start, last, heads, nexts, new_slot, low, high):  # type: ignore[no-untyped-def]
    found = 0
    for n in range(len(new_slot)):
        row = heads[new_slot[n] & (len(heads) - 1)]
        while row >= 0:
            found += slot[row] == new_slot[n] and start[row] <= high[n] and last[row] >= low[n]
            row = nexts[row]
    i, j = np.empty(found, np.int64), np.empty(found, np.int64)
    at = 0
    for n in range(len(new_slot) if found else 0):
        row = heads[new_slot[n] & (len(heads) - 1)]
        while row >= 0:
            if slot[row] == new_slot[n] and start[row] <= high[n] and last[row] >= low[n]:
                i[at], j[at] = n, row
                at += 1
            row = nexts[row]
    return i, j


@compiled
def _find_by_scan(slot, start, last, new_slot, low, high):  # type: ignore[no-untyped-def]
    found = 0
    for n in range(len(new_slot)):
        for row in range(len(slot)):
            found += slot[row] == new_slot[n] and start[row] <= high[n] and last[row] >= low[n]
    i, j = np.empty(found, np.int64), np.empty(found, np.int64)
    at = 0
    for n in range(len(new_slot) if found else 0):
        for row in range(len(slot)):
            if slot[row] == new_slot[n] and start[row] <= high[n] and last[row] >= low[n]:
                i[at], j[at] = n, row
                at += 1
    return i, j


@compiled
def _find_range(last, alive):  # type: ignore[no-untyped-def]
    first, latest = MAX_TIME, MIN_TIME
    for i in range(len(last)):
        if alive is None or alive[i]:
            first, latest = min(first, last[i]), max(latest, last[i])
    return first, latest


@compiled
def _in_bounds(slot, start, last, low, high):  # type: ignore[no-untyped-def]
    rows, found = np.empty(len(slot), np.int64), 0
    for i in range(len(slot)):
        s = slot[i]
        if s < len(low) and start[i] <= high[s] and last[i] >= low[s]:
            rows[found] = i
            found += 1
    return rows[:found].copy()


@compiled
def _earliest(slot, start, alive, since):  # type: ignore[no-untyped-def]
    for i in range(len(slot)):
        if alive is None or alive[i]:
            since[slot[i]] = min(since[slot[i]], start[i])


@compiled
def _latest(slot, start, alive, until, latest, count):  # type: ignore[no-untyped-def]
    for i in range(len(slot)):
        s = slot[i]
        if start[i] > until[s] or start[i] < latest[s] or (alive is not None and not alive[i]):
            continue
        count[s] = count[s] + 1 if start[i] == latest[s] else 1
        latest[s] = start[i]
