"""The living graph: queries come and go between the turns of one pipeline, and share what is equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import pyarrow as pa

from hydrophone.compiler.compile import compile_plan
from hydrophone.compiler.ports import over_leaves
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine import emit
from hydrophone.engine.changes import Changes
from hydrophone.engine.dispatch import Dispatcher
from hydrophone.engine.late import Late
from hydrophone.engine.meter import Meter, measure
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.placement import Placement
from hydrophone.engine.query_shedding import QueryShedding
from hydrophone.engine.readers import Ended
from hydrophone.engine.schedulers import DEPTH_FIRST, Scheduler
from hydrophone.engine.shedding import Shed
from hydrophone.engine.since import Since, settled_start, unbounded
from hydrophone.engine.split_at_marks import MarkCuts
from hydrophone.engine.subscription import Receiver, Subscription, gated_by, last_owner
from hydrophone.engine.turn_tables import TurnTables
from hydrophone.engine.turns import Feed, Turns, latest_end
from hydrophone.engine.watch import NOTHING, UNMARKED_LIMIT, first_waiting_operator
from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.batch import Batch
from hydrophone.model.time import MIN_TIME, format_instant
from hydrophone.plan.node import Node, topological
from hydrophone.plan.reach import UNBOUNDED
from hydrophone.plan.source import Port, Source, sources

Start = Literal["settled", "fresh", "history"] | int
"""How a subscription begins, or the instant at which it does."""


class RunningGraph:
    """Queries over common sources in one pipeline.

    Every source has one port for as long as the graph lives, whoever reads it: its promise, its late rows and the largest end seen
    belong to it and not to a query. All columns of a source come in, so that equal operators of different queries are equal
    stations (``docs/decisions/0012-one-port-per-source.md``).

    Attributes
    ----------
    turns : the pipeline and the sources
    changes : what keeps turns and changes apart
    dispatcher : what runs the regions of the pipeline
    placement : where buffers stand that the user or measurements ask for
    subscriptions : those that are not done
    shedding : what is left out of sources and queries
    meters : what every station takes, gives and costs
    warm : roots that run on without a subscription
    resting : whether sinks are called and no operator works: queries may come
    """

    def __init__(
        self,
        late: Late,
        unmarked: int | None = UNMARKED_LIMIT,
        scheduler: Scheduler = DEPTH_FIRST,
        shed: Shed | None = None,
    ) -> None:
        self.turns = Turns(Pipeline((), isolated=True), late, unmarked)
        self.dispatcher = Dispatcher(self.pipeline, scheduler, self._deliver_roots)
        self.turns.work = self.dispatcher.work
        self.changes = Changes(self.dispatcher.quiet)
        self.placement = Placement(scheduler)
        self._readers: dict[Node, list[Subscription]] = {}
        self._settling = False  # whether a region has asked for `settle`
        self.subscriptions: list[Subscription] = []
        self.warm: dict[Node, None] = {}
        self._feeds: dict[Node, Feed] = {}
        self._cuts: list[MarkCuts] = []
        self._complete: set[Node] = set()
        self._made: dict[Node, int] = {}
        self.meters: dict[Node, Meter] = {}
        self.resting = False
        self._histories = 0
        self._shed = shed
        self.shedding = QueryShedding(self)

    @property
    def pipeline(self) -> Pipeline:
        """What runs the queries."""
        return self.turns.pipeline

    # --- sources --------------------------------------------------------------------------------------------------------

    def known(self, source: Source) -> Feed | None:
        """The feed of a source that the graph has heard of."""
        found = self._feeds.get(source.port(0))
        if found is not None:
            found.source.check_same(source)
        return found

    def feed(self, source: Source) -> Feed:
        """The feed of a source, made when the graph first hears of it."""
        known = self.known(source)
        if known is not None:
            return known
        feed = self.turns.follow(source, self._shed)
        self._feeds[source.port(0)] = feed
        self._cuts.append(MarkCuts(source))
        self._run(self._roots())
        return feed

    def _feed_of(self, port: Node) -> Feed:
        assert isinstance(port, Port)
        return self.turns.feeds[port.number]

    def _over_ports(self, root: Node, leaf: Callable[[Feed], Node]) -> Node:
        """The plan that the pipeline runs. Columns are not pruned: see the decision."""
        compiled = compile_plan(root)
        return over_leaves([compiled], lambda source: leaf(self._feeds[source.port(0)]))[0]

    def lowered(self, root: Node) -> Node | None:
        """The operator of the pipeline that a query ends with, or would; None if the graph has not heard of its sources."""
        known = all(source.port(0) in self._feeds for source in sources(root))
        return self._over_ports(root, _port) if known else None

    # --- subscriptions --------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        root: Node,
        sink: Receiver,
        start: Start = "settled",
        warm: bool = False,
        shape: emit.Shape = "rows",
        tolerance: float = 1.0,
    ) -> Subscription:
        """Begin a subscription, between two turns."""
        feeds = [self.feed(source) for source in sources(root)]
        lowered, begin = self._begin(root, start)
        new = Subscription(lowered, sink, shape, warm, begin, self._change, lambda: max(f.latest_end for f in feeds))
        new.tolerance = tolerance
        self._run([*self._roots(), lowered])
        self.subscriptions.append(new)
        self._group()
        for feed in feeds:
            waits = first_waiting_operator(root, feed.source)
            if waits != NOTHING:
                self.turns.waits(feed.number, waits)
        if start == "history":
            self._send_history(lowered)
        if start == "history" or all(feed.ended for feed in feeds):  # there may be no other turn for it
            self.changes.request(self.turn) if self.resting else self.turn()
        return new

    def _begin(self, root: Node, start: Start) -> tuple[Node, int]:
        """The plan to run, and the first instant of the interval."""
        if start == "fresh":
            return self._over_ports(root, _from_now_on), MIN_TIME
        if start == "history":
            self._histories += 1
            lowered = self._over_ports(root, self._with_history)
            return lowered, settled_start(lowered, self._missed_of_history, {})
        lowered = self._over_ports(root, _port)
        settled = settled_start(lowered, lambda port: self._feed_of(port).latest_end, self._made)
        if start == "settled":
            return lowered, settled
        assert isinstance(start, int)
        if start < settled:
            raise ParameterError(
                f"subscribe: results are exact from {format_instant(settled)} on, and start is {format_instant(start)}",
                hint='rows before it have come already: take a later instant, or start="settled"',
            )
        return lowered, start

    def release(self, root: Node | None) -> None:
        """Close what warm subscriptions have left running, of a query or of all."""
        if root is not None:
            for source in sources(root):
                self.feed(source)
        gone = None if root is None else self._over_ports(root, _port)
        self.warm = {warm: None for warm in self.warm if gone is not None and warm != gone}
        self._run(self._roots())

    # --- history --------------------------------------------------------------------------------------------------------

    def keep(self, root: Node, span: int | None) -> None:
        """Keep the rows of all sources of a query that its results of the last `span` need."""
        reaches = reach_of_sources(root)
        for leaf, reach in reaches.items():
            assert isinstance(leaf, Source)
            if leaf.progress is None and span is not None:
                raise ParameterError(
                    f"keep: {leaf.title} promises no progress, so that no row would ever be old",
                    hint='promise progress, such as progress=hp.delayed("5s"), or keep all rows: keep(stream, None)',
                )
            if span is not None and (reach.before is None or reach.before >= UNBOUNDED):
                raise PlanError(
                    f"keep: the query may need rows of {leaf.title} from any time before ({reach.why})",
                    hint="keep all rows, keep(stream, None), or rows of the source itself",
                )
        for leaf, reach in reaches.items():
            assert isinstance(leaf, Source)
            self.feed(leaf).keep(None if span is None else span + (reach.before or 0))

    def _with_history(self, feed: Feed) -> Node:
        port = _port(feed)
        return port if feed.latest_end == MIN_TIME else Since(inputs=(port,), start=MIN_TIME, history=self._histories)

    def _missed_of_history(self, port: Node) -> int:
        feed = self._feed_of(port)
        if feed.latest_end == MIN_TIME:
            return MIN_TIME
        if feed.kept is None:
            raise PlanError(
                f"subscribe: {feed.source.title} keeps no rows, and some have come already",
                hint='keep them from the beginning: graph.keep(stream, "10min")',
            )
        return feed.kept.missed

    def _send_history(self, root: Node) -> None:
        """Give the kept rows to a new subscription, whose operators are its own."""
        for node in root.topological():
            if isinstance(node, Since):
                feed = self._feed_of(node.inputs[0])
                assert feed.kept is not None
                for table in feed.kept:
                    self.pipeline.send(node, self.pipeline.batch(feed.number, table))

    # --- what runs ------------------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[], None]) -> None:
        """Let a subscription change itself between two turns."""

        def changed() -> None:
            with self._rest():
                change()
            self.settle()

        self.changes.request(changed)

    def _roots(self) -> list[Node]:
        """What must run: all ports, the subscriptions and what is warm."""
        return [*(_port(feed) for feed in self.turns.feeds), *self.used()]

    def used(self) -> list[Node]:
        """What somebody subscribes to, or what is warm."""
        return [*(s.root for s in self.subscriptions if not s.done), *self.warm]

    def _run(self, roots: Iterable[Node]) -> None:
        """Run these roots and no others.

        An operator without a bound on its reach that has missed no row is a root too: what it makes says when a query that joins it
        later begins (see `settled_start`).
        """
        nodes, pipeline = topological(list(roots)), self.pipeline
        untouched: dict[Node, bool] = {}
        for node in nodes:
            untouched[node] = (
                all(untouched[i] for i in node.inputs)
                if node.inputs and not isinstance(node, Since)
                else isinstance(node, Port) and self._feed_of(node).latest_end == MIN_TIME
            )
            if untouched[node] and node not in pipeline.stations:
                self._complete.add(node)
        endless = [n for n in nodes if n in self._complete and n.inputs and unbounded(n)]
        wanted = dict.fromkeys([*roots, *endless])
        known = set(pipeline.roots)
        new = [r for r in wanted if r not in known]
        if new:
            pipeline.add(new)
            for node, station in pipeline.stations.items():
                if node not in self.meters:
                    self.meters[node] = measure(station)
        gone = [r for r in pipeline.roots if r not in wanted]
        if gone:
            pipeline.drop(gone)
        if new or gone:
            self.lay_out()
        self._complete &= pipeline.stations.keys()
        self.meters = {node: meter for node, meter in self.meters.items() if node in pipeline.stations}
        self._made = {n: self._made.get(n, MIN_TIME) for n in endless}

    # --- turns ----------------------------------------------------------------------------------------------------------

    def push(self, feed: Feed, table: pa.Table) -> None:
        """Take rows of a source, in one turn, or in several where its promise asks for marks in between."""
        feed.pushed = True
        self.shedding.begin_turn([feed])
        for piece in self._cuts[feed.number].split(table):
            self._take(feed, piece)
            self.turn()

    def _take(self, feed: Feed, table: pa.Table) -> None:
        self.dispatcher.room()
        self.turns.rows(feed.number, table)

    def take(self, taken: Iterable[tuple[Feed, pa.Table | Ended]]) -> None:
        """Take what sources gave, in one turn. An error of a source fails the subscriptions that read it."""
        taken = list(taken)
        self.shedding.begin_turn(dict.fromkeys(feed for feed, _ in taken))
        for feed, found in taken:
            try:
                if isinstance(found, Ended):
                    feed.ended = True
                    if found.error is not None:
                        raise found.error
                else:
                    *before, last = self._cuts[feed.number].split(found)
                    for piece in before:
                        self._take(feed, piece)
                        self.turn()
                    self._take(feed, last)
            except Exception as error:
                self._fail(feed, error)
        self.turn()

    def lacks(self, nodes: Iterable[Node]) -> None:
        """These operators are not given all rows any more: they cannot serve who needs all since the beginning."""
        self._complete -= set(nodes)
        self._made = {node: end for node, end in self._made.items() if node in self._complete}

    def _fail(self, feed: Feed, error: Exception) -> None:
        """A source failed: so do all that read it, and it is not read any more."""
        feed.ended = True
        port = _port(feed)
        self.dispatcher.quiet()
        with self._rest():
            for subscription in list(self.subscriptions):
                if port in subscription.root.topological():
                    subscription.finish(error)
        self.warm = {root: None for root in self.warm if port not in root.topological()}
        self.settle()

    def read_feeds(self) -> list[Feed]:
        """The sources that somebody uses, that have rows of their own to read, and that have not ended."""
        used = {node for root in self.used() for node in root.topological() if not node.inputs}
        return [f for f in self.turns.feeds if not (f.ended or f.pushed or f.source.data.pushed) and _port(f) in used]

    def end(self, feeds: Iterable[Feed]) -> None:
        """Some sources have no more rows."""
        for feed in feeds:
            feed.ended = True
        self.turn()

    def close(self, now: bool) -> None:
        """End all sources, unless `now`, and all subscriptions. `TimeoutError` if sinks in threads do not come back."""
        if not now:
            self.end(self.turns.feeds)
            if not self.dispatcher.finish():
                raise TimeoutError
            self.settle()
        with self._rest():
            for subscription in list(self.subscriptions):
                subscription.close(None, now=True)
        self.settle()
        self.turns.close()

    def turn(self) -> None:
        """Let progress pass and deliver results."""
        dispatcher = self.dispatcher
        dispatcher.refresh()
        self.turns.advance()
        if not dispatcher.threaded:
            self._deliver_roots(self.pipeline.roots)
            self.settle()
            return
        self._deliver_roots(dispatcher.head_roots)
        if self._unsettled or self.turns.unswept:
            self.flush()
        if self.placement.is_due and self.placement.look(sum(feed.rows for feed in self.turns.feeds), self.meters):
            dispatcher.quiet()
            self.lay_out()

    def flush(self) -> None:
        """Let all rows that came in go through, and end what is over."""
        self.dispatcher.quiet()
        self.turns.sweep()
        self.settle()

    def lay_out(self) -> None:
        """Put buffers where they belong now."""
        self.dispatcher.lay_out(self.placement.cuts(self.pipeline.stations, self.lowered))

    def weigh(self, root: Node, weight: float) -> None:
        """Give the operators of a query a weight."""
        for source in sources(root):
            self.feed(source)
        self.dispatcher.weights[self._over_ports(root, _port)] = weight
        self.dispatcher.weigh()

    @property
    def _unsettled(self) -> bool:
        return bool(self.pipeline.failed) or any(s.done or s.over for s in self.subscriptions)

    def _deliver_roots(self, roots: Iterable[Node]) -> None:
        """Give what has reached some roots to the subscriptions."""
        pipeline = self.pipeline
        # All of it before the first sink is called: sinks may subscribe, and `_made` must be of this turn then.
        found = {root: pipeline.drain(root) for root in roots}
        for root, batches in found.items():
            if batches and root in self._made:
                self._made[root] = max(self._made[root], *(latest_end(b) for b in batches))
        tables = TurnTables()
        if not self.changes.inside:  # a region in its thread
            for root, batches in found.items():
                self._deliver(root, batches, self._readers.get(root, ()), tables)
            over = any(s.done or s.over for root in found for s in self._readers.get(root, ()))
            if (over or pipeline.failed) and not self._settling:
                self._settling = True
                self.changes.request(self.settle)
            return
        with self._rest():
            for root, subscriptions in list(self._readers.items()):
                if root in found:
                    self._deliver(root, found[root], subscriptions, tables)

    def _group(self) -> None:
        """Group the subscriptions by what they read."""
        readers: dict[Node, list[Subscription]] = {}
        for subscription in self.subscriptions:
            readers.setdefault(subscription.root, []).append(subscription)
        self._readers = readers

    @contextmanager
    def _rest(self) -> Iterator[None]:
        """No operator works while sinks are called."""
        before, self.resting = self.resting, True
        try:
            yield
        finally:
            self.resting = before

    def _deliver(self, root: Node, batches: list[Batch], readers: Iterable[Subscription], made: TurnTables) -> None:
        mark = self.pipeline.progress(root).mark
        last = max((last_owner(b) + 1 for b in batches), default=MIN_TIME)
        whole: dict[str, list[pa.Table]] = {}
        for reader in readers:
            if not batches:
                reader.see(last, mark)
                reader.give((), mark)
                continue
            mine = batches if reader.open else gated_by(batches, reader.spans())
            if mine is not batches or reader.shape not in whole:
                tables = made.made(mine, root.type, self.pipeline.keys(root), reader.shape)
                if mine is batches:
                    whole[reader.shape] = tables
            else:
                tables = whole[reader.shape]
            reader.see(last, mark)
            reader.give(tables, mark)

    def settle(self) -> None:
        """End the subscriptions that have failed or are over, and drop what nobody uses any more."""
        self._settling = False
        failed = dict(self.pipeline.failed)
        with self._rest():
            for subscription in list(self.subscriptions):
                if subscription.root in failed or subscription.over:
                    subscription.finish(failed.get(subscription.root))
        done = [s for s in self.subscriptions if s.done]
        if done or failed:
            warm = {**self.warm, **{s.root: None for s in done if s.warm}}
            self.warm = {root: None for root in warm if root not in failed}
            self.subscriptions = [s for s in self.subscriptions if not s.done]
            self._group()
            self._run(self._roots())


def one_source(root: Node, what: str) -> Source:
    """The only source of a query."""
    found = {source.port(0): source for source in sources(root)}
    if len(found) > 1:
        raise ParameterError(
            f"{what}: the query has {len(found)} sources: {', '.join(s.title for s in found.values())}",
            hint="name the one that is meant by its own stream",
        )
    return next(iter(found.values()))


def _port(feed: Feed) -> Node:
    return feed.source.port(feed.number)


def _from_now_on(feed: Feed) -> Node:
    port = _port(feed)
    return port if feed.latest_end == MIN_TIME else Since(inputs=(port,), start=feed.latest_end)
