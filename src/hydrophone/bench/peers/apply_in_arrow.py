"""What people write on Spark 4 for signals per key: ``groupBy(key).applyInArrow`` with NumPy inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.bench.peers.one_signal import cleaned, correlated, extremes, filtered

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


# --- segments to segments -----------------------------------------------------------------------------------------------


def correlate(segments: DataFrame, pattern: Floats, period: int) -> DataFrame:
    """Correlation per sensor of what comes as segments."""

    def one_sensor(rows: pa.Table) -> pa.Table:
        start, values = _joined(rows)
        one = {"sensor": rows["sensor"][:1], "time": [start], "period": [float(period)]}
        return pa.table(one | {"values": [correlated(values, pattern)]}, schema=_SEGMENTS)

    return segments.groupBy("sensor").applyInArrow(one_sensor, SEGMENTS)


def interpolate_add_filter(
    slow: DataFrame, fast: DataFrame, period: int, every: int, low: float, high: float
) -> DataFrame:
    """Both signals of a sensor, the slow one interpolated, added; of the sums those beyond the limits, as segments of one sample."""

    def one_sensor(few: pa.Table, many: pa.Table) -> pa.Table:
        start, fast_values = _joined(many)
        beats, found = extremes(_joined(few)[1], fast_values, every, low, high)
        one = {"sensor": np.full(len(beats), many["sensor"][0].as_py()), "time": start + beats * period}
        values = pa.ListArray.from_arrays(np.arange(len(beats) + 1), found)
        return pa.table(one | {"period": np.full(len(beats), float(period)), "values": values}, schema=_SEGMENTS)

    return slow.groupBy("sensor").cogroup(fast.groupBy("sensor")).applyInArrow(one_sensor, SEGMENTS)


def _joined(rows: pa.Table) -> tuple[int, Floats]:
    """The first start of the segments, and all samples in the order of time; it trusts that none is missing."""
    time = rows["time"].to_numpy()
    order = np.argsort(time)
    return int(time[order[0]]), rows["values"].take(order).combine_chunks().flatten().to_numpy()
