"""`oop_combine`: counts and lengths per pair of hosts in a stream on Spark, partial aggregates before the exchange against rows.

Both queries are ours and differ in ``start(combine=...)`` alone. They run in one session and get the same files of a million packets,
one a micro-batch, in turn, some packets later than promised; answers and counts of late rows are compared. The time of a way
is the median over its micro-batches after five of warm-up, by Spark's clock and of all processors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.grouped_streaming import CONF, Times, Way, in_turn
from hydrophone.bench.harness import Answer, Turns
from hydrophone.bench.packets import SECOND, Link

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKETS = 1_000_000
"""Of a micro-batch, which is ten seconds of the stream."""
Found = dict[str, tuple[Times, Answer]]


def packets(pairs: int, batch: int, batches: int) -> pa.Table:
    """A micro-batch: packets up to a second out of order, a few of them five seconds old and late; after the last one a single packet."""
    table = Link(PACKETS / 10, 10, pairs, jitter=1.0, seed=batch).packets().table.select(["ts", "src", "dst", "length"])
    late = np.random.default_rng(batch).random(len(table)) < 0.001
    moved = table["ts"].to_numpy() + batch * 10 * SECOND - np.where(late, 5 * SECOND, 0)
    table = table.set_column(0, "ts", pa.array(moved))
    return table if batch < batches else table.slice(int(np.argmax(moved)), 1)


def start(spark: SparkSession, home: Path, combine: bool, row_group: int) -> Way:
    """Start the query."""
    sent = hp.read.parquet(str(home / "in"), key=("src", "dst"), time="ts", progress=hp.delayed("1s"))
    query = sent.tumble("10s").agg(n=hp.count(), bytes=hp.sum("length"), longest=hp.max("length"))
    to, late = hp.write.parquet(str(home / "out")), hp.late.side(str(home / "late"))
    checkpoint, shards = str(home / "checkpoint"), os.cpu_count() or 1
    running = query.start(spark, to=to, late=late, checkpoint=checkpoint, shards=shards, combine=combine)
    return Way(home, running.query, row_group)


def answer(home: Path, batches: int) -> Answer:
    """Of the windows before the last packet: how many, packets, bytes and sum of longest; and late packets and their lengths."""
    found = pq.read_table(home / "out", filters=pc.field("ts") < batches * 10 * SECOND)
    late = pq.read_table(home / "late", columns=["length"])
    sums = [pc.sum(c).as_py() or 0 for c in (found["n"], found["bytes"], found["longest"], late["length"])]
    return len(found), *sums, len(late)


def measured(spark: SparkSession, pairs: int, row_group: int, batches: int) -> Found:
    """Both ways in turn."""
    starts: dict[str, Callable[[Path], Way]] = {
        "ours": lambda home: start(spark, home, True, row_group),
        "rows travel": lambda home: start(spark, home, False, row_group),
    }
    return in_turn(starts, lambda b: packets(pairs, b, batches), batches, lambda home: answer(home, batches))


def cases(quick: bool) -> Iterator[Turns]:
    """Few pairs, where merging pays, up to so many that it does not and is left out.

    A file is one batch for its task; with small row groups it is several, which only the task's table brings together.
    """
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench", conf=CONF)
    small = PACKETS // 10
    few = [(1_000, PACKETS), (30_000, small), (1_000_000, PACKETS)]
    more = [(30_000, PACKETS), (100_000, small), (300_000, PACKETS)]
    for pairs, row_group in few if quick else sorted(few + more):
        once = cache(partial(measured, spark, pairs, row_group, 8 if quick else 11))
        for which, what in enumerate(("by the clock", "of processors")):
            name = f"{what}, {pairs} pairs, micro-batches of {PACKETS} packets in row groups of {row_group}"
            yield Turns(name, partial(_taken, once, which))


def _taken(once: Callable[[], Found], which: int) -> dict[str, tuple[list[float], Answer]]:
    return {name: ([t[which] for t in times], numbers) for name, (times, numbers) in once().items()}
