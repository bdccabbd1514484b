"""How queries begin: `from_arrow`, `from_pandas` and `read`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone.io.arrow import ArrowData
from hydrophone.io.parquet import ParquetData
from hydrophone.plan.node import build
from hydrophone.plan.source import Data, Layout, Source
from hydrophone.progress import Policy
from hydrophone.stream import Stream, UniformSignal
from hydrophone.time import Duration, Timebase, instant
from hydrophone.time import period as exact_period

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

Key = str | Sequence[str]


def from_arrow(
    table: pa.Table,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of an Arrow table as a stream of events.

    Parameters
    ----------
    table : pyarrow.Table
    key : str or list of str
        The column or columns that tell signals apart.
    time, end : str
        The columns of lifetimes; without `end` events are points. Timestamps, or integers in nanoseconds.
    sequence : str, optional
        A column that orders events of one key and time before their other columns do.
    progress : optional
        What is known about the order of rows: `ordered`, `delayed`, `punctuated`.

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = pa.table({"sensor": ["a", "a"], "ts": [0, 20], "value": [1.0, 3.0]})
    >>> hp.from_arrow(rows, key="sensor", time="ts").signal("value").sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    """
    return stream(ArrowData(table), key=key, time=time, end=end, sequence=sequence, progress=progress)


def from_pandas(
    frame: pd.DataFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of a pandas DataFrame as a stream of events; see `from_arrow`."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return stream(ArrowData(table), key=key, time=time, end=end, sequence=sequence, progress=progress)


def read_parquet(
    path: str,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of Parquet files under a path as a stream of events; see `from_arrow`."""
    return stream(ParquetData(str(path)), key=key, time=time, end=end, sequence=sequence, progress=progress)


def from_spark(
    frame: DataFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of a Spark DataFrame, batch or streaming, as a stream of events; see `from_arrow`.

    Spark's timestamps are microseconds; finer times come as integers in nanoseconds.
    """
    from hydrophone.spark.data import SparkData

    return stream(SparkData(frame), key=key, time=time, end=end, sequence=sequence, progress=progress)


def from_segments(
    table: pa.Table,
    *,
    key: Key = (),
    time: str,
    samples: str = "values",
    period: Duration = "period",
    offset: Any = 0,
    progress: Policy | None = None,
) -> UniformSignal:
    """Rows that are segments of uniform signals: a start, an array of samples and their spacing.

    Parameters
    ----------
    period : str or duration
        The column of spacings in nanoseconds, or one spacing for all rows (``"1ms"``, ``"44.1kHz"``).
    """
    named = isinstance(period, str) and period in table.schema.names
    timebase = None if named else Timebase(exact_period(period), instant(offset))
    column = str(period) if named else None
    layout = Layout(table.schema, _names(key), time, samples=samples, period=column, timebase=timebase)
    return UniformSignal(build(Source(data=ArrowData(table), layout=layout, progress=progress)))


def stream(
    data: Data, *, key: Key, time: str, end: str | None, sequence: str | None, progress: Policy | None
) -> Stream:
    """A stream over any data."""
    layout = Layout(data.schema, _names(key), time, end, sequence)
    return Stream(build(Source(data=data, layout=layout, progress=progress)))


def _names(key: Key) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)
