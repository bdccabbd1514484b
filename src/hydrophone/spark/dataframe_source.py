"""Spark DataFrames as a source, batch or streaming."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone.errors import PlanError
from hydrophone.plan.data import Data, Place
from hydrophone.spark.arrow_types import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class SparkData(Data):
    """Rows of a Spark DataFrame, batch or streaming."""

    frame: DataFrame
    number: int = field(default_factory=lambda: next(_numbers))

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a row; Spark's timestamps are microseconds."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self.frame.schema, timezone="UTC")

    @property
    def identity(self) -> str:
        """Every DataFrame that is handed over is data of its own."""
        return f"spark-{self.number}"

    @property
    def places(self) -> Sequence[Place]:
        """The folders that Spark reads for it, as far as its plan tells; through Connect the plan is not here."""
        if not hasattr(self.frame, "_jdf"):
            return ()
        leaves = self.frame._jdf.queryExecution().analyzed().collectLeaves()
        found = [_paths(leaves.apply(n)) for n in range(leaves.size())]
        return [Place(p) for paths in found for p in paths]

    def dataframe(self, columns: Sequence[str]) -> DataFrame:
        """Some of its columns, whatever characters their names have."""
        return self.frame.select(*(f"`{n.replace('`', '``')}`" for n in columns))

    def check_batch(self, title: str) -> None:
        """Refuse a streaming DataFrame."""
        if self.frame.isStreaming:
            raise PlanError(
                f"to_spark: {title} is a streaming DataFrame",
                hint="run the query as a stream: query.start(spark, to=..., checkpoint=...)",
            )

    def check_stream(self, title: str, where: str | None) -> None:
        """Refuse a DataFrame that does not grow."""
        if not self.frame.isStreaming:
            raise PlanError(
                "start: the DataFrame is not a streaming one",
                hint="make it with spark.readStream, or run the query with to_spark",
                where=where,
            )

    @cached_property
    def location(self) -> str:
        """Of a streaming DataFrame what Spark's plan says of its source and what was done to it; of others, the object."""
        if not self.frame.isStreaming:
            return self.identity
        text = _VOLATILE.sub("", analyzed(self.frame))
        return f"spark stream {hashlib.sha256(text.encode()).hexdigest()[:16]}"


_VOLATILE = re.compile(r"#\d+L?|@[0-9a-f]+")
"""Numbers of columns and addresses of objects in Spark's plans: other ones in every session."""


def analyzed(frame: DataFrame) -> str:
    """Spark's plan of a DataFrame as text, before it was optimised."""
    if hasattr(frame, "_jdf"):
        return str(frame._jdf.queryExecution().analyzed().toString())
    text: str = frame._explain_string(extended=True)  # type: ignore[operator]  # through Spark Connect
    return text.split("== Analyzed Logical Plan ==")[1].split("== Optimized Logical Plan ==")[0]


def _paths(leaf: Any) -> list[str]:
    """The folders of a leaf of Spark's plan, as this machine has them."""
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        data = leaf.dataSource()
        given = data.options().get("path")
        found = [*data.paths().mkString("\n").splitlines(), *([given.get()] if given.isDefined() else [])]
    elif kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
        found = leaf.relation().location().rootPaths().mkString("\n").splitlines()
    else:
        return []
    return [os.path.abspath(p) for p in map(local_path, found) if p is not None]
