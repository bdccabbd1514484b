"""A subscription gives exactly what the query would give alone, in its interval of event time, whatever runs beside it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Row, Source, assert_same, rows
from tests.choice import for_a_law, representative
from tests.laws.harness import EXAMPLES, Manner

import hydrophone as hp
from hydrophone.api import handle
from hydrophone.compiler.compile import lower
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine import emit, graph
from hydrophone.engine.buffers import Edge, Region
from hydrophone.engine.orders import Crew, Least
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.schedulers import Scheduler
from hydrophone.engine.since import unbounded
from hydrophone.engine.stations import Station
from hydrophone.engine.subscription import Subscription
from hydrophone.errors import DataError, PlanError
from hydrophone.model.batch import Batch, Progress
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.plan.node import Node
from hydrophone.plan.types import DataType, StreamType, UniformType

TAKEN = {"end", "peak", "samples"}
"""Columns of intervals, which a key must not have."""

# A run has up to eight subscriptions.
LAW = settings(max_examples=max(EXAMPLES // 4, 1), phases=[Phase.explicit, Phase.reuse, Phase.generate])


# --- sources that come in disorder, and promise no more than they keep --------------------------------------------------------


def lateness(starts: np.ndarray) -> int:
    """How far a row comes behind the latest one before it."""
    latest = np.maximum.accumulate(starts) if len(starts) else starts
    return int((latest - starts).max(initial=0))


def arriving(source: Source, manner: Manner, seed: int) -> Source:
    """The rows in an order of arrival, with a promise that holds: for all keys, for each key, or none at all."""
    (feed,) = replace(manner, seed=seed).feeds([source])
    table = source.table.take(pa.array(feed.order))
    delay = lateness(feed.starts)
    if manner.apart is not None:
        own = max((lateness(feed.starts[feed.keys == k]) for k in np.unique(feed.keys)), default=0)
        promise = hp.delayed(delay, per_key=own, ahead=None)
    else:
        promise = hp.delayed(delay, ahead=None) if manner.eager else None
    return replace(source, table=table, progress=promise)


def alone(node: Node, given_rows: Sequence[Source], since: Sequence[int] | None = None) -> tuple[list[Batch], Any]:
    """The run of a query by itself, over rows by source in the order of the plan: all, or those that start from an instant on."""
    plan = lower([node])
    pipeline = Pipeline(plan.roots)
    for port, source in enumerate(given_rows):
        if since is None or not len(source.table):
            pipeline.rows(port, source.table)
        elif source.samples:  # of segments the samples from there on; cut as a table they would not lie on their grid
            pipeline.step(port, emit.owned_rows(pipeline.batch(port, source.table), since[port], MAX_TIME))
        else:
            pipeline.rows(port, source.table.filter(pa.array(source.starts() >= since[port])))
    pipeline.advance([Progress(MAX_TIME)] * len(given_rows))
    return pipeline.drain(), lambda b: rows(emit.result_table(b, plan.roots[0].type, pipeline.keys(plan.roots[0])))


def owned(found: tuple[list[Batch], Any], spans: Iterable[tuple[int, int]]) -> list[Row]:
    batches, shown = found
    cut = [emit.owned_rows(b, low, high) for b in batches for low, high in spans]
    return [r for b in cut if len(b) for r in shown(b)]


# --- neighbours that fail ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Broken(Node):
    """An operator that fails at its second batch."""

    stable_name = "broken"

    gives = None
    rowwise = True

    def output_type(self, x: DataType) -> DataType:
        return x

    def kernel(self, x: DataType) -> Kernel:
        return BrokenKernel()


class BrokenKernel(Stateless):
    left = 1

    def map(self, batch: Batch) -> Batch:
        self.left -= 1
        if self.left < 0:
            raise DataError("broken")
        return batch


class BrokenSink(hp.Sink):
    def __init__(self) -> None:
        self.ended: list[BaseException | None] = []

    def process(self, table: pa.Table, mark: int) -> None:
        raise ZeroDivisionError("the sink")

    def done(self, error: BaseException | None) -> None:
        self.ended.append(error)


# --- the law ----------------------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """A subscription, what it gave, and what the test knows of it."""

    node: Node
    subscription: Subscription
    found: list[pa.Table]
    since: list[int] | None
    """For a fresh one the first start that counts, by source."""
    pauses: list[list[int]] = field(default_factory=list)
    stopped: bool = False
    now: bool = False
    """Whether it was stopped at once: it may have given results after the end of its interval."""

    def spans(self, to_the_end: bool = False) -> list[tuple[int, int]]:
        start, end = self.subscription.interval
        at = MIN_TIME if start is None else start
        spans = []
        for low, high in self.pauses:
            spans.append((at, low))
            at = high
        spans.append((at, MAX_TIME))
        stop = MAX_TIME if end is None or to_the_end else end
        return [(low, min(high, stop)) for low, high in spans if low < min(high, stop)]


class World:
    """A graph with random subscriptions over the sources of a case."""

    def __init__(
        self, case: Case, manner: Manner, starts: bool = True, scheduler: Callable[[World], Scheduler] | None = None
    ) -> None:
        self.starts = starts  # whether to look at starts, beside results
        self.case, self.rng = case, np.random.default_rng(manner.seed)
        self.sources = {n: arriving(s, manner, manner.seed + i) for i, (n, s) in enumerate(case.inputs.items())}
        self.streams = {n: s.stream() for n, s in self.sources.items()}
        self.query = case.build(self.streams)
        self.manner = manner
        self.graph = hp.Graph(late=hp.late.error(), scheduler=None if scheduler is None else scheduler(self))
        self.taken = dict.fromkeys(self.sources, 0)
        self.watched: list[Watched] = []
        self.refused = 0
        self.keeps = False
        self.broken: list[tuple[Subscription, BrokenSink | None]] = []

    # --- what happens -------------------------------------------------------------------------------------------------------

    def push(self) -> None:
        left = [n for n, s in self.sources.items() if self.taken[n] < len(s.table)]
        name = str(self.rng.choice(left))
        count = int(self.rng.integers(1, self.manner.chunk + 1))
        self.graph.push(self.streams[name], self.sources[name].table.slice(self.taken[name], count))
        self.taken[name] += count
        if self.rng.random() < 0.3:
            self.graph.flush()

    def largest_ends(self, node: Node) -> list[int]:
        """The law's h of every source of a plan, from the rows that were pushed."""
        ends = []
        for name in self.names(node):
            stops = self.sources[name].stops()[: self.taken[name]]
            ends.append(self.rounded(name, int(stops.max())) if len(stops) else MIN_TIME)
        return ends

    def rounded(self, name: str, end: int) -> int:
        """The ends of segments are rounded up in the table of cases; the engine rounds all instants down."""
        if not self.sources[name].samples:
            return end
        data = self.streams[name].node.data  # type: ignore[attr-defined]
        (seen,) = [f.latest_end for f in self.graph._graph.turns.feeds if f.source.data is data]
        assert end - 1 <= seen <= end
        return seen

    def names(self, node: Node) -> list[str]:
        by_data = {id(q.node.data): n for n, q in self.streams.items()}  # type: ignore[attr-defined]
        return [by_data[id(s.data)] for s in lower([node]).sources]

    def subscribe(self) -> None:
        inner = [n for n in self.query.node.topological() if shown(n)]
        node = self.query.node if self.rng.random() < 0.7 else inner[int(self.rng.integers(len(inner)))]
        if self.rng.random() < 0.4:
            node = self.relative(node)
        start: Any = str(self.rng.choice(["settled", "settled", "fresh", "history", "instant"]))
        ends, found = self.largest_ends(node), list[pa.Table]()
        endless = any(unbounded(n) for n in node.topological() if n.inputs)
        settled = self.settled(node, ends)
        if start == "instant":
            start = "settled" if endless or settled == MIN_TIME else settled + int(self.rng.integers(0, 60))
        close = "warm" if self.rng.random() < 0.2 else "auto"
        try:
            new = self.graph.subscribe(handle(node), found.append, start=start, close=close)
        except PlanError as error:
            assert (start == "history" and not self.keeps) or (start != "fresh" and endless), str(error)
            assert any(e > MIN_TIME for e in ends)
            self.refused += 1
            return
        if self.starts:
            self.check_start(new, start, settled, endless)
        self.watched.append(Watched(node, new, found, ends if start == "fresh" else None))

    def relative(self, node: Node) -> Node:
        """The query behind one of some thresholds: with others of them it is a family. As it is, where nothing can be compared."""
        level = float(self.rng.choice([-0.5, 0.0, 0.5, 1.0, 3.0]))
        if isinstance(node.type, UniformType):
            if node.type.channels or node.type.dtype.kind != "f" or {node.type.time, *node.type.key.names} & TAKEN:
                return node
            report = [None, 40][int(self.rng.integers(2))]
            query = handle(node).above(level, report=report)  # type: ignore[attr-defined]
            return query.where(hp.col("peak") < level + 1).node if self.rng.random() < 0.3 else query.node
        if not isinstance(node.type, StreamType):
            return node
        numbers = [f for f in node.type.columns if pa.types.is_floating(f.type) or pa.types.is_signed_integer(f.type)]
        if not numbers:
            return node
        value = hp.col(numbers[0].name)
        number: Any = int(level) if pa.types.is_integer(numbers[0].type) else level
        condition = value > number if self.rng.random() < 0.5 else value <= number
        return handle(node).where(condition).node  # type: ignore[attr-defined]

    def check_start(self, new: Subscription, start: Any, settled: int, endless: bool) -> None:
        """The first instant is that of the law."""
        begin = MIN_TIME if new.interval[0] is None else new.interval[0]
        if start == "settled" and not endless:
            assert begin == settled
        elif start == "history" and not endless:
            assert begin <= settled, "history begins later than the present"
        elif isinstance(start, int):
            assert begin == start

    def settled(self, node: Node, ends: list[int]) -> int:
        """The law's M, from the reach of the plan as the user wrote it."""
        reaches = {id(s.data): r for s, r in reach_of_sources(node).items()}  # type: ignore[attr-defined]
        befores = [reaches[id(s.data)].before or 0 for s in lower([node]).sources]
        return max(MIN_TIME if e == MIN_TIME else add_time(e, b) for e, b in zip(ends, befores, strict=True))

    def keep(self) -> None:
        """Some time into the run, the sources begin to keep rows."""
        if all(s.progress is not None for s in self.sources.values()):
            starts = np.concatenate([s.starts() for s in self.sources.values()])
            span = int(self.rng.random() * max(int(starts.max()) - int(starts.min()), 1)) if len(starts) else 0
            for stream in self.streams.values():
                self.graph.keep(stream, span)
            self.keeps = True

    def fail(self) -> None:
        """A neighbour that shares all of the query, and fails: in an operator, or in its sink."""
        sink = BrokenSink() if self.rng.random() < 0.5 else None
        query = self.query if sink else handle(Broken(inputs=(self.query.node,)))
        try:
            self.broken.append((self.graph.subscribe(query, sink or (lambda _: None)), sink))
        except PlanError:
            self.refused += 1

    def change(self) -> None:
        """Pause, resume or end one of them."""
        self.graph.flush()  # what follows begins or ends after what was made
        live = [w for w in self.watched if not w.subscription.done and not w.stopped]
        if not live:
            return
        one = live[int(self.rng.integers(len(live)))]
        if self.rng.random() < 0.25:
            one.stopped = True
            at = one.subscription.frontier
            ways: list[dict[str, Any]] = [{}, {"now": True}, {"at": add_time(at, int(self.rng.integers(0, 60)))}]
            way = ways[int(self.rng.integers(3 if at > MIN_TIME else 2))]
            one.now = "now" in way
            one.subscription.unsubscribe(**way)
        elif one.subscription.paused:
            one.subscription.resume()
            one.pauses[-1][1] = one.subscription.frontier
        else:
            one.pauses.append([one.subscription.frontier, MAX_TIME])
            one.subscription.pause()

    def go(self) -> None:
        if self.rng.random() < 0.5:
            self.keep()
        if self.rng.random() < 0.5:
            self.subscribe()
        while any(self.taken[n] < len(s.table) for n, s in self.sources.items()):
            self.push()
            for chance, event in ((0.3, self.subscribe), (0.1, self.fail), (0.3, self.change), (0.05, self.keep)):
                if self.rng.random() < chance and len(self.watched) < 8:
                    event()
        for stream in self.streams.values():
            self.graph.end(stream)
        self.graph.flush()

    # --- what must hold -----------------------------------------------------------------------------------------------------

    def check(self) -> int:
        compared, answers = 0, dict[Node, Any]()
        for one in self.watched:
            assert one.subscription.done and one.subscription.error is None
            inputs = [self.sources[n] for n in self.names(one.node)]
            if one.since is None and one.node not in answers:
                answers[one.node] = alone(one.node, inputs)
            answer = answers[one.node] if one.since is None else alone(one.node, inputs, one.since)
            wanted = owned(answer, one.spans())
            found = [r for t in one.found for r in rows(t)]
            if one.now:
                end = MAX_TIME if one.subscription.interval[1] is None else one.subscription.interval[1]
                time = len(one.node.type.key.names)
                assert len(found) <= len(owned(answer, one.spans(to_the_end=True)))
                found = [r for r in found if r[time] < end]
            assert_same(found, wanted, max(self.case.tolerance, 1e-9))
            compared += bool(wanted)
        for subscription, sink in self.broken:
            assert subscription.done
            if sink is not None and subscription.rows:
                assert isinstance(subscription.error, ZeroDivisionError) and sink.ended == [subscription.error]
        assert not self.graph._graph.subscriptions
        self.graph.close()
        return compared


def shown(node: Node) -> bool:
    """Whether results of a node can be told apart as rows."""
    try:
        handle(node)
        emit.result_schema(node.type)
    except (KeyError, AssertionError):
        return False
    return True


def some_manner(case: Case, seed: int) -> Manner:
    """Another one for every case and seed: few examples of many cases see all of them."""
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    return Manner(
        seed=int(rng.integers(2**20)),
        disorder=float(rng.choice([0.0, 0.05, 0.3])),
        chunk=int(rng.choice([2, 5, 13])),
        eager=float(rng.choice([1.0, 1.0, 0.0])),
        apart=[None, None, 0.3][int(rng.integers(3))],
    )


@dataclass(frozen=True)
class AnyOrder(Scheduler):
    """Buffers on some edges, which hold little, and regions in any order."""

    seed: int = 0
    threads: int = 0
    buffer: int = 1

    @property
    def threaded(self) -> bool:
        return self.threads > 0

    def cuts(self, stations: Mapping[Node, Station]) -> set[Edge]:
        # By what an edge is, so that it stays cut as long as it is there.
        every = [(node, port) for node, s in stations.items() for port in range(len(s.inputs))]
        return {(n, p) for n, p in every if np.random.default_rng([self.seed, int(n.digest[:8], 16), p]).random() < 0.6}

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        rng = np.random.default_rng(self.seed)
        return [Crew(regions, Least(lambda _: rng.random()), self.threads)]


def some_stages(world: World) -> hp.Hybrid:
    """A buffer in front of some operators of the query."""
    nodes = [n for n in world.query.node.topological() if shown(n)]
    return hp.Hybrid(before=[handle(n) for n in nodes if world.rng.random() < 0.5], threads=2, time_slice=0)


SCHEDULERS: dict[str, Callable[[World], Scheduler]] = {
    "depth first": lambda _: hp.DepthFirst(),
    "fifo": lambda _: hp.Fifo(),
    "slices": lambda _: hp.Fifo(time_slice="1us", buffer=1),
    "run to completion": lambda _: hp.RunToCompletion(buffer="1 kB"),
    "a thread each": lambda _: hp.OperatorThreads(buffer=1),
    "one thread": lambda _: hp.GraphThread(),
    "chain": lambda _: hp.GraphThread("chain", buffer="1 kB"),
    "hybrid": lambda _: hp.Hybrid(),
    "hybrid in stages": some_stages,
    "any order": lambda world: AnyOrder(seed=world.manner.seed),
    "any order, threads": lambda world: AnyOrder(seed=world.manner.seed, threads=3),
}


@for_a_law(ALL_CASES)
@given(seed=st.integers(0, 2**20))
@LAW
def test_a_subscription_gives_the_answer_of_its_interval(case: Case, seed: int) -> None:
    """Under any scheduler."""
    manner = some_manner(case, seed)
    name = sorted(SCHEDULERS)[manner.seed % len(SCHEDULERS)] if manner.seed % 2 else "depth first"
    world = World(case, manner, scheduler=SCHEDULERS[name])
    world.go()
    world.check()


FEW = representative(ALL_CASES)[::24]


@pytest.mark.parametrize("case", FEW, ids=[c.name for c in FEW])
def test_every_scheduler_gives_the_same_rows(case: Case) -> None:
    compared = 0
    for number, scheduler in enumerate(SCHEDULERS.values()):
        world = World(case, some_manner(case, number), scheduler=scheduler)
        world.go()
        compared += world.check()
    assert compared or not any(len(s.table) for s in case.inputs.values())


def test_the_law_fails_without_the_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription that begins at the largest end seen, or at the mark, gives rows that are wrong."""
    case = next(c for c in ALL_CASES if c.node.__name__ == "Fir" and not any(s.samples for s in c.inputs.values()))
    for wrong in (lambda root, missed, made: max(map(missed, ports(root))), lambda *_: MIN_TIME):
        with monkeypatch.context() as patch:
            patch.setattr(graph, "settled_start", wrong)
            assert any(broken(case, seed) for seed in range(40)), "a wrong start is not noticed"
    assert not any(broken(case, seed) for seed in range(10))


def ports(root: Node) -> list[Node]:
    return [n for n in root.topological() if not n.inputs]


def broken(case: Case, seed: int) -> bool:
    world = World(case, Manner(seed=seed, disorder=0.05, chunk=3, eager=1.0), starts=False)
    world.go()
    try:
        world.check()
    except AssertionError:
        return True
    return False
