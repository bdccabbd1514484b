"""Spark alone, without Python in the tasks: filters, counts, and a FIR filter out of window functions."""

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
