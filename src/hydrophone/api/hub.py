"""`Hub`: queries that join and leave a running Spark stream."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hydrophone.api.query import Query, check_late, check_query
from hydrophone.arguments import public
from hydrophone.connect import write
from hydrophone.engine import emit, late
from hydrophone.errors import ParameterError, PlanError, path_text
from hydrophone.model.time import Instant, instant
from hydrophone.plan.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hydrophone.spark.hub.stream import HubSettings
    from hydrophone.spark.hub.subscription import HubQuery
    from hydrophone.spark.streaming.running import RunningQuery


class Hub:
    """Queries that join and leave one running Spark stream, over sources that all of them share.

    Parts that queries have in common run once. In its interval of event time, a query gives exactly what it would give if it ran
    alone over all rows that the hub has had, each row once, whatever crashes and whatever runs beside it.

    Parameters
    ----------
    spark : SparkSession
    sources : streams as they are read, such as ``hp.read.parquet("in/", ...)``; queries are built on them
    checkpoint : str
        The folder of the hub, on a disk of this machine. A hub that is made again with it goes on with its queries.
    stages : int
        How often rows may be spread by a key: a query that changes its key after an operator with state needs 2. Fixed by the first start.
    late : optional
        What happens to rows that come later than their source promised; by default they are kept aside in ``<checkpoint>/late``.
    shards, files_per_batch, trigger : as in `start`
    name : str, optional
        What Spark calls the stream.
    running : bool
        Whether the stream starts at once. If not, queries that are subscribed before `start` begin with the first row.

    Examples
    --------
    ::

        readings = hp.read.parquet("readings/", key="sensor", time="ts", progress=hp.delayed("5s"))
        hub = hp.Hub(spark, readings, checkpoint="hub/")
        loud = hub.subscribe(readings.where(hp.col("value") > 9), to=hp.write.parquet("loud/"), name="loud")
        loud.unsubscribe()
        hub.stop()
    """

    @public
    def __init__(
        self,
        spark: SparkSession,
        *sources: Query,
        checkpoint: str | PathLike[str],
        stages: int = 2,
        late: late.Late | None = None,
        shards: int | None = None,
        files_per_batch: int | None = None,
        trigger: str | None = None,
        name: str | None = None,
        running: bool = True,
    ) -> None:
        from hydrophone.spark.hub.stream import HubSettings

        check_late(late, "Hub")
        settings = HubSettings(_sources(sources), stages, late or _SIDE, shards, files_per_batch, trigger, name)
        self._open(spark, settings, path_text(checkpoint, "Hub: checkpoint"), running)

    def _open(self, spark: SparkSession, settings: HubSettings, checkpoint: str, running: bool) -> None:
        from hydrophone.spark.hub import stream
        from hydrophone.spark.streaming.claims import Lock

        home = stream.hub_home(spark, checkpoint)
        settings = stream.with_absolute_paths(settings)
        stream.check_settings(settings, home)
        self._spark, self._settings = spark, settings
        self._memory: dict[str, write.Sink] = {}
        self._running: RunningQuery | None = None
        self._lock, self._guard = Lock(Path(home)), threading.Lock()
        with self._lock:
            self._folder = stream.open_folder(spark, settings, home)
            if running:
                self.start()

    @classmethod
    def resume(cls, spark: SparkSession, checkpoint: str | PathLike[str]) -> Self:
        """Go on with a hub that has stopped or crashed, with its sources and queries as they were."""
        from hydrophone.spark.hub import stream

        path = path_text(checkpoint, "Hub.resume: checkpoint")
        hub = cls.__new__(cls)
        hub._open(spark, stream.known_settings(stream.hub_home(spark, path)), path, running=True)
        return hub

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- the stream -----------------------------------------------------------------------------------------------------

    @public
    def start(self) -> None:
        """Start the stream of a hub that was made with ``running=False``; again does nothing."""
        from hydrophone.spark.hub.stream import start_hub

        with self._guard:
            if self._running is None:
                self._running = start_hub(
                    self._spark, self._settings, self._folder, self._lock, self._memory, self._asked
                )

    def _asked(self, request: Any) -> None:
        if isinstance(request[1], dict) and request[1]["ask"] == "stop":
            threading.Thread(target=self.stop, daemon=True).start()

    @property
    def active(self) -> bool:
        """Whether the stream runs, or has not started yet."""
        return self._running is None or bool(self._running.query.isActive)

    @public
    def stop(self) -> None:
        """Stop after the running task; `Hub.resume`, or a hub made with this checkpoint, goes on from here."""
        if self._running is None:
            self._lock.release()
        else:
            self._running.stop()

    @public
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends (or for so many seconds) and say whether it has; an error of the stream is raised here."""
        return self._stream("wait").wait(timeout)

    @public
    def process_all_available(self) -> None:
        """Wait until all rows and requests that have arrived so far are dealt with."""
        self._stream("process_all_available").process_all_available()

    @property
    def progress(self) -> list[dict[str, Any]]:
        """What the latest micro-batches did, oldest first: the same as that of a query alone, over all queries."""
        return self._stream("progress").progress

    def _stream(self, what: str) -> RunningQuery:
        if self._running is None:
            raise ParameterError(f"{what}: the hub has not started", hint="hub.start()")
        return self._running

    # --- queries --------------------------------------------------------------------------------------------------------

    @public
    def subscribe(
        self, query: Query, *, to: write.Sink, name: str, start: str | Instant = "settled", shape: str = "rows"
    ) -> HubQuery:
        """Let a query join, with the next micro-batch but one at the latest.

        Parameters
        ----------
        query : a query over sources of the hub
        to : where results go: files that tasks write (``hp.write.parquet``), or ``hp.write.memory()``; no other query writes there
        name : by which it is known; free again when it has ended
        start : when the results begin.
            "settled": as soon as they are exact: at the first instant for which all rows that the query needs are still to come.
            "fresh": as if the data began now: over the rows that start at or after the largest end seen so far.
            An instant: from then on, which must not be before the instant of "settled".
        shape : "rows" or "segments"
        """
        from hydrophone.spark.hub import joining
        from hydrophone.spark.hub.subscription import HubQuery

        check_query(query, "subscribe")
        write.check(to, "subscribe")
        if not self.active:
            raise ParameterError(
                "subscribe: the hub has stopped", hint="hp.Hub.resume(spark, checkpoint) goes on with it"
            )
        form = emit.check_shape(query.node.type, shape)
        begin = str(start) if start in joining.STARTS else instant(start)
        wanted = joining.Wanted(query.node, to, name, begin, form)
        token, request = joining.ask(self._folder, self._settings.sources, wanted, self._spark, self._memory)
        return HubQuery(self, self._folder, name, token, request)

    @public
    def unsubscribe(self, name: str, *, at: Instant | None = None, now: bool = False) -> None:
        """Let a query leave; see `HubQuery.unsubscribe`."""
        self.query(name).unsubscribe(at, now)

    @public
    def query(self, name: str) -> HubQuery:
        """The query of a name, the latest one: to see how it is, to pause, resume and end it."""
        found = self.queries()
        if name not in found:
            raise ParameterError(f"query: the hub has no query {name!r}", hint=f"it has: {', '.join(found) or 'none'}")
        return found[name]

    @public
    def queries(self) -> dict[str, HubQuery]:
        """The queries by name: those that run or wait, and those that have ended lately."""
        from hydrophone.spark.hub.subscription import known_queries

        return {q.name: q for q in known_queries(self, self._folder)}

    @public
    def explain(self) -> str:
        """What the next micro-batch runs in every stage, as text: what queries share is written once."""
        from hydrophone.spark.hub.folders import explained

        pin = self._folder.pins.latest()
        return "no query runs" if pin is None else explained(self._folder, pin)


def _sources(queries: Sequence[Query]) -> tuple[Source, ...]:
    """The sources of a hub; watched folders first, so that Spark's logs of them are known by number."""
    if not queries:
        raise ParameterError("Hub: a hub needs a source", hint="hp.Hub(spark, readings, checkpoint=...)")
    found = []
    for query in queries:
        check_query(query, "Hub")
        if not isinstance(query.node, Source):
            raise PlanError(
                f"Hub: {query.node.name()} is a query, and a hub is made over sources",
                hint="give the stream as it was read; queries are subscribed",
                where=query.node.where,
            )
        found.append(query.node)
    return tuple(sorted(found, key=lambda s: s.data.folder is None))


_SIDE = late.side()
