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

ROWS = 64
"""Few: what rows cost is not what a hop costs."""
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
    yield _hops("10 operators", 10, 200 if quick else 2_000, hp.DepthFirst())


def enginebench(quick: bool) -> Iterator[Turns]:
    """`enginebench`: a thousand operators that hand on what they get, under every scheduler, in nanoseconds a hop."""
    for name, scheduler in SCHEDULERS.items():
        yield _hops(f"1000 operators, {name}", 1_000, 2 if quick else 10, scheduler)


def _hops(name: str, operators: int, pushes: int, scheduler: Scheduler) -> Turns:
    return Turns(name, partial(_measured, operators, pushes, scheduler), unit="ns")


def _measured(operators: int, pushes: int, scheduler: Scheduler) -> Measured:
    """Processor time, all threads together: other programs hardly change it."""
    rows = hp.from_arrow(SCHEMA, time="ts", progress=hp.ordered())
    root: Node = rows.node
    for number in range(operators):
        root = Pass(inputs=(root,), number=number)
    batches = [
        pa.table({"ts": np.arange(n * ROWS, (n + 1) * ROWS), "value": np.ones(ROWS)}) for n in range(pushes * TRIALS)
    ]
    taken, hops = [0], pushes * operators
    plain = _pushed(hp.DepthFirst(), rows, rows, pushes, batches, [0])
    chain = _pushed(scheduler, rows, _stream(root), pushes, batches, taken)
    # What a push costs without operators is not a hop.
    mine = [max(with_hops - without, 0.0) for without, with_hops in zip(plain, chain, strict=True)]
    bare, calls = _bare(operators, pushes, batches)
    return {
        "ours": ([1e9 * seconds / hops for seconds in mine], (taken[0],)),
        "bare calls": ([1e9 * seconds / hops for seconds in bare], (calls * ROWS,)),
    }


def _stream(root: Node) -> hp.Stream:
    found = handle(root)
    assert isinstance(found, hp.Stream)
    return found


def _pushed(
    scheduler: Scheduler, rows: hp.Stream, query: hp.Stream, pushes: int, batches: Sequence[pa.Table], taken: list[int]
) -> Iterator[float]:
    """Seconds of every trial; trials of two such iterators may take turns."""
    with hp.Graph(scheduler=scheduler) as graph:
        graph.subscribe(query, partial(_count, taken))
        graph.push(rows, batches[0].slice(0, 0))
        for trial in range(TRIALS):
            begin = time.process_time()
            for batch in batches[trial * pushes : (trial + 1) * pushes]:
                graph.push(rows, batch)
            graph.flush()
            yield time.process_time() - begin


def _count(taken: list[int], table: pa.Table) -> None:
    taken[0] += len(table)


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
