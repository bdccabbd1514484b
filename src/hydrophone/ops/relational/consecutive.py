"""Events in a row: neighbours, the last n, patterns and counts. All need the order of time, which the planner sees to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import narwhals as nw
import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges, search_rows, stable_order
from hydrophone.model.time import MAX_TIME, add_time
from hydrophone.ops.aggregates.aggregates import (
    Aggregates,
    Aggregating,
    aggregate_fields,
    check_aggregates,
    check_span,
    partials_to_table,
)
from hydrophone.ops.aggregates.order_statistics import order_statistic
from hydrophone.ops.aggregates.summaries import Aggregate, Partials
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer
from hydrophone.ops.relational.rows import visible_columns, visible_schema
from hydrophone.plan import expr
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType


def reach_within(within: int | None, what: str) -> Reach:
    """As far back as events count."""
    if within is None:
        return Reach.unbounded(f"{what}: the event before may be any time ago without within=")
    return Reach(before=within)


class RecentEvents:
    """The last few events of every key in front of its new ones."""

    def __init__(self, count: int, within: int | None) -> None:
        self.held, self.count = KeyedBuffer(self._due), count
        self.within = MAX_TIME if within is None else within

    def extend(self, batch: Events) -> tuple[Events, Ints]:
        """Held and new events in order of (slot, start), and the rows that are new; the last ones are held for the next time."""
        held = self.held.take_of(batch.slot)
        rows = batch if held is None else Events.concat([held, batch])
        new = np.arange(len(rows)) >= len(rows) - len(batch)
        order = stable_order(rows.slot, rows.start)  # stable: held events stay before new ones at the same time
        if order is not None:
            rows, new = rows.select(order), new[order]
        last = np.append(np.flatnonzero(rows.slot[1:] != rows.slot[:-1]), len(rows) - 1)
        size = np.diff(last, prepend=-1)
        kept = np.minimum(size, self.count)
        self._hold(rows.select(concat_ranges(last + 1 - kept, kept)))
        return rows, np.flatnonzero(new)

    def lowest(self, rows: Events, at: Ints, count: int) -> Ints:
        """For rows at some places the first of the last `count` rows of the slot, themselves included, that lie within the time."""
        first = search_rows(rows.slot, rows.start, rows.slot[at], add_time(rows.start[at], -self.within), "left")
        return np.maximum(first, at - count + 1)

    def forget(self, mark: Mark) -> None:
        """Drop what lies too far back for any event that may come."""
        held = self.held.take_due(mark)
        if held is not None:
            self._hold(held.select(add_time(held.start, self.within) >= marks_of_slots(mark, held.slot)))

    def _hold(self, rows: Events) -> None:
        self.held.put(rows, due=self._due(rows))

    def _due(self, rows: Events) -> Ints:
        return add_time(add_time(rows.start, self.within), 1)


# --- neighbours ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs(Node):
    """Every event but the first of a key, with the one before it; reference: ``pandas.DataFrame.shift(1)`` per key.

    Events that start together are in order of end and columns. With `within` an event that is further away is not the one
    before, and what is kept per key is forgotten in time. Columns of the event before, and its start, get ``_before``.
    """

    stable_name = "pairs"

    within: int | None = None

    needs = Order.INDEX

    def check(self) -> None:
        """A duration."""
        if self.within is not None:
            check_span(self.within, "pairs", "within")

    def output_type(self, x: StreamType) -> StreamType:
        """Both payloads."""
        before = [f.with_name(f"{f.name}_before") for f in (pa.field(x.time, x.stamp), *x.columns)]
        names = [*x.key.names, x.time, x.end, *x.columns.names]
        for f in before:
            if f.name in names:
                raise ParameterError(f"pairs: this stream has a column {f.name!r} already", hint="rename it, or select")
        return StreamType(x.key, x.time, x.clock, pa.schema([*x.columns, *before]), x.end)

    def reach(self, x: StreamType) -> Reach:
        """The event before."""
        return reach_within(self.within, "pairs")

    def kernel(self, x: StreamType) -> Kernel:
        """Pair."""
        return PairsKernel(self.within, self.type)


class PairsKernel(Kernel):
    """The last event of every key."""

    keyed = True

    def __init__(self, within: int | None, out: StreamType) -> None:
        self.out = out
        self.recent = RecentEvents(1, within)
        self.last = self.recent.held

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Pair one batch, which comes in order."""
        assert isinstance(batch, Events)
        rows, new = self.recent.extend(batch)
        at = new[self.recent.lowest(rows, new, 2) < new]
        if not len(at):
            return ()
        event, before = rows.select(at), rows.select(at - 1)
        stamp = pa.array(before.start).cast(self.out.columns.field(event.columns.num_columns).type)
        columns = pa.table([*event.columns.columns, stamp, *before.columns.columns], schema=self.out.columns)
        return (event.with_columns(columns),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Forget."""
        self.recent.forget(marks[0])
        return (), marks[0]


# --- patterns -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern(Node):
    """Events of a key that follow each other directly and meet one condition each, all `within` a time.

    `steps` are pairs of (name, condition). A match has the lifetime of its last event; its columns are those of each event, named
    ``<step>_<column>``, and the starts of all but the last, ``<step>_<time>``. Matches may overlap. Events that start together are in
    order of end and columns. A null condition counts as false.
    """

    stable_name = "pattern"

    steps: tuple[tuple[str, nw.Expr], ...]
    within: int

    needs = Order.INDEX

    def check(self) -> None:
        """At least two conditions of one row each, and a time."""
        if len(self.steps) < 2:
            raise ParameterError(
                "pattern: needs at least two steps",
                hint='pattern(up=hp.col("v") > 1, down=hp.col("v") < 0, within="5s")',
            )
        check_span(self.within, "pattern", "within")
        for name, condition in self.steps:
            if not isinstance(condition, nw.Expr):
                raise ParameterError(f"pattern: step {name!r} is no condition", hint='hp.col("v") > 1')
            expr.check_rowwise(condition, f"pattern: {name}")

    def output_type(self, x: StreamType) -> StreamType:
        """The payloads of all steps."""
        fields = []
        for i, (name, condition) in enumerate(self.steps):
            kind = expr.output_type(condition, visible_schema(x))
            if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
                raise ParameterError(
                    f"pattern: {name} is {kind}, not true or false", hint="compare with something: hp.col('x') > 0"
                )
            times = [pa.field(x.time, x.stamp)] if i < len(self.steps) - 1 else []
            fields += [f.with_name(f"{name}_{f.name}") for f in (*times, *x.columns)]
        taken = [*x.key.names, x.time, x.end]
        clash = [f.name for f in fields if f.name in taken]
        if clash:
            raise ParameterError(
                f"pattern: the name {clash[0]!r} is taken by the key or time of this stream", hint="rename the step"
            )
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), x.end)

    def reach(self, x: StreamType) -> Reach:
        """The events before."""
        return Reach(before=self.within)

    def kernel(self, x: StreamType) -> Kernel:
        """Match."""
        return PatternKernel(self.steps, self.within, x, self.type)


class PatternKernel(Kernel):
    """The last events of every key, one fewer than there are steps."""

    keyed = True

    def __init__(self, steps: tuple[tuple[str, nw.Expr], ...], within: int, kind: StreamType, out: StreamType) -> None:
        self.conditions, self.kind, self.out = [c for _, c in steps], kind, out
        self.recent = RecentEvents(len(steps) - 1, within)
        self.last = self.recent.held

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Match in one batch, which comes in order."""
        assert isinstance(batch, Events)
        rows, new = self.recent.extend(batch)
        count = len(self.conditions)
        at = new[self.recent.lowest(rows, new, count) == new - count + 1]
        for i, condition in enumerate(self.conditions):
            true = expr.passing_rows(condition, visible_columns(rows, self.kind, self, expr.column_names(condition)))
            at = at[np.asarray(true)[at - count + 1 + i]]
        if not len(at):
            return ()
        columns: list[pa.ChunkedArray | pa.Array] = []
        for i in range(count):
            event = rows.select(at - count + 1 + i)
            if i < count - 1:
                columns.append(pa.array(event.start).cast(self.out.columns.field(len(columns)).type))
            columns += event.columns.columns
        return (rows.select(at).with_columns(pa.table(columns, schema=self.out.columns)),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Forget."""
        self.recent.forget(marks[0])
        return (), marks[0]


# --- the last n ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LastN(Node):
    """For every event, aggregates over the last n events of its key, itself included; reference: ``pandas.rolling(n, min_periods=1)``.

    Events that start together are in order of end and columns. With `within` only events that start at most so long before count.
    """

    stable_name = "last_n"

    n: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    within: int | None = None

    needs = Order.INDEX

    def check(self) -> None:
        """At least one event, and at least one aggregate."""
        if self.n < 1:
            raise ParameterError(f"last_n: n must be at least 1, got {self.n}", hint="last_n(10).agg(...)")
        if self.within is not None:
            check_span(self.within, "last_n", "within")
        check_aggregates(self.aggregates, "last_n")

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; lifetimes stay."""
        fields = aggregate_fields(self.aggregates, x, "last_n", x.end)
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), x.end)

    def reach(self, x: StreamType) -> Reach:
        """The events before."""
        return reach_within(self.within, "last_n")

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        return LastNKernel(self.n, self.within, self.aggregates, x, self.type)


class LastNKernel(Aggregating):
    """The last n - 1 events of every key: their parts, and what picks look at."""

    keyed = True

    def __init__(self, n: int, within: int | None, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        super().__init__(aggregates, kind, out)
        self.n = n
        self.recent = RecentEvents(n - 1, within)
        self.open = self.recent.held

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Aggregate for one batch, which comes in order."""
        assert isinstance(batch, Events)
        partials = self.partials(batch)
        columns = partials_to_table(partials)
        for i, pick in enumerate(self.order_statistics):
            columns = columns.append_column(f"v{i}", batch.columns[pick.column])
        rows, new = self.recent.extend(batch.with_columns(columns))
        low = self.recent.lowest(rows, new, self.n)
        own: Partials = [rows.columns.column(i).to_numpy() for i in range(len(partials))]
        found = self.results(self.folded(own, low, new + 1), self._picks(rows, low, new + 1))
        event = rows.select(new)
        return (event.with_columns(found),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Forget."""
        self.recent.forget(marks[0])
        return (), marks[0]

    def _picks(self, rows: Events, low: Ints, high: Ints) -> list[pa.Array]:
        group, at = np.repeat(np.arange(len(low)), high - low), concat_ranges(low, high - low)
        found = []
        for i, pick in enumerate(self.order_statistics):
            values = rows.columns[f"v{i}"].take(pa.array(at))
            there = values.is_valid().to_numpy()
            chosen = Events(group, rows.start[at], None, pa.table({"value": values})).select(there)
            found.append(order_statistic(pick, chosen, group[there], len(low)))
        return found
