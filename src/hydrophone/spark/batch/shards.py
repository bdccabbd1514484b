"""The plan with an exchange: tasks pack rows by shard, Spark brings each shard together, and one task runs its pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hydrophone.compiler.stages import Input, Stage
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.row_buffer import RowBuffer
from hydrophone.engine.scan import ReadRange, Scan, earliest_start
from hydrophone.model.batch import Progress
from hydrophone.model.fixed_hash_table import KEY_COLUMNS
from hydrophone.plan.node import Node
from hydrophone.plan.source import Layout, Port, ports
from hydrophone.spark.arrow_types import end_of, to_plan_types, to_spark_types
from hydrophone.spark.exchange.shuffle import ShardPacker
from hydrophone.spark.exchange.table_bytes import table_from_bytes
from hydrophone.spark.worker import prepare


@dataclass(frozen=True)
class PortFeed:
    """The way of rows from one producer to one port of a stage: through row operators, then packed."""

    port: int
    prefix: Node
    layout: Layout

    @classmethod
    def of(cls, stage: Stage, port: int) -> PortFeed:
        """The feed of a port."""
        return cls(port, stage.inputs[port].prefix, ports(stage.root)[port].layout)


class FeedRunner:
    """Runs the feeds of one producer in a task."""

    def __init__(self, feeds: Sequence[PortFeed], shards: int) -> None:
        self.feeds = [_RunningFeed(f, shards) for f in feeds]

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Take rows of the producer."""
        if len(table):
            for feed in self.feeds:
                yield from feed.rows(table)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Pack the rest."""
        for feed in self.feeds:
            yield from feed.flush()


class _RunningFeed:
    """A feed in a task."""

    def __init__(self, feed: PortFeed, shards: int) -> None:
        self.feed, self.packer, self.pipeline = (
            feed,
            ShardPacker(feed.port, feed.layout, shards),
            Pipeline([feed.prefix]),
        )

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if isinstance(self.feed.prefix, Port):
            yield from self.packer.add(table.select(self.feed.layout.columns))
            return
        self.pipeline.rows(0, table)
        yield from self._drained()
        if len(self.pipeline.keys(self.feed.prefix)) > KEY_COLUMNS:  # a task has no more of them in mind
            yield from self._ended()
            self.pipeline = Pipeline([self.feed.prefix])

    def flush(self) -> Iterator[pa.RecordBatch]:
        yield from self._ended()
        yield from self.packer.flush()

    def _ended(self) -> Iterator[pa.RecordBatch]:
        """What row operators have held: partial aggregates."""
        self.pipeline.advance([Progress.end()])
        yield from self._drained()

    def _drained(self) -> Iterator[pa.RecordBatch]:
        prefix = self.feed.prefix
        for batch in self.pipeline.drain():
            yield from self.packer.add(emit.result_table(batch, prefix.type, self.pipeline.keys(prefix)))


@dataclass(frozen=True)
class ReadAndPack:
    """A task that reads pieces of a source and packs their rows."""

    feeds: tuple[PortFeed, ...]
    shards: int
    scan: Scan
    reads: tuple[tuple[ReadRange, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives the numbers of the shares."""
        prepare()
        feeder = FeedRunner(self.feeds, self.shards)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for table in self.scan.tables(self.reads[number]):
                    yield from feeder.rows(table)
        yield from feeder.flush()


@dataclass(frozen=True)
class PackRows:
    """A task that packs rows of a DataFrame."""

    feeds: tuple[PortFeed, ...]
    shards: int
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives the rows."""
        prepare()
        feeder = FeedRunner(self.feeds, self.shards)
        for table in merge_small_tables(batches):
            yield from feeder.rows(to_plan_types(table, self.schema))
        yield from feeder.flush()


ROWS_PER_TABLE = 1 << 18
"""Rows of a DataFrame that go through the row operators at once; Spark hands over ten thousand at a time."""


def merge_small_tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches in larger tables."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_TABLE:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def run_stage(stage: Stage, batches: Iterator[pa.RecordBatch], shape: emit.Shape = "rows") -> Iterator[pa.Table]:
    """The result of one stage over all packed rows of one task, taken in the order of time as far as it goes."""
    layouts = {number: port.layout for number, port in ports(stage.root).items()}
    pieces: list[tuple[int, int, pa.Table]] = []
    for batch in batches:
        for port, data in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            table = table_from_bytes(data.as_buffer())
            pieces.append((earliest_start(table, layouts[port]), port, table))
    pieces.sort(key=lambda piece: piece[:2])
    waiting = RowBuffer(Pipeline([stage.root]))
    for number, (_, port, table) in enumerate(pieces):
        waiting.add(port, table)
        if waiting.is_full and number + 1 < len(pieces):
            yield from _packed_rows(waiting, stage, Progress(pieces[number + 1][0]), shape)
    yield from _packed_rows(waiting, stage, Progress.end(), shape)


def _packed_rows(waiting: RowBuffer, stage: Stage, progress: Progress, shape: emit.Shape) -> Iterator[pa.Table]:
    waiting.flush()
    pipeline = waiting.pipeline
    pipeline.advance([progress] * len(stage.inputs))
    for done in pipeline.drain():
        yield emit.result_table(done, stage.root.type, pipeline.keys(stage.root), shape)


@dataclass(frozen=True)
class RunAndPack:
    """A task that runs a shard of one stage and packs its result for the next."""

    stage: Stage
    feeds: tuple[PortFeed, ...]
    shards: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives packed rows."""
        prepare()
        feeder = FeedRunner(self.feeds, self.shards)
        for table in run_stage(self.stage, batches):
            yield from feeder.rows(table)
        yield from feeder.flush()


@dataclass(frozen=True)
class RunLast:
    """A task that runs a shard of the last stage."""

    stage: Stage
    shape: emit.Shape
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives packed rows."""
        prepare()
        for table in run_stage(self.stage, batches, self.shape):
            yield from to_spark_types(table, self.schema, end_of(self.stage.root.type)).to_batches()


def without_sources(stage: Stage) -> Stage:
    """The stage as it travels to tasks: they never see a source, which may hold a DataFrame."""
    return Stage(stage.root, tuple(Input(None, None, i.prefix) for i in stage.inputs))
