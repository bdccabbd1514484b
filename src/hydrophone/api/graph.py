"""`Graph`: queries that come and go while data flows, in this process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from hydrophone.api.query import Query, check_late, check_query
from hydrophone.arguments import public
from hydrophone.connect.live import conform
from hydrophone.connect.sink import CallbackSink, Sink
from hydrophone.engine import emit, late
from hydrophone.engine.graph import RunningGraph, Start
from hydrophone.engine.subscription import Subscription
from hydrophone.engine.turns import Feed
from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.time import Instant, instant
from hydrophone.plan.source import Source, sources

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
    def __init__(self, *, late: late.Late | None = None) -> None:
        check_late(late, "Graph")
        self._graph = RunningGraph(late or _ERROR)
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
        check_query(query, "subscribe")
        receiver = _sink(sink)
        form = emit.check_shape(query.node.type, shape)
        if close not in ("auto", "warm"):
            raise ParameterError(f"subscribe: close must be 'auto' or 'warm', got {close!r}")
        begin: Start = start if start in STARTS else instant(start)  # type: ignore[assignment]
        return self._now(lambda: self._graph.subscribe(query.node, receiver, begin, close == "warm", form))

    # --- rows -----------------------------------------------------------------------------------------------------------

    @public
    def push(self, source: Query, rows: Any) -> None:
        """Take rows of a source, and give the results that they make final.

        Parameters
        ----------
        source : the source, or a query that has one source
        rows : a table or batch of Arrow's, a frame, or a dictionary of columns, with the columns of the source
        """
        self._check_open("push")
        feed = self._feed(source, "push")
        if feed.ended:
            raise ParameterError(f"push: {feed.source.title} has ended")
        table = conform(rows, feed.source.layout.schema, f"push: {feed.source.title}")
        self._turn(lambda: self._graph.push(feed, table))

    @public
    def end(self, source: Query) -> None:
        """Say that a source has no more rows: what waits for them becomes final. To end it twice does nothing."""
        self._check_open("end")
        feed = self._feed(source, "end")
        self._turn(lambda: self._end([feed]))

    def _end(self, feeds: list[Feed]) -> None:
        for feed in feeds:
            feed.ended = True
        self._graph.turn()

    def _feed(self, query: Query, what: str) -> Feed:
        check_query(query, what)
        found = {s.port(0): s for s in sources(query.node)}
        if len(found) > 1:
            raise ParameterError(
                f"{what}: the query has {len(found)} sources: {', '.join(s.title for s in found.values())}",
                hint="name the one that is meant by its own stream",
            )
        source: Source = next(iter(found.values()))
        return self._now(lambda: self._graph.feed(source))

    # --- its life -------------------------------------------------------------------------------------------------------

    def close(self, *, now: bool = False) -> None:
        """End all sources, give the last results, and end all subscriptions; with `now` nothing more is given. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._turn(lambda: self._close(now))

    def _close(self, now: bool) -> None:
        if not now:
            self._end(self._graph.turns.feeds)
        for subscription in list(self._graph.subscriptions):
            subscription.close(None, now=True)
        self._graph.settle()
        self._graph.turns.close()

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
        if not self._graph.changes.inside:
            return self._graph.changes.run(change)
        if not self._graph.delivering:
            raise PlanError("a function that an operator calls cannot change the graph", hint="let a sink do it")
        return change()

    def _turn(self, turn: Callable[[], None]) -> None:
        """Make a turn; from a sink, after the one that runs."""
        changes = self._graph.changes
        changes.request(turn) if changes.inside else changes.run(turn)


def _sink(given: object) -> Sink:
    if isinstance(given, Sink):
        return given
    if callable(given):
        return CallbackSink(given)
    raise ParameterError(
        f"subscribe: sink must be a hydrophone.Sink or a function, got {given!r}",
        hint="a list takes tables by its method: subscribe(query, found.append)",
    )


_ERROR = late.error()
