"""The frames of a stream's sources, whose rows are chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    data = feed.source.data
    frame = data.dataframe(feed.schema.names)
    if frame is not None:
        return frame.mapInArrow(packer.rows, DDL)
    folder = data.folder
    assert folder is not None  # `check_stream` has refused data that is no stream
    # Spark watches the folder and hands out paths; the tasks read the files themselves.
    suffixes = "*{" + ",".join(folder.suffixes) + "}"
    files = spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", suffixes)
    # By default Spark passes over files that are a week older than the newest it has seen.
    files = files.option("recursiveFileLookup", "true").option("maxFileAge", _ANY_AGE)
    if files_per_batch is not None:
        files = files.option("maxFilesPerTrigger", files_per_batch)
    return (
        files.load(folder.path)
        .select("path", "length")
        .mapInArrow(packer.files(data.for_tasks(feed.schema.names), number), DDL)
    )


def clock_chunks(spark: SparkSession, packer: ChunkPacker) -> DataFrame:
    """The clock as chunks. Spark notes which of its times a micro-batch took, so that a repetition sees the same ones."""
    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return clock.select("timestamp").mapInArrow(packer.clock, DDL)
