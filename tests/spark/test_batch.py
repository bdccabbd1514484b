"""Batch on Spark gives the answers of the table of cases, whichever plan runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.cases import Case
from tests.choice import asked, for_shards, for_slices

import hydrophone as hp
from hydrophone.api import Query
from hydrophone.ops.aggregates.task_aggregates import ENTRIES
from hydrophone.spark.exchange.shuffle import shard_labels, spark_hash
from hydrophone.spark.exchange.table_bytes import table_from_bytes, table_to_bytes
from hydrophone.spark.failures import task_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TOGETHER = 30
"""Cases that run in one Spark job."""


# --- many queries in one job --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AsBlobs:
    """The result of a task as one row: the name of the query and an Arrow stream."""

    name: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [b for b in batches if b.num_rows]
        if held:
            yield pa.RecordBatch.from_pydict(
                {"name": [self.name], "data": [table_to_bytes(pa.Table.from_batches(held))]}
            )


def collect(frames: dict[str, DataFrame]) -> dict[str, pa.Table | Exception]:
    """The answers of many DataFrames in one Spark job; where that fails, each has a job of its own."""
    from pyspark.errors import PySparkException

    try:
        return dict(_collected(frames))
    except PySparkException as error:
        if len(frames) == 1:
            return dict.fromkeys(frames, error)
        return {name: answer for name, frame in frames.items() for answer in collect({name: frame}).values()}


def _collected(frames: dict[str, DataFrame]) -> dict[str, pa.Table]:
    named = [frame.mapInArrow(AsBlobs(name), "name string, data binary") for name, frame in frames.items()]
    blobs = reduce(lambda a, b: a.union(b), named).coalesce(2)
    parts: dict[str, list[pa.Table]] = {name: [] for name in frames}
    for name, data in blobs.collect():
        parts[name].append(table_from_bytes(bytes(data)))
    return {name: pa.concat_tables(p) if p else pa.table({}) for name, p in parts.items()}


class Answers:
    """The answers to cases by one plan, a group of cases at a time."""

    def __init__(self, cases: list[Case], build: Callable[[Case], DataFrame]) -> None:
        self.cases, self.build = cases, build
        self.known: dict[str, pa.Table | Exception] = {}

    def of(self, case: Case) -> pa.Table | None:
        if case.name not in self.known:
            at = self.cases.index(case) // TOGETHER * TOGETHER
            self._run(self.cases[at : at + TOGETHER])
        answer = self.known[case.name]
        if isinstance(answer, Exception) and "microseconds" in str(answer):
            assert case.plan.type.clock == "timestamp"
            return None  # refused, because Spark's timestamps cannot hold instants between microseconds
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _run(self, cases: list[Case]) -> None:
        frames: dict[str, DataFrame] = {}
        for case in cases:
            try:
                frames[case.name] = self.build(case)
            except hp.HydrophoneError as error:
                self.known[case.name] = error
        if frames:
            self.known |= collect(frames)


# --- every case on every plan -------------------------------------------------------------------------------------------


def lake(case: Case, folder: Path) -> dict[str, Query]:
    """The inputs of a case in files of a few rows each, in the order of time."""
    streams: dict[str, Query] = {}
    for name, source in case.inputs.items():
        path = folder / case.name.replace("/", "_") / name
        path.mkdir(parents=True)
        table = source.table.take(pa.array(np.argsort(source.starts(), kind="stable")))
        for number, start in enumerate(range(0, max(len(table), 1), 23)):
            pq.write_table(table.slice(start, 23), path / f"{number:03d}.parquet", row_group_size=7)
        streams[name] = source.lake(path)
    return streams


@pytest.fixture(scope="module")
def by_slices(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder, cases = tmp_path_factory.mktemp("lakes"), asked(request, "test_slices")
    return Answers(cases, lambda c: c.build(lake(c, folder)).to_spark(spark, plan="slices", slices=3))


@pytest.fixture(scope="module")
def by_shards(request: pytest.FixtureRequest, spark: SparkSession) -> Answers:
    return Answers(asked(request, "test_shards"), lambda c: c.build().to_spark(spark, plan="shards", shards=2))


@for_slices()
def test_slices(case: Case, by_slices: Answers, golden: Callable[..., None]) -> None:
    try:
        answer = by_slices.of(case)
    except hp.PlanError as error:
        if "not possible" not in str(error):
            raise
        assert "the reach is unbounded" in str(error) or "is not in files" in str(error)
        answer = None  # refused with its reason, as it must be
    if answer is not None:
        case.check(answer)
    golden("slices", case, answer)


@for_shards()
def test_shards(case: Case, by_shards: Answers, golden: Callable[..., None]) -> None:
    answer = by_shards.of(case)
    if answer is not None:
        case.check(answer)
    golden("shards", case, answer)


def test_tasks_shed_what_their_table_cannot_hold(spark: SparkSession) -> None:
    """Far more keys than entries in one task."""
    random, count = np.random.default_rng(8), 300_000
    columns = {
        "k": random.integers(0, 200_000, count),
        "t": random.integers(0, 1_000, count),
        "v": random.integers(-9, 9, count),
    }
    assert len(np.unique(columns["k"])) > ENTRIES + 20_000
    source = hp.from_arrow(pa.table(columns), key="k", time="t")
    query = source.tumble(1_000).agg(n=hp.count(), v=hp.sum("v"), low=hp.min("v"))
    found = query.to_spark(spark, plan="shards", shards=2).toArrow().sort_by("k")
    assert found.equals(query.to_arrow().sort_by("k").cast(found.schema))


# --- DataFrames ---------------------------------------------------------------------------------------------------------


def rows(count: int = 4000, keys: int = 7) -> pa.Table:
    random = np.random.default_rng(3)
    at = np.repeat(np.arange(count // keys), keys)[:count]
    table = {"sensor": np.arange(len(at)) % keys, "time": at * 1_000_000, "value": random.normal(size=len(at))}
    return pa.table(table)


def filtered(stream: hp.Stream) -> hp.UniformSignal:
    return stream.where(hp.col("value") > -2.5).signal("value").sample("1ms").fir([0.5, 0.25, 0.25])


def same(found: pa.Table, wanted: pa.Table) -> None:
    order = [(n, "ascending") for n in wanted.column_names if n in ("sensor", "time", "group")]
    found, wanted = found.sort_by(order), wanted.sort_by(order)
    assert found.column_names == wanted.column_names
    for name in wanted.column_names:
        assert found[name].to_pylist() == wanted[name].to_pylist(), name


def test_a_dataframe_gives_what_the_local_engine_gives(spark: SparkSession) -> None:
    table = rows()
    frame = spark.createDataFrame(table).repartition(3)
    query = filtered(hp.from_spark(frame, key="sensor", time="time"))
    wanted = filtered(hp.from_arrow(table, key="sensor", time="time"))
    same(query.to_spark(spark).toArrow(), wanted.to_arrow())
    segments = query.to_spark(spark, shape="segments", shards=3)
    assert segments.columns == ["sensor", "time", "period", "values"]
    assert segments.selectExpr("sum(size(values))").first()[0] == len(wanted.to_arrow())


def test_samples_are_declared_without_nulls(spark: SparkSession) -> None:
    """Spark then copies them without looking at each; columns of a stream may hold nulls."""
    rows = hp.from_arrow(pa.table({"k": [1, 1], "t": [0, 10], "v": [1.0, 2.0]}), key="k", time="t")
    spectra = rows.signal("v").sample("10ns").window(2).rfft().to_spark(spark)
    assert spectra.schema["values"].simpleString() == "values:struct<re:array<double>,im:array<double>>"
    kind = spectra.schema["values"].dataType
    assert not any(f.nullable or f.dataType.containsNull for f in kind)
    assert spectra.collect()[0]["values"]["re"][0] == 3.0
    assert rows.to_spark(spark).schema["v"].nullable


def test_timestamps_come_back_as_they_were(spark: SparkSession) -> None:
    table = rows(200)
    stamped = table.set_column(1, "time", table["time"].cast(pa.timestamp("ns")).cast(pa.timestamp("us", "UTC")))
    wanted = filtered(hp.from_arrow(table, key="sensor", time="time")).to_arrow()
    for kind in ("timestamp", "timestamp_ntz"):
        rows_of_kind = spark.createDataFrame(stamped).selectExpr("sensor", f"cast(time as {kind}) time", "value")
        frame = filtered(hp.from_spark(rows_of_kind, key="sensor", time="time")).to_spark(spark)
        assert dict(frame.dtypes)["time"] == kind
        found = frame.toArrow()
        same(found.set_column(1, "time", found["time"].cast(pa.int64())), _in_microseconds(wanted))


def _in_microseconds(table: pa.Table) -> pa.Table:
    return table.set_column(1, "time", pa.array(table["time"].to_numpy() // 1000))


def test_a_change_of_key_is_a_second_exchange(spark: SparkSession) -> None:
    table = rows(600, keys=6)

    def query(stream: hp.Stream) -> hp.Stream:
        counted = stream.tumble("20ms").agg(n=hp.count(), top=hp.max("value"))
        return (
            counted.with_columns(group=hp.col("n") % 2)
            .key_by("group")
            .tumble("60ms")
            .agg(m=hp.sum("n"), top=hp.max("top"))
        )

    found = query(hp.from_spark(spark.createDataFrame(table), key="sensor", time="time")).to_spark(spark, shards=2)
    same(found.toArrow(), query(hp.from_arrow(table, key="sensor", time="time")).to_arrow())


def test_both_inputs_of_a_join_meet_in_one_shard(spark: SparkSession) -> None:
    left, right = rows(300), rows(400, keys=9)

    def query(a: hp.Stream, b: hp.Stream) -> hp.Stream:
        return a.band_join(b.where(hp.col("value") > 0), before="1ms", after="1ms")

    sources = [hp.from_arrow(t, key="sensor", time="time") for t in (left, right)]
    frames = [hp.from_spark(spark.createDataFrame(t), key="sensor", time="time") for t in (left, right)]
    found = query(*frames).to_spark(spark, shards=3).toArrow().to_pylist()
    wanted = query(*sources).to_arrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_everything_together_lies_in_one_shard_and_the_others_are_empty(spark: SparkSession) -> None:
    table = rows(100)
    query = (
        hp.from_spark(spark.createDataFrame(table), key="sensor", time="time").key_by().tumble("1s").agg(n=hp.count())
    )
    assert query.to_spark(spark, shards=4).toArrow()["n"].to_pylist() == [len(table)]


def test_an_empty_dataframe_gives_no_rows(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows()).where("sensor < 0")
    assert filtered(hp.from_spark(frame, key="sensor", time="time")).to_spark(spark).count() == 0


def test_spark_spreads_the_labels_evenly(spark: SparkSession) -> None:
    numbers = spark.range(-50, 50).selectExpr("cast(id as int) i", "hash(cast(id as int)) h").collect()
    assert all(spark_hash(row.i) == row.h for row in numbers)
    for shards in (1, 2, 7, 64):
        assert [spark_hash(label) % shards for label in shard_labels(shards)] == list(range(shards))


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_a_streaming_dataframe_is_refused(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("value as sensor", "timestamp as time", "1.0D as value")
    with pytest.raises(hp.PlanError, match=r"streaming DataFrame(.|\n)*start"):
        hp.from_spark(frame, key="sensor", time="time").to_spark(spark)


def test_a_grid_between_microseconds_is_refused(spark: SparkSession) -> None:
    table = rows(50)
    stamped = table.set_column(1, "time", table["time"].cast(pa.timestamp("ns")))
    signal = hp.from_arrow(stamped, key="sensor", time="time").signal("value")
    with pytest.raises(hp.PlanError, match=r"between microseconds(.|\n)*integer nanoseconds"):
        signal.sample("44.1kHz").to_spark(spark)
    assert hp.from_arrow(table, key="sensor", time="time").signal("value").sample("44.1kHz").to_spark(spark).count() > 0


def test_what_a_task_refuses_reaches_the_user(spark: SparkSession) -> None:
    from pyspark.errors import PythonException

    twice = pa.concat_tables([rows(20), rows(20)])
    query = hp.from_arrow(twice, key="sensor", time="time").signal("value")
    with pytest.raises(
        PythonException, match=r"DataError: signal: two events of key .* overlap(.|\n)*Hint: a signal has one"
    ) as caught:
        query.to_spark(spark).collect()
    error = task_error(caught.value)
    assert isinstance(error, hp.DataError)
    assert error.message.startswith("signal: two events of key")
    assert error.hint is not None and "ties" in error.hint
    assert error.where is not None and error.where.startswith("test_batch.py:")


def test_instants_between_microseconds_are_refused_by_the_task(spark: SparkSession) -> None:
    stamped = pa.table({"time": pa.array([1500], pa.timestamp("ns")), "value": [1.0]})
    with pytest.raises(Exception, match="DataError: to_spark: a value of 'time' does not fit"):
        hp.from_arrow(stamped, time="time").to_spark(spark).collect()


def test_points_with_timestamps_end_a_microsecond_later(spark: SparkSession, tmp_path: Path) -> None:
    """In this process they end a nanosecond later, which Spark's timestamps cannot say."""
    at = [-2_500_001, 0, 3, 4, 4_000_000, 9_000_000]
    rows = pa.table({"k": [1] * 6, "n": range(6), "t": pa.array(at, pa.timestamp("us"))})
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "rows.parquet")
    points = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())
    for number, query in enumerate(
        [
            points.count_window(2, by="n").agg(n=hp.count()),
            points.snapshot().agg(n=hp.count()),
            points.select().stitch(),
        ]
    ):
        here = query.to_arrow()
        end = pc.subtract(pc.cast(here["end"], pa.int64()), 1)  # where the last point of each lies
        assert not pc.any(pc.not_equal(end, pc.multiply(pc.divide(end, 1000), 1000))).as_py()
        later = pc.add(pc.divide(end, 1000), 1).cast(pa.timestamp("us"))
        wanted = sorted(here.set_column(2, "end", later).to_pylist(), key=str)
        found = query.to_spark(spark).toArrow().select(here.column_names)
        assert sorted(found.to_pylist(), key=str) == wanted
        out = tmp_path / f"out{number}"
        sink = hp.write.parquet(str(out))
        query.start(spark, to=sink, checkpoint=str(tmp_path / f"c{number}"), trigger="available").wait()
        streamed = ds.dataset(out, partitioning="hive").to_table(columns=here.column_names).to_pylist()
        assert streamed and all(row in wanted for row in streamed)


def test_a_table_of_sparks_can_be_looked_up(spark: SparkSession) -> None:
    rooms = spark.createDataFrame([("a", "hall"), ("b", "attic")], "k string, room string")
    readings = hp.from_arrow(pa.table({"k": ["b", "a"], "t": [0, 0], "v": [1.0, 2.0]}), key="k", time="t")
    found = readings.lookup(rooms, on="k").to_spark(spark).orderBy("k").collect()
    assert [(r.k, r.room) for r in found] == [("a", "hall"), ("b", "attic")]
