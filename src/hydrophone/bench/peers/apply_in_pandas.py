"""What people write on Spark for signals per key: ``groupBy(key).applyInPandas`` with NumPy inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hydrophone.bench.peers.one_signal import cleaned, correlated, extremes, filtered

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

SEGMENTS = "sensor long, time long, period double, values array<double>"
ROWS = "sensor long, time long, value double"


def fir(frame: DataFrame, taps: npt.NDArray[np.float64], period: int, shape: str) -> DataFrame:
    """A FIR filter per sensor."""
    return _each(frame, lambda values: filtered(values, taps), period, shape)


def clean(frame: DataFrame, size: int, top: int, period: int, shape: str) -> DataFrame:
    """Spectral cleaning per sensor."""
    return _each(frame, lambda values: cleaned(values, size, top), period, shape)


def _each(frame: DataFrame, function: Any, period: int, shape: str) -> DataFrame:
    """Sorted by time, worked on by NumPy, one row per sensor or per sample."""
    run: Any = _segments if shape == "segments" else _rows

    def one_sensor(rows: pd.DataFrame) -> pd.DataFrame:
        order = np.argsort(rows["time"].to_numpy(), kind="stable")
        values = function(rows["value"].to_numpy()[order])
        result: pd.DataFrame = run(rows, rows["time"].to_numpy()[order][: len(values)], values, period)
        return result

    return frame.groupBy("sensor").applyInPandas(one_sensor, SEGMENTS if shape == "segments" else ROWS)


def _segments(rows: pd.DataFrame, time: Any, values: npt.NDArray[np.float64], period: int) -> pd.DataFrame:
    import pandas as pd

    if not len(values):
        return pd.DataFrame({"sensor": [], "time": [], "period": [], "values": []})
    one = {"sensor": [rows["sensor"].iloc[0]], "time": [time[0]], "period": [float(period)], "values": [values]}
    return pd.DataFrame(one)


def _rows(rows: pd.DataFrame, time: Any, values: npt.NDArray[np.float64], period: int) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"sensor": rows["sensor"].iloc[0], "time": time, "value": values})


# --- segments to segments -----------------------------------------------------------------------------------------------


def correlate(segments: DataFrame, pattern: npt.NDArray[np.float64], period: int) -> DataFrame:
    """Correlation per sensor of what comes as segments."""

    def one_sensor(rows: pd.DataFrame) -> pd.DataFrame:
        time, values = _joined(rows)
        return _segments(rows, time, correlated(values, pattern), period)

    return segments.groupBy("sensor").applyInPandas(one_sensor, SEGMENTS)


def interpolate_add_filter(
    slow: DataFrame, fast: DataFrame, period: int, every: int, low: float, high: float
) -> DataFrame:
    """Both signals of a sensor, the slow one interpolated, added; of the sums those beyond the limits, as segments of one sample."""

    def one_sensor(few: pd.DataFrame, many: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        time, fast_values = _joined(many)
        beats, found = extremes(_joined(few)[1], fast_values, every, low, high)
        out = {"sensor": many["sensor"].iloc[0], "time": time[0] + beats * period, "period": float(period)}
        return pd.DataFrame(out | {"values": pd.Series(list(found[:, None]), dtype=object)})

    return slow.groupBy("sensor").cogroup(fast.groupBy("sensor")).applyInPandas(one_sensor, SEGMENTS)


def _joined(rows: pd.DataFrame) -> tuple[Any, npt.NDArray[np.float64]]:
    """The starts of segments in order, and their samples one after the other; it trusts that none is missing."""
    time = rows["time"].to_numpy()
    order = np.argsort(time)
    return time[order], np.concatenate(rows["values"].to_numpy()[order])
