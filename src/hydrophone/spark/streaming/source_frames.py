"""The frames of a stream's sources, whose rows are chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hydrophone.plan.data import Data
from hydrophone.spark.streaming.chunks import DDL, ChunkPacker
from hydrophone.spark.streaming.stage_plans import StreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ANY_AGE = f"{1000 * 365}d"

_FILE = "path string, modificationTime timestamp, length long, content binary"


def source_chunks(
    spark: SparkSession, feed: StreamSource, packer: ChunkPacker, number: int, files_per_batch: int | None
) -> DataFrame:
    """The chunks of one source, which is that number of the stream's."""
    data, names = feed.source.data, feed.schema.names
    return packed(spark, data, names, files_per_batch, packer.rows, packer.files(data.for_tasks(names), number))


Pack = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What tasks do with rows, or with the paths of files."""


def packed(
    spark: SparkSession, data: Data, names: list[str], files_per_batch: int | None, rows: Pack, files: Pack
) -> DataFrame:
    """The chunks that tasks make of some data: of rows that Spark reads, or of files whose paths it hands out."""
    frame = data.dataframe(names)
    if frame is not None:
        return frame.mapInArrow(rows, DDL)
    folder = data.folder
    assert folder is not None  # `check_stream` has refused data that is no stream
    # Spark watches the folder and hands out paths; the tasks read the files themselves.
    return arriving(spark, folder.path, folder.suffixes, files_per_batch).mapInArrow(files, DDL)


def arriving(spark: SparkSession, path: str, suffixes: Sequence[str], files_per_batch: int | None) -> DataFrame:
    """The paths and lengths of files that arrive in a folder."""
    names = "*{" + ",".join(suffixes) + "}"
    files = spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", names)
    # By default Spark passes over files that are a week older than the newest it has seen.
    files = files.option("recursiveFileLookup", "true").option("maxFileAge", _ANY_AGE)
    if files_per_batch is not None:
        files = files.option("maxFilesPerTrigger", files_per_batch)
    return files.load(path).select("path", "length")


def clock_chunks(spark: SparkSession, packer: Pack) -> DataFrame:
    """The clock as chunks. Spark notes which of its times a micro-batch took, so that a repetition sees the same ones."""
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return clock.select("timestamp").mapInArrow(packer, DDL)
