"""`grouped_streaming`: a FIR filter with carried state over many sensors, in micro-batches, against ``applyInPandasWithState``.

Run as ``python -m hydrophone.bench.grouped_streaming --rows 1000000 --keys 10000 --batches 11``. Both queries run in one
session and get the same Parquet files, one a micro-batch, in turn: first the one, then the other, so that whatever else
the machine does falls on both. Both write segments as Parquet. The time of a way is the median over its micro-batches, as
Spark reports them, without the first five (Java is still compiling); processor time of all processes is given too. Answers are
compared by count, sum and sum of squares of all samples that both give: one beat more is sent at the end, because a
stream gives only what progress has passed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.harness import Answer, Turns, digest, settle
from hydrophone.bench.jobs import processor_seconds
from hydrophone.bench.peers import apply_in_pandas_with_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PERIOD = 1_000_000
TAPS = np.hanning(34)[1:-1] / 16
WARM = 5
CONF = {
    # A query that waits for its turn looks for files; a hundred times a second, it would cost the other one.
    "spark.sql.streaming.pollingDelay": "200ms",
    # The peer's default store holds all state in Java's memory; in the one gigabyte that Spark takes by itself, collecting
    # garbage would slow both of them down.
    "spark.driver.memory": "4g",
}
_STORE = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
_STATE = "org.apache.spark.sql.execution.streaming.state."


def table(rows: int, keys: int, batch: int, batches: int) -> pa.Table:
    """A micro-batch: as many beats of every sensor as fit, rows in no order; after the last one a single beat."""
    random, length = np.random.default_rng(batch), rows // keys
    beats = np.arange(length if batch < batches else 1) + batch * length
    order = random.permutation(len(beats) * keys)
    columns = {
        "sensor": np.tile(np.arange(keys), len(beats))[order],
        "time": np.repeat(beats * PERIOD, keys)[order],
        "value": random.normal(size=len(beats) * keys),
    }
    return pa.table(columns)


@dataclass(frozen=True)
class Way:
    """One of the queries, running over a folder of its own, whose files have row groups of at most so many rows."""

    home: Path
    query: StreamingQuery
    row_group: int = 1 << 20

    def take(self, rows: pa.Table, batch: int) -> tuple[float, float]:
        """Let a file arrive and wait for its micro-batch: seconds by Spark's clock, and of processors."""
        draft = drafted(self.home / "in", rows, batch, self.row_group)
        settle(1000)
        busy = processor_seconds()
        draft.rename(draft.with_name(f"part-{batch:03d}.parquet"))
        self.query.processAllAvailable()
        busy = processor_seconds() - busy
        found = [p["batchDuration"] for p in self.query.recentProgress if p["batchId"] == batch and p["numInputRows"]]
        return found[0] / 1000, busy


def drafted(folder: Path, rows: pa.Table, number: int, row_group: int = 1 << 20) -> Path:
    """A file that Spark does not see until it is renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"_part-{number:03d}"
    pq.write_table(rows, draft, row_group_size=row_group)
    return draft


def ours(spark: SparkSession, home: Path, shards: int) -> Way:
    """Start it our way."""
    readings = hp.read.parquet(str(home / "in"), key="sensor", time="time", progress=hp.ordered())
    query = readings.signal("value").sample(PERIOD).fir(TAPS)
    to = hp.write.parquet(str(home / "out"))
    checkpoint = str(home / "checkpoint")
    return Way(home, query.start(spark, to=to, checkpoint=checkpoint, shards=shards, shape="segments").query)


def peer(spark: SparkSession, home: Path, shards: int, store: str = "HDFSBacked") -> Way:
    """Start it the usual way, with Spark's default store of state or RocksDB."""
    before = spark.conf.get(_STORE, None), spark.conf.get(_PARTITIONS, None)
    try:
        spark.conf.set(_STORE, f"{_STATE}{store}StateStoreProvider")
        spark.conf.set(_PARTITIONS, shards)
        rows = spark.readStream.schema("sensor long, time long, value double").parquet(str(home / "in"))
        result = apply_in_pandas_with_state.fir(rows, TAPS, PERIOD)
        sink = result.writeStream.format("parquet").option("checkpointLocation", str(home / "checkpoint"))
        return Way(home, sink.start(str(home / "out")))
    finally:
        for name, value in zip((_STORE, _PARTITIONS), before, strict=True):
            spark.conf.set(name, str(value)) if value is not None else spark.conf.unset(name)


Times = list[tuple[float, float]]


def run(
    starts: Mapping[str, Callable[[Path], Way]], rows: int, keys: int, batches: int
) -> dict[str, tuple[Times, Answer]]:
    """All ways in turn: the times after the warm-up, and the answers."""
    end = batches * (rows // keys) * PERIOD
    return in_turn(starts, lambda batch: table(rows, keys, batch, batches), batches, lambda home: answer(home, end))


def in_turn(
    starts: Mapping[str, Callable[[Path], Way]],
    arriving: Callable[[int], pa.Table],
    batches: int,
    answer: Callable[[Path], Answer],
) -> dict[str, tuple[Times, Answer]]:
    """All ways in turn, micro-batch by micro-batch and one more for progress: the times after the warm-up, and the answers."""
    with tempfile.TemporaryDirectory() as folder:
        for name in starts:
            # The schema of a source is read from a file that is there: one without rows, which moves nothing.
            draft = drafted(Path(folder) / name / "in", arriving(0).slice(0, 0), 999)
            draft.rename(draft.with_name("part-999.parquet"))
        ways = {name: start(Path(folder) / name) for name, start in starts.items()}
        times: dict[str, Times] = {name: [] for name in ways}
        for way in ways.values():
            way.query.processAllAvailable()
        for batch in range(batches + 1):
            rows = arriving(batch)
            for name, way in ways.items():
                times[name].append(way.take(rows, batch + 1))
        for way in ways.values():
            way.query.stop()
        return {name: (times[name][WARM:batches], answer(way.home)) for name, way in ways.items()}


def answer(home: Path, end: int) -> Answer:
    """Count, sum of magnitudes and sum of squares of the samples before `end`."""
    table = pq.read_table(home / "out", columns=["time", "values"], filters=pc.field("time") < end)
    values = table["values"].combine_chunks().flatten().to_numpy()
    return len(values), float(np.abs(values).sum()), float(np.dot(values, values))


def cases(quick: bool) -> Iterator[Turns]:
    """The same turns as `main` takes: by Spark's clock, micro-batch by micro-batch, after the warm-up."""
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench", conf=CONF)
    shards = os.cpu_count() or 1
    starts = {
        "ours": lambda home: ours(spark, home, shards),
        "applyInPandasWithState": lambda home: peer(spark, home, shards),
    }

    def turns(keys: int, batches: int) -> dict[str, tuple[list[float], Answer]]:
        found = run(starts, 1_000_000, keys, batches)
        return {name: ([clock for clock, _ in times], numbers) for name, (times, numbers) in found.items()}

    for keys in (10_000,) if quick else (10_000, 100_000):
        batches = 8 if quick else 11
        yield Turns(f"segments, {keys} keys, micro-batches of 1000000 rows", partial(turns, keys, batches))


def main() -> None:
    """Measure and print a table."""
    from hydrophone.spark.session import session

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="a micro-batch")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=11)
    parser.add_argument("--shards", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--store", choices=["HDFSBacked", "RocksDB"], default="HDFSBacked", help="of the peer")
    parser.add_argument("--skip", nargs="*", default=[], help="ways to leave out")
    options = parser.parse_args()
    spark = session("hydrophone-bench", conf=CONF)
    starts: dict[str, Callable[[Path], Way]] = {
        "hydrophone": lambda home: ours(spark, home, options.shards),
        "applyInPandasWithState": lambda home: peer(spark, home, options.shards, options.store),
    }
    chosen = {name: start for name, start in starts.items() if name not in options.skip}
    found = run(chosen, options.rows, options.keys, options.batches)
    print(f"{options.rows:,} rows a micro-batch, {options.keys:,} sensors, {options.shards} shards, segments, medians")
    print(f"{'':24}{'seconds':>9}{'ratio':>8}{'processor s':>13}{'ratio':>8}   fastest to slowest")
    first, numbers = next(iter(found.values()))
    base = [statistics.median(column) for column in zip(*first, strict=True)]
    for name, (times, its) in found.items():
        clock, busy = (statistics.median(column) for column in zip(*times, strict=True))
        spread = f"{min(times)[0]:.2f} to {max(times)[0]:.2f}"
        same = "" if digest(its) == digest(numbers) else f"   ANSWERS DIFFER: {its} and {numbers}"
        print(f"{name:24}{clock:9.2f}{clock / base[0]:8.2f}{busy:13.2f}{busy / base[1]:8.2f}   {spread}{same}")


if __name__ == "__main__":
    main()
