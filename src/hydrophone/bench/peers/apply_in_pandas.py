"""What people write on Spark for signals per key: ``groupBy(key).applyInPandas`` with NumPy inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

SEGMENTS = "sensor long, time long, period double, values array<double>"
ROWS = "sensor long, time long, value double"


def fir(frame: DataFrame, taps: npt.NDArray[np.float64], period: int, shape: str) -> DataFrame:
    """A FIR filter per sensor: sorted by time, convolved by NumPy, one row per sensor or per sample."""
    run: Any = _segments if shape == "segments" else _rows

    def one_sensor(rows: pd.DataFrame) -> pd.DataFrame:
        result: pd.DataFrame = run(rows, taps, period)
        return result

    return frame.groupBy("sensor").applyInPandas(one_sensor, SEGMENTS if shape == "segments" else ROWS)


def _filtered(rows: pd.DataFrame, taps: npt.NDArray[np.float64]) -> tuple[Any, npt.NDArray[np.float64]]:
    order = np.argsort(rows["time"].to_numpy(), kind="stable")
    values = rows["value"].to_numpy()[order]
    return rows["time"].to_numpy()[order], np.convolve(values, taps)[: len(values)]


def _segments(rows: pd.DataFrame, taps: npt.NDArray[np.float64], period: int) -> pd.DataFrame:
    import pandas as pd

    time, values = _filtered(rows, taps)
    one = {"sensor": [rows["sensor"].iloc[0]], "time": [time[0]], "period": [float(period)], "values": [values]}
    return pd.DataFrame(one)


def _rows(rows: pd.DataFrame, taps: npt.NDArray[np.float64], period: int) -> pd.DataFrame:
    import pandas as pd

    time, values = _filtered(rows, taps)
    return pd.DataFrame({"sensor": rows["sensor"].iloc[0], "time": time, "value": values})
