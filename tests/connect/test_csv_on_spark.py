"""CSV files on Spark: as a batch and as a stream the answers of this process, and the same errors."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hydrophone as hp

pytestmark = pytest.mark.spark


def text(number: int, rows: int = 200) -> str:
    at = number * rows + np.arange(rows)
    value = np.random.default_rng(number).normal(size=rows)
    cells = zip(at.tolist(), value.tolist(), strict=True)
    lines = [f"s{t % 3},2024-01-01T00:00:{t // 1000:02}.{t % 1000:03},{v!r}" for t, v in cells]
    return "\n".join(["sensor,ts,value", *lines, ""])


def arrive(folder: Path, number: int, suffix: str = ".csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{number:03}{suffix}"
    draft = path.with_name(f".{path.name}")
    data = text(number).encode()
    draft.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    draft.rename(path)
    return path


def source(folder: Path) -> hp.Stream:
    return hp.read.csv(folder, key="sensor", time="ts", progress=hp.delayed("10ms"))


def query(folder: Path) -> Any:
    return source(folder).tumble("20ms").agg(n=hp.count(), most=hp.max("value"))


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    plain = [table[n] for n in ("sensor", "ts", "n", "most")]
    plain[1] = plain[1].cast(pa.timestamp("us"))
    return sorted(zip(*(c.to_pylist() for c in plain), strict=True))


@pytest.mark.parametrize(("plan", "options"), [("auto", {}), ("slices", {"slices": 3}), ("shards", {"shards": 2})])
def test_a_batch_gives_the_answer_of_this_process(
    spark: SparkSession, tmp_path: Path, plan: Any, options: dict[str, int]
) -> None:
    for n in range(4):
        arrive(tmp_path, n, ".csv.gz" if n == 2 else ".csv")
    found = rows(query(tmp_path).to_spark(spark, plan=plan, **options).toArrow())
    assert found == rows(query(tmp_path).to_arrow()) and sum(r[2] for r in found) == 800


def test_nanoseconds_and_counted_times_stay(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,v\n0.5,1.0\n1.25,2.0\n")
    counted = hp.read.csv(tmp_path / "a.csv", time="t", time_unit="s")
    for plan in ("slices", "shards"):
        found = counted.to_spark(spark, plan=plan).toArrow()
        assert sorted(found["t"].to_pylist()) == [500_000_000, 1_250_000_000]


def test_only_a_wish_makes_slices(tmp_path: Path) -> None:
    arrive(tmp_path, 0)
    told = query(tmp_path).explain("spark")
    assert "plan: shards" in told and "has no statistics of time, and to measure them would read all of it" in told


def test_a_stream_of_arriving_files(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", 0)
    for n in (1, 2):
        arrive(tmp_path / "in", n, ".csv.gz")
        run(spark, tmp_path)
    found = rows(pq.read_table(tmp_path / "out"))
    wanted = rows(query(tmp_path / "in").to_arrow())
    assert found == wanted[: len(found)] or set(found) < set(wanted)
    assert {r[1] for r in wanted} - {r[1] for r in found} <= {max(r[1] for r in wanted)}  # the last window is open


def run(spark: SparkSession, folder: Path) -> None:
    to, checkpoint = hp.write.parquet(str(folder / "out")), str(folder / "ckpt")
    running = query(folder / "in").start(spark, to=to, checkpoint=checkpoint, shards=2, trigger="available")
    running.wait()


def test_a_file_that_is_no_table_stops_the_stream_and_is_read_when_it_is_mended(
    spark: SparkSession, tmp_path: Path
) -> None:
    arrive(tmp_path / "in", 0)
    run(spark, tmp_path)
    bad = tmp_path / "in" / "part-001.csv"
    bad.write_text("sensor,ts,value\ns1,2024-01-01T00:00:00.300,high\n")
    with pytest.raises(hp.DataError, match=r"'value' is double in \S+part-000\.csv and string in \S+part-001\.csv"):
        run(spark, tmp_path)
    bad.write_text(text(1))
    run(spark, tmp_path)
    assert len(rows(pq.read_table(tmp_path / "out"))) >= 3 * 18


@pytest.mark.parametrize("plan", ["slices", "shards"])
def test_a_column_of_another_type_is_told_with_both_files(spark: SparkSession, tmp_path: Path, plan: Any) -> None:
    arrive(tmp_path, 0)
    (tmp_path / "part-001.csv").write_text("sensor,ts,value\ns1,2024-01-01T00:00:00.300,high\n")
    with pytest.raises(hp.DataError, match=r"'value' is double in \S+part-000\.csv and string in \S+part-001\.csv"):
        query(tmp_path).to_spark(spark, plan=plan, slices=2, shards=1).toArrow()


def test_a_column_that_a_file_lacks_is_null_there(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path, 0)
    (tmp_path / "part-001.csv").write_text("sensor,ts\ns1,2024-01-01T00:00:00.300\n")
    found = query(tmp_path).to_spark(spark, plan="shards", shards=1).toArrow()
    assert sorted(rows(found)) == sorted(rows(query(tmp_path).to_arrow()))


def test_a_file_that_changed_since_it_was_planned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = arrive(tmp_path, 0)
    frame = query(tmp_path).to_spark(spark)
    path.write_text(text(0, 100))
    with pytest.raises(
        Exception, match=r"DataError: the file \S+part-000\.csv has changed since the query was planned"
    ):
        frame.toArrow()
