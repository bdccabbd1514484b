"""Streams and tables at rest in a real database, which Spark reads: Derby, whose driver comes with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hydrophone as hp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}


@pytest.fixture
def url(spark: SparkSession, tmp_path: Path) -> str:
    """A database in files."""
    assert spark._jvm is not None
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    return f"jdbc:derby:{tmp_path / 'db'};create=true"


def readings(seed: int, first: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    t = first + np.sort(random.integers(0, 1_000, 300))
    return pa.table({"sensor": random.integers(0, 12, 300), "at": t, "v": random.random(300)})


def stored(spark: SparkSession, url: str, name: str, table: pa.Table, mode: str = "error") -> None:
    spark.createDataFrame(table.to_pandas()).write.jdbc(url, name, mode=mode, properties=DRIVER)


def read(spark: SparkSession, url: str, name: str) -> DataFrame:
    return spark.read.jdbc(url, name, properties=DRIVER)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(r.values()) for r in table.to_pylist())


def test_a_table_of_a_database_is_looked_up_on_every_engine(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """Gains with versions: what holds when a reading starts, as pandas finds it."""
    random = np.random.default_rng(5)
    gains = pa.table(
        {
            "sensor": np.repeat(np.arange(9), 4),
            "since": np.concatenate([np.sort(random.choice(1_000, 4, replace=False)) for _ in range(9)]),
            "gain": random.random(36),
        }
    )
    stored(spark, url, "gains", gains)
    pq.write_table(readings(1), _folder(tmp_path) / "a.parquet")
    source = hp.read.parquet(tmp_path / "in", key="sensor", time="at", progress=hp.ordered())
    query = source.lookup(read(spark, url, "gains"), on="sensor", since="since")
    merged = pd.merge_asof(
        readings(1).to_pandas(), gains.to_pandas().sort_values("since"), left_on="at", right_on="since", by="sensor"
    ).dropna()
    wanted = sorted(zip(merged["sensor"], merged["at"], merged["v"], merged["gain"], strict=True))
    assert len(wanted) > 100
    columns = ["sensor", "at", "v", "gain"]
    assert rows(query.to_arrow().select(columns)) == wanted
    assert rows(query.to_spark(spark).toArrow().select(columns)) == wanted
    memory = hp.write.memory()
    query.start(spark, to=memory, checkpoint=str(tmp_path / "c"), trigger="available").wait()
    assert rows(memory.to_arrow().select(columns)) == wanted


def test_versions_in_a_database_are_a_stream(spark: SparkSession, url: str) -> None:
    """However large the table is: it is read as any other source, in batch."""
    versions = pa.table({"sensor": np.arange(60) % 12, "at": np.arange(60) * 17, "gain": np.arange(60) * 0.5})
    stored(spark, url, "versions", versions)
    stored(spark, url, "readings", readings(2))
    here = [hp.from_arrow(t, key="sensor", time="at") for t in (readings(2), versions)]
    there = [hp.from_spark(read(spark, url, n), key="sensor", time="at") for n in ("readings", "versions")]
    found, wanted = there[0].asof_join(there[1]).to_spark(spark).toArrow(), here[0].asof_join(here[1]).to_arrow()
    assert sorted(map(str, found.select(wanted.column_names).to_pylist())) == sorted(map(str, wanted.to_pylist()))


def test_spark_joins_a_stream_with_a_table_that_changes(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """The way for large tables, and for those that change: the next micro-batch sees the table as it is then."""
    folder, out = _folder(tmp_path), tmp_path / "out"
    for turn, gain in enumerate((2.0, 3.0)):
        stored(spark, url, "gains", pa.table({"sensor": np.arange(12), "gain": np.full(12, gain)}), "overwrite")
        pq.write_table(readings(turn, first=turn * 1_000), folder / f"{turn}.parquet")
        frame = spark.readStream.schema("sensor long, at long, v double").parquet(str(folder))
        joined = frame.join(read(spark, url, "gains"), "sensor")
        source = hp.from_spark(joined, key="sensor", time="at", progress=hp.ordered())
        query = source.with_columns(scaled=hp.col("v") * hp.col("gain"))
        sink = hp.write.parquet(str(out))
        query.start(spark, to=sink, checkpoint=str(tmp_path / "c"), trigger="available").wait()
    table = ds.dataset(out, partitioning="hive").to_table(columns=["sensor", "at", "v", "scaled"])
    wanted = [
        (sensor, at, v, v * gain)
        for turn, gain in enumerate((2.0, 3.0))
        for sensor, at, v in rows(readings(turn, first=turn * 1_000))
    ]
    assert rows(table) == sorted(wanted)


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"
