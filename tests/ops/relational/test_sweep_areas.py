"""The state of joins: forms, limits, and what is not stored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import ParameterError
from hydrophone.model.batch import SLOTS_PER_BLOCK, Events, Progress
from hydrophone.model.time import FIRST_DATE, LAST_DATE, MAX_TIME, MIN_TIME
from hydrophone.ops.relational import stored_rows
from hydrophone.ops.relational.memory_limit import Memory, size_in_bytes
from hydrophone.ops.relational.sweep_area import SweepArea

lengths = st.one_of(st.integers(1, 6), st.sampled_from([100, MAX_TIME - 9]))
near = st.tuples(st.integers(0, 5), st.integers(-9, 9), lengths)
far = st.sampled_from(
    [(0, LAST_DATE, 1), (0, FIRST_DATE, LAST_DATE - FIRST_DATE), (0, FIRST_DATE, MAX_TIME - FIRST_DATE)]
)
rows = st.lists(st.one_of(near, far), min_size=1, max_size=12)


def held(area: SweepArea) -> int:
    """The rows that have not expired."""
    return sum(len(rows) if alive is None else int(alive.sum()) for rows, alive in area.living())


def events(triples: list[tuple[int, int, int]]) -> Events:
    slot, start, stop = np.array([(s, t, t + n) for s, t, n in triples], np.int64).reshape(-1, 3).T
    return Events(slot, start, stop, pa.table({"v": [f"{t}" for t in triples]}))


def texts(area: SweepArea) -> list[str]:
    tables = [t for _, t in area.blocks(changed=False) if t is not None]
    return sorted(v for t in tables for v in t["v"].to_pylist())


def filled(
    form: str, memory: Memory, batches: Any, *, starts: bool = False
) -> tuple[SweepArea, list[tuple[int, int, int]]]:
    area = SweepArea(form, memory, starts=starts)
    for batch in batches:
        area.insert(events(batch))
    return area, [row for batch in batches for row in batch]


def lasts(row: tuple[int, int, int], starts: bool) -> int:
    return row[1] if starts else row[1] + row[2] - 1


FORM = pytest.mark.parametrize("form", ["hash", "sorted", "list", "band"])
MEMORY = pytest.mark.parametrize("memory", [Memory(), Memory(limit=100)], ids=["memory", "files"])


@given(st.lists(rows, max_size=6), rows, st.integers(-9, 9))
@MEMORY
@FORM
def test_any_form_finds_what_is_there(form: str, memory: Memory, batches: Any, asked: Any, mark: int) -> None:
    area, held = filled(form, memory, batches)
    new, starts = events(asked), form == "band"
    assert texts(area) == sorted(str(r) for r in held)
    area.expire(mark)
    held = [row for row in held if lasts(row, starts) >= mark]
    assert texts(area) == sorted(str(r) for r in held)
    pairs = area.query(new, new.start, new.stop - 1)
    found = [] if pairs is None else list(zip(*(side.columns["v"].to_pylist() for side in pairs), strict=True))
    if pairs:
        assert (pairs[0].slot == pairs[1].slot).all()
    wanted = [
        (str((slot, start, length)), str((s, t, n)))
        for slot, start, length in asked
        for s, t, n in held
        if s == slot and t < start + length and lasts((s, t, n), starts) >= start
    ]
    there = {str(r) for r in held}
    assert sorted(pair for pair in found if pair[1] in there) == sorted(
        wanted
    )  # a few of what expired may still be found


@given(st.lists(rows, max_size=6), rows, st.lists(st.integers(-9, 9), min_size=1, max_size=4))
@pytest.mark.parametrize("spare", [1 / 32, 0.9], ids=["", "expired-stay"])
@pytest.mark.parametrize("starts", [False, True])
@MEMORY
@FORM
def test_any_form_gives_what_waits_once(
    form: str, memory: Memory, starts: bool, spare: float, batches: Any, asked: Any, marks: list[int]
) -> None:
    """Rows are taken when a mark has passed them, by key too, and each once, whatever comes in between."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_rows, "_SPARE", spare)
        patch.setattr(stored_rows, "_EXPIRED_SHARE", max(spare, stored_rows._EXPIRED_SHARE))
        _waits_once(form, memory, starts, batches, asked, marks)


def _waits_once(form: str, memory: Memory, starts: bool, batches: Any, asked: Any, marks: list[int]) -> None:
    area, held = filled(form, memory, batches, starts=starts)
    starts = starts or form == "band"
    for number, mark in enumerate(marks):
        by_key: Any = np.array([mark, mark + 5, mark]) if number % 2 else mark
        of = {0: mark, 1: mark + 5} if number % 2 else {}
        taken = [v for piece in area.take(by_key) for v in piece.columns["v"].to_pylist()]
        over = [r for r in held if lasts(r, starts) < of.get(r[0], mark)]
        assert sorted(taken) == sorted(map(str, over))
        held = [r for r in held if lasts(r, starts) >= of.get(r[0], mark)]
        assert texts(area) == sorted(map(str, held))
        first: dict[int, int] = {}
        for s, t, _ in held:
            first[s] = min(t, first.get(s, t))
        assert {s: int(t) for s, t in enumerate(area.since) if t < MAX_TIME} == first
        until = np.array([mark + 3] * 6)
        latest = {s: max([t for k, t, _ in held if k == s and t <= mark + 3], default=MIN_TIME) for s in range(6)}
        start, count = area.latest(until)
        assert start.tolist() == list(latest.values())
        ties = [sum(k == s and t == latest[s] for k, t, _ in held) for s in range(6)]
        assert count.tolist() == ties
        new = events(asked)
        met = area.meet(new.slot, new.start, new.stop - 1)
        found = set() if met is None else set(met.columns["v"].to_pylist())
        bounds = {
            s: (min(t for k, t, _ in asked if k == s), max(t + n for k, t, n in asked if k == s)) for s, _, _ in asked
        }
        wanted = {
            str(r) for r in held if r[0] in bounds and r[1] < bounds[r[0]][1] and lasts(r, starts) >= bounds[r[0]][0]
        }
        assert wanted <= found  # there may be more than anybody needs
        more = [(s, t + mark, n) for s, t, n in asked if t + n + abs(mark) < LAST_DATE and t > FIRST_DATE + 9]
        if more:
            area.insert(events(more))
            held += more


@pytest.mark.parametrize("keys", [1, 1000])
def test_a_hash_area_sorts_where_keys_have_many_rows(keys: int) -> None:
    area = SweepArea("hash", adaptive=True)
    start = np.arange(1000)
    area.insert(Events(start % keys, start, start + 1, pa.table({"v": start})))
    at = start[:10] * 50
    new = Events(at % keys, at, at + 1, pa.table({}))
    found = area.query(new, new.start, new.stop - 1)
    assert found is not None
    assert [side.start.tolist() for side in found] == [at.tolist(), at.tolist()]
    assert [run._chains is None for run in area._runs] == [keys == 1]


def lives(start: int, rows: int, step: int = 1) -> hp.Stream:
    t = start + np.arange(rows) * step
    return hp.from_arrow(
        pa.table({"k": t % 7, "t": t, "e": t + 50, "v": t * 1.5}), key="k", time="t", end="e", progress=hp.ordered()
    )


def test_explain_shows_the_areas() -> None:
    a, b = lives(0, 10), lives(5, 10)
    assert "state: hash areas, sorted where keys have many rows" in a.join(b).explain()
    assert "state: sorted areas" in a.key_by().join(b.key_by()).explain()
    text = a.join(b, area=("hash", "list"), limit="1MB").explain()
    assert "state: left hash area, right list area, each up to 1000000 bytes, beyond that older rows go to disk" in text
    assert "state: band areas" in a.band_join(b, before=1, after=1).explain()


def test_rows_that_nothing_can_meet_are_not_stored() -> None:
    plan = lower([lives(0, 1).join(lives(0, 1)).node])
    pipeline = Pipeline(plan.roots)
    pipeline.advance([Progress(0), Progress(200)])
    pipeline.rows(0, pa.table({"k": [1, 1], "t": [100, 180], "e": [150, 230], "v": [0.0, 1.0]}))
    kernel: Any = pipeline.stations[plan.roots[0]].kernel
    assert [t for part in kernel.left.batches for t in part.start.tolist()] == [180]


def test_what_is_shed_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    a, b = lives(0, 2000), lives(0, 2000)
    whole = a.join(b).to_arrow()
    with caplog.at_level(logging.WARNING, "hydrophone"):
        some = a.join(b, limit=4000, overflow="shed").to_arrow()
    assert 0 < len(some) < len(whole)
    assert "rows were shed to keep to 4000 bytes" in caplog.text
    assert a.join(b, limit=4000).to_arrow().num_rows == len(whole)


@pytest.mark.parametrize(("limit", "overflow"), [(3_000, "spill"), (3_000, "shed"), (None, "spill")])
@pytest.mark.parametrize("way", ["join", "band"])
def test_what_a_checkpoint_holds_does_not_grow_with_time(way: str, limit: int | None, overflow: str) -> None:
    a, b = lives(0, 1), lives(0, 1).select("v")
    how: Any = {"limit": limit, "overflow": overflow}
    query = a.join(b, **how) if way == "join" else a.band_join(b, before=50, after=50, **how)
    plan = lower([query.node])
    pipeline, store, held = Pipeline(plan.roots), {}, []
    for turn in range(60):
        t = turn * 40 + np.arange(40)
        rows = pa.table({"k": t % 7, "t": t, "e": t + 400, "v": t * 1.5})
        for port in (0, 1):
            pipeline.rows(port, rows)
        # Every other side is behind for a while, so that rows pile up, and then all of them expire.
        mark = int(t[-1]) if turn % 20 > 9 else turn // 20 * 800
        pipeline.advance([Progress(mark), Progress(mark)])
        pipeline.drain()
        pipeline.sweep()
        for path, block in pipeline.snapshot(changed=True).items():
            store.pop(path, None) if block is None else store.update({path: block})
        saved = [pa.ipc.open_stream(d).read_all() for p, d in store.items() if "/left/" in p]
        alive = 400 if way == "join" else 50
        starts = np.concatenate([Events.from_table(s).start for s in saved]) if saved else np.zeros(0)
        if turn % 20 > 9:
            assert (starts + alive >= mark).all(), "rows that nobody can ask for were saved"
        held.append(sum(map(len, store.values())))
        if turn in (25, 44):
            pipeline = Pipeline(plan.roots)
            pipeline.restore(store)
    assert max(held[40:]) < 1.1 * max(held[20:40])
    assert held[59] < 1.1 * held[39]
    if overflow == "shed":
        assert max(held) < 40 * limit  # two sides, and what a block costs however few rows it has


def test_what_was_shed_is_still_known_after_a_restart() -> None:
    plan = lower([lives(0, 1).join(lives(0, 1), limit=4000, overflow="shed").node])
    before = Pipeline(plan.roots)
    t = np.arange(1000)
    before.rows(0, pa.table({"k": t % 7, "t": t, "e": t + 5000, "v": t * 1.5}))
    before.advance([Progress(0), Progress(0)])
    (count,) = before.shed.values()
    assert 0 < count < 1000
    after = Pipeline(plan.roots)
    after.restore({path: data for path, data in before.snapshot().items() if data is not None})
    assert after.shed == before.shed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 0}, "limit must be positive"),
        ({"limit": "many"}, "is no size in bytes"),
        ({"overflow": "drop", "limit": 10}, "overflow must be one of spill, shed"),
        ({"overflow": "shed"}, "needs a limit"),
        ({"area": "tree"}, "area must be auto or one of hash, sorted, list"),
        ({"area": ("hash", "list", "list")}, "or one for each side"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        lives(0, 3).join(lives(0, 3), **options)


def test_memory_keeps_to_the_limit_when_rows_expire() -> None:
    area = SweepArea("sorted", Memory(limit=20_000))
    for n in range(25):
        time = np.arange(1_000) + n
        area.insert(Events(time % 3, time, time + 5, pa.table({"v": time})))
    before = held(area)
    area.expire(np.array([MAX_TIME, MIN_TIME]))  # all of the first key
    assert held(area) == pytest.approx(before * 2 / 3, rel=0.01)
    assert area.nbytes < 20_000 + 32 * 1_000


@pytest.mark.parametrize("overflow", ["spill", "shed"])
def test_the_index_counts_towards_the_limit(overflow: str) -> None:
    area = SweepArea("hash", Memory(50_000, overflow))
    for n in range(30):
        time = np.arange(100) + n
        area.insert(Events(time, time, time + 5, pa.table({"v": time})))
        area.query(Events(time, time, None, pa.table({})), time, time)
        assert area.nbytes <= 50_000
    assert area.shed > 0 if overflow == "shed" else held(area) == 3_000


def test_a_disk_that_is_full_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("hydrophone.ops.relational.stored_rows.pa.ipc.new_file", full)
    with pytest.raises(OSError, match="No space"):
        SweepArea("sorted", Memory(limit=1)).insert(events([(0, 0, 1), (0, 1, 1)]))
    assert not list(tmp_path.iterdir())


def test_rows_that_came_in_pieces_lie_in_the_file_too() -> None:
    pieces = pa.concat_tables([pa.table({"v": np.arange(5_000) + n}) for n in range(4)])
    time, before = np.arange(20_000), pa.total_allocated_bytes()
    area = SweepArea("sorted", Memory(limit=1))
    area.insert(Events(np.zeros(20_000, np.int64), time, time + 5, pieces))
    assert pa.total_allocated_bytes() - before < 20_000
    assert held(area) == 20_000


def test_what_is_shed_in_a_restart_does_not_come_back_in_the_next() -> None:
    before, after = (SweepArea("hash", Memory(limit, "shed")) for limit in (4_000, 1_000))
    for block in range(4):
        before.insert(events([(block * SLOTS_PER_BLOCK, t + block, 90) for t in range(12)]))
    store = {block: table for block, table in before.blocks(changed=True) if table is not None}
    for table in store.values():
        after.load(table)
    assert 0 < after.shed < 48
    changes = dict(after.blocks(changed=True))
    store = {block: table for block, table in (store | changes).items() if table is not None}
    assert sum(map(len, store.values())) == held(after) == 48 - after.shed


def test_columns_may_have_any_name() -> None:
    left = pa.table({"k": [1, 1], "t": [0, 5], "__x": [1.0, 2.0]})
    a, b = (hp.from_arrow(t, key="k", time="t") for t in (left, left.rename_columns(["k", "t", "__y"])))
    whole, spilled = (a.band_join(b, before=9, after=9, limit=limit).to_arrow() for limit in (None, 1))
    assert sorted(whole.to_pylist(), key=str) == sorted(spilled.to_pylist(), key=str)
    assert {"__x", "__y"} <= set(spilled.column_names)


def test_a_limit_is_written_in_the_usual_ways() -> None:
    sizes = [size_in_bytes(text) for text in ("64KiB", "64kiB", "64KB", "64 kB", "2GiB")]
    assert sizes == [65_536, 65_536, 64_000, 64_000, 2 << 30]


def test_small_batches_do_not_make_many_files() -> None:
    """Every new row asks every file: a thousand files of ten rows would take a thousand look-ups."""
    area = SweepArea("hash", Memory(limit=1))
    for n in range(300):
        time = np.arange(10) + n
        area.insert(Events(time % 3, time, time + 400, pa.table({"v": time})))
    assert len(area.batches) < 12 and held(area) == 3_000
    assert all(run.filed for run in area._runs)
    area.expire(np.array([MAX_TIME, MIN_TIME]))  # all of the first key
    assert sum(len(t) for _, t in area.blocks(changed=False) if t is not None) == 2_000


Way = Callable[..., hp.Stream]
WAYS: dict[str, Way] = {
    "join": lambda a, b, **how: a.join(b, **how),
    "left": lambda a, b, **how: a.join(b, how="left", **how),
    "full": lambda a, b, **how: a.join(b, how="full", **how),
    "band": lambda a, b, **how: a.band_join(b, before=20, after=20, **how),
    "semi": lambda a, b, **how: a.semi_join(b, **how),
    "anti": lambda a, b, **how: a.anti_join(b, **how),
    "without": lambda a, b, **how: a.without(b, **how),
    "difference": lambda a, b, **how: a.difference(b, **how),
    "asof": lambda a, b, **how: a.asof_join(b, **how),
    "nearest": lambda a, b, **how: a.asof_join(b, direction="nearest", tolerance=30, **how),
}
EVERY_WAY = pytest.mark.parametrize("way", list(WAYS.values()), ids=list(WAYS))


def drained(pipeline: Pipeline) -> list[str]:
    """The results so far, as text."""
    (root,) = pipeline.roots
    names, out = pipeline.keys(root).column("k").to_pylist(), []
    for batch in pipeline.drain():
        assert isinstance(batch, Events)
        columns = [c.to_pylist() for c in batch.columns.columns]
        rows = zip(batch.slot.tolist(), batch.start.tolist(), batch.stop.tolist(), *columns, strict=True)
        out += [str((names[slot], *rest)) for slot, *rest in rows]
    return out


def waited(query: hp.Stream) -> tuple[list[str], Pipeline, list[int]]:
    """Rows of two sides that come while no mark does, in batches; what they give in the end, and the bytes that they took."""
    plan = lower([query.node])
    pipeline, took = Pipeline(plan.roots), []
    random = np.random.default_rng(3)
    for turn in range(40):
        t = turn * 100 + random.permutation(400)
        for port in (0, 1):
            value = random.integers(0, 3, 400)
            pipeline.rows(
                port,
                pa.table(
                    {"k": t % (50 - 25 * port), "t": t, "e": t + 1 + random.integers(0, 5, 400), "v": value * 0.5}
                ),
            )
        took.append(pipeline.state_bytes)
    out = []
    for mark in (1_000, 2_500, MAX_TIME):
        pipeline.advance([Progress(mark), Progress(mark)])
        took.append(pipeline.state_bytes)
        out += drained(pipeline)
    return sorted(out), pipeline, took


@EVERY_WAY
def test_every_join_keeps_to_its_limit_and_gives_the_same_answer(way: Way) -> None:
    a, b = lives(0, 1), lives(0, 1)
    whole, _, most = waited(way(a, b))
    spilled, pipeline, took = waited(way(a, b, limit=20_000))
    assert spilled == whole and len(whole) > 100
    assert not any(pipeline.shed.values())
    assert max(most) > 400_000
    assert max(took) < 4 * 20_000 + 10_000  # four areas at most, and the keys
    assert took[-1] < 10_000, "all is over"


@EVERY_WAY
def test_every_join_may_shed(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hydrophone"):
        found, pipeline, took = waited(way(lives(0, 1), lives(0, 1), limit=20_000, overflow="shed"))
    assert found
    assert max(took) < 4 * 20_000 + 10_000
    assert sum(pipeline.shed.values()) > 10_000
    assert "rows were shed to keep to 20000 bytes" in caplog.text


@EVERY_WAY
def test_rows_in_files_come_back_after_a_restart(way: Way) -> None:
    plan = lower([way(lives(0, 1), lives(0, 1), limit=2_000).node])
    answers = []
    for restart in (False, True):
        pipeline, out = Pipeline(plan.roots), []
        store: dict[str, bytes] = {}
        for turn in range(12):
            t = turn * 30 + np.random.default_rng(turn).permutation(60)
            for port in (0, 1):
                pipeline.rows(port, pa.table({"k": t % (7 - port), "t": t, "e": t + 9, "v": (t + port) % 3 * 0.5}))
            mark = MAX_TIME if turn == 11 else max(0, turn * 30 - 100)
            pipeline.advance([Progress(mark), Progress(mark)])
            out += drained(pipeline)
            if restart:
                for path, data in pipeline.snapshot(changed=True).items():
                    store.pop(path, None) if data is None else store.update({path: data})
                if turn % 3 == 2:
                    pipeline = Pipeline(plan.roots)
                    pipeline.restore(store)
        answers.append(sorted(out))
    assert answers[0] == answers[1] and answers[0]
