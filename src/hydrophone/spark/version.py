"""Which versions of Spark can run queries, and what is said of the others."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hydrophone.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAJOR = 4
TESTED = (4, 3)

_log = logging.getLogger(__name__)


def check_session(spark: SparkSession, what: str) -> None:
    """Refuse a session whose Spark lacks what queries stand on; one that is merely untested is logged."""
    version = getattr(spark, "version", None)
    if not isinstance(version, str):
        raise ParameterError(
            f"{what}: needs a Spark session, got {type(spark).__name__}",
            hint="hydrophone.spark.session.session() starts one, or gives the one that runs",
        )
    check_version(version, what)


def check_version(version: str, what: str) -> None:
    """Refuse a version of Spark's.

    Examples
    --------
    >>> check_version("4.3.1", "to_spark")
    >>> check_version("3.5.6", "to_spark")
    Traceback (most recent call last):
    hydrophone.errors.UnsupportedError: to_spark: the session runs Spark 3.5.6, and Hydrophone needs Spark 4
      Hint: use a session of Spark 4, such as hydrophone.spark.session.session() starts
    """
    found = release(version)
    if found[0] != MAJOR:
        raise UnsupportedError(
            f"{what}: the session runs Spark {version}, and Hydrophone needs Spark {MAJOR}",
            hint=f"use a session of Spark {MAJOR}, such as hydrophone.spark.session.session() starts",
        )
    if found != TESTED:
        _log.info("Hydrophone is tested with Spark %d.%d; this session runs %s", *TESTED, version)


def check_home(client: str) -> None:
    """Refuse a ``SPARK_HOME`` with another Spark than this Python's: PySpark would start it and fail in ways that name neither."""
    home = os.environ.get("SPARK_HOME")
    found = version_at(Path(home)) if home else None
    if found is not None and release(found) != release(client):
        raise UnsupportedError(
            f"spark: SPARK_HOME is {home}, which is Spark {found}, and this Python has PySpark {client}",
            hint=f"unset SPARK_HOME, or install the same version of both: pip install pyspark=={found}",
        )


def version_at(home: Path) -> str | None:
    """The version of the Spark in a folder, if its jars tell."""
    for jar in home.glob("jars/spark-core_*.jar"):
        if match := re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name):
            return match[1]
    return None


def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: what is fixed within them does not change how things work.

    Examples
    --------
    >>> release("4.3.0-SNAPSHOT"), release("4.3.0.dev2")
    ((4, 3), (4, 3))
    """
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])
