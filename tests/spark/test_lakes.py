"""Lakes of every layout: the plan that is chosen, why, and equal answers; files that change while a query runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.test_streaming import arrive

import hydrophone as hp
from hydrophone.compiler.compile import Host, compile_plan
from hydrophone.engine import pieces
from hydrophone.spark.batch import plan as batch
from hydrophone.spark.failures import task_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEYS, BEATS, DAY = 12, 240, 24 * 3_600_000_000_000
PERIOD = DAY // 60


def readings() -> pa.Table:
    """Four days of readings of a dozen sensors, in the order of time, with holes."""
    random = np.random.default_rng(11)
    table = pa.table(
        {
            "sensor": np.tile(np.arange(KEYS), BEATS),
            "time": np.repeat(np.arange(BEATS) * PERIOD, KEYS),
            "value": random.normal(size=KEYS * BEATS),
            "unused": random.normal(size=KEYS * BEATS),
        }
    )
    return table.filter(pa.array(random.random(len(table)) > 0.1))


def write(table: pa.Table, path: Path, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **({"row_group_size": 100} | options))


def stretch(table: pa.Table, start: float, stop: float) -> pa.Table:
    """The rows from one share of all time to another."""
    end = BEATS * PERIOD
    return table.filter((pa.compute.field("time") >= int(start * end)) & (pa.compute.field("time") < int(stop * end)))


# --- layouts ------------------------------------------------------------------------------------------------------------


def by_day(table: pa.Table, root: Path) -> None:
    for day in range(4):
        write(stretch(table, day / 4, (day + 1) / 4), root / f"day={day}" / "rows.parquet")


def by_key(table: pa.Table, root: Path) -> None:
    for key in range(KEYS):
        rows = table.filter(pa.compute.field("sensor") == key).drop_columns("sensor")
        write(rows, root / f"sensor={key}" / "rows.parquet")


def by_key_without_statistics(table: pa.Table, root: Path) -> None:
    for key in range(KEYS):
        rows = table.filter(pa.compute.field("sensor") == key).drop_columns("sensor")
        write(rows, root / f"sensor={key}" / "rows.parquet", write_statistics=False)


def file_per_key(table: pa.Table, root: Path) -> None:
    """As gateways upload them: no folder says so, the statistics of the key do."""
    for key in range(KEYS):
        write(table.filter(pa.compute.field("sensor") == key), root / f"{key}.parquet", row_group_size=500)


def one_file(table: pa.Table, root: Path) -> None:
    write(table, root / "rows.parquet")


def overlapping(table: pa.Table, root: Path) -> None:
    """Every file holds a third of the next one's time."""
    late = np.random.default_rng(1).random(len(table)) * 0.3
    number = np.floor(table["time"].to_numpy() / (BEATS * PERIOD) * 8 + late * 8 / 2.4)
    for n in np.unique(number):
        write(table.filter(pa.array(number == n)), root / f"{int(n)}.parquet", row_group_size=10_000)


def int96(table: pa.Table, root: Path) -> None:
    stamped = table.set_column(1, "time", table["time"].cast(pa.timestamp("ns")))
    for n in range(4):
        write(stretch_stamped(stamped, n), root / f"{n}.parquet", use_deprecated_int96_timestamps=True)


def stretch_stamped(table: pa.Table, quarter: int) -> pa.Table:
    at = table["time"].cast(pa.int64()).to_numpy() * 4 // (BEATS * PERIOD)
    return table.filter(pa.array(at == quarter))


def no_statistics(table: pa.Table, root: Path) -> None:
    for n in range(4):
        write(stretch(table, n / 4, (n + 1) / 4), root / f"{n}.parquet", write_statistics=False)


def with_empty_files(table: pa.Table, root: Path) -> None:
    one_file(table, root)
    write(table.slice(0, 0), root / "a-empty.parquet")
    write(table.slice(0, 0), root / "z-empty.parquet")


def nested(table: pa.Table, root: Path) -> None:
    for n in range(8):
        write(stretch(table, n / 8, (n + 1) / 8), root / f"2026/{n // 4}/{n}.parquet")
    (root / "2026/_temporary").mkdir()
    (root / "2026/_temporary/half.parquet").write_bytes(b"not a file yet")


def shuffled(table: pa.Table, root: Path) -> None:
    order = np.random.default_rng(2).permutation(len(table))
    rows = table.take(pa.array(order))
    for n in range(4):
        write(rows.slice(n * len(rows) // 4, (n + 1) * len(rows) // 4 - n * len(rows) // 4), root / f"{n}.parquet")


def query(path: Path, **how: Any) -> hp.UniformSignal:
    rows = hp.read.parquet(str(path), key="sensor", time="time", **how)
    return rows.where(hp.col("value") < 2.5).signal("value").sample(PERIOD).fir([0.5, 0.3, 0.2])


def answer(table: pa.Table) -> list[tuple[Any, ...]]:
    if pa.types.is_timestamp(table["time"].type):
        table = table.set_column(1, "time", table["time"].cast(pa.timestamp("ns")).cast(pa.int64()))
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))


LAYOUTS: list[tuple[Callable[[pa.Table, Path], None], str, str]] = [
    (by_day, "slices", "reach: "),
    (by_key, "keys", "folders or files hold whole keys"),
    (by_key_without_statistics, "keys", "folders or files hold whole keys"),
    (file_per_key, "keys", "folders or files hold whole keys"),
    (one_file, "slices", "reach: "),
    (overlapping, "slices", "reach: "),
    (int96, "slices", "had no statistics of time and were measured"),
    (no_statistics, "slices", "had no statistics of time and were measured"),
    (with_empty_files, "slices", "reach: "),
    (nested, "slices", "reach: "),
    (shuffled, "slices", "files overlap in time"),
]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """The answer of the local engine over one file."""
    root = tmp_path_factory.mktemp("one")
    one_file(readings(), root)
    return answer(query(root).to_arrow())


@pytest.mark.parametrize(("layout", "plan", "why"), LAYOUTS, ids=lambda x: getattr(x, "__name__", None) or "")
def test_layout(
    layout: Callable[[pa.Table, Path], None],
    plan: str,
    why: str,
    spark: SparkSession,
    tmp_path: Path,
    wanted: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "MIN_BYTES_PER_TASK", 4_000)
    monkeypatch.setattr(batch, "BYTES_PER_TASK", 30_000)
    monkeypatch.setattr(pieces, "ROWS_AT_ONCE", 150)
    layout(readings(), tmp_path)
    asked = query(tmp_path)
    chosen = batch.choose_plan(compile_plan(asked.node, Host.SLICES), batch.PlanRequest(), 2, 2, pieces.measure_here)
    assert (chosen.name, why in " ".join(chosen.why)) == (plan, True), chosen.describe()
    assert answer(asked.to_arrow()) == wanted
    assert answer(asked.to_spark(spark).toArrow()) == wanted
    if plan == "slices":
        assert chosen.shares is not None
        assert len(chosen.shares.shares) > 1
        assert 1 <= chosen.shares.amplification <= batch.MIN_BYTES_FOR_SLICES


@pytest.mark.parametrize("statistics", [True, False])
def test_segments_are_sliced_where_their_longest_is_known(
    spark: SparkSession, tmp_path: Path, statistics: bool
) -> None:
    samples = hp.from_arrow(readings(), key="sensor", time="time").signal("value").sample(PERIOD)
    samples.to_parquet(tmp_path / "all.parquet", shape="segments")
    segments = pq.read_table(tmp_path / "all.parquet").sort_by("time")
    write(segments, tmp_path / "lake" / "rows.parquet", row_group_size=20, write_statistics=statistics)
    longest = int(pa.compute.max(pa.compute.list_value_length(segments["values"])).as_py()) * PERIOD
    how: dict[str, Any] = {"key": "sensor", "time": "time", "period": PERIOD}
    asked = hp.read.segments(tmp_path / "lake", longest=longest, **how).fir([0.5, 0.3, 0.2])
    ready = compile_plan(asked.node, Host.SLICES)
    chosen = batch.choose_plan(ready, batch.PlanRequest("slices", 5), 2, 2, pieces.measure_here)
    assert chosen.shares is not None
    assert len(chosen.shares.shares) == 5
    wanted = answer(samples.fir([0.5, 0.3, 0.2]).to_arrow())
    assert answer(asked.to_spark(spark, plan="slices", slices=5).toArrow()) == wanted
    unknown = hp.read.segments(tmp_path / "lake", **how).fir([0.5, 0.3, 0.2])
    chosen = batch.choose_plan(compile_plan(unknown.node, Host.SLICES), batch.PlanRequest(), 2, 2, pieces.measure_here)
    assert (chosen.name, "say it with longest=" in chosen.why[0]) == ("shards", True)
    assert answer(unknown.to_spark(spark, shards=2).toArrow()) == wanted


def test_slices_can_be_forced_on_any_layout(spark: SparkSession, tmp_path: Path, wanted: list[tuple[Any, ...]]) -> None:
    for layout in (overlapping, shuffled, by_key):
        layout(readings(), tmp_path / layout.__name__)
    found = [
        query(tmp_path / n.__name__).to_spark(spark, plan="slices", slices=3) for n in (overlapping, shuffled, by_key)
    ]
    rows = answer(found[0].unionByName(found[1]).unionByName(found[2]).toArrow())
    assert rows == sorted(wanted * 3)


def test_more_slices_than_the_files_allow_are_shards(tmp_path: Path) -> None:
    shuffled(readings(), tmp_path)
    chosen = batch.choose_plan(
        compile_plan(query(tmp_path).node, Host.SLICES), batch.PlanRequest(slices=8), 2, 2, pieces.measure_here
    )
    assert chosen.name == "shards"
    assert "not slices: 8 slices would read" in chosen.why[0] and "files overlap in time" in chosen.why[0]


# --- what a task reads --------------------------------------------------------------------------------------------------


def test_only_columns_and_rows_that_matter_are_read(tmp_path: Path) -> None:
    by_day(readings(), tmp_path)
    text = query(tmp_path).explain("spark")
    assert "reads sensor, time, value\n" in text + "\n"
    assert "where " in text and "value < 2.5" in text


def test_every_slice_reads_little_more_than_it_owns(tmp_path: Path) -> None:
    by_day(readings(), tmp_path)
    root = compile_plan(query(tmp_path).node, Host.SLICES)
    shares = batch.choose_plan(root, batch.PlanRequest("slices", slices=4), 2, 2, pieces.measure_here).shares
    assert shares is not None
    lengths = [sum(map(len, shares.scans[0].tables(s.reads[0], *s.around[0]))) for s in shares.shares]
    assert sum(lengths) < 1.2 * sum(readings()["value"].to_numpy() < 2.5)
    assert [s.start for s in shares.shares][1:] == [s.stop for s in shares.shares][:-1]


def test_rows_without_a_time_are_refused_once(spark: SparkSession, tmp_path: Path) -> None:
    table = readings()
    holes = np.zeros(len(table), bool)
    holes[len(table) * 3 // 4] = True
    times = pa.array(np.where(holes, 0, table["time"].to_numpy()), mask=holes)
    write(table.set_column(1, "time", times), tmp_path / "rows.parquet")
    root = compile_plan(query(tmp_path).node, Host.SLICES)
    shares = batch.choose_plan(root, batch.PlanRequest("slices", slices=3), 2, 2, pieces.measure_here).shares
    assert shares is not None
    read = [pa.concat_tables(shares.scans[0].tables(s.reads[0], *s.around[0])) for s in shares.shares]
    assert [t["time"].null_count for t in read] == [1, 0, 0]
    for plan in ("slices", "shards"):
        with pytest.raises(Exception, match="DataError: source: 1 rows have no time") as caught:
            query(tmp_path).to_spark(spark, plan=plan, slices=3, shards=2).collect()
        assert isinstance(task_error(caught.value), hp.DataError)


@pytest.mark.parametrize("plan", ["slices", "shards"])
def test_files_whose_times_mean_other_things_are_refused_while_planning(
    spark: SparkSession, tmp_path: Path, plan: Any
) -> None:
    table = readings()
    write(table, tmp_path / "a.parquet")
    times = pa.array(table["time"].to_numpy()).cast(pa.timestamp("us"))
    write(table.set_column(1, "time", times), tmp_path / "b.parquet")
    with pytest.raises(
        hp.DataError, match=r"column 'time' is int64 in \S+a\.parquet and timestamp\[us\] in \S+b\.parquet"
    ):
        query(tmp_path).to_spark(spark, plan=plan)
    (tmp_path / "b.parquet").write_bytes(b"no Parquet at all")
    with pytest.raises(hp.DataError, match=r"b\.parquet: \S"):
        query(tmp_path).to_spark(spark, plan=plan)


def test_statistics_are_measured_once_and_for_many_files_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_statistics(readings(), tmp_path)
    root = compile_plan(query(tmp_path).node, Host.SLICES)
    monkeypatch.setattr(batch, "MEASURE_ON_SPARK_ABOVE", 3)
    choose = partial(batch.choose_plan, root, batch.PlanRequest(slices=2), 2, 2)
    by_spark = edges(choose(partial(batch._measure, spark)))
    pieces._measured_times.clear()
    assert edges(choose(pieces.measure_here)) == by_spark
    assert edges(choose(lambda scan, parts: pytest.fail("measured again"))) == by_spark


def edges(chosen: batch.PlanChoice) -> list[tuple[int, int]]:
    assert chosen.shares is not None
    return [(s.start, s.stop) for s in chosen.shares.shares]


def test_lifetimes_that_reach_into_a_slice_are_read(spark: SparkSession, tmp_path: Path) -> None:
    start = np.arange(0, 1000, 10)
    table = pa.table({"sensor": start % 3, "time": start, "end": start + 30, "value": start / 7})
    write(table, tmp_path / "rows.parquet", row_group_size=10)
    stream = hp.read.parquet(str(tmp_path), key="sensor", time="time", end="end").signal("value").sample(4)
    assert answer(stream.to_spark(spark, plan="slices", slices=4).toArrow()) == answer(stream.to_arrow())


# --- files that change --------------------------------------------------------------------------------------------------


def test_a_file_that_changed_after_planning_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    by_day(readings(), tmp_path)
    frames = {plan: query(tmp_path).to_spark(spark, plan=plan, slices=2, shards=2) for plan in ("slices", "shards")}
    changed = tmp_path / "day=2" / "rows.parquet"
    write(readings().slice(0, 500), changed)
    for frame in frames.values():
        with pytest.raises(Exception, match=r"DataError: the file .*day=2.* has changed since"):
            frame.count()
    os.remove(changed)
    with pytest.raises(Exception, match=r"DataError: the file .*day=2.* is gone since"):
        frames["slices"].count()


def test_new_files_wait_for_the_next_query(spark: SparkSession, tmp_path: Path) -> None:
    by_day(readings(), tmp_path)
    frame = query(tmp_path).to_spark(spark, plan="slices", slices=2)
    before = query(tmp_path).to_arrow().num_rows
    shutil.copytree(tmp_path / "day=3", tmp_path / "day=4")
    assert frame.count() == before


def test_one_key_with_most_of_the_data_is_not_the_share_of_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MIN_BYTES_PER_TASK", 4_000)
    for key in range(4):
        times = np.arange(20_000 if key == 1 else 1_000) * PERIOD
        rows = {
            "sensor": np.full(len(times), key),
            "time": times,
            "value": np.random.default_rng(key).normal(size=len(times)),
        }
        write(pa.table(rows), tmp_path / f"{key}.parquet", row_group_size=500)
    asked = compile_plan(query(tmp_path).node, Host.SLICES)
    chosen = batch.choose_plan(asked, batch.PlanRequest(), 2, 2, pieces.measure_here)
    assert chosen.name == "slices"
    wish = batch.PlanRequest("keys")
    assert batch.choose_plan(asked, wish, 2, 2, pieces.measure_here).name == "keys"


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_a_plan_that_cannot_be_is_refused_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    by_day(readings(), tmp_path)
    rows = hp.read.parquet(str(tmp_path), key="sensor", time="time")
    unbounded = rows.signal("value").sample(PERIOD, fill=hp.linear())
    with pytest.raises(hp.PlanError, match="no max_gap"):
        unbounded.to_spark(spark, plan="slices")
    assert "not slices: the reach is unbounded (sample: the fill has no max_gap)" in unbounded.explain("spark")
    with pytest.raises(hp.PlanError, match="files and folders hold rows of several keys"):
        query(tmp_path).to_spark(spark, plan="keys")
    with pytest.raises(hp.ParameterError, match="plan must be one of"):
        query(tmp_path).to_spark(spark, plan="columns")
    with pytest.raises(hp.ParameterError, match="slices must be at least 1"):
        query(tmp_path).to_spark(spark, slices=0)


def test_columns_that_only_later_files_have(spark: SparkSession, tmp_path: Path) -> None:
    def file(number: int, **more: Any) -> pa.Table:
        t = np.arange(number * 20, number * 20 + 20)
        return pa.table({"k": t % 2, "t": t * 1_000, "v": t * 1.0, **more})

    arrive(tmp_path / "in", [file(0), file(1, w=np.arange(20.0), n=pa.nulls(20)), file(2, n=["x"] * 20), file(3)])

    def read() -> hp.Stream:
        return hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())

    def stream() -> hp.UniformSignal:
        signal = read().signal("w").sample(2_000, fill=hp.hold(max_gap=4_000))
        to = hp.write.parquet(str(tmp_path / "out"))
        signal.start(spark, to=to, checkpoint=str(tmp_path / "c"), files_per_batch=1, trigger="available").wait()
        return signal

    source = read()
    local = source.to_arrow()
    assert local.column_names == ["k", "t", "v", "w", "n"]
    assert local["w"].null_count == 60 and local["n"].to_pylist().count("x") == 20
    for plan in ("slices", "shards"):
        found = source.to_spark(spark, plan=plan).toArrow()
        assert found.schema.names == local.column_names
        assert sorted(found.to_pylist(), key=str) == sorted(local.to_pylist(), key=str)
    stream()
    arrive(tmp_path / "in", [file(4, w=np.arange(20.0), new=np.arange(20)), file(5)], first=4)
    signal = stream()  # a column more, and still the query of the checkpoint
    streamed = pq.read_table(tmp_path / "out").drop_columns("batch")
    assert len(streamed) > 35
    assert sorted(streamed.to_pylist(), key=str) == sorted(signal.to_arrow().to_pylist(), key=str)
    arrive(tmp_path / "in", [file(6, w=["text"] * 20)], first=6)
    refused = r"column 'w' is double in \S+part-0001\.parquet and string in \S+part-0006\.parquet"
    with pytest.raises(hp.DataError, match=refused):
        read().to_arrow()
    with pytest.raises(hp.DataError, match=refused):
        read().to_spark(spark)
