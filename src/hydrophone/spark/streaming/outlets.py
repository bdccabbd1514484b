"""Where rows leave a stream: the kinds of rows, and which paths are on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hydrophone.connect.sink import Sink
from hydrophone.spark.streaming.chunks import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


RESULTS = 0
"""The port of results, where there is one query."""


@dataclass(frozen=True)
class Outlet:
    """One kind of rows that leave: results (source None) or the late rows of a source.

    Attributes
    ----------
    sink : where they go
    end : the column in which lifetimes end, or None
    label : what the place is called, where that is not the place of the sink
    query : in a hub the number of the query
    """

    source: int | None
    schema: pa.Schema
    sink: Sink
    end: str | None = None
    label: str | None = None
    query: int = RESULTS

    @property
    def path(self) -> str:
        """What the place is called."""
        return self.label or self.sink.place

    @property
    def kind(self) -> Kind:
        """Of its chunks."""
        return Kind.RESULT if self.source is None else Kind.LATE

    @property
    def port(self) -> int:
        """Of its chunks."""
        return self.query if self.source is None else self.source
