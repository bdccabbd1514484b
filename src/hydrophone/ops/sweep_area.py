"""SweepAreas: what one side of a join remembers for the other, behind insert, query, expire and reorganise.

The form of an area says how its rows are found: ``hash`` by the key, ``sorted`` by key and lifetime, ``band`` by key and start, ``list``
by looking at every row. See section 3.4 of the PIPES paper.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.batch import BLOCK, Events, Ints, Mask, bare
from hydrophone.columns import at, room, take_table
from hydrophone.ops.memory import Memory
from hydrophone.runs import between, expanded, merge, search, stable_order
from hydrophone.state import Held
from hydrophone.time import MAX_TIME, MIN_TIME

FORMS = ("hash", "sorted", "list")
"""Forms that a user may ask for; a band join has its own."""

_CROWD = 16
"""Rows that a look-up in a hash area may meet on average; where keys have more, a run is sorted instead."""
_GONE = 0.25
"""Share of the rows of a file that must have expired before it is read and written again."""
_FILE = 1 << 20
"""Bytes up to which small files are put together, however small the limit is."""
_SPARE = 1 / 32
"""Share of the rows of a run in memory that may have expired before the others are copied."""

Bits = npt.NDArray[np.uint8]

_log = logging.getLogger("hydrophone")


@dataclass(frozen=True, eq=False)
class _Run:
    """Rows in the order of the area's form, with its chains where it has some."""

    rows: Events
    chains: tuple[Ints, Ints] | None

    @cached_property
    def longest(self) -> int:
        """The longest lifetime."""
        if self.rows.end is None:
            return 1
        return int((self.rows.end.view(np.uint64) - self.rows.start.view(np.uint64)).max())  # exact, however far apart


class SweepArea(Held[Events]):
    """The rows of one side that the other may still ask for.

    Rows lie in runs, each in the order (and with the index) of the form. A new run is joined with the one before it when that is not
    much longer, so that there are few runs and a row is copied few times; runs in order are merged. Runs beyond the limit lie in files
    that are mapped into memory; a run in a file is sorted, whatever the form, because that needs no index.

    Parameters
    ----------
    form : "hash", "sorted", "band" or "list"
    memory : the limit, and what happens beyond it
    adaptive : whether a hash area may sort the runs in which keys have many rows
    name : for the message when rows are shed
    """

    def __init__(
        self, form: str, memory: Memory | None = None, *, adaptive: bool = False, name: str = "a join"
    ) -> None:
        super().__init__(Events)
        self.form, self.memory, self.adaptive, self.name = form, memory or Memory(), adaptive, name
        self._indexes: dict[int, _Run] = {}
        self._files: dict[int, Events] = {}
        # Rows of runs that have expired and are still there, and so are their keys.
        self._over: dict[int, tuple[Events, Bits]] = {}

    # --- the interface --------------------------------------------------------------------------------------------------

    def insert(self, rows: Events) -> None:
        """Remember these rows."""
        if len(rows):
            self.add(rows)
            self.reorganise()

    def query(self, rows: Events, low: Ints, high: Ints) -> tuple[Events, Events] | None:
        """The pairs of `rows` with rows of the area, side by side; None where there are none.

        A pair has one slot, and the row of the area is alive somewhere in ``[low, high]`` (in a band: starts there).
        """
        found = list(self._found(rows, low, high))
        if not found:
            return None
        new = rows.select(found[0][1] if len(found) == 1 else np.concatenate([i for _, i, _ in found]))
        start = _beside([(run.start, j) for run, _, j in found])
        points = all(run.end is None for run, _, _ in found)
        end = None if points else _beside([(run.stop, j) for run, _, j in found])
        if not found[0][0].columns.num_columns:
            return new, Events(new.slot, start, end, bare(len(new)))
        columns = pa.concat_tables([take_table(run.columns, j) for run, _, j in found]).combine_chunks()
        return new, Events(new.slot, start, end, columns)

    def _found(self, rows: Events, low: Ints, high: Ints) -> Iterator[tuple[Events, Ints, Ints]]:
        """For each run (the run, positions in `rows`, positions in the run)."""
        ordered, order = False, None
        for number in range(len(self._parts)):
            indexed = self._indexed(number)
            run, chains = indexed.rows, indexed.chains
            if self.form == "list":
                i, j = _by_list(run.slot, run.start, self._last(run), rows.slot, low, high)
            elif chains is not None:
                i, j = _by_hash(run.slot, run.start, self._last(run), *chains, rows.slot, low, high)
            else:
                if not ordered:
                    order, ordered = stable_order(rows.slot, low), True
                    asked = (rows.slot, low, high) if order is None else (rows.slot[order], low[order], high[order])
                i, j = self._by_order(indexed, *asked)
                i = i if order is None else order[i]
            if len(i):
                yield run, i, j

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the runs that are not in files, and of the indexes."""
        indexes = sum(a.nbytes for run in self._indexes.values() for a in run.chains or ())
        over = sum(bits.nbytes for _, bits in self._over.values())
        return indexes + over + sum(p.nbytes for p in self._in_memory())

    def expire(self, gone: Callable[[Events], Mask]) -> None:
        """Forget rows of which it is known that nobody will ask for them; a few of a run stay until it is worth to copy the others."""
        kept: list[Events] = []
        for part in self._parts:
            over = gone(part)
            count = np.count_nonzero(over)
            self._mark(part.slot[over & self._alive(part) if id(part) in self._over else over])
            if count <= len(part) * (_GONE if id(part) in self._files else 0 if self.form == "list" else _SPARE):
                if count:
                    self._over[id(part)] = part, np.packbits(over)
                kept.append(part)
            elif count < len(part):
                rest = part.select(~over)
                kept.append(self._filed(rest) if id(part) in self._files else rest)
                if (index := self._indexes.get(id(part))) is not None and index.chains is None:
                    self._indexes[id(kept[-1])] = _Run(kept[-1], None)  # still in order
        self._parts = kept
        self._tidy()

    def reorganise(self) -> None:
        """Join short runs, and keep to the limit."""
        while len(self._parts) > 1 and self._joinable(*self._parts[-2:]):
            runs = [self._indexed(len(self._parts) - n) for n in (2, 1)] if self.form in ("band", "sorted") else []
            last = self._parts.pop()
            if runs:
                self._parts[-1] = _merged(runs[0].rows, runs[1].rows)
                self._indexes[id(self._parts[-1])] = _Run(self._parts[-1], None)
            else:
                self._parts[-1] = Events.concat([self._parts[-1], last])
        self._tidy()
        limit = self.memory.limit
        if limit is not None and sum(map(self._cost, self._in_memory())) > limit:
            self._spill() if self.memory.overflow == "spill" else self._let_go(limit)

    # --- snapshots ------------------------------------------------------------------------------------------------------

    def blocks(self, changed: bool) -> Iterator[tuple[int, pa.Table | None]]:
        """As for all held batches, without what has expired; of what lies in files one block at a time comes into memory."""
        held: set[int] = set()
        for part in self._parts:
            held.update(np.unique(part.slot[self._alive(part)] // BLOCK).tolist())
        for block in sorted(self._dirty | (set() if changed else held)):
            rows = [p.select(self._alive(p) & (p.slot // BLOCK == block)) for p in self._parts] if block in held else []
            rows = [r for r in rows if len(r)]
            yield block, Events.concat(rows).to_table() if rows else None
        self._dirty.clear()

    def load(self, table: pa.Table) -> None:
        """Put a block back."""
        super().load(table)
        self.reorganise()

    def _alive(self, part: Events) -> Mask:
        over = self._over.get(id(part))
        return np.ones(len(part), np.bool_) if over is None else np.unpackbits(over[1], count=len(part)) == 0

    # --- runs -----------------------------------------------------------------------------------------------------------

    def _indexed(self, number: int) -> _Run:
        part = self._parts[number]
        if id(part) not in self._indexes:
            chains = _chains(part.slot) if self.form == "hash" and id(part) not in self._files else None
            if chains is not None and self.adaptive and chains[2] > _CROWD:
                chains = None
            if chains is None and self.form != "list":
                part = self._parts[number] = by_time(part)
            self._indexes[id(part)] = _Run(part, None if chains is None else chains[:2])
        return self._indexes[id(part)]

    def _by_order(self, indexed: _Run, slot: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        run, longest = indexed.rows, 1 if self.form == "band" else indexed.longest
        if longest > MAX_TIME:
            return self._both_ways(run, slot, low, high)
        since = np.maximum(low, MIN_TIME + longest - 1) - (longest - 1)  # what begins before it is over by `low`
        first, counts = between(run.slot, run.start, slot, since, high)
        if longest > 1 and counts.sum() > len(run):
            return self._both_ways(run, slot, low, high)
        i, j = expanded(first, counts)
        if longest == 1:
            return i, j
        alive = run.stop[j] > low[i]
        return i[alive], j[alive]

    @staticmethod
    def _both_ways(run: Events, slot: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Where lifetimes differ much: who begins inside the other is found from the other, so that no pair is tried in vain."""
        i, j = expanded(*between(run.slot, run.start, slot, low, high))
        first = search(slot, low, run.slot, run.start, "right")
        older, begun = expanded(first, np.maximum(search(slot, low, run.slot, run.stop, "left") - first, 0))
        return np.concatenate([i, begun]), np.concatenate([j, older])

    def _last(self, run: Events) -> Ints:
        """The last instant at which each row is found."""
        return run.start if self.form == "band" else run.stop - 1

    def _joinable(self, before: Events, last: Events) -> bool:
        return id(before) not in self._files and len(before) <= 4 * len(last)

    def _tidy(self) -> None:
        """Forget what was known of runs that are no more."""
        there = {id(p) for p in self._parts}
        self._indexes = {k: v for k, v in self._indexes.items() if k in there}
        self._files = {k: v for k, v in self._files.items() if k in there}
        self._over = {k: v for k, v in self._over.items() if k in there}

    # --- beyond the limit -----------------------------------------------------------------------------------------------

    def _in_memory(self) -> list[Events]:
        return [p for p in self._parts if id(p) not in self._files]

    def _cost(self, rows: Events) -> int:
        """What rows take in memory, with the index that they will have: one bucket a row, rounded up to a power of two, and one chain."""
        chains = 8 * (len(rows) + (1 << (len(rows) - 1).bit_length())) if self.form == "hash" and len(rows) else 0
        return _bytes(rows) + chains

    def _spill(self) -> None:
        """Put all runs in memory into one file, and with them the last files as long as these are not much larger.

        Every new row asks every file. Files grow together to the limit, or to `_FILE` where that is less, so that their number is about
        what they hold over that size, however small a batch is; and no more than that is in memory at once.
        """
        rows = self._in_memory()
        filed = [p for p in self._parts if id(p) in self._files]
        size, most = sum(map(_bytes, rows)), max(self.memory.limit or 0, _FILE)
        while filed and (more := _bytes(filed[-1])) <= 2 * size and size + more <= most:
            size += more
            last = filed.pop()
            rows.insert(0, last.select(self._alive(last)))
        together = Events.concat(rows)
        self._parts = [*filed, self._filed(together if self.form == "list" else by_time(together))]
        self._tidy()

    def _filed(self, rows: Events) -> Events:
        """The rows in a file, mapped into memory; it has no name any more, so that it goes with its last reader."""
        handle, name = tempfile.mkstemp(suffix=".arrow", prefix="hydrophone-")
        os.close(handle)
        table = rows.to_table()
        try:
            with pa.OSFile(name, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            mapped = Events.from_table(pa.ipc.open_file(pa.memory_map(name)).read_all())
        finally:
            Path(name).unlink()
        self._files[id(mapped)] = mapped
        return mapped

    def _let_go(self, limit: int) -> None:
        """Forget the oldest rows, down to three quarters of the limit."""
        rows = Events.concat([p.select(self._alive(p)) for p in self._parts])
        keep = min(int(len(rows) * 0.75 * limit / self._cost(rows)), len(rows))
        order = np.argsort(rows.start, kind="stable")
        self.replace(rows.select(np.sort(order[len(rows) - keep :])), rows.slot)
        self.shed += len(rows) - keep
        self._tidy()
        _log.warning(
            "%s: %d rows were shed to keep to %d bytes, %d in all", self.name, len(rows) - keep, limit, self.shed
        )


def without(rows: Events, gone: Mask) -> Events:
    """The rows that are not gone."""
    return rows.select(~gone) if gone.any() else rows


def by_time(rows: Events) -> Events:
    """In order of (slot, start)."""
    order = stable_order(rows.slot, rows.start)
    return rows if order is None else rows.select(order)


def _beside(found: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Values of several runs at their rows, one after the other."""
    out, first = room(sum(len(rows) for _, rows in found), np.int64), 0
    for values, rows in found:
        at(values, rows, out[first : first + len(rows)])
        first += len(rows)
    return out


def _merged(one: Events, other: Events) -> Events:
    """Two runs that are in order as one."""
    slot, start, order = merge(one.slot, one.start, other.slot, other.start)
    end = None
    if one.end is not None or other.end is not None:
        end = at(np.concatenate([one.stop, other.stop]), order)
    if not one.columns.num_columns:
        return Events(slot, start, end, bare(len(slot)))
    return Events(slot, start, end, take_table(pa.concat_tables([one.columns, other.columns]), order))


def _bytes(rows: Events) -> int:
    """About what rows take in memory; a cut of a column counts as what it shows."""
    ends = 0 if rows.end is None else rows.end.nbytes
    return int(rows.slot.nbytes + rows.start.nbytes + ends + rows.columns.nbytes)


# --- compiled -----------------------------------------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def _chains(slot):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True)
def _by_hash(slot, start, last, heads, nexts, new_slot, low, high):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True)
def _by_list(slot, start, last, new_slot, low, high):  # type: ignore[no-untyped-def]
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
