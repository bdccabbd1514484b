"""The regions of a plan: which edges must be cut, and what is joined without a buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hydrophone.engine.buffers import Buffer, Edge, Region
from hydrophone.engine.stations import Station
from hydrophone.model.key_view import KeyView
from hydrophone.plan.node import Node


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
