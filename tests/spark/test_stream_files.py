"""Files that a stream is given: every one that Spark's log names is read whole, or the query says which was not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.test_streaming import arrive, folders, readings, result

import hydrophone as hp
from hydrophone.engine.late import side
from hydrophone.spark.streaming import stage_plans as streaming
from hydrophone.spark.streaming.chunks import FilePacker, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def source(path: Path) -> hp.Stream:
    return hp.read.parquet(str(path), key="k", time="t", progress=hp.delayed("1h"))


def run(spark: SparkSession, query: Any, home: Path, **options: Any) -> None:
    to, checkpoint = hp.write.parquet(str(home / "out")), str(home / "checkpoint")
    query.start(spark, to=to, checkpoint=checkpoint, trigger="available", **options).wait()


def damaged(path: Path) -> None:
    """A page whose bytes are no data, in a file that is whole otherwise."""
    raw = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(2).data_page_offset
    raw[start : start + 24] = b"\xff" * 24
    path.write_bytes(raw)


def test_a_file_that_is_not_whole_is_told_and_read_when_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """It has no bytes, is gone, is cut off, is damaged, and then it is whole: each time the same micro-batch runs again."""
    late = tmp_path / "in" / "part-0001.parquet"
    arrive(tmp_path / "in", [readings(0)])
    query = source(tmp_path / "in")
    late.touch()
    arrive(tmp_path / "in", [readings(2)], first=2)
    whole = tmp_path / "whole.parquet"
    pq.write_table(readings(1), whole, compression="none")

    def refused(says: str) -> None:
        with pytest.raises(hp.DataError, match=says) as told:
            run(spark, query, tmp_path)
        assert "part-0001.parquet" in str(told.value) and told.value.hint
        assert folders(tmp_path / "out") == []

    refused(r"start: 1 of 3 files of parquet:\S+ in micro-batch 0 were not read.*has 0 bytes")
    late.unlink()
    refused("part-0001.parquet, which is gone")
    late.write_bytes(whole.read_bytes()[:-100])
    refused(r"read\.parquet: \S+part-0001.parquet: \S")
    late.write_bytes(whole.read_bytes())
    damaged(late)
    refused(r"read\.parquet: \S+part-0001.parquet: \S")
    late.write_bytes(whole.read_bytes())
    run(spark, query, tmp_path)
    assert folders(tmp_path / "out") == [0]
    assert result(tmp_path / "out").sort_by("t").equals(pa.concat_tables([readings(n) for n in range(3)]).sort_by("t"))


def test_files_of_any_age_are_read_and_spark_puts_its_log_together(spark: SparkSession, tmp_path: Path) -> None:
    """Spark passes over files a week older than the newest, unless told; every tenth entry of its log holds all before it."""
    arrive(tmp_path / "in", [readings(0)])
    os.utime(tmp_path / "in" / "part-0000.parquet")  # now
    query = source(tmp_path / "in")
    run(spark, query, tmp_path)
    arrive(tmp_path / "in", [readings(n) for n in range(1, 11)], first=1)  # of 2023
    (tmp_path / "in" / "part-0011.parquet").touch()
    with pytest.raises(hp.DataError, match=r"1 of 1 files .*part-0011.parquet, which has 0 bytes"):
        run(spark, query, tmp_path, files_per_batch=1)
    assert list((tmp_path / "checkpoint" / "sources" / "0").glob("*.compact"))
    pq.write_table(readings(11).slice(0, 0), tmp_path / "in" / "part-0011.parquet")  # the way to go on without it
    run(spark, query, tmp_path, files_per_batch=1)
    assert len(result(tmp_path / "out")) == 11 * 200 and folders(tmp_path / "out") == list(range(12))


def test_a_file_that_is_replaced_after_its_batch_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """As docs/guarantees.md says: Spark goes by names, and nobody looks at files of long ago."""
    arrive(tmp_path / "in", [readings(0)])
    query = source(tmp_path / "in")
    run(spark, query, tmp_path)
    arrive(tmp_path / "in", [readings(1), readings(2)])
    run(spark, query, tmp_path)
    assert sorted(set(result(tmp_path / "out")["t"].to_numpy() // 2000)) == [0, 2]


def test_every_watched_folder_is_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    """Beside other streams, whose sources Spark numbers too."""
    for name in ("a", "b", "c"):
        arrive(tmp_path / name, [readings(0)])
    frame = spark.readStream.schema("k long, t long, v double").parquet(str(tmp_path / "a"))
    live = hp.from_spark(frame, key="k", time="t", progress=hp.delayed("1h", lull="1h"))
    query = live.union(source(tmp_path / "b")).union(source(tmp_path / "c"))
    bad = tmp_path / "c" / "part-0001.parquet"
    bad.touch()
    with pytest.raises(hp.DataError, match=r"1 of 2 files of parquet:\S+/c in micro-batch 0"):
        run(spark, query, tmp_path)
    pq.write_table(readings(1), bad)
    run(spark, query, tmp_path)
    assert len(result(tmp_path / "out")) == 4 * 200


# --- in the task ------------------------------------------------------------------------------------------------------


def packer(path: Path) -> FilePacker:
    plan = streaming.StreamPlan.of(source(path).node, side())
    return plan.packer(plan.feeds[0], 2).files(plan.feeds[0].source.data, 0)


def named(path: Path, length: int | None = None) -> list[pa.RecordBatch]:
    length = path.stat().st_size if length is None else length
    return [pa.record_batch({"path": [f"file:{path}"], "length": [length]})]


def test_a_task_says_what_it_has_read(tmp_path: Path) -> None:
    arrive(tmp_path, [readings(0)])
    path = tmp_path / "part-0000.parquet"
    last = list(packer(tmp_path)(named(path)))[-1].to_pylist()[-1]
    assert last["kind"] == Kind.READ and str(path) in last["data"].decode()


def test_a_file_that_changes_is_told_by_the_task(tmp_path: Path) -> None:
    arrive(tmp_path, [readings(0)])
    path = tmp_path / "part-0000.parquet"
    task = packer(tmp_path)
    with pytest.raises(hp.DataError, match=r"part-0000.parquet has \d+ bytes; it had 7 when it arrived"):
        list(task(named(path, 7)))
    chunks, given = task(named(path)), path.stat().st_size
    next(chunks)
    os.utime(path, (5, 5))  # another file of the same length has come in its place
    with pytest.raises(hp.DataError, match=r"part-0000.parquet changed while it was read"):
        list(chunks)
    path.unlink()
    with pytest.raises(hp.DataError, match=r"part-0000.parquet is gone, and was not read yet"):
        list(task(named(path, given)))


@pytest.mark.parametrize("plan", [None, "slices", "shards"])
def test_a_damaged_page_is_told_with_its_file(request: pytest.FixtureRequest, tmp_path: Path, plan: Any) -> None:
    for n in range(3):
        pq.write_table(readings(n), tmp_path / f"part-{n}.parquet", compression="none")
    damaged(tmp_path / "part-1.parquet")
    query = hp.read.parquet(str(tmp_path), key="k", time="t", progress=hp.delayed("1h"))
    with pytest.raises(
        Exception, match=r"DataError: read\.parquet: \S+/part-1\.parquet: \S|^read\.parquet: \S+/part-1\.parquet: \S"
    ):
        if plan is None:
            query.to_arrow()
        else:
            query.to_spark(request.getfixturevalue("spark"), plan=plan).toArrow()
    with pytest.raises(hp.DataError, match=r"read\.parquet: \S+/part-1\.parquet: \S"):
        list(query.batches(50))
