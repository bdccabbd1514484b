"""`many_keys`: a million sensors with a hundred samples each, in batch and as a stream on this machine, against a NumPy script.

What counts is that it completes and what memory it takes (`ours_peak_mb`, Spark and its workers together); the script holds
everything in one process. The stream takes one of eight files a micro-batch, keeps the last samples of every sensor, and
gives what progress has passed: all but the last instant.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import hydrophone as hp
from hydrophone.bench.grouped_batch import FILES, PERIOD, TAPS, answer, write_lake
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.jobs import job
from hydrophone.bench.peers import numpy_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLES = 100


def cases(quick: bool) -> Iterator[Case]:
    """A FIR filter over all of them."""
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench")
    keys = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "in"
        folder.mkdir()
        write_lake(folder, keys * SAMPLES, keys)

        def frame() -> DataFrame:
            return filtered(str(folder)).to_spark(spark, shape="segments")

        script = {"NumPy, one process": partial(numpy_script.fir, folder, TAPS)}
        whole = job(frame, partial(answer, shape="segments"))
        yield Case(f"batch, {keys} keys of {SAMPLES}", whole, script, runs=1)
        script = {"NumPy, one process": partial(numpy_script.fir, folder, TAPS, SAMPLES - 1)}
        yield Case(f"stream, {keys} keys of {SAMPLES}", partial(streamed, spark, folder), script, runs=1, warm=False)


def filtered(path: str) -> hp.UniformSignal:
    """The query."""
    readings = hp.read.parquet(path, key="sensor", time="time", progress=hp.ordered())
    return readings.signal("value").sample(PERIOD).fir(TAPS)


def streamed(spark: SparkSession, folder: Path) -> Answer:
    """The stream over all files, from its first micro-batch to its last."""
    with tempfile.TemporaryDirectory() as name:
        to, checkpoint = hp.write.parquet(f"{name}/out"), f"{name}/checkpoint"
        query = filtered(str(folder)).start(
            spark, to=to, checkpoint=checkpoint, files_per_batch=1, trigger="available", shape="segments"
        )
        query.wait()
        if len(query.progress) < FILES:
            raise RuntimeError(f"{len(query.progress)} micro-batches for {FILES} files")
        total = np.zeros(3)
        for batch in ds.dataset(f"{name}/out", partitioning="hive").to_batches(columns=["values"]):
            values = pc.list_flatten(batch["values"]).cast(pa.float64()).to_numpy()
            total += len(values), values.sum(), np.square(values).sum()
        return tuple(total.tolist())
