"""A key that falls silent holds back no other for ever: progress passes every operator, or a stream refuses the query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES, Case, Source, rows
from tests.cases.table import assert_same
from tests.choice import for_a_law, may_stall
from tests.laws.harness import FAR, Run, key_numbers, last_instant

import hydrophone as hp
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine.watch import check_stream, waiting
from hydrophone.model.marks import low_water_mark
from hydrophone.model.time import add_time
from hydrophone.plan.reach import UNBOUNDED


def silenced(source: Source) -> Source:
    """The same rows, where the key of the first says nothing more after half of the time."""
    if not len(source.table):
        return source
    start, key = source.starts(), key_numbers(source)
    late = start - start.min() > (start.max() - start.min()) // 2
    return replace(source, table=source.table.filter(pa.array(~(late & (key == key[0])))))


def bound(case: Case) -> int:
    """How far the output mark may be behind the sources: as far as the result looks around; where that has no end, until lifetimes end."""
    sides = [s for r in reach_of_sources(case.build().node).values() for s in (r.before, r.after)]
    known = [s for s in sides if s is not None and s < UNBOUNDED]
    return 2 * sum(known) if len(known) == len(sides) else FAR


@for_a_law(c for c in ALL_CASES if not may_stall(c))
def test_progress_passes_a_key_that_falls_silent(case: Case) -> None:
    """No final mark, as in a stream: all rows in, then marks that go on for the other keys."""
    case = replace(case, inputs={n: silenced(s) for n, s in case.inputs.items()})
    run = Run(case)
    for port, source in enumerate(run.sources):
        run.pipeline.rows(port, source.table)
    last = last_instant(run.sources)
    for mark in (last, add_time(last, bound(case)), add_time(last, FAR)):
        run.advance([mark] * len(run.sources))
        if mark > last:
            assert low_water_mark(run.promised) >= last, (
                f"all sources have passed {mark}, and the output mark is {run.promised}"
            )
    assert_same(run.found, rows(case.build().to_arrow()), case.tolerance)


# --- what a stream refuses, and what it warns of --------------------------------------------------------------------------

READINGS = pa.table({"k": ["a", "b"] * 8, "t": np.arange(16) * 10, "i": np.arange(16) // 2, "v": np.arange(16.0)})


def readings() -> hp.Stream:
    return hp.from_arrow(READINGS, key="k", time="t", progress=hp.ordered())


def counted(**how: int) -> hp.Stream:
    return readings().count_window(3, by="i", **how).agg(n=hp.count(), first=hp.min("v"))


WAITING = {
    "windows": lambda s: s.tumble(50).agg(n=hp.count()),
    "another key": lambda s: s.key_by().tumble(50).agg(n=hp.count()),
    "order": lambda s: s.sort(),
    "rows, then windows": lambda s: s.where(hp.col("n") > 0).select("n").session(50).agg(n=hp.count()),
    "a join": lambda s: readings().join(s),
    "a union, then windows": lambda s: hp.union(s.select("n"), s.select("n")).tumble(50).agg(n=hp.count()),
}


@pytest.mark.parametrize("above", WAITING)
def test_count_windows_that_others_wait_for_must_end(above: str) -> None:
    with pytest.raises(hp.PlanError, match="count_window: without within= a key that falls silent") as error:
        check_stream(WAITING[above](counted()).node)
    assert 'within="1h"' in str(error.value) and "waits for it" in str(error.value)
    check_stream(WAITING[above](counted(within=100)).node)


@pytest.mark.parametrize(
    "above", [lambda s: s, lambda s: s.where(hp.col("n") > 0), lambda s: s.key_by(), lambda s: hp.union(s, s)]
)
def test_count_windows_that_nobody_waits_for_may_stay_open(above: object) -> None:
    root = above(counted()).node  # type: ignore[operator]
    check_stream(root)
    assert set(waiting(root).values()) == {None, next(w for w in waiting(root).values() if w)}


def test_a_silent_key_holds_back_no_other() -> None:
    """Key b stops after its first reading; what counts the windows of all keys goes on."""
    table = pa.Table.from_pylist([r for r in READINGS.to_pylist() if r["k"] == "a" or r["t"] < 20])
    stream = hp.from_arrow(table, key="k", time="t", progress=hp.ordered()).count_window(3, by="i", within=60)
    query = stream.agg(n=hp.count()).key_by().tumble(40).agg(windows=hp.count())
    pieces = [p for p in query.batches(rows=1) if len(p)]
    assert len(pieces) > 1, "nothing was given before the end"
    assert pa.concat_tables(pieces).sort_by("t").equals(query.to_arrow())


STALLING = {
    "above": lambda: readings().signal("v").sample(10).above(3),
    "trigger": lambda: readings().signal("v").sample(10).trigger(on=3, off=2),
    "frames": lambda: readings().frames(hp.bands([3], of="v"), hold=30),
    "snapshot": lambda: readings().alter(30).snapshot().agg(n=hp.count()),
    "session": lambda: readings().session(30).agg(n=hp.count()),
    "stitch": lambda: readings().alter(30).stitch(),
    "join": lambda: readings().alter(30).join(readings(), how="left"),
    "anti_join": lambda: readings().alter(30).anti_join(readings()),
}


@pytest.mark.parametrize("what", STALLING)
def test_what_may_hold_back_progress_while_the_data_goes_on_so_is_said(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_stream(next(n for n in STALLING[what]().node.topological() if n.name() == what))
    assert not caplog.records, "nobody waits"
    check_stream(STALLING[what]().tumble(50).agg(n=hp.count()).node)
    assert [r.message.startswith(f"{what} (test_silent_keys.py:") for r in caplog.records] == [True]
    assert "waits for it" in caplog.text
