"""`relational`: where, select and counts in stretches of time through Hydrophone, against plain Spark SQL.

Spark does these without Python, so that this is the price of a relational step in a query of signals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hydrophone as hp
from hydrophone.bench.grouped_batch import PERIOD, write_lake
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.jobs import Way, job
from hydrophone.bench.peers import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEAST = 1.0
"""About a sixth of the rows have a larger value."""
STRETCH = 100 * PERIOD


def cases(quick: bool) -> Iterator[Case]:
    """Three queries over the same lake."""
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench")
    rows, keys, runs = (10_000_000, 10_000, 3) if quick else (40_000_000, 10_000, 5)
    with tempfile.TemporaryDirectory() as name:
        write_lake(Path(name), rows, keys)

        def ours() -> hp.Stream:
            return hp.read.parquet(name, key="sensor", time="time")

        def theirs() -> DataFrame:
            return spark.read.parquet(name)

        large = hp.col("value") > LEAST
        pairs: dict[str, tuple[Way, Way, str]] = {
            "where": (
                lambda: ours().where(large).to_spark(spark),
                lambda: spark_sql.where(theirs(), LEAST),
                "value",
            ),
            "where and select": (
                lambda: ours().where(large).select("value").to_spark(spark),
                lambda: spark_sql.where_select(theirs(), LEAST),
                "value",
            ),
            "count": (
                lambda: ours().tumble(STRETCH).agg(count=hp.count()).to_spark(spark),
                lambda: spark_sql.count(theirs(), STRETCH),
                "count",
            ),
        }
        for query, (mine, other, column) in pairs.items():
            total = partial(_answer, column=column)
            yield Case(f"{query}, {rows} rows", job(mine, total), {"Spark SQL": job(other, total)}, runs)


def _answer(frame: DataFrame, column: str) -> Answer:
    """How many rows, the sum of the column, and the sum of the instants, in seconds."""
    (row,) = frame.selectExpr("count(*)", f"sum({column})", "sum(time / 1e9)").collect()
    return tuple(float(x or 0) for x in row)
