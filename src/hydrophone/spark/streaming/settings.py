"""What a stream runs with: settings of Spark, its trigger, and paths that mean the same in every process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hydrophone.errors import ParameterError
from hydrophone.model.time import duration
from hydrophone.spark.streaming.outlets import on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stopActiveRunOnRestart": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.adaptive.enabled": "false",
}
"""What the query runs with, whatever the session says: blocks of state in RocksDB, changes of it written as a log; of a
table of results a micro-batch overwrites its own partition alone. Streams know no adaptive plans, of which Spark would warn."""

_ON_THIS_MACHINE = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Where the checkpoint lies on a disk of this machine; in docs/decisions/0007. The name of the class is that of Spark 4.3."""


def spark_trigger(trigger: str | None) -> dict[str, Any]:
    """The user's trigger as Spark takes it."""
    if trigger is None:
        return {"processingTime": "0 seconds"}
    if trigger == "available":
        return {"availableNow": True}
    try:
        pause = duration(trigger)
    except (ParameterError, TypeError):
        pause = -1
    if pause < 0:
        raise ParameterError(
            f"start: trigger must be a duration such as '10s' or 'available', got {trigger!r}",
            hint='"available" takes what is there and stops; without a trigger the stream runs as often as it can',
        ) from None
    return {"processingTime": f"{pause // 1_000_000} milliseconds"}


def absolute_path(path: str) -> str:
    """A path that means the same in every process: Spark's may have started in another folder."""
    return os.path.abspath(path) if ":" not in path.partition("/")[0] else path


def settings_of(spark: SparkSession, checkpoint: str, shards: int) -> dict[str, str]:
    """What a query runs with."""
    here = spark.version.startswith("4.3.") and on_this_machine(spark, checkpoint) is not None
    return {**_SETTINGS, **(_ON_THIS_MACHINE if here else {}), "spark.sql.shuffle.partitions": str(shards)}


_CONF = threading.Lock()


@contextmanager
def temporary_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings that Spark reads when the query starts, put back afterwards."""
    with _CONF:
        before = {name: spark.conf.get(name, None) for name in wanted}
        try:
            for name, value in wanted.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)
