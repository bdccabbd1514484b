"""Results that leave a few at a time: when, how far progress is meanwhile, what is held, and that a restart changes none of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.bench import flush as bench
from hydrophone.bench.packets import Link
from hydrophone.compiler.compile import Host, compile_plan, lower, stages
from hydrophone.engine.local import Live
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.ops.aggregates.flush import Flush
from hydrophone.ops.aggregates.panes import ClosingKernel
from hydrophone.spark.batch.plan import explain

SIZE = 10
WAYS = [hp.lazy(late=1), hp.lazy(late=3), hp.slow(every=3, late=2), hp.slow(every=1, late=4)]

Row = tuple[int, int]


def packets(seed: int, count: int = 150, keys: int = 6) -> pa.Table:
    """Some keys are rare, and time stands still now and then."""
    rng = np.random.default_rng(seed)
    key = (keys * rng.random(count) ** 2).astype(np.int64)
    return pa.table({"k": key, "t": np.cumsum(rng.choice([0, 1, 2, 25], count, p=[0.4, 0.4, 0.18, 0.02]))})


def query(table: pa.Table, flush: Flush | None, progress: Any = None) -> hp.Stream:
    stream = hp.from_arrow(table, key="k", time="t", progress=progress or hp.ordered())
    return stream.tumble(SIZE, flush=flush).agg(n=hp.count())


class Model:
    """What should leave when, row by row, by looking at everything every time; results are (key, start)."""

    def __init__(self, flush: Flush) -> None:
        self.flush, self.open, self.waiting, self.events = flush, set[Row](), list[Row](), 0

    def event(self, key: int, time: int) -> set[Row]:
        """The results that an event lets go."""
        self.open.add((key, time // SIZE * SIZE))
        left = {r for r in self.waiting if r[0] == key}
        self.events += 1
        if self.flush.every is not None and self.events % self.flush.every == 0:
            left |= set([r for r in self.waiting if r not in left][:1])
        self.waiting = [r for r in self.waiting if r not in left]
        return left

    def mark(self, mark: int, slots: dict[int, int]) -> set[Row]:
        """The results that leave at a mark; of those of one window the key comes first that has the lower slot."""
        closed = {r for r in self.open if r[1] + SIZE <= mark}
        self.open -= closed
        self.waiting += sorted(closed, key=lambda r: (r[1], slots[r[0]]))
        left = {r for r in self.waiting if r[1] + SIZE * (1 + self.flush.late) <= mark}
        self.waiting = [r for r in self.waiting if r not in left]
        return left

    def passed(self, mark: int) -> int:
        """How far results are."""
        return min([mark // SIZE * SIZE, *(start for _, start in self.waiting)])


def slots_of(live: Live) -> dict[int, int]:
    (keys,) = live.pipeline.scopes.values()
    used = np.flatnonzero(keys.used)
    return dict(zip(keys.columns(used)[0].to_pylist(), used.tolist(), strict=True))


def given(live: Live) -> list[Row]:
    return [(r["k"], r["t"]) for piece in live.pieces() for r in piece.to_pylist()]


@pytest.mark.parametrize("flush", WAYS, ids=str)
def test_results_leave_when_they_are_wanted_or_old(flush: Flush) -> None:
    """After every row: what leaves, and how far results are, which is never more than so many windows behind."""
    table = packets(1)
    live, model = Live(query(table, flush).node, hp.late.error()), Model(flush)
    all_at_once = Live(query(table, None).node, hp.late.error())
    late = 0
    for i, (key, time) in enumerate(zip(table["k"].to_pylist(), table["t"].to_pylist(), strict=True)):
        live.rows(0, table.slice(i, 1))
        wanted = model.event(key, time) | model.mark(time, slots_of(live))
        live.advance()
        found = given(live)
        assert len(found) == len(wanted) and set(found) == wanted
        assert live.metrics()["passed"] == model.passed(time)
        all_at_once.rows(0, table.slice(i, 1))
        all_at_once.advance()
        behind = all_at_once.metrics()["passed"] - live.metrics()["passed"]
        assert 0 <= behind <= flush.late * SIZE
        late = max(late, behind)
    assert late > 0


def test_slow_flush_lets_the_oldest_go() -> None:
    """Ten keys that never come again: one of them for every two events of another key, oldest windows first."""
    table = pa.table({"k": [*range(10), *[99] * 21], "t": [*range(0, 20, 2), *[20] * 21]})
    live = Live(query(table, hp.slow(every=2, late=5)).node, hp.late.error())
    left = []
    for i in range(len(table)):
        live.rows(0, table.slice(i, 1))
        live.advance()
        left.append(given(live))
    found = [r for rows in left for r in rows]
    assert sorted(found) == [(k, k * 2 // SIZE * SIZE) for k in range(10)]
    assert [start for _, start in found] == [0] * 5 + [10] * 5
    assert {len(rows) for rows in left} == {0, 1}
    assert live.metrics()["passed"] == 20


@pytest.mark.parametrize("flush", WAYS, ids=str)
@pytest.mark.parametrize("per_key", [False, True], ids=["of all", "per key"])
def test_what_is_held_is_bounded_and_goes(flush: Flush, per_key: bool) -> None:
    """No key waits with more windows than it may; when all have gone nothing is held."""
    rng = np.random.default_rng(5)
    count, keys = 4_000, 40
    time = np.sort(rng.integers(0, 4_000, count))
    # Keys come and go.
    table = pa.table({"k": time // 500 * keys + rng.integers(0, keys, count), "t": time})
    progress = hp.delayed(100, per_key=0) if per_key else hp.ordered()
    live = Live(query(table, flush, progress).node, hp.late.error())
    (kernel,) = (s.kernel for s in live.pipeline.stations.values() if isinstance(s.kernel, ClosingKernel))
    assert kernel.pending is not None
    rows, seen, most = 0, 0, 0
    for at in range(0, count, 50):
        live.rows(0, table.slice(at, 50))
        live.advance()
        rows += len(given(live))
        held = kernel.pending.all()
        if held is not None:
            seen = max(seen, len(held))
            most = max(most, int(np.unique(held.slot, return_counts=True)[1].max()))
        assert sum(map(len, kernel.pending.batches)) <= max(2 * seen, 1)
    assert 0 < most <= flush.late
    live.end(0)
    live.advance()
    assert rows + len(given(live)) == len(query(table, None).to_arrow())
    live.advance()  # keys of rows that were not taken yet stay
    assert kernel.pending.empty and live.pipeline.state_bytes < 30_000
    assert sum(t.live for t in live.pipeline.scopes.values()) == 0


@pytest.mark.parametrize("flush", WAYS, ids=str)
def test_a_restart_changes_nothing_that_leaves(flush: Flush) -> None:
    """One pipeline goes on after every snapshot, another begins with it: they give the same rows at the same moments."""
    table = packets(3)
    plan = lower([query(table, flush).node])
    one, waited = Pipeline(plan.roots), 0
    for at in range(0, len(table), 7):
        blocks = {path: block for path, block in one.snapshot().items() if block is not None}
        other = Pipeline(plan.roots)
        other.restore(blocks)
        mark = int(table["t"][min(at + 6, len(table) - 1)].as_py())
        found = []
        for run in (one, other):
            run.rows(0, table.slice(at, 7))
            run.advance([Progress(mark)])
            found.append([(b.slot.tolist(), b.start.tolist(), b.columns.to_pydict()) for b in run.drain()])  # type: ignore[union-attr]
            run.sweep()
        assert found[0] == found[1] and [one.progress(n) for n in one.nodes] == [other.progress(n) for n in other.nodes]
        waited += mark // SIZE * SIZE > one.progress(plan.roots[0]).mark
    assert waited


def test_on_spark_it_is_without_effect_and_said_so() -> None:
    stream = hp.from_arrow(packets(4), key="k", time="t", progress=hp.ordered())
    smooth, plain = (stream.tumble(SIZE, flush=f).agg(n=hp.count()).node for f in (hp.lazy(), None))
    assert smooth != plain
    assert compile_plan(smooth, Host.SLICES) == compile_plan(plain, Host.SLICES)
    assert stages(smooth, Host.STREAM) == stages(plain, Host.STREAM)
    assert "tumble: flush is without effect" in explain(smooth)
    assert "without effect" not in explain(plain)


def test_the_benchmark_measures_what_is_switched_on() -> None:
    table = Link(8_000, 4, 2_000, seed=2).packets().table.select(["ts", "src", "dst"])
    ran = {way: bench.run(table, flush, batch=1_000) for way, flush in bench.WAYS.items()}
    assert len({r.answer for r in ran.values()}) == 1
    burst = ran[bench.OFF].given.max()
    assert all(r.given.max() < 0.6 * burst for way, r in ran.items() if way != bench.OFF)
