"""`grouped_batch`: a FIR filter and spectral cleaning of many sensors in a lake, against what people write on Spark and in NumPy.

All ways write to Spark's noop sink in one session, in turn; their answers are compared by count, sum and sum of squares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.jobs import job
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


def answer(frame: DataFrame, shape: str) -> Answer:
    """Count, sum and sum of squares of the samples, added up by Spark; of spectra the sum of real parts and of powers."""
    total = "aggregate({}, 0D, (a, x) -> a + {})"
    if shape == "segments":
        parts = ["size(values)", total.format("values", "x"), total.format("values", "x * x")]
    elif shape == "spectra":
        powers = "zip_with(values.re, values.im, (re, im) -> re * re + im * im)"
        parts = ["size(values.re)", total.format("values.re", "x"), total.format(powers, "x")]
    else:
        parts = ["1", "value", "value * value"]
    (row,) = frame.selectExpr(*(f"sum({part})" for part in parts)).collect()
    return tuple(float(x or 0) for x in row)


def cases(quick: bool) -> Iterator[Case]:
    """Both queries, segments and rows, few and many sensors; slices and shards against all peers."""
    from hydrophone.spark.session import session

    sizes = [(10_000_000, 100), (10_000_000, 10_000)]
    spark = session("hydrophone-bench")
    for rows, keys in sizes if quick else [*sizes, (10_000_000, 100_000), (40_000_000, 10_000)]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_lake(folder, rows, keys)
            for query, shape in (("fir", "segments"), ("fir", "rows"), ("clean", "segments"), ("clean", "rows")):
                if not quick or query == "fir" or (shape == "segments" and keys == 10_000):
                    yield _case(spark, folder, query, shape, f"{keys} keys, {rows} rows", runs=2 if quick else 3)


SIZE, TOP = 64, 8
"""Samples of a window, and the frequencies that are kept, of the spectral query."""


def _case(spark: SparkSession, folder: Path, query: str, shape: str, size: str, runs: int) -> Case:
    path = str(folder)
    total = partial(answer, shape=shape)

    def ours(plan: Any) -> DataFrame:
        return filtered(hp.read.parquet(path, key="sensor", time="time")).to_spark(spark, plan=plan, shape=shape)

    def of_a_frame() -> DataFrame:
        rows = hp.from_spark(spark.read.parquet(path), key="sensor", time="time")
        return filtered(rows).to_spark(spark, shape=shape)

    def filtered(rows: hp.Stream) -> hp.UniformSignal:
        samples = rows.signal("value").sample(PERIOD)
        return samples.fir(TAPS) if query == "fir" else cleaned(samples)

    def theirs(peer: Any) -> DataFrame:
        parameters = (TAPS,) if query == "fir" else (SIZE, TOP)
        found: DataFrame = getattr(peer, query)(spark.read.parquet(path), *parameters, PERIOD, shape)
        return found

    peers = {
        "applyInPandas": job(partial(theirs, apply_in_pandas), total),
        "applyInArrow": job(partial(theirs, apply_in_arrow), total),
    }
    if query == "fir" and shape == "rows":
        peers["Spark SQL with lag"] = job(lambda: spark_sql.fir(spark.read.parquet(path), TAPS), total)
    script = partial(getattr(numpy_script, query), folder, *((TAPS,) if query == "fir" else (SIZE, TOP)))
    peers["NumPy, one process"] = script
    slices, shards, frames = (f"{query}, {p}, {shape}, {size}" for p in ("slices", "shards", "shards of a DataFrame"))
    also = {shards: job(partial(ours, "shards"), total), frames: job(of_a_frame, total)}
    return Case(slices, job(partial(ours, "slices"), total), peers, runs, also=also)


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
