"""Shards of a streaming query without Spark: every case, chunks in any order, restarts at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tests.cases import ALL_CASES, Case, rows
from tests.cases.table import assert_same
from tests.choice import for_a_law, may_stall
from tests.laws.harness import FAR, last_instant
from tests.laws.test_late import POLICIES, SOURCES, aside, disordered
from tests.model.test_clock_guard import POLICIES as CLOCKS
from tests.model.test_clock_guard import counts, readings

import hydrophone as hp
from hydrophone.api import Query
from hydrophone.errors import StateVersionError
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.ops.aggregates import task_aggregates as cells
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.exchange.table_bytes import table_from_bytes
from hydrophone.spark.streaming import partial_aggregates
from hydrophone.spark.streaming.chunks import SINK, Chunk, Kind, TaskProgress, key_columns, sort_by_content
from hydrophone.spark.streaming.shard import Shard, ShardPlan, ShardTask, processor
from hydrophone.spark.streaming.stage_plans import StreamPlan


class Rehearsal:
    """A streaming query in this process: the same packers, shards and state as on Spark."""

    def __init__(self, query: Query, shards: int, late: hp.late.Late, seed: int = 0, *, combine: bool = False) -> None:
        self.combine, self.marks, self.cells = combine, dict[int, int](), 0
        self.plan = StreamPlan.of(query.node, late)
        self.stages: list[ShardPlan] = self.plan.shards(shards, late, "rows")
        self.labels = shard_labels(shards)
        self.state: dict[tuple[int, int], dict[str, bytes]] = defaultdict(dict)
        self.live: dict[tuple[int, int], Shard] = {}
        self.rng = np.random.default_rng(seed)
        self.results: list[pa.Table] = []
        self.late: list[pa.Table] = []

    def run(
        self, rows: dict[int, pa.Table], marks: dict[int, int] | None = None, clock: int | None = None
    ) -> list[dict]:
        """One micro-batch: rows by source, and their marks (by default those that the rows give)."""
        chunks: list[Chunk] = []
        for number, feed in enumerate(self.plan.feeds):
            packer = self.plan.packer(feed, len(self.labels))
            seen = TaskProgress(self.marks.get(number, MIN_TIME) if self.combine else None)
            batches = []
            for piece, table in enumerate(_pieces(rows.get(number), self.rng)):
                batches += packer.pack("", piece, table, seen)
            if marks is not None:
                seen.largest = {"": marks[number]}
            batches += packer.end(seen)
            if clock is not None:
                # Spark's clock has microseconds; here they stand for nanoseconds.
                told = packer.clock([pa.RecordBatch.from_pydict({"timestamp": pa.array([clock], pa.timestamp("us"))})])
                batches += [
                    b.set_column(6, "data", pa.array([str(clock).encode()] * len(b), pa.binary())) for b in told
                ]
            chunks += [Chunk(*r.values()) for b in batches for r in b.to_pylist()]
        self.cells += sum(c.kind == Kind.PARTIALS for c in chunks)
        for stage in self.stages:
            chunks = self._stage(stage, chunks)
        assert {c.stage for c in chunks} <= {SINK}
        self.results += [table_from_bytes(c.data) for c in chunks if c.kind == Kind.RESULT]
        self.late += [table_from_bytes(c.data) for c in chunks if c.kind == Kind.LATE]
        metrics = [json.loads(c.data) for c in chunks if c.kind == Kind.METRICS]
        self.marks |= {int(n): mark for m in metrics for n, mark in m["marks"].items()}
        return metrics

    def _stage(self, stage: ShardPlan, chunks: list[Chunk]) -> list[Chunk]:
        out = [c for c in chunks if c.stage != stage.stage]
        for number, label in enumerate(self.labels):
            mine = [c for c in chunks if c.stage == stage.stage and c.label == label]
            if not mine:
                continue
            self.rng.shuffle(mine)  # type: ignore[arg-type]
            at = stage.stage, label
            if at not in self.live or self.rng.random() < 0.5:
                self.live[at] = Shard(stage, number, self.state[at])
            given, changed = self.live[at].run(mine)
            out += given
            for path, data in changed.items():
                if data is None:
                    self.state[at].pop(path, None)
                else:
                    self.state[at][path] = data
        return out


def _pieces(table: pa.Table | None, rng: np.random.Generator) -> list[pa.Table]:
    if table is None or not len(table):
        return []
    at = int(rng.integers(0, len(table) + 1))
    return [t for t in (table.slice(0, at), table.slice(at)) if len(t)]


def _query(case: Case) -> Query:
    return replace(case, inputs={n: replace(s, progress=hp.ordered()) for n, s in case.inputs.items()}).build()


@for_a_law(ALL_CASES)
def test_every_case(case: Case, golden: Callable[..., None]) -> None:
    query = _query(case)
    stream = Rehearsal(query, 3, hp.late.error(), seed=len(case.name))
    tables = [f.source.data.table for f in stream.plan.feeds]
    starts = [next(s for s in case.inputs.values() if s.table is t).starts() for t in tables]
    rng = np.random.default_rng(1)
    order = [rng.permutation(len(t)) for t in tables]
    done, last = 0, last_instant(list(case.inputs.values()))
    while any(done < len(o) for o in order):
        step = {
            n: t.take(pa.array(o[done : done + 20], pa.int64()))
            for n, (t, o) in enumerate(zip(tables, order, strict=True))
        }
        done += 20
        left = {n: int(s[o[done:]].min(initial=last)) for n, (s, o) in enumerate(zip(starts, order, strict=True))}
        stream.run(step, left)
    # A stream has no end: its marks go on. Only what it would refuse gets one.
    end = MAX_TIME if may_stall(case) else add_time(last, FAR)
    stream.run({}, dict.fromkeys(range(len(tables)), end))
    answer = pa.concat_tables(stream.results) if stream.results else query.to_arrow().slice(0, 0)
    case.check(answer)
    golden("streaming", case, answer)


# --- rows merged before the exchange ------------------------------------------------------------------------------------


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size are merged, however little is gained, and whatever was given up before."""
    monkeypatch.setattr(partial_aggregates, "MIN_ROWS", 0)
    monkeypatch.setattr(partial_aggregates, "MAX_SHARE_SENT", 1)
    monkeypatch.setattr(cells, "_skip", {})


def energy(column: str) -> Any:
    """An aggregate of a user's own, which windows that overlap take away again."""
    return hp.aggregate(
        column,
        create=np.zeros,
        add=lambda s, v: s + v**2,
        remove=lambda s, v: s - v**2,
        merge=np.add,
        result=np.asarray,
    )


def merged_queries(source: hp.Stream) -> dict[str, hp.Stream]:
    """Queries whose rows tasks can merge; values are quarters, so that sums are exact in any order."""
    every = {
        "n": hp.count(),
        "there": hp.count("v"),
        "total": hp.sum("v"),
        "level": hp.mean("v"),
        "low": hp.min("v"),
        "high": hp.max("v"),
        "spread": hp.std("v"),
        "energy": energy("v"),
    }
    large = source.where(hp.col("v") > -5)
    return {
        "tumble": source.tumble(300, offset=7).agg(**every),
        "sliding": source.sliding(500, every=200, offset=-3).agg(**every),
        "running": source.sliding(600, every=200, report=100).agg(**every),
        "filtered": large.key_by("s").tumble(300).agg(**every),
        "computed key": source.with_columns(g=hp.col("k") % 2).key_by("g").tumble(300).agg(n=hp.count()),
        "no key": source.key_by().sliding(600, every=300).agg(n=hp.count(), high=hp.max("v")),
        "union": hp.union(source, large).tumble(300).agg(**every),
        "key named as a part": source.key_by(p0="s").tumble(300).agg(**every),
        "stages": source.tumble(300).agg(n=hp.count()).key_by().tumble(900).agg(n=hp.sum("n"), keys=hp.count()),
    }


def skewed(seed: int, count: int) -> pa.Table:
    """Rows that come up to 400 late, with ties, nulls, negative times and a gap."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(-3_000, 3_000, count)) // 5 * 5
    time[time > 1_000] += 7_000
    order = np.argsort(np.arange(count) + rng.uniform(0, count / 15, count))
    columns = {
        "k": rng.integers(0, 6, count),
        "t": time,
        "v": pa.array(rng.integers(-40, 40, count) / 4, mask=rng.random(count) < 0.1),
        "s": np.array(["x", "y", "z"])[rng.integers(0, 3, count)],
    }
    return pa.table(columns).take(pa.array(order))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("action", ["side", "adjust"])
@pytest.mark.parametrize("name", merged_queries(hp.from_arrow(skewed(0, 9), key="k", time="t")))
def test_merged_rows_give_the_answer_of_rows(
    name: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delay is too short, so that many rows are late: the same ones as in the local engine, and as often."""
    late = hp.late.side(str(tmp_path)) if action == "side" else hp.late.adjust()
    if action == "side":  # a table that sheds, in tasks that forget keys on the way
        monkeypatch.setattr(cells, "ENTRIES", 2)
        monkeypatch.setattr(partial_aggregates, "KEY_COLUMNS", 3)
    rng = np.random.default_rng(len(name))
    table = skewed(5, 400)
    query = merged_queries(hp.from_arrow(table, key="k", time="t", progress=hp.delayed(60)))[name]
    stream, plain = (Rehearsal(query, 3, late, combine=combine) for combine in (True, False))
    counted = []
    for piece in np.split(np.arange(400), np.sort(rng.integers(0, 400, 12))):
        given = {0: table.take(pa.array(piece))}
        both = stream.run(given), plain.run(given)
        counted.append([summed_metrics(m) for m in both])
    for s in (stream, plain):
        s.run({}, {0: MAX_TIME})
    assert stream.cells
    assert not plain.cells
    assert all(a == b for a, b in counted)
    assert sum(late for (*_, late, _, _), _ in counted) > 10
    found, wanted = (sorted(rows(pa.concat_tables(s.results)), key=str) for s in (stream, plain))
    assert_same(found, wanted, 1e-12)
    assert sorted(map(str, (r for t in stream.late for r in rows(t)))) == sorted(
        map(str, (r for t in plain.late for r in rows(t)))
    )


@pytest.mark.usefixtures("eager")
def test_rows_that_are_there_for_their_mark_alone_are_not_merged() -> None:
    table = pa.table(
        {
            "k": pa.array([1, 1, None, 1, None], pa.int64()),
            "t": pa.array([10, 30, None, 70, None], pa.int64()),
            "m": pa.array([None, None, 50, None, 100], pa.int64()),
        }
    )
    source = hp.from_arrow(table, key="k", time="t", progress=hp.punctuated("m"))
    query = source.tumble(50).agg(n=hp.count())
    stream = Rehearsal(query, 1, hp.late.error(), combine=True)
    for rows_of_batch in (table.slice(0, 3), table.slice(3)):
        stream.run({0: rows_of_batch})
    assert stream.cells
    assert sorted(rows(pa.concat_tables(stream.results))) == [(1, 0, 50, 2), (1, 50, 100, 1)]


def summed_metrics(shards: list[dict]) -> tuple[object, ...]:
    total = [sum(m[name] for m in shards) for name in ("rows", "results", "keys")]
    late = [sum(m["late"].get("0", 0) for m in shards), sum(m["rows_of"].get("0", 0) for m in shards)]
    return *total, *late, sorted({m["marks"]["0"] for m in shards if m["marks"]})


@pytest.mark.parametrize(
    ("entries", "size", "merged"), [(16, 1, [0, 0, 0]), (5_000, 1, [400, 0, 0]), (5_000, 3_000, [400, 400, 400])]
)
def test_where_little_is_gained_rows_travel(
    entries: int, size: int, merged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose cells have no room in the table travels at once; else what has left a task says whether to go on."""
    monkeypatch.setattr(partial_aggregates, "MIN_ROWS", 1)
    monkeypatch.setattr(cells, "ENTRIES", entries)
    monkeypatch.setattr(cells, "_skip", {})
    rows = hp.from_arrow(skewed(1, 400), key="k", time="t", progress=hp.delayed(100_000, ahead=None))
    stream = Rehearsal(rows.tumble(size).agg(n=hp.count()), 1, hp.late.error(), combine=True)
    found = [sum(m["merged"] for m in stream.run({0: skewed(1, 400)})) for _ in range(3)]
    assert found == merged
    assert (stream.cells > 0) == any(merged)


def test_the_first_rows_of_a_task_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_aggregates, "MIN_ROWS", 500)
    monkeypatch.setattr(cells, "_skip", {})
    table = skewed(1, 400)
    rows = hp.from_arrow(table, key="k", time="t", progress=hp.delayed(100_000, ahead=None))
    plan = StreamPlan.of(rows.tumble(3_000).agg(n=hp.count()).node, hp.late.error())
    packer, seen = plan.packer(plan.feeds[0], 2), TaskProgress(MIN_TIME)
    merged = []
    for number in range(4):
        list(packer.pack("", number, table.slice(100 * number), seen))
        merged.append(sum(seen.taken.values()))
    assert merged == [0, 300, 500, 600]


@pytest.mark.usefixtures("eager")
def test_a_mark_that_tasks_do_not_know_is_no_guess() -> None:
    """Rows merged from before the mark on would be late rows that nobody has counted."""
    query = _readings().tumble(100).agg(n=hp.count())
    stream = Rehearsal(query, 2, hp.late.side(), combine=True)
    stream.run({0: READINGS})
    stream.marks[0] -= 1
    with pytest.raises(StateVersionError, match="the mark is 970 already"):
        stream.run({0: READINGS})


@pytest.mark.parametrize(
    ("why", "query"),
    {
        "progress is per key": lambda: _readings(progress=hp.delayed(20, per_key=10)).tumble(100).agg(n=hp.count()),
        "middle cannot be merged": lambda: _readings().tumble(100).agg(n=hp.count(), middle=hp.quantile("v", 0.5)),
        "other operators read": lambda: (lambda s: hp.union(s.tumble(9).agg(v=hp.mean("v")), s.alter(1)))(_readings()),
        "tasks merge": lambda: (
            hp.union(_readings(), _readings().where(hp.col("v") > 1)).sliding(9, every=3).agg(n=hp.count())
        ),
    }.items(),
)
def test_explain_says_what_tasks_merge(why: str, query: Any) -> None:
    assert f"in a stream: {query().node.topological()[-1].name()}" in query().explain("spark") or "other" in why
    assert why in query().explain("spark")


READINGS = pa.table({"k": ["a", "b", "a", "b"] * 25, "t": np.arange(100) * 10, "v": np.arange(100.0)})


def _readings(**options: object) -> hp.Stream:
    return hp.from_arrow(READINGS, key="k", time="t", **{"progress": hp.delayed("20ns"), **options})


@pytest.mark.parametrize("action", ["side", "drop", "adjust"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SOURCES)
def test_late_rows_are_those_of_the_local_engine(name: str, policy: str, action: str, tmp_path: Path) -> None:
    source = disordered(SOURCES[name], POLICIES[policy], seed=5)
    query = source.stream()
    late = hp.late.side(str(tmp_path)) if action == "side" else getattr(hp.late, action)()
    stream = Rehearsal(query, 2, late)
    for start in range(0, len(source.table), 7):
        stream.run({0: source.table.slice(start, 7)})
    local = pa.concat_tables(query.batches(7, late=late))
    assert sorted(map(str, rows(pa.concat_tables(stream.results)))) == sorted(map(str, rows(local)))
    assert sorted(map(str, (r for t in stream.late for r in rows(t)))) == sorted(map(str, aside(tmp_path)))


def test_rows_that_a_filter_removes_are_late_too() -> None:
    stream = Rehearsal(_readings().where(hp.col("v") > 90), 2, hp.late.side())
    stream.run({0: READINGS.slice(50, 50)})
    metrics = stream.run({0: READINGS.slice(0, 50)})
    assert sum(m["late"].get("0", 0) for m in metrics) == 50
    late = pa.concat_tables(stream.late)
    assert late.sort_by("t").equals(READINGS.slice(0, 50).combine_chunks())


def test_rows_that_a_filter_removes_move_progress() -> None:
    stream = Rehearsal(_readings().where(hp.col("v") < 10), 2, hp.late.side())
    metrics = stream.run({0: READINGS})
    assert {m["marks"]["0"] for m in metrics} == {990 - 20}


def test_marks_tell_how_far_results_are_and_what_it_took() -> None:
    stream = Rehearsal(
        _readings().tumble(100).agg(n=hp.count()).key_by().tumble(500).agg(n=hp.sum("n")), 2, hp.late.side()
    )
    metrics = stream.run({0: READINGS})
    assert {m["passed"] for m in metrics if "passed" in m} == {500}  # the source is at 970, the first counts at 900
    assert all(m["mark_us"][str(m["stage"])] >= 0 for m in metrics)
    assert {m["stage"] for m in metrics if "passed" in m} == {1}
    assert sum(m["rows_of"].get("0", 0) for m in metrics) == len(READINGS)


def test_a_source_that_feeds_two_ports_has_late_rows_once() -> None:
    readings = _readings()
    left = readings.key_by("k").select("v")
    query = left.with_columns(w=hp.col("v") * 2).select("w").band_join(left, before=5, after=5)
    stream = Rehearsal(query, 2, hp.late.side())
    stream.run({0: READINGS.slice(50, 50)})
    stream.run({0: READINGS.slice(40, 10)})
    assert sum(map(len, stream.late)) == 10


def test_a_key_that_is_computed_finds_its_shard() -> None:
    query = _readings().with_columns(parity=hp.col("v") % 2).select("parity", "v")
    text = query.with_columns(name=hp.when(hp.col("parity") > 0).then(hp.lit("odd")).otherwise(hp.lit("even")))
    total = text.where(hp.col("v") > 3).key_by("name").tumble("100ns").agg(n=hp.count())
    stream = Rehearsal(total, 3, hp.late.error())
    assert key_columns(stream.plan.stages[0].inputs[0].prefix) is None
    stream.run({0: READINGS}, {0: MAX_TIME})
    assert pa.concat_tables(stream.results).sort_by("t").sort_by("name")["n"].to_pylist() == [3, *[5] * 9] * 2


def test_rows_without_the_new_key_may_be_filtered_before_key_by() -> None:
    rows = pa.table({"t": range(40), "s": [None if i < 20 and i % 3 == 0 else f"s{i % 5}" for i in range(40)]})
    named = hp.from_arrow(rows, time="t", progress=hp.ordered()).where(~hp.col("s").is_null()).key_by("s")
    stream = Rehearsal(named.tumble(40).agg(n=hp.count()), 3, hp.late.error())
    stream.run({0: rows.slice(0, 20)})  # with nulls and without, equal keys must meet in one shard
    stream.run({0: rows.slice(20)}, {0: MAX_TIME})
    found = {r["s"]: r["n"] for t in stream.results for r in t.to_pylist()}
    assert found == {k: rows["s"].to_pylist().count(k) for k in ("s0", "s1", "s2", "s3", "s4")}
    unfiltered = hp.from_arrow(rows, time="t", progress=hp.ordered()).key_by("s").tumble(40).agg(n=hp.count())
    with pytest.raises(hp.DataError, match="rows have no key in 's'"):
        Rehearsal(unfiltered, 3, hp.late.error()).run({0: rows})


def test_spark_asks_for_the_state_without_importing_this_package(tmp_path: Path) -> None:
    """When a query starts, a Python process on the driver has ten seconds to say which state there is."""
    stage = StreamPlan.of(_readings().node, hp.late.error()).shards(2, hp.late.error(), "rows")[0]
    (tmp_path / "processor").write_bytes(cloudpickle.dumps(processor(ShardTask("query", stage, None))))
    code = "import pickle, sys; from unittest.mock import Mock; p = pickle.load(open(sys.argv[1], 'rb')); p.init(h := Mock())"
    shown = "print(h.getMapState.call_args.args[0], {'hydrophone', 'numba', 'pandas'} & sys.modules.keys())"
    command = [sys.executable, "-c", f"{code}; {shown}", str(tmp_path / "processor")]
    assert subprocess.check_output(command, text=True) == "blocks set()\n"


def test_content_orders_rows_whatever_came_first() -> None:
    rows = pa.table({"x": [0.0, -0.0, float("nan"), 1.5, None], "n": [[1], [2], None, [3], [4]]})
    mixed = rows.take(pa.array([3, 1, 4, 0, 2]))
    again = sort_by_content(sort_by_content(mixed).take(pa.array([4, 2, 0, 1, 3])))
    assert str(again.to_pylist()) == str(sort_by_content(mixed).to_pylist())


def test_the_clock_moves_a_source_that_has_no_rows() -> None:
    stream = Rehearsal(_readings(progress=hp.delayed("500ns", lull="100ns")), 2, hp.late.side())
    stream.run({0: READINGS}, clock=5_000)
    assert {m["marks"]["0"] for m in stream.run({}, clock=2_000)} == {1_900}
    assert {m["marks"]["0"] for m in stream.run({}, clock=1_500)} == {1_900}
    late = stream.run({0: READINGS.slice(0, 10)}, clock=9_000)
    assert sum(m["late"]["0"] for m in late) == 10 and {m["marks"]["0"] for m in late} == {1_900}


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("policy", list(CLOCKS))
def test_a_clock_that_is_ahead_is_the_same_in_all_shards(
    policy: str, combine: bool, eager: None, tmp_path: Path
) -> None:
    """Rows ahead go aside as in the local engine, whatever was merged before the exchange and wherever shards were restarted."""
    table = readings(400, wrong=0.2)
    query = counts(hp.from_arrow(table, key="k", time="t", progress=CLOCKS[policy]))
    local = [r for t in query.batches(50, late=hp.late.side(str(tmp_path / "late"))) for r in rows(t)]
    stream = Rehearsal(query, 3, hp.late.side(), combine=combine)
    late = 0
    for at in range(0, len(table), 50):
        late += sum(sum(m["late"].values()) for m in stream.run({0: table.slice(at, 50)}))
    assert late == len(aside(tmp_path / "late")) > 50
    assert sorted(map(str, rows(pa.concat_tables(stream.late)))) == sorted(map(str, aside(tmp_path / "late")))
    marks = {shard.intake.trackers[0].mark for shard in stream.live.values()}
    assert len(marks) == 1
    known = {json.dumps(json.loads(blocks["trackers"])[0]) for blocks in stream.state.values()}
    assert len(known) == 1, "shards believe different things"
    given = [r for t in stream.results for r in rows(t)]
    assert set(given) <= set(local) and len(given) >= len(local) - 40
