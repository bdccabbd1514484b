"""`oop_throughput`: the highest rate that a low-level table keeps up with, lazy and slow flush against flush in order; Figure 9.

Packets wait in an input buffer while the table is busy; at too high a rate the buffer overflows in the burst that ends a window.
The table's time for every 1,024 packets is measured (processor time, the least of three runs, so that other processes do not
count), and the highest rate follows from it: that at which the buffer is just not full. The high level works elsewhere, as in the
paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.bench.harness import Answer, Turns
from hydrophone.bench.oop import Found, Values
from hydrophone.bench.packets import Link
from hydrophone.cli.progress_bar import working
from hydrophone.model.batch import Ints
from hydrophone.model.fixed_hash_table import FixedHashTable, FlushMode

CHUNK = 1_024
WINDOWS = 4
PER_GROUP = 20
"""Packets of a group in a window."""
WAYS = {
    "lazy flush": (FlushMode.LAZY, 1),
    "slow flush": (FlushMode.SLOW, 8),
    "in order, slow flush": (FlushMode.IN_ORDER, 1),
}
"""By name how to flush, and the packets for each old aggregate: in order one each, as in the paper, to be done early."""
IN_ORDER = "in order, slow flush"
RINGS = (16_384, 65_536)
"""Packets that the input buffer holds."""


def cases(quick: bool) -> Iterator[Turns]:
    """For every number of groups and size of table both ways to flush out of order, against flush in order."""
    for groups in (66_000, 260_000) if quick else (66_000, 130_000, 260_000, 520_000):
        group, window = traffic(groups, 10 if quick else PER_GROUP)
        for share in (0.5, 1, 2):
            measured = cache(partial(_measured, group, window, round(groups * share)))
            for ring in RINGS:
                for way in ("lazy flush", "slow flush"):
                    name = f"{way}, {groups} groups, table {share:g}, buffer {ring}"
                    yield Turns(name, partial(_both, way, measured, ring), "s per 1M packets")


def traffic(groups: int, per_group: int) -> tuple[Ints, Ints]:
    """Packets as (group, window); a window has so many of each group, on average."""
    rate = groups * per_group
    table = Link(rate, WINDOWS, groups, seed=groups).packets().table
    pair = (table["src"].to_numpy().astype(np.int64) << 32) | table["dst"].to_numpy()
    return pair, table["ts"].to_numpy() // 1_000_000_000


Times = npt.NDArray[np.float64]


def _both(way: str, measured: Callable[[str], tuple[Times, Answer]], ring: int) -> Values:
    found = {}
    for name, label in ((way, "ours"), (IN_ORDER, IN_ORDER)):
        took, answer = measured(name)
        found[label] = [1e6 / highest_rate(took, ring)], answer
    return found


def _measured(group: Ints, window: Ints, size: int, way: str) -> tuple[Times, Answer]:
    """The seconds of every chunk, the least of three runs, and the counts of all groups and windows."""
    least: Times | None = None
    answer: Answer = ()
    flush, every = WAYS[way]
    for _ in range(3):
        with working(f"oop_throughput: {way}"):
            took, shed = run(FixedHashTable(size, [(np.add, np.int64)], flush, every=every), group, window)
        least = took if least is None else np.minimum(least, took)
        answer = high_level(shed)
    assert least is not None
    return least, answer


Shed = list[tuple[Ints, Ints, list[Ints]]]


def run(table: FixedHashTable, group: Ints, window: Ints) -> tuple[Times, Shed]:
    """Send all packets through a table; gives the processor time of every chunk and what was shed."""
    ones = np.ones(CHUNK, np.int64)
    took, shed = [], []
    for at in range(0, len(group), CHUNK):
        g, w = group[at : at + CHUNK], window[at : at + CHUNK]
        begin = time.thread_time()
        shed.append(table.add(g, w, [ones[: len(g)]]))
        took.append(time.thread_time() - begin)
    shed.append(table.rest())
    return np.array(took), shed


def high_level(shed: Shed) -> Answer:
    """Merge what was shed, in whatever order it came: the counts of all groups and windows."""
    group, window = (np.concatenate([s[i] for s in shed]) for i in (0, 1))
    count = np.concatenate([s[2][0] for s in shed])
    order = np.lexsort((group, window))
    group, window, count = group[order], window[order], count[order]
    first = np.flatnonzero(np.concatenate([[True], (group[1:] != group[:-1]) | (window[1:] != window[:-1])]))
    found = Found()
    found.add([pa.table({"g": group[first], "w": window[first], "n": np.add.reduceat(count, first)})])
    return found.answer


def highest_rate(took: Times, ring: int) -> float:
    """The most packets per second of which never more than a ring wait, if every chunk takes so long.

    Examples
    --------
    >>> steady = np.full(1000, 1e-3)
    >>> round(highest_rate(steady, 4096) / 1e6, 2)
    1.03
    >>> steady[500] = 0.1  # a burst: of what comes in 100 ms the buffer holds 4,096, one chunk of them at work
    >>> round(highest_rate(steady, 4096) / 1e6, 2)
    0.03
    """
    low, high = 0.0, 2 * CHUNK * len(took) / float(took.sum())
    for _ in range(50):
        rate = (low + high) / 2
        low, high = (rate, high) if _waiting(took, rate) <= ring else (low, rate)
    return low


def _waiting(took: Times, rate: float) -> float:
    """The most packets that wait at a rate, those of the running chunk included."""
    number = np.arange(1, len(took) + 1)
    done = np.cumsum(took)
    # A chunk ends its own time after it has come, or after the one before has ended: the largest of all such sums.
    late = np.maximum.accumulate(number * CHUNK / rate - (done - took))
    return float(((done + late) * rate - (number - 1) * CHUNK).max()) if len(took) else 0.0
