"""`grouped_streaming`: a FIR filter with carried state over many sensors, in micro-batches, against ``applyInPandasWithState``.

Run as ``python -m hydrophone.bench.grouped_streaming --rows 1000000 --keys 10000 --batches 6``. Both ways read the same
Parquet files, one a micro-batch, and write segments as Parquet, in turn and in one session. The time of a way is the
median over its micro-batches, as Spark reports them, without the first two (they warm up). Answers are compared by
count, sum and sum of squares of all samples that both give: one beat more is sent at the end, because a stream gives
only what progress has passed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case, digest
from hydrophone.bench.peers import apply_in_pandas_with_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PERIOD = 1_000_000
TAPS = np.hanning(34)[1:-1] / 16
WARM = 2
_STORE = "spark.sql.streaming.stateStore.providerClass"
_STATE = "org.apache.spark.sql.execution.streaming.state."


def write_files(folder: Path, rows: int, keys: int, batches: int) -> int:
    """A file per micro-batch with as many beats of every sensor as fit, rows in no order; then a file of one beat. Gives its time."""
    random, length = np.random.default_rng(7), rows // keys
    for number in range(batches + 1):
        beats = np.arange(length if number < batches else 1) + number * length
        order = random.permutation(len(beats) * keys)
        table = {
            "sensor": np.tile(np.arange(keys), len(beats))[order],
            "time": np.repeat(beats * PERIOD, keys)[order],
            "value": random.normal(size=len(beats) * keys),
        }
        path = folder / f"part-{number:03d}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return batches * length * PERIOD


def ours(spark: SparkSession, source: Path, home: Path, shards: int) -> StreamingQuery:
    """Run it our way."""
    readings = hp.read.parquet(str(source), key="sensor", time="time", progress=hp.ordered())
    query = readings.signal("value").sample(PERIOD).fir(TAPS)
    to = hp.write.parquet(str(home / "out"))
    running = query.start(
        spark,
        to=to,
        checkpoint=str(home / "checkpoint"),
        shards=shards,
        files_per_batch=1,
        trigger="available",
        shape="segments",
    )
    running.wait()
    return running.query


def peer(spark: SparkSession, source: Path, home: Path, shards: int, store: str = "HDFSBacked") -> StreamingQuery:
    """Run it the usual way, with Spark's default store of state (the faster one here) or RocksDB."""
    before = spark.conf.get(_STORE, None), spark.conf.get("spark.sql.shuffle.partitions", None)
    try:
        spark.conf.set(_STORE, f"{_STATE}{store}StateStoreProvider")
        spark.conf.set("spark.sql.shuffle.partitions", shards)
        rows = spark.readStream.schema("sensor long, time long, value double").option("maxFilesPerTrigger", 1)
        result = apply_in_pandas_with_state.fir(rows.parquet(str(source)), TAPS, PERIOD)
        sink = result.writeStream.format("parquet").option("checkpointLocation", str(home / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(home / "out"))
        query.awaitTermination()
        return query
    finally:
        for name, value in zip((_STORE, "spark.sql.shuffle.partitions"), before, strict=True):
            spark.conf.set(name, str(value)) if value is not None else spark.conf.unset(name)


def seconds(query: StreamingQuery, batches: int) -> list[float]:
    """The time of every micro-batch between the warm-up and the last beat."""
    found = {p["batchId"]: p["batchDuration"] / 1000 for p in query.recentProgress if p["numInputRows"]}
    return [found[b] for b in range(WARM, batches)]


def answer(home: Path, end: int) -> Answer:
    """Count, sum of magnitudes and sum of squares of the samples before `end`."""
    table = pq.read_table(home / "out", columns=["time", "values"], filters=pc.field("time") < end)
    values = table["values"].combine_chunks().flatten().to_numpy()
    return len(values), float(np.abs(values).sum()), float(np.dot(values, values))


def cases(quick: bool) -> Iterator[Case]:
    """A whole run of a few micro-batches each."""
    from hydrophone.spark.session import session

    rows, keys, batches = (100_000, 1_000, 2) if quick else (1_000_000, 10_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        end = write_files(_made(Path(folder) / "in"), rows, keys, batches)

        def whole(way: Callable[..., StreamingQuery]) -> Answer:
            with tempfile.TemporaryDirectory() as home:
                way(session("hydrophone-bench"), Path(folder) / "in", Path(home), shards=os.cpu_count() or 1)
                return answer(Path(home), end)

        name = f"segments, {keys} keys, {batches} micro-batches of {rows} rows"
        yield Case(name, partial(whole, ours), {"applyInPandasWithState": partial(whole, peer)}, runs=1)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    """Measure and print a table."""
    from hydrophone.spark.session import session

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="a micro-batch")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--shards", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--store", choices=["HDFSBacked", "RocksDB"], default="HDFSBacked", help="of the peer")
    parser.add_argument("--skip", nargs="*", default=[], help="ways to leave out")
    options = parser.parse_args()
    spark = session("hydrophone-bench")
    ways: dict[str, Callable[..., StreamingQuery]] = {
        "hydrophone": ours,
        "applyInPandasWithState": partial(peer, store=options.store),
    }
    found: dict[str, tuple[list[float], Answer]] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = _made(Path(folder) / "in")
        end = write_files(source, options.rows, options.keys, options.batches)
        for name, way in ways.items():
            if name not in options.skip:
                home = _made(Path(folder) / name)
                found[name] = seconds(way(spark, source, home, options.shards), options.batches), answer(home, end)
    print(f"{options.rows:,} rows a micro-batch, {options.keys:,} sensors, {options.shards} shards, segments")
    first = next(iter(found.values()))
    for name, (times, numbers) in found.items():
        middle = statistics.median(times)
        same = "answers agree" if digest(numbers) == digest(first[1]) else f"ANSWERS DIFFER: {numbers}"
        spread = f"{min(times):.2f} to {max(times):.2f}"
        print(f"{name:24}{middle:9.2f} s  x{middle / statistics.median(first[0]):6.2f}   {spread:16} {same}")


if __name__ == "__main__":
    main()
