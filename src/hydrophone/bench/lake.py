"""`lake`: files that overlap in time by 1.0, 1.3 and 10: which plan the planner chose, and what the others cost.

An overlap of 1.3 says that a file holds rows of 1.3 times its share of the time, so that slices read 1.3 times the data.
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
from hydrophone.bench.grouped_batch import PERIOD, TAPS, answer
from hydrophone.bench.harness import Case
from hydrophone.bench.jobs import job
from hydrophone.spark.batch import plan as batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES = 32


def write_lake(folder: Path, rows: int, keys: int, overlap: float) -> None:
    """Readings that reach the collector late: a file holds what arrived in its share of the time."""
    random, beats = np.random.default_rng(7), rows // keys
    sensor, beat = np.tile(np.arange(keys), beats), np.repeat(np.arange(beats), keys)
    value = random.normal(size=len(beat))
    late = random.random(len(beat)) * (overlap - 1) * beats / FILES
    number = np.minimum(((beat + late) * FILES / beats).astype(np.int64), FILES - 1)
    table = pa.table({"sensor": sensor, "time": beat * PERIOD, "value": value})
    for file in range(FILES):
        pq.write_table(table.filter(pa.array(number == file)), folder / f"part-{file:03d}.parquet")


def cases(quick: bool) -> Iterator[Case]:
    """A FIR filter over each lake: as the planner chose, against both plans by force."""
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench")
    rows, keys, runs = (4_000_000, 10_000, 3) if quick else (10_000_000, 10_000, 3)
    total = partial(answer, shape="segments")
    for overlap in (1.0, 1.3, 10.0):
        with tempfile.TemporaryDirectory() as name:
            write_lake(Path(name), rows, keys, overlap)

            def frame(plan: Any, slices: int | None = None, name: str = name) -> DataFrame:
                rows = hp.read.parquet(name, key="sensor", time="time")
                query = rows.signal("value").sample(PERIOD).fir(TAPS)
                return query.to_spark(spark, plan=plan, slices=slices, shape="segments")

            query = hp.read.parquet(name, key="sensor", time="time").signal("value").sample(PERIOD).fir(TAPS)
            chosen = batch.explain(query.node, spark).splitlines()[0].removeprefix("plan: ")
            peers = {f"{plan} by force": job(partial(frame, plan), total) for plan in ("slices", "shards")}
            if overlap == 10:  # the more slices, the more often a file is read
                peers |= {f"{n} slices by force": job(partial(frame, "slices", n), total) for n in (4, 8, 16)}
            yield Case(f"overlap {overlap}: {chosen}", job(partial(frame, "auto"), total), peers, runs)
