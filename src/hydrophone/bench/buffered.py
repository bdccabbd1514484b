"""`oop_buffered`: windows that merge events as they come, or hold them until there are enough; chosen by how many share a pane.

Section 5.5 of the out-of-order paper: partial aggregates cost more than events where a window has few events of a group. Ours looks at what
merging a batch has brought; the others do always the one or always the other. Processor time, the least of some runs, and the peak of
the state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, partial

import hydrophone as hp
from hydrophone.bench.harness import Answer, Turns
from hydrophone.bench.oop import Found, Values
from hydrophone.bench.packets import Link
from hydrophone.engine.local import Live
from hydrophone.ops.aggregates.panes import PaneKernel

SHAPES = ((50_000, 1), (50_000, 5), (50_000, 100), (500, 1_000))
"""How many keys, and events of each in a window."""
BATCH = 4_096
WAYS = {"ours": PaneKernel.ALONE, "always merged": 2.0, "always held": -1.0}
"""By name the panes per event beyond which events are held."""


def cases(quick: bool) -> Iterator[Turns]:
    """For some numbers of keys, and of events in a window of a key, the time and the state."""
    for keys, shared in SHAPES[::3] if quick else SHAPES:
        ran = cache(partial(in_turn, keys, shared, 2 if quick else 4))
        for what, (number, unit) in enumerate((("time", "s"), ("state", "MB"))):
            yield Turns(f"{number}, {keys} keys, {shared} events in a window", partial(_all, ran, what), unit)


Ran = dict[str, tuple[list[float], list[float], Answer]]


def _all(ran: Callable[[], Ran], what: int) -> Values:
    return {way: (found[what], found[2]) for way, found in ran().items()}


def in_turn(keys: int, shared: int, runs: int) -> Ran:
    """Run all ways in turn: processor times, peaks of the state, and the answer."""
    seconds = max(1_000_000 // (keys * shared), 3)
    table = Link(keys * shared, seconds, keys, seed=shared).packets().table.select(["ts", "src", "dst", "length"])
    packets = hp.from_arrow(table, key=("src", "dst"), time="ts", progress=hp.ordered())
    query = packets.tumble("1s").agg(n=hp.count(), mean=hp.mean("length"), most=hp.max("length"))
    found: Ran = {way: ([], [], ()) for way in WAYS}
    for _ in range(runs):
        for way, alone in WAYS.items():
            took, peak, answer = run(query, len(table), alone)
            found[way][0].append(took)
            found[way][1].append(peak)
            found[way] = (*found[way][:2], answer)
    return {way: ([min(times)], [max(peaks)], answer) for way, (times, peaks, answer) in found.items()}


def run(query: hp.Stream, rows: int, alone: float) -> tuple[float, float, Answer]:
    """One way: processor time, the peak of the state in megabytes, and the answer."""
    live = Live(query.node, hp.late.error())
    for station in live.pipeline.stations.values():
        if isinstance(station.kernel, PaneKernel):
            station.kernel.ALONE = alone
    table = live.sources[0].data.table  # type: ignore[attr-defined]
    took, peak, found = 0.0, 0, Found()
    for at in range(0, rows, BATCH):
        begin = time.process_time()
        live.rows(0, table.slice(at, BATCH))
        live.advance()
        pieces = list(live.pieces())
        took += time.process_time() - begin
        peak = max(peak, live.pipeline.state_bytes)
        found.add(pieces)
    live.end(0)
    live.advance()
    found.add(list(live.pieces()))
    return took, peak / 1e6, found.answer
