"""Where answers go on Spark, in batch and as a stream; which part of an answer is computed; what Spark calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from tests.spark.test_streaming import arrive

import hydrophone as hp
from hydrophone import cli
from hydrophone.compiler import result_range as narrow
from hydrophone.compiler.compile import compile_plan
from hydrophone.connect import csv
from hydrophone.engine.scan import condition_of
from hydrophone.plan.source import Source
from hydrophone.spark.titles import described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MINUTE = 60_000_000_000


def lake(home: Path, files: int = 3, clock: str = "int") -> Path:
    """Readings of five keys every second, a minute in every file."""
    t = np.arange(files * 300)
    ns = pa.array(t // 5 * 1_000_000_000)
    time = {"int": ns, "ntz": ns.cast(pa.timestamp("ns")).cast(pa.timestamp("us"))}.get(clock)
    time = ns.cast(pa.timestamp("ns", "UTC")).cast(pa.timestamp("us", "UTC")) if time is None else time
    table = pa.table({"k": t % 5, "t": time, "v": np.sin(t)})
    arrive(home / "in", [table.slice(n * 300, 300) for n in range(files)])
    return home / "in"


def smooth(path: Path, **options: Any) -> hp.UniformSignal:
    rows = hp.read.parquet(str(path), key="k", time="t", **options)
    return rows.signal("v").sample("1s", fill=hp.linear(max_gap="10s")).fir([0.5, 0.25, 0.25])


def seen(table: pa.Table) -> list[Any]:
    time = table["t"]
    if pa.types.is_timestamp(time.type):
        time = time.cast(pa.timestamp("us", time.type.tz)).cast(pa.int64())
    return sorted(zip(table["k"].to_pylist(), time.to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"create database sink_tests location '{tmp_path}/tables'")
    yield "sink_tests"
    spark.sql("drop database sink_tests cascade")


# --- batch --------------------------------------------------------------------------------------------------------------


def test_batch_answers_in_files_and_tables(spark: SparkSession, tmp_path: Path, database: str) -> None:
    query = smooth(lake(tmp_path))
    wanted = seen(query.to_arrow())
    query.save(hp.write.parquet(str(tmp_path / "p")), spark)
    query.save(hp.write.csv(str(tmp_path / "c")), spark)
    query.save(hp.write.table(f"{database}.t"), spark)
    assert seen(spark.read.parquet(str(tmp_path / "p")).toArrow()) == wanted
    csv = spark.read.csv(str(tmp_path / "c"), header=True, schema="k long, t long, value double")
    assert seen(csv.toArrow()) == wanted
    assert seen(spark.table(f"{database}.t").toArrow()) == wanted
    for to in (
        hp.write.parquet(str(tmp_path / "p")),
        hp.write.csv(str(tmp_path / "c")),
        hp.write.table(f"{database}.t"),
    ):
        with pytest.raises(hp.ParameterError, match="exists already"):
            query.save(to, spark)
    query.save(hp.write.table(f"{database}.t"), spark, overwrite=True)
    assert spark.table(f"{database}.t").count() == len(wanted)


def test_jobs_say_what_they_do(spark: SparkSession, tmp_path: Path) -> None:
    query = smooth(lake(tmp_path))
    query.save(hp.write.parquet(str(tmp_path / "p")), spark)
    with described(spark, "mine"):
        query.to_spark(spark).toArrow()
    spark.range(3).repartition(2).collect()
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)  # the last one first
    found = [jobs.apply(n).description() for n in range(jobs.size())]
    texts = [text.get() for text in found[:8] if text.isDefined()]
    assert found[0].isEmpty() and texts[0] == "mine"
    assert "hydrophone save: signal, sample, fir" in texts
    assert spark.conf.get("spark.job.description", None) is None


def test_what_a_sink_cannot_hold_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    spectra = smooth(lake(tmp_path), progress=hp.delayed("1s")).window(4).rfft()
    for start in (
        lambda: spectra.save(hp.write.csv(str(tmp_path / "c")), spark),
        lambda: spectra.start(spark, to=hp.write.csv(str(tmp_path / "c")), checkpoint=str(tmp_path / "x")),
    ):
        with pytest.raises(hp.UnsupportedError, match="no place in a cell"):
            start()
    with pytest.raises(hp.UnsupportedError, match="files or tables"):
        spectra.save(hp.write.memory(), spark)
    assert not (tmp_path / "c").exists() and not (tmp_path / "x").exists()


def test_complex_values_are_two_columns_in_csv(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as k, named_struct('re', 2D, 'im', 3D) as value")
    assert csv.flat(frame).toArrow().to_pydict() == {"k": [1], "value.re": [2.0], "value.im": [3.0]}


# --- streams ------------------------------------------------------------------------------------------------------------


def test_a_stream_into_a_table_and_csv_files_with_a_batch_that_runs_again(
    spark: SparkSession, tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lake(tmp_path)
    query = smooth(path, progress=hp.delayed("1s"))
    name = f"{database}.live"
    targets = {"t": hp.write.table(name), "c": hp.write.csv(str(tmp_path / "csv"))}
    found = []
    for again in (False, True):
        running = [
            query.start(
                spark, to=to, checkpoint=str(tmp_path / c), name=f"sink {c}", files_per_batch=1, trigger="available"
            )
            for c, to in targets.items()
        ]
        for one in running:
            one.wait()
        assert running[0].query.name == "sink t"
        assert running[0].query.lastProgress["observedMetrics"]["hydrophone"].rows == 300
        spark.catalog.refreshTable(name)
        table = spark.table(name)
        assert table.select("query").distinct().count() == 1
        csv = [pc.read_csv(f) for f in (tmp_path / "csv").rglob("part-*.csv")]
        found.append((seen(table.toArrow()), seen(pa.concat_tables(t for t in csv if len(t)))))
        if not again:
            # As if the driver had died after it wrote the last results and before it said so.
            for checkpoint in targets:
                for commit in (tmp_path / checkpoint / "commits").glob("*2*"):
                    commit.unlink()
    (first, first_csv), (second, second_csv) = found
    wanted = seen(query.to_arrow())
    assert first == second == [r for r in wanted if r in set(first)] != []
    assert first_csv == second_csv == first
    assert cli.main(["state", "show", str(tmp_path / "t")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("shards 2", "release 0.1", "last micro-batch that is done 2", "state", "commits 6 files"):
        assert text in shown
    with pytest.raises(hp.ParameterError, match=r"sink_tests.live has the columns k, t, value"):
        other = hp.read.parquet(str(path), key="k", time="t", progress=hp.delayed("1s"))
        other.start(spark, to=hp.write.table(name), checkpoint=str(tmp_path / "other"))


# --- a part of the answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["int", "ntz", "utc"])
def test_a_part_of_the_answer_is_what_a_filter_gives(spark: SparkSession, tmp_path: Path, clock: str) -> None:
    query = smooth(lake(tmp_path, clock=clock))
    low, high = MINUTE + 500, 2 * MINUTE
    whole = query.to_arrow()
    ns = whole["t"].cast(pa.timestamp("ns", whole["t"].type.tz)).cast(pa.int64()) if clock != "int" else whole["t"]
    at = ns.to_numpy()
    wanted = seen(whole.filter((at >= low) & (at < high) & np.isin(whole["k"].to_numpy(), [1, 3])))
    assert len(wanted) == 2 * 59
    for plan in ("slices", "shards"):
        part = query.to_spark(spark, plan=plan, keys=hp.col("k").is_in([1, 3]), start=low, end=high)
        assert seen(part.toArrow()) == wanted


def test_the_conditions_reach_the_scan(tmp_path: Path) -> None:
    query = smooth(lake(tmp_path))
    part = narrow.ResultRange.of(query.node.type, hp.col("k") == 3, MINUTE, None, "rows")
    root = compile_plan(part.restrict(query.node))
    (source,) = [n for n in root.topological() if isinstance(n, Source)]
    condition = str(condition_of(root, source))
    assert "k == 3" in condition and "t >= " in condition


def test_parts_that_make_no_sense(spark: SparkSession, tmp_path: Path) -> None:
    query = smooth(lake(tmp_path))
    with pytest.raises(hp.ParameterError, match="keys looks at 'v', which is no part of the key; the key is: k"):
        query.to_spark(spark, keys=hp.col("v") > 3)
    with pytest.raises(hp.ParameterError, match="start must be before end"):
        query.to_spark(spark, start=5, end=5)
    with pytest.raises(hp.UnsupportedError, match="segments are longer"):
        query.to_spark(spark, start=5, shape="segments")
    with pytest.raises(hp.PlanError, match="where the key changes on the way"):
        query.events().key_by().tumble("1min").agg(n=hp.count()).to_spark(spark, keys=hp.lit(True))


# --- names ----------------------------------------------------------------------------------------------------------------


def test_spark_shows_what_a_task_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = smooth(lake(tmp_path))
    for plan in ("slices", "shards"):
        query.to_spark(spark, plan=plan).explain()
        shown = capsys.readouterr().out
        assert f"hydrophone {plan}: signal, sample, fir" in shown
    assert "read parquet:" in shown


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_stream_does_not_replace_the_results_of_another(spark: SparkSession, tmp_path: Path, form: str) -> None:
    arrive(tmp_path / "in", [pa.table({"k": [1, 1], "t": [0, 10], "v": [1.0, 2.0]})])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())
    to = getattr(hp.write, form)(str(tmp_path / "out"))
    options = {"to": to, "trigger": "available", "late": hp.late.drop()}
    source.start(spark, checkpoint=str(tmp_path / "c1"), **options).wait()
    before = sorted(p.name for p in (tmp_path / "out" / "batch=0").iterdir())
    with pytest.raises(hp.ParameterError, match="holds results of another query"):
        source.start(spark, checkpoint=str(tmp_path / "c2"), **options)
    assert sorted(p.name for p in (tmp_path / "out" / "batch=0").iterdir()) == before
    source.start(spark, checkpoint=str(tmp_path / "c1"), **options).wait()


def test_units_of_written_times_are_those_of_the_writer(spark: SparkSession, tmp_path: Path) -> None:
    path = str(lake(tmp_path, files=1, clock="ntz"))
    query = hp.read.parquet(path, key="k", time="t", progress=hp.ordered()).where(hp.col("v") > 0)
    query.save(hp.write.parquet(str(tmp_path / "here")))
    query.save(hp.write.parquet(str(tmp_path / "there")), spark)
    to = hp.write.parquet(str(tmp_path / "live"))
    query.start(spark, to=to, checkpoint=str(tmp_path / "c"), shards=1, trigger="available").wait()
    here, there, live = (pq.read_table(tmp_path / name) for name in ("here", "there", "live"))
    assert here["t"].type == pa.timestamp("ns")
    assert there["t"].type == live["t"].type == pa.timestamp("us")
    assert set(live.column_names) == {*here.column_names, "batch"} and here.column_names == there.column_names
    assert len(here) == len(there) == len(live) > 100
