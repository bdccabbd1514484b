"""Windows of time that overlap, and sessions: windows that end with silence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints, Mask
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, map_mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges, search_rows, stable_order
from hydrophone.model.state import Field, HeldBatches, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time, check_finite, exact_sum, multiples, step_number
from hydrophone.ops.aggregates.aggregates import (
    Aggregates,
    Aggregating,
    aggregate_columns,
    aggregate_fields,
    check_aggregates,
    check_span,
    end_name,
    forget_rows,
    partials_from_table,
    partials_to_table,
    unmergeable,
)
from hydrophone.ops.aggregates.flush import Flush, check_flush, longest_wait
from hydrophone.ops.aggregates.folding import fold
from hydrophone.ops.aggregates.invertible import WindowChain, recompute_interval
from hydrophone.ops.aggregates.panes import ClosingKernel
from hydrophone.ops.aggregates.summaries import Aggregate, Partials
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer, due_at_end
from hydrophone.ops.room import room_for
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import StreamType

FINAL_ONLY = "final"
"""The column that says whether a row is the result of a whole window, or a running one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sliding(Node):
    """Aggregates per key over windows of `size` that begin `every` so often, from multiples of it after `offset`.

    An event belongs to all windows in which it starts: ``[start, start + size)``. A window with no event gives no row.
    Windows are given when progress passes their end. Events are gathered in panes as long as the greatest common divisor
    of `size` and `every`, which the windows share.

    With `report` a window is also given at every multiple of it from its start, over the events so far, where there are any:
    such a row ends at that instant, and only the last row of a window is ``final``. Without it `flush` may let results leave later.
    """

    stable_name = "sliding"

    size: int
    every: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    offset: int = 0
    report: int | None = None
    flush: Flush | None = None

    def check(self) -> None:
        """Positive durations, of which `report` divides `size`, and at least one aggregate."""
        what = self.name()
        check_span(self.size, what, "size")
        check_span(self.every, what, "every")
        if self.report is not None:
            check_span(self.report, what, "report")
            if self.size % self.report:
                raise ParameterError(
                    f"{what}: report must divide size, and {self.size} ns is no multiple of {self.report} ns",
                    hint='such as size="1h", report="5min"',
                )
        check_flush(self.flush, what)
        if self.flush is not None and self.report is not None:
            raise ParameterError(f"{what}: report gives results early, and flush late", hint="choose one of them")
        check_aggregates(self.aggregates, what)

    @property
    def mark_step(self) -> int:
        """Windows begin and end, and running results are given, at multiples of this."""
        return math.gcd(self.size, self.every, self.report or 0, self.offset)

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """Those of the aggregates."""
        return aggregate_columns(self.aggregates)

    @property
    def unmergeable(self) -> tuple[str, ...]:
        """The aggregates that keep rows."""
        return unmergeable(self.aggregates)

    def without_flush(self) -> Node:
        """Without `flush`."""
        return self if self.flush is None else replace(self, flush=None)

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate, with `report` after one that says which rows are final; the lifetime is the window so far."""
        plain = self._results(x)
        if self.report is None:
            return plain
        if FINAL_ONLY in (*x.key.names, x.time, plain.end):
            raise ParameterError(
                f"{self.name()}: rows say in a column {FINAL_ONLY!r} which they are, and the key or time of this stream has that name",
                hint=f"rename the key: stream.key_by(whole={FINAL_ONLY!r})",
            )
        return replace(plain, columns=pa.schema([pa.field(FINAL_ONLY, pa.bool_()), *plain.columns]))

    def _results(self, x: StreamType) -> StreamType:
        end = end_name(x, self.name())
        taken = (end,) if self.report is None else (end, FINAL_ONLY)
        fields = aggregate_fields(self.aggregates, x, self.name(), *taken)
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), end)

    def reach(self, x: StreamType) -> Reach:
        """A window is owned by its start and needs all events until its end, and to leave progress until it may wait no longer."""
        return Reach(after=add_time(self.size, longest_wait(self.flush, self.every)))

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        kernel = SlidingKernel(self.size, self.every, self.offset, self.report, self.aggregates, x, self._results(x))
        kernel.smooth(self.flush, self.every)
        return kernel


class RunningTumble(Sliding):
    """A `tumble` with `report`: windows that do not overlap, and running results of each."""

    stable_name = "running_tumble"

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "tumble"


class SlidingKernel(ClosingKernel):
    """Panes are held until the last window that has them was given; per key it is known up to where windows were given."""

    def __init__(
        self,
        size: int,
        every: int,
        offset: int,
        report: int | None,
        aggregates: Aggregates,
        kind: StreamType,
        out: StreamType,
    ) -> None:
        # A running result is no earlier one with something taken away.
        self.removes = size > every and report is None
        super().__init__(math.gcd(size, every, report or size), offset, aggregates, kind, out)
        self.size, self.every, self.report = size, every, report
        self.begin = offset % every
        self.given = SlotArrays(until=Field(np.int64, MIN_TIME))
        if self.inverses:
            # Of every key the window after the last one given, as far as that reached: nothing can come there any more.
            self.next: HeldBatches[Events] = HeldBatches(Events)

    def check_room(self, first: int, last: int) -> None:
        """Refuse events from `first` to `last` that lie in windows which 64 bits cannot hold."""
        super().check_room(first, last)
        low, high = self._window(first - self.size) + 1, self._window(last)
        check_finite(low * self.every + self.begin, high * self.every + self.begin + self.size)

    def _window(self, start: Any) -> Any:
        """The number of the last window that starts by then."""
        return step_number(start, self.every, self.begin)

    def closed(self, mark: Mark) -> Iterable[Batch]:
        """The windows that ended at or before the mark, and running results until then."""
        held = self._compact()
        if held is None:
            return ()
        self.given.reserve(len(self.keys))
        low, start = self._due(held, mark)
        stop, final = add_time(start, self.size), None
        if self.report is not None:
            low, start, stop, final = self._reports(held, low, start, mark)
        out: tuple[Batch, ...] = ()
        if len(start):
            slot = held.slot[low]
            high = search_rows(held.slot, held.start, slot, stop, "left")
            columns = self.results(
                self._over(held, slot, start, low, high), self.order_statistics_between(slot, start, stop)
            )
            if final is not None:
                columns = columns.add_column(0, FINAL_ONLY, pa.array(final))
            out = (Events(slot, start, stop, columns),)
        if self.inverses:
            forget_rows(self.next, lambda r: add_time(r.start, self.size) <= marks_of_slots(mark, r.slot))
        forget_rows(self.open, lambda r: self._last_end(r.start) <= marks_of_slots(mark, r.slot))
        for _, rows in self.rows():
            forget_rows(rows, lambda r: self._last_end(self._pane_of(r.start)) <= marks_of_slots(mark, r.slot))
        slots = np.unique(held.slot)
        self.given["until"][slots] = np.maximum(self.given["until"][slots], marks_of_slots(mark, slots))
        self.given.touch(slots)
        return out

    def _over(self, held: Events, slot: Ints, start: Ints, low: Ints, high: Ints) -> Partials:
        """The parts of windows in the order of slot and start, each over the panes ``low .. high - 1``."""
        if not self.inverses:
            return self.folded(partials_from_table(held), low, high)
        chain = self._chain(held, slot, start, low, high)
        partials: Partials = []
        kept: Partials = []
        for a, own, undo, its in self.with_inverses(partials_from_table(held)):
            if undo is None:
                partials += fold(a, own, low, high)
                continue
            run = chain.run(a, own, its, chain.known[len(kept) : len(kept) + 2 * a.width])
            partials += [p[chain.window] for p in run.partials]
            kept += [p[chain.tail] for p in (*run.partials, *run.peak)]
        rows = self.next.all()
        stays = [] if rows is None else [rows.select(~np.isin(rows.slot, slot))]
        after = Events(chain.slot[chain.tail], chain.start[chain.tail], None, partials_to_table(kept))
        self.next.replace(Events.concat([*stays, after]), np.unique(slot))
        return partials

    def _chain(self, held: Events, slot: Ints, start: Ints, low: Ints, high: Ints) -> WindowChain:
        """The windows, before those of a key what is known of its first, and after them what will be known of the next."""
        last = np.flatnonzero(np.append(slot[1:] != slot[:-1], True))
        after = add_time(start[last], self.every)
        until = search_rows(held.slot, held.start, slot[last], after, "left")
        some = (until < high[last]) & ~self._is_due(after)
        last, after, until = last[some], after[some], until[some]
        first = np.flatnonzero(np.append(True, slot[1:] != slot[:-1]))
        rows, known = self.next.all(), first[:0]
        if rows is not None:
            rows = rows.select(np.argsort(rows.slot))
            at = np.minimum(np.searchsorted(rows.slot, slot[first]), len(rows) - 1)
            same = (rows.slot[at] == slot[first]) & (rows.start[at] == start[first])
            known, rows = first[same], rows.select(at[same])
        reached = search_rows(held.slot, held.start, slot[known], start[known] + (self.size - self.every), "left")
        kind = np.repeat([0, 1, 2], [len(known), len(slot), len(last)])
        slot = np.concatenate([slot[known], slot, slot[last]])
        start = np.concatenate([start[known], start, after])
        low, high = np.concatenate([low[known], low, until]), np.concatenate([reached, high, high[last]])
        order = np.lexsort((kind, start, slot))
        kind, slot, start, low, high = (c[order] for c in (kind, slot, start, low, high))
        # The panes of the next key lie behind those of this one.
        begin = (kind == 0) | self._is_due(start) | np.append(True, low[1:] >= high[:-1])
        return WindowChain(kind, slot, start, low, high, begin, [] if rows is None else partials_from_table(rows))

    def _is_due(self, start: Ints) -> Mask:
        """Whether a window is made afresh, so that rounding errors end there."""
        return self._window(start) % recompute_interval(self.size // self.every) == 0

    def first_open(self, mark: Mark) -> Mark:
        """The start of the first window that ends after the mark."""
        return map_mark(mark, lambda m: add_time(multiples(self._ended(m) + 1, self.every), self.begin))

    def _ended(self, until: Any, size: int | None = None) -> Any:
        """The number of the last window that has ended then, or that is `size` long; times near the first there is do not wrap."""
        return self._window(add_time(until, -(size or self.size)))

    def _last_end(self, pane: Ints) -> Ints:
        """The end of the last window that has a pane; before the pane if none has it."""
        return add_time(self._window(pane) * self.every + self.begin, self.size)

    def _due(self, held: Events, mark: Mark) -> tuple[Ints, Ints]:
        """Windows that end after what was given, and whose end, or first report, is not after the mark: their first pane, and start."""
        last = self._window(held.start)
        # The first window with the pane is the first that ends after the pane begins, and starts after the pane before.
        first = self._ended(held.start) + 1
        same = held.slot[1:] == held.slot[:-1]
        first[1:] = np.where(same, np.maximum(first[1:], last[:-1] + 1), first[1:])
        first = np.maximum(first, self._ended(self.given["until"][held.slot]) + 1)
        marks = np.broadcast_to(marks_of_slots(mark, held.slot), len(held))
        over = np.where(marks == MAX_TIME, last, self._ended(marks, self.report))
        counts = np.maximum(np.minimum(last, over), first - 1) - first + 1
        with self._room_for(held, np.arange(len(held)), held.start, counts):
            return np.repeat(np.arange(len(held)), counts), concat_ranges(first, counts) * self.every + self.begin

    def _room_for(self, held: Events, low: Ints, start: Ints, counts: Ints) -> AbstractContextManager[None]:
        """Refuse more results at a time than memory holds."""
        hint = "windows that begin, or report, less often"
        slot, stop = held.slot[low], add_time(start, self.size)
        return room_for("sliding", self.keys, slot, start, stop, counts, "results", hint)

    def _reports(self, held: Events, low: Ints, start: Ints, mark: Mark) -> tuple[Ints, Ints, Ints, Mask]:
        """For every window the instants after its first pane and what was given, and not after the mark.

        Gives for each instant the first pane and the start of its window, the instant, and whether the window ends there.
        """
        assert self.report is not None
        end, most = add_time(start, self.size), self.size // self.report
        marks = np.minimum(marks_of_slots(mark, held.slot[low]), end)
        known = np.minimum(np.maximum(held.start[low], self.given["until"][held.slot[low]]), end)
        first = (known - start) // self.report + 1
        last = np.where(marks == end, most, (marks - start) // self.report)
        counts = np.maximum(last - first + 1, 0)
        with self._room_for(held, low, start, counts):
            number, begin = concat_ranges(first, counts), np.repeat(start, counts)
        return np.repeat(low, counts), begin, add_time(begin, number * self.report), number == most


@dataclass(frozen=True, kw_only=True, eq=False)
class Session(Node):
    """Aggregates per key and session: events that follow each other with less than `gap` between them.

    The distance is that from the last end so far (of points, from the last start) to the next start. A session lasts from the
    first start to `gap` after the last end (of points, after the last start), when nothing can join it any more.
    """

    stable_name = "session"

    gap: int
    aggregates: tuple[tuple[str, Aggregate], ...]

    def check(self) -> None:
        """A positive gap and at least one aggregate."""
        check_span(self.gap, "session", "gap")
        check_aggregates(self.aggregates, "session")

    @property
    def stalls(self) -> str | None:
        """A long session does."""
        return "a session that goes on holds back the progress of all keys until its gap"

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """Those of the aggregates."""
        return aggregate_columns(self.aggregates)

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is the session."""
        end = end_name(x, "session")
        return StreamType(x.key, x.time, x.clock, pa.schema(aggregate_fields(self.aggregates, x, "session", end)), end)

    def reach(self, x: StreamType) -> Reach:
        """As far as a session can last."""
        return Reach.unbounded("session: it may go on for ever")

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        return SessionKernel(self.gap, self.aggregates, x, self.type)


class SessionKernel(Aggregating):
    """Open sessions, and pieces of them, are held with their parts."""

    keyed = True

    def __init__(self, gap: int, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        super().__init__(aggregates, kind, out)
        self.gap = gap
        self.open = KeyedBuffer(due_at_end)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add pieces."""
        assert isinstance(batch, Events)
        if len(batch):
            until = exact_sum(batch.start if batch.end is None else batch.end, self.gap)
            self.open.add(self._joined(Events(batch.slot, batch.start, until, partials_to_table(self.partials(batch)))))
            self.order_statistic_rows(batch, batch.start)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the sessions that nothing can join."""
        mark = marks[0]
        held = self.open.take_due(mark)
        if held is None:
            return (), self.open.held_back(mark)
        held = self._joined(held)
        done = held.stop <= marks_of_slots(mark, held.slot)
        rest = held.select(~done)
        self.open.put(rest, due=rest.stop)
        out: tuple[Batch, ...] = ()
        if done.any():
            ended = held.select(done)
            columns = self.results(
                partials_from_table(ended), self.order_statistics_between(ended.slot, ended.start, ended.stop)
            )
            out = (Events(ended.slot, ended.start, ended.stop, columns),)
            for _, rows in self.rows():
                forget_rows(rows, lambda r: _rows_inside(r, ended))
        return out, self.open.held_back(mark)

    def _joined(self, pieces: Events) -> Events:
        """One piece where they overlap, ordered by (slot, start); a piece ends where nothing can join it any more."""
        order = stable_order(pieces.slot, pieces.start)
        if order is not None:
            pieces = pieces.select(order)
        first = chain_starts(pieces.slot, pieces.start, pieces.stop - 1)
        if len(first) == len(pieces):
            return pieces
        stop = np.append(first[1:], len(pieces))
        partials = self.folded(partials_from_table(pieces), first, stop)
        return Events(
            pieces.slot[first],
            pieces.start[first],
            np.maximum.reduceat(pieces.stop, first),
            partials_to_table(partials),
        )


def _rows_inside(rows: Events, ended: Events) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Rows that start within one of some lifetimes, which are in order and do not overlap."""
    at = search_rows(ended.slot, ended.start, rows.slot, rows.start, "right") - 1
    safe = np.maximum(at, 0)
    return (at >= 0) & (ended.slot[safe] == rows.slot) & (rows.start < ended.stop[safe])


@compiled
def chain_starts(slot, start, until):  # type: ignore[no-untyped-def]
    """Where a chain begins: rows of a slot that start after the `until` of all rows before (in order of slot and start)."""
    out = np.empty(len(slot), np.int64)
    n = 0
    largest = 0
    for i in range(len(slot)):
        if i == 0 or slot[i] != slot[i - 1] or start[i] > largest:
            out[n] = i
            n += 1
            largest = until[i]
        else:
            largest = max(largest, until[i])
    return out[:n].copy()
