"""How queries begin: `from_arrow`, `from_pandas` and `read`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from hydrophone.errors import ParameterError, located
from hydrophone.handles import Stream, UniformSignal
from hydrophone.io.arrow import ArrowData
from hydrophone.io.csv import CsvData, Dialect
from hydrophone.io.parquet import ParquetData
from hydrophone.plan.node import build
from hydrophone.plan.source import Data, Layout, Source
from hydrophone.progress import Policy
from hydrophone.time import Duration, duration, instant
from hydrophone.time import period as exact_period
from hydrophone.timebase import Timebase

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame

Key = str | Sequence[str]


@located
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
        Or a record batch, a reader of them, or what else hands over Arrow's streams.
    key : str or list of str
        The column or columns that tell signals apart.
    time, end : str
        The columns of lifetimes; without `end` events are points. Timestamps, or integers in nanoseconds.
    sequence : str, optional
        A column that orders events of one key and time before their other columns do, and by which `count_window` counts.
    progress : optional
        What is known about the order of rows: `ordered`, `delayed`, `punctuated`.

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = pa.table({"sensor": ["a", "a"], "ts": [0, 20], "value": [1.0, 3.0]})
    >>> hp.from_arrow(rows, key="sensor", time="ts").signal("value").sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    """
    data = ArrowData(_as_table(table))
    return stream(data, key=key, time=time, end=end, sequence=sequence, progress=progress)


@located
def from_pandas(
    frame: pd.DataFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of a pandas DataFrame as a stream of events; see `from_arrow`.

    NaN and NaT stand for missing values in pandas, and become nulls: in a signal no reading, and for aggregates no value. Where NaN
    is a value of yours, make an Arrow table that keeps it: ``pa.table({"value": frame["value"].to_numpy(), ...})``.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ts": [0, 10, 20], "value": [1.0, float("nan"), 3.0]})
    >>> hp.from_pandas(frame, time="ts").signal("value").sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    """
    if not hasattr(frame, "reset_index"):
        raise ParameterError(f"from_pandas: needs a DataFrame of pandas, got {_kind(frame)}")
    table = _from_pandas(frame, [*_names(key), time, *filter(None, [end, sequence])])
    return stream(ArrowData(table), key=key, time=time, end=end, sequence=sequence, progress=progress)


@located
def from_polars(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of a Polars DataFrame as a stream of events; a LazyFrame is collected now. See `from_arrow`.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import polars as pl
    >>> frame = pl.DataFrame({"sensor": ["a", "a"], "ts": [0, 20], "value": [1.0, 3.0]})
    >>> hp.from_polars(frame, key="sensor", time="ts").signal("value").sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    """
    whole = frame.collect() if hasattr(frame, "collect") else frame
    if not hasattr(whole, "to_arrow"):
        raise ParameterError(f"from_polars: needs a DataFrame or LazyFrame of Polars, got {_kind(frame)}")
    return stream(ArrowData(whole.to_arrow()), key=key, time=time, end=end, sequence=sequence, progress=progress)


@located
def read_csv(
    path: str | PathLike[str],
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    types: Mapping[str, str | pa.DataType] | None = None,
    delimiter: str = ",",
    null_values: Sequence[str] = ("",),
    time_format: str | None = None,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
) -> Stream:
    r"""Rows of CSV files as a stream of events; see `from_arrow`.

    Parameters
    ----------
    path : str
        A file, a folder (every ``*.csv`` under it, also compressed: ``.gz``, ``.bz2``, ``.zst``) or a pattern such as
        ``"2024-*/readings.csv"``. Every file starts with a header.
    key, time, end, sequence, progress :
        As in `from_arrow`. Times are ISO 8601, with a zone in all rows or in none, or numbers: integers in nanoseconds
        unless `time_unit` says otherwise.
    types : mapping, optional
        Types of columns by Arrow's names: ``{"sensor": "string", "value": "float64"}``. Other columns get the type that
        the beginning of the first file suggests, so a sensor ``007`` would be the number 7.
    delimiter : str
        The character between two cells.
    null_values : list of str
        Cells that hold no value. ``nan`` is a number and not among them unless stated.
    time_format : str, optional
        How timestamps are written if not in ISO 8601, as for ``strptime`` (without fractions of a second).
    time_unit : "s", "ms", "us" or "ns", optional
        What the numbers in the columns `time` and `end` count, and those of marks, from any origin such as 1970. They become
        integers in nanoseconds: exactly where they are integers, and to the nearest one where they are floats, which tell
        instants of today in seconds to some 240 ns.

    Raises
    ------
    DataError
        When the query runs and a cell has another type. The message names the file and, with the header as row 1, the row.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "readings.csv")
    >>> _ = file.write_text("sensor,ts,value\na,2024-01-01 10:00:00,1\na,2024-01-01 10:00:02,3\n")
    >>> readings = hp.read.csv(file, key="sensor", time="ts", types={"value": "float64"})
    >>> readings.signal("value").sample("1s", fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    >>> _ = file.write_text("time [s],value\n0.0,1.0\n0.5,3.0\n")
    >>> hp.read.csv(file, time="time [s]", time_unit="s").to_arrow()["time [s]"].to_pylist()
    [0, 500000000]
    """
    marks = progress.column if progress is not None else None
    data = CsvData(
        _path(path, "read.csv"),
        _names(key),
        tuple(filter(None, (time, end, marks))),
        tuple((name, _type(name, kind)) for name, kind in (types or {}).items()),
        Dialect(delimiter, tuple(null_values), time_format, time_unit),
    )
    return stream(data, key=key, time=time, end=end, sequence=sequence, progress=progress)


@located
def read_parquet(
    path: str | PathLike[str],
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
) -> Stream:
    """Rows of Parquet files as a stream of events; see `from_arrow`.

    The path is a file, a folder (every ``*.parquet`` under it; folders named ``column=value`` give columns) or a
    pattern such as ``"lake/day=2024-*/*.parquet"``. The columns are those of all files that are there now; rows of a file that
    lacks one have nulls in it.
    """
    return stream(
        ParquetData(_path(path, "read.parquet")), key=key, time=time, end=end, sequence=sequence, progress=progress
    )


@located
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

    if not hasattr(frame, "isStreaming"):
        raise ParameterError(f"from_spark: needs a DataFrame of Spark, got {_kind(frame)}")
    return stream(SparkData(frame), key=key, time=time, end=end, sequence=sequence, progress=progress)


@located
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
    data = ArrowData(_as_table(table, "from_segments"))
    return _segments(data, _names(key), time, samples, period, offset, None, progress)


@located
def read_segments(
    path: str | PathLike[str],
    *,
    key: Key = (),
    time: str,
    samples: str = "values",
    period: Duration = "period",
    offset: Any = 0,
    longest: Duration | None = None,
    progress: Policy | None = None,
) -> UniformSignal:
    """Rows of Parquet files that are segments of uniform signals, as ``to_parquet(..., shape="segments")`` writes them.

    Parameters
    ----------
    path : str
        As in `read_parquet`.
    key, time, samples, period, offset, progress :
        As in `from_segments`.
    longest : duration, optional
        A promise that no segment lasts longer, its last sample's period included; a longer one is an error. Files say when
        segments start, not how long they are: with the promise Spark may give every task a slice of the time.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "lake")
    >>> table = pa.table({"sensor": ["a", "a"], "ts": [0, 20], "values": [[1.0, 2.0], [4.0]]})
    >>> hp.from_segments(table, key="sensor", time="ts", period=10).to_parquet(folder, shape="segments")
    >>> hp.read.segments(folder, key="sensor", time="ts", period=10, longest=30).fir([1.0, -1.0]).to_arrow()["value"].to_pylist()
    [1.0, 1.0, 2.0]
    """
    most = None if longest is None else duration(longest)
    if most is not None and most < 1:
        raise ParameterError(f"read.segments: longest must be more than 0, got {longest!r}")
    return _segments(
        ParquetData(_path(path, "read.segments")), _names(key), time, samples, period, offset, most, progress
    )


def _segments(
    data: Data,
    key: tuple[str, ...],
    time: str,
    samples: str,
    period: Duration,
    offset: Any,
    longest: int | None,
    progress: Policy | None,
) -> UniformSignal:
    named = isinstance(period, str) and period in data.schema.names
    timebase = None if named else Timebase(exact_period(period), instant(offset))
    column = str(period) if named else None
    layout = Layout(data.schema, key, time, samples=samples, period=column, timebase=timebase, longest=longest)
    return UniformSignal(build(Source(data=data, layout=layout, progress=progress)))


@located
def stream(
    data: Data, *, key: Key, time: str, end: str | None, sequence: str | None, progress: Policy | None
) -> Stream:
    """A stream over any data."""
    layout = Layout(data.schema, _names(key), time, end, sequence)
    return Stream(build(Source(data=data, layout=layout, progress=progress)))


def _as_table(given: Any, what: str = "from_arrow") -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    raise ParameterError(
        f"{what}: needs a table of Arrow's, got {_kind(given)}",
        hint="make one: pa.table({'ts': [...], 'value': [...]})",
    )


def _from_pandas(frame: pd.DataFrame, wanted: list[str]) -> pa.Table:
    """The columns of a frame; the index is none of them."""
    in_index = [name for name in wanted if name in frame.index.names and name not in frame.columns]
    if in_index:
        raise ParameterError(
            f"from_pandas: {in_index[0]!r} is in the index, not a column", hint="make it one: frame.reset_index()"
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (ValueError, TypeError) as error:
        # Arrow's errors name what is wrong first, and the column after it.
        text = "; ".join(str(part) for part in error.args)
        raise ParameterError(f"from_pandas: Arrow cannot hold this frame: {text}") from error


def _path(path: object, what: str) -> str:
    if isinstance(path, str | PathLike):
        return os.fspath(path)
    raise ParameterError(
        f"{what}: path must be one file, folder or pattern, got {path!r}",
        hint='take a folder or a pattern for several files ("2024-*/*"), or read each and put them together: a.union(b)',
    )


def _kind(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")


def _names(key: Key) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _type(column: str, kind: str | pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(kind)
    except ValueError:
        raise ParameterError(
            f"read.csv: types: {column!r} has {kind!r}, which is no type",
            hint='for example "float64", "int64", "string", "bool", "timestamp[ns]"',
        ) from None
