"""The Spark stream of a hub: sources and requests, generic stages, and the writer at the end."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.connect.sink import Sink
from hydrophone.engine.late import Late
from hydrophone.engine.watch import MarkWatch
from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.plan.source import Source, places_of
from hydrophone.spark.arrow_types import spark_schema
from hydrophone.spark.hub.changes import Request, Told, next_pin
from hydrophone.spark.hub.folders import HubFolder
from hydrophone.spark.hub.packing import PinnedPacker, RequestPacker
from hydrophone.spark.hub.pins import Pin
from hydrophone.spark.hub.placement import without_data
from hydrophone.spark.hub.registry import Registry
from hydrophone.spark.hub.requests import SUFFIX
from hydrophone.spark.hub.shard import HubTask
from hydrophone.spark.hub.writer import HubWriter, admit
from hydrophone.spark.streaming.chunks import DDL
from hydrophone.spark.streaming.claims import Claims, Lock
from hydrophone.spark.streaming.manifest import parse_manifest, source_lines, validate_manifest
from hydrophone.spark.streaming.outlets import on_this_machine
from hydrophone.spark.streaming.refusals import check_source
from hydrophone.spark.streaming.running import RunningQuery, start_errors
from hydrophone.spark.streaming.settings import absolute_path, settings_of, spark_trigger, temporary_settings
from hydrophone.spark.streaming.shard import processor
from hydrophone.spark.streaming.sinks import Drafts, observe_metrics
from hydrophone.spark.streaming.source_frames import arriving, clock_chunks, packed
from hydrophone.spark.streaming.source_log import SourceLog
from hydrophone.spark.version import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class HubSettings:
    """What a hub is, beside its queries.

    Attributes
    ----------
    sources : with their data; watched folders first, so that their logs are known by number
    stages : how often rows may be spread over shards by a key
    late : what happens to late rows
    shards, files_per_batch, trigger, name : as in `Query.start`
    """

    sources: tuple[Source, ...]
    stages: int
    late: Late
    shards: int | None = None
    files_per_batch: int | None = None
    trigger: str | None = None
    name: str | None = None


def hub_home(spark: SparkSession, checkpoint: str) -> str:
    """The folder of a hub, which must be on a disk of this machine."""
    check_session(spark, "Hub")
    home = on_this_machine(spark, absolute_path(checkpoint))
    if home is None:
        raise UnsupportedError(
            f"Hub: tasks and users reach a hub by its folder, and {checkpoint!r} is not on a disk of this machine",
            hint="run the hub in local mode, or run each query alone: query.start(spark, to=..., checkpoint=...)",
        )
    return str(home)


def with_absolute_paths(settings: HubSettings) -> HubSettings:
    """Settings that mean the same in every process."""
    path = settings.late.path
    return settings if path is None else replace(settings, late=replace(settings.late, path=absolute_path(path)))


def check_settings(settings: HubSettings, home: str) -> None:
    """Refuse what could never run."""
    if settings.stages < 1:
        raise ParameterError(f"Hub: stages must be at least 1, got {settings.stages}")
    for source in settings.sources:
        check_source(source)
        check_output_apart(places_of(source), home, what="Hub: checkpoint", watched=True)
        if settings.late.path is not None:
            check_output_apart(places_of(source), settings.late.path, what="Hub: late", watched=True)
    ports = [source.port(0) for source in settings.sources]
    if len(set(ports)) < len(ports):
        twice = next(s for s in settings.sources if ports.count(s.port(0)) > 1)
        raise ParameterError(f"Hub: {twice.title} is given twice")


def open_folder(spark: SparkSession, settings: HubSettings, home: str) -> HubFolder:
    """The hub's folder, which agrees with the settings or is made."""
    lines = [line for source in settings.sources for line in source_lines(source)] + [
        f"a hub of {settings.stages} stages"
    ]
    identity = hashlib.sha256("\n".join(["hub", *lines]).encode()).hexdigest()[:16]
    Path(home).mkdir(parents=True, exist_ok=True)
    note = validate_manifest(spark, home, identity, lines, settings.shards)
    folder = _folder(settings, home, note)
    folder.registry.prepare()
    folder.requests.folder.mkdir(exist_ok=True)
    if not folder.definition_file.exists():
        with suppress(Exception):  # a DataFrame of Spark's cannot be written: such a hub is made anew with it
            folder.definition_file.write_text(folder.registry.put(settings))
    return folder


def known_settings(home: str) -> HubSettings:
    """The settings with which a hub was made."""
    path = Path(home) / "hub"
    if not path.exists():
        there = (
            "it was made over DataFrames, which cannot be kept" if (Path(home) / "pins").exists() else "it holds no hub"
        )
        raise ParameterError(
            f"Hub.resume: {home}: {there}", hint="make it with its sources: hp.Hub(spark, ..., checkpoint=...)"
        )
    found = Registry(Path(home) / "registry").get(path.read_text().strip())
    if not isinstance(found, HubSettings):
        raise DataError(
            f"Hub.resume: {path} names no hub", hint="make it with its sources: hp.Hub(spark, ..., checkpoint=...)"
        )
    return found


def open_client(home: str) -> tuple[HubFolder, HubSettings]:
    """The folder of a hub that another process runs, to ask something of it."""
    settings = known_settings(home)
    path = Path(home) / "hydrophone.json"
    note = parse_manifest(str(path), path.read_text() if path.exists() else "")
    return _folder(settings, home, note), settings


def _folder(settings: HubSettings, home: str, note: dict[str, Any]) -> HubFolder:
    return HubFolder(
        home,
        note["id"],
        tuple(without_data(source) for source in settings.sources),  # type: ignore[misc]
        settings.stages,
        note["shards"],
        tuple(source.data.folder is not None for source in settings.sources),
        settings.late,
    )


def start_hub(
    spark: SparkSession,
    settings: HubSettings,
    folder: HubFolder,
    lock: Lock,
    memory: MutableMapping[str, Sink],
    asked: Callable[[Request], None],
) -> RunningQuery:
    """Start the stream; what the first micro-batch runs is pinned before."""
    home, pace = folder.home, spark_trigger(settings.trigger)
    late = Claims.take(spark, home, folder.id, folder.late_outlets, "Hub")
    Drafts.at(folder.late_outlets, folder.id).clear()
    for outlet in folder.late_outlets:
        outlet.sink.prepare(spark, spark_schema(outlet.schema))
    _prepare_pins(spark, folder)
    watched = tuple(s.title for s in settings.sources if s.data.folder is not None)
    watch = MarkWatch([(s.title, "the hub") for s in settings.sources])
    writer = HubWriter(folder, memory, SourceLog(home, watched), watch, late, asked)
    with temporary_settings(spark, settings_of(spark, home, folder.shards)):
        chunks = reduce(lambda a, b: a.union(b), _frames(spark, settings, folder))
        for level in range(folder.levels):
            stage = processor(HubTask(folder, level))
            chunks = chunks.groupBy("label").transformWithStateInPandas(stage, DDL, "Append", "None")
        stream = (
            observe_metrics(chunks, len(folder.sources), folder.levels)
            .writeStream.foreachBatch(writer)
            .queryName(settings.name or f"hydrophone hub {os.path.basename(home)} {folder.id[:8]}")
            .outputMode("append")
            .option("checkpointLocation", home)
            .trigger(**pace)
        )
        with start_errors(home):
            running = stream.start()
    return RunningQuery(running, folder.late_path, lock, False, settings.trigger == "available", home)


def _frames(spark: SparkSession, settings: HubSettings, folder: HubFolder) -> list[DataFrame]:
    """The chunks of the sources in their order, of clocks, and of requests, which wake the stream."""
    frames = []
    for number, source in enumerate(settings.sources):
        names, data = source.layout.schema.names, source.data
        rows, files = (PinnedPacker(folder, number, d) for d in (None, data.for_tasks(names)))
        frames.append(packed(spark, data, names, settings.files_per_batch, rows, files))
    for number, source in enumerate(settings.sources):
        if source.progress is not None and source.progress.lull is not None:
            frames.append(clock_chunks(spark, PinnedPacker(folder, number, clock=True)))
    requests = arriving(spark, str(folder.requests.folder), (SUFFIX,), None)
    return [*frames, requests.mapInArrow(RequestPacker(folder), DDL)]


def _prepare_pins(spark: SparkSession, folder: HubFolder) -> None:
    """Pin the first micro-batch, which runs what was asked before the start; make room for drafts of all that run."""
    latest = folder.pins.latest()
    if latest is None:
        if any((Path(folder.home) / "offsets").glob("[0-9]*")):
            raise DataError(
                f"Hub: {folder.pins.folder} is empty, and the checkpoint has run already",
                hint="put back the files that were written with this checkpoint",
            )
        count = len(folder.sources)
        none = Pin(-1, Told.of((), count).seen, next_port=count)
        asked = folder.requests.after(-1)
        first = next_pin(folder, none, Told.of((), count), {}, asked, lambda query: admit(folder, spark, query))
        latest = folder.pins.write_once(first)
    before = folder.pins.find(latest.batch - 1)
    for query in {q.number: q for pin in (before, latest) if pin is not None for q in pin.queries}.values():
        outlet = folder.plan(query.plan).outlet(query)
        if outlet is not None:
            with suppress(OSError):  # the query fails when it writes
                Drafts.at([outlet], folder.id).clear()
