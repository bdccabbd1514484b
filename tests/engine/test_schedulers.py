"""Schedulers: regions, orders, threads, and what goes wrong with them. That all give equal rows is a law (tests/laws)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.engine.orders import Shares, Successors
from hydrophone.engine.placement import Placement
from hydrophone.engine.regions import closed_cuts
from hydrophone.engine.schedulers import Scheduler
from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.key_table import KeyTable

SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.float64())])
THREADED = [hp.OperatorThreads(buffer=1), hp.GraphThread(), hp.Hybrid(), hp.GraphThread("chain", buffer=1)]
INLINE = [hp.DepthFirst(), hp.Fifo(), hp.Fifo(time_slice="1ms"), hp.RunToCompletion(buffer=1)]


def pushed() -> hp.Stream:
    return hp.from_arrow(SCHEMA, time="ts", progress=hp.ordered())


def numbers(*times: int) -> dict[str, list[Any]]:
    return {"ts": list(times), "value": [float(t) for t in times]}


def values(tables: list[pa.Table], column: str = "value") -> list[Any]:
    return [v for t in tables for v in t[column].to_pylist()]


def staged(rows: hp.Stream) -> tuple[hp.Stream, hp.Hybrid]:
    """A stream that is made behind a buffer."""
    found = rows.where(hp.col("value") >= 0)
    return found, hp.Hybrid(before=[found], threads=2)


def threads_of_operators() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name in ("hydrophone region", "hydrophone changes")]


def ended(found: list[threading.Thread]) -> bool:
    for thread in found:
        thread.join(10)
    return not any(t.is_alive() for t in found)


# --- what users give --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hp.GraphThread("fastest"), "strategy must be one of 'round_robin', 'chain'"),  # type: ignore[arg-type]
        (lambda: hp.Graph(scheduler="fifo"), "must be a scheduler"),  # type: ignore[arg-type]
        (lambda: hp.Graph(scheduler=Scheduler()), "must be a scheduler"),
        (lambda: hp.Graph(burst=0), "at least 1"),
        (lambda: hp.Fifo(time_slice="-1ms"), "must not be negative"),
        (lambda: hp.Fifo(buffer=0), "buffer must be a number of bytes above 0"),
        (lambda: hp.OperatorThreads(buffer="much"), "buffer must be a number of bytes above 0"),
        (lambda: hp.Hybrid(threads=0), "threads must be between 1"),
        (lambda: hp.Hybrid(before=["x"]), "takes a list of streams"),  # type: ignore[list-item]
        (lambda: hp.Graph().priority(pushed(), 2), "hands out no shares"),
        (lambda: hp.Graph(scheduler=hp.Hybrid()).priority(pushed(), 0), "weight must be positive"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_a_scheduler_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        hp.Fifo().buffer = 5  # type: ignore[misc]
    assert hp.Fifo(buffer=5) == hp.Fifo(buffer=5) != hp.Fifo(buffer=6)
    shared = hp.Fifo()
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph(scheduler=shared) as one, hp.Graph(scheduler=shared) as two:
        for graph in (one, two):
            graph.subscribe(rows, found.append)
            graph.push(rows, numbers(1))
    assert values(found) == [1.0, 1.0]


# --- regions ------------------------------------------------------------------------------------------------------------------


class Plan:
    """A random plan of stations, as far as regions look at them."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.stations: dict[Any, Any] = {}
        for node in range(12):
            count = 0 if node < 2 else int(rng.integers(1, 3))
            inputs = tuple(self.stations[i] for i in rng.choice(node, count, replace=False)) if count and node else ()
            self.stations[node] = SimpleNamespace(node=node, inputs=inputs, out=None)
        every = [(n, p) for n, s in self.stations.items() for p in range(len(s.inputs))]
        self.cuts = {edge for edge in every if rng.random() < 0.4}

    def reached(self, starts: set[int], cuts: set[Any]) -> set[int]:
        """What these reach without a buffer, by brute force."""
        found = set(starts)
        for _ in self.stations:
            for n, s in self.stations.items():
                if any((n, p) not in cuts and i.node in found for p, i in enumerate(s.inputs)):
                    found.add(n)
        return found


@pytest.mark.parametrize("seed", range(40))
def test_rows_that_come_in_and_rows_out_of_a_buffer_never_meet(seed: int) -> None:
    plan = Plan(seed)
    cuts = closed_cuts(plan.stations, plan.cuts)
    assert cuts >= plan.cuts
    ports, readers = {n for n, s in plan.stations.items() if not s.inputs}, {n for n, _ in cuts}
    assert not plan.reached(ports, cuts) & plan.reached(readers, cuts)
    if not plan.reached(ports, plan.cuts) & plan.reached({n for n, _ in plan.cuts}, plan.cuts):
        assert cuts == plan.cuts, "more was cut than needed"


def test_a_region_is_what_is_joined_without_a_buffer() -> None:
    rows = pushed()
    first = rows.where(hp.col("value") > 1)
    with hp.Graph(scheduler=hp.Hybrid(before=[first])) as graph:
        graph.subscribe(first.tumble(10).agg(n=hp.count()), print)
        graph.subscribe(rows.tumble(10).agg(n=hp.count()), print)
        assert sorted(len(r.stations) for r in graph._graph.dispatcher.regions) == [2, 2]
        assert "behind a buffer" in graph.explain() and {n["region"] for n in graph.nodes()} == {0, 1}


# --- orders -------------------------------------------------------------------------------------------------------------------


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**{"share": 0.0, "weight": 1.0, "outputs": [], **fields}) if fields else object()


def test_a_region_that_rests_sees_the_keys_of_other_sources() -> None:
    """Two sources have the keys of one table. A sweep asks a region that got nothing which keys it needs: none of the other source."""
    schema = pa.schema([("key", pa.int64()), *SCHEMA])
    one, other = (hp.from_arrow(schema, key="key", time="ts", progress=hp.ordered(), name=n) for n in ("one", "other"))
    with hp.Graph(scheduler=hp.OperatorThreads()) as graph:
        graph.subscribe(one.tumble(10).agg(n=hp.count()), print)
        graph.push(one, {"key": [0], **numbers(0)})
        graph.flush()
        for at in range(5):
            graph.push(other, {"key": [1 + at], **numbers(at)})
        (table,) = graph._graph.pipeline.scopes.values()
        assert table.live == 2, (
            "the key with an open window, and that of the last row, which is given out after the sweep"
        )
        graph.close(now=True)


def test_time_goes_by_weight_and_none_starves() -> None:
    order, ran = Shares(), dict[str, int]()
    for name, weight in (("a", 3.0), ("b", 1.0), ("c", 0.01)):
        order.add(fake(name=name, weight=weight))
    for turn in range(4000):
        region: Any = order.next()
        ran[region.name] = ran.get(region.name, 0) + 1
        region.share += 1 / region.weight
        order.add(region)
        if turn == 1000:  # who comes late gets its part, and not what it has missed
            order.add(fake(name="late"))
    assert 2.8 < ran["a"] / ran["b"] < 3.2 and ran["c"] >= 5
    assert 0.65 < ran["late"] / ran["b"] < 0.85


class Named:
    def __init__(self, name: str, outputs: list[Any]) -> None:
        self.name, self.outputs = name, outputs


def test_run_to_completion_goes_to_a_reader_next() -> None:
    end = Named("end", [])
    middle = Named("middle", [SimpleNamespace(region=end)])
    start, other = Named("start", [SimpleNamespace(region=middle)]), Named("other", [])
    order: Any = Successors()
    for region in (start, other):
        order.add(region)
    ran = [order.next().name]
    order.add(middle)
    ran.append(order.next().name)
    order.add(end)
    ran += [order.next().name, order.next().name]
    assert ran == ["start", "middle", "end", "other"] and order.next() is None


# --- threads ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", THREADED, ids=str)
def test_threads_end_when_the_graph_closes(scheduler: Scheduler) -> None:
    before = set(threads_of_operators())
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph(scheduler=scheduler) as graph:
        graph.subscribe(rows.where(hp.col("value") > 1).tumble(10).agg(sum=hp.sum("value")), found.append)
        for t in range(0, 100, 3):
            graph.push(rows, numbers(t))
        mine = [t for t in threads_of_operators() if t not in before]
        assert mine
    assert sum(values(found, "sum")) == sum(range(3, 100, 3)) and ended(mine)


@pytest.mark.parametrize("scheduler", [*INLINE, *THREADED], ids=str)
def test_a_buffer_smaller_than_a_batch_holds_one(scheduler: Scheduler) -> None:
    small = dataclasses.replace(scheduler, buffer=1) if hasattr(scheduler, "buffer") else scheduler
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph(scheduler=small) as graph:
        graph.subscribe(rows.where(hp.col("value") >= 0).select("value"), found.append)
        for t in range(0, 5000, 1000):
            graph.push(rows, numbers(*range(t, t + 1000)))
    assert sorted(values(found)) == list(map(float, range(5000)))


@pytest.mark.parametrize("scheduler", [*INLINE, *THREADED], ids=str)
def test_an_error_fails_what_is_above_it_and_nothing_else(scheduler: Scheduler) -> None:
    rows, found = pushed(), list[pa.Table]()

    def bad(windows: np.ndarray) -> np.ndarray:
        if np.any(windows > 2):
            raise LookupError("in a function")
        return windows

    with hp.Graph(scheduler=scheduler) as graph:
        level = rows.signal("value").sample(1, fill=hp.hold())
        one = graph.subscribe(level.window(2).map(bad), print)
        sink = graph.subscribe(rows, lambda _: 1 / 0)
        other = graph.subscribe(level, found.append)
        for t in range(20):
            graph.push(rows, numbers(t))
        graph.flush()
        assert one.done and "in a function" in str(one.error) and isinstance(sink.error, ZeroDivisionError)
    assert other.error is None and len(values(found, "sample" if "sample" in found[0].column_names else "value")) >= 19


@pytest.mark.parametrize("scheduler", THREADED[:2], ids=str)
def test_who_exits_in_a_thread_of_operators_fails_and_does_not_end_the_thread(scheduler: Scheduler) -> None:
    rows, found = pushed(), list[pa.Table]()

    def leave(_: Any) -> None:
        raise SystemExit(3)

    def leave_above(windows: np.ndarray) -> np.ndarray:
        if np.any(windows > 2):
            raise SystemExit(3)
        return windows

    with hp.Graph(scheduler=scheduler) as graph:
        high = rows.where(hp.col("value") > 0)
        sink = graph.subscribe(high.select("value"), leave)
        function = graph.subscribe(rows.signal("value").sample(1, fill=hp.hold()).window(2).map(leave_above), print)
        graph.subscribe(high, found.append)
        for t in range(1, 6):
            graph.push(rows, numbers(t))
        graph.flush(timeout=60)
        assert "SystemExit: 3" in str(sink.error) and "SystemExit: 3" in str(function.error)
        assert values(found) == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("scheduler", THREADED[:2], ids=str)
def test_a_sink_in_a_thread_may_push_and_leave_but_not_subscribe(scheduler: Scheduler) -> None:
    rows, echo, heard = pushed(), pushed(), list[pa.Table]()
    with hp.Graph(scheduler=scheduler) as graph:

        def again(table: pa.Table) -> None:
            graph.push(echo, {"ts": table["ts"].to_pylist(), "value": [-v for v in table["value"].to_pylist()]})
            assert graph.nodes()

        graph.subscribe(echo, heard.append)
        high = rows.where(hp.col("value") > 1)
        graph.subscribe(high, again)
        refused = graph.subscribe(high.select("value"), lambda _: graph.subscribe(high, print) and None)
        graph.push(rows, numbers(1, 2, 3))
        graph.flush()
        graph.flush()
        assert isinstance(refused.error, PlanError) and "another thread" in str(refused.error)
    assert values(heard) == [-2.0, -3.0]


def test_a_sink_that_blocks_holds_up_its_region_and_then_who_pushes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hydrophone.api.graph.PATIENCE", 0.3)
    rows, free, found = pushed(), threading.Event(), list[pa.Table]()
    graph = hp.Graph(scheduler=hp.OperatorThreads(buffer=1))
    graph.subscribe(rows.where(hp.col("value") >= 0), lambda _: free.wait(30) and None)
    graph.subscribe(rows.select("value"), found.append)
    count = [0]

    def push() -> None:
        with contextlib.suppress(ParameterError):  # the graph has closed
            for t in range(20):
                graph.push(rows, numbers(t))
                count[0] += 1

    pusher = threading.Thread(target=push, daemon=True)
    pusher.start()
    deadline = time.monotonic() + 20
    while not values(found) and time.monotonic() < deadline:
        time.sleep(0.01)
    pusher.join(0.3)
    assert values(found)[0] == 0.0 and pusher.is_alive() and 1 <= count[0] < 20
    with pytest.raises(TimeoutError):
        graph.flush(timeout=0.2)
    graph.close()
    assert "does not come back" in caplog.text
    free.set()


def test_ctrl_c_reaches_who_waits_and_the_graph_still_closes() -> None:
    before, rows, free = set(threads_of_operators()), pushed(), threading.Event()
    graph = hp.Graph(scheduler=hp.OperatorThreads(buffer=1))
    graph.subscribe(rows.where(hp.col("value") >= 0), lambda _: free.wait(30) and None)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for t in range(20):
            graph.push(rows, numbers(t))
    free.set()
    mine = [t for t in threads_of_operators() if t not in before]
    graph.close()
    assert ended(mine)


def test_priorities_may_change_while_it_runs() -> None:
    rows = pushed()
    query, scheduler = staged(rows)
    with hp.Graph(scheduler=scheduler) as graph:
        graph.subscribe(query, lambda _: None)
        graph.push(rows, numbers(1))
        graph.priority(query, 7)
        regions = graph._graph.dispatcher.regions
        assert sorted(r.weight for r in regions) == [7.0, 7.0]  # the port is needed by the query too
        graph.subscribe(rows.tumble(10).agg(n=hp.count()), lambda _: None)
        assert max(r.weight for r in graph._graph.dispatcher.regions) == 7.0


def test_key_tables_give_equal_slots_in_many_threads() -> None:
    for schema in (
        pa.schema([("k", pa.string())]),
        pa.schema([("k", pa.int64())]),
        pa.schema([("a", pa.int64()), ("b", pa.int64())]),
    ):
        keys, seen = KeyTable(schema), list[tuple[np.ndarray, np.ndarray]]()

        def look(seed: int, keys: KeyTable = keys, schema: pa.Schema = schema, seen: Any = seen) -> None:
            rng = np.random.default_rng(seed)
            for _ in range(60):
                number = rng.integers(0, 400, 50)
                slot = keys.slots([pa.array(number).cast(f.type) for f in schema])
                assert keys.columns(slot)[0].cast(pa.int64()).to_pylist() == number.tolist()
                seen.append((number, slot))

        threads = [threading.Thread(target=look, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        slot_of: dict[int, int] = {}
        assert len(seen) == 240
        for number, slot in seen:
            for key, at in zip(number.tolist(), slot.tolist(), strict=True):
                assert slot_of.setdefault(key, at) == at
        assert len(set(slot_of.values())) == len(slot_of) == keys.live


# --- memory and placement -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", [hp.DepthFirst(), hp.Fifo(), hp.OperatorThreads(buffer="1 kB")], ids=str)
def test_a_burst_takes_several_tables_in_one_turn(scheduler: Scheduler) -> None:
    made = hp.read.synthetic("1ms", rows=1_000)
    found, turns = list[pa.Table](), [0]
    graph = hp.Graph(rows=100, burst=4, scheduler=scheduler)
    turn = graph._graph.turn

    def counted() -> None:
        turns[0] += 1
        turn()

    graph._graph.turn = counted  # type: ignore[method-assign]
    with graph:
        graph.subscribe(made.tumble("1s").agg(n=hp.count()), found.append)
        graph.run()
    assert sum(values(found, "n")) == 1_000 and turns[0] <= 6


def test_what_waits_stays_within_the_buffers_under_overload() -> None:
    rows, most = pushed(), [0]
    slow = rows.where(hp.col("value") >= 0)
    batch = {"ts": np.zeros(1_000, np.int64), "value": np.ones(1_000)}
    with hp.Graph(scheduler=hp.Hybrid(before=[slow], buffer="100 kB")) as graph:
        graph.subscribe(slow, lambda _: time.sleep(0.002))
        for _ in range(60):
            graph.push(rows, batch)
            most[0] = max(most[0], sum(node["queue_bytes"] for node in graph.nodes()))
        graph.flush()
        assert graph.nodes()[-1]["rows_out"] == 60_000
    assert 50_000 < most[0] <= 100_000 + 30_000, "a buffer holds its limit, and what one batch gives"


class Clock:
    """A graph whose meters say what the test wants."""

    def __init__(self) -> None:
        self.now, self.rows = 0.0, 0
        self.meters = {n: SimpleNamespace(seconds=0.0, batches=0) for n in ("light", "heavy")}

    def go(self, seconds: float, rows: int, heavy: float) -> None:
        self.now += seconds
        self.rows += rows
        for name, part in (("light", 0.05), ("heavy", heavy)):
            self.meters[name].seconds += part * seconds
            self.meters[name].batches += 10


def test_placement_cuts_around_what_is_heavy_and_takes_back_what_did_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    for after, stays in ((150, True), (101, False)):
        clock: Any = Clock()
        monkeypatch.setattr("hydrophone.engine.placement.time", SimpleNamespace(perf_counter=lambda c=clock: c.now))
        placement = Placement(hp.Hybrid())
        assert not placement.look(clock.rows, clock.meters)
        clock.go(1, 100, heavy=0.1)
        assert not placement.look(clock.rows, clock.meters), "operators are not busy"
        clock.go(1, 100, heavy=0.9)
        assert placement.look(clock.rows, clock.meters) and placement.heavy == {"heavy"}
        clock.go(1, after, heavy=0.9)
        assert placement.look(clock.rows, clock.meters) == (not stays)
        assert placement.heavy == ({"heavy"} if stays else set())
        clock.go(1, 100, heavy=0.9)
        assert not placement.look(clock.rows, clock.meters), "it does not try the same again"


# --- many threads -------------------------------------------------------------------------------------------------------------


def come_and_go(scheduler: Scheduler, seconds: float, seed: int) -> int:
    """Threads push, subscribe, fail and leave at the same time; each subscription has exactly the rows of its interval."""
    sources, before = [pushed() for _ in range(2)], set(threads_of_operators())
    graph, errors, stop = hp.Graph(scheduler=scheduler), list[BaseException](), threading.Event()
    kept: list[tuple[Any, list[pa.Table]]] = []

    def push(number: int) -> None:
        t = 0
        while not stop.is_set():
            graph.push(sources[number], numbers(*range(t, t + 5)))
            t += 5

    def subscribe(number: int) -> None:
        rng = np.random.default_rng(seed + number)
        while not stop.is_set():
            source, found = sources[int(rng.integers(2))], list[pa.Table]()
            shared = source.where(hp.col("value") >= 0)
            fails = rng.random() < 0.3
            sink = (lambda _: 1 / 0) if fails else found.append
            subscription = graph.subscribe(shared.tumble(10).agg(sum=hp.sum("value")), sink)
            time.sleep(float(rng.random()) * 0.01)
            subscription.unsubscribe(now=bool(rng.random() < 0.2))
            if not fails:
                kept.append((subscription, found))

    def guarded(work: Any, number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(w, n)) for w in (push, subscribe) for n in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join(120)
    assert not any(t.is_alive() for t in threads), "somebody hangs"
    assert not errors, errors[0]
    mine = [t for t in threads_of_operators() if t not in before]
    graph.close()
    assert ended(mine)
    for subscription, found in kept:
        assert subscription.done and subscription.error is None
        start, end = subscription.interval
        got = {t: v for table in found for t, v in zip(table["ts"].to_pylist(), table["sum"].to_pylist(), strict=True)}
        assert len(got) == sum(map(len, found))
        for t, total in got.items():
            assert t >= (start or 0) and (end is None or t < end or total)
            assert total == sum(range(t, t + 10)) or t + 10 > max(got)
        inside = sorted(t for t in got if end is None or t < end)
        assert inside == list(range(min(inside), max(inside) + 1, 10)) if inside else True
    return len(kept)


@pytest.mark.parametrize("scheduler", [hp.OperatorThreads(buffer=1), hp.Hybrid(time_slice=0)], ids=str)
def test_many_threads_come_and_go(scheduler: Scheduler) -> None:
    assert come_and_go(scheduler, 0.8, 1)


@pytest.mark.soak
@pytest.mark.parametrize("scheduler", [*INLINE, *THREADED], ids=str)
def test_ten_thousand_subscriptions_come_and_go(scheduler: Scheduler) -> None:
    count = 0
    while count < 10_000 // 8:
        count += come_and_go(scheduler, 5, count)
