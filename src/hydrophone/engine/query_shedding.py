"""Shedding in a graph: at its sources, or where rows enter the part of the plan that is one query's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from hydrophone.engine.dispatch import Dispatcher
from hydrophone.engine.meter import Meter
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.shedding import Strategy
from hydrophone.engine.stations import Station
from hydrophone.engine.subscription import Subscription
from hydrophone.engine.turns import Feed, Turns
from hydrophone.model.batch import Batch, Events
from hydrophone.model.key_table import KeyTable
from hydrophone.model.row_hash import kept_rows, row_hashes
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port

FORGET = 0.5
"""How much of the cost of earlier turns counts in the next one."""

Step = Callable[[int, Batch], Iterable[Batch]]
"""What a station does with a batch at one of its ports."""


class Queries(Protocol):
    """What this needs to know of a running graph; see `hydrophone.engine.graph.RunningGraph`."""

    turns: Turns
    dispatcher: Dispatcher
    subscriptions: list[Subscription]
    meters: dict[Node, Meter]

    @property
    def pipeline(self) -> Pipeline:
        """What runs the queries."""

    def used(self) -> list[Node]:
        """What somebody subscribes to, or what is warm."""

    def lacks(self, nodes: Iterable[Node]) -> None:
        """These operators are not given all rows any more."""


class Entry:
    """Where rows enter the part of a plan that one query has for itself.

    Attributes
    ----------
    station, port : the first station of that part, and where it gets the rows
    keys : the keys of the rows
    source : the name of the source that they come from
    sequence : the column that orders rows of one key and time, if it has come so far
    """

    def __init__(self, station: Station, port: int, keys: KeyTable, source: str, sequence: str | None) -> None:
        self.station, self.port, self.keys, self.source, self.sequence = station, port, keys, source, sequence


class QueryShedding:
    """Decides before every turn what is left out.

    Attributes
    ----------
    factors : of queries that rows are left out of alone, by their roots
    """

    def __init__(self, graph: Queries) -> None:
        self._graph = graph
        self.factors: dict[Node, float] = {}
        self._gated: dict[Station, Step] = {}  # as they were without a gate
        self._gates_for: Any = None  # what the gates of the last turn depend on
        self._spent: dict[Node, float] = {}
        self._costs: dict[Node, float] = {}

    def begin_turn(self, feeds: Iterable[Feed]) -> None:
        """Pin the factors of a turn in which these sources have rows."""
        factors: dict[Node, float] = {}
        for feed in feeds:
            readers = self._readers(feed)
            most = min((s.tolerance for s in readers), default=1.0)
            apart = feed.shedding.begin_turn(feed.rows, feed.load, most)
            if apart is not None:
                for root, factor in self._shares(*apart, readers).items():
                    factors[root] = max(factors.get(root, 0.0), factor)
        self.factors = {root: factor for root, factor in factors.items() if factor > 0}
        self._set_gates()

    def _readers(self, feed: Feed) -> list[Subscription]:
        """The subscriptions that read a source."""
        port = feed.source.port(feed.number)
        return [s for s in self._graph.subscriptions if not s.done and port in s.root.topological()]

    # --- which query loses how much -----------------------------------------------------------------------------------

    def _shares(self, strategy: Strategy, factor: float, readers: Iterable[Subscription]) -> dict[Node, float]:
        """The factors of queries, where the source sheds nothing for all of them."""
        by_root: dict[Node, list[Subscription]] = {}
        for subscription in readers:
            by_root.setdefault(subscription.root, []).append(subscription)
        own = {root: self._own(root) for root in by_root}
        for root, subscriptions in by_root.items():
            self._see_cost(root, own[root], subscriptions)
        tolerances = {root: min(s.tolerance for s in those) for root, those in by_root.items() if own[root]}
        return shares(strategy, factor, tolerances, self._costs)

    def _own(self, root: Node) -> list[Node]:
        """The operators that this query has for itself."""
        used, stations = set(self._graph.used()), self._graph.pipeline.stations
        return [n for n in root.topological() if n.inputs and n in stations and stations[n].roots & used == {root}]

    def _see_cost(self, root: Node, own: Iterable[Node], readers: Iterable[Subscription]) -> None:
        """Seconds that the own part of a query has taken lately, its sinks included."""
        meters = self._graph.meters
        spent = sum(meters[n].seconds for n in own if n in meters) + sum(s.seconds for s in readers)
        self._costs[root] = FORGET * self._costs.get(root, 0.0) + spent - self._spent.get(root, 0.0)
        self._spent[root] = spent

    # --- gates --------------------------------------------------------------------------------------------------------

    def _set_gates(self) -> None:
        """Take away the gates of the last turn, and put new ones where rows are left out; rows of earlier turns pass the old ones."""
        wanted = self.factors, self._graph.used()
        if wanted == self._gates_for or not (self.factors or self._gated):
            return
        self._gates_for = wanted
        self._graph.dispatcher.quiet()
        for station, step in self._gated.items():
            station.step, station.gated = step, False
        self._gated = {}
        for root, factor in self.factors.items():
            readers = [s for s in self._graph.subscriptions if s.root == root]
            gated = set()
            for entry in list(self._entries(root)):
                self._gated.setdefault(entry.station, entry.station.step)
                entry.station.step = partial(_gated, entry.station.step, entry, factor, readers)
                entry.station.gated = True
                gated.add(entry.station.node)
            for node in root.topological():
                if not gated.isdisjoint(node.inputs):
                    gated.add(node)
            self._graph.lacks(gated)

    def _entries(self, root: Node) -> Iterator[Entry]:
        """Where rows enter the operators that this query has for itself."""
        own = set(self._own(root))
        for node in root.topological():
            for port, source in enumerate(node.inputs):
                if node in own and source not in own:
                    leaf = next(n for n in source.topological() if isinstance(n, Port))
                    feed = self._graph.turns.feeds[leaf.number].source
                    stations = self._graph.pipeline.stations
                    yield Entry(stations[node], port, stations[source].out_keys, feed.label or "", feed.layout.sequence)


def _gated(
    step: Step,
    entry: Entry,
    factor: float,
    readers: Sequence[Subscription],
    port: int,
    batch: Batch,
) -> Iterable[Batch]:
    """Give a station the rows that stay. Samples and windows are no rows of a source any more, and stay."""
    if port != entry.port or not isinstance(batch, Events):
        return step(port, batch)
    keys = entry.keys.columns(batch.slot)
    has = entry.sequence is not None and entry.sequence in batch.columns.column_names
    hashes = row_hashes(entry.source, keys, batch.start, batch.columns[entry.sequence] if has else None)
    kept = kept_rows(hashes, factor)
    gone = len(kept) - int(kept.sum())
    for reader in readers:
        reader.skipped += gone
    return step(port, batch if not gone else batch.select(kept))


def shares(
    strategy: Strategy, factor: float, tolerances: Mapping[Node, float], costs: Mapping[Node, float]
) -> dict[Node, float]:
    """How a factor is shared out among queries.

    The straggler is the query that costs most. By tolerance, those whose tolerance is furthest from what they lose already lose first,
    so that the mean of the factors is the one that is asked for, if all of them tolerate that much.

    Examples
    --------
    >>> tolerances = {"a": 0.9, "b": 0.5, "c": 0.1}
    >>> shares("straggler", 0.6, tolerances, {"a": 1.0, "b": 3.0, "c": 2.0})
    {'a': 0.0, 'b': 0.5, 'c': 0.0}
    >>> {k: round(v, 3) for k, v in shares("tolerance", 0.2, tolerances, {}).items()}
    {'a': 0.5, 'b': 0.1, 'c': 0.0}
    >>> shares("tolerance", 0.8, tolerances, {})
    {'a': 0.9, 'b': 0.5, 'c': 0.1}
    """
    if not tolerances:
        return {}
    if strategy == "straggler":
        worst = max(tolerances, key=lambda root: costs.get(root, 0.0))
        return {root: min(factor, most) if root is worst else 0.0 for root, most in tolerances.items()}
    wanted = factor * len(tolerances)
    if wanted >= sum(tolerances.values()):
        return dict(tolerances)
    levels, given = sorted(tolerances.values(), reverse=True), 0.0
    distance = levels[0]
    for count, below in enumerate([*levels[1:], 0.0], start=1):
        if given + count * (distance - below) >= wanted:
            distance -= (wanted - given) / count
            break
        given, distance = given + count * (distance - below), below
    return {root: max(0.0, most - distance) for root, most in tolerances.items()}
