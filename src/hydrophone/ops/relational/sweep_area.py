"""SweepAreas: what one side of a join remembers for the other, or has waiting for it, behind one small interface.

Rows are inserted, asked for (`query`, `meet`), and go when progress has passed them (`expire`, `take`). The form of an area says how its
rows are found: ``hash`` by the key, ``sorted`` by key and lifetime, ``band`` by key and start, ``list`` by looking at every row. See
section 3.4 of the PIPES paper.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from hydrophone.model.batch import Events, Ints, Mask, table_without_columns
from hydrophone.model.compiled import compiled
from hydrophone.model.marks import Mark, hold_back_mark, marks_by_slot
from hydrophone.model.state import KeptRows
from hydrophone.model.take_rows import empty_array, take_table, take_values
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.ops.relational.memory_limit import Memory
from hydrophone.ops.relational.stored_rows import RowQueries, StoredRows

FORMS = ("hash", "sorted", "list")
"""Forms that a user may ask for; a band join has its own."""

_FILE = 1 << 20
"""Bytes up to which small files are put together, however small the limit is."""

_log = logging.getLogger("hydrophone")


class SweepArea(KeptRows[Events]):
    """The rows of one side that the other may still ask for, or that wait for it.

    Rows lie in runs, each in the order (and with the index) of the form. A new run is joined with the one before it when that is not
    much longer, so that there are few runs and a row is copied few times; runs in order are merged. Runs beyond the limit lie in files
    that are mapped into memory.

    Parameters
    ----------
    form : "hash", "sorted", "band" or "list"
    memory : the limit, and what happens beyond it
    starts : whether rows are found and forgotten by their start, as in a band; by their lifetime otherwise
    adaptive : whether a hash area may sort the runs in which keys have many rows
    name : for the message when rows are shed
    """

    def __init__(
        self,
        form: str,
        memory: Memory | None = None,
        *,
        starts: bool = False,
        adaptive: bool = False,
        name: str = "a join",
    ) -> None:
        super().__init__(Events)
        self.form, self.memory, self.adaptive, self.name = form, memory or Memory(), adaptive, name
        self.starts = starts or form == "band"
        self._runs: list[StoredRows] = []
        self._earliest: Ints | None = None  # by slot, as long as nothing came or went

    # --- the interface --------------------------------------------------------------------------------------------------

    def insert(self, rows: Events) -> None:
        """Remember these rows."""
        if len(rows):
            self._mark(rows.slot)
            self._put_back(rows)

    def query(self, rows: Events, low: Ints, high: Ints) -> tuple[Events, Events] | None:
        """The pairs of `rows` with rows of the area, side by side; None where there are none.

        A pair has one slot, and the row of the area is alive somewhere in ``[low, high]`` (by `starts`: starts there).
        """
        asked = RowQueries(rows.slot, low, high)
        tried = [(run, *run.find(asked, adaptive=self.adaptive)) for run in self._runs]
        found = [(run.rows, i, j) for run, i, j in tried if len(i)]
        if not found:
            return None
        new = rows.select(found[0][1] if len(found) == 1 else np.concatenate([i for _, i, _ in found]))
        start = _concat_found([(run.start, j) for run, _, j in found])
        points = all(run.end is None for run, _, _ in found)
        end = None if points else _concat_found([(run.stop, j) for run, _, j in found])
        if not found[0][0].columns.num_columns:
            return new, Events(new.slot, start, end, table_without_columns(len(new)))
        columns = pa.concat_tables([take_table(run.columns, j) for run, _, j in found]).combine_chunks()
        return new, Events(new.slot, start, end, columns)

    def meet(self, slot: Ints, low: Ints, high: Ints) -> Events | None:
        """The rows of the area, each once, that those who ask may need: between the first and the last of their slot, or more."""
        if not any(run.filed for run in self._runs) and len(slot) >= sum(map(len, self._runs)):
            return Events.concat([run.rows for run in self._runs]) if self._runs else None  # as fast to take all
        first, last = np.full(slot.max() + 1, MAX_TIME), np.full(slot.max() + 1, MIN_TIME)
        _bounds(slot, low, high, first, last)
        found = [rows for run in self._runs if len(rows := run.meet(first, last))]
        return Events.concat(found) if found else None

    def expire(self, before: Mark) -> None:
        """Forget rows whose last instant lies before a mark (by `starts`: that start before it), because nobody will ask for them."""
        self._over(before)

    def take(self, before: Mark) -> Iterator[Events]:
        """Take the rows that would expire, now; with a limit they come in pieces that keep to it."""
        return self._pieces(self._over(before))

    @property
    def since(self) -> Ints:
        """By slot the earliest start of what is here; ``MAX_TIME`` where nothing is."""
        if self._earliest is None:
            self._earliest = np.full(1 + max((int(r.rows.slot.max()) for r in self._runs), default=-1), MAX_TIME)
            for run in self._runs:
                run.earliest(self._earliest)
        return self._earliest

    def oldest_pending(self, mark: Mark) -> Mark:
        """How far those are who will come, by a mark, and those who wait here: by slot, where any do."""
        since = self.since
        if not len(since):
            return mark
        own = marks_by_slot(mark, max(len(since) + 1, len(mark) if isinstance(mark, np.ndarray) else 0))
        own[: len(since)] = np.minimum(own[: len(since)], since)
        return own

    def held_back(self, mark: Mark, ended: Mark | None = None) -> Mark:
        """The mark where what waits here is still open."""
        slots = np.flatnonzero(self.since < MAX_TIME)
        return hold_back_mark(mark, slots, self.since[slots], ended)

    def latest(self, until: Ints) -> tuple[Ints, Ints]:
        """By slot the latest start that is not after `until`, ``MIN_TIME`` where there is none, and how many rows start then."""
        start, count = np.full(len(until), MIN_TIME), np.zeros(len(until), np.int64)
        for run in self._runs:
            run.latest(until, start, count)
        return start, count

    def reorganise(self) -> None:
        """Join short runs, and keep to the limit."""
        while len(self._runs) > 1 and not self._runs[-2].filed and len(self._runs[-2]) <= 4 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = self._runs[-1].merged(last)
        limit = self.memory.limit
        if limit is not None and sum(self._cost(run.rows) for run in self._runs if not run.filed) > limit:
            self._spill() if self.memory.overflow == "spill" else self._let_go(limit)

    # --- as state -------------------------------------------------------------------------------------------------------

    @property
    def batches(self) -> Sequence[Events]:
        """What is held, run by run, with what has expired and is still there."""
        return [run.rows for run in self._runs]

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the runs that are not in files, and of what is known of all."""
        return sum(run.nbytes for run in self._runs)

    def living(self) -> Iterator[tuple[Events, Mask | None]]:
        """Every part, and which of its rows have not expired; None says all."""
        return ((run.rows, run.alive) for run in self._runs)

    # --- runs -----------------------------------------------------------------------------------------------------------

    def _put_back(self, rows: Events) -> None:
        self._runs.append(StoredRows(rows, self.form, starts=self.starts))
        self._earliest = None
        self.reorganise()

    def _over(self, before: Mark) -> list[tuple[Events, Mask | None]]:
        """Forget, and say what: rows, and which of them (None: all)."""
        over: list[tuple[Events, Mask | None]] = []
        kept = []
        for run in self._runs:
            gone = run.gone(before)
            if gone is not False:
                over.append((run.rows, None if gone is True else gone))
                self._mark(run.rows.slot if gone is True else run.rows.slot[gone])
            if (rest := run.without(gone)) is not None:
                kept.append(rest)
        if over:
            self._runs, self._earliest = kept, None
        return over

    def _pieces(self, taken: list[tuple[Events, Mask | None]]) -> Iterator[Events]:
        if self.memory.limit is None:
            if taken:
                yield Events.concat([rows if gone is None else rows.select(gone) for rows, gone in taken])
            return
        for rows, gone in taken:
            each = max(1, self.memory.limit * len(rows) // max(rows.nbytes, 1))
            chosen = np.arange(len(rows)) if gone is None else np.flatnonzero(gone)
            for first in range(0, len(chosen), each):
                yield rows.select(chosen[first : first + each])

    # --- beyond the limit -----------------------------------------------------------------------------------------------

    def _cost(self, rows: Events) -> int:
        """What rows take in memory, with the index that they will have: one bucket a row, rounded up to a power of two, and one chain."""
        chains = 8 * (len(rows) + (1 << (len(rows) - 1).bit_length())) if self.form == "hash" and len(rows) else 0
        return rows.nbytes + chains

    def _spill(self) -> None:
        """Put all runs in memory into one file, and with them the last files as long as these are not much larger.

        Every new row asks every file. Files grow together to the limit, or to `_FILE` where that is less, so that their number is about
        what they hold over that size, however small a batch is; and no more than that is in memory at once.
        """
        runs = [run for run in self._runs if not run.filed]
        files = [run for run in self._runs if run.filed]
        size, most = sum(run.rows.nbytes for run in runs), max(self.memory.limit or 0, _FILE)
        while files and (more := files[-1].rows.nbytes) <= 2 * size and size + more <= most:
            size += more
            runs.insert(0, files.pop())
        together = StoredRows(Events.concat([run.rest for run in runs]), self.form, starts=self.starts)
        self._runs = [*files, together.to_file()]

    def _let_go(self, limit: int) -> None:
        """Forget the oldest rows, down to three quarters of the limit."""
        rows = Events.concat([run.rest for run in self._runs])
        keep = min(int(len(rows) * 0.75 * limit / self._cost(rows)), len(rows))
        order = np.argsort(rows.start, kind="stable")
        chosen, gone = np.sort(order[len(rows) - keep :]), order[: len(rows) - keep]
        self._mark(rows.slot[gone])
        self._runs = [StoredRows(rows.select(chosen), self.form, starts=self.starts)] if keep else []
        self._earliest = None
        self.shed += len(gone)
        _log.warning("%s: %d rows were shed to keep to %d bytes, %d in all", self.name, len(gone), limit, self.shed)


def without_rows(rows: Events, gone: Mask) -> Events:
    """The rows that are not gone."""
    return rows.select(~gone) if gone.any() else rows


def _concat_found(found: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Values of several runs at their rows, one after the other."""
    out, first = empty_array(sum(len(rows) for _, rows in found), np.int64), 0
    for values, rows in found:
        take_values(values, rows, out[first : first + len(rows)])
        first += len(rows)
    return out


@compiled
def _bounds(slot, low, high, first, last):  # type: ignore[no-untyped-def]
    for i in range(len(slot)):
        s = slot[i]
        first[s], last[s] = min(first[s], low[i]), max(last[s], high[i])
