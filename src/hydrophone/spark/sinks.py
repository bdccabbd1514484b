"""What happens at the end of every micro-batch: results and late rows are written, metrics are gathered."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone.spark.data import held_schema, spark_schema, to_held
from hydrophone.spark.pack import Kind
from hydrophone.spark.scan import unpacked
from hydrophone.write import Memory, Parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Metrics = dict[str, Any]

_log = logging.getLogger("hydrophone")


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

    def __call__(self, chunks: DataFrame, batch: int) -> None:
        """Write results, then late rows, then tell."""
        # Kept, because every action would run the stateful operators again.
        chunks = chunks.persist()
        try:
            told = chunks.where(f"kind = {Kind.METRICS:d}").select("data").collect()
            metrics = combined(batch, [json.loads(row.data) for row in told])
            self._results(chunks.where(f"kind = {Kind.RESULT:d}"), batch)
            for source, rows in metrics["late"].items():
                _log.warning(
                    "micro-batch %d: %d late rows of source %d, %s", batch, rows, source, self.late or "not kept"
                )
                if self.late:
                    self._late(chunks, source, batch)
        finally:
            chunks.unpersist()
        self.told(metrics)

    def _results(self, chunks: DataFrame, batch: int) -> None:
        if isinstance(self.to, Memory):
            tables = [unpacked(row.data) for row in chunks.select("data").collect()]
            self.to.batches[batch] = pa.concat_tables([self.result.empty_table(), *tables])
        else:
            self._write(chunks, held_schema(self.result, self.instants), f"{self.to.path}/batch={batch}")

    def _late(self, chunks: DataFrame, source: int, batch: int) -> None:
        late = chunks.where(f"kind = {Kind.LATE:d} and port = {source}")
        self._write(late, held_schema(self.sources[source]), f"{self.late}/source={source}/batch={batch}")

    @staticmethod
    def _write(chunks: DataFrame, schema: pa.Schema, path: str) -> None:
        rows = chunks.select("data").mapInArrow(Unpack(schema), spark_schema(schema))
        rows.write.mode("overwrite").parquet(path)


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
