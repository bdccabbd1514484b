"""`grouped_batch`: a FIR filter and spectral cleaning of many sensors in a lake, against what people write on Spark and in NumPy.

Run as ``python -m hydrophone.bench.grouped_batch --rows 10000000 --keys 10000 --runs 3``. All ways write to Spark's noop
sink in one session, in turn; their answers are compared by count, sum and sum of squares. Processor time of all
processes (Spark's and Python's) is given too, because it says more than the clock on a machine that others use.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case, digest
from hydrophone.bench.peers import apply_in_arrow, apply_in_pandas, numpy_script, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PERIOD = 1_000_000
TAPS = np.hanning(34)[1:-1] / 16
FILES = 8


def write_lake(folder: Path, rows: int, keys: int) -> None:
    """Readings of `keys` sensors every millisecond in files that follow each other in time, as a collector writes them."""
    random, length = np.random.default_rng(7), rows // keys
    for number in range(FILES):
        beats = np.arange(number * length // FILES, (number + 1) * length // FILES)
        table = {
            "sensor": np.tile(np.arange(keys), len(beats)),
            "time": np.repeat(beats * PERIOD, keys),
            "value": random.normal(size=len(beats) * keys),
        }
        pq.write_table(pa.table(table), folder / f"part-{number:03d}.parquet")


def ways(spark: SparkSession, folder: Path, shape: str) -> dict[str, Callable[[], DataFrame]]:
    """The same answer in several ways, each a DataFrame that has not run yet."""
    path = str(folder)

    def query() -> hp.UniformSignal:
        return hp.read.parquet(path, key="sensor", time="time").signal("value").sample(PERIOD).fir(TAPS)

    def from_frame() -> DataFrame:
        rows = hp.from_spark(spark.read.parquet(path), key="sensor", time="time")
        return rows.signal("value").sample(PERIOD).fir(TAPS).to_spark(spark, shape=shape)

    return {
        "slices": lambda: query().to_spark(spark, plan="slices", shape=shape),
        "shards": lambda: query().to_spark(spark, plan="shards", shape=shape),
        "shards of a DataFrame": from_frame,
        "applyInPandas": lambda: apply_in_pandas.fir(spark.read.parquet(path), TAPS, PERIOD, shape),
    }


def run(frame: Callable[[], DataFrame]) -> tuple[float, float]:
    """Seconds to plan and run all of it, by the clock and of processors."""
    start, busy = time.perf_counter(), processor_seconds()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start, processor_seconds() - busy


def processor_seconds() -> float:
    """Processor time of this process and all below it."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


def answer(frame: DataFrame, shape: str) -> Answer:
    """Count, sum and sum of squares of the samples, added up by Spark; of spectra the sum of real parts and of powers."""
    total = "aggregate(values, 0D, (a, x) -> a + {})"
    if shape == "segments":
        parts = ["size(values)", total.format("x"), total.format("x * x")]
    elif shape == "spectra":
        parts = ["size(values)", total.format("x.re"), total.format("x.re * x.re + x.im * x.im")]
    else:
        parts = ["1", "value", "value * value"]
    (row,) = frame.selectExpr(*(f"sum({part})" for part in parts)).collect()
    return tuple(float(x or 0) for x in row)


def cases(quick: bool) -> Iterator[Case]:
    """Both queries, segments and rows, few and many sensors; slices against all peers, shards against the faster of the usual ways."""
    from hydrophone.spark.session import session

    rows, sizes = (200_000, (100, 1_000)) if quick else (10_000_000, (100, 10_000, 100_000))
    spark = session("hydrophone-bench")
    for keys in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_lake(folder, rows, keys)
            for shape in ("segments", "rows"):
                for query in ("fir", "clean"):
                    yield from _cases(spark, folder, query, shape, keys, runs=1 if quick else 3)


SIZE, TOP = 64, 8
"""Samples of a window, and the frequencies that are kept, of the spectral query."""


def _cases(spark: SparkSession, folder: Path, query: str, shape: str, keys: int, runs: int) -> Iterator[Case]:
    path = str(folder)

    def ours(plan: Any) -> DataFrame:
        samples = hp.read.parquet(path, key="sensor", time="time").signal("value").sample(PERIOD)
        return (samples.fir(TAPS) if query == "fir" else cleaned(samples)).to_spark(spark, plan=plan, shape=shape)

    def theirs(peer: Any) -> DataFrame:
        parameters = (TAPS,) if query == "fir" else (SIZE, TOP)
        found: DataFrame = getattr(peer, query)(spark.read.parquet(path), *parameters, PERIOD, shape)
        return found

    def timed(way: Callable[[], DataFrame]) -> Callable[[], Answer]:
        return partial(_timed, way, cache(lambda: answer(way(), shape)))

    arrow = timed(partial(theirs, apply_in_arrow))
    peers = {"applyInPandas": timed(partial(theirs, apply_in_pandas)), "applyInArrow": arrow}
    if query == "fir" and shape == "rows":
        peers["Spark SQL with lag"] = timed(lambda: spark_sql.fir(spark.read.parquet(path), TAPS))
    script = (
        partial(numpy_script.fir, folder, TAPS) if query == "fir" else partial(numpy_script.clean, folder, SIZE, TOP)
    )
    peers["NumPy, one process"] = script
    yield Case(f"{query}, slices, {shape}, {keys} keys", timed(partial(ours, "slices")), peers, runs)
    yield Case(f"{query}, shards, {shape}, {keys} keys", timed(partial(ours, "shards")), {"applyInArrow": arrow}, runs)


def cleaned(samples: hp.UniformSignal) -> hp.UniformSignal:
    """The spectral query."""
    return samples.window(SIZE, hop=SIZE // 2).map(_taper).rfft().map(_strongest).irfft().overlap_add()


def _taper(windows: Any) -> Any:
    return windows * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE))


def _strongest(spectra: Any) -> Any:
    weak = np.argsort(np.abs(spectra), axis=1)[:, :-TOP]
    out = spectra.copy()
    np.put_along_axis(out, weak, 0, axis=1)
    return out


def _timed(way: Callable[[], DataFrame], known: Callable[[], Answer]) -> Answer:
    run(way)
    return known()


def main() -> None:
    """Measure and print a table."""
    from hydrophone.spark.session import session

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", choices=["segments", "rows"], default="segments")
    parser.add_argument("--skip", nargs="*", default=[], help="ways to leave out")
    options = parser.parse_args()
    spark = session("hydrophone-bench")
    with tempfile.TemporaryDirectory() as folder:
        write_lake(Path(folder), options.rows, options.keys)
        found = {n: w for n, w in ways(spark, Path(folder), options.shape).items() if n not in options.skip}
        answers = {name: answer(way(), options.shape) for name, way in found.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
        for _ in range(options.runs):
            for name, way in found.items():
                times[name].append(run(way))
    print(f"{options.rows:,} rows, {options.keys:,} sensors, {options.shape}, medians of {options.runs} runs")
    print(f"{'':24}{'seconds':>9}{'ratio':>8}{'processor s':>13}{'ratio':>8}   fastest to slowest")
    medians = {n: [statistics.median(column) for column in zip(*t, strict=True)] for n, t in times.items()}
    peer = medians.get("applyInPandas", [float("nan")] * 2)
    first = digest(next(iter(answers.values())))
    for name, (clock, busy) in medians.items():
        spread = f"{min(times[name])[0]:.2f} to {max(times[name])[0]:.2f}"
        same = "" if digest(answers[name]) == first else f"   ANSWERS DIFFER: {answers[name]}"
        print(f"{name:24}{clock:9.2f}{peer[0] / clock:8.1f}{busy:13.2f}{peer[1] / busy:8.1f}   {spread}{same}")


if __name__ == "__main__":
    main()
