"""`small_batches`: operators of many keys that get 1,024 rows and a mark at a time, against all rows at once.

What an operator holds grows with its keys; what a batch and its mark cost should not. One that looks through all it holds at
every mark takes many times as long as all rows at once, the more so the more keys there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.oop import Found
from hydrophone.bench.packets import SECOND, Link

ROWS = 1_024
ALIVE = 2 * SECOND
"""How long an event lives."""

Query = Callable[[hp.Stream, hp.Stream], hp.Stream]
QUERIES: dict[str, Query] = {
    "tumble": lambda a, _: a.tumble("1s").agg(n=hp.count(), most=hp.max("length")),
    "sliding": lambda a, _: a.sliding("4s", every="1s").agg(n=hp.count()),
    "session": lambda a, _: a.session("1s").agg(n=hp.count()),
    "snapshot": lambda a, _: a.snapshot().agg(n=hp.count()),
    "top_k": lambda a, _: a.top_k(2, by="length", size="2s"),
    "reservoir": lambda a, _: a.reservoir(2, size="2s"),
    "distinct": lambda a, _: a.select("length").distinct(),
    "stitch": lambda a, _: a.select().stitch(),
    "pairs": lambda a, _: a.pairs(within="4s"),
    "last_n": lambda a, _: a.last_n(3, within="4s").agg(mean=hp.mean("length")),
    "pattern": lambda a, _: a.pattern(up=hp.col("length") > 700, down=hp.col("length") < 700, within="4s"),
    "join": lambda a, b: a.join(b),
    "join, left": lambda a, b: a.join(b, how="left"),
    "anti_join": lambda a, b: a.anti_join(b),
    "difference": lambda a, b: a.select("length").difference(b.select("length")),
    "band_join": lambda a, b: a.band_join(b, before="500ms", after="500ms"),
    "asof_join": lambda a, b: a.asof_join(b, tolerance="2s"),
}


def cases(quick: bool) -> Iterator[Case]:
    """Every operator over two links, of which every pair of hosts is a key."""
    keys = 20_000 if quick else 100_000
    links = [stream(Link(4 * ROWS * 8, 10, keys, seed=seed).packets().table) for seed in (1, 2)]
    for name, query in QUERIES.items():
        whole = query(*links)
        yield Case(f"{name}, {keys} keys", partial(live, whole), {"all at once": partial(at_once, whole)}, runs=3)


def stream(table: pa.Table) -> hp.Stream:
    """Packets in order, each alive for a while."""
    end = pc.add(table["ts"], pa.scalar(ALIVE))
    rows = table.select(["ts", "src", "dst", "length"]).append_column("end", end)
    return hp.from_arrow(rows, key=("src", "dst"), time="ts", end="end", progress=hp.ordered())


def live(query: hp.Stream) -> Answer:
    """A few rows at a time, each with its mark."""
    return _answer(list(query.batches(ROWS)))


def at_once(query: hp.Stream) -> Answer:
    """All rows together."""
    return _answer([query.to_arrow()])


def _answer(pieces: list[pa.Table]) -> Answer:
    found = Found()
    # Nulls of a left join; no packet has such a number.
    found.add([pa.table([c.fill_null(-1) for c in p.columns], names=p.column_names) for p in pieces])
    return found.answer
