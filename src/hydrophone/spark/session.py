"""A local Spark session with the settings that Hydrophone is tested with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hydrophone.spark.java import use_java
from hydrophone.spark.version import check_home

__all__ = ["ARROW_OPTIONS", "session"]

ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""For Spark's Java, which asks before every value whether it is null and reads no value outside of a column: Arrow need not check both
once more for every value of the rows that come from Python."""


def session(
    app: str = "hydrophone", *, cores: int | Literal["*"] = "*", conf: Mapping[str, object] | None = None
) -> SparkSession:
    """Return the Spark session of this process, started in local mode if there is none.

    A convenience: queries run on any Spark session, such as the one that a managed service hands out.

    Parameters
    ----------
    app : str
        The name of the application.
    cores : int or "*"
        How many tasks run at once; ``"*"`` is as many as the machine has cores.
    conf : mapping, optional
        Spark settings, which win over the ones made here; ``{"spark.master": ...}`` for other than local mode.

    Returns
    -------
    SparkSession
        One that was running keeps its settings, except those in `conf` that can change while it runs.

    Raises
    ------
    JavaNotFoundError
        When Spark has to be started and there is no Java for it.
    UnsupportedError
        When ``SPARK_HOME`` names another version of Spark than this Python's.

    Notes
    -----
    Spark's web page is off (``spark.ui.enabled``), timestamps are UTC, state lies in RocksDB (which
    ``transformWithState`` needs), and Parquet files get timestamps with statistics, in microseconds. Spark
    reads rows that come from Python without Arrow's own checks (`ARROW_OPTIONS`).

    Examples
    --------
    >>> spark = session(cores=2)
    >>> spark.range(10).count()
    10
    """
    if SparkContext._gateway is None:  # no Java of ours is running yet
        use_java()
        check_home(pyspark.__version__)
    # Spark would run its workers with the first python3 on PATH, which need not be this environment's.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_running = SparkContext._active_spark_context is not None
    builder = SparkSession.builder
    for name, value in (({} if is_running else _defaults(app, cores)) | dict(conf or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _defaults(app: str, cores: int | Literal["*"]) -> dict[str, object]:
    # Spark's own 200 is meant for a cluster: in local mode most would be empty tasks.
    partitions = (os.cpu_count() or 1) if cores == "*" else cores
    return {
        # Put before the user's extraJavaOptions, which stay theirs.
        "spark.driver.defaultJavaOptions": ARROW_OPTIONS,
        "spark.executor.defaultJavaOptions": ARROW_OPTIONS,
        "spark.app.name": app,
        "spark.master": f"local[{cores}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
