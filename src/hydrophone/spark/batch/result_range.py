"""A part of an answer, as a DataFrame: the results in the wanted time.

What the sources need not give is left out by the compiler before anything is read (`compiler.key_range`). Spark cannot do this
itself: to its optimiser our tasks are functions that it does not look into, so a filter on the DataFrame runs after them.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from hydrophone.compiler.result_range import ResultRange
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = dt.datetime(1970, 1, 1)


def rows_in_range(wanted: ResultRange, frame: DataFrame, kind: DataType) -> DataFrame:
    """The results of a part, of those that came."""
    column = f"`{kind.time.replace('`', '``')}`"
    for sign, bound, absent in ((">=", wanted.start, MIN_TIME), ("<", wanted.end, MAX_TIME)):
        if bound != absent:
            frame = frame.where(f"{column} {sign} {_time_sql(bound, frame.schema[kind.time].dataType.typeName())}")
    return frame


def _time_sql(nanoseconds: int, kind: str) -> str:
    if not kind.startswith("timestamp"):
        return str(nanoseconds)
    # Instants of results are whole microseconds, so the first one that is not before the bound decides.
    text = (_EPOCH + dt.timedelta(microseconds=-(-nanoseconds // 1000))).isoformat(sep=" ")
    return f"timestamp_ntz'{text}'" if kind == "timestamp_ntz" else f"timestamp'{text}+00:00'"
