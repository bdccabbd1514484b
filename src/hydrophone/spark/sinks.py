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
import pyarrow.parquet as pq

from hydrophone.engine.watch import Unmarked, Watch
from hydrophone.errors import ParameterError, UnsupportedError
from hydrophone.io.parquet import repeated
from hydrophone.spark.data import held_schema, spark_schema, to_held
from hydrophone.spark.pack import SINK, Chunk, Kind
from hydrophone.spark.partial import Told
from hydrophone.spark.wire import unpacked
from hydrophone.time import MIN_TIME
from hydrophone.write import Csv, Memory, Sink, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Metrics = dict[str, Any]

_log = logging.getLogger("hydrophone")


def is_remote(spark: SparkSession) -> bool:
    """Whether a session talks to a Spark Connect server, which may be another machine."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def on_this_machine(spark: SparkSession, path: str) -> Path | None:
    """The path as Python sees it, where Spark means the same: in local mode, and where it says ``file:``; never through Connect."""
    if is_remote(spark):
        return None
    scheme, colon, rest = path.partition(":")
    if colon and "/" not in scheme:
        return Path("/" + rest.lstrip("/")) if scheme == "file" else None
    return Path(path).absolute() if str(spark.conf.get("spark.master", "")).startswith("local") else None


@dataclass(frozen=True)
class Unpack:
    """A task that turns chunks back into rows."""

    schema: pa.Schema
    end: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives packed tables."""
        for batch in batches:
            for data in batch["data"]:
                yield from to_held(unpacked(data.as_buffer()), self.schema, self.end).combine_chunks().to_batches()


RESULTS = 0
"""The port of results."""


@dataclass(frozen=True)
class Outlet:
    """One kind of rows that leave: results (source None) or the late rows of a source."""

    source: int | None
    schema: pa.Schema
    path: str
    form: str = "parquet"
    end: str | None = None

    def folder(self, batch: int) -> str:
        """Where a micro-batch goes."""
        inner = "" if self.source is None else f"/source={self.source}"
        return f"{self.path}{inner}/batch={batch}"

    @property
    def kind(self) -> Kind:
        """Of its chunks."""
        return Kind.RESULT if self.source is None else Kind.LATE

    @property
    def port(self) -> int:
        """Of its chunks."""
        return RESULTS if self.source is None else self.source


@dataclass(frozen=True)
class Writer:
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
    told : what tells marks to the tasks of the next micro-batch; None: they merge nothing
    """

    to: Sink
    result: pa.Schema
    outlets: tuple[Outlet, ...]
    drafts: Drafts | None
    query: str
    watch: Watch
    unmarked: Unmarked
    told: Told | None = None

    def __call__(self, chunks: DataFrame, batch: int) -> None:
        """Write results and late rows; warn of late rows and of sources that stand still."""
        drafts = self.drafts
        told = self._by_spark(chunks, batch) if drafts is None else self._by_tasks(chunks, batch, drafts)
        paths = {o.source: o.path for o in self.outlets}
        for source, rows in summed(told, "late").items():
            _log.warning("batch %d: %d late rows of source %d, %s", batch, rows, source, paths.get(source, "not kept"))
        marks, rows_of = least_marks(told), summed(told, "rows_of")
        self.watch.see(marks)
        for source, mark in marks.items():
            if mark == MIN_TIME:
                self.unmarked.see(source, rows_of.get(source, 0))
        if self.told is not None:
            self.told.tell(chunks.sparkSession, batch, (shard["marks"] for shard in told))

    def _by_tasks(self, chunks: DataFrame, batch: int, drafts: Drafts) -> list[Metrics]:
        """One job: the tasks that run the shards have written files, which are moved into place."""
        given = chunks.collect()
        for outlet in self.outlets:
            address = Kind.WRITTEN, outlet.kind, outlet.port
            drafts.commit(outlet, batch, [r.origin for r in given if (r.kind, r.number, r.port) == address])
        if isinstance(self.to, Memory):
            self._remember(batch, [row.data for row in given if row.kind == Kind.RESULT])
        return [json.loads(row.data) for row in given if row.kind == Kind.METRICS]

    def _by_spark(self, chunks: DataFrame, batch: int) -> list[Metrics]:
        """Spark writes, wherever it can; the chunks are kept, because every action would run the stateful operators again."""
        chunks = chunks.persist()
        try:
            rows_told = chunks.where(f"kind = {Kind.METRICS:d}").select("data").collect()
            told = [json.loads(row.data) for row in rows_told]
            late = summed(told, "late")
            for outlet in self.outlets:
                if outlet.source is None or late.get(outlet.source):
                    packed = chunks.where(f"kind = {outlet.kind:d} and port = {outlet.port}").select("data")
                    rows = packed.mapInArrow(Unpack(outlet.schema, outlet.end), spark_schema(outlet.schema))
                    self._write(rows, outlet, batch)
            if isinstance(self.to, Memory):
                results = chunks.where(f"kind = {Kind.RESULT:d}").select("data").collect()
                self._remember(batch, [row.data for row in results])
        finally:
            chunks.unpersist()
        return told

    def _write(self, rows: DataFrame, outlet: Outlet, batch: int) -> None:
        if outlet.form == "table":
            marked = rows.selectExpr("*", f"'{self.query}' as query", f"{batch}L as batch")
            # Its own partition alone: the session of the stream overwrites dynamically.
            marked.write.mode("overwrite").insertInto(outlet.path, overwrite=True)
        elif outlet.form == "csv":
            flat(rows).write.mode("overwrite").csv(outlet.folder(batch), header=True)
        else:
            rows.write.mode("overwrite").parquet(outlet.folder(batch))

    def _remember(self, batch: int, packed: list[bytes]) -> None:
        assert isinstance(self.to, Memory)
        self.to.batches[batch] = pa.concat_tables([self.result.empty_table(), *map(unpacked, packed)])


# --- files ------------------------------------------------------------------------------------------------------------


def claim(spark: SparkSession, outlets: Iterable[Outlet], query: str) -> None:
    """Refuse folders with micro-batches of another query, which ours would replace; mark the others as ours."""
    for outlet in outlets:
        here = None if outlet.form == "table" else on_this_machine(spark, outlet.folder(0))
        if here is None:
            continue
        mark = here.parent / f"_query-{query}"
        if not mark.exists() and any(here.parent.glob("batch=*")):
            raise ParameterError(
                f"start: {outlet.path} holds results of another query, or of this one with another checkpoint",
                hint="choose another folder, or start with the checkpoint that belongs to it",
            )
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


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

    @classmethod
    def of(cls, spark: SparkSession, outlets: Iterable[Outlet], query: str) -> Drafts | None:
        """Empty drafts, or None where Python cannot reach all outlets."""
        found = {o: on_this_machine(spark, o.folder(0)) if o.form == "parquet" else None for o in outlets}
        folders = {o: f.parent for o, f in found.items() if f is not None}
        if len(folders) < len(found):
            return None
        drafts = cls(folders, f"_drafts-{query}")
        for folder in folders.values():
            shutil.rmtree(folder / drafts.name, ignore_errors=True)
            (folder / drafts.name).mkdir(parents=True)
        return drafts

    def write(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Write the rows that leave, in a task: chunks that name the files in their place, and all other chunks."""
        passed: list[Chunk] = []
        writers: dict[Outlet, pq.ParquetWriter] = {}
        by_address = {(o.kind, o.port): o for o in self.folders}
        for chunk in chunks:
            port = chunk.port if chunk.kind == Kind.LATE else RESULTS
            outlet = by_address.get((chunk.kind, port))
            if outlet is None:
                passed.append(chunk)
                continue
            if outlet not in writers:
                # Two attempts at a task may write at the same time; only those that end well give the names of their files.
                name = f"{chunk.label:010}-{uuid.uuid4().hex}"
                passed.append(Chunk(chunk.label, SINK, port, Kind.WRITTEN, name, outlet.kind, b""))
                path, often = self.folders[outlet] / self.name / name, repeated(outlet.schema)
                writers[outlet] = pq.ParquetWriter(path, outlet.schema, use_dictionary=often)
            writers[outlet].write_table(to_held(unpacked(chunk.data), outlet.schema, outlet.end))
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
            (drafts / name).rename(draft / f"part-{number:05}.parquet")
        if not names and outlet.source is None:
            pq.write_table(outlet.schema.empty_table(), draft / "part-00000.parquet")
        (draft / "_SUCCESS").touch()
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
    aside = [Outlet(n, held_schema(s), late) for n, s in enumerate(sources) if late]
    if isinstance(to, Memory):
        return tuple(aside)
    path, form = (to.name, "table") if isinstance(to, Table) else (to.path, "csv" if isinstance(to, Csv) else "parquet")
    return (Outlet(None, held_schema(result), path, form, end), *aside)


def check_cells(schema: pa.Schema) -> None:
    """Refuse what CSV has no cell for; complex values become two columns."""
    for field in schema.empty_table().flatten().schema:
        if pa.types.is_nested(field.type):
            raise UnsupportedError(
                f"write.csv: column {field.name!r} holds {field.type}, which has no place in a cell",
                hint="write Parquet: hp.write.parquet(...)",
            )


def flat(frame: DataFrame) -> DataFrame:
    """Complex values as two columns."""
    parts: list[str] = []
    for field in frame.schema.fields:
        quoted = f"`{field.name}`"
        inner = field.dataType.fieldNames() if field.dataType.typeName() == "struct" else None  # type: ignore[attr-defined]
        parts += [quoted] if inner is None else [f"{quoted}.{n} as `{field.name}.{n}`" for n in inner]
    return frame.selectExpr(*parts)


def prepare_table(spark: SparkSession, outlets: Iterable[Outlet], form: str | None) -> None:
    """Make the table of results, or see that the one that is there fits."""
    for outlet in (o for o in outlets if o.form == "table"):
        wanted = [*outlet.schema.names, "query", "batch"]
        if spark.catalog.tableExists(outlet.path):
            found = spark.table(outlet.path).columns
            if found != wanted:
                raise ParameterError(
                    f"write.table: {outlet.path} has the columns {', '.join(found)}; a stream writes {', '.join(wanted)}",
                    hint="choose another name: the stream makes the table",
                )
            continue
        empty = spark.createDataFrame([], spark_schema(outlet.schema))
        writer = empty.selectExpr("*", "'' as query", "0L as batch").write.partitionBy("query", "batch")
        (writer.format(form) if form else writer).saveAsTable(outlet.path)


# --- metrics ----------------------------------------------------------------------------------------------------------

OBSERVED = "hydrophone"
"""The name of our metrics in the progress that Spark reports of a query."""
_SUMS = ("rows", "merged", "results", "keys", "state_bytes", "shed")


def observed(chunks: DataFrame, sources: int, stages: int) -> DataFrame:
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
    return chunks.observe(OBSERVED, *(functions.expr(p) for p in parts))


def reported(batch: int, found: Mapping[str, int | None], took: float) -> Metrics:
    """Our metrics, as Spark reports what `observed` asked for; marks in nanoseconds.

    The rate is over the `took` seconds of the micro-batch. Spark's own rates count what its source hands out: of files
    their number, not their rows.

    Examples
    --------
    >>> found = {"rows": 9, "merged": 0, "results": 4, "keys": 2, "state_bytes": 100, "shed": 0, "passed": 60, "mark_us": 1500}
    >>> reported(3, found | {"late_0": 0, "mark_0": 70}, took=1.5)  # doctest: +NORMALIZE_WHITESPACE
    {'batch': 3, 'rows': 9, 'merged': 0, 'results': 4, 'keys': 2, 'state_bytes': 100, 'shed': 0, 'rows_per_second': 6.0,
     'late': {}, 'marks': {0: 70}, 'passed': 60, 'mark_ms': 1.5}
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


def summed(shards: Iterable[Metrics], what: str) -> dict[int, int]:
    """A number by source, of all shards."""
    total: dict[int, int] = {}
    for shard in shards:
        for source, rows in shard[what].items():
            total[int(source)] = total.get(int(source), 0) + rows
    return total


def least_marks(shards: Iterable[Metrics]) -> dict[int, int]:
    """The marks of sources: of each the least that a shard knows."""
    marks: dict[int, int] = {}
    for shard in shards:
        for source, mark in shard["marks"].items():
            marks[int(source)] = min(mark, marks.get(int(source), mark))
    return marks
