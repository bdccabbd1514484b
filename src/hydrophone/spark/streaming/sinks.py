"""What happens at the end of every micro-batch: results and late rows are written, metrics are gathered."""

from __future__ import annotations

import json
import logging
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone.connect.files import flush_to_disk
from hydrophone.connect.parquet import Parquet
from hydrophone.connect.sink import FileWriter, Sink
from hydrophone.engine.watch import MarkWatch, UnmarkedSources
from hydrophone.model.time import MIN_TIME
from hydrophone.spark.arrow_types import spark_arrow_schema, spark_schema, to_spark_types
from hydrophone.spark.exchange.table_bytes import table_from_bytes
from hydrophone.spark.streaming.chunks import SINK, Chunk, Kind
from hydrophone.spark.streaming.claims import Claims
from hydrophone.spark.streaming.outlets import Outlet, on_this_machine
from hydrophone.spark.streaming.partial_aggregates import AnnouncedMarks
from hydrophone.spark.streaming.source_log import SourceLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

Metrics = dict[str, Any]

_log = logging.getLogger("hydrophone")


@dataclass(frozen=True)
class Unpack:
    """A task that turns chunks back into rows."""

    schema: pa.Schema
    end: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives packed tables."""
        for batch in batches:
            for data in batch["data"]:
                yield from (
                    to_spark_types(table_from_bytes(data.as_buffer()), self.schema, self.end)
                    .combine_chunks()
                    .to_batches()
                )


@dataclass(frozen=True)
class MicroBatchWriter:
    """Writes one micro-batch; Spark calls it again with the same number after a crash, and it replaces what it had written.

    Attributes
    ----------
    to : where results go
    result : their schema
    outlets : everything that is written
    drafts : the files that tasks write; None where Spark must write
    query : the id that the checkpoint holds
    watch : what reports sources whose marks stand still
    unmarked : what ends a query whose source never sends a mark
    announced : what announces marks to the tasks of the next micro-batch; None: they merge nothing
    claims : what sees that outlets are still there
    log : what sees that all files were read
    """

    to: Sink
    result: pa.Schema
    outlets: tuple[Outlet, ...]
    drafts: Drafts | None
    query: str
    watch: MarkWatch
    unmarked: UnmarkedSources
    claims: Claims
    log: SourceLog
    announced: AnnouncedMarks | None = None

    def __call__(self, chunks: DataFrame, batch: int) -> None:
        """Write results and late rows; warn of late rows and of sources that stand still."""
        self.claims.check(chunks.sparkSession)
        drafts = self.drafts
        metrics = self._by_spark(chunks, batch) if drafts is None else self._by_tasks(chunks, batch, drafts)
        paths = {o.source: o.path for o in self.outlets}
        for source, rows in sum_by_source(metrics, "late").items():
            _log.warning("batch %d: %d late rows of source %d, %s", batch, rows, source, paths.get(source, "not kept"))
        marks, rows_of = lowest_source_marks(metrics), sum_by_source(metrics, "rows_of")
        self.watch.see(marks)
        for source, mark in marks.items():
            if mark == MIN_TIME:
                self.unmarked.see(source, rows_of.get(source, 0))
        if self.announced is not None:
            self.announced.announce(chunks.sparkSession, batch, (shard["marks"] for shard in metrics))

    def _by_tasks(self, chunks: DataFrame, batch: int, drafts: Drafts) -> list[Metrics]:
        """One job: the tasks that run the shards have written files, which are moved into place."""
        given = chunks.collect()
        self._check_read(chunks, batch, [r for r in given if r.kind == Kind.READ])
        for outlet in self.outlets:
            address = Kind.WRITTEN, outlet.kind, outlet.port
            drafts.commit(outlet, batch, [r.origin for r in given if (r.kind, r.number, r.port) == address])
        if self.to.in_process:
            self._remember(batch, [row.data for row in given if row.kind == Kind.RESULT])
        return [json.loads(row.data) for row in given if row.kind == Kind.METRICS]

    def _by_spark(self, chunks: DataFrame, batch: int) -> list[Metrics]:
        """Spark writes, wherever it can; the chunks are kept, because every action would run the stateful operators again."""
        chunks = chunks.persist()
        try:
            said = chunks.where(f"kind in ({Kind.METRICS:d}, {Kind.READ:d})").select("kind", "port", "data").collect()
            self._check_read(chunks, batch, [r for r in said if r.kind == Kind.READ])
            metrics = [json.loads(row.data) for row in said if row.kind == Kind.METRICS]
            late = sum_by_source(metrics, "late")
            for outlet in self.outlets:
                if outlet.source is None or late.get(outlet.source):
                    packed = chunks.where(f"kind = {outlet.kind:d} and port = {outlet.port}").select("data")
                    rows = packed.mapInArrow(Unpack(outlet.schema, outlet.end), spark_schema(outlet.schema))
                    outlet.sink.write(rows, self.query, batch)
            if self.to.in_process:
                results = chunks.where(f"kind = {Kind.RESULT:d}").select("data").collect()
                self._remember(batch, [row.data for row in results])
        finally:
            chunks.unpersist()
        return metrics

    def _check_read(self, chunks: DataFrame, batch: int, named: Iterable[Row]) -> None:
        read: dict[int, set[str]] = {}
        for row in named:
            read.setdefault(row.port, set()).update(json.loads(row.data))
        self.log.check(chunks.sparkSession, batch, read)

    def _remember(self, batch: int, packed: list[bytes]) -> None:
        self.to.keep(batch, pa.concat_tables([self.result.empty_table(), *map(table_from_bytes, packed)]))


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drafts:
    """Files that tasks write and the driver moves into place, in folders that readers do not see.

    Attributes
    ----------
    folders : by outlet the folder that holds its micro-batches, as Python sees it
    name : of the drafts in it
    """

    folders: Mapping[Outlet, Path]
    name: str

    @staticmethod
    def possible(spark: SparkSession, outlets: Iterable[Outlet]) -> bool:
        """Whether tasks can write all that leaves, and Python reaches it."""
        return all(o.sink.by_tasks and o.sink.folder and on_this_machine(spark, o.sink.folder) for o in outlets)

    @classmethod
    def of(cls, spark: SparkSession, outlets: Iterable[Outlet], query: str) -> Drafts | None:
        """Empty drafts, or None where Spark must write."""
        if not cls.possible(spark, outlets):
            return None
        found = ((o, on_this_machine(spark, o.sink.folder or "")) for o in outlets)
        drafts = cls({o: folder for o, folder in found if folder is not None}, f"_drafts-{query}")
        drafts.clear()
        return drafts

    @classmethod
    def at(cls, outlets: Iterable[Outlet], query: str) -> Drafts:
        """The drafts of outlets that are known to be on this machine."""
        return cls({o: Path(o.sink.folder) for o in outlets if o.sink.folder is not None}, f"_drafts-{query}")

    def clear(self) -> None:
        """Make the folders of drafts, without what tasks of an earlier start have left."""
        for folder in self.folders.values():
            shutil.rmtree(folder / self.name, ignore_errors=True)
            (folder / self.name).mkdir(parents=True)

    def write(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Write the rows that leave, in a task: chunks that name the files in their place, and all other chunks."""
        passed: list[Chunk] = []
        writers: dict[Outlet, FileWriter] = {}
        by_address = {(o.kind, o.port): o for o in self.folders}
        for chunk in chunks:
            outlet = by_address.get((chunk.kind, chunk.port))
            if outlet is None:
                passed.append(chunk)
                continue
            if outlet not in writers:
                # Two attempts at a task may write at the same time; only those that end well give the names of their files.
                name = f"{chunk.label:010}-{uuid.uuid4().hex}"
                passed.append(Chunk(chunk.label, SINK, chunk.port, Kind.WRITTEN, name, outlet.kind, b""))
                writers[outlet] = outlet.sink.open(self.folders[outlet] / self.name / name, outlet.schema)
            writers[outlet].write_table(to_spark_types(table_from_bytes(chunk.data), outlet.schema, outlet.end))
        for writer in writers.values():
            writer.close()
        return passed

    def commit(self, outlet: Outlet, batch: int, names: list[str]) -> None:
        """Put the named files in place of what the micro-batch had; results without rows are a file too, late rows are not."""
        drafts = self.folders[outlet] / self.name
        folder = self.folders[outlet] / f"batch={batch}"
        draft, old = drafts / f"new-{batch}", drafts / f"old-{batch}"
        draft.mkdir()
        for number, name in enumerate(sorted(names)):
            (drafts / name).rename(draft / f"part-{number:05}{outlet.sink.suffix}")
        if not names and outlet.source is None:
            outlet.sink.open(draft / f"part-00000{outlet.sink.suffix}", outlet.schema).close()
        (draft / "_SUCCESS").touch()
        flush_to_disk(draft)
        if folder.exists():
            folder.rename(old)
        if names or outlet.source is None:
            draft.rename(folder)
        # What is left was replaced, or belongs to attempts that did not end well.
        for rest in drafts.iterdir():
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink(missing_ok=True)


def outlets_of(
    to: Sink, result: pa.Schema, end: str | None, sources: Iterable[pa.Schema], late: str | None
) -> tuple[Outlet, ...]:
    """What is written: results, whose lifetimes may have an end, unless they stay in memory, and late rows, where they are kept."""
    aside = late_outlets(sources, late)
    if to.in_process:
        return aside
    return (Outlet(None, spark_arrow_schema(result), to, end), *aside)


def late_outlets(sources: Iterable[pa.Schema], late: str | None) -> tuple[Outlet, ...]:
    """Where the late rows of sources with these columns go; nowhere if they are not kept."""
    if not late:
        return ()
    return tuple(
        Outlet(n, spark_arrow_schema(s), Parquet(f"{late}/source={n}"), label=late) for n, s in enumerate(sources)
    )


# --- metrics ----------------------------------------------------------------------------------------------------------

OBSERVATION = "hydrophone"
"""The name of our metrics in the progress that Spark reports of a query."""
_SUMS = ("rows", "merged", "results", "keys", "state_bytes", "shed", "waiting")


def observe_metrics(chunks: DataFrame, sources: int, stages: int) -> DataFrame:
    """The same chunks; Spark adds up their metrics and reports them with its own, to listeners and through Connect too."""
    from pyspark.sql import functions

    def taken(path: str) -> str:
        return f"if(kind = {Kind.METRICS:d}, cast(get_json_object(cast(data as string), '$.{path}') as long), null)"

    parts = [f"coalesce(sum({taken(name)}), 0) as {name}" for name in _SUMS]
    parts.append(f"min({taken('passed')}) as passed")
    # Stages run one after the other, the shards of each side by side.
    parts.append(" + ".join(f"coalesce(max({taken(f'mark_us.{n}')}), 0)" for n in range(stages)) + " as mark_us")
    for n in range(sources):
        parts.append(f"coalesce(sum({taken(f'late.{n}')}), 0) as late_{n}")
        parts.append(f"min({taken(f'marks.{n}')}) as mark_{n}")
    return chunks.observe(OBSERVATION, *(functions.expr(p) for p in parts))


def reported_metrics(batch: int, found: Mapping[str, int | None], took: float) -> Metrics:
    """Our metrics, as Spark reports what `observe_metrics` asked for; marks in nanoseconds.

    The rate is over the `took` seconds of the micro-batch. Spark's own rates count what its source hands out: of files
    their number, not their rows.

    Examples
    --------
    >>> found = {"rows": 9, "merged": 0, "results": 4, "keys": 2, "state_bytes": 9, "shed": 0, "waiting": 2, "passed": 60, "mark_us": 1500}
    >>> reported_metrics(3, found | {"late_0": 0, "mark_0": 70}, took=1.5)  # doctest: +NORMALIZE_WHITESPACE
    {'batch': 3, 'rows': 9, 'merged': 0, 'results': 4, 'keys': 2, 'state_bytes': 9, 'shed': 0, 'waiting': 2,
     'rows_per_second': 6.0, 'late': {}, 'marks': {0: 70}, 'passed': 60, 'mark_ms': 1.5}
    """
    late, marks = (
        {int(name.removeprefix(kind)): value for name, value in found.items() if name.removeprefix(kind).isdigit()}
        for kind in ("late_", "mark_")
    )
    return {
        "batch": batch,
        **{name: found[name] for name in _SUMS},
        "rows_per_second": (found["rows"] or 0) / took,
        "late": {n: rows for n, rows in late.items() if rows},
        "marks": {n: mark for n, mark in marks.items() if mark is not None},
        "passed": found["passed"],
        "mark_ms": (found["mark_us"] or 0) / 1_000,
    }


def sum_by_source(shards: Iterable[Metrics], what: str) -> dict[int, int]:
    """A number by source, of all shards."""
    total: dict[int, int] = {}
    for shard in shards:
        for source, rows in shard[what].items():
            total[int(source)] = total.get(int(source), 0) + rows
    return total


def lowest_source_marks(shards: Iterable[Metrics]) -> dict[int, int]:
    """The marks of sources: of each the least that a shard knows."""
    marks: dict[int, int] = {}
    for shard in shards:
        for source, mark in shard["marks"].items():
            marks[int(source)] = min(mark, marks.get(int(source), mark))
    return marks
