"""Regions: the stations of a running plan that are joined by edges without a buffer, and run as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hydrophone.engine.buffers import Buffer, Edge
from hydrophone.engine.stations import Station
from hydrophone.model.batch import Ints, Mask
from hydrophone.model.key_table import KeyTable
from hydrophone.plan.node import Node

if TYPE_CHECKING:
    from hydrophone.engine.dispatch import Shift


class Region:
    """Stations joined by edges without a buffer: one thread at a time runs them, from a batch or mark of a buffer in front of them.

    Attributes
    ----------
    number : for `explain`
    stations : inputs first
    buffers, outputs : the buffers in front of them and behind them
    views : the key tables as its operators see them, where regions run in threads
    roots : those of the pipeline that are made here
    shift : who runs it; a region with a port has none, and runs where rows come in
    seconds : how long it has worked
    share : `seconds`, divided by its weight, where shares are handed out
    weight : its part of the time, against other regions
    served : when it ran last, as a count over all regions
    is_ready, is_running, is_delivering : what the dispatcher does with it
    """

    shift: Shift

    def __init__(self, number: int, stations: Sequence[Station]) -> None:
        self.number, self.stations = number, tuple(stations)
        self.buffers: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.views: list[KeyView] = []
        self.roots = tuple(s.node for s in stations if s.out is not None)
        self.seconds = self.share = 0.0
        self.weight = 1.0
        self.served = 0
        self.is_ready = self.is_running = self.is_delivering = False

    @property
    def waiting(self) -> int:
        """Batches and marks that wait."""
        return sum(len(buffer.items) for buffer in self.buffers)

    def oldest(self) -> Buffer | None:
        """The buffer whose first thing has waited longest and may run."""
        if len(self.buffers) == 1:
            only = self.buffers[0]
            return only if only.items and not (only.outputs and only.is_blocked) else None
        able = [buffer for buffer in self.buffers if buffer.items and not buffer.is_blocked]
        return min(able, key=lambda buffer: buffer.items[0].number, default=None)

    def refresh(self) -> None:
        """Let the operators see the keys that have come."""
        for view in self.views:
            view.refresh()


class KeyView(KeyTable):
    """A key table as the operators of one region see it: other threads may add keys, and it grows only between two batches.

    An operator may ask for the number of keys twice while it takes a batch, and gets the same answer.
    """

    def __init__(self, table: KeyTable) -> None:
        self.schema, self.table = table.schema, table
        self._size = len(table)

    def __len__(self) -> int:
        return self._size

    @property
    def used(self) -> Mask:  # type: ignore[override]
        """Which slots have a key."""
        return self.table.used[: self._size]

    def refresh(self) -> None:
        """See the keys that have come."""
        self._size = len(self.table)

    def slots(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Ints:
        """The slot of every row; keys not seen before get a new one."""
        found = self.table.slots(columns)
        self.refresh()
        return found

    def zeros(self, rows: int) -> Ints:
        """Slots for a scope without key columns."""
        found = self.table.zeros(rows)
        self.refresh()
        return found

    def columns(self, slot: Ints) -> list[pa.Array]:
        """The key columns of these slots."""
        return self.table.columns(slot)

    def column(self, name: str) -> pa.Array:
        """One key column of all slots that it sees."""
        return self.table.column(name)[: self._size]


def closed_cuts(stations: Mapping[Node, Station], cuts: Iterable[Edge]) -> set[Edge]:
    """These edges, and those that must be cut too so that rows that come in and rows that leave a buffer never meet in one region.

    Rows that come in run in the thread that brings them; what leaves a buffer may run in another one.
    """
    found = set(cuts)
    while True:
        direct: dict[Node, bool] = {}  # reached from a port without a buffer
        buffered: dict[Node, bool] = {}  # reached from behind one
        mixed: list[Edge] = []
        for node, station in stations.items():
            cut = [(node, port) in found for port in range(len(station.inputs))]
            ways = [(direct[i.node], buffered[i.node]) for i in station.inputs]
            direct[node] = not station.inputs or any(d and not c for (d, _), c in zip(ways, cut, strict=True))
            buffered[node] = any(c or b for (_, b), c in zip(ways, cut, strict=True))
            if direct[node] and buffered[node]:
                mixed += [(node, p) for p, ((d, _), c) in enumerate(zip(ways, cut, strict=True)) if d and not c]
                direct[node] = False
        if not mixed:
            return found
        found.update(mixed)


def regions_of(stations: Mapping[Node, Station], buffers: Mapping[Edge, Buffer]) -> list[Region]:
    """The regions of a plan, and their buffers."""
    group: dict[Node, list[Station]] = {}
    for node, station in stations.items():
        group[node] = [station]
        for port, source in enumerate(station.inputs):
            mine, other = group[node], group[source.node]
            if (node, port) not in buffers and mine is not other:
                if len(mine) > len(other):
                    mine, other = other, mine
                other += mine
                for moved in mine:
                    group[moved.node] = other
    place = {node: at for at, node in enumerate(stations)}
    distinct = {id(found): found for found in group.values()}.values()
    regions = [Region(n, sorted(found, key=lambda s: place[s.node])) for n, found in enumerate(distinct)]
    region_of = {s.node: region for region in regions for s in region.stations}
    for buffer in buffers.values():
        feeder = region_of[buffer.source.node]
        feeder.outputs.append(buffer)
        buffer.feeder, buffer.region = feeder, region_of[buffer.reader.node]
        buffer.region.buffers.append(buffer)
    for buffer in buffers.values():
        _follow(buffer)
    return regions


def _follow(buffer: Buffer) -> None:
    """Find what a buffer reaches."""
    reached = {buffer.reader.node}
    if len(buffer.region.stations) > 1:
        for station in buffer.region.stations:
            if any(not isinstance(i, Buffer) and i.node in reached for i in station.inputs):
                reached.add(station.node)
    buffer.stations = tuple(s for s in buffer.region.stations if s.node in reached)
    buffer.outputs = tuple(b for b in buffer.region.outputs if b.source.node in reached)


def see_through_views(regions: Iterable[Region]) -> None:
    """Give every region its own view of its key tables."""
    for region in regions:
        views: dict[int, KeyView] = {}
        for station in region.stations:
            if station.kernel is not None:
                for table in (station.keys, station.out_keys):
                    views.setdefault(id(table), KeyView(table))
                station.kernel.keys, station.kernel.out_keys = views[id(station.keys)], views[id(station.out_keys)]
        region.views = list(views.values())
