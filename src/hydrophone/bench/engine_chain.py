"""`passchain`: ten operators that hand on what they get, in nanoseconds a hop, beside bare calls of Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.api import handle
from hydrophone.bench.harness import Measured, Turns
from hydrophone.engine.schedulers import Scheduler
from hydrophone.model.batch import Batch
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.plan.node import Node
from hydrophone.plan.types import DataType

ROWS = 4_096
TRIALS = 10
SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.float64())])

SCHEDULERS: dict[str, Scheduler] = {
    "depth first": hp.DepthFirst(),
    "fifo": hp.Fifo(),
    "fifo, slices of 1 ms": hp.Fifo(time_slice="1ms"),
    "run to completion": hp.RunToCompletion(),
    "graph thread, round robin": hp.GraphThread(),
    "graph thread, chain": hp.GraphThread("chain"),
    "operator threads": hp.OperatorThreads(),
    "hybrid": hp.Hybrid(),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Pass(Node):
    """Hand on what comes."""

    stable_name = "bench_pass"

    number: int
    gives = None
    rowwise = True

    def output_type(self, x: DataType) -> DataType:
        """Unchanged."""
        return x

    def kernel(self, x: DataType) -> Kernel:
        """Nothing to do."""
        return PassKernel()


class PassKernel(Stateless):
    """Hands on."""

    def map(self, batch: Batch) -> Batch:
        """The same batch."""
        return batch


class Call:
    """An operator of a bare chain: it hands on what comes by a call of the next one."""

    def __init__(self, then: Callable[[object], None]) -> None:
        self._then = then

    def step(self, what: object) -> None:
        """Hand on."""
        self._then(what)


def passchain(quick: bool) -> Iterator[Turns]:
    """`passchain`: ten operators that hand on what they get, in nanoseconds a hop, beside bare calls of Python."""
    yield _hops("10 operators", 10, 50 if quick else 500, hp.DepthFirst())


def enginebench(quick: bool) -> Iterator[Turns]:
    """`enginebench`: a thousand operators that hand on what they get, under every scheduler, in nanoseconds a hop."""
    for name, scheduler in SCHEDULERS.items():
        yield _hops(f"1000 operators, {name}", 1_000, 2 if quick else 10, scheduler)


def _hops(name: str, operators: int, pushes: int, scheduler: Scheduler) -> Turns:
    return Turns(name, partial(_measured, operators, pushes, scheduler), unit="ns")


def _measured(operators: int, pushes: int, scheduler: Scheduler) -> Measured:
    """Processor time, all threads together: other programs hardly change it."""
    rows = hp.from_arrow(SCHEMA, time="ts", progress=hp.ordered())
    root = rows.node
    for number in range(operators):
        root = Pass(inputs=(root,), number=number)
    batches = [
        pa.table({"ts": np.arange(n * ROWS, (n + 1) * ROWS), "value": np.ones(ROWS)}) for n in range(pushes * TRIALS)
    ]
    mine: list[float] = []
    taken = [0]
    with hp.Graph(scheduler=scheduler) as graph:
        ends = partial(_count, taken)
        graph.subscribe(handle(root), ends)
        graph.push(rows, batches[0].slice(0, 0))
        for trial in range(TRIALS):
            begin = time.process_time()
            for batch in batches[trial * pushes : (trial + 1) * pushes]:
                graph.push(rows, batch)
            graph.flush()
            mine.append(time.process_time() - begin)
    bare, calls = _bare(operators, pushes, batches)
    # What a push costs without operators is not a hop.
    base = _without_operators(pushes, batches)
    hops = pushes * operators
    return {
        "ours": ([1e9 * max(m - base, 0.0) / hops for m in mine], (taken[0],)),
        "bare calls": ([1e9 * b / hops for b in bare], (calls * ROWS,)),
    }


def _count(taken: list[int], table: pa.Table) -> None:
    taken[0] += len(table)


def _without_operators(pushes: int, batches: Sequence[pa.Table]) -> float:
    rows = hp.from_arrow(SCHEMA, time="ts", progress=hp.ordered())
    found = []
    with hp.Graph() as graph:
        graph.subscribe(rows, lambda table: None)
        for trial in range(TRIALS):
            begin = time.process_time()
            for batch in batches[trial * pushes : (trial + 1) * pushes]:
                graph.push(rows, batch)
            found.append(time.process_time() - begin)
    return float(np.median(found))


def _bare(operators: int, pushes: int, batches: Sequence[pa.Table]) -> tuple[list[float], int]:
    """A chain of methods that call each other, in pieces of a hundred: Python's stack holds no thousand."""
    ended = [0]

    def end(what: object) -> None:
        ended[0] += isinstance(what, pa.Table)

    chains = []
    for first in range(0, operators, 100):
        then: Callable[[object], None] = end if first + 100 >= operators else _nothing
        for _ in range(min(100, operators - first)):
            then = Call(then).step
        chains.append(then)
    seconds = []
    for trial in range(TRIALS):
        begin = time.process_time()
        for batch in batches[trial * pushes : (trial + 1) * pushes]:
            for chain in chains:
                chain(batch)
                chain(0)  # its mark
        seconds.append(time.process_time() - begin)
    return seconds, ended[0]


def _nothing(what: object) -> None:
    """The end of a piece of the chain."""
