"""Windows by a column that counts events, in place of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import DataError, ParameterError, PlanError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.time import MAX_TIME, add_time, format_instant
from hydrophone.ops.aggregates.aggregates import (
    Aggregating,
    aggregate_fields,
    check_aggregates,
    check_span,
    end_name,
    partials_to_table,
)
from hydrophone.ops.aggregates.order_statistics import order_statistic
from hydrophone.ops.aggregates.summaries import Aggregate, Partials
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer
from hydrophone.ops.relational.rows import WithColumns
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import UNBOUNDED, Reach
from hydrophone.plan.source import Source
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class CountWindow(Node):
    """Aggregates per key over every `size` numbers of a sequence column: 0 to size - 1, and so on, whether all came or not.

    The sequence must rise as time goes on, without repeats; events that start together may have theirs in any order. A window
    lasts from its first start to its last end, and is given when a number of a later window has come in order, or at the end
    of the data.

    With `within` a window takes events that start less than so long after its first; those that follow make another one of the
    same numbers. It is given once progress has passed that time too, so that a key that falls silent holds back no other. After
    that time numbers may begin anew.
    """

    stable_name = "count_window"

    size: int
    by: str
    aggregates: tuple[tuple[str, Aggregate], ...]
    within: int | None = None

    needs = Order.INDEX

    def check(self) -> None:
        """A positive size and at least one aggregate."""
        if self.size < 1:
            raise ParameterError(
                f"count_window: size must be at least 1, got {self.size}", hint='count_window(10, by="n")'
            )
        check_aggregates(self.aggregates, "count_window")
        if self.within is not None:
            check_span(self.within, "count_window", "within")

    def check_stream(self, waiting: str | None) -> None:
        """A window must end, where others wait for it."""
        if self.within is None and waiting is not None:
            raise PlanError(
                f"count_window: without within= a key that falls silent would hold back progress for ever, and {waiting} waits for it",
                hint='say how long a window may stay open: count_window(10, by="n", within="1h")',
                where=self.where,
            )

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is that of all events."""
        if not pa.types.is_integer(x.column(self.by, "count_window").type):
            raise ParameterError(
                f"count_window: column {self.by!r} is {x.columns.field(self.by).type}, not a whole number",
                hint="by= names the column that counts the events of a key",
            )
        end = end_name(x, "count_window")
        fields = aggregate_fields(self.aggregates, x, "count_window", end)
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), end)

    def reach(self, x: StreamType) -> Reach:
        """The next number may be any time away, unless that ends a window."""
        if self.within is None:
            return Reach.unbounded("count_window: the numbers of a window may be any time apart without within=")
        # Where a window begins depends on the one before it of the same numbers, and so on: each has at least one of them.
        return Reach(min(self.size * self.within, UNBOUNDED), self.within)

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        return CountWindowKernel(self, x)


def sequence_of(node: Node) -> str:
    """The column that orders the rows of a source, where these rows still have it: without one windows would depend on the arrival."""
    above, below = [], node
    while below.rowwise and len(below.inputs) == 1:
        above.append(below)
        below = below.inputs[0]
    name = below.layout.sequence if isinstance(below, Source) else None
    if name is None:
        what = "its source has no sequence" if isinstance(below, Source) else f"{below.name()} has no sequence"
        raise ParameterError(
            f"count_window: no column is known that counts events, because {what}",
            hint='name the column, count_window(10, by="n"), or say it at the source: sequence="n"',
        )
    changed = [
        n for n in above if (isinstance(n, WithColumns) and name in dict(n.columns)) or name not in n.type.columns.names
    ]
    if changed:
        raise ParameterError(
            f"count_window: {changed[-1].name()} does not keep {name!r}, the sequence of the source",
            hint='keep it, or name another column: count_window(10, by="n")',
        )
    return name


class CountWindowKernel(Aggregating):
    """The open window of every key: the rows of picks are held under the start of their window."""

    VERSION = 3
    keyed = True

    def __init__(self, node: CountWindow, kind: StreamType) -> None:
        super().__init__(node.aggregates, kind, node.type)
        self.size, self.by = node.size, node.by
        self.within = MAX_TIME if node.within is None else node.within
        self.open = KeyedBuffer(self._due)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add a batch, which comes in order, to open windows; give those that a later number has ended."""
        assert isinstance(batch, Events)
        if batch.columns[self.by].null_count:
            raise DataError(
                f"count_window: {batch.columns[self.by].null_count} events have no number in {self.by!r}",
                hint="leave them out first: where(~hp.col(...).is_null())",
            )
        found = batch.columns[self.by].to_numpy()
        number = found.astype(np.int64)
        if found.dtype == np.uint64 and len(number) and number.min() < 0:
            raise DataError(
                f"count_window: {self.by!r} has {found.max()}, and numbers of a sequence must be below 2**63",
                hint="subtract where the sequence begins",
            )
        columns = partials_to_table(self.partials(batch)).append_column("number", pa.array(number))
        for i, pick in enumerate(self.order_statistics):
            columns = columns.append_column(f"v{i}", batch.columns[pick.column])
        held = self.open.take_of(batch.slot)
        new = Events(batch.slot, batch.start, batch.stop, columns)
        rows = new if held is None else Events.concat([held, new])
        # Events that start together may come in any order of their numbers.
        rows = rows.select(np.lexsort((rows.columns["number"].to_numpy(), rows.start, rows.slot)))
        begin = self._begins(rows)
        self._check(rows, begin)
        last = np.append(np.flatnonzero(rows.slot[1:] != rows.slot[:-1]), len(rows) - 1)
        done = begin < np.repeat(begin[last], np.diff(last, prepend=-1))
        self._hold(rows.select(~done))
        return (self._windows(rows.select(done)),) if done.any() else ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Open windows hold the output mark; they end when progress has passed their time, and at the end of the data."""
        mark = marks[0]
        over = self.open.take_due(mark)
        out = () if over is None else (self._windows(over),)
        return out, self.open.held_back(mark)

    def _hold(self, rows: Events) -> None:
        self.open.put(rows, due=self._due(rows))

    def _due(self, rows: Events) -> Ints:
        """When the windows of the first of these rows end, whatever comes: the soonest counts, and they are of one window per key."""
        return add_time(rows.start, self.within)

    def _begins(self, rows: Events) -> Ints:
        """Of rows in order, the place of the first one of their window."""
        return _first_of_window(rows.slot, self._window(rows), rows.start, self.within)

    def _check(self, rows: Events, begin: Ints) -> None:
        """Numbers rise while the window of the one before may take events: after that nobody need know it any more."""
        number = rows.columns["number"].to_numpy()
        falls = (rows.slot[1:] == rows.slot[:-1]) & (number[1:] <= number[:-1])
        wrong = np.flatnonzero(falls & (rows.start[1:] < add_time(rows.start[begin[:-1]], self.within)))
        if not len(wrong):
            return
        at = wrong[0] + 1
        when = format_instant(int(rows.start[at]))
        if number[at] == number[at - 1]:
            raise DataError(
                f"count_window: {self.by!r} has {number[at]} twice, the second at {when}",
                hint="the numbers of a key must differ; distinct() before it leaves out rows that came twice",
            )
        raise DataError(
            f"count_window: {self.by!r} falls at {when}",
            hint="windows by a sequence need numbers that rise as time goes on",
        )

    def _window(self, rows: Events) -> Ints:
        return rows.columns["number"].to_numpy() // self.size

    def _windows(self, rows: Events) -> Events:
        """Results of whole windows, whose rows are in order."""
        first = np.unique(self._begins(rows))
        stop = np.append(first[1:], len(rows))
        width = rows.columns.num_columns - 1 - len(self.order_statistics)
        partials: Partials = [rows.columns.column(i).to_numpy() for i in range(width)]
        group = np.repeat(np.arange(len(first)), stop - first)
        picks = []
        for i, pick in enumerate(self.order_statistics):
            chosen = replace(rows, end=None, columns=pa.table({"value": rows.columns[f"v{i}"]}))
            there = rows.columns[f"v{i}"].is_valid().to_numpy()
            picks.append(order_statistic(pick, chosen.select(there), group[there], len(first)))
        ends = np.maximum.reduceat(rows.stop, first)
        return Events(
            rows.slot[first], rows.start[first], ends, self.results(self.folded(partials, first, stop), picks)
        )


@compiled
def _first_of_window(slot: Any, window: Any, start: Any, within: int) -> Any:
    """For rows in order of (slot, start) where their window begins: at another number, or when its time is over."""
    out = np.empty(len(slot), np.int64)
    at, bounded, longest = 0, within < MAX_TIME, np.uint64(within)
    for i in range(len(slot)):
        # Unsigned: two instants may be further apart than signed numbers tell.
        over = bounded and np.uint64(start[i]) - np.uint64(start[at]) >= longest
        if over or slot[i] != slot[at] or window[i] != window[at]:
            at = i
        out[i] = at
    return out
