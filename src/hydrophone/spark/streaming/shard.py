"""A shard of a streaming query: chunks of a micro-batch in, the pipeline of its stage, chunks for the next stage or the sink out."""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from hydrophone.engine import emit
from hydrophone.engine.late import Late
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Batch
from hydrophone.model.key_table import shard_of_keys
from hydrophone.plan.node import Node
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.exchange.table_bytes import table_to_bytes
from hydrophone.spark.streaming.chunks import SCHEMA, SINK, Chunk, Kind, chunk_tables, chunks_by_shard
from hydrophone.spark.streaming.intake import Inlet, Intake, ShardInput
from hydrophone.spark.streaming.partial_aggregates import merge_partials
from hydrophone.spark.streaming.shard_state import BLOCKS, ShardState
from hydrophone.spark.streaming.sinks import Drafts


@dataclass(frozen=True)
class ShardPlan:
    """One stage of a streaming query, as a shard runs it.

    Attributes
    ----------
    stage : its number
    roots : what it computes, over ports that take rows as they travel
    outlets : for every root the (stage, port) that it feeds; none for the last stage, whose one root is the answer
    shards : how many there are
    """

    stage: int
    roots: tuple[Node, ...]
    inlets: tuple[Inlet, ...]
    outlets: tuple[tuple[int, int], ...]
    shards: int
    late: Late
    shape: emit.Shape


class Shard:
    """A share of the keys of one stage."""

    def __init__(self, plan: ShardPlan, number: int, blocks: Mapping[str, bytes]) -> None:
        self.plan, self.number = plan, number
        self.label = shard_labels(plan.shards)[number]
        self.pipeline = Pipeline(plan.roots)
        self.intake = Intake(self.pipeline, plan.shards, plan.late)
        self.intake.connect(dict(enumerate(plan.inlets)))
        self.sizes = {path: len(data) for path, data in blocks.items()}
        if blocks:
            self._restore(dict(blocks))

    def run(self, chunks: Iterable[Chunk]) -> tuple[list[Chunk], dict[str, bytes | None]]:
        """One micro-batch: step all rows, advance once. Gives chunks and the state that changed."""
        given = self.intake.sort(chunks)
        out: list[Chunk] = []
        for port in sorted(given.partials):
            merge_partials(self.pipeline, port, given.partials[port])
        late = self.intake.take(given)
        out += late_chunks(self.intake, self.label)
        begin = time.perf_counter()
        self.intake.advance()
        self.pipeline.check()
        # A root may feed several ports.
        found = {root: self.pipeline.drain(root) for root in dict.fromkeys(self.plan.roots)}
        results = sum(self._emit(i, found[root], out) for i, root in enumerate(self.plan.roots))
        took = time.perf_counter() - begin
        self.pipeline.sweep()
        changed = self._changed()
        out.append(self._to_sink(Kind.METRICS, 0, json.dumps(self._metrics(given, results, late, took)).encode()))
        return out, changed

    # --- output ---------------------------------------------------------------------------------------------------------

    def _emit(self, which: int, batches: list[Batch], out: list[Chunk]) -> int:
        """Pack what has reached a root, and for a later stage the mark of this shard."""
        root = self.plan.roots[which]
        if self.plan.outlets:
            out += stage_chunks(self.pipeline, root, batches, self.number, self.plan.shards, *self.plan.outlets[which])
            return 0
        tables = list(emit.result_tables(batches, root.type, self.pipeline.keys(root), self.plan.shape))
        if not tables:
            return 0
        table = pa.concat_tables(tables)
        out.extend(self._to_sink(Kind.RESULT, 0, table_to_bytes(p)) for p in chunk_tables(table))
        return len(table)

    def _to_sink(self, kind: Kind, source: int, data: bytes) -> Chunk:
        return Chunk(self.label, SINK, source, kind, "", 0, data)

    def _metrics(self, given: ShardInput, results: int, late: dict[int, int], took: float) -> dict[str, Any]:
        sources = {p: i.source for p, i in enumerate(self.plan.inlets) if i.source is not None}
        last = {} if self.plan.outlets else {"passed": self.pipeline.progress(self.plan.roots[0]).mark}
        return {
            "stage": self.plan.stage,
            "shard": self.number,
            "rows": sum(given.arrived(p) for p in sources),
            "rows_of": {str(s): given.arrived(p) for p, s in sources.items()},
            "merged": sum(given.taken.get(p, 0) for p in sources),
            "results": results,
            "late": {str(s): n for s, n in late.items()},
            "keys": sum(t.live for t in self.pipeline.scopes.values()),
            "state_bytes": sum(self.sizes.values()),
            "shed": sum(self.pipeline.shed.values()),
            "waiting": self.pipeline.waiting,
            "marks": {str(s): far for p, s in sources.items() if (far := self.intake.slowest_mark(p)) is not None},
            "mark_us": {str(self.plan.stage): round(took * 1e6)},
            **last,
        }

    # --- state ----------------------------------------------------------------------------------------------------------

    def _changed(self) -> dict[str, bytes | None]:
        trackers = list(self.intake.saved().values())
        changed = self.pipeline.snapshot(changed=True) | {"trackers": json.dumps(trackers).encode()}
        for path, data in changed.items():
            if data is None:
                self.sizes.pop(path, None)
            else:
                self.sizes[path] = len(data)
        return changed

    def _restore(self, blocks: dict[str, bytes]) -> None:
        self.intake.load(dict(enumerate(json.loads(blocks.pop("trackers")))))
        self.pipeline.restore(blocks)


def stage_chunks(
    pipeline: Pipeline, root: Node, batches: list[Batch], number: int, shards: int, stage: int, port: int
) -> Iterator[Chunk]:
    """What has reached a root in the shard of that number, for the shards of a later stage, and its progress for all of them."""
    tables = list(emit.result_tables(batches, root.type, pipeline.keys(root), "rows"))
    labels = shard_labels(shards)
    if tables:
        table = pa.concat_tables(tables)
        shard = shard_of_keys([table[k] for k in root.type.key.names], shards, len(table))
        yield from chunks_by_shard(table, shard, labels, stage, port, f"{number:08}", 0)
    progress = pipeline.progress(root)
    for kind, mark in ((Kind.MARK, progress.mark), (Kind.JOINT, progress.joint)):
        if mark is not None:
            data = json.dumps({str(number): mark}).encode()
            yield from (Chunk(label, stage, port, kind, "", 0, data) for label in labels)


def late_chunks(intake: Intake, label: int) -> list[Chunk]:
    """The late rows that an intake has set aside, for the sink."""
    aside, intake.aside = intake.aside, []
    return [Chunk(label, SINK, source, Kind.LATE, "", 0, table_to_bytes(rows)) for source, rows in aside]


@dataclass(frozen=True)
class ShardTask:
    """What a task does for one shard in one micro-batch.

    Attributes
    ----------
    query : the id of the query
    plan : the stage
    drafts : where the task may write results itself
    """

    query: str
    plan: ShardPlan
    drafts: Drafts | None

    def run(self, label: int, rows: Iterable[pd.DataFrame], blocks: Any) -> Iterator[pd.DataFrame]:
        """Run one micro-batch of one shard, whose state Spark gives; what is addressed elsewhere is handed on."""
        number = shard_labels(self.plan.shards).index(label)
        mine: list[Chunk] = []
        yield from others(rows, self.plan.stage, mine)
        if not mine:
            return
        owner = f"query {self.query}, stage {self.plan.stage},"
        state: ShardState[Shard] = ShardState(blocks, owner, self.plan.shards)
        shard = state.load(label, lambda found: Shard(self.plan, number, found))
        chunks, changed = shard.run(mine)
        state.save(label, shard, changed)
        if self.drafts is not None:
            chunks = self.drafts.write(chunks)
        yield to_frame(chunks)


def others(frames: Iterable[pd.DataFrame], stage: int, mine: list[Chunk]) -> Iterator[pd.DataFrame]:
    """The rows that are addressed elsewhere, which are handed on; those of this stage are added to `mine` as chunks."""
    for frame in frames:
        here = frame["stage"] == stage
        if not here.all():
            yield frame[~here]
        mine += [Chunk(*row) for row in frame[here].itertuples(index=False, name=None)]


def to_frame(chunks: Iterable[Chunk]) -> pd.DataFrame:
    """Chunks as Spark takes them from a shard."""
    return pd.DataFrame([[getattr(c, n) for n in SCHEMA.names] for c in chunks], columns=SCHEMA.names)


class Task(Protocol):
    """What a task does for one shard in one micro-batch."""

    def run(self, label: int, rows: Iterable[pd.DataFrame], blocks: Any) -> Iterator[pd.DataFrame]:
        """Run one micro-batch of one shard, whose state Spark gives; what is addressed elsewhere is handed on."""


def processor(task: Task) -> StatefulProcessor:
    """Spark's view of a stage: called once per shard and micro-batch.

    A class within a function travels by value, and the task as bytes. So the Python process that Spark starts on the driver
    at every start of a query, only to ask for the state's name and types, does not import this package: that takes seconds, and
    the process has ten.
    """
    data, state = cloudpickle.dumps(task), BLOCKS  # type: ignore[no-untyped-call]

    class Processor(StatefulProcessor):
        def __init__(self) -> None:
            self.silences = "pyspark.sql.streaming.transform_with_state_driver_worker"
            self.task: Any = None

        def __setstate__(self, kept: dict[str, Any]) -> None:
            # That process would print all of the query into the log.
            self.__dict__.update(kept)
            host = sys.modules["__main__"]
            if getattr(host.__spec__, "name", "") == self.silences:
                host.print = lambda *words, **options: None  # type: ignore[attr-defined]

        def init(self, handle: StatefulProcessorHandle) -> None:
            self.blocks = handle.getMapState(*state)

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            if self.task is None:
                self.task = pickle.loads(data)  # the plan, as the driver sent it with this class
            return self.task.run(int(key[0]), rows, self.blocks)

        def close(self) -> None:
            pass  # the live shard outlives the task

    return Processor()
