"""The nine queries of the out-of-order paper on Spark: batch and stream, out of order, give what this process gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engine.test_out_of_order import TABLES, S, example
from tests.spark.test_streaming import arrive

import hydrophone as hp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FAR = 3_600 * S
DELAY = 45 * S
ENDED = {
    name: pa.concat_tables([t, t.slice(len(t) - 1).set_column(0, "ts", pa.array([FAR]))]) for name, t in TABLES.items()
}
"""Every link with one packet an hour later: progress passes all before it."""


def shuffled(table: pa.Table, seed: int) -> list[pa.Table]:
    """Two files of packets that come up to 45 s late, and one with the last packet."""
    jitter = np.random.default_rng(seed).integers(0, DELAY, len(table) - 1)
    late = table.take(pa.array(np.argsort(table["ts"].to_numpy()[:-1] + jitter, kind="stable")))
    half = len(late) // 2
    return [late.slice(0, half), late.slice(half), table.slice(len(table) - 1)]


def told(table: pa.Table) -> Counter[Any]:
    """The rows of windows and pairs that progress has passed, with columns by name."""
    rows = (r for r in table.to_pylist() if max(r["ts"], r.get("ts_right") or 0, r.get("end") or 0) < FAR // 2)
    return Counter(tuple(sorted((k, v) for k, v in r.items() if k != "batch")) for r in rows)


NAMES = [
    ("q3", "q6", "q9"),  # two stages, a computed key, unions, windows that overlap
    *(pytest.param(names, marks=pytest.mark.soak) for names in (("q1", "q2", "q4"), ("q5", "q7", "q8"))),
]


@pytest.mark.parametrize("names", NAMES, ids="+".join)
def test_three_engines_agree(spark: SparkSession, tmp_path: Path, names: tuple[str, ...]) -> None:
    for seed, (name, table) in enumerate(ENDED.items()):
        arrive(tmp_path / "in" / name, shuffled(table, seed))
    links = {name: hp.read.parquet(tmp_path / "in" / name, time="ts", progress=hp.delayed(DELAY)) for name in ENDED}
    running = []
    for name in names:
        query, to = example.QUERIES[name](links), hp.write.parquet(str(tmp_path / name))
        checkpoint = str(tmp_path / f"{name}-checkpoint")
        running.append(
            query.start(spark, to=to, checkpoint=checkpoint, files_per_batch=1, trigger="available", shards=2)
        )
    for name, stream in zip(names, running, strict=True):
        wanted = told(example.QUERIES[name](example.links(ENDED)).to_arrow())
        assert wanted, name
        assert told(example.QUERIES[name](links).to_spark(spark).toArrow()) == wanted, name
        stream.wait()
        assert told(pq.read_table(tmp_path / name)) == wanted, name
        assert sum(sum(p["late"].values()) for p in stream.progress) == 0
