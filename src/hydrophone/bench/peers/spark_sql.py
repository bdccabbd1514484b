"""Spark alone, without Python in the tasks: filters, counts, a FIR filter out of window functions, and signals as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fir(frame: DataFrame, taps: npt.NDArray[np.float64]) -> DataFrame:
    """A sum of lagged values per sensor; it trusts that no sample is missing."""
    lags = " + ".join(
        f"{tap!r}D * " + (f"lag(value, {i}, 0D) over w" if i else "value") for i, tap in enumerate(taps.tolist())
    )
    sensor_in_time = "w as (partition by sensor order by time)"
    return frame.sparkSession.sql(
        f"select sensor, time, {lags} as value from {{rows}} window {sensor_in_time}", rows=frame
    )


def where(frame: DataFrame, least: float) -> DataFrame:
    """Rows with large values."""
    return frame.where(f"value > {least!r}D")


def where_select(frame: DataFrame, least: float) -> DataFrame:
    """Two of the columns of rows with large values."""
    return where(frame, least).select("sensor", "time", "value")


def count(frame: DataFrame, size: int) -> DataFrame:
    """How many rows a sensor has in every stretch of time."""
    return frame.groupBy("sensor", (frame["time"] - frame["time"] % size).alias("time")).count()


# --- segments to segments -----------------------------------------------------------------------------------------------


def correlate(segments: DataFrame, pattern: npt.NDArray[np.float64], period: int) -> DataFrame:
    """The samples of a sensor in one array, and for each of them a sum over those before it.

    The sum is written out: `aggregate` over a slice took eight times as long, to explode the arrays and use `lag` almost twice.
    """
    before = len(pattern) - 1
    terms = " + ".join(f"{weight!r}D * get(x, i + {at})" for at, weight in enumerate(pattern.tolist()))
    padded = f"select sensor, start, samples, concat(array_repeat(0D, {before}), samples) as x from ({_SIGNALS.format('segments')})"
    return segments.sparkSession.sql(
        f"select sensor, start as time, {float(period)!r}D as period, transform(samples, (v, i) -> {terms}) as values from ({padded})",
        segments=segments,
    )


def interpolate_add_filter(
    slow: DataFrame, fast: DataFrame, period: int, every: int, low: float, high: float
) -> DataFrame:
    """Both signals of a sensor as arrays, joined; a row for each sample, of which those beyond the limits stay as segments of one."""
    both = (
        f"select f.sensor, f.start, s.samples as s, f.samples as f "
        f"from ({_SIGNALS.format('slow')}) s join ({_SIGNALS.format('fast')}) f on s.sensor = f.sensor"
    )
    at, share = f"i div {every}", f"(i % {every} / {float(every)!r}D)"
    # The last slow sample has none after it, and needs none.
    line = f"s[{at}] + coalesce(get(s, {at} + 1) - s[{at}], 0D) * {share}"
    sums = f"select sensor, start + i * {period}L as time, v + {line} as v from ({both}) lateral view posexplode(f) as i, v"
    return slow.sparkSession.sql(
        f"select sensor, time, {float(period)!r}D as period, array(v) as values "
        f"from ({sums} where i <= {every} * (size(s) - 1)) where v < {low!r}D or v > {high!r}D",
        slow=slow,
        fast=fast,
    )


_SIGNALS = (
    "select sensor, min(time) as start, flatten(transform(array_sort(collect_list(struct(time, values))), s -> s.values)) as samples "
    "from {{{}}} group by sensor"
)
