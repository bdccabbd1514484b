"""Progress per key: whoever is ahead has results early, whoever is silent holds back nobody, and answers stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases.table import rows
from tests.spark.test_stateful import Rehearsal

import hydrophone as hp
from hydrophone.batch import Progress
from hydrophone.engine.local import Live
from hydrophone.engine.pipeline import Pipeline
from hydrophone.plan.lower import lower, stages
from hydrophone.time import MAX_TIME

SKEWS = {"a": 0, "b": 60, "c": 150}


def skewed(seed: int, own: int = 7, size: int = 40) -> pa.Table:
    """Keys that arrive up to 150 apart, each in order but for `own`."""
    rng = np.random.default_rng(seed)
    key = rng.choice(list(SKEWS), size)
    t = rng.integers(0, 400, size)
    arrival = t + np.array([SKEWS[k] for k in key]) + rng.integers(0, own + 1, size)
    return pa.table({"k": key, "t": t, "v": rng.integers(0, 9, size)}).take(np.argsort(arrival, kind="stable"))


def stream(table: pa.Table, per_key: int | None = 7) -> hp.Stream:
    return hp.from_arrow(table, key="k", time="t", progress=hp.delayed(160, per_key=per_key))


QUERIES: dict[str, Callable[[hp.Stream], Any]] = {
    "tumble": lambda s: s.tumble(20).agg(n=hp.count(), v=hp.sum("v")),
    "tumble, held rows": lambda s: s.where(hp.col("v") > 1).tumble(20, offset=3).agg(last=hp.last("v"), n=hp.count()),
    "sliding": lambda s: s.select("v").sliding(30, every=10).agg(n=hp.count(), first=hp.first("v")),
    "session, which has one mark for all": lambda s: s.session(15).agg(n=hp.count()),
    "another key": lambda s: s.key_by("v").tumble(20).agg(n=hp.count()),
    "both": lambda s: hp.union(s.tumble(20).agg(n=hp.count()), s.sliding(40, every=20).agg(n=hp.count())),
    "two inputs": lambda s: s.band_join(s.select("v"), before=10, after=5),
    "in order": lambda s: s.pairs(),
}


def told(tables: Any) -> list[str]:
    return sorted(str(r) for t in tables for r in rows(t))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_the_same_as_it_comes(name: str, seed: int) -> None:
    query = QUERIES[name](stream(skewed(seed)))
    whole = told([query.to_arrow()])
    assert len(whole) > 5
    for size in (1, 5):
        assert told(query.batches(size, late=hp.late.error())) == whole
    assert told(query.batches(4, order="enforce")) == whole


@pytest.mark.parametrize("name", QUERIES)
def test_shards_restarts_and_stages_change_nothing(name: str) -> None:
    table = skewed(3)
    query = QUERIES[name](stream(table))
    running = Rehearsal(query, 3, hp.late.error(), seed=4)
    for at in range(0, len(table), 6):
        running.run({0: table.slice(at, 6)})
    running.run({}, {0: MAX_TIME})
    assert told(running.results) == told([query.to_arrow()])


def test_restored_from_any_snapshot() -> None:
    table = skewed(5)
    query = QUERIES["tumble"](stream(table))
    plan = lower([query.node])
    blocks, found, mark = None, [], -(10**6)
    for at in range(0, len(table), 5):
        pipeline = Pipeline(plan.roots)
        if blocks is not None:
            pipeline.restore(blocks)
        part = table.slice(at, 5)
        assert (part["t"].to_numpy() >= pipeline.behind(0, part, mark)).all()
        pipeline.rows(0, part)
        mark = max(mark, int(part["t"].to_numpy().max()) - 160)
        pipeline.advance([Progress(mark)])
        found += [(b.start.tolist(), b.columns["n"].to_pylist()) for b in pipeline.drain()]
        pipeline.sweep()
        blocks = {path: b for path, b in pipeline.snapshot().items() if b is not None}
    early = [t for starts, _ in found for t in starts]
    whole = query.to_arrow()["t"].to_pylist()
    assert len(early) > len(whole) / 2 and not set(early) - set(whole) and len(early) <= len(whole)


def test_a_key_that_is_ahead_closes_its_windows_and_a_silent_one_holds_back_nobody() -> None:
    ahead = pa.table({"k": ["a", "b", "a", "a"], "t": [1, 2, 12, 31], "v": [0] * 4})
    given = {}
    for own in (0, None):
        live = Live(QUERIES["tumble"](stream(ahead, own)).node, hp.late.error())
        live.rows(0, ahead)
        live.advance()
        given[own] = [(r["k"], r["t"]) for p in live.pieces() for r in p.to_pylist()]
    assert given == {0: [("a", 0)], None: []}
    live.rows(0, pa.table({"k": ["a"], "t": [190], "v": [0]}))  # the whole source is at 30 now: b is over too
    live.advance()
    assert sorted((r["k"], r["t"]) for p in live.pieces() for r in p.to_pylist()) == [("a", 0), ("b", 0)]


def test_keys_that_all_have_overtaken_are_forgotten() -> None:
    live = Live(QUERIES["tumble"](stream(skewed(1))).node, hp.late.error())
    live.rows(0, pa.table({"k": ["a", "b"], "t": [1, 50], "v": [0, 0]}))
    live.advance()
    live.rows(0, pa.table({"k": ["c"], "t": [5_000], "v": [0]}))
    live.advance()
    assert len(list(live.pieces())) == 1
    live.advance()  # what was given no longer needs its keys
    assert [t.live for t in live.pipeline.scopes.values()] == [1]


@pytest.mark.parametrize("action", ["drop", "adjust"])
def test_a_row_behind_its_own_key_is_late(action: str) -> None:
    table = pa.table({"k": ["a", "b", "a", "b", "a"], "t": [50, 5, 60, 30, 44], "v": [1, 2, 3, 4, 5]})
    late = getattr(hp.late, action)()
    query = stream(table)
    there = sorted((r["k"], r["t"]) for p in query.batches(1, late=late) for r in p.to_pylist())
    moved = [("a", 53)] if action == "adjust" else []  # 60 less what the key may be behind
    assert there == sorted([("a", 50), ("b", 5), ("a", 60), ("b", 30), *moved])
    with pytest.raises(hp.LateEventError, match=r"1 rows are late; the first starts at .*44Z, the mark is .*53Z"):
        list(query.batches(1))
    running = Rehearsal(query, 2, late)
    for at in range(len(table)):
        running.run({0: table.slice(at, 1)})
    assert sorted((r["k"], r["t"]) for p in running.results for r in p.to_pylist()) == there


def test_where_the_key_changes_first_there_is_one_mark() -> None:
    source = stream(skewed(1))
    other = source.key_by("v").tumble(20).agg(n=hp.count())
    for plan in (lower([other.node]).sources[0], stages(other.node)[0].inputs[0].source):
        assert plan is not None and plan.progress == hp.delayed(160)
    assert lower([QUERIES["tumble"](source).node]).sources[0].progress == hp.delayed(160, per_key=7)


def test_bounds_that_make_no_sense() -> None:
    for own in (-1, 161):
        with pytest.raises(hp.ParameterError, match="per_key must lie between 0 and the delay"):
            hp.delayed(160, per_key=own)
