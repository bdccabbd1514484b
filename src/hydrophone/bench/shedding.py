"""`shedding`: seconds for the rows of a graph at factors from 0 to 0.9, and how far an overloaded graph falls behind.

Shed rows are read, hashed and counted for progress, so that they cost something: the ratio is the time without shedding over that with
it. The second part has a source that comes by the clock with more rows than the queries can take, for some seconds: the ratio says how
many times as far the graph is behind at the end when it sheds nothing. Answers are those over the rows that were kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case, Turns
from hydrophone.model.row_hash import kept_rows, row_hashes

KEYS = 100
BATCH = 20_000
FACTORS = (0.25, 0.5, 0.75, 0.9)
SCHEMA = pa.schema([("key", pa.int64()), ("ts", pa.int64()), ("value", pa.float64())])


def cases(quick: bool) -> Iterator[Case | Turns]:
    """Factors, then an overload."""
    rows = made(500_000 if quick else 4_000_000)
    for factor in FACTORS:
        ours = partial(through_a_graph, rows, factor)
        peers: dict[str, Callable[[], Answer]] = {
            "the kept rows alone": partial(through_a_graph, kept(rows, factor), 0.0, round(BATCH * (1 - factor))),
        }
        yield Case(f"factor {factor}, {len(rows)} rows", ours, peers, runs=3)
    yield Case("no shedding", partial(through_a_graph, rows, 0.0), {}, runs=3)
    yield Turns("seconds behind after an overload", partial(overload, 3.0 if quick else 15.0), unit="s behind")


def made(count: int) -> pa.Table:
    """Rows in the order of time."""
    rng = np.random.default_rng(1)
    at = np.arange(count)
    return pa.table({"key": rng.integers(0, KEYS, count), "ts": at * 1_000, "value": rng.integers(0, 100, count) * 1.0})


def kept(rows: pa.Table, factor: float) -> pa.Table:
    """The rows that stay."""
    hashes = row_hashes("bench", [rows["key"]], rows["ts"].to_numpy())
    return rows.filter(pa.array(kept_rows(hashes, factor)))


def queries(rows: hp.Stream) -> list[hp.Stream]:
    """A median, which looks at every value, of windows of several lengths, by key."""
    loud = rows.where(hp.col("value") > 10)
    return [
        loud.tumble(size).agg(n=hp.count(), sum=hp.sum("value"), median=hp.quantile("value", 0.5))
        for size in ("40ms", "100ms", "200ms", "400ms")
    ]


def through_a_graph(rows: pa.Table, factor: float, batch: int = BATCH) -> Answer:
    """Push all rows, some at a time."""
    stream = hp.from_arrow(SCHEMA, key="key", time="ts", progress=hp.ordered(), name="bench")
    total = Total()
    with hp.Graph(shed=hp.shed.fixed(factor)) as graph:
        for query in queries(stream):
            graph.subscribe(query, total.add)
        for start in range(0, len(rows), batch):
            graph.push(stream, rows.slice(start, batch))
    return total.answer


class Total:
    """Sums results up as they come."""

    def __init__(self) -> None:
        self.answer = [0.0, 0.0, 0.0]

    def add(self, table: pa.Table) -> None:
        """One more table."""
        n, total = table["n"].to_numpy(), table["sum"].to_numpy()
        self.answer = [self.answer[0] + len(n), self.answer[1] + float(n.sum()), self.answer[2] + float(total.sum())]


class Clocked(hp.Source):
    """Rows whose times are those of the clock since the beginning, so many a second."""

    schema = SCHEMA

    def __init__(self, rows: pa.Table, seconds: float, rate: int) -> None:
        self.rows, self.seconds, self.rate = rows, seconds, rate

    def open(self) -> None:
        """Begin."""
        self.began, self.given = time.monotonic(), 0

    def read(self, limit: int) -> Any:
        """What has come."""
        passed = time.monotonic() - self.began
        count = min(limit, int(min(passed, self.seconds) * self.rate) - self.given)
        if count <= 0:
            return self.END if passed >= self.seconds else None
        self.given += count
        at = np.arange(self.given - count, self.given)
        picked = self.rows.take(pa.array(at % len(self.rows)))
        return picked.set_column(1, "ts", pa.array(at * (1_000_000_000 // self.rate)))


def overload(seconds: float) -> Mapping[str, tuple[Sequence[float], Answer]]:
    """Twice as many rows as the graph can take: how long it takes after the last of them has come, with shedding and without."""
    rows = made(200_000)
    begun = time.perf_counter()
    through_a_graph(rows, 0.0)
    begun = time.perf_counter()
    through_a_graph(rows, 0.0)
    rate = int(2 * len(rows) / (time.perf_counter() - begun))
    found = {}
    for name, shed in (("ours", hp.shed.adaptive("100ms")), ("no shedding", None)):
        source = Clocked(rows, seconds, rate)
        stream = hp.read.data(source, key="key", time="ts", progress=hp.ordered(), name="clocked")
        process, before = psutil.Process(), psutil.Process().memory_info().rss
        grown = [0]

        def watch(
            table: pa.Table, process: psutil.Process = process, grown: list[int] = grown, before: int = before
        ) -> None:
            grown[0] = max(grown[0], process.memory_info().rss - before)

        with hp.Graph(shed=shed, rows=BATCH, queue=4) as graph:
            for query in queries(stream):
                graph.subscribe(query, watch)
            graph.run()
            behind = time.monotonic() - source.began - seconds
            skipped = max((node["skipped"] for node in graph.nodes()), default=0)
        print(
            f"{name}: {rate} rows/s for {seconds} s, {skipped} skipped, {behind:.2f} s behind, {grown[0] >> 20} MB grown"
        )
        found[name] = [max(behind, 1e-3)], [0.0]
    return found
