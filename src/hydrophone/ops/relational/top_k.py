"""Some events of every window of time: the largest, or a random sample; and events in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Kernel, Marks, Stateless
from hydrophone.model.key_table import shard_of_keys
from hydrophone.model.marks import Mark, floor_mark, is_same_mark, marks_of_slots
from hydrophone.model.state import HeldBatches
from hydrophone.model.take_rows import without_minus_zero
from hydrophone.model.time import MAX_TIME, MIN_TIME, step_number
from hydrophone.ops.aggregates.aggregates import check_span
from hydrophone.ops.relational.payload_codes import column_hashes
from hydrophone.ops.signals.place import sort_events
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class Choose(Node):
    """Common to operators that keep k events of every key and window; windows begin at multiples of `size` after `offset`.

    Events stay as they are, and are given when progress has passed the end of the window in which they start.
    """

    stable_name = "choose"

    k: int
    size: int
    offset: int = 0

    def check(self) -> None:
        """At least one event of a window that lasts."""
        if self.k < 1:
            raise ParameterError(f"{self.name()}: k must be at least 1, got {self.k}", hint="how many events to keep")
        check_span(self.size, self.name(), "size")

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return StreamType(x.key, x.time, x.clock, x.columns, x.end)

    def reach(self, x: StreamType) -> Reach:
        """All of the window."""
        return Reach(self.size, self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class TopK(Choose):
    """The k events of every key and window with the largest values in a column; reference: ``pandas.nlargest`` per window.

    NaN is larger than all numbers, null is no value. Of equal values the event that starts first is taken, then that which is
    first in order of end and columns.
    """

    stable_name = "top_k_events"

    by: str

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged, if the column has an order."""
        field = x.column(self.by, "top_k")
        if pa.types.is_nested(field.type) or pa.types.is_null(field.type):
            raise SignalTypeError(
                f"top_k: column {self.by!r} is {field.type}, which has no order",
                hint="name a column of numbers, texts or times",
            )
        return super().output_type(x)

    def kernel(self, x: StreamType) -> Kernel:
        """Choose."""
        return TopKKernel(self.k, self.size, self.offset, self.by)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reservoir(Choose):
    """A random sample of k events of every key and window, the same for the same seed whatever the arrival.

    An event is ranked by a hash of the seed, its key, its lifetime and its columns; equal events are ranked together.
    """

    stable_name = "reservoir"

    seed: int = 0

    def kernel(self, x: StreamType) -> Kernel:
        """Choose."""
        return ReservoirKernel(self.k, self.size, self.offset, self.seed)


class ChooseKernel(Kernel):
    """Holds the best events of open windows."""

    keyed = True

    def __init__(self, k: int, size: int, offset: int) -> None:
        self.k, self.size, self.offset = k, size, offset % size
        self.open: HeldBatches[Events] = HeldBatches(Events)
        self._fresh = 0  # rows that came since the best were chosen among all
        self._reached: Mark = MIN_TIME

    def rank(self, events: Events) -> Ints:
        """Which events come first: least is best."""
        raise NotImplementedError

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold the best."""
        assert isinstance(batch, Events)
        best = self._best(batch)
        self.open.add(best)
        self._fresh += len(best)
        if 2 * self._fresh >= sum(map(len, self.open.batches)):
            self._choose()
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the windows that ended."""
        mark, before = marks[0], self._reached
        bound = self._reached = floor_mark(mark, self.size, self.offset)
        if is_same_mark(before, bound):  # marks come more often than windows end
            return (), bound
        held = self._choose()
        if held is None:
            return (), bound
        # By their numbers: a window may begin before, or end after, all times that 64 bits hold.
        over = self._window(held.start) < step_number(marks_of_slots(mark, held.slot), self.size, self.offset)
        over |= np.equal(marks_of_slots(mark, held.slot), MAX_TIME)
        return ((self.open.take(over),) if over.any() else ()), bound

    def compact(self) -> None:
        """Hold the best alone."""
        self._choose()

    def _choose(self) -> Events | None:
        held = self.open.all()
        if held is not None and self._fresh:
            held = self._best(held)
            self.open.replace(held, np.zeros(0, np.int64))
        self._fresh = 0
        return held

    def _window(self, start: Ints) -> Ints:
        number: Ints = step_number(start, self.size, self.offset)
        return number

    def _best(self, events: Events) -> Events:
        """The first k of every slot and window."""
        if not len(events):
            return events
        events = sort_events(events)
        window, rank = self._window(events.start), self.rank(events)
        order = np.lexsort((rank, window, events.slot))  # stable: equal ranks stay in order
        slot, window = events.slot[order], window[order]
        fresh = np.concatenate([[True], (slot[1:] != slot[:-1]) | (window[1:] != window[:-1])])
        first = np.flatnonzero(fresh)
        place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        best = order[(place < self.k) & (rank[order] < MAX_TIME)]
        return events.select(np.sort(best))


class TopKKernel(ChooseKernel):
    """Ranks by a column."""

    def __init__(self, k: int, size: int, offset: int, by: str) -> None:
        super().__init__(k, size, offset)
        self.by = by

    def rank(self, events: Events) -> Ints:
        """The largest first; null never."""
        column = without_minus_zero(events.columns[self.by].combine_chunks())
        place = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return np.where(
            pc.is_valid(column).to_numpy(zero_copy_only=False), -place.to_numpy().astype(np.int64), MAX_TIME
        )


class ReservoirKernel(ChooseKernel):
    """Ranks by a hash."""

    VERSION = 2

    def __init__(self, k: int, size: int, offset: int, seed: int) -> None:
        super().__init__(k, size, offset)
        self.seed = seed

    def rank(self, events: Events) -> Ints:
        """A hash of all that an event is: by its start alone, events that start together would be taken or left together."""
        position = [np.full(len(events), self.seed), events.start, events.stop]
        values = [n for c in events.columns.columns for n in column_hashes(c.combine_chunks())]
        known = [pa.array(n) for n in (*position, *values)]
        return shard_of_keys([*known, *self.keys.columns(events.slot)], MAX_TIME - 1, len(events))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sort(Node):
    """Events in the order of time: they leave when progress has passed them, the earliest first.

    Events that start together are in order of key, end and columns. Spark gives its rows in the order of its partitions: there
    only the events of a key, within a slice, are in order.
    """

    stable_name = "sort"

    needs = Order.INDEX

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return x

    def kernel(self, x: StreamType) -> Kernel:
        """Order."""
        return SortKernel()


class SortKernel(Stateless):
    """Events come in order of (key, time) and leave in that of (time, key)."""

    def map(self, batch: Batch) -> Batch:
        """Order one batch."""
        assert isinstance(batch, Events)
        if not len(batch):
            return batch
        keys = pa.table([*self.keys.columns(batch.slot)], names=[f"k{i}" for i in range(len(self.keys.schema))])
        if not keys.num_columns:
            return batch.select(np.argsort(batch.start, kind="stable"))
        number = pc.rank(_joined(keys), tiebreaker="dense").to_numpy().astype(np.int64)
        return batch.select(np.lexsort((number, batch.start)))


def _joined(keys: pa.Table) -> pa.Array:
    """One column that orders keys: the key itself, or their texts."""
    if keys.num_columns == 1:
        column = keys.column(0).combine_chunks()
        return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    texts = [c.cast(pa.string()) for c in keys.columns]
    return pc.binary_join_element_wise(*texts, "\0").combine_chunks()
