"""Progress per key: whoever is ahead has results early, whoever is silent holds back nobody, and answers stay the same."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases.table import rows
from tests.spark.test_stateful import Rehearsal

import hydrophone as hp
import hydrophone.ops
from hydrophone.compiler.compile import lower, stages
from hydrophone.engine.local import Live
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.model.kernel import Kernel
from hydrophone.model.time import MAX_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.ops.aggregates.tumble import PartialTumbleKernel
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.ops.user.feedback import LoopKernel

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
    "session": lambda s: s.session(15).agg(n=hp.count()),
    "signal": lambda s: s.signal("v", ties="first").sample(10, fill=hp.hold(max_gap=40)).fir([0.5, 0.25]).events("y"),
    "windows of a signal": lambda s: (
        s.signal("v", ties="first").sample(10, fill=hp.linear(max_gap=90)).moving_mean(3).events("y")
    ),
    "as of": lambda s: s.asof_join(s.where(hp.col("v") > 4), tolerance=60),
    "lifetimes": lambda s: s.alter(25).join(s.select("v").alter(9)),
    "what nobody met": lambda s: s.alter(5).anti_join(s.where(hp.col("v") > 4).alter(9)),
    "another key": lambda s: s.key_by("v").tumble(20).agg(n=hp.count()),
    "both": lambda s: hp.union(s.tumble(20).agg(n=hp.count()), s.sliding(40, every=20).agg(n=hp.count())),
    "band": lambda s: s.band_join(s.select("v"), before=10, after=5),
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
        assert (part["t"].to_numpy() >= pipeline.late_threshold(0, part, mark)).all()
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


EARLY = {
    "session": [("a", 1), ("a", 40)],
    "signal": [("a", t) for t in range(10, 90, 10)],
    "as of": [("a", 1), ("a", 40)],
    "what nobody met": [("a", 1), ("a", 40)],
    "in order": [("a", 40)],
}


@pytest.mark.parametrize("name", EARLY)
def test_a_sensor_that_is_behind_holds_back_no_other(name: str) -> None:
    table = pa.table({"k": ["b", "a", "a", "a"], "t": [3, 1, 40, 95], "v": [1, 1, 2, 3]})
    given = {}
    for own in (0, None):
        live = Live(QUERIES[name](stream(table, own)).node, hp.late.error())
        live.rows(0, table)
        live.advance()
        given[own] = sorted((r["k"], r["t"]) for p in live.pieces() for r in p.to_pylist())
    assert [at for at in given[0] if at[0] == "a"] == EARLY[name]
    assert len(given[None]) < len(given[0])


def test_every_operator_that_waits_takes_marks_per_key() -> None:
    deaf: set[type[Kernel]] = set()
    for module in pkgutil.walk_packages(hydrophone.ops.__path__, "hydrophone.ops."):
        found = vars(importlib.import_module(module.name)).values()
        deaf |= {
            c
            for c in found
            if isinstance(c, type)
            and issubclass(c, Kernel)
            and c is not Kernel
            and "advance" in vars(c)
            and not c.keyed
        }
    # The first lives in a task before the exchange, which has no marks but the end; the other hosts a plan, which goes on block by
    # block for all keys at once (docs/decisions/0016).
    assert deaf == {PartialTumbleKernel, LoopKernel}


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
    with pytest.raises(hp.LateEventError, match=r"1 rows are late; the first starts at .*44, the mark is .*53"):
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


# --- marks that rows carry ---------------------------------------------------------------------------------------------------


def told_rows(*rows: tuple[str | None, int | None, int | None]) -> pa.Table:
    """Rows of (key, time, mark)."""
    key, time, mark = zip(*rows, strict=True)
    return pa.table({"k": pa.array(key, pa.string()), "t": pa.array(time, pa.int64()), "m": pa.array(mark, pa.int64())})


def punctuated(table: pa.Table, per_key: bool = True) -> hp.Stream:
    return hp.from_arrow(table, key="k", time="t", progress=hp.punctuated("m", per_key=per_key))


def counts(table: pa.Table, per_key: bool = True) -> hp.Stream:
    return punctuated(table, per_key).tumble(10).agg(n=hp.count())


TOLD = told_rows(
    ("a", 1, None), ("b", 2, None), ("a", 12, 12), ("a", 31, None), ("b", None, 10), (None, None, 30), ("b", 33, 33)
)


def test_a_mark_is_for_its_own_key_and_one_without_key_for_all() -> None:
    live = Live(counts(TOLD).node, hp.late.error())
    given = []
    for row in range(len(TOLD)):
        live.rows(0, TOLD.slice(row, 1))
        live.advance()
        given.append(sorted((r["k"], r["t"], r["n"]) for p in live.pieces() for r in p.to_pylist()))
    assert given == [[], [], [("a", 0, 1)], [], [("b", 0, 1)], [("a", 10, 1)], []]
    assert told([counts(TOLD).to_arrow()]) == told(counts(TOLD).batches(2, late=hp.late.error()))
    assert len(counts(TOLD).to_arrow()) == 5
    running = Rehearsal(counts(TOLD), 3, hp.late.error(), seed=2)
    for at in range(0, len(TOLD), 2):
        running.run({0: TOLD.slice(at, 2)})
    running.run({}, {0: MAX_TIME})
    assert told(running.results) == told([counts(TOLD).to_arrow()])


@pytest.mark.parametrize("seed", [6, 7])
def test_marks_per_key_in_any_chunks_shards_and_restarts(seed: int) -> None:
    table = skewed(seed)
    rng = np.random.default_rng(seed)
    key, t = table["k"].to_pylist(), table["t"].to_numpy()
    # What is legal after each row: the least time of its key that is still to come; said now and then.
    legal = [min((t[j] for j in range(i + 1, len(t)) if key[j] == key[i]), default=1_000) for i in range(len(t))]
    said = [int(m) if rng.random() < 0.4 else None for m in legal]
    table = table.append_column("m", pa.array(said, pa.int64()))
    source = hp.from_arrow(table, key="k", time="t", progress=hp.punctuated("m", per_key=True))
    for name in ("tumble", "signal", "session", "another key"):
        query = QUERIES[name](source)
        whole = told([query.to_arrow()])
        for size in (1, 5):
            assert told(query.batches(size, late=hp.late.error())) == whole
        running = Rehearsal(query, 3, hp.late.error(), seed=4)
        for at in range(0, len(table), 9):
            running.run({0: table.slice(at, 9)})
        running.run({}, {0: MAX_TIME})
        assert told(running.results) == whole


@pytest.mark.parametrize("back", [("a", None, 11), (None, None, 4), ("a", 11, None)])
def test_a_mark_that_goes_back_is_late(back: tuple[str | None, int | None, int | None], tmp_path: Path) -> None:
    table = pa.concat_tables([told_rows(("a", 12, 12), (None, None, 5)), told_rows(back), told_rows(("b", 6, 3))])
    query = punctuated(table)
    what = "1 rows are late" if back[1] else "1 marks go back; the first to"
    with pytest.raises(hp.LateEventError, match=what):
        list(query.batches(1, late=hp.late.error()))
    rest = sorted((r["k"], r["t"]) for p in query.batches(1, late=hp.late.drop()) for r in p.to_pylist())
    assert rest == [("a", 12), ("b", 6)]
    assert len(list(query.batches(1, late=hp.late.side(str(tmp_path / "late"))))) == 2
    assert pq.read_table(tmp_path / "late").to_pylist() == told_rows(back).to_pylist()
    running = Rehearsal(query, 2, hp.late.drop())
    for at in range(len(table)):
        running.run({0: table.slice(at, 1)})
    assert sorted((r["k"], r["t"]) for p in running.results for r in p.to_pylist()) == rest


def test_rows_without_time_are_marks_where_one_promises_for_all_too() -> None:
    table = told_rows(("a", 1, None), ("b", 2, None), ("b", None, 10), ("a", 15, None))
    live = Live(counts(table, per_key=False).node, hp.late.error())
    live.rows(0, table)
    live.advance()
    assert sorted((r["k"], r["t"]) for p in live.pieces() for r in p.to_pylist()) == [("a", 0), ("b", 0)]
    assert len(counts(table, per_key=False).to_arrow()) == 3
    with pytest.raises(hp.DataError, match="1 rows have no time"):
        hp.from_arrow(table, key="k", time="t", progress=hp.ordered()).to_arrow()


def test_marks_per_key_of_fine_grids_do_not_wrap() -> None:
    """2024 at a megahertz, and a rate whose terms are large: an index times either is beyond 64 bits."""
    regrid, grid, mark = Regrid(Fraction(4096, 8191)), Timebase(Fraction(1000)), 1_710_000_000_123_456_789
    for back in (0, 4095):
        one, many = (regrid.mark(m, grid, back=back) for m in (mark, np.array([mark, mark - 7_777])))
        assert many[0] == one <= mark
        assert many[1] == regrid.mark(mark - 7_777, grid, back=back)
