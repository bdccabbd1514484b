"""Clocks that are ahead: rows far ahead of the rest are set aside and make nobody late, in this process and in shards of a stream."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import rows

import hydrophone as hp
from hydrophone.errors import LateEventError, ParameterError
from hydrophone.model.clock_guard import (
    DEFAULT_AHEAD,
    MAX_CLUSTERS,
    RECENT_ROWS,
    ROWS_TO_BELIEVE,
    ClockGuard,
    merge_clusters,
    time_clusters,
)
from hydrophone.model.progress import Policy
from hydrophone.model.time import MAX_TIME, MIN_TIME

SECOND = 10**9
DAY = 86_400 * SECOND
NOW = 1_767_225_600 * SECOND
YEAR_2099 = NOW + 73 * 365 * DAY

POLICIES: dict[str, Policy] = {
    "ordered": hp.ordered(),
    "delayed": hp.delayed("5s"),
    "hour": hp.delayed("5s", ahead="1h"),
    "by": hp.delayed("5s", by="k"),
    "idle": hp.ordered(by="k", idle="10s"),
    "per key": hp.delayed("1h", per_key="5s"),
    "punctuated": hp.punctuated("mark", ahead="1h"),
    "punctuated per key": hp.punctuated("mark", per_key=True, ahead="1h"),
}


def readings(count: int = 200, wrong: float = 0.1, seed: int = 0) -> pa.Table:
    """A reading a second, in order; device "d" lives in 2099."""
    rng = np.random.default_rng(seed)
    ahead = rng.random(count) < wrong
    ahead[0] = False
    t = NOW + np.arange(count) * SECOND
    k = np.where(ahead, "d", rng.choice(["a", "b", "c"], count))
    t = np.where(ahead, t + (YEAR_2099 - NOW), t)
    return pa.table({"k": k, "t": t, "mark": t, "v": np.arange(count)})


def counts(stream: Any) -> Any:
    return stream.tumble("10s").agg(n=hp.count(), total=hp.sum("v"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_wrong_clock_makes_no_other_row_late(policy: str, size: int, tmp_path: Path) -> None:
    table = readings()
    stream = hp.from_arrow(table, key="k", time="t", progress=POLICIES[policy])
    pieces = counts(stream).batches(size, late=hp.late.side(str(tmp_path / "late")))
    found = [r for t in pieces for r in rows(t)]
    honest = table.filter(pa.compute.not_equal(table["k"], "d"))
    assert sorted(found) == sorted(rows(counts(hp.from_arrow(honest, key="k", time="t")).to_arrow()))
    late = ds.dataset(tmp_path / "late", format="parquet").to_table()
    assert set(late["k"].to_pylist()) == {"d"} and len(late) == len(table) - len(honest)
    assert sum(sum(p["late"].values()) for p in pieces.progress) == len(late) or size == 1


def test_without_a_guard_every_clock_is_believed() -> None:
    stream = hp.from_arrow(readings(), key="k", time="t", progress=hp.ordered(ahead=None))
    assert sum(r[-2] for t in counts(stream).batches(7, late=hp.late.drop()) for r in rows(t)) < 100


def test_late_policies_say_that_rows_are_ahead(caplog: pytest.LogCaptureFixture) -> None:
    stream = hp.from_arrow(readings(), key="k", time="t", progress=hp.ordered())
    with pytest.raises(LateEventError, match=r"rows are ahead; the first says 2098-.*the rest has come to 2026"):
        list(stream.batches(7, late=hp.late.error()))
    adjusted = [r for t in stream.batches(7, late=hp.late.adjust()) for r in rows(t)]
    assert len(adjusted) == 200 and max(r[1] for r in adjusted) < NOW + DAY
    with caplog.at_level(logging.WARNING, "hydrophone"):
        list(stream.batches(7, late=hp.late.drop()))
    assert "late rows (policy: drop)" in caplog.text


@pytest.mark.parametrize("size", [1, 10, 3000])
def test_a_stream_that_jumps_as_a_whole_goes_on(size: int) -> None:
    """After a pause longer than `ahead` some rows may be set aside, as many as are remembered, and then all are believed."""
    before, after = NOW + np.arange(3000) * SECOND, NOW + 40 * DAY + np.arange(20_000) * SECOND
    table = pa.table({"t": np.concatenate([before, after])})
    stream = hp.from_arrow(table, time="t", progress=hp.ordered())
    found = [r for t in stream.batches(size, late=hp.late.drop()) for r in rows(t)]
    assert len(table) - len(found) <= 4 * RECENT_ROWS
    assert found[-1][0] == int(after[-1])
    if size == 3000:
        assert len(found) == len(table)


def test_a_pause_of_less_than_ahead_sets_nothing_aside() -> None:
    t = np.cumsum(np.full(50, DEFAULT_AHEAD))[:50] + NOW
    found = list(hp.from_arrow(pa.table({"t": t}), time="t", progress=hp.ordered()).batches(1, late=hp.late.error()))
    assert sum(map(len, found)) == 50


def test_two_devices_that_send_equally_often_are_not_taken_for_a_jump() -> None:
    guard = ClockGuard(ahead=10)
    for i in range(5000):
        assert guard.limit([(i, i, 1)]) == i
        assert guard.limit([(10**9 + i, 10**9 + i, 1)]) == i


def test_an_old_clock_at_the_beginning_holds_nobody_back() -> None:
    assert ClockGuard(ahead=10).limit([(0, 0, 1), (10**6, 10**6 + 5, 50)]) == 10**6 + 5


@given(
    parts=st.lists(st.lists(st.integers(MIN_TIME + 1, MAX_TIME - 1), max_size=5), max_size=4),
    ahead=st.sampled_from([1, 10, 2**62, MAX_TIME]),
)
def test_clusters_of_tasks_are_those_of_all_rows(parts: list[list[int]], ahead: int) -> None:
    """However rows are spread over tasks, shards are told the same."""
    every = time_clusters(np.array([t for p in parts for t in p], np.int64), ahead)
    told = merge_clusters([c for p in parts for c in time_clusters(np.array(p, np.int64), ahead)], ahead)
    assert told == every
    assert sum(c[2] for c in told) == sum(map(len, parts))


def test_clusters_are_few() -> None:
    times = np.arange(MAX_CLUSTERS + 1) * 100
    assert time_clusters(times, 10) == [(0, 1600, 17)]
    assert len(time_clusters(times[1:], 10)) == MAX_CLUSTERS


@pytest.mark.parametrize("ahead", [0, "-1h"])
def test_ahead_is_positive(ahead: Any) -> None:
    with pytest.raises(ParameterError, match="progress: ahead must be positive"):
        hp.delayed("5s", ahead=ahead)


def test_enough_rows_are_needed() -> None:
    assert ClockGuard(ahead=10).limit([(0, 0, 1), (99, 99, ROWS_TO_BELIEVE - 1)]) == 0
