"""Queries 3 and 4 of the TrillDSP paper on Spark: from segments in a lake to segments, on one core and on two, against what people write.

A lake holds eight files in the order of time, each with a segment of every sensor, as a collector writes them. Peers use both cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.grouped_batch import FILES, answer
from hydrophone.bench.harness import Case
from hydrophone.bench.jobs import job
from hydrophone.bench.peers import apply_in_arrow, apply_in_pandas, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 10_000
PEERS = {"applyInPandas": apply_in_pandas, "applyInArrow": apply_in_arrow, "Spark SQL with arrays": spark_sql}


@dataclass(frozen=True)
class Lake:
    """Signals of so many samples in Parquet files."""

    folder: Path
    length: int
    period: int

    def write(self) -> None:
        """An eighth of every signal in each file."""
        self.folder.mkdir()
        rng, size = np.random.default_rng(self.period), self.length // FILES
        for number in range(FILES):
            values = pa.ListArray.from_arrays(np.arange(KEYS + 1, dtype=np.int32) * size, rng.random(KEYS * size))
            time = np.full(KEYS, number * size * self.period)
            table = pa.table({"sensor": np.arange(KEYS), "time": time, "values": values})
            pq.write_table(table, self.folder / f"part-{number:03d}.parquet")

    def signal(self) -> hp.UniformSignal:
        """As we read it."""
        longest = self.length // FILES * self.period
        return hp.read.segments(self.folder, key="sensor", time="time", period=self.period, longest=longest)


def correlation(quick: bool, pattern: Any) -> Iterator[Case]:
    """Query 3."""
    for length in (1_000,) if quick else (1_000, 4_000):
        with tempfile.TemporaryDirectory() as name:
            lakes = [Lake(Path(name) / "x", length, 1_000_000)]
            parameters = pattern, lakes[0].period
            yield _case(quick, lakes, lambda x: x.correlate(pattern), "correlate", parameters)


def interpolation(quick: bool, keep: Any, limits: tuple[float, float]) -> Iterator[Case]:
    """Query 4; the fast signals have four times as many samples."""
    for length in (256,) if quick else (256, 1_024):
        with tempfile.TemporaryDirectory() as name:
            slow, fast = Lake(Path(name) / "slow", length, 20_000_000), Lake(Path(name) / "fast", 4 * length, 5_000_000)
            parameters = fast.period, slow.period // fast.period, *limits
            yield _case(quick, [slow, fast], partial(added, keep), "interpolate_add_filter", parameters)


def added(keep: Any, slow: hp.UniformSignal, fast: hp.UniformSignal) -> hp.UniformSignal:
    """Query 4 in our words."""
    return (slow.resample("5ms") + fast).where(keep)


def _case(quick: bool, lakes: Sequence[Lake], query: Callable[..., Any], question: str, parameters: Any) -> Case:
    @cache
    def spark() -> SparkSession:
        # Not before the first run: who asks for cases of this process alone need not wait for Spark and its files.
        from hydrophone.spark.session import session

        for lake in lakes:
            lake.write()
        return session("hydrophone-bench")

    def ours(slices: int) -> DataFrame:
        session = spark()
        found: DataFrame = query(*(lake.signal() for lake in lakes)).to_spark(
            session, plan="slices", slices=slices, shape="segments"
        )
        return found

    def theirs(peer: Any) -> DataFrame:
        frames = [spark().read.parquet(str(lake.folder)) for lake in lakes]
        found: DataFrame = getattr(peer, question)(*frames, *parameters)
        return found

    total = partial(answer, shape="segments")
    one, two = (
        f"Spark, {n}, {KEYS} keys, {KEYS * sum(x.length for x in lakes)} samples" for n in ("1 slice", "2 slices")
    )
    peers = {name: job(partial(theirs, peer), total) for name, peer in PEERS.items()}
    also = {one: job(partial(ours, 1), total)}
    return Case(two, job(partial(ours, 2), total), peers, runs=2 if quick else 3, also=also)
