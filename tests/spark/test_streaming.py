"""Queries as streams on real Spark: equal to the local answer, each row once, whatever is replayed or restarted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.cases import ALL_CASES, Case, Source
from tests.cases.table import assert_same, rows

import hydrophone as hp
from hydrophone.ops.aggregates.task_aggregates import ENTRIES
from hydrophone.spark.streaming import claims, sinks, source_log
from hydrophone.spark.streaming.running import RunningQuery
from hydrophone.spark.streaming.settings import settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def arrive(folder: Path, tables: Sequence[pa.Table], first: int = 0) -> None:
    """Put files into a folder; Spark takes them in the order of their times."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        draft = folder / f"_{number}"
        pq.write_table(table, draft)
        os.utime(draft, (1_700_000_000 + number,) * 2)
        draft.rename(folder / f"part-{number:04}.parquet")


def result(path: Path) -> pa.Table:
    return pq.read_table(path).drop_columns("batch")


def folders(path: Path) -> list[int]:
    return sorted(int(p.name.removeprefix("batch=")) for p in path.glob("batch=*"))


# --- equal to the local answer ------------------------------------------------------------------------------------------

CASES = [
    ("sample-timestamps", "tumble-by-both"),
    ("key-by-after-tumble", "band-join-points"),
    ("tumble-slow-then-lazy", "sliding-by-both-running"),
]
"""Two cases at a time: instants of Spark's, two stages, two sources, windows that report before they end."""
MORE = [
    ("with-columns", "sample-linear"),
    ("fir-zero", "sos-zero"),
    ("channels-overlap-add", "combine-add"),
    ("tumble", "tumble-by-both-over-all-keys"),
    ("above-report", "key-by-between"),
    ("tumble-running", "sliding-slow"),
]
"""The same of other operators; `test_real_streams` runs every kernel."""


def with_end(source: Source, gap: int) -> Source:
    """The source with one row more, far in the future: progress passes everything before it."""
    last = source.table.slice(int(np.argmax(source.starts())), 1)
    for name in filter(None, [source.time, source.end]):
        kind = last.schema.field(name).type
        moved = pa.array((source.starts() if name == source.time else source.stops()).max(keepdims=True) + gap)
        column = moved.cast(pa.timestamp("ns")).cast(kind) if pa.types.is_timestamp(kind) else moved.cast(kind)
        last = last.set_column(last.column_names.index(name), name, column)
    return replace(source, table=pa.concat_tables([source.table, last]))


def in_files(source: Source, folder: Path, count: int, rng: np.random.Generator) -> Any:
    """The source as files whose rows are out of order, within the delay that it promises."""
    start = source.starts()
    by_time = np.argsort(start, kind="stable")
    body, end = by_time[:-1], by_time[-1:]
    jitter = np.argsort(np.arange(len(body)) + rng.uniform(0, len(body) / 4, len(body)))
    parts = [rng.permutation(p) for p in np.array_split(body[jitter], count)] + [end]
    arrive(folder, [source.table.take(pa.array(p)) for p in parts])
    seen = np.maximum.accumulate([start[p].max() for p in parts[:-1]])
    delay = max([0, *(int(s - start[p].min()) for s, p in zip(seen[:-1], parts[1:-1], strict=True))])
    return hp.read.parquet(str(folder), **{**source.options, "progress": hp.delayed(delay)})


@pytest.mark.parametrize("names", [*CASES, *(pytest.param(n, marks=pytest.mark.soak) for n in MORE)], ids="+".join)
def test_equals_the_local_answer(spark: SparkSession, tmp_path: Path, names: tuple[str, str]) -> None:
    """Spark starts a Python process per query, and gives it ten seconds: not more than two at a time."""
    rng = np.random.default_rng(5)
    running: list[tuple[Case, pa.Table, int, Path, RunningQuery]] = []
    for case in (c for c in ALL_CASES if c.name in names):
        home = tmp_path / case.name
        spans = [np.ptp(s.starts()) for s in case.inputs.values()]
        gap = 1000 * (int(max(spans)) // 1000 + 1) * 1000
        ended = replace(case, inputs={n: with_end(s, gap) for n, s in case.inputs.items()})
        streams = {n: in_files(s, home / "in" / n, 2, rng) for n, s in ended.inputs.items()}
        cut = max(int(s.starts().max()) for s in case.inputs.values()) + gap // 2
        query = ended.build(streams)
        to = hp.write.parquet(str(home / "out"))
        started = query.start(spark, to=to, checkpoint=str(home / "checkpoint"), files_per_batch=1, trigger="available")
        running.append((case, ended.build().to_arrow(), cut, home / "out", started))
    for case, local, cut, path, query in running:
        query.wait()
        time = len(case.plan.type.key)
        found, wanted = ([r for r in rows(t) if r[time] < cut] for t in (result(path), local))
        assert wanted, case.name
        assert_same(found, wanted, case.tolerance)
        assert folders(path) == [0, 1, 2]
        assert sum(sum(p["late"].values()) for p in query.progress) == 0
    assert len(running) == 2


def test_tasks_merge_rows_that_are_in_time(spark: SparkSession, tmp_path: Path) -> None:
    """The driver's mark reaches the tasks: rows at or after it travel as counts, late ones as rows; the checkpoint goes on without."""
    rng = np.random.default_rng(2)
    times = [np.sort(rng.integers(0, 1_000, 9_000)) + 1_000 * n - 1_500 for n in range(4)]
    times[2][:100] -= 3_000
    tables = [pa.table({"k": rng.integers(0, 9, len(t)), "t": t, "v": rng.integers(0, 99, len(t))}) for t in times]
    arrive(tmp_path / "in", tables[:1])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.delayed(0, ahead=None))
    query = source.tumble(100).agg(n=hp.count(), v=hp.sum("v"))
    merged, late, answers = [], [], []
    for n, combine in enumerate((True, False)):
        arrive(tmp_path / "in", tables[1:3] if not n else tables[3:], 1 + 2 * n)
        home = tmp_path / "out"
        where = {"to": hp.write.parquet(str(home)), "checkpoint": str(tmp_path / "checkpoint")}
        running = query.start(spark, **where, files_per_batch=1, trigger="available", shards=2, combine=combine)
        running.wait()
        merged += [p["merged"] for p in running.progress]
        late += [p["late"].get(0, 0) for p in running.progress]
        answers = rows(result(home))
    assert merged == [9_000, 9_000, 8_900, 0]
    assert late == [0, 0, 100, 0]
    plain = hp.from_arrow(pa.concat_tables([tables[0], tables[1], tables[2].slice(100), tables[3]]), key="k", time="t")
    local = plain.tumble(100).agg(n=hp.count(), v=hp.sum("v")).to_arrow()
    assert_same(answers, [r for r in rows(local) if r[1] < max(map(np.max, times)) // 100 * 100], 0)


def test_tasks_shed_what_their_table_cannot_hold(spark: SparkSession, tmp_path: Path) -> None:
    """Far more keys than entries in one task: where all rows are merged, some partial aggregates must have been shed."""
    rng, count, keys = np.random.default_rng(8), 600_000, 160_000
    columns = {"k": rng.integers(0, keys, count), "t": rng.integers(0, 1_000, count), "v": rng.integers(-9, 9, count)}
    table, last = pa.table(columns), pa.table({"k": [0], "t": [5_000], "v": [0]})
    assert len(np.unique(columns["k"])) > ENTRIES + 20_000
    arrive(tmp_path / "in", [table, last])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered(ahead=None))
    answers = {}
    for name, spread in {"plain": hp.max("v"), "own": hp.std("v")}.items():
        query = source.tumble(1_000).agg(n=hp.count(), v=hp.sum("v"), spread=spread)
        home = tmp_path / name
        where = {"to": hp.write.parquet(str(home / "out")), "checkpoint": str(home / "checkpoint")}
        running = query.start(spark, **where, files_per_batch=1, trigger="available", shards=2)
        answers[query] = running, home / "out"
    for query, (running, out) in answers.items():
        running.wait()
        assert [p["merged"] for p in running.progress] == [count, 0]
        found, local = (t.sort_by("k") for t in (result(out), query.to_arrow().filter(pc.field("t") < 5_000)))
        assert found.drop_columns("spread").equals(
            local.drop_columns("spread").cast(found.drop_columns("spread").schema)
        )
        np.testing.assert_allclose(found["spread"].to_numpy(), local["spread"].to_numpy(), rtol=1e-9)


# --- lulls, and from history to live ------------------------------------------------------------------------------------


def test_during_a_lull_progress_follows_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    now = time_ns() // 1_000_000_000 * 1_000_000_000
    t = now - np.arange(20, 0, -1) * 1_000_000_000
    arrive(tmp_path / "in", [pa.table({"k": np.zeros(20, int), "t": t, "v": np.ones(20)})])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.delayed("1h", lull="2s"))
    to = hp.write.memory()
    counts = source.tumble("5s").agg(n=hp.count())
    query = counts.start(spark, to=to, checkpoint=str(tmp_path / "checkpoint"))
    deadline = monotonic() + 60
    while sum(to.to_arrow()["n"].to_pylist() if to.batches else []) < 20:
        assert monotonic() < deadline, query.status
        sleep(0.2)
    query.stop()
    assert_same(rows(to.to_arrow()), rows(counts.to_arrow()), 0)
    assert query.progress[-1]["late"] == {}


def test_a_backlog_is_no_lull(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of long ago that wait in files are in time, whatever the clock shows."""
    arrive(tmp_path / "in", [readings(n) for n in range(4)])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered(lull="1s"))
    to = hp.write.memory()
    query = source.start(spark, to=to, checkpoint=str(tmp_path / "c"), files_per_batch=1, trigger="available")
    query.wait()
    assert len(to.to_arrow()) == 800 and not any(p["late"] for p in query.progress)


def test_history_goes_on_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """What was there is taken at once; what arrives later continues from there, without gap or double."""

    def levels() -> hp.Stream:
        source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())
        smooth = source.signal("v").sample("50ns").fir([0.5, 0.5])
        return smooth.events().tumble("1us").agg(level=hp.sum("value"))

    options = {"to": hp.write.parquet(str(tmp_path / "out")), "checkpoint": str(tmp_path / "checkpoint")}
    arrive(tmp_path / "in", [readings(n) for n in range(3)])
    levels().start(spark, trigger="available", **options).wait()
    before = len(result(tmp_path / "out"))
    arrive(tmp_path / "in", [readings(n) for n in range(3, 6)], first=3)
    live = levels().start(spark, **options)
    live.process_all_available()
    live.stop()
    found = rows(result(tmp_path / "out"))
    assert len(found) > before > 0
    last = max(r[1] for r in found)
    assert_same(found, [r for r in rows(levels().to_arrow()) if r[1] <= last], 1e-12)


# --- late rows ------------------------------------------------------------------------------------------------------------


def readings(number: int, count: int = 200, keys: int = 5) -> pa.Table:
    t = np.arange(number * count, (number + 1) * count)
    return pa.table({"k": t % keys, "t": t * 10, "v": np.sin(t)})


def test_main_plus_late_is_the_input(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = [readings(0), readings(2), readings(1), readings(3)]
    arrive(tmp_path / "in", tables)
    runs = {}
    for name, late in {"side": None, "there": hp.late.side(str(tmp_path / "late")), "drop": hp.late.drop()}.items():
        source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.delayed("2500ns"))
        runs[name] = source.start(
            spark,
            to=hp.write.parquet(str(tmp_path / name)),
            checkpoint=str(tmp_path / f"{name}-checkpoint"),
            late=late,
            files_per_batch=1,
            trigger="available",
        )
    for query in runs.values():
        query.wait()
        assert sum(p["late"].get(0, 0) for p in query.progress) == 149
        assert sum(p["rows"] for p in query.progress) == 800
        # Each took at least a millisecond, and surely not a minute.
        assert all(p["rows"] / 60 < p["rows_per_second"] <= p["rows"] * 1000 for p in query.progress if p["rows"])
    told = {str(tmp_path / "side-checkpoint" / "late"), str(tmp_path / "late"), "not kept"}
    assert {r.message.rpartition(", ")[2] for r in caplog.records if "149 late rows" in r.message} == told
    everything = sorted(pa.concat_tables(tables).to_pylist(), key=lambda r: r["t"])
    for name, path in {"side": tmp_path / "side-checkpoint" / "late", "there": tmp_path / "late"}.items():
        aside = pq.read_table(path).select(["k", "t", "v"])
        both = pa.concat_tables([result(tmp_path / name), aside])
        assert sorted(both.to_pylist(), key=lambda r: r["t"]) == everything
    assert len(result(tmp_path / "drop")) == 651
    assert len(hp.read.parquet(str(tmp_path / "drop"), key="k", time="t").to_arrow()) == 651


def test_spark_writes_where_python_cannot(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sinks, claims, source_log):
        monkeypatch.setattr(module, "on_this_machine", lambda spark, path: None)
    tables = [readings(0), readings(2), readings(1)]
    arrive(tmp_path / "in", tables)
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())
    to, checkpoint = hp.write.parquet(str(tmp_path / "out")), str(tmp_path / "checkpoint")
    for _ in range(2):  # again from the note that Spark wrote
        source.start(spark, to=to, checkpoint=checkpoint, files_per_batch=1, trigger="available").wait()
    assert (tmp_path / "checkpoint" / "hydrophone.json").is_dir()
    aside = pq.read_table(tmp_path / "checkpoint" / "late").select(["k", "t", "v"])
    assert len(aside) == 200 and folders(tmp_path / "out") == [0, 1, 2]
    both = pa.concat_tables([result(tmp_path / "out"), aside]).sort_by("t")
    assert both.to_pylist() == pa.concat_tables(tables).sort_by("t").to_pylist()


def test_late_rows_may_be_moved_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0), readings(2), readings(1)])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())
    moved = hp.write.memory()
    options: dict[str, Any] = {"files_per_batch": 1, "trigger": "available"}
    adjusted = source.start(spark, to=moved, checkpoint=str(tmp_path / "c1"), late=hp.late.adjust(), **options)
    refused = source.start(
        spark, to=hp.write.memory(), checkpoint=str(tmp_path / "c2"), late=hp.late.error(), **options
    )
    adjusted.wait()
    times = np.sort(moved.to_arrow()["t"].to_numpy())
    assert len(times) == 600 and (times == 5990).sum() == 1 + 200
    with pytest.raises(
        hp.LateEventError,
        match=r"source \S+: \d+ rows are late(.|\n)*at test_streaming.py:\d+(.|\n)*Hint: allow more delay",
    ):
        refused.wait()


def test_a_source_that_never_sends_a_mark_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    silent = [t.append_column("mark", pa.nulls(len(t), pa.int64())) for t in (readings(0), readings(1))]
    arrive(tmp_path / "in", silent)
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.punctuated("mark"))
    query = source.tumble(100).agg(n=hp.count())
    options: dict[str, Any] = {"files_per_batch": 1, "trigger": "available", "to": hp.write.memory()}
    stopped = query.start(spark, checkpoint=str(tmp_path / "c1"), unmarked=300, **options)
    with pytest.raises(
        hp.DataError, match=r"has sent 400 rows and no progress, and tumble at \S+ waits for it(.|\n)*Hint"
    ):
        stopped.wait()
    endured = query.start(spark, checkpoint=str(tmp_path / "c2"), unmarked=None, **options)
    endured.wait()
    assert endured.progress[-1]["passed"] < 0 < endured.progress[-1]["mark_ms"]


def test_keys_that_are_ahead_have_results_early(spark: SparkSession, tmp_path: Path) -> None:
    ahead = pa.table({"k": ["a", "b", "a"], "t": [10, 20, 950]})
    arrive(tmp_path / "in", [ahead, pa.table({"k": ["b", "a"], "t": [130, 960]})])
    given = {}
    for own in (0, None):
        source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.delayed(1_000, per_key=own))
        to, checkpoint = hp.write.memory(), str(tmp_path / f"c{own}")
        options: dict[str, Any] = {"files_per_batch": 1, "trigger": "available"}
        source.tumble(100).agg(n=hp.count()).start(spark, to=to, checkpoint=checkpoint, **options).wait()
        given[own] = {n: sorted((r["k"], r["t"]) for r in t.to_pylist()) for n, t in to.batches.items()}
    assert given == {0: {0: [("a", 0)], 1: [("b", 0)]}, None: {0: [], 1: []}}


def test_marks_for_single_keys_in_rows(spark: SparkSession, tmp_path: Path) -> None:
    def told(*rows: tuple[str | None, int | None, int | None]) -> pa.Table:
        key, time, mark = zip(*rows, strict=True)
        return pa.table(
            {"k": pa.array(key, pa.string()), "t": pa.array(time, pa.int64()), "m": pa.array(mark, pa.int64())}
        )

    parts = [
        told(("a", 1, None), ("b", 2, None), ("a", 112, 112)),  # a is ahead
        told(("b", None, 100), ("a", 331, None)),  # b has rows no more before 100, and says so without one
        told((None, None, 300), ("b", 340, None)),  # and this is for all
        told(("a", 345, None), ("b", None, 50)),  # a mark that goes back
    ]
    arrive(tmp_path / "in", parts)
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.punctuated("m", per_key=True))
    query = source.tumble(100).agg(n=hp.count())
    to = hp.write.memory()
    options: dict[str, Any] = {"files_per_batch": 1, "trigger": "available", "late": hp.late.drop()}
    running = query.start(spark, to=to, checkpoint=str(tmp_path / "c"), **options)
    running.wait()
    given = {n: sorted((r["k"], r["t"], r["n"]) for r in t.to_pylist()) for n, t in to.batches.items()}
    assert given == {0: [("a", 0, 1)], 1: [("b", 0, 1)], 2: [("a", 100, 1)], 3: []}
    assert [p["late"] for p in running.progress] == [{}, {}, {}, {0: 1}]
    whole = sorted((r["k"], r["t"], r["n"]) for r in query.to_arrow().to_pylist())
    assert whole == [("a", 0, 1), ("a", 100, 1), ("a", 300, 2), ("b", 0, 1), ("b", 300, 1)]
    for plan in ("shards", "slices"):
        batch = query.to_spark(spark, plan=plan).toArrow()
        assert sorted((r["k"], r["t"], r["n"]) for r in batch.to_pylist()) == whole


# --- restart and replay ------------------------------------------------------------------------------------------------------


def test_what_a_join_sheds_is_counted_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    def run() -> int:
        a, b = (
            hp.read.parquet(str(tmp_path / side), key="k", time="t", end="e", progress=hp.ordered()) for side in "ab"
        )
        pairs = a.join(b, limit=8000, overflow="shed")
        to, checkpoint = hp.write.parquet(str(tmp_path / "out")), str(tmp_path / "checkpoint")
        query = pairs.start(spark, to=to, checkpoint=checkpoint, shards=1, trigger="available")
        query.wait()
        return int(query.progress[-1]["shed"])

    t = np.arange(2000)
    rows = pa.table({"k": t % 7, "t": t, "e": t + 100_000, "v": t * 1.5})
    arrive(tmp_path / "a", [rows.slice(0, 1000)])
    arrive(tmp_path / "b", [rows.slice(0, 1)])
    first = run()
    arrive(tmp_path / "a", [rows.slice(1000)], first=1)
    assert 0 < first < 1000
    assert first + 500 < run() < 2000


def smooth(path: Path) -> hp.UniformSignal:
    source = hp.read.parquet(str(path), key="k", time="t", progress=hp.delayed("1us"))
    return source.signal("v").sample("10ns", fill=hp.linear(max_gap="100ns")).fir([0.5, 0.25, 0.125])


def test_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", str(tmp_path / "checkpoint")

    def run() -> RunningQuery:
        query = smooth(tmp_path / "in").start(
            spark,
            to=hp.write.parquet(str(out)),
            checkpoint=checkpoint,
            files_per_batch=1,
            trigger="available",
            shape="segments",
        )
        query.wait()
        return query

    arrive(tmp_path / "in", [readings(0), readings(1)])
    run()
    arrive(tmp_path / "in", [readings(2), readings(3)], first=2)
    again = run()
    assert [p["batch"] for p in again.progress] == [2, 3]
    local = smooth(tmp_path / "in").to_arrow()
    samples = sorted((r["k"], r["t"] + 10 * i, v) for r in result(out).to_pylist() for i, v in enumerate(r["values"]))
    wanted = sorted(r for r in rows(local) if r[1] < samples[-1][1] - 500)
    assert [s for s in samples if s[1] < samples[-1][1] - 500] == wanted

    other = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.delayed("1us"))
    with pytest.raises(hp.StateVersionError, match="another query"):
        other.start(spark, to=hp.write.parquet(str(out)), checkpoint=checkpoint)
    with pytest.raises(hp.StateVersionError, match="has 2 shards, not 3"):
        smooth(tmp_path / "in").start(spark, to=hp.write.parquet(str(out)), checkpoint=checkpoint, shards=3)

    replayed(spark, tmp_path, run)


def replayed(spark: SparkSession, home: Path, run: Any) -> None:
    """The last micro-batch again, as after a crash between the sink and the commit log; the live shards are gone too."""
    before = contents(home / "out" / "batch=3")
    for entry in ("3", ".3.crc"):
        os.remove(home / "checkpoint" / "commits" / entry)
    shutil.rmtree(home / "out" / "batch=3")
    again = run()
    assert [p["batch"] for p in again.progress] == [3]
    assert contents(home / "out" / "batch=3") == before
    assert folders(home / "out") == [0, 1, 2, 3]


def contents(folder: Path) -> list[str]:
    """The rows of every file, in their order; Spark gives files new names."""
    return [str(pq.ParquetFile(p).read().to_pylist()) for p in sorted(folder.glob("*.parquet"))]


# --- state ------------------------------------------------------------------------------------------------------------------


def new_keys(spark: SparkSession, home: Path, keys: int, batches: int) -> list[int]:
    """The bytes of state after every micro-batch when all keys are new each time."""
    for number in range(batches):
        k = np.tile(np.arange(number * keys, (number + 1) * keys), 4)
        t = number * 1000 + np.repeat(np.arange(4), keys) * 10
        arrive(home / "in", [pa.table({"k": k, "t": t, "v": np.ones(len(k))})], first=number)
    query = smooth(home / "in").start(
        spark,
        to=hp.write.parquet(str(home / "out")),
        checkpoint=str(home / "checkpoint"),
        files_per_batch=1,
        trigger="available",
        shape="segments",
    )
    query.wait()
    return [p["state_bytes"] for p in query.progress]


def test_keys_that_are_gone_leave_no_state(spark: SparkSession, tmp_path: Path) -> None:
    sizes = new_keys(spark, tmp_path, 1_000, 14)
    assert len(sizes) == 14 and sizes[-1] <= 1.2 * sizes[9]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_keys_that_are_gone_leave_no_state(spark: SparkSession, tmp_path: Path) -> None:
    sizes = new_keys(spark, tmp_path, 10_000, 50)
    assert len(sizes) == 50 and sizes[-1] <= 1.2 * sizes[9]


# --- any streaming DataFrame --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["in %41 ü", "plain"])
def test_files_and_folders_have_any_names(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    names = ["a 1", "b#2", "c%41", "e+f", "ключ"] if folder != "plain" else ["d?x", "g[1]"]
    for number, name in enumerate(names):
        arrive(tmp_path / folder, [readings(number)])
        (tmp_path / folder / "part-0000.parquet").rename(tmp_path / folder / f"{name}.parquet")
    source = hp.read.parquet(tmp_path / folder, key="k", time="t", progress=hp.delayed("1s"))
    memory = hp.write.memory()
    source.start(spark, to=memory, checkpoint=str(tmp_path / "c # %41"), trigger="available").wait()
    assert sorted(rows(memory.to_arrow())) == sorted(rows(source.to_arrow()))


def test_takes_any_streaming_frame(spark: SparkSession, tmp_path: Path) -> None:
    tables = [readings(0), readings(1)]
    arrive(tmp_path / "in", tables)
    frame = spark.readStream.schema("k long, t long, v double").option("maxFilesPerTrigger", 1)
    source = hp.from_spark(frame.parquet(str(tmp_path / "in")), key="k", time="t", progress=hp.ordered())
    memory = hp.write.memory()
    query = source.tumble("100ns").agg(n=hp.count(), v=hp.sum("v"))
    query.start(spark, to=memory, checkpoint=str(tmp_path / "c"), trigger="available").wait()
    local = hp.from_arrow(pa.concat_tables(tables), key="k", time="t").tumble("100ns").agg(n=hp.count(), v=hp.sum("v"))
    wanted = [r for r in rows(local.to_arrow()) if r[2] <= 3990]
    assert_same(rows(memory.to_arrow()), wanted, 1e-12)


def test_a_checkpoint_on_this_machine_is_written_without_other_programs(spark: SparkSession, tmp_path: Path) -> None:
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert manager in settings_of(spark, str(tmp_path), 2)  # Spark would not start with a class that it does not have
    assert manager not in settings_of(spark, "hdfs://elsewhere/checkpoint", 2)
    assert spark.conf.get(manager, None) is None  # the session keeps its own


# --- what is refused ----------------------------------------------------------------------------------------------------------


def test_a_trigger_is_a_duration_or_available(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [0], "v": [1.0]}), tmp_path / "a.parquet")
    source = hp.read.parquet(tmp_path, time="t", progress=hp.ordered())
    with pytest.raises(hp.ParameterError, match=r"trigger must be a text or None, got 0\.5j"):
        source.start(spark, to=hp.write.memory(), checkpoint=str(tmp_path / "c"), trigger=0.5j)  # type: ignore[arg-type]
    for wrong in ("once", "-1s"):
        with pytest.raises(
            hp.ParameterError, match=r"trigger must be .*got .*\s.*\s.*\"available\" takes what is there"
        ):
            source.start(spark, to=hp.write.memory(), checkpoint=str(tmp_path / "c"), trigger=wrong)
    assert not (tmp_path / "c").exists()


def test_refuses_what_would_never_end(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    to, checkpoint = hp.write.memory(), str(tmp_path / "c")
    silent = hp.read.parquet(str(tmp_path / "in"), key="k", time="t")
    with pytest.raises(hp.PlanError, match=r"promises no progress.*\n.*\n.*hp.delayed"):
        silent.start(spark, to=to, checkpoint=checkpoint)
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered())
    with pytest.raises(hp.PlanError, match="max_gap"):
        source.signal("v").sample("10ns", fill=hp.linear()).start(spark, to=to, checkpoint=checkpoint)
    coarse = source.signal("v").sample("10ns")
    with pytest.raises(hp.PlanError, match="resample: without max_gap"):
        coarse.resample("5ns", fill=hp.linear()).start(spark, to=to, checkpoint=checkpoint)
    table = hp.from_arrow(readings(0), key="k", time="t", progress=hp.ordered())
    with pytest.raises(hp.UnsupportedError, match="not a stream"):
        table.start(spark, to=to, checkpoint=checkpoint)
    still = hp.from_spark(spark.createDataFrame([(1, 1)], "k long, t long"), key="k", time="t", progress=hp.ordered())
    with pytest.raises(hp.PlanError, match="not a streaming one"):
        still.start(spark, to=to, checkpoint=checkpoint)
    with pytest.raises(hp.ParameterError, match="no column 'gateway'"):
        hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.ordered(by="gateway")).start(
            spark, to=to, checkpoint=checkpoint
        )
    assert not (tmp_path / "c").exists()
