"""`Graph`: queries that come and go while data flows, in this process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from hydrophone.api.cursor import AsyncCursor, Cursor
from hydrophone.api.query import Query, check_late, check_query
from hydrophone.arguments import public
from hydrophone.compiler.explain import title, tree
from hydrophone.connect.live import conform
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.connect.sink import Sink, as_sink
from hydrophone.engine import emit, late
from hydrophone.engine.buffers import Buffer
from hydrophone.engine.changes import ChangesThread
from hydrophone.engine.drive import PATIENCE, Driver
from hydrophone.engine.graph import RunningGraph, Start, one_source
from hydrophone.engine.late import Action
from hydrophone.engine.schedulers import Hybrid, Scheduler, check_scheduler
from hydrophone.engine.shedding import Shed, check_shed
from hydrophone.engine.subscription import Subscription
from hydrophone.engine.turns import Feed
from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.time import Duration, Instant, duration, instant
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port, places_of

_log = logging.getLogger("hydrophone")

STARTS = ("settled", "fresh", "history")


class Graph:
    """Queries that come and go while data flows, over sources that all of them share.

    Queries that have parts in common share them: an operator runs once, whoever reads it. What a subscription gives does not depend
    on what runs beside it: in its interval of event time it is exactly what the query would give if it ran alone over all rows that
    the graph has had.

    Parameters
    ----------
    late : optional
        What happens to rows that come later than their source promised; an error for who sends them, unless this says otherwise.
    shed : optional
        Which rows of the sources are left out when the graph cannot keep up, or always: `hydrophone.shed`. None unless this says otherwise.
    rows : int
        Rows that are read of a source at a time.
    queue : int
        Tables that a source with a thread of its own may be ahead of the graph.
    scheduler : optional
        How operators take turns: `DepthFirst` (the default), `Fifo`, `RunToCompletion`, `OperatorThreads`, `GraphThread`, `Hybrid`.
        All give the same rows.
    burst : int
        Tables of each source that one turn takes, if they are there. Where operators run in no threads, the next turn begins when all
        of these have gone through, so that memory stays bounded whatever the sources offer.

    Examples
    --------
    >>> import hydrophone as hp
    >>> readings = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
    >>> loud, sums = [], []
    >>> with hp.Graph() as graph:
    ...     first = graph.subscribe(readings.where(hp.col("value") > 2), loud.append)
    ...     graph.push(readings, {"ts": [0, 4, 11], "value": [1.0, 3.0, 5.0]})
    ...     second = graph.subscribe(readings.tumble(10).agg(sum=hp.sum("value")), sums.append)
    ...     graph.push(readings, {"ts": [15, 20, 31], "value": [1.0, 2.0, 9.0]})
    >>> [row for table in loud for row in table["value"].to_pylist()]
    [3.0, 5.0, 9.0]
    >>> second.interval, [row for table in sums for row in table["sum"].to_pylist()]
    ((12, None), [2.0, 9.0])
    """

    @public
    def __init__(
        self,
        *,
        late: late.Late | None = None,
        shed: Shed | None = None,
        rows: int = 65_536,
        queue: int = 8,
        scheduler: Scheduler | None = None,
        burst: int = 1,
    ) -> None:
        check_late(late, "Graph")
        if late is not None and late.action is Action.SIDE and late.path is None:
            raise ParameterError("Graph: late rows need a path", hint='late=hp.late.side("late/")')
        self._late = late
        if rows < 1 or queue < 1 or burst < 1:
            raise ParameterError(f"Graph: rows, queue and burst must be at least 1, got {rows}, {queue} and {burst}")
        check_shed(shed, "Graph")
        self._graph = RunningGraph(late or _ERROR, scheduler=check_scheduler(scheduler), shed=shed)
        self._driver = Driver(self._graph, rows, queue, burst)
        self._thread = ChangesThread(self._graph.changes) if self._graph.dispatcher.threaded else None
        self._closed = False

    # --- queries come and go --------------------------------------------------------------------------------------------

    @public
    def subscribe(
        self,
        query: Query,
        sink: Sink | Callable[[pa.Table], object],
        *,
        start: str | Instant = "settled",
        close: Literal["auto", "warm"] = "auto",
        shape: str = "rows",
        tolerance: float = 1.0,
    ) -> Subscription:
        """Give the results of a query to a sink, from now on.

        Parameters
        ----------
        query : the query; parts that it shares with others that run are not computed twice
        sink : a `hydrophone.Sink`, or a function that takes each table of results
        start : when the results begin.
            "settled": as soon as they are exact: at the first instant for which all rows that the query needs are still to come.
            "fresh": as if the data began now: over the rows that start at or after the largest end seen so far.
            "history": over the rows that `keep` has kept, and then over those that come.
            An instant: from then on, which must not be before the instant of "settled".
        close : "auto": what nobody else uses is closed with the subscription; "warm": it runs on, with its state, for later ones
        shape : "rows" or "segments"
        tolerance : the largest share of rows that may be shed for this query, between 0 and 1: see `hydrophone.shed`

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> graph = hp.Graph()
        >>> subscription = graph.subscribe(rows.where(hp.col("value") > 2), print)
        >>> subscription.unsubscribe(now=True)
        >>> subscription.done
        True
        """
        self._check_open("subscribe")
        check_query(query, "subscribe")
        if self._late is not None and self._late.path is not None:
            check_output_apart(places_of(query.node), self._late.path, what="subscribe: late", writes=".parquet")
        receiver = as_sink(sink, "subscribe")
        form = emit.check_shape(query.node.type, shape)
        if close not in ("auto", "warm"):
            raise ParameterError(f"subscribe: close must be 'auto' or 'warm', got {close!r}")
        if isinstance(tolerance, bool) or not 0 <= tolerance <= 1:
            raise ParameterError(f"subscribe: tolerance must be between 0 and 1, got {tolerance!r}")
        begin: Start = start if start in STARTS else instant(start)  # type: ignore[assignment]

        def begun() -> Subscription:
            receiver.subscribed(emit.result_schema(query.node.type, form), query.node.type)
            try:
                return self._graph.subscribe(query.node, receiver, begin, close == "warm", form, tolerance)
            except Exception as error:
                receiver.done(error)
                raise

        return self._now(begun)

    @public
    def release(self, query: Query | None = None) -> None:
        """Close what subscriptions with ``close="warm"`` have left running: of one query, or all. What others use goes on.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> graph = hp.Graph()
        >>> graph.subscribe(rows.tumble(10).agg(n=hp.count()), print, close="warm").unsubscribe(now=True)
        >>> len(graph.nodes())
        2
        >>> graph.release()
        >>> len(graph.nodes())
        1
        """
        if query is not None:
            check_query(query, "release")
        self._now(lambda: self._graph.release(None if query is None else query.node))

    @public
    def shed(self, source: Query, policy: Shed | None) -> None:
        """Shed rows of one source by another policy from the next turn on; None sheds nothing.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> graph, found = hp.Graph(), []
        >>> subscription = graph.subscribe(rows, found.append)
        >>> graph.shed(rows, hp.shed.fixed(0.5))
        >>> graph.push(rows, {"ts": range(8), "value": [0.5] * 8})
        >>> found[0]["ts"].to_pylist(), graph.nodes()[0]["skipped"], graph.shed_factors(rows)
        ([1, 2, 5, 6], 4, [(0, 0.5)])
        """
        self._check_open("shed")
        check_shed(policy, "shed")
        feed = self._feed(source, "shed")
        self._now(lambda: feed.shedding.use(policy))

    @public
    def shed_factors(self, source: Query) -> list[tuple[int, float]]:
        """At which rows of a source the share that is shed has changed, and to what: ``hp.shed.pinned`` of it sheds the same rows again.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> hp.Graph(shed=hp.shed.fixed(0.25)).shed_factors(rows)
        []
        """
        feed = self._feed(source, "shed_factors")
        return self._now(lambda: list(feed.shedding.changes))

    # --- rows -----------------------------------------------------------------------------------------------------------

    @public
    def push(self, source: Query, rows: Any) -> None:
        """Take rows of a source, and give the results that they make final.

        Parameters
        ----------
        source : the source, or a query that has one source
        rows : a table or batch of Arrow's, a frame, or a dictionary of columns, with the columns of the source

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> graph, found = hp.Graph(), []
        >>> subscription = graph.subscribe(rows, found.append)
        >>> graph.push(rows, {"ts": [1, 2], "value": [0.5, 0.25]})
        >>> found[0]["value"].to_pylist()
        [0.5, 0.25]
        """
        self._check_open("push")
        feed = self._feed(source, "push")
        if feed.ended:
            raise ParameterError(f"push: {feed.source.title} has ended")
        table = conform(rows, feed.source.layout.schema, f"push: {feed.source.title}")
        self._turn(lambda: self._graph.push(feed, table))

    @public
    def end(self, source: Query) -> None:
        """Say that a source has no more rows: what waits for them becomes final. To end it twice does nothing.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> graph, found = hp.Graph(), []
        >>> subscription = graph.subscribe(rows.tumble(10).agg(n=hp.count()), found.append)
        >>> graph.push(rows, {"ts": [1, 2], "value": [0.5, 0.25]})
        >>> graph.end(rows)
        >>> found[0]["n"].to_pylist(), subscription.done
        ([2], True)
        """
        self._check_open("end")
        feed = self._feed(source, "end")
        self._turn(lambda: self._graph.end([feed]))

    def _feed(self, query: Query, what: str) -> Feed:
        check_query(query, what)
        source = one_source(query.node, what)
        known = self._graph.known(source)
        return self._now(lambda: self._graph.feed(source)) if known is None else known

    @public
    def keep(self, query: Query, span: Duration | None) -> None:
        """Keep rows from now on, so that a query that comes later can begin with the last `span` of event time.

        Kept are the rows of the sources, as far as `query` needs them for its results between the mark of the source minus `span` and
        now: ``subscribe(..., start="history")`` computes them again. Any query over these sources may begin so.

        Parameters
        ----------
        query : a source, or a query over sources
        span : how much event time before the mark; None: all rows, however many

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> with hp.Graph() as graph:
        ...     graph.keep(rows, 10)
        ...     graph.push(rows, {"ts": [0, 5, 12, 20], "value": [0.0, 1.0, 2.0, 3.0]})
        ...     found = []
        ...     late = graph.subscribe(rows, found.append, start="history")
        ...     graph.push(rows, {"ts": [25], "value": [4.0]})
        >>> late.interval, [row for table in found for row in table["value"].to_pylist()]
        ((10, None), [2.0, 3.0, 4.0])
        """
        self._check_open("keep")
        check_query(query, "keep")
        most = None if span is None else duration(span)
        if most is not None and most < 0:
            raise ParameterError(f"keep: span must not be negative, got {span!r}")
        self._now(lambda: self._graph.keep(query.node, most))

    @public
    def cursor(self, query: Query, *, limit: int = 64, patience: float = 10.0, **how: Any) -> Cursor:
        """The results of a query for who asks for them: an iterator of tables, until the query has ended.

        Parameters
        ----------
        limit : tables that wait to be read; then the graph waits, too
        patience : seconds after which the subscription fails if nobody reads while the graph waits
        how : as in `subscribe`

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.table({"ts": [0, 4, 12], "value": [1.0, 2.0, 5.0]}), time="ts", progress=hp.ordered())
        >>> graph = hp.Graph()
        >>> [table["sum"].to_pylist() for table in graph.cursor(rows.tumble(10).agg(sum=hp.sum("value")))]
        [[3.0], [5.0]]
        """
        if limit < 1 or not patience > 0:
            raise ParameterError(f"cursor: limit and patience must be positive, got {limit} and {patience}")
        cursor = Cursor(self._driver, limit, patience)
        cursor.subscription = self.subscribe(query, cursor, **how)
        return cursor

    @public
    def acursor(self, query: Query, *, limit: int = 64, patience: float = 10.0, **how: Any) -> AsyncCursor:
        """As `cursor`, for ``async for table in graph.acursor(query)``.

        Examples
        --------
        >>> import asyncio
        >>> import hydrophone as hp
        >>> async def count():
        ...     rows = hp.read.synthetic("1ms", rows=500)
        ...     return sum([len(table) async for table in hp.Graph(rows=100).acursor(rows)])
        >>> asyncio.run(count())
        500
        """
        return AsyncCursor(self.cursor(query, limit=limit, patience=patience, **how))

    # --- driving ----------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to read: sources with a thread of their own fill their queues. `run`, `start` and cursors do it by themselves."""
        self._check_open("open")
        self._driver.open()

    def run(self) -> None:
        """Read all sources that somebody uses, one table of each in a turn, until they have ended.

        Sources to which rows are pushed are left alone.

        Examples
        --------
        >>> import hydrophone as hp
        >>> graph, found = hp.Graph(rows=100), []
        >>> subscription = graph.subscribe(hp.read.synthetic("1ms", rows=500).tumble("1s").agg(n=hp.count()), found.append)
        >>> graph.run()
        >>> found[0]["n"].to_pylist(), subscription.done
        ([500], True)
        """
        self._check_open("run")
        self._driver.run()

    def start(self) -> None:
        """As `run`, in a thread that goes on until `close`: also for sources and queries that come later.

        Examples
        --------
        >>> import hydrophone as hp
        >>> with hp.Graph() as graph:
        ...     graph.start()
        ...     subscription = graph.subscribe(hp.read.synthetic("1ms", rows=500), lambda table: None)
        ...     subscription.wait(60)
        True
        """
        self._check_open("start")
        self._driver.start()

    @public
    def flush(self, timeout: float | None = None) -> None:
        """Wait until all rows that have come in have gone through all operators, and their results have been given.

        Where operators run in no threads of their own, `push` has done that already.

        Parameters
        ----------
        timeout : seconds after which it gives up with `TimeoutError`; None: it waits

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> found = []
        >>> with hp.Graph(scheduler=hp.OperatorThreads()) as graph:
        ...     subscription = graph.subscribe(rows.where(hp.col("value") > 1), found.append)
        ...     graph.push(rows, {"ts": [1, 2], "value": [0.5, 2.5]})
        ...     graph.flush()
        ...     [table["value"].to_pylist() for table in found]
        [[2.5]]
        """
        self._check_open("flush")
        if timeout is not None and not timeout > 0:
            raise ParameterError(f"flush: timeout must be positive, got {timeout}")
        if self._graph.changes.inside or self._graph.dispatcher.is_worker:
            raise PlanError("flush: a sink cannot wait for the graph that calls it", hint="let another thread do it")
        self._graph.changes.run(
            self._graph.flush, timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        )

    @public
    def priority(self, query: Query, weight: float) -> None:
        """Give a query a share of the time against others, under `Hybrid`; also while it runs. Without a word each has 1.

        Parameters
        ----------
        query : the query; what several queries share has the largest weight of theirs
        weight : 2 is twice as much time as 1, as long as both have work to do

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> alarms = rows.where(hp.col("value") > 9)
        >>> with hp.Graph(scheduler=hp.Hybrid(before=[alarms])) as graph:
        ...     subscription = graph.subscribe(alarms, print)
        ...     graph.priority(alarms, 10)
        """
        self._check_open("priority")
        check_query(query, "priority")
        scheduler = self._graph.dispatcher.scheduler
        if not isinstance(scheduler, Hybrid):
            raise ParameterError(
                f"priority: {type(scheduler).__name__} hands out no shares of time",
                hint="hp.Graph(scheduler=hp.Hybrid())",
            )
        if not 0 < weight < float("inf"):
            raise ParameterError(f"priority: weight must be positive and finite, got {weight!r}")
        self._look(lambda: self._graph.weigh(query.node, float(weight)))

    # --- what it does -----------------------------------------------------------------------------------------------------

    def nodes(self) -> list[dict[str, Any]]:
        """What runs, inputs first, and how it does since it began: one entry per operator or source, whoever shares it.

        ``operator`` and ``digest`` name it; ``rows_in``, ``rows_out``, ``skipped`` (rows that were shed), ``batches`` and
        ``selectivity`` (rows out for each row in) count, in samples for signals; ``rate`` is rows in per second by the clock,
        ``batch_ms`` milliseconds of work for a batch, marks included; ``state_bytes`` is what it keeps, ``mark`` how far its results
        are final, in nanoseconds, ``queue`` how many tables of a source, or batches and marks in front of an operator, wait,
        ``queue_bytes`` what these batches hold, ``region`` the region of the scheduler that it runs in, and ``subscriptions`` how many
        read it.

        Examples
        --------
        >>> import hydrophone as hp
        >>> columns = pa.schema([("ts", pa.int64()), ("value", pa.float64())])
        >>> rows = hp.from_arrow(columns, time="ts", progress=hp.ordered(), name="readings")
        >>> graph = hp.Graph()
        >>> subscription = graph.subscribe(rows.where(hp.col("value") > 2), lambda table: None)
        >>> graph.push(rows, {"ts": [0, 4, 11, 12], "value": [1.0, 3.0, 1.0, 0.0]})
        >>> [(node["operator"].partition("(")[0], node["rows_in"], node["selectivity"], node["mark"]) for node in graph.nodes()]
        [('source readings', 4, 1.0, 12), ('where', 4, 0.25, 12)]
        """
        return self._look(lambda: [self._described(node) for node in self._graph.pipeline.nodes])

    def _described(self, node: Node) -> dict[str, Any]:
        graph, now = self._graph, time.perf_counter()
        station, meter = graph.pipeline.stations[node], graph.meters[node]
        feed = graph.turns.feeds[node.number] if isinstance(node, Port) else None
        rows = meter.rows_in if feed is None else feed.rows
        skipped = 0 if feed is None else feed.shedding.skipped
        given = meter.rows_out if feed is None else feed.rows - feed.late.count - skipped
        kept = feed.kept.nbytes if feed is not None and feed.kept is not None else 0
        buffers = [i for i in station.inputs if isinstance(i, Buffer)]
        return {
            "operator": title(node if feed is None else feed.source),
            "digest": node.digest,
            "rows_in": rows,
            "rows_out": given,
            "batches": meter.batches,
            "skipped": skipped,
            "selectivity": given / rows if rows else None,
            "rate": rows / max(now - meter.begun, 1e-9),
            "batch_ms": 1e3 * meter.seconds / meter.batches if meter.batches else None,
            "state_bytes": station.nbytes + kept,
            "mark": station.progress.mark,
            "queue": sum(len(b.items) for b in buffers) if feed is None else self._driver.waiting(feed),
            "queue_bytes": sum(b.nbytes for b in buffers),
            "region": graph.dispatcher.region_of(station),
            "subscriptions": sum(s.root in station.roots for s in graph.subscriptions),
        }

    def explain(self) -> str:
        """What runs, as text: each query with its inputs below it, what is shared once, with rows, cost, state and buffers.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> graph = hp.Graph()
        >>> subscription = graph.subscribe(rows.where(hp.col("value") > 2), lambda table: None)
        >>> print(graph.explain())
        where(condition=col('value').__gt__(2)) -> Stream(value: double); 0 rows in, 0 out, 0 B of state
          port 0 -> Stream(value: double); 0 rows in, 0 out, 0 B of state
        """
        return self._look(self._explained)

    def _explained(self) -> str:
        def more(node: Node) -> str:
            found = self._described(node)
            cost = "" if found["batch_ms"] is None else f", {found['batch_ms']:.2f} ms a batch"
            where = f", region {found['region']}" if self._graph.pipeline.buffers else ""
            if any(isinstance(i, Buffer) for i in self._graph.pipeline.stations[node].inputs):
                where += f" behind a buffer ({found['queue']} wait, {found['queue_bytes']:,} B)"
            state = f"{found['state_bytes']:,} B of state"
            return f"; {found['rows_in']} rows in, {found['rows_out']} out{cost}, {state}{where}"

        roots = list(dict.fromkeys(self._graph.used()))
        return "\n".join(tree(roots, more)) if roots else "nobody has subscribed"

    # --- its life -------------------------------------------------------------------------------------------------------

    def close(self, *, now: bool = False) -> None:
        """End all sources, give the last results and end all subscriptions; with `now` nothing more is given. Again, it does nothing.

        A sink that does not come back within some seconds is left behind, with a warning.
        """
        if self._closed:
            return
        self._closed = True
        self._driver.close()
        changes = self._graph.changes
        if changes.inside or self._graph.dispatcher.is_worker:
            changes.request(lambda: self._end(now))
            return
        try:
            if self._graph.dispatcher.finish(PATIENCE):
                changes.run(lambda: self._graph.close(now), timeout=PATIENCE)
            else:
                raise TimeoutError
        except TimeoutError:
            _log.warning("the graph closes while a sink does not come back: its subscriptions do not end")
        finally:
            self._stop()

    def _end(self, now: bool) -> None:
        self._graph.close(now)
        self._stop()

    def _stop(self) -> None:
        """End the threads of operators."""
        self._graph.dispatcher.stop()
        if self._thread is not None:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(now=error is not None)

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise ParameterError(f"{what}: the graph is closed")

    def _now(self, change: Callable[[], Any]) -> Any:
        """Make a change between two turns, or from a sink, where operators rest."""
        if self._graph.dispatcher.is_worker:
            raise PlanError(
                "the graph cannot be changed from here: operators run in threads, and wait for each other",
                hint="let another thread do it; a sink may push, pause, resume and unsubscribe",
            )
        if not self._graph.changes.inside:
            return self._graph.changes.run(change)
        if not self._graph.resting:
            raise PlanError("a function that an operator calls cannot change the graph", hint="let a sink do it")
        return change()

    def _turn(self, turn: Callable[[], None]) -> None:
        """Make a turn; from a sink, after the one that runs."""
        changes = self._graph.changes
        if changes.inside or self._graph.dispatcher.is_worker:
            changes.request(turn)
        else:
            changes.run(turn, turn=True)

    def _look(self, look: Callable[[], Any]) -> Any:
        """Look at what runs. Nothing changes meanwhile, though operators in threads may go on."""
        changes = self._graph.changes
        return look() if changes.inside or self._graph.dispatcher.is_worker else changes.run(look, turn=True)


_ERROR = late.error()
