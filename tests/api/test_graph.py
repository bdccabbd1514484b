"""The graph as users meet it: sources, sinks, cursors, threads, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.api.cursor import Cursor
from hydrophone.errors import DataError, LateEventError, ParameterError, PlanError, UnsupportedError

SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.float64())])


def pushed(**options: Any) -> hp.Stream:
    return hp.from_arrow(SCHEMA, time="ts", **{"progress": hp.ordered(), **options})


def numbers(*times: int) -> dict[str, list[Any]]:
    return {"ts": list(times), "value": [float(t) for t in times]}


def values(tables: list[pa.Table], column: str = "value") -> list[Any]:
    return [v for t in tables for v in t[column].to_pylist()]


def sums(stream: hp.Stream) -> hp.Stream:
    return stream.tumble(10).agg(sum=hp.sum("value"))


class Counter(hp.Source):
    """Counts up, a row at a time."""

    schema = SCHEMA

    def __init__(self, rows: int, fail_at: int | None = None, columns: Any = None) -> None:
        self.rows, self.fail_at, self.columns = rows, fail_at, columns
        self.opened = self.closed = self.at = 0

    def open(self) -> None:
        self.opened += 1

    def close(self) -> None:
        self.closed += 1

    def read(self, limit: int) -> Any:
        self.at += 1
        if self.at == self.fail_at:
            raise OSError("the line is dead")
        if self.at > self.rows:
            return self.END
        if self.at % 3 == 0:
            self.rows += 1
            return None
        return self.columns or numbers(self.at)

    def stream(self) -> hp.Stream:
        return hp.read.data(self, time="ts", progress=hp.ordered())


def bad(windows: np.ndarray) -> np.ndarray:
    """A function that fails once data comes."""
    if np.any(windows > 2):
        raise LookupError("in a function")
    return windows


# --- sharing ----------------------------------------------------------------------------------------------------------------


def test_equal_parts_run_once_and_close_with_the_last_who_uses_them() -> None:
    rows = pushed()
    louder = rows.where(hp.col("value") > 2)
    with hp.Graph() as graph:
        one = graph.subscribe(sums(louder), lambda _: None)
        few = len(graph._graph.pipeline.stations)
        two = graph.subscribe(sums(louder), lambda _: None)
        assert len(graph._graph.pipeline.stations) == few
        three = graph.subscribe(louder.tumble(20).agg(n=hp.count()), lambda _: None)
        assert len(graph._graph.pipeline.stations) == few + 1
        for subscription in (one, three):
            subscription.unsubscribe(now=True)
        assert len(graph._graph.pipeline.stations) == few
        two.unsubscribe(now=True)
        assert len(graph._graph.pipeline.stations) == 1  # the port


def test_queries_that_read_other_columns_share_the_source() -> None:
    schema = pa.schema([("ts", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])
    rows = hp.from_arrow(schema, time="ts", progress=hp.ordered(every="windows"))
    with hp.Graph() as graph:
        graph.subscribe(rows.tumble(10).agg(a=hp.sum("a")), lambda _: None)
        graph.subscribe(rows.tumble(15).agg(b=hp.sum("b")), lambda _: None)
        graph.subscribe(rows.signal("b").sample(5, fill=hp.hold(max_gap=10)), lambda _: None)
        assert list(graph._graph.pipeline.ports) == [0]


def test_two_sources_of_one_layout_stay_apart() -> None:
    a, b, found = pushed(), pushed(), dict[str, list[pa.Table]](a=[], b=[])
    with hp.Graph() as graph:
        graph.subscribe(sums(a), found["a"].append)
        graph.subscribe(sums(b), found["b"].append)
        graph.push(a, numbers(1, 2))
        graph.push(b, numbers(5))
    assert values(found["a"], "sum") == [3.0] and values(found["b"], "sum") == [5.0]


# --- starts -----------------------------------------------------------------------------------------------------------------


def integral(stream: hp.Stream) -> hp.UniformSignal:
    """It needs all samples since the first one."""
    return stream.signal("value").sample(1, fill=hp.hold(max_gap=50)).integrate(rule="rectangle")


def test_what_may_need_any_row_is_refused_with_the_ways_out() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        graph.push(rows, numbers(1, 2))
        with pytest.raises(PlanError, match=r"(?s)integrate may need rows from any time before.*fresh.*warm.*history"):
            graph.subscribe(integral(rows), found.append)
        graph.subscribe(integral(rows), found.append, start="fresh")
        graph.push(rows, numbers(4, 5))
    alone = hp.from_arrow(pa.table(numbers(4, 5)), time="ts")
    assert values(found) == integral(alone).to_arrow()["value"].to_pylist() != []


def test_a_warm_operator_serves_whoever_comes_later() -> None:
    rows, early, late = pushed(), list[pa.Table](), list[pa.Table]()
    with hp.Graph() as graph:
        first = graph.subscribe(integral(rows), early.append, close="warm")
        graph.push(rows, numbers(1, 2))
        first.unsubscribe(now=True)
        graph.push(rows, numbers(3))
        second = graph.subscribe(integral(rows).fir([1.0, -1.0]), late.append)
        graph.push(rows, numbers(4, 5, 6))
    start, _ = second.interval
    alone = integral(hp.from_arrow(pa.table(numbers(*range(1, 7))), time="ts")).fir([1.0, -1.0]).to_arrow()
    assert start is not None and len(values(late)) >= 2
    assert values(late) == [v for t, v in zip(*alone.to_pydict().values(), strict=True) if t >= start]


def test_an_instant_before_the_settled_one_is_refused() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        graph.push(rows, numbers(7))
        with pytest.raises(ParameterError, match=r"exact from 1970-01-01T00:00:00\.000000008"):
            graph.subscribe(rows, found.append, start=7)
        later = graph.subscribe(rows, found.append, start=10)
        graph.push(rows, numbers(8, 9, 10, 11))
    assert later.interval == (10, None) and values(found) == [10.0, 11.0]


def test_words_that_are_no_start_are_refused() -> None:
    rows = pushed()
    with hp.Graph() as graph:
        with pytest.raises(ParameterError):
            graph.subscribe(rows, print, start="soon")
        with pytest.raises(ParameterError, match="'auto' or 'warm'"):
            graph.subscribe(rows, print, close="later")  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="sink must be"):
            graph.subscribe(rows, [])  # type: ignore[arg-type]
        with pytest.raises(hp.SignalTypeError):
            graph.subscribe(SCHEMA, print)


def test_history_needs_rows_that_were_kept() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        graph.push(rows, numbers(1))
        with pytest.raises(PlanError, match="keeps no rows"):
            graph.subscribe(rows, found.append, start="history")
        with pytest.raises(PlanError, match=r"(?s)any time before.*None"):
            graph.keep(integral(rows), 10)
        with pytest.raises(ParameterError, match="promises no progress"):
            graph.keep(pushed(progress=None), 10)
        graph.keep(rows, None)
        graph.push(rows, numbers(2, 3))
        assert graph.subscribe(rows, found.append, start="history").interval == (2, None)
        with pytest.raises(PlanError, match="integrate may need"):
            graph.subscribe(integral(rows), found.append, start="history")
        graph.push(rows, numbers(4))
    assert values(found) == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("promise", [hp.ordered(), None], ids=["ordered", "none"])
def test_all_rows_from_the_beginning_are_history_for_any_operator(promise: Any) -> None:
    rows, found = pushed(progress=promise), list[pa.Table]()
    with hp.Graph() as graph:
        graph.keep(rows, None)
        graph.push(rows, numbers(1, 2))
        late = graph.subscribe(integral(rows), found.append, start="history")
        graph.push(rows, numbers(3))
    alone = hp.from_arrow(pa.table(numbers(1, 2, 3)), time="ts")
    assert late.interval == (None, None) and values(found) == integral(alone).to_arrow()["value"].to_pylist()


def test_what_is_kept_is_bounded_and_covers_the_reach() -> None:
    rows, found = pushed(), list[pa.Table]()
    mean = rows.signal("value").sample(1, fill=hp.linear(max_gap=5)).fir([0.5, 0.5])
    with hp.Graph() as graph:
        graph.keep(mean, 20)
        for t in range(0, 2000, 2):
            graph.push(rows, numbers(t))
        feed = graph._graph.turns.feeds[0]
        assert feed.kept is not None and sum(map(len, feed.kept)) < 40
        late = graph.subscribe(mean, found.append, start="history")
    start, _ = late.interval
    assert start is not None and start <= 1998 - 20
    assert values(found) == [t - 0.5 for t in range(start, 1999)]


# --- ends and pauses --------------------------------------------------------------------------------------------------------


def test_a_pause_is_never_given_and_state_goes_on() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        subscription = graph.subscribe(sums(rows), found.append)
        graph.push(rows, numbers(1, 11, 21))  # 0 and 10 are final
        subscription.pause()
        assert subscription.paused
        graph.push(rows, numbers(31, 41))
        subscription.resume()
        graph.push(rows, numbers(42, 51))
    # The pause is [20, 40): the marks of the results when it began and ended.
    assert values(found, "sum") == [1.0, 11.0, 83.0, 51.0]


def test_unsubscribing_twice_does_nothing() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        subscription = graph.subscribe(sums(rows), found.append)
        graph.push(rows, numbers(1, 11))
        subscription.unsubscribe()
        assert not subscription.done and subscription.interval == (None, 12)
        subscription.unsubscribe()
        graph.push(rows, numbers(21, 31))
        assert subscription.done and subscription.error is None
        for again in ({}, {"now": True}, {"at": 5}):
            subscription.unsubscribe(**again)
        subscription.pause()
    assert subscription.interval == (None, 12) and values(found, "sum") == [1.0, 11.0]


def test_an_end_before_what_was_given_is_refused() -> None:
    rows = pushed()
    with hp.Graph() as graph:
        subscription = graph.subscribe(rows, lambda _: None)
        graph.push(rows, numbers(1, 11))
        with pytest.raises(ParameterError, match="results up to"):
            subscription.unsubscribe(at=5)
        with pytest.raises(ParameterError, match="either at or now"):
            subscription.unsubscribe(at=50, now=True)
        subscription.unsubscribe(at=50)
        assert subscription.interval == (None, 50)


# --- what goes wrong --------------------------------------------------------------------------------------------------------


def test_a_sink_that_raises_fails_its_own_subscription() -> None:
    rows, found = pushed(), list[pa.Table]()

    def broken(table: pa.Table) -> None:
        raise ZeroDivisionError("here")

    with hp.Graph() as graph:
        one, two = graph.subscribe(rows, broken), graph.subscribe(rows, found.append)
        graph.push(rows, numbers(1))
        graph.push(rows, numbers(2))
        assert one.done and isinstance(one.error, ZeroDivisionError) and not two.done
    assert values(found) == [1.0, 2.0]


def test_a_function_that_raises_fails_the_queries_above_it() -> None:
    rows, found = pushed(), list[pa.Table]()

    windows = rows.signal("value").sample(1, fill=hp.hold(max_gap=50)).window(2)
    with hp.Graph() as graph:
        one, two = graph.subscribe(windows.map(bad), print), graph.subscribe(windows, found.append)
        graph.push(rows, numbers(*range(1, 8)))
        assert one.done and isinstance(one.error, DataError) and isinstance(one.error.__cause__, LookupError)
    assert len(values(found, "ts")) > 20 and two.error is None


def test_rows_with_other_columns_are_refused_and_nothing_changes() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        graph.subscribe(rows, found.append)
        for strange, said in (
            ({"ts": [1]}, "without value"),
            ({**numbers(1), "more": [1]}, "with more"),
            ({"ts": [1], "value": ["loud"]}, "no table"),
            (pa.table({"ts": [1], "value": ["loud"]}), "'value' is string"),
            (pa.table({"ts": pa.array([None], pa.int64()), "value": [1.0]}), "no time"),
        ):
            with pytest.raises(DataError, match=said):
                graph.push(rows, strange)
        with pytest.raises(ParameterError, match="rows must be a table"):
            graph.push(rows, 5)
        graph.push(rows, pa.table({"value": [1], "ts": [1]}))  # another order, and integers that are whole
    assert values(found) == [1.0]


def test_late_rows_are_an_error_for_who_pushes_them() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        subscription = graph.subscribe(rows, found.append)
        graph.push(rows, numbers(5))
        with pytest.raises(LateEventError):
            graph.push(rows, numbers(4))
        graph.push(rows, numbers(6))
        assert subscription.error is None
    assert values(found) == [5.0, 6.0]
    with hp.Graph(late=hp.late.drop()) as graph:
        graph.subscribe(rows, found.append)
        graph.push(rows, numbers(9))
        graph.push(rows, numbers(7))
    assert values(found) == [5.0, 6.0, 9.0]


def test_rows_that_are_refused_move_no_mark_of_a_key() -> None:
    schema = pa.schema([("k", pa.string()), *SCHEMA])
    rows, found = hp.from_arrow(schema, key="k", time="ts", progress=hp.delayed(100, per_key=0)), list[pa.Table]()
    with hp.Graph() as graph:
        graph.subscribe(rows, found.append)
        graph.push(rows, {"k": ["a"], **numbers(5)})
        with pytest.raises(LateEventError):
            graph.push(rows, {"k": ["a", "a"], **numbers(9, 4)})
        graph.push(rows, {"k": ["a"], **numbers(7)})
    assert values(found) == [5.0, 7.0]


def test_a_closed_graph_takes_nothing() -> None:
    rows = pushed()
    graph = hp.Graph()
    subscription = graph.subscribe(rows, print)
    graph.end(rows)
    graph.end(rows)
    with pytest.raises(ParameterError, match="has ended"):
        graph.push(rows, numbers(1))
    graph.close()
    graph.close()
    assert subscription.done
    for call in (lambda: graph.push(rows, numbers(1)), graph.run, graph.start, lambda: graph.subscribe(rows, print)):
        with pytest.raises(ParameterError, match="the graph is closed"):
            call()


def test_a_sink_that_hangs_can_be_left(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("hydrophone.api.graph.PATIENCE", 0.2)
    rows, free = pushed(), threading.Event()
    graph = hp.Graph()
    hanging = graph.subscribe(rows, lambda _: free.wait(30))
    pusher = threading.Thread(target=graph.push, args=(rows, numbers(1)))
    pusher.start()
    time.sleep(0.1)
    hanging.unsubscribe(now=True)  # returns at once
    hanging.pause()
    assert pusher.is_alive()
    graph.close()
    assert "does not come back" in caplog.text
    free.set()
    pusher.join(20)
    assert hanging.done and not pusher.is_alive()


def test_late_rows_need_a_place_that_is_no_input(tmp_path: Any) -> None:
    with pytest.raises(ParameterError, match="need a path"):
        hp.Graph(late=hp.late.side())
    sums(table(5)).to_parquet(tmp_path / "in")
    stored = hp.read.parquet(tmp_path / "in", time="ts", progress=hp.ordered())
    with pytest.raises(ParameterError), hp.Graph(late=hp.late.side(str(tmp_path / "in"))) as graph:
        graph.subscribe(stored, print)


def test_an_error_in_the_block_ends_subscriptions_without_results() -> None:
    rows, found = pushed(), list[pa.Table]()
    with pytest.raises(KeyError), hp.Graph() as graph:
        subscription = graph.subscribe(sums(rows), found.append)
        graph.push(rows, numbers(1))
        raise KeyError
    assert subscription.done and not found


# --- sources and sinks ------------------------------------------------------------------------------------------------------


def test_a_source_of_the_users_is_read_in_a_thread() -> None:
    source, found = Counter(20), list[pa.Table]()
    wanted = Counter(20).stream().to_arrow()["value"].to_pylist()
    with hp.Graph() as graph:
        graph.subscribe(source.stream(), found.append)
        graph.run()
    assert values(found) == wanted and (source.opened, source.closed) == (1, 1)


@pytest.mark.parametrize("bad", [{"fail_at": 5}, {"columns": {"ts": [1]}}], ids=["raises", "columns"])
def test_a_source_that_fails_fails_its_subscriptions_alone(bad: dict[str, Any]) -> None:
    source, other, found = Counter(20, **bad), Counter(20), list[pa.Table]()
    with hp.Graph() as graph:
        one, two = graph.subscribe(source.stream(), lambda _: None), graph.subscribe(other.stream(), found.append)
        graph.run()
        assert isinstance(one.error, OSError if "fail_at" in bad else DataError) and two.error is None
    assert len(values(found)) == 20 and source.closed == 1


class Stalled(hp.Source):
    """Hangs in its first read until it is closed."""

    schema = SCHEMA

    def __init__(self) -> None:
        self.free = threading.Event()

    def read(self, limit: int) -> Any:
        self.free.wait(30)
        return self.END

    def close(self) -> None:
        self.free.set()


def test_a_source_that_stalls_holds_up_nobody() -> None:
    stalled, found = Stalled(), list[pa.Table]()
    with hp.Graph() as graph:
        graph.subscribe(hp.read.data(stalled, time="ts", progress=hp.ordered()), lambda _: None)
        done = graph.subscribe(Counter(5).stream(), found.append)
        graph.start()
        assert done.wait(20)
    assert len(values(found)) == 5 and stalled.free.is_set()


def test_a_source_that_is_too_fast_waits() -> None:
    source = Counter(10_000)
    graph = hp.Graph(queue=2)
    graph.subscribe(source.stream(), lambda _: None)
    graph.open()
    time.sleep(0.3)
    assert source.at < 10
    graph.close(now=True)


def test_sinks_hear_of_marks_and_of_the_end() -> None:
    class Marks(hp.Sink):
        marks: ClassVar[list[int]] = []
        ended: ClassVar[list[Any]] = []

        def process(self, table: pa.Table, mark: int) -> None:
            self.marks.append(mark)

        def done(self, error: BaseException | None) -> None:
            self.ended.append(error)

    rows, memory = pushed(), hp.write.memory()
    with hp.Graph() as graph:
        graph.subscribe(sums(rows), Marks())
        graph.subscribe(rows, memory)
        graph.subscribe(rows, hp.write.parquet("nowhere")).unsubscribe(now=True)
        graph.push(rows, numbers(1, 11))
        graph.push(rows, numbers(21))
    assert Marks.marks[:2] == [10, 20] and Marks.ended == [None]
    assert memory.to_arrow()["value"].to_pylist() == [1.0, 11.0, 21.0]


def test_a_sink_that_takes_no_results_of_a_graph_says_so() -> None:
    rows = pushed()
    with hp.Graph() as graph:
        one = graph.subscribe(rows, hp.write.parquet("nowhere"))
        graph.push(rows, numbers(1))
        assert isinstance(one.error, UnsupportedError) and "process" in str(one.error)


def test_sinks_may_subscribe_push_and_leave() -> None:
    rows, echo, found, seen = pushed(), pushed(), list[pa.Table](), list[pa.Table]()
    with hp.Graph() as graph:

        def heard(table: pa.Table) -> None:
            seen.append(table)
            if len(seen) == 1:
                graph.subscribe(echo, found.append)
            graph.push(echo, table)
            if len(seen) == 2:
                subscription.unsubscribe(now=True)

        subscription = graph.subscribe(rows, heard)
        for t in (1, 2, 3):
            graph.push(rows, numbers(t))
    assert values(seen) == [1.0, 2.0] and values(found) == [1.0, 2.0]


def test_a_sink_may_join_what_it_reads() -> None:
    """The operators that serve it have made results in the very turn."""
    rows, first, second = pushed(), list[pa.Table](), list[pa.Table]()
    with hp.Graph() as graph:

        def heard(table: pa.Table) -> None:
            first.append(table)
            if len(first) == 2:
                joined.append(graph.subscribe(integral(rows).fir([1.0, -1.0]), second.append))

        joined: list[Any] = []
        graph.subscribe(integral(rows), heard)
        for t in range(1, 9):
            graph.push(rows, numbers(t))
    (start, _), alone = joined[0].interval, integral(hp.from_arrow(pa.table(numbers(*range(1, 9))), time="ts"))
    whole = zip(*alone.fir([1.0, -1.0]).to_arrow().to_pydict().values(), strict=True)
    assert values(second) == [v for t, v in whole if t >= start] != []


def test_a_sink_may_subscribe_when_it_hears_of_the_end() -> None:
    rows, other, found = pushed(), pushed(), list[pa.Table]()

    class Next(hp.Sink):
        def process(self, table: pa.Table, mark: int) -> None:
            pass

        def done(self, error: BaseException | None) -> None:
            graph.subscribe(other, found.append)

    with hp.Graph() as graph:
        graph.subscribe(rows, Next()).unsubscribe(now=True)
        graph.push(other, numbers(1))
    assert values(found) == [1.0]


def greedy(windows: np.ndarray) -> np.ndarray:
    if np.any(windows > 2):
        sys.modules["stash"].subscribe()
    return windows


def test_an_operators_function_cannot_change_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, graph = pushed(), hp.Graph()
    # Functions cannot close over a graph, but there are ways.
    monkeypatch.setitem(sys.modules, "stash", SimpleNamespace(subscribe=lambda: graph.subscribe(rows, print)))
    one = graph.subscribe(rows.signal("value").sample(1, fill=hp.hold(max_gap=50)).window(2).map(greedy), print)
    graph.push(rows, numbers(*range(1, 8)))
    assert one.done and "cannot change the graph" in str(one.error)


def test_late_rows_of_a_source_that_is_read_fail_its_subscriptions() -> None:
    stream = hp.from_arrow(pa.table(numbers(5, 4)), time="ts", progress=hp.ordered())
    with hp.Graph(rows=1) as graph:
        one = graph.subscribe(stream, lambda _: None)
        graph.run()
    assert isinstance(one.error, LateEventError)


def test_a_query_that_comes_after_the_end_is_done_at_once() -> None:
    with hp.Graph() as graph:
        rows = table(50)
        graph.subscribe(rows, lambda _: None)
        graph.run()
        assert graph.subscribe(rows, lambda _: None).done and list(graph.cursor(sums(rows))) == []


# --- cursors ----------------------------------------------------------------------------------------------------------------


def table(rows: int) -> hp.Stream:
    return hp.from_arrow(pa.table(numbers(*range(rows))), time="ts", progress=hp.ordered())


def test_a_cursor_drives_the_graph_that_nobody_drives() -> None:
    graph, rows = hp.Graph(rows=7), table(50)
    cursor = graph.cursor(sums(rows))
    assert values(list(cursor), "sum") == [45.0, 145.0, 245.0, 345.0, 445.0] and cursor.subscription.done


def test_a_cursor_waits_for_the_thread_of_the_graph() -> None:
    with hp.Graph(rows=1) as graph:
        cursor = graph.cursor(Counter(30).stream(), limit=2)
        graph.start()
        assert len(values(list(cursor))) == 30


def test_a_cursor_that_nobody_reads_fails_and_the_others_go_on() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        cursor = graph.cursor(rows, limit=2, patience=0.2)
        graph.subscribe(rows, found.append)
        for t in range(5):
            graph.push(rows, numbers(t))
    assert values(found) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert values([next(cursor), next(cursor)]) == [0.0, 1.0]
    with pytest.raises(DataError, match="nobody has read"):
        next(cursor)


def test_a_cursor_that_is_closed_lets_go_of_the_graph() -> None:
    rows = pushed()
    graph = hp.Graph()
    with graph.cursor(rows, limit=1, patience=60) as cursor:
        graph.push(rows, numbers(1))
        pusher = threading.Thread(target=graph.push, args=(rows, numbers(2)))
        pusher.start()
        time.sleep(0.1)
        assert pusher.is_alive()  # it waits for room
    pusher.join(20)
    assert not pusher.is_alive() and cursor.subscription.done and isinstance(cursor, Cursor)


def test_a_cursor_is_read_while_others_push() -> None:
    rows, more = pushed(), table(2_000)
    graph = hp.Graph(rows=1)
    cursor = graph.cursor(rows.union(more), limit=1, patience=20)
    pusher = threading.Thread(target=lambda: [graph.push(rows, numbers(t)) for t in range(200)])
    pusher.start()
    begin, found = time.monotonic(), 0
    while found < 1_000:
        found += len(next(cursor))
    cursor.close()
    pusher.join(30)
    assert time.monotonic() - begin < 18 and cursor.subscription.error is None and not pusher.is_alive()


def test_a_cursor_is_a_source_of_another_graph() -> None:
    graph, second, found = hp.Graph(rows=7), hp.Graph(), list[pa.Table]()
    again = hp.from_arrow(graph.cursor(sums(table(50))), time="ts", progress=hp.ordered())
    second.subscribe(again.where(hp.col("sum") > 200), found.append)
    second.run()
    assert values(found, "sum") == [245.0, 345.0, 445.0]


def test_results_for_asyncio() -> None:
    async def read() -> list[pa.Table]:
        graph = hp.Graph(rows=7)
        return [t async for t in graph.acursor(sums(table(50)))]

    assert values(asyncio.run(read()), "sum") == [45.0, 145.0, 245.0, 345.0, 445.0]


# --- one query --------------------------------------------------------------------------------------------------------------


def test_a_live_query_gives_what_is_final() -> None:
    rows = pushed()
    with sums(rows).live() as live:
        assert live.push(numbers(1, 2)).num_rows == 0
        assert live.push(numbers(11))["sum"].to_pylist() == [3.0]
        with pytest.raises(DataError, match="without value"):
            live.push({"ts": [12]})
        assert live.close()["sum"].to_pylist() == [11.0]


def test_a_live_query_of_two_sources() -> None:
    a, b = pushed(), pushed()
    live = a.union(b).live()
    with pytest.raises(ParameterError, match="2 sources"):
        live.push(numbers(1))
    assert live.push(numbers(1), a)["value"].to_pylist() == [1.0]
    assert live.push(numbers(2), b)["value"].to_pylist() == [2.0]


def test_a_live_query_raises_what_its_functions_raise() -> None:
    live = pushed().signal("value").sample(1, fill=hp.hold(max_gap=50)).window(2).map(bad).live()
    with pytest.raises(DataError, match="LookupError"):
        live.push(numbers(1, 2, 3, 4))


def test_pushed_rows_cannot_be_read() -> None:
    with pytest.raises(UnsupportedError, match="they are pushed"):
        pushed().to_arrow()


# --- readers are lazy -------------------------------------------------------------------------------------------------------


def lazily(count: int, taken: list[int]) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        taken.append(i)
        yield pa.record_batch(numbers(10 * i, 10 * i + 1), schema=SCHEMA)


@pytest.mark.parametrize("kind", ["reader", "generator"])
def test_a_reader_is_read_as_results_are_asked_for(kind: str) -> None:
    taken: list[int] = []
    rows: Any = lazily(20, taken)
    if kind == "reader":
        rows = pa.RecordBatchReader.from_batches(SCHEMA, rows)
    stream = hp.from_arrow(rows, time="ts", progress=hp.ordered())
    batches = sums(stream).batches(2)
    assert next(batches)["sum"].to_pylist() == [1.0] and len(taken) < 5
    assert len(values(list(batches), "sum")) == 19
    with pytest.raises(DataError, match="has been read"):
        list(stream.batches())


def test_a_reader_that_is_asked_for_the_whole_can_be_asked_again() -> None:
    stream = hp.from_arrow(pa.RecordBatchReader.from_batches(SCHEMA, lazily(5, [])), time="ts")
    assert stream.to_arrow().equals(stream.to_arrow()) and len(stream.to_arrow()) == 10
    assert sum(len(t) for t in stream.batches(3)) == 10


# --- synthetic sources ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "bursty"])
def test_synthetic_rows_depend_on_the_seed_alone(arrivals: Any) -> None:
    def made(seed: int = 3) -> hp.Stream:
        return hp.read.synthetic("1us", rows=10_000, arrivals=arrivals, keys=4, burst=20, seed=seed)

    whole = made().to_arrow()
    pieces = pa.concat_tables(made().batches(777))
    assert len(whole) == 10_000 and whole.equals(pieces)
    assert not whole.equals(made(4).to_arrow())
    gaps = np.diff(whole["ts"].to_numpy())
    spread = {"constant": (0, 0.01), "poisson": (0.8, 1.2), "bursty": (3, 7)}[arrivals]
    assert 700 < gaps.mean() < 1300 and (gaps >= 0).all()
    assert spread[0] <= gaps.std() / gaps.mean() <= spread[1]


def test_synthetic_rows_can_come_by_the_clock() -> None:
    found: list[float] = []
    begin = time.monotonic()
    with hp.Graph() as graph:
        graph.subscribe(
            hp.read.synthetic("20ms", rows=11, paced=True), lambda t: found.append(time.monotonic() - begin)
        )
        graph.run()
    assert found[-1] >= 0.2 and len(found) > 3


def test_synthetic_rows_check_their_law() -> None:
    with pytest.raises(ParameterError, match="'constant', 'poisson' or 'bursty'"):
        hp.read.synthetic(arrivals="normal")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="keys must be positive"):
        hp.read.synthetic(keys=0)


# --- what it does -----------------------------------------------------------------------------------------------------------


def test_nodes_say_what_they_take_give_keep_and_cost() -> None:
    rows = pushed(name="readings")
    loud = rows.where(hp.col("value") >= 50)
    with hp.Graph() as graph:
        assert graph.explain() == "nobody has subscribed"
        graph.subscribe(sums(loud), lambda _: None)
        graph.subscribe(loud, lambda _: None)
        for t in range(0, 100, 10):
            graph.push(rows, numbers(*range(t, t + 10)))
        source, where, tumble = graph.nodes()
        assert source["operator"] == "source readings" and source["rows_in"] == 100 and source["mark"] == 99
        assert where["rows_in"] == 100 and where["selectivity"] == 0.5 and where["batches"] == 10
        assert tumble["rows_in"] == 50 and tumble["rows_out"] == 4 and tumble["state_bytes"] > 0
        assert where["subscriptions"] == 2 and tumble["subscriptions"] == 1 and where["rate"] > 0
        assert all(node["batch_ms"] > 0 for node in (where, tumble))
        text = graph.explain()
    assert text.count("where(") == 1 and "100 rows in, 50 out" in text and "(shared" in text


# --- threads ----------------------------------------------------------------------------------------------------------------


def test_many_threads_push_subscribe_pause_and_fail() -> None:
    """Each settled subscription has exactly the rows of its interval, whatever the others do; nothing hangs."""
    sources = [pushed() for _ in range(3)]
    graph, errors = hp.Graph(), list[BaseException]()
    kept: list[tuple[Any, list[pa.Table], int, bool]] = []
    stop = threading.Event()

    def push(number: int) -> None:
        for t in range(0, 600):
            graph.push(sources[number], numbers(t))

    def fail(table: pa.Table) -> None:
        raise ZeroDivisionError

    def come_and_go(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            number, found = int(rng.integers(3)), list[pa.Table]()
            bad = bool(rng.random() < 0.3)
            subscription = graph.subscribe(sums(sources[number]), fail if bad else found.append)
            time.sleep(float(rng.random()) * 0.02)
            paused = bool(rng.random() < 0.3)
            if paused:
                subscription.pause()
                subscription.resume()
            subscription.unsubscribe()
            if not bad:
                kept.append((subscription, found, number, paused))

    def guarded(work: Any, argument: int) -> None:
        try:
            work(argument)
        except BaseException as error:
            errors.append(error)

    pushers = [threading.Thread(target=guarded, args=(push, n)) for n in range(3)]
    others = [threading.Thread(target=guarded, args=(come_and_go, n)) for n in range(3)]
    for thread in [*pushers, *others]:
        thread.start()
    for thread in pushers:
        thread.join(120)
    stop.set()
    for thread in others:
        thread.join(30)
    assert not any(t.is_alive() for t in [*pushers, *others]) and not errors
    graph.close()
    assert len(kept) > 10
    for subscription, found, _, paused in kept:
        assert subscription.done and subscription.error is None
        start, end = subscription.interval
        wanted = [
            float(sum(range(t, t + 10))) for t in range(0, 600, 10) if t >= (start or 0) and (end is None or t < end)
        ]
        got = values(found, "sum")
        assert got == wanted or (paused and set(got) <= set(wanted))
