"""`oop_flush`: the longest batch of a count over many groups in the local engine, with lazy and slow flush against results all at once.

Packets are counted per pair of hosts; with a second level the counts are read on, and per host and minute their number and the largest
are kept. They come in batches, and progress follows each. At the end of a window all its results are final: given at once they are
a burst, in which packets that come must wait. Times are processor times, of every batch the least of some runs, so that other processes
do not count. The first window is left out, in which all groups are new.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.harness import Answer, Turns
from hydrophone.bench.oop import Found, Values
from hydrophone.bench.packets import SECOND, Link
from hydrophone.cli.progress_bar import working
from hydrophone.engine.local import Live
from hydrophone.ops.aggregates.flush import Flush

BATCH = 16_384
WINDOWS = 4
PER_GROUP = 10
"""Packets of a group in a window, on average."""
OFF = "all at once"
WAYS: dict[str, Flush | None] = {"lazy flush": hp.lazy(late=2), "slow flush": hp.slow(every=8, late=2), OFF: None}


@dataclass(frozen=True)
class Ran:
    """What a run took.

    Attributes
    ----------
    took : the processor time of every batch after the first window, in milliseconds
    given : the results of each of them
    answer : numbers that are equal for equal answers
    """

    took: npt.NDArray[np.float64]
    given: npt.NDArray[np.int64]
    answer: Answer


def cases(quick: bool) -> Iterator[Turns]:
    """For some numbers of groups both ways to flush: the longest batch, and the mean."""
    for groups in (20_000,) if quick else (66_000, 260_000):
        table = Link(groups * PER_GROUP, WINDOWS, groups, seed=groups).packets().table.select(["ts", "src", "dst"])
        for levels in (1, 2):
            ran = cache(partial(in_turn, 4, table, levels))
            for way in ("lazy flush", "slow flush"):
                for what, (number, unit) in NUMBERS.items():
                    name = f"{what}, {way}, {groups} groups, {levels} level{'s'[: levels - 1]}"
                    yield Turns(name, partial(_both, way, ran, number), unit)


NUMBERS: dict[str, tuple[Callable[[Ran], float], str]] = {
    "longest batch": (lambda r: float(r.took.max()), "ms"),
    "mean batch": (lambda r: float(r.took.mean()), "ms"),
}


def _both(way: str, ran: Callable[[], dict[str, Ran]], number: Callable[[Ran], float]) -> Values:
    return {label: ([number(ran()[name])], ran()[name].answer) for name, label in ((way, "ours"), (OFF, OFF))}


def in_turn(runs: int, table: pa.Table, levels: int) -> dict[str, Ran]:
    """Run all ways in turn; of every batch the least time of some runs, which all have the same batches and results."""
    found: dict[str, Ran] = {}
    for _ in range(runs):
        for way, flush in WAYS.items():
            with working(f"oop_flush: {way}"):
                ran = run(table, flush, levels)
            took = np.minimum(ran.took, found[way].took) if way in found else ran.took
            found[way] = replace(ran, took=took)
    return found


def run(table: pa.Table, flush: Flush | None, levels: int = 1, batch: int = BATCH) -> Ran:
    """Count packets per pair of hosts and second as they come."""
    packets = hp.from_arrow(table, key=("src", "dst"), time="ts", progress=hp.ordered())
    counts = packets.tumble("1s", flush=flush).agg(n=hp.count())
    if levels > 1:
        counts = counts.key_by("src").tumble("1min").agg(pairs=hp.count(), most=hp.max("n"))
    live = Live(counts.node, hp.late.error())
    warm = int(np.searchsorted(table["ts"].to_numpy(), SECOND)) // batch
    took, given, found = [], [], Found()
    gc.collect()
    for at in range(0, len(table), batch):
        begin = time.process_time()
        live.rows(0, table.slice(at, batch))
        live.advance()
        pieces = list(live.pieces())
        took.append(1e3 * (time.process_time() - begin))
        given.append(sum(map(len, pieces)))
        found.add(pieces)
    live.end(0)
    live.advance()
    found.add(list(live.pieces()))
    return Ran(np.array(took[warm:]), np.array(given[warm:]), found.answer)
