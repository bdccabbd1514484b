"""Queries as streams: Spark's own streaming query around the plans of all shards."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from hydrophone.connect.output_conflicts import check_output_apart, check_outputs_separate, path_below
from hydrophone.connect.sink import Sink
from hydrophone.engine import emit, late
from hydrophone.engine.late import Action
from hydrophone.engine.watch import MarkWatch, UnmarkedSources, check_stream, first_waiting_operator
from hydrophone.errors import ParameterError, UnsupportedError
from hydrophone.plan.node import Node
from hydrophone.plan.source import places_of, sources
from hydrophone.spark.arrow_types import check_grid, end_of, local_path, spark_schema
from hydrophone.spark.streaming.chunks import DDL
from hydrophone.spark.streaming.claims import Claims, Lock
from hydrophone.spark.streaming.manifest import described, plan_digest, validate_manifest
from hydrophone.spark.streaming.outlets import is_remote, on_this_machine
from hydrophone.spark.streaming.partial_aggregates import AnnouncedMarks
from hydrophone.spark.streaming.refusals import check_source
from hydrophone.spark.streaming.running import RunningQuery, start_errors
from hydrophone.spark.streaming.settings import absolute_path, settings_of, spark_trigger, temporary_settings
from hydrophone.spark.streaming.shard import ShardTask, processor
from hydrophone.spark.streaming.sinks import (
    Drafts,
    MicroBatchWriter,
    observe_metrics,
    outlets_of,
)
from hydrophone.spark.streaming.source_frames import clock_chunks, source_chunks
from hydrophone.spark.streaming.source_log import SourceLog
from hydrophone.spark.streaming.stage_plans import StreamPlan
from hydrophone.spark.version import check_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("hydrophone")


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
    check_query(root, to, shape)
    pace = spark_trigger(trigger)
    if to.in_process and is_remote(spark):
        raise UnsupportedError(
            "start: through Spark Connect results cannot stay in this process, because the server writes them",
            hint='write files: to=hp.write.parquet("clean/")',
        )
    checkpoint, late = absolute_path(checkpoint), replace(late, path=late.path and absolute_path(late.path))
    to = to if to.folder is None else to.moved(absolute_path(to.folder))
    query = StreamPlan.of(root, late)
    late_path = (late.path or f"{checkpoint}/late") if late.action is Action.SIDE else None
    _check_places(root, to, late, checkpoint)
    with Lock(on_this_machine(spark, checkpoint)) as lock:
        note = validate_manifest(spark, checkpoint, plan_digest(query.stages), described(query.stages), shards)
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
        with temporary_settings(spark, settings_of(spark, checkpoint, note["shards"])):
            feeds = [*watched, *(f for f in query.feeds if f not in watched)]
            packers = [query.packer(f, note["shards"], None if announced is None else announced.query) for f in feeds]
            frames = [
                source_chunks(spark, f, p, n, files_per_batch)
                for n, (f, p) in enumerate(zip(feeds, packers, strict=True))
            ]
            frames += [clock_chunks(spark, packer.clock) for packer in packers if packer.policy.lull is not None]
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
            with start_errors(checkpoint):
                running = stream.start()
        return RunningQuery(running, late_path, lock, root.type.clock == "zoned", trigger == "available", checkpoint)


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


# --- what cannot run -----------------------------------------------------------------------------------------------------


def check_query(root: Node, to: Sink, shape: emit.Shape) -> None:
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
