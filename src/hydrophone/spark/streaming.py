"""Queries as streams: the plan of every shard, Spark's own streaming query around them, and a handle to it."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone import errors
from hydrophone.engine import emit, late
from hydrophone.engine.late import Action
from hydrophone.engine.watch import Unmarked, Watch, waiting_for
from hydrophone.errors import ParameterError, PlanError, UnsupportedError
from hydrophone.io.parquet import ParquetData
from hydrophone.ops.intervals import Above
from hydrophone.ops.resample import Resample
from hydrophone.ops.sampling import Sample
from hydrophone.plan.lower import Input, Stage, stages
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port, Source
from hydrophone.spark.data import SparkData, check_grid, end_of
from hydrophone.spark.exchange import labels
from hydrophone.spark.note import agreed
from hydrophone.spark.pack import DDL, Packer, Target
from hydrophone.spark.partial import Partial, Told, partial_of
from hydrophone.spark.scan import at_once, columns, prune
from hydrophone.spark.sinks import (
    OBSERVED,
    Drafts,
    Metrics,
    Writer,
    check_cells,
    claim,
    is_remote,
    observed,
    on_this_machine,
    outlets_of,
    prepare_table,
    reported,
)
from hydrophone.spark.stateful import Inlet, ShardPlan, ShardProcessor
from hydrophone.spark.version import check_session
from hydrophone.time import duration
from hydrophone.write import Csv, Memory, Parquet, Sink, Table

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
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
"""What the query runs with, whatever the session says: blocks of state in RocksDB, changes of it written as a log; of a
table of results a micro-batch overwrites its own partition alone."""

_ON_THIS_MACHINE = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Where the checkpoint lies on a disk of this machine; in docs/decisions/0007. The name of the class is that of Spark 4.3."""

_FILE = "path string, modificationTime timestamp, length long, content binary"


@dataclass(eq=False)
class RunningQuery:
    """A query that runs in Spark; made by `start`.

    Attributes
    ----------
    query : Spark's own handle
    late_path : where late rows go
    """

    query: StreamingQuery
    late_path: str | None

    def stop(self) -> None:
        """Stop after the running task; the checkpoint lets `start` go on from here."""
        self.query.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends (or for so many seconds) and say whether it has; an error of the query is raised here."""
        with _own_errors():
            if timeout is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout))  # type: ignore[arg-type]

    await_termination = wait

    def process_all_available(self) -> None:
        """Wait until everything that has arrived so far is in the results."""
        with _own_errors():
            self.query.processAllAvailable()

    @property
    def progress(self) -> list[Metrics]:
        """What the latest micro-batches did, oldest first.

        Each is a dict: ``batch`` (its number), ``rows`` taken, how many of them were ``merged`` before the exchange,
        ``results`` given, ``late`` rows by source, ``keys`` and ``state_bytes`` held, ``shed``: rows that joins have
        forgotten since the query began to keep to their limits, ``rows_per_second``, ``marks`` by source in
        nanoseconds, ``passed``: the mark that results have reached, and ``mark_ms``: the milliseconds that marks took
        through all operators, in the slowest shard of every stage. Sources are numbered as the query names them.
        Spark's own report has the same numbers (``observedMetrics``, under ``hydrophone``, and ``durationMs``), and
        so have its listeners.
        """
        found = ((p, p.observedMetrics.get(OBSERVED)) for p in self.query.recentProgress)
        return [reported(p.batchId, _named(row.asDict()), _seconds(p)) for p, row in found if row is not None]

    @property
    def status(self) -> dict[str, Any]:
        """Whether the query runs, what Spark says it does, and the metrics of the latest micro-batch."""
        latest = self.progress[-1:]
        return {"active": self.query.isActive, "message": self.query.status["message"], **(latest[0] if latest else {})}


def _seconds(progress: StreamingQueryProgress) -> float:
    """How long a micro-batch took, from looking for new rows to its last note."""
    return max(progress.durationMs.get("triggerExecution", progress.batchDuration), 1) / 1000


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A reported row by names; Spark 4.3 hands it through Connect as its values and their schema."""
    if row.keys() != {"values", "schema"}:
        return row
    return dict(zip((f["name"] for f in row["schema"]["fields"]), row["values"], strict=True))


_OWN = re.compile(r"^hydrophone\.errors\.(\w+): (.*)(?:\n  at (.*))?(?:\n  Hint: (.*))?", re.MULTILINE)


@contextmanager
def _own_errors() -> Iterator[None]:
    """An error of ours that Spark brings from a task as text, raised as what it was; Spark's own is its cause."""
    from pyspark.errors import StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        found = _OWN.search(str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found is None or kind is None:
            raise
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
    """Start a query; `hydrophone.handles.Query.start` has the documentation."""
    check_session(spark, "start")
    _check(root, to, shape)
    pace = _trigger(trigger)
    if isinstance(to, Memory) and is_remote(spark):
        raise UnsupportedError(
            "start: through Spark Connect results cannot stay in this process, because the server writes them",
            hint='write files: to=hp.write.parquet("clean/")',
        )
    checkpoint, late = _in_full(checkpoint), replace(late, path=late.path and _in_full(late.path))
    to = replace(to, path=_in_full(to.path)) if isinstance(to, Parquet | Csv) else to
    query = Plan.of(root, late)
    note = agreed(spark, checkpoint, query.stages, shards)
    plans = query.shards(note["shards"], late, shape)
    late_path = (late.path or f"{checkpoint}/late") if late.action is Action.SIDE else None
    if late_path:
        _log.info("late rows go to %s", late_path)
    result = emit.schema(root.type, shape)
    outlets = outlets_of(to, result, end_of(root.type), [f.schema for f in query.feeds], late_path)
    claim(spark, outlets, note["id"])
    drafts = Drafts.of(spark, outlets, note["id"])
    prepare_table(spark, outlets, to.format if isinstance(to, Table) else None)
    named = [(f.source.data.identity, waiting_for(root, f.source)) for f in query.feeds]
    told = Told(note["id"]) if combine and not is_remote(spark) else None
    writer = Writer(to, result, outlets, drafts, note["id"], Watch(named), Unmarked(named, unmarked), told)
    with _settings(spark, settings_of(spark, checkpoint, note["shards"])):
        packers = [(f, query.packer(f, note["shards"], None if told is None else told.query)) for f in query.feeds]
        frames = [_packed(spark, f, packer, files_per_batch) for f, packer in packers]
        frames += [_ticking(spark, packer) for _, packer in packers if packer.policy.lull is not None]
        chunks = reduce(lambda a, b: a.union(b), frames)
        for plan in plans:
            processor = ShardProcessor(note["id"], plan, drafts)
            chunks = chunks.groupBy("label").transformWithStateInPandas(processor, DDL, "Append", "None")
        running = (
            observed(chunks, len(query.feeds), len(plans))
            .writeStream.foreachBatch(writer)
            .queryName(name or f"hydrophone {os.path.basename(checkpoint.rstrip('/'))} {note['id'][:8]}")
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(**pace)
            .start()
        )
    return RunningQuery(running, late_path)


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feed:
    """A source, and the columns of its rows that travel: all of them where late rows are kept as they came."""

    source: Source
    schema: pa.Schema

    @classmethod
    def of(cls, source: Source, originals: Iterable[Source], late: late.Late) -> Feed:
        """A source of the pruned plan, for late rows with the columns that its original has."""
        whole = next(o for o in originals if o.data is source.data and o.layout.key == source.layout.key)
        if late.action is Action.SIDE:
            return cls(source, whole.layout.schema)
        assert source.progress is not None
        named = {*columns(source.layout), source.progress.by, source.progress.column}
        return cls(source, pa.schema([f for f in whole.layout.schema if f.name in named]))


@dataclass(frozen=True)
class Plan:
    """A query in stages, and the sources that feed them."""

    stages: list[Stage]
    feeds: tuple[Feed, ...]

    @classmethod
    def of(cls, root: Node, late: late.Late) -> Plan:
        """Cut a plan into stages, over sources that give the operators only the columns that they need."""
        cut = stages(prune(at_once(root)))
        originals = _sources(root)
        found = dict.fromkeys(i.source for stage in cut for i in stage.inputs if i.source is not None)
        return cls(cut, tuple(Feed.of(s, originals, late) for s in found))

    def packer(self, feed: Feed, shards: int, query: str | None = None) -> Packer:
        """What packs the rows of a source; with the id of a query, tasks may learn of marks and merge."""
        assert feed.source.progress is not None
        targets = tuple(
            Target(s, p, given.prefix, found if isinstance(found := partial_of(stage, p), Partial) else None)
            for s, stage in enumerate(self.stages)
            for p, given in enumerate(stage.inputs)
            if given.source == feed.source
        )
        layout, told = feed.source.layout, None if query is None else (query, self.feeds.index(feed))
        return Packer(
            feed.schema, layout.time, feed.source.progress, targets, labels(shards), layout.key, told, layout.end
        )

    def shards(self, shards: int, late: late.Late, shape: emit.Shape) -> list[ShardPlan]:
        """What a shard of every stage runs.

        Row operators above a source run in the shard, over rows as they came. Row operators above a stage run in the shards
        of that stage, before the exchange.
        """
        answered: set[Source] = set()
        plans = []
        for number, stage in enumerate(self.stages):
            root = _graft(stage.root, {p: i.prefix for p, i in enumerate(stage.inputs) if i.source})
            inlets = tuple(self._inlet(i, answered) for i in stage.inputs)
            outlets = tuple(
                (later, port)
                for later, consumer in enumerate(self.stages)
                for port, given in enumerate(consumer.inputs)
                if given.source is None and given.stage == number
            )
            roots = tuple(_above(self.stages[s].inputs[p].prefix, root) for s, p in outlets)
            plans.append(ShardPlan(number, roots or (root,), inlets, outlets, shards, late, shape))
        return plans

    def _inlet(self, given: Input, answered: set[Source]) -> Inlet:
        if given.source is None:
            return Inlet("", None, None, None, ordered=True)
        number = next(n for n, f in enumerate(self.feeds) if f.source == given.source)
        first = given.source not in answered
        answered.add(given.source)
        ordered = isinstance(given.source.data, ParquetData)
        layout = given.source.layout
        name = given.source.data.identity
        return Inlet(layout.time, layout.end, given.source.progress, number if first else None, ordered, name)


def _sources(root: Node) -> list[Source]:
    return [n for n in root.topological() if isinstance(n, Source)]


def _graft(root: Node, prefixes: Mapping[int, Node]) -> Node:
    """The plan of a stage with row operators on the ports that sources feed."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        if isinstance(node, Port) and node.number in prefixes:
            prefix = prefixes[node.number]
            leaf = prefix.topological()[0]
            assert isinstance(leaf, Port)
            port = Port(number=node.number, layout=leaf.layout, progress=leaf.progress, where=leaf.where)
            done[node] = _above(prefix, port)
        else:
            done[node] = node.with_inputs([done[i] for i in node.inputs])
    return done[root]


def _above(prefix: Node, bottom: Node) -> Node:
    """Row operators over another node than their port."""
    done: dict[Node, Node] = {}
    for node in prefix.topological():
        done[node] = bottom if isinstance(node, Port) else node.with_inputs([done[i] for i in node.inputs])
    return done[prefix]


def _packed(spark: SparkSession, feed: Feed, packer: Packer, files_per_batch: int | None) -> DataFrame:
    """The chunks of one source."""
    data = feed.source.data
    if isinstance(data, SparkData):
        return data.frame.select(*(f"`{n.replace('`', '``')}`" for n in feed.schema.names)).mapInArrow(packer.rows, DDL)
    assert isinstance(data, ParquetData)
    # Spark watches the folder and hands out paths; the tasks read the files themselves.
    files = spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", "*.parquet")
    files = files.option("recursiveFileLookup", "true")
    if files_per_batch is not None:
        files = files.option("maxFilesPerTrigger", files_per_batch)
    folder = data.root
    return files.load(folder).select("path", "length").mapInArrow(packer.files(folder), DDL)


def _ticking(spark: SparkSession, packer: Packer) -> DataFrame:
    """The clock as chunks. Spark notes which of its times a micro-batch took, so that a repetition sees the same ones."""
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return clock.select("timestamp").mapInArrow(packer.clock, DDL)


# --- what cannot run -----------------------------------------------------------------------------------------------------


def _check(root: Node, to: Sink, shape: emit.Shape) -> None:
    """Refuse what could never give an answer, and explain what may hold progress back."""
    for source in _sources(root):
        _check_source(source)
    for node in root.topological():
        if isinstance(node, Sample | Resample) and node.fill is not None and node.fill.max_gap is None:
            raise PlanError(
                f"{node.name()}: without max_gap a sensor that falls silent would hold back progress for ever",
                hint='say how long a gap may be: fill=hp.linear(max_gap="5s")',
                where=node.where,
            )
        if isinstance(node, Above) and node.report is None:
            _log.warning(
                "above (%s): an interval that stays open holds back the progress of all keys; report= cuts it",
                node.where,
            )
    if not isinstance(to, Memory):
        check_grid(root.type)
        schema = emit.schema(root.type, shape)
        for taken in ("batch", "query") if isinstance(to, Table) else ("batch",):
            if taken in schema.names:
                raise ParameterError(f"start: the result has a column {taken!r}, which names the folders of the sink")
        if isinstance(to, Csv):
            check_cells(schema)


def _check_source(source: Source) -> None:
    if not isinstance(source.data, ParquetData | SparkData):
        raise UnsupportedError(
            f"start: {source.data.identity} is not a stream",
            hint="hp.read.parquet follows a folder into which files arrive, hp.from_spark takes a streaming DataFrame",
            where=source.where,
        )
    if isinstance(source.data, SparkData) and not source.data.frame.isStreaming:
        raise PlanError(
            "start: the DataFrame is not a streaming one",
            hint="make it with spark.readStream, or run the query with to_spark",
            where=source.where,
        )
    policy = source.progress
    if policy is None:
        raise PlanError(
            f"start: {source.data.identity} promises no progress, so no result would ever be final",
            hint='say how late rows may come: progress=hp.delayed("5s")',
            where=source.where,
        )
    for column in filter(None, [policy.by, policy.column]):
        if column not in source.layout.schema.names:
            names = ", ".join(source.layout.schema.names)
            raise ParameterError(f"progress: no column {column!r}; the data has: {names}", where=source.where)


def _trigger(trigger: str | None) -> dict[str, Any]:
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


def _in_full(path: str) -> str:
    """A path that means the same in every process: Spark's may have started in another folder."""
    return os.path.abspath(path) if ":" not in path.partition("/")[0] else path


def settings_of(spark: SparkSession, checkpoint: str, shards: int) -> dict[str, str]:
    """What a query runs with."""
    here = spark.version.startswith("4.3.") and on_this_machine(spark, checkpoint) is not None
    return {**_SETTINGS, **(_ON_THIS_MACHINE if here else {}), "spark.sql.shuffle.partitions": str(shards)}


_CONF = threading.Lock()


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
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
