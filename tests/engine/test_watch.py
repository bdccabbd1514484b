"""Sources whose progress stands still are reported, with the operator that waits for them."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.engine import watch as watch_
from hydrophone.engine.local import TURNS_REMEMBERED, Live
from hydrophone.engine.watch import MarkWatch, first_waiting_operator
from hydrophone.model.time import MAX_TIME

ROWS = pa.table({"t": [1, 2, 3], "v": [1.0, 2.0, 3.0]})


def test_a_standstill_is_reported_once_until_it_ends() -> None:
    watch = MarkWatch((("a", "tumble"), ("b", "join")), patience=5)
    assert watch.see({0: 1, 1: 1}, now=0) == []
    assert watch.see({0: 2}, now=6) == [
        "b has sent no mark for 6 s, the last was 1970-01-01T00:00:00.000000001; join waits for it"
    ]
    assert watch.see({0: 3, 1: 1}, now=8) == []
    assert watch.see({0: 3, 1: 2}, now=9) == []
    assert [line[:20] for line in watch.see({0: 3, 1: 2}, now=15)] == ["a has sent no mark f", "b has sent no mark f"]


def test_who_never_spoke_is_named_and_who_has_ended_is_not() -> None:
    watch = MarkWatch((("a", "tumble"), ("b", "join")), patience=5)
    watch.see({0: MAX_TIME}, now=0)
    assert watch.see({0: MAX_TIME}, now=10) == ["b has sent no mark for 10 s, it never sent one; join waits for it"]


def test_the_operator_that_waits_is_the_first_that_is_not_row_by_row() -> None:
    stream = hp.from_arrow(ROWS, time="t")
    query = stream.where(hp.col("v") > 1).key_by().tumble(10).agg(n=hp.count())
    source = query.node.topological()[0]
    assert first_waiting_operator(query.node, source).startswith("tumble at test_watch.py:")  # type: ignore[arg-type]
    assert first_waiting_operator(stream.select("v").node, source) == "the result"  # type: ignore[arg-type]


def test_rows_without_progress_are_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(watch_, "UNMARKED_ROWS", 4)
    silent = pa.table({"t": [1, 2, 3], "mark": pa.nulls(3, pa.int64())})
    for table, promise in ((ROWS, None), (silent, hp.punctuated("mark"))):
        live = Live(hp.from_arrow(table, time="t", progress=promise).tumble(10).agg(n=hp.count()).node, hp.late.error())
        with caplog.at_level(logging.WARNING, "hydrophone"):
            live.rows(0, table)
            assert not caplog.records
            live.rows(0, table)
            live.rows(0, table)
        assert len(caplog.records) == 1
        assert "has sent 6 rows and no progress: tumble at test_watch.py:" in caplog.text
        caplog.clear()


def test_a_source_that_never_sends_progress_ends_the_query_at_a_stated_limit() -> None:
    silent = pa.table({"t": [1, 2, 3, 11], "mark": pa.nulls(4, pa.int64())})
    for promise in (None, hp.punctuated("mark")):
        query = hp.from_arrow(silent, time="t", progress=promise).tumble(10).agg(n=hp.count())
        with pytest.raises(
            hp.DataError, match=r"arrow-\d+ has sent 4 rows and no progress, and tumble at test_watch.py:"
        ):
            list(query.batches(rows=2, unmarked=3))
        for enough in (4, None):
            assert sum(len(p) for p in query.batches(rows=2, unmarked=enough)) == 2


def test_who_hands_rows_on_or_has_marks_needs_no_limit() -> None:
    free = hp.from_arrow(ROWS, time="t").where(hp.col("v") > 1)
    marked = hp.from_arrow(ROWS, time="t", progress=hp.ordered()).tumble(10).agg(n=hp.count())
    assert [sum(len(p) for p in q.batches(rows=1, unmarked=1)) for q in (free, marked)] == [2, 1]
    with pytest.raises(hp.ParameterError, match="batches: unmarked must be at least 1 row, got 0"):
        free.batches(unmarked=0)


def test_a_first_batch_with_a_promise_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch_, "UNMARKED_ROWS", 2)
    query = hp.from_arrow(ROWS, time="t", progress=hp.ordered()).tumble(10).agg(n=hp.count())
    with caplog.at_level(logging.WARNING, "hydrophone"):
        assert sum(len(piece) for piece in query.batches(rows=3)) == len(query.to_arrow())
    assert not caplog.records


def test_a_running_query_watches(caplog: pytest.LogCaptureFixture) -> None:
    streams = [hp.from_arrow(ROWS, time="t", progress=hp.ordered()) for _ in range(2)]
    live = Live(hp.union(*streams).tumble(10).agg(n=hp.count()).node, hp.late.error())
    live._watch.patience = -1.0
    with caplog.at_level(logging.WARNING, "hydrophone"):
        live.rows(0, ROWS)
        live.advance()
    assert any("it never sent one; tumble at test_watch.py:" in r.message for r in caplog.records)


def test_a_run_in_this_process_says_how_far_it_is_and_how_long_marks_take() -> None:
    table = pa.table({"k": [0, 1] * 20, "t": range(0, 400, 10)})
    late = pa.table({"k": [0], "t": [5]})
    source = hp.from_arrow(pa.concat_tables([table, late]), key="k", time="t", progress=hp.ordered())
    running = source.tumble(100).agg(n=hp.count()).batches(10, late=hp.late.drop())
    assert running.progress == []
    pieces = list(running)
    told = running.progress
    assert [p["batch"] for p in told] == list(range(6))
    assert [p["rows"] for p in told] == [10, 10, 10, 10, 1, 0]
    assert sum(p["results"] for p in told) == sum(len(p) for p in pieces) == 8
    assert [p["marks"][0] for p in told] == [90, 190, 290, 390, 390, MAX_TIME]
    assert [p["passed"] for p in told] == [0, 100, 200, 300, 300, MAX_TIME]
    assert [p["late"] for p in told] == [{}] * 4 + [{0: 1}, {}]
    assert all(p["mark_ms"] > 0 and p["rows_per_second"] >= 0 and p["shed"] == 0 for p in told)
    assert told[0]["keys"] == 2 and told[0]["state_bytes"] > 0


def test_only_the_latest_turns_are_remembered() -> None:
    source = hp.from_arrow(pa.table({"t": range(3 * TURNS_REMEMBERED)}), time="t", progress=hp.ordered())
    running = source.tumble(10).agg(n=hp.count()).batches(1)
    list(running)
    assert len(running.progress) == TURNS_REMEMBERED
    assert running.progress[-1]["batch"] == 3 * TURNS_REMEMBERED
