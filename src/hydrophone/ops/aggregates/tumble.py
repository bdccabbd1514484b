"""Tumbling windows: aggregates over stretches of time that do not overlap, closed by progress; events may come in any order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
import pyarrow as pa

from hydrophone.model.batch import Batch, Events, Ints, Mask
from hydrophone.model.fixed_hash_table import ENTRIES
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, floor_mark, marks_of_slots
from hydrophone.model.time import MAX_TIME, add_time
from hydrophone.ops.aggregates.aggregates import (
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
from hydrophone.ops.aggregates.panes import ClosingKernel, PaneKernel
from hydrophone.ops.aggregates.summaries import Aggregate, Partials
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class Tumble(Node):
    """Aggregates per key and window of time; windows begin at multiples of `size` after `offset`.

    An event belongs to the window in which it starts.
    A window with no event gives no row. A window is given when progress passes its end, or as `flush` says some time later.
    """

    stable_name = "tumble"

    size: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    offset: int = 0
    flush: Flush | None = None

    def check(self) -> None:
        """A positive size and at least one aggregate."""
        check_span(self.size, "tumble", "size")
        check_flush(self.flush, "tumble")
        check_aggregates(self.aggregates, "tumble")

    @property
    def mark_step(self) -> int:
        """Windows end at multiples of `size` after `offset`."""
        return gcd(self.size, self.offset)

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

    def partial_form(self, rows: Node) -> Node | None:
        """Parts per window, where all aggregates are made of numbers that a ufunc merges."""
        if self.unmergeable or not all(a.merge for _, a in self.aggregates):
            return None
        return PartialTumble(
            inputs=(rows,), where=self.where, size=self.size, offset=self.offset, aggregates=self.aggregates
        )

    def final_form(self, partials: Node) -> Node:
        """Merge the parts of each window."""
        rows = self.inputs[0].type
        return FinalTumble(
            inputs=(partials,),
            where=self.where,
            size=self.size,
            offset=self.offset,
            aggregates=self.aggregates,
            columns=rows.columns,
            end=rows.end,
        )

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is the window."""
        end = end_name(x, "tumble")
        return StreamType(x.key, x.time, x.clock, pa.schema(aggregate_fields(self.aggregates, x, "tumble", end)), end)

    def reach(self, x: StreamType) -> Reach:
        """A window is owned by its start and needs all events until its end, and to leave progress until it may wait no longer."""
        return Reach(after=add_time(self.size, longest_wait(self.flush, self.size)))

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        kernel = TumbleKernel(self.size, self.offset, self.aggregates, x, self.type)
        kernel.smooth(self.flush, self.size)
        return kernel


class TumbleKernel(ClosingKernel):
    """A window is one pane."""

    def first_open(self, mark: Mark) -> Mark:
        """The start of the window in which the mark lies."""
        return floor_mark(mark, self.pane, self.offset)

    def closed(self, mark: Mark) -> Iterable[Batch]:
        """The windows that ended at or before the mark."""
        if not any(self._over(part.slot, part.start, mark).any() for part in self.open.batches):
            return ()
        held = self._compact()
        assert held is not None
        cells = self.open.take(self._over(held.slot, held.start, mark))
        stop = add_time(cells.start, self.pane)
        columns = self.results(partials_from_table(cells), self.order_statistics_between(cells.slot, cells.start, stop))
        for _, rows in self.rows():
            forget_rows(rows, lambda r: self._over(r.slot, self._pane_of(r.start), mark))
        return (Events(cells.slot, cells.start, stop, columns),)

    def _over(self, slot: Ints, start: Ints, mark: Mark) -> Mask:
        """Which windows nothing can fall into any more."""
        over: Mask = add_time(start, self.pane) <= marks_of_slots(mark, slot)
        return over


# --- in two levels, where tasks merge before an exchange ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class PartialTumble(Node):
    """The parts of aggregates per key and window of the rows of one task; a window may come in several parts."""

    stable_name = "low"

    size: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    offset: int = 0

    gives = Order.ANY
    rowwise = True  # in what matters: it runs on any share of the rows, before the exchange

    @classmethod
    def name(cls) -> str:
        """As `explain` shows it."""
        return "partial"

    @property
    def remark(self) -> str:
        """What tasks merge."""
        how = f"in a table of {ENTRIES:,} keys and windows, where at most {PartialTumbleKernel.WORTH:.0%} of rows leave it"
        return f"tumble({self.describe()}): tasks merge rows before the exchange, {how}"

    def output_type(self, x: StreamType) -> StreamType:
        """The parts."""
        return StreamType(x.key, x.time, x.clock, partial_schema(self.aggregates, x), None)

    def kernel(self, x: StreamType) -> Kernel:
        """Merge within a task."""
        return PartialTumbleKernel(self.digest, self.size, self.offset, self.aggregates, x, self.type)


class PartialTumbleKernel(PaneKernel):
    """Merges the rows of a task, if that makes them much fewer; this is tried now and then.

    It lives no longer than the task, so that what it holds need not be saved.
    """

    WORTH = 0.5
    """The share of rows that may leave as cells for merging to be worth its time."""

    def __init__(self, who: str, *how: object) -> None:
        super().__init__(*how)  # type: ignore[arg-type]
        self.held = self.task_table(who, self.WORTH)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """What leaves the table; where merging is left out, the parts of rows."""
        assert isinstance(batch, Events)
        if not self.held.due():
            return (self.unmerged(batch),)
        cells = self.partial_aggregates(batch)
        shed = self.held.add(cells, len(batch))
        return (cells if shed is None else shed,)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the rest when the task ends."""
        return (self.held.rest(),) if marks[0] == MAX_TIME else (), marks[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalTumble(Tumble):
    """A `tumble` over parts; `columns` and `end` are those of the rows that the parts were made of."""

    stable_name = "high"

    columns: pa.Schema
    end: str | None = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "tumble"

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """All parts."""
        return None

    def partial_form(self, rows: Node) -> None:
        """None: it is the high level."""

    def output_type(self, x: StreamType) -> StreamType:
        """As over the rows themselves."""
        return super().output_type(self.rows(x))

    def rows(self, x: StreamType) -> StreamType:
        """The type of the rows."""
        return StreamType(x.key, x.time, x.clock, self.columns, self.end)

    def kernel(self, x: StreamType) -> Kernel:
        """Merge."""
        return FinalTumbleKernel(self.size, self.offset, self.aggregates, self.rows(x), self.type)


class FinalTumbleKernel(TumbleKernel):
    """The parts are there already."""

    def partials(self, batch: Events) -> Partials:
        """As they came."""
        return partials_from_table(batch)


def partial_schema(aggregates: tuple[tuple[str, Aggregate], ...], x: StreamType) -> pa.Schema:
    """The columns of parts: those of no rows at all."""
    none = Events(np.zeros(0, np.int64), np.zeros(0, np.int64), None, x.columns.empty_table())
    return partials_to_table(PaneKernel(1, 0, aggregates, x, x).partials(none)).schema
