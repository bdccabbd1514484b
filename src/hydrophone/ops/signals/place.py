"""Place: the one component that reorders. It holds what may still be overtaken and lets it go, in order, when the mark has passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError
from hydrophone.model.batch import Batch, Events, Ints, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.model.sorted_rows import stable_order
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import format_instant
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import DataType, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Place(Node):
    """Put events in (key, time) order, samples in index order; the planner inserts it where an operator needs order."""

    stable_name = "place"

    gives = Order.INDEX
    inserted = True

    def output_type(self, x: DataType) -> DataType:
        """Unchanged."""
        return x

    def kernel(self, x: DataType) -> Kernel:
        """One kernel per kind of batch."""
        return PlaceSamples() if isinstance(x, UniformType) else PlaceEvents()


class PlaceEvents(Kernel):
    """Events leave sorted by (slot, start, end, sequence and other columns): ties have one order, whatever the arrival."""

    keyed = True

    def __init__(self) -> None:
        self.waiting: HeldBatches[Events] = HeldBatches(Events)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Events)
        self.waiting.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Let go of what starts before the mark of its key."""
        held = self.waiting.all()
        if held is None:
            return (), marks[0]
        ripe = held.start < marks_of_slots(marks[0], held.slot)
        return ((sort_events(self.waiting.take(ripe)),) if ripe.any() else ()), marks[0]


def sort_events(events: Events) -> Events:
    """Sort by (slot, start); rows that tie are sorted by end and then by their columns, left to right."""
    order = stable_order(events.slot, events.start)
    if order is not None:
        events = events.select(order)
    tied = (events.slot[1:] == events.slot[:-1]) & (events.start[1:] == events.start[:-1])
    if not tied.any():
        return events
    return sort_ties(events, np.flatnonzero(np.concatenate([tied, [False]]) | np.concatenate([[False], tied])))


def sort_ties(events: Events, touched: Ints) -> Events:
    """The rows in `touched`, which tie with others of these, in the order of end and columns; all others stay in their place."""
    part = events.select(touched)
    columns = {f"c{i}.{j}": k for i, c in enumerate(part.columns.columns) for j, k in enumerate(_sort_keys(c))}
    table = pa.table({"slot": part.slot, "start": part.start, "stop": part.stop, **columns})
    keys = [(name, "ascending") for name in table.column_names]
    rank: Ints = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    by_slot = stable_order(part.slot, part.start)
    order = np.arange(len(events))
    order[touched if by_slot is None else touched[by_slot]] = touched[rank]
    return events.select(order)


def _sort_keys(column: pa.ChunkedArray) -> list[pa.ChunkedArray | pa.Array]:
    """What orders the rows of a column whatever their arrival."""
    if pa.types.is_nested(column.type):
        # Structs and lists have no order of their own in Arrow; their text has.
        return [pa.array([str(v) for v in column.to_pylist()])]
    if pa.types.is_floating(column.type):
        # Arrow's order leaves 0.0 and -0.0 as they came; their reciprocals differ.
        wide = column.cast(pa.float64())
        return [wide, pc.divide(1.0, wide)]
    return [column]


class PlaceSamples(Kernel):
    """Runs of samples leave by (slot, first), each sample once."""

    keyed = True

    def __init__(self) -> None:
        self.waiting: HeldBatches[Segments] = HeldBatches(Segments)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Segments)
        self.waiting.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Let go of the samples before the mark."""
        held = self.waiting.all()
        if held is None:
            return (), marks[0]
        self._refuse_overlap(held)
        ripe, rest = held.split(held.base.index_from_mark(held.slot, marks_of_slots(marks[0], held.slot)))
        self.waiting.replace(rest, ripe.slot)
        return ((ripe,) if len(ripe) else ()), marks[0]

    def _refuse_overlap(self, held: Segments) -> None:
        clash = _first_overlap(held.slot, held.first, held.offsets)
        if clash:
            at = np.array([clash])
            time = format_instant(int(held.base.instant(held.slot[at], held.first[at])[0]))
            raise DataError(
                f"source: two segments{self.keys.of_key(int(held.slot[clash]))} overlap at {time}",
                hint="each sample of a signal may come once",
            )


@compiled
def _first_overlap(slot, first, offsets):  # type: ignore[no-untyped-def]
    """The first run that begins before the one before it has ended; 0 where none does."""
    for run in range(1, len(slot)):
        if slot[run] == slot[run - 1] and first[run] < first[run - 1] + offsets[run] - offsets[run - 1]:
            return run
    return 0
