"""`oop_joint`: counts of pairs by both of their times, with joint progress and without it (section 7 of the out-of-order paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Literal

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.api import Stream
from hydrophone.bench.harness import Turns
from hydrophone.bench.oop import Measured, Values, drive, stream
from hydrophone.bench.packets import ADDRESS, SECOND, Link, Packets
from hydrophone.cli.progress_bar import working
from hydrophone.ops.relational.band_join import BandJoin
from hydrophone.plan.node import Node

OFF = "individual marks"


def cases(quick: bool) -> Iterator[Turns]:
    """State, and how long results wait, against the band of a join whose pairs are counted per two windows of its times; Figure 8."""
    rate, flows, seconds = (100, 20, 120) if quick else (400, 40, 200)
    links = [Link(rate, seconds, flows, reverse=i > 0, seed=i).packets().select("ts", *ADDRESS) for i in range(2)]
    for band in (2, 10, 30) if quick else (2, 10, 30, 60):
        one, other = map(stream, links)
        pairs = one.band_join(other, on=ADDRESS, before=0, after=f"{band}s", by="both")
        query = pairs.key_by().tumble("250ms", by="both").agg(n=hp.count())
        name = f"band {band} s, {rate} packets/s a link, {flows} flows"
        ran = both_marks(name, query, links)
        yield Turns(f"state, {name}", partial(numbers, ran, "state"), "MB of state")
        yield Turns(f"wait, {name}", partial(numbers, ran, "wait"))


def both_marks(name: str, query: hp.Stream, links: Sequence[Packets]) -> Callable[[], dict[str, Waits]]:
    """Run with joint progress and without, once for all numbers that are asked for."""

    @cache
    def ran() -> dict[str, Waits]:
        return {"ours": Waits.of(query, links, name), OFF: Waits.of(individual(query), links, f"{name}, {OFF}")}

    return ran


def numbers(ran: Callable[[], dict[str, Waits]], what: Literal["state", "wait"]) -> Values:
    """One of the numbers of both."""
    return {way: ([getattr(w, what)], w.measured.answer) for way, w in ran().items()}


def individual(query: hp.Stream) -> hp.Stream:
    """The same query over joins that pass on progress of the left time alone."""
    done: dict[Node, Node] = {}
    for node in query.node.topological():
        new = node.with_inputs([done[i] for i in node.inputs])
        done[node] = replace(new, by="left") if isinstance(new, BandJoin) else new
    return Stream(done[query.node])


@dataclass
class Waits:
    """What a run cost, and how long results waited.

    Attributes
    ----------
    waits : of every result the time of the stream from the end of its later window until it was given, in seconds
    """

    measured: Measured
    waits: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, query: hp.Stream, links: Sequence[Packets], name: str) -> Waits:
        """Run a query; what the end of the links gives is left out."""
        waits: list[float] = []
        end = int(max(p.arrival[-1] for p in links))

        def given(now: int, pieces: Sequence[pa.Table]) -> None:
            for piece in pieces if now < end else ():
                other = piece["ts_right"].to_numpy() + piece["end"].to_numpy() - piece["ts"].to_numpy()
                waits.extend((now - np.maximum(piece["end"].to_numpy(), other)) / SECOND)

        with working(f"oop_joint: {name}"):
            return cls(drive(query, links, "any", given=given), waits)

    @property
    def state(self) -> float:
        """At its peak, in megabytes."""
        return self.measured.peak

    @property
    def wait(self) -> float:
        """The mean."""
        return float(np.mean(self.waits))
