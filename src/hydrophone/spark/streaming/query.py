"""Queries as streams: the plan of every shard, Spark's own streaming query around them, and a handle to it."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import reduce
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone import errors
from hydrophone.compiler.compile import Host, stages
from hydrophone.compiler.stages import Input, Stage
from hydrophone.connect.output_conflicts import check_output_apart, check_outputs_separate, path_below
from hydrophone.connect.sink import Sink
from hydrophone.engine import emit, late
from hydrophone.engine.late import Action
from hydrophone.engine.watch import MarkWatch, UnmarkedSources, check_stream, first_waiting_operator
from hydrophone.errors import ParameterError, UnsupportedError
from hydrophone.model.time import MIN_TIME, duration, format_instant
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port, Source, places_of, sources
from hydrophone.spark.arrow_types import check_grid, end_of, local_path, spark_schema
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.streaming.chunks import DDL, ChunkPacker, Target
from hydrophone.spark.streaming.claims import Claims, Lock, checkpoint_in_use
from hydrophone.spark.streaming.logs import state_damage
from hydrophone.spark.streaming.manifest import validate_manifest
from hydrophone.spark.streaming.outlets import is_remote, on_this_machine
from hydrophone.spark.streaming.partial_aggregates import AnnouncedMarks, PartialAggregates, partial_aggregates_of
from hydrophone.spark.streaming.refusals import check_source
from hydrophone.spark.streaming.shard import Inlet, ShardPlan, ShardTask, processor
from hydrophone.spark.streaming.sinks import (
    OBSERVATION,
    Drafts,
    Metrics,
    MicroBatchWriter,
    observe_metrics,
    outlets_of,
    reported_metrics,
)
from hydrophone.spark.streaming.source_log import SourceLog
from hydrophone.spark.version import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger("hydrophone")

_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stopActiveRunOnRestart": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.adaptive.enabled": "false",
}
"""What the query runs with, whatever the session says: blocks of state in RocksDB, changes of it written as a log; of a
table of results a micro-batch overwrites its own partition alone. Streams know no adaptive plans, of which Spark would warn."""

_ON_THIS_MACHINE = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Where the checkpoint lies on a disk of this machine; in docs/decisions/0007. The name of the class is that of Spark 4.3."""

_ANY_AGE = f"{1000 * 365}d"

_FILE = "path string, modificationTime timestamp, length long, content binary"


@dataclass(eq=False)
class RunningQuery:
    """A query that runs in Spark; made by `start`.

    Attributes
    ----------
    query : Spark's own handle
    late_path : where late rows go
    lock : what holds the checkpoint while the query runs
    zoned : whether times of the results have a zone
    ends : whether the query ends by itself when it has taken what is there
    checkpoint : the folder
    """

    query: StreamingQuery
    late_path: str | None
    lock: Lock
    zoned: bool = False
    ends: bool = False
    checkpoint: str = ""

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(Exception):  # whoever waits for the query is told
            self.query.awaitTermination()
        self.lock.release()
        with suppress(Exception):  # a session that has stopped has nothing to report
            if self.ends and self.query.exception() is None and (left := self.left_open) is not None:
                _log.warning("%s", left)
        self._ended.set()

    def stop(self) -> None:
        """Stop after the running task; the checkpoint lets `start` go on from here."""
        self.query.stop()
        self.lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends (or for so many seconds) and say whether it has; an error of the query is raised here.

        Ctrl-C stops the query; it goes on from its checkpoint at the next `start`.
        """
        ended = self._wait_for(self._ended, timeout)
        if ended:
            with _own_errors(self.checkpoint):
                self.query.awaitTermination()
        return ended

    @property
    def left_open(self) -> str | None:
        """What the results still lack of rows that were taken, and up to when they are complete; None where nothing is open."""
        latest = self.progress[-1:]
        if not latest or not latest[0]["waiting"]:
            return None
        return (
            f"{self.query.name}: {latest[0]['waiting']} open windows or held rows are not in the results yet, which are complete "
            f"up to {self._complete(latest[0])}: they wait for later rows, or for a promise of less delay (progress=)"
        )

    def _complete(self, latest: Metrics) -> str:
        return format_instant(MIN_TIME if latest["passed"] is None else latest["passed"], self.zoned)

    await_termination = wait

    def _wait_for(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait in Python, where Ctrl-C is heard at once; it stops the query."""
        try:
            with _plain_interrupt():
                return event.wait(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise _one_line(KeyboardInterrupt("the stream is stopped; start goes on from its checkpoint")) from None

    def process_all_available(self) -> None:
        """Wait until everything that has arrived so far is in the results. Ctrl-C stops the query, as in `wait`."""
        done, errors = threading.Event(), list[BaseException]()

        def process() -> None:
            try:
                self.query.processAllAvailable()
            except BaseException as error:
                errors.append(error)
            finally:
                done.set()

        threading.Thread(target=process, daemon=True).start()
        self._wait_for(done)
        with _own_errors(self.checkpoint):
            for error in errors:
                raise error

    @property
    def progress(self) -> list[Metrics]:
        """What the latest micro-batches did, oldest first.

        Each is a dict: ``batch`` (its number), ``rows`` taken, how many of them were ``merged`` before the exchange,
        ``results`` given, ``late`` rows by source, ``keys`` and ``state_bytes`` held, ``shed``: rows that joins have
        forgotten since the query began to keep to their limits, ``waiting``: open windows, and rows and runs of samples
        that are held until progress passes them, ``rows_per_second``, ``marks`` by source in
        nanoseconds, ``passed``: the mark that results have reached, and ``mark_ms``: the milliseconds that marks took
        through all operators, in the slowest shard of every stage. Sources are numbered as the query names them.
        Spark's own report has the same numbers (``observedMetrics``, under ``hydrophone``, and ``durationMs``), and
        so have its listeners.
        """
        found = ((p, p.observedMetrics.get(OBSERVATION)) for p in self.query.recentProgress)
        return [
            reported_metrics(p.batchId, _row_by_name(row.asDict()), _batch_seconds(p))
            for p, row in found
            if row is not None
        ]

    @property
    def status(self) -> dict[str, Any]:
        """Whether the query runs, what Spark says it does, the metrics of the latest micro-batch, and up to when results are complete."""
        latest = self.progress[-1:]
        told = {**latest[0], "complete_until": self._complete(latest[0])} if latest else {}
        return {"active": self.query.isActive, "message": self.query.status["message"], **told}


def _batch_seconds(progress: StreamingQueryProgress) -> float:
    """How long a micro-batch took, from looking for new rows to its last note."""
    return max(progress.durationMs.get("triggerExecution", progress.batchDuration), 1) / 1000


def _row_by_name(row: dict[str, Any]) -> dict[str, Any]:
    """A reported row by names; Spark 4.3 hands it through Connect as its values and their schema."""
    if row.keys() != {"values", "schema"}:
        return row
    return dict(zip((f["name"] for f in row["schema"]["fields"]), row["values"], strict=True))


@contextmanager
def _plain_interrupt() -> Iterator[None]:
    """Ctrl-C as Python has it: PySpark's own handler cancels all jobs, so that the stream would fail instead of stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _one_line(error: KeyboardInterrupt) -> KeyboardInterrupt:
    """The error, which Python shows as one line if nobody catches it."""
    show = sys.excepthook

    def hook(kind: type[BaseException], found: BaseException, trace: TracebackType | None) -> None:
        if found is error:
            print(f"KeyboardInterrupt: {error}", file=sys.stderr)
        else:
            show(kind, found, trace)

    sys.excepthook = hook
    return error


_OWN = re.compile(r"^hydrophone\.errors\.(\w+): (.*)(?:\n  at (.*))?(?:\n  Hint: (.*))?", re.MULTILINE)


@contextmanager
def _own_errors(checkpoint: str) -> Iterator[None]:
    """An error of ours that Spark brings from a task as text, raised as what it was, and one about the checkpoint; Spark's is its cause."""
    from pyspark.errors import StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        if "CONCURRENT_STREAM_LOG_UPDATE" in str(error):
            raise checkpoint_in_use("of this query") from error
        found = _OWN.search(str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found is None or kind is None:
            damage = state_damage(str(error), checkpoint)
            if damage is None:
                raise
            raise damage from error
        raise kind(found[2], where=found[3], hint=found[4]) from error


def start(
    root: Node,
    spark: SparkSession,
    *,
    to: Sink,
    checkpoint: str,
    name: str | None,
    late: late.Late,
    shards: int | None,
    files_per_batch: int | None,
    trigger: str | None,
    shape: emit.Shape,
    unmarked: int | None,
    combine: bool,
) -> RunningQuery:
    """Start a query; `hydrophone.api.Query.start` has the documentation."""
    check_session(spark, "start")
    _check_query(root, to, shape)
    pace = _spark_trigger(trigger)
    if to.in_process and is_remote(spark):
        raise UnsupportedError(
            "start: through Spark Connect results cannot stay in this process, because the server writes them",
            hint='write files: to=hp.write.parquet("clean/")',
        )
    checkpoint, late = _absolute_path(checkpoint), replace(late, path=late.path and _absolute_path(late.path))
    to = to if to.folder is None else to.moved(_absolute_path(to.folder))
    query = StreamPlan.of(root, late)
    late_path = (late.path or f"{checkpoint}/late") if late.action is Action.SIDE else None
    _check_places(root, to, late, checkpoint)
    with Lock(on_this_machine(spark, checkpoint)) as lock:
        note = validate_manifest(spark, checkpoint, query.stages, shards)
        plans = query.shards(note["shards"], late, shape)
        if late_path:
            _log.info("late rows go to %s", late_path)
        result = emit.result_schema(root.type, shape)
        outlets = outlets_of(to, result, end_of(root.type), [f.schema for f in query.feeds], late_path)
        if not Drafts.possible(spark, outlets):
            for outlet in outlets:
                outlet.sink.check_spark("start")
        claims = Claims.take(spark, checkpoint, note["id"], outlets)
        drafts = Drafts.of(spark, outlets, note["id"])
        for outlet in outlets:
            outlet.sink.prepare(spark, spark_schema(outlet.schema))
        named = [(f.source.title, first_waiting_operator(root, f.source)) for f in query.feeds]
        announced = AnnouncedMarks(note["id"]) if combine and not is_remote(spark) else None
        # Watched folders are the first sources of the stream, so that their logs are known by number.
        watched = [f for f in query.feeds if f.source.data.folder is not None]
        log = SourceLog(checkpoint, tuple(f.source.title for f in watched))
        watch = MarkWatch(named, zoned=root.type.clock == "zoned")
        writer = MicroBatchWriter(
            to, result, outlets, drafts, note["id"], watch, UnmarkedSources(named, unmarked), claims, log, announced
        )
        with _temporary_settings(spark, settings_of(spark, checkpoint, note["shards"])):
            feeds = [*watched, *(f for f in query.feeds if f not in watched)]
            packers = [query.packer(f, note["shards"], None if announced is None else announced.query) for f in feeds]
            frames = [
                _source_chunks(spark, f, p, n, files_per_batch)
                for n, (f, p) in enumerate(zip(feeds, packers, strict=True))
            ]
            frames += [_clock_chunks(spark, packer) for packer in packers if packer.policy.lull is not None]
            chunks = reduce(lambda a, b: a.union(b), frames)
            for plan in plans:
                stage = processor(ShardTask(note["id"], plan, drafts))
                chunks = chunks.groupBy("label").transformWithStateInPandas(stage, DDL, "Append", "None")
            stream = (
                observe_metrics(chunks, len(query.feeds), len(plans))
                .writeStream.foreachBatch(writer)
                .queryName(name or f"hydrophone {os.path.basename(checkpoint.rstrip('/'))} {note['id'][:8]}")
                .outputMode("append")
                .option("checkpointLocation", checkpoint)
                .trigger(**pace)
            )
            with _start_errors(checkpoint):
                running = stream.start()
        return RunningQuery(running, late_path, lock, root.type.clock == "zoned", trigger == "available", checkpoint)


@contextmanager
def _start_errors(checkpoint: str) -> Iterator[None]:
    """What Spark says of queries that are in each other's way."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = str(error)
        if named := re.search(r"Cannot start query with name (.*?) as a query with that name is already active", text):
            raise ParameterError(
                f"start: a query with the name {named[1]!r} runs in this session already", hint="choose another name="
            ) from None
        if "CONCURRENT_QUERY" in text or "same id is already active" in text:
            raise checkpoint_in_use(checkpoint) from None
        raise


def _check_places(root: Node, to: Sink, late: late.Late, checkpoint: str) -> None:
    """Refuse folders that feed each other."""
    places = {"checkpoint": checkpoint}
    if late.path:
        places["late rows"] = late.path
    if to.folder is not None:
        places["sink"] = to.folder
    here = {name: bare for name, path in places.items() if (bare := local_path(path)) is not None}
    for name, path in here.items():
        check_output_apart(places_of(root), path, what=f"start: {name}", watched=True)
    if path_below(here.get("late rows", "/"), checkpoint):
        del here["late rows"]  # it is so by default, and nobody reads a checkpoint
    check_outputs_separate(here, what="start")


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamSource:
    """A source, and the columns of its rows that travel: all of them where late rows are kept as they came."""

    source: Source
    schema: pa.Schema

    @classmethod
    def of(cls, source: Source, originals: Iterable[Source], late: late.Late) -> StreamSource:
        """A source of the pruned plan, for late rows with the columns that its original has."""
        whole = next(o for o in originals if o.data is source.data and o.layout.key == source.layout.key)
        if late.action is Action.SIDE:
            return cls(source, whole.layout.schema)
        assert source.progress is not None
        named = {*source.layout.columns, source.progress.by, source.progress.column}
        return cls(source, pa.schema([f for f in whole.layout.schema if f.name in named]))


@dataclass(frozen=True)
class StreamPlan:
    """A query in stages, and the sources that feed them."""

    stages: list[Stage]
    feeds: tuple[StreamSource, ...]

    @classmethod
    def of(cls, root: Node, late: late.Late) -> StreamPlan:
        """Cut a plan into stages, over sources that give the operators only the columns that they need."""
        cut = stages(root, Host.STREAM)
        originals = sources(root)
        found = dict.fromkeys(i.source for stage in cut for i in stage.inputs if i.source is not None)
        return cls(cut, tuple(StreamSource.of(s, originals, late) for s in found))

    def packer(self, feed: StreamSource, shards: int, query: str | None = None) -> ChunkPacker:
        """What packs the rows of a source; with the id of a query, tasks may learn of marks and merge."""
        assert feed.source.progress is not None
        targets = tuple(
            Target(
                s,
                p,
                given.prefix,
                found if isinstance(found := partial_aggregates_of(stage, p), PartialAggregates) else None,
            )
            for s, stage in enumerate(self.stages)
            for p, given in enumerate(stage.inputs)
            if given.source == feed.source
        )
        layout, announced = feed.source.layout, None if query is None else (query, self.feeds.index(feed))
        return ChunkPacker(
            feed.schema,
            layout.time,
            feed.source.progress,
            targets,
            shard_labels(shards),
            layout.key,
            announced,
            layout.end,
        )

    def shards(self, shards: int, late: late.Late, shape: emit.Shape) -> list[ShardPlan]:
        """What a shard of every stage runs.

        Row operators above a source run in the shard, over rows as they came. Row operators above a stage run in the shards
        of that stage, before the exchange.
        """
        answered: set[Source] = set()
        plans = []
        for number, stage in enumerate(self.stages):
            root = _with_row_operators(stage.root, {p: i.prefix for p, i in enumerate(stage.inputs) if i.source})
            inlets = tuple(self._inlet(i, answered) for i in stage.inputs)
            outlets = tuple(
                (later, port)
                for later, consumer in enumerate(self.stages)
                for port, given in enumerate(consumer.inputs)
                if given.source is None and given.stage == number
            )
            roots = tuple(_rebase(self.stages[s].inputs[p].prefix, root) for s, p in outlets)
            plans.append(ShardPlan(number, roots or (root,), inlets, outlets, shards, late, shape))
        return plans

    def _inlet(self, given: Input, answered: set[Source]) -> Inlet:
        if given.source is None:
            return Inlet("", None, None, None, ordered=True)
        number = next(n for n, f in enumerate(self.feeds) if f.source == given.source)
        first = given.source not in answered
        answered.add(given.source)
        ordered = given.source.data.folder is not None  # rows are known by file and number
        layout = given.source.layout
        name = given.source.title
        return Inlet(layout.time, layout.end, given.source.progress, number if first else None, ordered, name)


def _with_row_operators(root: Node, prefixes: Mapping[int, Node]) -> Node:
    """The plan of a stage with row operators on the ports that sources feed."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        if isinstance(node, Port) and node.number in prefixes:
            prefix = prefixes[node.number]
            leaf = prefix.topological()[0]
            assert isinstance(leaf, Port)
            # Rows travel by the key that the row operators give them: a source has a port for each chain of these.
            source = leaf.source if prefix is leaf else prefix.digest
            done[node] = _rebase(prefix, replace(leaf, number=node.number, source=source))
        else:
            done[node] = node.with_inputs([done[i] for i in node.inputs])
    return done[root]


def _rebase(prefix: Node, bottom: Node) -> Node:
    """Row operators over another node than their port."""
    done: dict[Node, Node] = {}
    for node in prefix.topological():
        done[node] = bottom if isinstance(node, Port) else node.with_inputs([done[i] for i in node.inputs])
    return done[prefix]


def _source_chunks(
    spark: SparkSession, feed: StreamSource, packer: ChunkPacker, number: int, files_per_batch: int | None
) -> DataFrame:
    """The chunks of one source, which is that number of the stream's."""
    data = feed.source.data
    frame = data.dataframe(feed.schema.names)
    if frame is not None:
        return frame.mapInArrow(packer.rows, DDL)
    folder = data.folder
    assert folder is not None  # `check_stream` has refused data that is no stream
    # Spark watches the folder and hands out paths; the tasks read the files themselves.
    suffixes = "*{" + ",".join(folder.suffixes) + "}"
    files = spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", suffixes)
    # By default Spark passes over files that are a week older than the newest it has seen.
    files = files.option("recursiveFileLookup", "true").option("maxFileAge", _ANY_AGE)
    if files_per_batch is not None:
        files = files.option("maxFilesPerTrigger", files_per_batch)
    return (
        files.load(folder.path)
        .select("path", "length")
        .mapInArrow(packer.files(data.for_tasks(feed.schema.names), number), DDL)
    )


def _clock_chunks(spark: SparkSession, packer: ChunkPacker) -> DataFrame:
    """The clock as chunks. Spark notes which of its times a micro-batch took, so that a repetition sees the same ones."""
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return clock.select("timestamp").mapInArrow(packer.clock, DDL)


# --- what cannot run -----------------------------------------------------------------------------------------------------


def _check_query(root: Node, to: Sink, shape: emit.Shape) -> None:
    """Refuse what could never give an answer, and explain what may hold progress back."""
    for source in sources(root):
        check_source(source)
    check_stream(root)
    if not to.in_process:
        check_grid(root.type)
    schema = emit.result_schema(root.type, shape)
    for taken in to.adds:
        if taken in schema.names:
            raise ParameterError(f"start: the result has a column {taken!r}, which names the folders of the sink")
    to.check(schema)


def _spark_trigger(trigger: str | None) -> dict[str, Any]:
    if trigger is None:
        return {"processingTime": "0 seconds"}
    if trigger == "available":
        return {"availableNow": True}
    try:
        pause = duration(trigger)
    except (ParameterError, TypeError):
        pause = -1
    if pause < 0:
        raise ParameterError(
            f"start: trigger must be a duration such as '10s' or 'available', got {trigger!r}",
            hint='"available" takes what is there and stops; without a trigger the stream runs as often as it can',
        ) from None
    return {"processingTime": f"{pause // 1_000_000} milliseconds"}


# --- settings ---------------------------------------------------------------------------------------------------------


def _absolute_path(path: str) -> str:
    """A path that means the same in every process: Spark's may have started in another folder."""
    return os.path.abspath(path) if ":" not in path.partition("/")[0] else path


def settings_of(spark: SparkSession, checkpoint: str, shards: int) -> dict[str, str]:
    """What a query runs with."""
    here = spark.version.startswith("4.3.") and on_this_machine(spark, checkpoint) is not None
    return {**_SETTINGS, **(_ON_THIS_MACHINE if here else {}), "spark.sql.shuffle.partitions": str(shards)}


_CONF = threading.Lock()


@contextmanager
def _temporary_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings that Spark reads when the query starts, put back afterwards."""
    with _CONF:
        before = {name: spark.conf.get(name, None) for name in wanted}
        try:
            for name, value in wanted.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)
