"""The experiments of the out-of-order paper (Li et al., VLDB 2008) in this process, against our in-order twin.

Both ways get the same packets and the same marks at the same moments; only the twin sorts and merges. Answers are compared row by row.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.harness import Answer, Turns
from hydrophone.bench.packets import ADDRESS, SECOND, Link, Packets
from hydrophone.cli.progress_bar import working
from hydrophone.engine.local import Arrival, Live
from hydrophone.model.key_table import shard_of_keys
from hydrophone.model.progress import Policy

TWIN = "in-order twin"
TICK = SECOND // 4
"""How much arrives between two marks."""
Values = Mapping[str, tuple[Sequence[float], Answer]]


@dataclass(frozen=True)
class Measured:
    """What one run cost.

    Attributes
    ----------
    seconds : processor time of all work of the engine, so that other processes do not count
    latency : processor time from a mark to the results that it makes final, the median over the marks that do
    peak : the largest state, in megabytes
    answer : numbers that are equal for equal answers
    """

    seconds: float
    latency: float
    peak: float
    answer: Answer


def drive(
    query: hp.Stream,
    links: Sequence[Packets],
    order: Arrival,
    tick: int = TICK,
    until: int | None = None,
    given: Callable[[int, Sequence[pa.Table]], None] | None = None,
) -> Measured:
    """Run a query over packets as they arrive, all of them or those until an instant; after each tick its sources advance.

    `given` gets the instant and the results of every tick.
    """
    live = Live(query.node, hp.late.error(), order)
    by_table = {id(p.table): p for p in links}
    feeds = [by_table[id(s.data.table)] for s in live.sources]  # type: ignore[attr-defined]
    done = [0] * len(feeds)
    busy, waits, peak, found = 0.0, [], 0, Found()
    end = int(max(f.arrival[-1] for f in feeds)) + 2 * tick if until is None else until
    for now in range(tick, end, tick):
        begin = time.process_time()
        for port, feed in enumerate(feeds):
            stop = feed.until(now)
            if stop > done[port]:
                live.rows(port, feed.table.slice(done[port], stop - done[port]))
            if stop == len(feed.table):
                live.end(port)
            done[port] = stop
        marked = time.process_time()
        live.advance()
        pieces = list(live.pieces())
        ready = time.process_time()
        busy += ready - begin
        if any(len(p) for p in pieces):
            waits.append(ready - marked)
        peak = max(peak, live.pipeline.state_bytes)
        found.add(pieces)
        if given is not None:
            given(now, pieces)
    return Measured(busy, statistics.median(waits) if waits else 0.0, peak / 1e6, found.answer)


class Found:
    """Rows in any order as a few numbers: how many, and the sum of their hashes."""

    def __init__(self) -> None:
        self.rows, self.total = 0, 0

    def add(self, pieces: Sequence[pa.Table]) -> None:
        """Count and hash."""
        for piece in pieces:
            self.rows += len(piece)
            self.total += int(shard_of_keys(piece.columns, _LARGE, len(piece)).sum())

    @property
    def answer(self) -> Answer:
        """Numbers below a million, so that a digest to six digits tells any two apart."""
        total = self.total % _LARGE
        return (self.rows // 1_000_000, self.rows % 1_000_000, total // 1_000_000, total % 1_000_000)


_LARGE = 999_999_999_989
"""A prime of twelve digits."""


def both_ways(
    name: str, query: hp.Stream, links: Sequence[Packets], runs: int, tick: int = TICK
) -> Callable[[], dict[str, list[Measured]]]:
    """Run both ways in turn, once for all numbers that are asked for; before it the first seconds, to have all code compiled."""

    @cache
    def measured() -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {"ours": [], TWIN: []}
        orders: dict[str, Arrival] = {"ours": "any", TWIN: "enforce"}
        for order in orders.values():
            drive(query, links, order, tick, until=5 * SECOND)
        for _ in range(runs):
            for way, order in orders.items():
                gc.collect()
                with working(f"{name}: {way}"):
                    found[way].append(drive(query, links, order, tick))
        return found

    return measured


def numbers(
    name: str, measured: Callable[[], dict[str, list[Measured]]], what: Literal["peak", "latency", "seconds"]
) -> Turns:
    """One of the numbers of a measurement as a case."""

    def run() -> Values:
        return {way: ([getattr(m, what) for m in ms], ms[-1].answer) for way, ms in measured().items()}

    return Turns(name, run, "MB of state" if what == "peak" else "s")


def stream(packets: Packets, key: Sequence[str] = (), progress: Policy | None = None) -> hp.Stream:
    """Packets as a stream that promises order, unless it promises something else."""
    return hp.from_arrow(packets.table, key=key, time="ts", progress=progress or hp.ordered())


def state_and_time(bench: str, name: str, query: hp.Stream, links: Sequence[Packets]) -> Iterator[Turns]:
    """Both numbers of one run."""
    ran = both_ways(f"{bench}: {name}", query, links, 1)
    yield numbers(f"state, {name}", ran, "peak")
    yield numbers(f"processor time, {name}", ran, "seconds")


SKEWS = (1, 5, 10, 20, 40)


def skew(quick: bool) -> Iterator[Turns]:
    """`oop_skew`: peak state against the skew of two links, packets per pair of hosts every 10 s over their union; Figure 1."""
    rate, flows, seconds = (11_000, 6_554, 90) if quick else (110_000, 65_536, 90)
    for late in SKEWS:
        links = [
            Link(rate, seconds, flows, skew=s, seed=i).packets().select("ts", "src", "dst")
            for i, s in enumerate((0, late))
        ]
        query = hp.union(*(stream(p, ("src", "dst")) for p in links)).tumble("10s").agg(n=hp.count())
        name = f"skew {late} s, {rate} packets/s a link, {flows} groups"
        yield from state_and_time("oop_skew", name, query, links)


def tumbling_join(quick: bool) -> Iterator[Turns]:
    """`oop_tumbling_join`: peak state of a join within the same 10 s of two unions of two links each, against their skew; Figure 10."""
    rate, flows, seconds = (1_000, 2_000, 80) if quick else (10_000, 20_000, 80)
    ten = hp.col("ts") - hp.col("ts") % (10 * SECOND)
    for late in SKEWS:
        links = [
            Link(rate, seconds, flows, skew=s, reverse=i > 1, seed=i).packets().select("ts", *ADDRESS)
            for i, s in enumerate((0, late, 0, late))
        ]
        a, b, c, d = map(stream, links)
        one, other = hp.union(a, b).with_columns(ten=ten), hp.union(c, d).with_columns(ten=ten)
        query = one.band_join(other, on={**ADDRESS, "ten": "ten"}, before="10s", after="10s")
        name = f"skew {late} s, {rate} packets/s a link, {flows} flows"
        yield from state_and_time("oop_tumbling_join", name, query, links)


def band_join(quick: bool) -> Iterator[Turns]:
    """`oop_band_join`: state, latency and time against the band of a join whose pairs are counted every minute; Figure 11."""
    rate, flows, seconds = (1_000, 2_000, 150) if quick else (4_000, 40_000, 200)
    links = [Link(rate, seconds, flows, reverse=i > 0, seed=i).packets().select("ts", *ADDRESS) for i in range(2)]
    for band in (1, 5, 10, 30) if quick else (1, 2, 5, 10, 20, 30, 60):
        one, other = map(stream, links)
        pairs = one.band_join(other, on=ADDRESS, before=f"{band}s", after=f"{band}s", by="left")
        query = pairs.key_by().select().tumble("1min").agg(n=hp.count())
        name = f"band {band} s, {rate} packets/s a link, {flows} flows"
        ran = both_ways(f"oop_band_join: {name}", query, links, 3)
        yield numbers(f"state, {name}", ran, "peak")
        yield numbers(f"latency, {name}", ran, "latency")
        yield numbers(f"processor time, {name}", ran, "seconds")


def late_join(quick: bool) -> Iterator[Turns]:
    """`oop_late_join`: peak state of an equality join one side of which has a slow link that comes late; Figure 12."""
    rate, flows, seconds = (1_000, 50, 80) if quick else (4_000, 50, 80)
    for late in SKEWS:
        links = [
            Link(r, seconds, flows, skew=s, reverse=i > 0, grain=1_000_000, seed=i).packets().select("ts", *ADDRESS)
            for i, (r, s) in enumerate(((rate, 0), (rate, 0), (rate / 40, late)))
        ]
        main1, main2, control = map(stream, links)
        query = main1.join(hp.union(main2, control), on=ADDRESS)
        name = f"delay {late} s, {rate} packets/s a link, {flows} flows"
        yield from state_and_time("oop_late_join", name, query, links)


def sliding(quick: bool) -> Iterator[Turns]:
    """`oop_sliding`: peak state of counts over 5 minutes every minute, over a union with a slow link that comes late; Figure 13."""
    rate, seconds = (500, 600) if quick else (4_000, 600)
    for late in SKEWS:
        links = [
            Link(r, seconds, 1, skew=s, seed=i).packets().select("ts")
            for i, (r, s) in enumerate(((rate, 0), (rate, 0), (rate / 40, late)))
        ]
        query = hp.union(*map(stream, links)).sliding("5min", every="1min").agg(n=hp.count())
        name = f"delay {late} s, {rate} packets/s a link"
        yield from state_and_time("oop_sliding", name, query, links)


def marks(quick: bool) -> Iterator[Turns]:
    """`oop_marks`: time against the share of packets that carry a mark, up to 15 %; and with a batch that ends at every mark."""
    rate, seconds = (20_000, 30) if quick else (100_000, 60)
    plain = [Link(rate, seconds, 1_000, skew=s, seed=i).packets().select("ts", "src") for i, s in enumerate((0, 2))]
    for share in (0.001, 0.01, 0.05, 0.15):
        links = [punctuated(p, share) for p in plain]
        query = hp.union(*(stream(p, ("src",), hp.punctuated("mark")) for p in links)).tumble("1s").agg(n=hp.count())
        name = f"{share:.1%} marks, {2 * rate * seconds} packets"
        yield numbers(name, both_ways(f"oop_marks: {name}", query, links, 3), "seconds")
    few = [Link(1_000, 20, 100, skew=s, seed=i).packets().select("ts", "src") for i, s in enumerate((0, 2))]
    for share in (0.001, 0.01, 0.05, 0.15):
        query = hp.union(*(stream(p, ("src",)) for p in few)).tumble("1s").agg(n=hp.count())
        name = f"a batch for every mark, {share:.1%} marks, 40000 packets"
        tick = round(SECOND / (2_000 * share))
        yield numbers(name, both_ways(f"oop_marks: {name}", query, few, 1, tick), "seconds")


def punctuated(packets: Packets, share: float) -> Packets:
    """Packets, which are in order, of which a share says in a column `mark` that nothing before its own time will come."""
    time = packets.table["ts"].to_numpy()
    speaks = np.random.default_rng(len(time)).random(len(time)) < share
    return Packets(packets.table.append_column("mark", pa.array(time, mask=~speaks)), packets.arrival)
