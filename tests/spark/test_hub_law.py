"""The law of subscriptions in a hub: in its interval a query gives what it gives alone. Shards, pins and requests without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES, Case, Source, assert_same, rows
from tests.choice import may_stall
from tests.laws.harness import FAR, Manner
from tests.laws.test_subscriptions import arriving, owned, shown, some_manner
from tests.spark.hub_rehearsal import HubRehearsal

from hydrophone.api import handle
from hydrophone.compiler.compile import Host, lower, stages
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.plan.node import Node
from hydrophone.spark.hub import changes
from hydrophone.spark.hub.pins import PinnedQuery


class World:
    """A hub over the sources of a case, whose query and parts of it join and leave at random."""

    def __init__(self, case: Case, manner: Manner, home: Path) -> None:
        self.case, self.rng = case, np.random.default_rng(manner.seed)
        self.sources = {n: arriving(s, manner, manner.seed + i) for i, (n, s) in enumerate(case.inputs.items())}
        self.streams = {n: s.stream() for n, s in self.sources.items()}
        self.query = case.build(self.streams)
        self.hub = HubRehearsal(home, list(self.streams.values()), seed=manner.seed)
        self.manner, self.taken = manner, dict.fromkeys(self.sources, 0)
        self.nodes: dict[str, Node] = {}
        self.pauses: dict[int, set[tuple[int, int]]] = {}
        last = max((int(s.starts().max()) for s in self.sources.values() if len(s.table)), default=0)
        self.end = MAX_TIME if may_stall(case) else add_time(last, FAR)

    def subscribe(self) -> None:
        inner = [n for n in self.query.node.topological() if shown(n)]
        node = self.query.node if self.rng.random() < 0.7 else inner[int(self.rng.integers(len(inner)))]
        name = f"q{len(self.nodes)}"
        self.nodes[name] = node
        self.hub.subscribe(handle(node), name, str(self.rng.choice(["settled", "settled", "fresh"])))

    def change(self) -> None:
        running = self.hub.pin.queries
        if running:
            one = running[int(self.rng.integers(len(running)))]
            ways: list[tuple[str, dict[str, Any]]] = [
                ("unsubscribe", {}),
                ("unsubscribe", {"at": add_time(one.frontier, int(self.rng.integers(0, 60)))}),
                ("pause", {}),
                ("resume", {}),
            ]
            what, said = ways[int(self.rng.choice(4, p=[0.1, 0.1, 0.4, 0.4]))]
            if said.get("at", 0) > MIN_TIME + 100 or not said:
                self.hub.ask(what, one.name, **said)

    def go(self) -> None:
        if self.rng.random() < 0.5:
            self.subscribe()
            self.hub.advance([], {})
        while any(self.taken[n] < len(s.table) for n, s in self.sources.items()):
            given = {}
            for number, (name, source) in enumerate(self.sources.items()):
                count = int(self.rng.integers(0, 2 * self.manner.chunk + 1))
                given[number] = source.table.slice(self.taken[name], count)
                self.taken[name] += len(given[number])
            if self.rng.random() < 0.4 and len(self.nodes) < 6:
                self.subscribe()
            if self.rng.random() < 0.3:
                self.change()
            self.hub.run(given)
            self.see_pauses()
        # What was asked last joins, and marks go on.
        self.hub.run({})
        self.see_pauses()
        for _ in range(2):
            self.hub.run({}, dict.fromkeys(range(len(self.sources)), self.end))

    def see_pauses(self) -> None:
        """A pin holds a pause only as long as results may still lie in it."""
        for query in (*self.hub.pin.queries, *map(pinned, self.hub.pin.ended)):
            self.pauses.setdefault(query.number, set()).update(query.pauses)

    def check(self) -> int:
        pin = self.hub.pin
        assert not [q for q in pin.ended if q["state"] == "failed"], pin.ended
        compared = 0
        for query in (*pin.queries, *map(pinned, pin.ended)):
            node = self.nodes[query.name]
            names = self.names(node)
            since = [query.since.get(str(list(self.sources).index(n)), MIN_TIME) for n in names]
            answer = alone(node, [self.sources[n] for n in names], since, self.end)
            wanted = owned(answer, replace(query, pauses=tuple(sorted(self.pauses[query.number]))).spans())
            found = [r for t in self.hub.results[query.number] for r in rows(t)]
            assert_same(found, wanted, max(self.case.tolerance, 1e-9))
            compared += bool(wanted)
        known = ("any time before", "no query", "have been made", "promises progress per key")
        assert not [e for e in pin.refused.values() if not any(why in e["message"] for why in known)]
        return compared

    def names(self, node: Node) -> list[str]:
        by_data = {id(q.node.data): n for n, q in self.streams.items()}  # type: ignore[attr-defined]
        return [by_data[id(s.data)] for s in lower([node]).sources]


def pinned(ended: dict[str, Any]) -> PinnedQuery:
    return PinnedQuery(**{n: v for n, v in ended.items() if n not in ("state", "error")})


def alone(node: Node, given: list[Source], since: list[int], end: int) -> tuple[Any, Any]:
    """The run of a query by itself, over the rows that start from an instant on, up to the same last mark."""
    plan = lower([node])
    pipeline = Pipeline(plan.roots)
    for port, source in enumerate(given):
        if since[port] == MIN_TIME or not len(source.table):
            pipeline.rows(port, source.table)
        elif source.samples:
            pipeline.step(port, emit.owned_rows(pipeline.batch(port, source.table), since[port], MAX_TIME))
        else:
            pipeline.rows(port, source.table.filter(pa.array(source.starts() >= since[port])))
    marks = [add_time(end, -s.progress.delay) if end < MAX_TIME else end for s in given]
    pipeline.advance([Progress(m) for m in marks])
    return pipeline.drain(), lambda b: rows(emit.result_table(b, plan.roots[0].type, pipeline.keys(plan.roots[0])))


def world(case: Case, seed: int, home: Path) -> World:
    manner = some_manner(case, seed)
    made = World(case, replace(manner, eager=1.0), home)
    made.go()
    return made


def in_stages(case: Case) -> bool:
    return len(stages(case.plan, Host.HUB)) > 1


FEW = (
    "rolling-mean",
    "resample-bridged",
    "asof-join-ties",
    "join-on-crossed",
    "combine-samples",
    "point-at-end",
    "sos-steady-vectors",
)
NOW = [c for n, c in enumerate(ALL_CASES) if c.name in FEW or (in_stages(c) and n % 12 == 0)]
"""The law itself is that of the graph, where all cases show it; here it is about routes, stages and the state of shards."""


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name, marks=() if c in NOW else pytest.mark.soak) for c in ALL_CASES]
)
def test_a_query_gives_the_answer_of_its_interval(case: Case, tmp_path: Path) -> None:
    for seed in (7,) if case in NOW else range(8, 12):
        world(case, seed, tmp_path / str(seed)).check()


def test_the_law_fails_without_the_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that begins at the largest end that was seen gives rows that are wrong."""
    case = next(c for c in ALL_CASES if c.node.__name__ == "Fir" and not any(s.samples for s in c.inputs.values()))
    monkeypatch.setattr(changes, "settled", lambda root, sources, seen: max(seen))

    def holds(seed: int) -> bool:
        try:
            return bool(world(case, seed, tmp_path / str(seed)).check() + 1)
        except AssertionError:
            return False

    assert not all(holds(seed) for seed in range(10)), "a wrong start is not noticed"
