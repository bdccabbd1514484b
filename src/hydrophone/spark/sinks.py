"""What happens at the end of every micro-batch: results and late rows are written, metrics are gathered."""

from __future__ import annotations

import json
import logging
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hydrophone.spark.data import held_schema, spark_schema, to_held
from hydrophone.spark.pack import DDL, SINK, Chunk, Kind, to_record_batch
from hydrophone.spark.scan import unpacked
from hydrophone.write import Memory, Parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Metrics = dict[str, Any]

_log = logging.getLogger("hydrophone")


def on_this_machine(spark: SparkSession, path: str) -> Path | None:
    """The path as Python sees it, where Spark means the same: in local mode, and where it says ``file:``."""
    scheme, colon, rest = path.partition(":")
    if colon and "/" not in scheme:
        return Path("/" + rest.lstrip("/")) if scheme == "file" else None
    return Path(path).absolute() if str(spark.conf.get("spark.master", "")).startswith("local") else None


@dataclass(frozen=True)
class Unpack:
    """A task that turns chunks back into rows."""

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives packed tables."""
        for batch in batches:
            for data in batch["data"]:
                yield from to_held(unpacked(data.as_buffer()), self.schema).combine_chunks().to_batches()


@dataclass(frozen=True)
class Outlet:
    """One kind of rows that leave: results (source None) or the late rows of a source."""

    source: int | None
    schema: pa.Schema
    path: str

    def folder(self, batch: int) -> str:
        """Where a micro-batch goes."""
        inner = "" if self.source is None else f"/source={self.source}"
        return f"{self.path}{inner}/batch={batch}"

    @property
    def condition(self) -> str:
        """Its chunks, for Spark."""
        return f"kind = {Kind.RESULT:d}" if self.source is None else f"kind = {Kind.LATE:d} and port = {self.source}"


@dataclass(frozen=True)
class Writer:
    """Writes one micro-batch; Spark calls it again with the same number after a crash, and it replaces what it had written.

    Attributes
    ----------
    result : the schema of results
    sources : the schemas of the sources' rows
    instants : columns that are shown as Spark's TIMESTAMP
    late : the folder for late rows, where they are kept
    told : takes the metrics
    """

    to: Parquet | Memory
    result: pa.Schema
    sources: tuple[pa.Schema, ...]
    instants: frozenset[str]
    late: str | None
    told: Callable[[Metrics], None]

    @cached_property
    def outlets(self) -> list[Outlet]:
        """Everything that may be written."""
        late = [Outlet(n, held_schema(s), self.late) for n, s in enumerate(self.sources) if self.late]
        if isinstance(self.to, Memory):
            return late
        return [Outlet(None, held_schema(self.result, self.instants), self.to.path), *late]

    def __call__(self, chunks: DataFrame, batch: int) -> None:
        """Write results and late rows, then tell."""
        folders = {o: on_this_machine(chunks.sparkSession, o.folder(batch)) for o in self.outlets}
        here = {o: f for o, f in folders.items() if f is not None}
        metrics = self._by_tasks(chunks, batch, here) if len(here) == len(folders) else self._by_spark(chunks, batch)
        for source, rows in metrics["late"].items():
            _log.warning("micro-batch %d: %d late rows of source %d, %s", batch, rows, source, self.late or "not kept")
        self.told(metrics)

    def _by_tasks(self, chunks: DataFrame, batch: int, folders: Mapping[Outlet, Path]) -> Metrics:
        """One job: the tasks that run the shards write files too, and the driver moves them into place."""
        drafts = {o: draft_of(folder) for o, folder in folders.items()}
        given = chunks.mapInArrow(WriteFiles({o.source: (str(d), o.schema) for o, d in drafts.items()}), DDL).collect()
        written = {o: [r.origin for r in given if r.kind == Kind.WRITTEN and r.port == _port(o.source)] for o in drafts}
        for outlet, folder in folders.items():
            commit(drafts[outlet], folder, written[outlet], outlet.schema if outlet.source is None else None)
        if isinstance(self.to, Memory):
            self._remember(batch, [row.data for row in given if row.kind == Kind.RESULT])
        return combined(batch, [json.loads(row.data) for row in given if row.kind == Kind.METRICS])

    def _by_spark(self, chunks: DataFrame, batch: int) -> Metrics:
        """Spark writes, wherever it can; the chunks are kept, because every action would run the stateful operators again."""
        chunks = chunks.persist()
        try:
            told = chunks.where(f"kind = {Kind.METRICS:d}").select("data").collect()
            metrics = combined(batch, [json.loads(row.data) for row in told])
            for outlet in self.outlets:
                if outlet.source is None or metrics["late"].get(outlet.source):
                    packed = chunks.where(outlet.condition).select("data")
                    rows = packed.mapInArrow(Unpack(outlet.schema), spark_schema(outlet.schema))
                    rows.write.mode("overwrite").parquet(outlet.folder(batch))
            if isinstance(self.to, Memory):
                results = chunks.where(f"kind = {Kind.RESULT:d}").select("data").collect()
                self._remember(batch, [row.data for row in results])
        finally:
            chunks.unpersist()
        return metrics

    def _remember(self, batch: int, packed: list[bytes]) -> None:
        assert isinstance(self.to, Memory)
        self.to.batches[batch] = pa.concat_tables([self.result.empty_table(), *map(unpacked, packed)])


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WriteFiles:
    """A task that writes rows that leave as Parquet files into drafts, and gives the names of the files; other chunks pass."""

    drafts: Mapping[int | None, tuple[str, pa.Schema]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives the chunks of a shard."""
        writers: dict[tuple[int | None, int], tuple[str, pq.ParquetWriter]] = {}
        for batch in batches:
            for row in range(batch.num_rows):
                kind, port, label = (batch[n][row].as_py() for n in ("kind", "port", "label"))
                source = port if kind == Kind.LATE else None
                if kind not in (Kind.RESULT, Kind.LATE) or source not in self.drafts:
                    yield batch.slice(row, 1)
                    continue
                folder, schema = self.drafts[source]
                if (source, label) not in writers:
                    # Two attempts at a task may write at the same time; only the files of the one that ends well are named.
                    name = f"{label:08}-{uuid.uuid4().hex}"
                    writers[source, label] = name, pq.ParquetWriter(f"{folder}/{name}", schema)
                writers[source, label][1].write_table(to_held(unpacked(batch["data"][row].as_buffer()), schema))
        for (source, label), (name, writer) in writers.items():
            writer.close()
            yield to_record_batch([Chunk(label, SINK, _port(source), Kind.WRITTEN, name, 0, b"")])


def _port(source: int | None) -> int:
    return -1 if source is None else source


def draft_of(folder: Path) -> Path:
    """A new folder beside `folder` that readers do not see; those that a crash left behind are removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for old in folder.parent.glob(f"_{folder.name}-*"):
        shutil.rmtree(old)
    draft = folder.with_name(f"_{folder.name}-{uuid.uuid4().hex}")
    draft.mkdir()
    return draft


def commit(draft: Path, folder: Path, names: list[str], schema: pa.Schema | None) -> None:
    """Put the named files of a draft in place of what the folder held; where there are none, a file without rows (or nothing)."""
    for file in list(draft.iterdir()):
        if file.name not in names:
            file.unlink()
    for number, name in enumerate(sorted(names)):
        (draft / name).rename(draft / f"part-{number:05}.parquet")
    if not names and schema is not None:
        pq.write_table(schema.empty_table(), draft / "part-00000.parquet")
    (draft / "_SUCCESS").touch()
    if folder.exists():
        folder.rename(folder.with_name(f"_{folder.name}-old"))
    if names or schema is not None:
        draft.rename(folder)
    shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(folder.with_name(f"_{folder.name}-old"), ignore_errors=True)


def combined(batch: int, shards: list[Metrics]) -> Metrics:
    """The metrics of all shards as those of the query; marks in nanoseconds."""
    late: dict[int, int] = {}
    marks: dict[int, int] = {}
    for shard in shards:
        for source, rows in shard["late"].items():
            late[int(source)] = late.get(int(source), 0) + rows
        for source, mark in shard["marks"].items():
            marks[int(source)] = min(mark, marks.get(int(source), mark))
    total = {name: sum(s[name] for s in shards) for name in ("rows", "results", "keys", "state_bytes")}
    return {"batch": batch, **total, "late": late, "marks": marks}
