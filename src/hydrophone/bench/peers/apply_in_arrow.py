"""What people write on Spark 4 for signals per key: ``groupBy(key).applyInArrow`` with NumPy inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.bench.peers.one_signal import cleaned, filtered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEGMENTS = "sensor long, time long, period double, values array<double>"
ROWS = "sensor long, time long, value double"
Floats = npt.NDArray[np.float64]


def fir(frame: DataFrame, taps: Floats, period: int, shape: str) -> DataFrame:
    """A FIR filter per sensor."""
    return _each(frame, lambda values: filtered(values, taps), period, shape)


def clean(frame: DataFrame, size: int, top: int, period: int, shape: str) -> DataFrame:
    """Spectral cleaning per sensor."""
    return _each(frame, lambda values: cleaned(values, size, top), period, shape)


def _each(frame: DataFrame, function: Any, period: int, shape: str) -> DataFrame:
    """Sorted by time, worked on by NumPy, one row per sensor or per sample."""

    def one_sensor(rows: pa.Table) -> pa.Table:
        order = np.argsort(rows["time"].to_numpy(), kind="stable")
        time, sensor = rows["time"].to_numpy()[order], rows["sensor"][0].as_py()
        values = function(rows["value"].to_numpy()[order])
        if shape == "segments":
            one = {"sensor": [sensor], "time": [time[0]], "period": [float(period)], "values": [values]}
            return pa.table(one if len(values) else {name: [] for name in one}, schema=_SEGMENTS)
        same = np.full(len(values), sensor)
        return pa.table({"sensor": same, "time": time[: len(values)], "value": values})

    return frame.groupBy("sensor").applyInArrow(one_sensor, SEGMENTS if shape == "segments" else ROWS)


_SEGMENTS = pa.schema(
    [("sensor", pa.int64()), ("time", pa.int64()), ("period", pa.float64()), ("values", pa.list_(pa.float64()))]
)
