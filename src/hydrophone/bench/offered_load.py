"""`schedulers`: time for some samples against the load that is offered, with and without rate control (XStream, figure 7)."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.harness import Answer, Measured, Turns, in_turn
from hydrophone.engine.schedulers import Scheduler

PERIOD = 20_000
PIECE = 4_096
BURST = 4

SCHEDULERS: dict[str, Scheduler] = {
    "ours": hp.DepthFirst(),
    "fifo": hp.Fifo(),
    "fifo, slices of 28 us": hp.Fifo(time_slice="28us"),
    "fifo, slices of 1 ms": hp.Fifo(time_slice="1ms"),
    "run to completion": hp.RunToCompletion(),
    "graph thread": hp.GraphThread(),
    "hybrid": hp.Hybrid(),
}


def cases(quick: bool) -> Iterator[Turns]:
    """Half, all and twice of what depth first can do; ours is depth first."""
    samples, trials = (PIECE * 25, 5) if quick else (PIECE * 500, 10)
    for load in (0.5, 1.0, 2.0):
        for burst in (BURST, None):
            control = "no rate control" if burst is None else f"bursts of {burst} pieces"
            yield Turns(f"offered {load:g} of what it can, {control}", partial(_offered, samples, trials, load, burst))


def _offered(samples: int, trials: int, load: float, burst: int | None) -> Measured:
    values = np.random.default_rng(1).normal(size=samples)
    times = np.arange(samples) * PERIOD
    pieces = [pa.table({"ts": times[at : at + PIECE], "x": values[at : at + PIECE]}) for at in range(0, samples, PIECE)]
    some = pieces[: len(pieces) // 2]
    able = min(_offer(some, 0.0, 1, hp.DepthFirst())[0] for _ in range(3)) / len(some)
    ways = {name: partial(_offer, pieces, able / load, burst, one) for name, one in SCHEDULERS.items()}
    return in_turn(ways, trials)


def _offer(pieces: Sequence[pa.Table], spacing: float, burst: int | None, scheduler: Scheduler) -> tuple[float, Answer]:
    """Pieces arrive by the clock, in a thread of their own; each turn takes what has arrived, or a burst of it."""
    rows = hp.from_arrow(pieces[0].schema, time="ts", progress=hp.ordered())
    smooth = rows.signal("x").sample(PERIOD).fir(np.hanning(64)).abs().fir(np.hanning(16))
    query = smooth.events("x").tumble("10ms").agg(n=hp.count(), most=hp.max("x"))
    arrived: queue.SimpleQueue[pa.Table | None] = queue.SimpleQueue()
    found: list[pa.Table] = []

    def arrive() -> None:
        begin = time.perf_counter()
        for number, piece in enumerate(pieces):
            time.sleep(max(0.0, begin + number * spacing - time.perf_counter()))
            arrived.put(piece)
        arrived.put(None)

    with hp.Graph(scheduler=scheduler) as graph:
        graph.subscribe(query, found.append)
        graph.push(rows, pieces[0].slice(0, 0))
        inner = graph._graph
        source = threading.Thread(target=arrive, daemon=True)
        begin = time.perf_counter()
        source.start()
        waiting: list[pa.Table | None] = []
        while None not in waiting:
            waiting = [arrived.get()]
            while not arrived.empty() and (burst is None or len(waiting) < burst):
                waiting.append(arrived.get())
            taken = [(inner.turns.feeds[0], piece) for piece in waiting if piece is not None]
            inner.changes.run(partial(inner.take, taken), turn=True)
        graph.flush()
        took = time.perf_counter() - begin
        source.join()
    whole = pa.concat_tables(found)
    return took, (float(len(whole)), float(sum(whole["n"].to_pylist())))
