"""What `explain` says before a query runs, and what messages say of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.compiler.compile import Host, compile_plan
from hydrophone.engine.pieces import measure_here
from hydrophone.spark.batch.plan import PlanRequest, choose_plan


def lake(folder: Path, **options: Any) -> hp.Stream:
    there = folder.exists() and any(folder.glob("*.parquet"))
    folder.mkdir(exist_ok=True)
    for number in () if there else range(8):
        t = np.arange(number * 1_000, number * 1_000 + 1_000)
        pq.write_table(pa.table({"k": t % 3, "t": t, "v": t * 1.0}), folder / f"{number}.parquet")
    return hp.read.parquet(folder, key="k", time="t", **options)


def test_explain_says_what_start_would_refuse(tmp_path: Path) -> None:
    promised = lake(tmp_path, progress=hp.delayed(5))
    assert "refused" not in promised.tumble(10).agg(n=hp.count()).explain("spark")
    silent = lake(tmp_path).tumble(10).agg(n=hp.count()).explain("spark")
    assert (
        "as a stream it is refused" in silent and "promises no progress" in silent and "progress=hp.delayed" in silent
    )
    table = hp.from_arrow(pa.table({"t": [1]}), time="t", progress=hp.ordered())
    assert "is not a stream" in table.explain("spark")
    endless = promised.signal("v").sample(10, fill=hp.linear())
    assert "as a stream it is refused: sample" in endless.explain("spark") and "max_gap" in endless.explain("spark")


def test_explain_says_why_slices_read_more(tmp_path: Path) -> None:
    """Files that overlap, or a reach that is long against a slice: which of them."""
    times = np.random.default_rng(1).permutation(80_000).reshape(8, -1)
    for number, t in enumerate(times):
        pq.write_table(pa.table({"k": t % 3, "t": t, "v": t * 1.0}), tmp_path / f"{number}.parquet")
    query = hp.read.parquet(tmp_path, key="k", time="t").tumble(10).agg(n=hp.count())
    assert "files overlap in time: without any reach" in said(query)
    query = lake(tmp_path / "in_order").tumble(9_000).agg(n=hp.count())
    assert "the reach is long against a slice: without it" in said(query)


def said(query: Any) -> str:
    """Why eight slices are not chosen, or are."""
    sliced = compile_plan(query.node, Host.SLICES)
    return "; ".join(choose_plan(sliced, PlanRequest("auto", slices=8), 8, 8, measure_here).why)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", None])
def test_messages_have_a_zone_where_the_data_has_one(zone: str | None) -> None:
    times = pa.array([10_000_000, 2_000_000, 3_000_000], pa.timestamp("us")).cast(pa.timestamp("us", zone))
    stream = hp.from_arrow(pa.table({"t": times, "v": [1, 2, 3]}), time="t", progress=hp.ordered())
    with pytest.raises(hp.LateEventError) as told:
        list(stream.tumble("1s").agg(n=hp.count()).batches(1))
    assert ("00:00:02.000000000Z" in str(told.value)) == (zone is not None)
    assert "00:00:02.000000000" in str(told.value)
