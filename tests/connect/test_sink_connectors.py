"""A sink is one file: JSON lines, which this file alone knows, take a whole answer, and every micro-batch of a stream once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

import hydrophone as hp
from hydrophone.connect.sink import FolderSink, Sink
from hydrophone.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["_"]))  # tasks cannot import this file


class LinesWriter:
    def __init__(self, path: Path) -> None:
        self.file = path.open("w")

    def write_table(self, table: pa.Table) -> None:
        self.file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())

    def close(self) -> None:
        self.file.close()


@dataclass(frozen=True)
class JsonLines(FolderSink):
    suffix = ".jsonl"
    by_tasks = True

    def check(self, schema: pa.Schema) -> None:
        for column in schema:
            if pa.types.is_binary(column.type):
                raise UnsupportedError(f"write.lines: JSON has no bytes for column {column.name!r}")

    def open(self, path: Path, schema: pa.Schema) -> LinesWriter:
        return LinesWriter(path)


class BySpark(JsonLines):
    by_tasks = False
    by_spark = True

    def write_frame(self, frame: DataFrame, path: str, mode: str) -> None:
        frame.write.mode(mode).json(path)


@dataclass(frozen=True, eq=False)
class Totals(Sink):
    """In the process of the query: the sum of each micro-batch."""

    noun = "totals"
    adds = ()
    in_process = True
    found: dict[int, float] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return "totals"

    def keep(self, batch: int, results: pa.Table) -> None:
        self.found[batch] = sum(results["v"].to_pylist())


def arrive(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    t = np.arange(100) + 100 * number
    draft = folder / f".{number}.parquet"
    pq.write_table(pa.table({"k": t % 4, "t": t, "v": np.sqrt(t)}), draft)
    draft.rename(folder / f"part-{number}.parquet")


def query(folder: Path) -> hp.Stream:
    return hp.read.parquet(str(folder), key="k", time="t", progress=hp.ordered()).where(hp.col("v") > 5)


def lines(folder: Path) -> list[tuple[Any, ...]]:
    files = [path for path in folder.rglob("*.json*") if not path.name.startswith(".")]
    found = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return sorted((row["t"], row["k"], row["v"]) for row in found)


def wanted(folder: Path) -> list[tuple[Any, ...]]:
    table = query(folder).to_arrow()
    return sorted(zip(*(table[n].to_pylist() for n in ("t", "k", "v")), strict=True))


def test_a_whole_answer_of_this_process(tmp_path: Path) -> None:
    arrive(tmp_path / "in", 0)
    for name, file in (("all.jsonl", "all.jsonl"), ("folder", "folder/part-00000.jsonl")):
        query(tmp_path / "in").save(JsonLines(str(tmp_path / name)))
        assert lines(tmp_path) == wanted(tmp_path / "in")
        (tmp_path / file).unlink()
    (tmp_path / "all.jsonl").write_text("mine")
    with pytest.raises(hp.ParameterError, match=r"save: \S+all\.jsonl exists already"):
        query(tmp_path / "in").save(JsonLines(str(tmp_path / "all.jsonl")))
    with pytest.raises(hp.ParameterError, match="would take the place of"):
        query(tmp_path / "in").save(JsonLines(str(tmp_path / "in")))


def test_what_a_sink_cannot_hold_is_refused_before_the_query_runs(tmp_path: Path) -> None:
    table = pa.table({"t": [1], "b": [b"x"]})
    with pytest.raises(hp.UnsupportedError, match="JSON has no bytes for column 'b'"):
        hp.from_arrow(table, time="t").save(JsonLines(str(tmp_path / "out")))


@pytest.mark.spark
@pytest.mark.parametrize("kind", [JsonLines, BySpark])
def test_a_stream_writes_every_row_once(spark: SparkSession, tmp_path: Path, kind: type[JsonLines]) -> None:
    """The second start repeats the last micro-batch of the first one, as after a crash before it was committed."""
    to = kind(str(tmp_path / "out"))
    arrive(tmp_path / "in", 0)
    run(spark, tmp_path, to)
    repeat_last(tmp_path / "ckpt")
    arrive(tmp_path / "in", 1)
    run(spark, tmp_path, to)
    assert lines(tmp_path / "out") == wanted(tmp_path / "in")
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if not p.name.startswith(("_", "."))) == [
        "batch=0",
        "batch=1",
    ]
    with pytest.raises(hp.ParameterError, match="holds results of another query"):
        run(spark, tmp_path, to, checkpoint="other")


def run(spark: SparkSession, folder: Path, to: Sink, checkpoint: str = "ckpt") -> None:
    given = {"checkpoint": str(folder / checkpoint), "shards": 2, "trigger": "available"}
    query(folder / "in").start(spark, to=to, **given).wait()


def repeat_last(checkpoint: Path) -> None:
    last = max((p for p in (checkpoint / "commits").iterdir() if p.name.isdecimal()), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.spark
def test_a_sink_in_the_process_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", 0)
    to = Totals()
    run(spark, tmp_path, to)
    repeat_last(tmp_path / "ckpt")
    run(spark, tmp_path, to)
    assert to.found == {0: pytest.approx(sum(v for _, _, v in wanted(tmp_path / "in")))}


@pytest.mark.spark
def test_a_sink_says_what_it_does_not_offer(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", 0)
    with pytest.raises(hp.UnsupportedError, match=r"save: Spark cannot write to \S+ \(JsonLines\)"):
        query(tmp_path / "in").save(JsonLines(str(tmp_path / "out")), spark)
    with pytest.raises(hp.UnsupportedError, match="with a session results go to files or tables"):
        query(tmp_path / "in").save(Totals(), spark)
    with pytest.raises(hp.UnsupportedError, match="totals takes no results of this process"):
        query(tmp_path / "in").save(Totals())
    BySpark(str(tmp_path / "out")).save_frame(query(tmp_path / "in").to_spark(spark), overwrite=False)
    assert lines(tmp_path / "out") == wanted(tmp_path / "in")
