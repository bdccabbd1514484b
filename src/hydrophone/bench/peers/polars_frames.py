"""Polars, as its users write it: expressions over frames with a row per sample, which are made before the clock starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.signal

from hydrophone.bench.harness import Answer, summary

Samples = npt.NDArray[np.float64]


def frame(samples: Samples, keys: int, period: int) -> pl.DataFrame:
    """Key, time and value, key by key."""
    length = len(samples) // keys
    time = np.tile(np.arange(length) * period, keys)
    return pl.DataFrame({"key": np.repeat(np.arange(keys), length), "time": time, "value": samples})


def correlate(rows: pl.DataFrame, pattern: Samples) -> Answer:
    """A group by key with SciPy inside."""
    taps = pattern[::-1]

    def one(values: pl.Series) -> pl.Series:
        return pl.Series(scipy.signal.lfilter(taps, [1.0], values.to_numpy()))

    found = rows.group_by("key").agg(pl.col("value").map_batches(one, return_dtype=pl.Float64))
    return summary(found["value"].explode().to_numpy())


def interpolate_add_filter(slow: pl.DataFrame, fast: pl.DataFrame, keep: Callable[[Any], Any], period: int) -> Answer:
    """The last slow sample and the one after it by an as-of join, and the line between them as an expression."""
    later = pl.col("value").shift(-1).over("key")
    ends = slow.select("key", "time", left="value", right=later, since="time")
    both = fast.join_asof(ends, on="time", by="key", check_sortedness=False)
    share = (pl.col("time") - pl.col("since")) / period
    line = pl.col("left") + (pl.col("right") - pl.col("left")).fill_null(0.0) * share
    total = both.select(total=line + pl.col("value")).filter(keep(pl.col("total")))
    return summary(total["total"].to_numpy())
