"""`hot_key`: one signal of very many samples on Spark: two slices of its time against one, and one against a NumPy script.

A key is no unit of work here: slices share out the time of a single signal, so that two tasks are busy with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydrophone as hp
from hydrophone.bench.grouped_batch import PERIOD, TAPS, answer, write_lake
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.jobs import job
from hydrophone.bench.peers import numpy_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIZE = 256


def cases(quick: bool) -> Iterator[Case]:
    """FIR and STFT."""
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench")
    rows, runs = (40_000_000, 3) if quick else (200_000_000, 3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lake(folder, rows, keys=1)

        def frame(query: str, slices: int) -> DataFrame:
            samples = hp.read.parquet(name, key="sensor", time="time").signal("value").sample(PERIOD)
            made: Any = samples.fir(TAPS) if query == "fir" else samples.window(SIZE, hop=SIZE // 2).rfft()
            shape = "segments" if query == "fir" else "rows"
            found: DataFrame = made.to_spark(spark, plan="slices", slices=slices, shape=shape)
            return found

        def way(query: str, slices: int) -> Callable[[], Answer]:
            shape = "segments" if query == "fir" else "spectra"
            return job(partial(frame, query, slices), partial(answer, shape=shape))

        for query, script in (
            ("fir", partial(numpy_script.fir, folder, TAPS)),
            ("stft", partial(numpy_script.stft, folder, SIZE)),
        ):
            yield Case(f"{query}, 2 slices, {rows} samples", way(query, 2), {"1 slice": way(query, 1)}, runs)
            yield Case(f"{query}, 1 slice, {rows} samples", way(query, 1), {"NumPy, one process": script}, runs)
