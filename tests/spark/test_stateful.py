"""Shards of a streaming query without Spark: every case, chunks in any order, restarts at any moment."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES, Case, rows
from tests.laws.test_late import POLICIES, SOURCES, aside, disordered

import hydrophone as hp
from hydrophone.handles import Query
from hydrophone.spark.exchange import labels
from hydrophone.spark.pack import SINK, Chunk, Kind, by_content, key_columns
from hydrophone.spark.stateful import Shard, ShardPlan
from hydrophone.spark.streaming import Plan
from hydrophone.spark.wire import unpacked
from hydrophone.time import MAX_TIME


class Rehearsal:
    """A streaming query in this process: the same packers, shards and state as on Spark."""

    def __init__(self, query: Query, shards: int, late: hp.late.Late, seed: int = 0) -> None:
        self.plan = Plan.of(query.node, late)
        self.stages: list[ShardPlan] = self.plan.shards(shards, late, "rows")
        self.labels = labels(shards)
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
            largest: dict[str, int] = {}
            batches = []
            for piece, table in enumerate(_pieces(rows.get(number), self.rng)):
                batches += packer.pack("", piece, table, largest)
            if marks is not None:
                largest = {"": marks[number]}
            batches += packer.marks(largest)
            if clock is not None:
                # Spark's clock has microseconds; here they stand for nanoseconds.
                told = packer.clock([pa.RecordBatch.from_pydict({"timestamp": pa.array([clock], pa.timestamp("us"))})])
                batches += [
                    b.set_column(6, "data", pa.array([str(clock).encode()] * len(b), pa.binary())) for b in told
                ]
            chunks += [Chunk(*r.values()) for b in batches for r in b.to_pylist()]
        for stage in self.stages:
            chunks = self._stage(stage, chunks)
        assert {c.stage for c in chunks} <= {SINK}
        self.results += [unpacked(c.data) for c in chunks if c.kind == Kind.RESULT]
        self.late += [unpacked(c.data) for c in chunks if c.kind == Kind.LATE]
        return [json.loads(c.data) for c in chunks if c.kind == Kind.METRICS]

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


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda c: c.name)
def test_every_case(case: Case) -> None:
    query = _query(case)
    stream = Rehearsal(query, 3, hp.late.error(), seed=len(case.name))
    tables = [f.source.data.table for f in stream.plan.feeds]
    starts = [next(s for s in case.inputs.values() if s.table is t).starts() for t in tables]
    rng = np.random.default_rng(1)
    order = [rng.permutation(len(t)) for t in tables]
    done = 0
    while any(done < len(o) for o in order):
        step = {
            n: t.take(pa.array(o[done : done + 20], pa.int64()))
            for n, (t, o) in enumerate(zip(tables, order, strict=True))
        }
        done += 20
        left = {n: int(s[o[done:]].min(initial=MAX_TIME)) for n, (s, o) in enumerate(zip(starts, order, strict=True))}
        stream.run(step, left)
    stream.run({}, dict.fromkeys(range(len(tables)), MAX_TIME))
    answer = pa.concat_tables(stream.results) if stream.results else query.to_arrow().slice(0, 0)
    case.check(answer)


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


def test_content_orders_rows_whatever_came_first() -> None:
    rows = pa.table({"x": [0.0, -0.0, float("nan"), 1.5, None], "n": [[1], [2], None, [3], [4]]})
    mixed = rows.take(pa.array([3, 1, 4, 0, 2]))
    again = by_content(by_content(mixed).take(pa.array([4, 2, 0, 1, 3])))
    assert str(again.to_pylist()) == str(by_content(mixed).to_pylist())


def test_the_clock_moves_a_source_that_has_no_rows() -> None:
    stream = Rehearsal(_readings(progress=hp.delayed("500ns", lull="100ns")), 2, hp.late.side())
    stream.run({0: READINGS}, clock=5_000)
    assert {m["marks"]["0"] for m in stream.run({}, clock=2_000)} == {1_900}
    assert {m["marks"]["0"] for m in stream.run({}, clock=1_500)} == {1_900}
    late = stream.run({0: READINGS.slice(0, 10)}, clock=9_000)
    assert sum(m["late"]["0"] for m in late) == 10 and {m["marks"]["0"] for m in late} == {1_900}
