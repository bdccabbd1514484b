"""Snapshots: aggregates over what is alive at each instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges, search_rows, stable_order
from hydrophone.model.time import MAX_TIME
from hydrophone.ops.aggregates.aggregates import (
    Aggregates,
    Aggregating,
    aggregate_columns,
    aggregate_fields,
    check_aggregates,
    end_name,
    partials_to_table,
)
from hydrophone.ops.aggregates.folding import fold_layers
from hydrophone.ops.aggregates.invertible import invertible_layers
from hydrophone.ops.aggregates.order_statistics import order_statistic
from hydrophone.ops.aggregates.summaries import Aggregate, Partials
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer
from hydrophone.ops.relational.lifetimes import chopped
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot(Node):
    """Aggregates over the events of a key that are alive, for every stretch of time between two changes.

    A change is the start or the end of an event. Where nothing is alive there is no row. A stretch is given when progress has
    passed its end. `report` also cuts at multiples of that duration, so that events that live long hold back neither progress nor
    slices. Reference: at each instant, the aggregate of all events with ``start <= instant < end``.
    """

    stable_name = "snapshot"

    aggregates: tuple[tuple[str, Aggregate], ...]
    report: int | None = None

    def check(self) -> None:
        """At least one aggregate, and a positive duration."""
        check_aggregates(self.aggregates, "snapshot")
        if self.report is not None and self.report <= 0:
            raise ParameterError(
                f"snapshot: report must be positive, got {self.report}", hint='snapshot(report="1h"), or none'
            )

    @property
    def stalls(self) -> str | None:
        """A long stretch does, unless it is cut."""
        return (
            None
            if self.report is not None
            else "a stretch that lasts holds back the progress of all keys, report= cuts it"
        )

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """Those of the aggregates."""
        return aggregate_columns(self.aggregates)

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is the stretch."""
        end = end_name(x, "snapshot")
        return StreamType(x.key, x.time, x.clock, pa.schema(aggregate_fields(self.aggregates, x, "snapshot", end)), end)

    def reach(self, x: StreamType) -> Reach:
        """The change at the start of a stretch, and the one at its end."""
        if self.report is None:
            return Reach.unbounded("snapshot: a stretch may last for ever without report=")
        return Reach(before=1, after=self.report)

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        return SnapshotKernel(self.aggregates, self.report, x, self.type)


class SnapshotKernel(Aggregating):
    """Holds what is alive, from the last change on; columns: the parts of every event, its first start, and what picks look at."""

    keyed = True

    removes = True

    def __init__(self, aggregates: Aggregates, report: int | None, kind: StreamType, out: StreamType) -> None:
        super().__init__(aggregates, kind, out)
        self.report = report
        self.open = KeyedBuffer()

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        columns = partials_to_table(self.partials(batch)).append_column("born", pa.array(batch.start))
        for i, pick in enumerate(self.order_statistics):
            columns = columns.append_column(f"v{i}", batch.columns[pick.column])
        alive = Events(batch.slot, batch.start, batch.stop, columns)
        self.open.add(alive if self.report is None else chopped(alive, self.report, 0, "snapshot", self.keys))
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the stretches that ended; what is alive goes on from the last change."""
        mark = marks[0]
        held = self.open.take_due(mark)
        if held is None:
            return (), self.open.held_back(mark)
        order = stable_order(held.slot, held.columns["born"].to_numpy())
        if order is not None:
            held = held.select(order)
        own = marks_of_slots(mark, held.slot)
        slot, time = _changes(held, own)
        last = search_rows(slot, time, held.slot, np.full(len(held), MAX_TIME), "left") - 1
        first = search_rows(slot, time, held.slot, held.start, "left")
        until = np.where(held.stop <= own, search_rows(slot, time, held.slot, held.stop, "left"), last)
        out = self._stretches(held, first, np.maximum(until - first, 0), slot, time)
        begun = held.start <= own
        start = np.where(begun, time[np.maximum(last, 0)] if len(time) else held.start, held.start)
        stays = held.stop > own
        rest = Events(held.slot, start, held.stop, held.columns).select(stays)
        self.open.put(rest, due=np.where(begun[stays], rest.stop, rest.start))
        return out, self.open.held_back(mark)

    def _stretches(self, held: Events, first: Ints, counts: Ints, slot: Ints, time: Ints) -> tuple[Batch, ...]:
        """Results for the stretches (by the number of the change that begins them) in which each event is alive."""
        if not counts.any():
            return ()
        width = held.columns.num_columns - 1 - len(self.order_statistics)
        own = [held.columns.column(i).to_numpy() for i in range(width)]
        partials: Partials = []
        stop = first + counts
        size = len(time) + 1
        some = counts > 0
        alive = np.cumsum(np.bincount(first[some], minlength=size) - np.bincount(stop[some], minlength=size))[:-1] > 0
        at = np.flatnonzero(alive)
        for a, mine, undo, its in self.with_inverses(own):
            if undo is None:
                partials += [p[at] for p in fold_layers(a, mine, first, stop, len(time))[0]]
            else:
                partials += invertible_layers(a, undo, mine, its, first, stop, alive)
        columns = self.results(partials, self._picks(held, first, counts, at))
        return (Events(slot[at], time[at], time[at + 1], columns),)

    def _picks(self, held: Events, first: Ints, counts: Ints, at: Ints) -> list[pa.Array]:
        """Picks look at every event of every stretch."""
        if not self.order_statistics:
            return []
        row, group = np.repeat(np.arange(len(held)), counts), np.searchsorted(at, concat_ranges(first, counts))
        found = []
        for i, pick in enumerate(self.order_statistics):
            values = held.columns[f"v{i}"].take(pa.array(row))
            there = values.is_valid().to_numpy()
            born = held.columns["born"].to_numpy()[row]
            rows = Events(group, born, None, pa.table({"value": values})).select(there)
            found.append(order_statistic(pick, rows, group[there], len(at)))
        return found


def _changes(held: Events, mark: Mark) -> tuple[Ints, Ints]:
    """The instants (slot, time) at which something starts or ends, up to the mark, in order and each once."""
    slot, time = np.concatenate([held.slot, held.slot]), np.concatenate([held.start, held.stop])
    known = np.concatenate([held.start <= mark, held.stop <= mark])
    slot, time = slot[known], time[known]
    order = np.lexsort((time, slot))
    slot, time = slot[order], time[order]
    fresh = np.concatenate([[True], (slot[1:] != slot[:-1]) | (time[1:] != time[:-1])])[: len(slot)]
    return slot[fresh], time[fresh]
