"""The experiments of PIPES on scheduling: where a buffer pays, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.api import handle
from hydrophone.api.query import Query
from hydrophone.bench.harness import Answer, Measured, Turns, in_turn
from hydrophone.engine.schedulers import Scheduler
from hydrophone.model.batch import Batch, Events
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.plan.node import Node
from hydrophone.plan.types import DataType

WAIT = 5e-3
"""Seconds that the slow predicate takes for each row."""


def _table(rows: int, high: int, seed: int, spacing: int = 1) -> pa.Table:
    number = np.random.default_rng(seed).integers(0, high, rows)
    return pa.table({"number": number, "ts": np.arange(rows) * spacing, "value": number.astype(float)})


def _stream(table: pa.Table, key: str | None = None, name: str = "a") -> hp.Stream:
    return hp.from_arrow(table.schema, key=key or (), time="ts", progress=hp.ordered(), name=name)


# --- a predicate that waits ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class SlowFilter(Node):
    """Rows whose number is small enough; each look at a row takes its time: it waits, or it computes."""

    stable_name = "bench_slow_filter"

    below: int
    computes: bool
    gives = None
    rowwise = True

    def output_type(self, x: DataType) -> DataType:
        """Unchanged."""
        return x

    def kernel(self, x: DataType) -> Kernel:
        """Filter."""
        return SlowKernel(self.below, self.computes)


class SlowKernel(Stateless):
    """Looks at rows one by one, in Python."""

    def __init__(self, below: int, computes: bool) -> None:
        self._below, self._computes = below, computes

    def map(self, batch: Batch) -> Batch:
        """Filter one batch."""
        assert isinstance(batch, Events)
        for _ in range(len(batch)):
            if self._computes:
                end = time.thread_time() + WAIT
                while time.thread_time() < end:
                    pass
            else:
                time.sleep(WAIT)
        return batch.select(batch.columns["number"].to_numpy() < self._below)


def hmts(quick: bool) -> Iterator[Turns]:
    """`pipes_hmts`: a filter, and one whose predicate takes 5 ms a row; runtime, and how long rows of another query wait (figure 9)."""
    rows, trials = (20_000, 5) if quick else (500_000, 10)
    for computes in (False, True):
        what = "computes" if computes else "waits"
        yield Turns(f"runtime, the predicate {what}", partial(_hmts, rows, trials, computes, False))
        yield Turns(
            f"95 % of waits of a neighbour, the predicate {what}", partial(_hmts, rows, trials, computes, True), "ms"
        )


def _hmts(rows: int, trials: int, computes: bool, waits: bool) -> Measured:
    stream = _stream(_table(1, rows, 1))
    first = stream.where(hp.col("number") < round(9e-4 * rows))
    second = handle(SlowFilter(inputs=(first.node,), below=round(0.3 * 9e-4 * rows), computes=computes))
    ways: dict[str, Scheduler] = {
        "ours": hp.Hybrid(before=[first, second], time_slice="1ms"),
        "hybrid, own places": hp.Hybrid(),
        "depth first": hp.DepthFirst(),
        "graph thread, round robin": hp.GraphThread(),
        "graph thread, chain": hp.GraphThread("chain"),
        "operator threads": hp.OperatorThreads(),
    }
    table = _table(rows, rows, 1)
    run = partial(_run_hmts, table, stream, second, waits=waits)
    return in_turn({name: partial(run, scheduler) for name, scheduler in ways.items()}, trials)


def _run_hmts(
    table: pa.Table, stream: hp.Stream, query: Query, scheduler: Scheduler, waits: bool
) -> tuple[float, Answer]:
    """Push in pieces of 1,000; for the waits, one each millisecond."""
    found, pushed, seen = [0, 0], dict[int, float](), list[float]()

    def slow(result: pa.Table) -> None:
        found[0] += len(result)

    def light(result: pa.Table) -> None:
        found[1] += len(result)
        seen.append(time.perf_counter() - pushed[int(result["ts"][0].as_py()) // 1_000])

    with hp.Graph(scheduler=scheduler) as graph:
        graph.subscribe(query, slow)
        graph.subscribe(stream.where(hp.col("number") >= 0), light)
        begin = time.perf_counter()
        for number in range(len(table) // 1_000):
            due = begin + 1e-3 * number
            if waits:
                time.sleep(max(0.0, due - time.perf_counter()))
            pushed[number] = due if waits else time.perf_counter()
            graph.push(stream, table.slice(1_000 * number, 1_000))
        graph.flush()
        took = time.perf_counter() - begin
    return (1e3 * float(np.quantile(seen, 0.95)) if waits else took), tuple(map(float, found))


# --- direct, threaded, cursors ------------------------------------------------------------------------------------------------


def di(quick: bool) -> Iterator[Turns]:
    """`pipes_di`: filter, join, projection, aggregate: directly, in threads, by a cursor, and from sources through a cursor (figure 7)."""
    rows, trials = (10_000, 5) if quick else (200_000, 10)
    yield Turns(f"{rows} numbers a side", partial(_di, rows, trials))


def _joined(a: hp.Stream, b: hp.Stream) -> hp.Stream:
    chosen = a.where(hp.col("value") % 2 == 0)
    return chosen.join(b).select("value").key_by().tumble(1_000).agg(n=hp.count(), std=hp.std("value"))


def _di(rows: int, trials: int) -> Measured:
    tables = [_table(rows, rows, seed).append_column("stop", pa.array(np.full(rows, 1 << 40))) for seed in (1, 2)]

    def pushed(scheduler: Scheduler) -> tuple[float, Answer]:
        a, b = (
            hp.from_arrow(t.schema, key="number", time="ts", end="stop", progress=hp.ordered(), name=n)
            for t, n in zip(tables, "ab", strict=True)
        )
        total = [0, 0]
        with hp.Graph(scheduler=scheduler) as graph:
            graph.subscribe(_joined(a, b), partial(_add, total))
            begin = time.perf_counter()
            for at in range(0, rows, 1_000):
                for stream, table in zip((a, b), tables, strict=True):
                    graph.push(stream, table.slice(at, 1_000))
            graph.end(a)
            graph.end(b)
            graph.flush()
            took = time.perf_counter() - begin
        return took, tuple(map(float, total))

    def pulled(live: bool) -> tuple[float, Answer]:
        a, b = (
            _read(t, n)
            if live
            else hp.from_arrow(t, key="number", time="ts", end="stop", progress=hp.ordered(), name=n)
            for t, n in zip(tables, "ab", strict=True)
        )
        total = [0, 0]
        begin = time.perf_counter()
        with hp.Graph(rows=1_000) as graph:
            for found in graph.cursor(_joined(a, b)):
                _add(total, found)
        return time.perf_counter() - begin, tuple(map(float, total))

    return in_turn(
        {
            "ours": partial(pushed, hp.Hybrid()),
            "direct": partial(pushed, hp.DepthFirst()),
            "operator threads": partial(pushed, hp.OperatorThreads()),
            "cursor": partial(pulled, False),
            "source to cursor": partial(pulled, True),
        },
        trials,
    )


def _add(total: list[int], found: pa.Table) -> None:
    total[0] += len(found)
    total[1] += sum(found["n"].to_pylist())


class Pieces(hp.Source):
    """A table, a thousand rows at a time, from a thread of its own."""

    def __init__(self, table: pa.Table) -> None:
        self.schema, self._table, self._at = table.schema, table, 0

    def read(self, limit: int) -> pa.Table | object:
        """The next rows."""
        at, self._at = self._at, self._at + 1_000
        return self._table.slice(at, 1_000) if at < len(self._table) else self.END


def _read(table: pa.Table, name: str) -> hp.Stream:
    return hp.read.data(Pieces(table), key="number", time="ts", end="stop", progress=hp.ordered())


# --- memory -------------------------------------------------------------------------------------------------------------------


def memory(quick: bool) -> Iterator[Turns]:
    """`pipes_memory`: aggregate over filter over group: runtime, and what waits in buffers at most (figure 8)."""
    rows, trials = (50_000, 5) if quick else (1_000_000, 10)
    yield Turns(f"runtime, {rows} numbers", partial(_memory, rows, trials, False))
    yield Turns(f"most that waits, {rows} numbers", partial(_memory, rows, trials, True), "MB")


def _memory(rows: int, trials: int, waits: bool) -> Measured:
    table, stream = _table(rows, rows, 3), _stream(_table(1, rows, 3), key="number")
    query = stream.tumble(10_000).agg(n=hp.count()).where(hp.col("n") >= 1).key_by().tumble(10_000).agg(n=hp.sum("n"))

    def run(scheduler: Scheduler) -> tuple[float, Answer]:
        total, most = [0, 0], 0
        with hp.Graph(scheduler=scheduler) as graph:
            graph.subscribe(query, partial(_add, total))
            begin = time.perf_counter()
            for at in range(0, rows, 1_000):
                graph.push(stream, table.slice(at, 1_000))
                if waits:
                    most = max(most, sum(buffer.nbytes for buffer in graph._graph.pipeline.buffers.values()))
            graph.end(stream)
            graph.flush()
            took = time.perf_counter() - begin
        return (max(most, 1) / 1e6 if waits else took), tuple(map(float, total))

    return in_turn(
        {
            "ours": partial(run, hp.Hybrid()),
            "direct": partial(run, hp.DepthFirst()),
            "operator threads": partial(run, hp.OperatorThreads()),
            "graph thread, round robin": partial(run, hp.GraphThread()),
            "graph thread, chain": partial(run, hp.GraphThread("chain")),
        },
        trials,
    )


# --- decoupling ---------------------------------------------------------------------------------------------------------------


def decouple(quick: bool) -> Iterator[Turns]:
    """`pipes_decouple`: how far Poisson sources fall behind their clock, with a join in their thread or behind a buffer (figure 6)."""
    rows, trials = (4_000, 5) if quick else (40_000, 10)
    yield Turns(f"{rows} numbers a side, {BUNCH} each 10 ms on average", partial(_decouple, rows, trials), "ms")


BUNCH = 40


def _decouple(rows: int, trials: int) -> Measured:
    tables = [_table(rows, 100_000, seed).append_column("stop", pa.array(np.full(rows, 1 << 40))) for seed in (1, 2)]
    at = np.cumsum(np.random.default_rng(5).exponential(10e-3, rows // BUNCH))

    def run(area: str, scheduler: Scheduler) -> tuple[float, Answer]:
        a, b = (
            hp.from_arrow(t.schema, key="number", time="ts", end="stop", progress=hp.ordered(), name=n)
            for t, n in zip(tables, "ab", strict=True)
        )
        total, behind = [0], 0.0
        with hp.Graph(scheduler=scheduler) as graph:
            joined = a.join(b, area=area)
            graph.subscribe(joined, lambda found: total.__setitem__(0, total[0] + len(found)))
            begin = time.perf_counter()
            for n, due in enumerate(at):
                time.sleep(max(0.0, begin + due - time.perf_counter()))
                for stream, table in zip((a, b), tables, strict=True):
                    graph.push(stream, table.slice(BUNCH * n, BUNCH))
                behind = max(behind, time.perf_counter() - begin - due)
            graph.flush()
        return 1e3 * behind, (float(total[0]),)

    return in_turn(
        {
            "ours": partial(run, "auto", hp.DepthFirst()),
            "list, direct": partial(run, "list", hp.DepthFirst()),
            "list, behind a buffer": partial(run, "list", hp.OperatorThreads()),
            "hash, behind a buffer": partial(run, "hash", hp.OperatorThreads()),
        },
        trials,
    )
