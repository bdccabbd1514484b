"""Half precision: tables in memory and users' functions give single precision of the same numbers, files of it are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.errors import SignalTypeError

HALVES = np.array([0.1, 65504, -0.0, np.nan, np.inf, 6e-8, 1 / 3, -2], np.float16)


def events(kind: Any) -> hp.Stream:
    time = np.arange(8) * 10
    return hp.from_arrow(pa.table({"k": ["a", "b"] * 4, "t": time, "v": HALVES.astype(kind)}), key="k", time="t")


def signal(kind: Any) -> hp.UniformSignal:
    return events(kind).signal("v").sample(20)


def parts(kind: Any) -> pa.Table:
    values = pa.array(HALVES.astype(kind))
    arrow = values.type
    return pa.table(
        {
            "t": np.arange(8) * 10,
            "x": pa.StructArray.from_arrays([values, values], ["a", "b"], mask=pa.array([False] * 7 + [True])),
            "c": pa.StructArray.from_arrays([values, values], ["re", "im"]),
            "l": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(HALVES, 2).astype(kind)), 2),
            "n": pa.array([[1.0, 2.0]] * 7 + [None], pa.list_(arrow)),
        }
    )


def of_parts(kind: Any, name: str) -> hp.Stream:
    return hp.from_arrow(parts(kind).select(["t", name]), time="t")


def segments(kind: Any) -> hp.UniformSignal:
    rows = pa.table({"t": [0, 40], "x": pa.array([HALVES[:4].astype(kind)] * 2)})
    return hp.from_segments(rows, time="t", samples="x", period=10)


EVERY = {"s": hp.sum("v"), "m": hp.mean("v"), "low": hp.min("v"), "d": hp.std("v"), "q": hp.quantile("v", 0.5)}
PICKS = {"f": hp.first("v"), "l": hp.last("v"), "top": hp.top_k("v", 2), "n": hp.distinct_count("v")}
QUERIES: dict[str, Callable[[Any], Any]] = {
    "rows": events,
    "where": lambda k: events(k).where(hp.col("v") > 0.5),
    "with_columns": lambda k: events(k).with_columns(u=hp.col("v") * 2),
    "tumble": lambda k: events(k).tumble(40).agg(**EVERY),
    "picks": lambda k: events(k).sliding(40, every=20).agg(**PICKS),
    "last_n": lambda k: events(k).last_n(2).agg(**EVERY),
    "top_k": lambda k: events(k).top_k(1, by="v", size=40),
    "distinct": lambda k: events(k).alter(15).distinct(),
    "join": lambda k: events(k).alter(20).join(events(k), how="left"),
    "asof": lambda k: events(k).asof_join(events(k), direction="interpolated", tolerance=20),
    "lookup": lambda k: events("f8").lookup(pa.table({"k": ["a", "b"], "g": np.array([1, 2], k)}), on="k"),
    "sample": lambda k: events(k).signal("v").sample(5, fill=hp.linear(max_gap=20)),
    "hold": lambda k: events(k).signal("v").sample(5, fill=hp.hold(max_gap=20)),
    "fir": lambda k: signal(k).fir([0.5, 0.5]),
    "ema": lambda k: signal(k).ema(0.5),
    "arithmetic": lambda k: signal(k) * 2 + signal(k),
    "fft": lambda k: signal(k).window(2).fft(),
    "above": lambda k: signal(k).above(0.05),
    "find_peaks": lambda k: signal(k).find_peaks(),
    "moving": lambda k: signal(k).moving_max(2),
    "resample": lambda k: signal(k).resample(10),
    "channels": lambda k: events(k).with_columns(u=hp.col("v")).signal("v", "u").sample(20).window(2),
    "struct": lambda k: of_parts(k, "x").signal("x").sample(10).norm(),
    "complex": lambda k: of_parts(k, "c").signal("c").sample(10).fir([1.0]).magnitude(),
    "list": lambda k: of_parts(k, "l").signal("l").sample(10).norm(),
    "payload": lambda k: of_parts(k, "n"),
    "segments": segments,
    "segments-fir": lambda k: segments(k).fir([1.0, 1.0]),
    "pandas": lambda k: (
        hp.from_pandas(pd.DataFrame({"t": range(8), "v": HALVES.astype(k)}), time="t").signal("v").sample(1)
    ),
    "map": lambda k: signal("f4").map(lambda x: x.astype(np.float16).astype(k)).fir([1.0]),
    "windows": lambda k: signal("f4").window(2).map(lambda x: x.astype(np.float16).astype(k)).overlap_add(),
    "combine": lambda k: signal("f4").combine(signal("f4"), lambda a, b: a.astype(np.float16).astype(k)).moving_max(2),
    "reduce": lambda k: signal("f4").window(2).reduce(lambda x: x[:, 0].astype(np.float16).astype(k)).moving_max(2),
}


@pytest.mark.parametrize("name", QUERIES)
def test_half_precision_gives_the_answer_of_single_precision(name: str) -> None:
    with np.errstate(all="ignore"):
        found, wanted = (QUERIES[name](kind).to_arrow() for kind in (np.float16, np.float32))
    assert found.schema == wanted.schema
    assert str(found.to_pylist()) == str(wanted.to_pylist())


def test_an_aggregate_of_half_precision() -> None:
    own = hp.aggregate(
        "v", create=lambda n: np.zeros(n, np.float16), add=np.add, merge=np.add, result=lambda s: s.astype("f2")
    )
    found = events("f4").where(hp.col("v") < 1).tumble(100).agg(n=own).to_arrow()
    assert found.schema.field("n").type == pa.float32()


def test_files_of_half_precision_are_refused(tmp_path: Path) -> None:
    for name in ("v", "x", "n"):
        table = parts(np.float16).append_column("v", pa.array(HALVES)).select(["t", name])
        pq.write_table(table, tmp_path / f"{name}.parquet")
        with pytest.raises(SignalTypeError, match=f"column '{name}' is .*halffloat"):
            hp.read.parquet(tmp_path / f"{name}.parquet", time="t")
