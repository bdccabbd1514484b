"""How queries begin: `from_arrow`, `from_pandas` and `read`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from hydrophone.api import Stream, UniformSignal
from hydrophone.arguments import public
from hydrophone.connect import live
from hydrophone.connect.arrow import ArrowData, frame_table, polars_table
from hydrophone.connect.csv import CsvData, Dialect
from hydrophone.connect.parquet import ParquetData
from hydrophone.connect.synthetic import Synthetic
from hydrophone.errors import ParameterError
from hydrophone.model.halves import without_halves
from hydrophone.model.progress import Policy, ordered
from hydrophone.model.time import Duration, duration, instant
from hydrophone.model.time import period as exact_period
from hydrophone.model.timebase import Timebase
from hydrophone.plan.data import Data
from hydrophone.plan.node import build
from hydrophone.plan.source import Layout, Source

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame

Key = str | Sequence[str]
Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]
Columns: TypeAlias = Mapping[str, str | pa.DataType] | pa.Schema


@public
def from_arrow(
    table: pa.Table,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> Stream:
    """Rows of an Arrow table as a stream of events.

    Parameters
    ----------
    table : pyarrow.Table
        Or a record batch, or what else hands over Arrow's streams.
        Or a reader of record batches, an iterator or a generator of tables: `batches` and graphs read it as they go, and once; who
        asks for the whole answer gets it collected.
        Or a schema: the rows are pushed later, into a `Graph` or a query that is ``live()``.
    key : str or list of str
        The column or columns that tell signals apart.
    time, end : str
        The columns of lifetimes; without `end` events are points. Timestamps, or integers in nanoseconds.
    sequence : str, optional
        A column that orders events of one key and time before their other columns do, and by which `count_window` counts.
    progress : optional
        What is known about the order of rows: `ordered`, `delayed`, `punctuated`.
    name : str, optional
        What the source is called. A checkpoint knows a source by its name, else by kind and location of the data: with a name
        the data may move to another folder, and the query goes on.

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = pa.table({"sensor": ["a", "a"], "ts": [0, 20], "value": [1.0, 3.0]})
    >>> hp.from_arrow(rows, key="sensor", time="ts").signal("value").sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    """
    return read_data(_arrow_data(table), key=key, time=time, end=end, sequence=sequence, progress=progress, name=name)


@public
def from_pandas(
    frame: pd.DataFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    name: str | None = None,
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
    return read_data(
        ArrowData(without_halves(table)), key=key, time=time, end=end, sequence=sequence, progress=progress, name=name
    )


@public
def from_polars(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    name: str | None = None,
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
    return read_data(
        ArrowData(without_halves(polars_table(whole, "from_polars"))),
        key=key,
        time=time,
        end=end,
        sequence=sequence,
        progress=progress,
        name=name,
    )


@public
def read_csv(
    path: Paths,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    types: Mapping[str, str | pa.DataType] | None = None,
    schema: Columns | None = None,
    delimiter: str = ",",
    null_values: Sequence[str] = ("",),
    time_format: str | None = None,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    name: str | None = None,
) -> Stream:
    r"""Rows of CSV files as a stream of events; see `from_arrow`.

    Parameters
    ----------
    path : str or list of str
        A file, a folder (every ``*.csv`` under it, also compressed: ``.gz``, ``.bz2``, ``.zst``), a pattern such as
        ``"2024-*/readings.csv"``, or a list of these. Every file starts with a header.
    key, time, end, sequence, progress :
        As in `from_arrow`. Times are ISO 8601, with a zone in all rows or in none, or numbers: integers in nanoseconds
        unless `time_unit` says otherwise.
    types : mapping, optional
        Types of columns by Arrow's names: ``{"sensor": "string", "value": "float64"}``. Other columns get the type that
        the beginnings of the files suggest, so a sensor ``007`` would be the number 7; integers in one file and floats in
        another are floats.
    schema : mapping or pyarrow.Schema, optional
        All columns that are read with their types, instead of `types`; there need be no file yet.
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
    if types and schema is not None:
        raise ParameterError(
            "read.csv: types and schema both state types", hint="schema names all columns: leave types out"
        )
    data = CsvData(
        path_text(path, "read.csv"),
        _names(key),
        tuple(filter(None, (time, end, marks))),
        tuple((f.name, f.type) for f in _schema(types or {}, "read.csv: types")),
        Dialect(delimiter, tuple(null_values), time_format, time_unit),
        stated=_stated(schema, "read.csv"),
    )
    return read_data(data, key=key, time=time, end=end, sequence=sequence, progress=progress, name=name)


@public
def read_parquet(
    path: Paths,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    schema: Columns | None = None,
    name: str | None = None,
) -> Stream:
    """Rows of Parquet files as a stream of events; see `from_arrow`.

    The path is a file, a folder (every ``*.parquet`` under it; folders named ``column=value`` give columns), a
    pattern such as ``"lake/day=2024-*/*.parquet"``, or a list of these. The columns are those of all files that are there now; rows
    of a file that lacks one have nulls in it. A column whose type differs between files has the least type that holds the values of all.

    Parameters
    ----------
    schema : mapping or pyarrow.Schema, optional
        The columns that are read and their types, ``{"sensor": "string", "ts": "timestamp[us]", "value": "float64"}``,
        instead of those that the files have: these need not be there yet. A value that a type does not hold is an error.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import tempfile
    >>> hp.read.parquet(tempfile.mkdtemp(), time="ts", schema={"ts": "int64", "value": "float64"}).to_arrow().num_rows
    0
    """
    return read_data(
        ParquetData(path_text(path, "read.parquet"), stated=_stated(schema, "read.parquet")),
        key=key,
        time=time,
        end=end,
        sequence=sequence,
        progress=progress,
        name=name,
    )


@public
def from_spark(
    frame: DataFrame,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> Stream:
    """Rows of a Spark DataFrame, batch or streaming, as a stream of events; see `from_arrow`.

    Spark's timestamps are microseconds; finer times come as integers in nanoseconds.
    """
    from hydrophone.spark.dataframe_source import SparkData

    if not hasattr(frame, "isStreaming"):
        raise ParameterError(f"from_spark: needs a DataFrame of Spark, got {_kind(frame)}")
    return read_data(SparkData(frame), key=key, time=time, end=end, sequence=sequence, progress=progress, name=name)


@public
def from_segments(
    table: pa.Table,
    *,
    key: Key = (),
    time: str,
    samples: str = "values",
    period: Duration = "period",
    offset: Any = 0,
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Rows that are segments of uniform signals: a start, an array of samples and their spacing.

    Parameters
    ----------
    period : str or duration
        The column of spacings in nanoseconds, or one spacing for all rows (``"1ms"``, ``"44.1kHz"``).
    """
    data = ArrowData(without_halves(_as_table(table, "from_segments")))
    return _segments(data, _names(key), time, samples, period, offset, None, progress, name)


@public
def read_segments(
    path: Paths,
    *,
    key: Key = (),
    time: str,
    samples: str = "values",
    period: Duration = "period",
    offset: Any = 0,
    longest: Duration | None = None,
    progress: Policy | None = None,
    schema: Columns | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Rows of Parquet files that are segments of uniform signals, as ``to_parquet(..., shape="segments")`` writes them.

    Parameters
    ----------
    path, schema :
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
    data = ParquetData(path_text(path, "read.segments"), stated=_stated(schema, "read.segments"))
    return _segments(data, _names(key), time, samples, period, offset, most, progress, name)


def _segments(
    data: Data,
    key: tuple[str, ...],
    time: str,
    samples: str,
    period: Duration,
    offset: Any,
    longest: int | None,
    progress: Policy | None,
    name: str | None,
) -> UniformSignal:
    named = isinstance(period, str) and period in data.schema.names
    timebase = None if named else Timebase(exact_period(period), instant(offset))
    column = str(period) if named else None
    layout = Layout(data.schema, key, time, samples=samples, period=column, timebase=timebase, longest=longest)
    return UniformSignal(build(Source(data=data, layout=layout, progress=progress, label=name)))


@public
def read_data(
    data: Data | live.Source,
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> Stream:
    """Rows of a connector's data as a stream of events; see `from_arrow`.

    Parameters
    ----------
    data : hydrophone.plan.data.Data or hydrophone.Source
        A `hydrophone.Source` of your own, whose rows come while the query runs; or a format of files: see ``docs/add-a-connector.md``.

    Examples
    --------
    >>> import hydrophone as hp
    >>> from hydrophone.connect.arrow import ArrowData
    >>> rows = pa.table({"ts": [0, 20], "value": [1.0, 3.0]})
    >>> hp.read.data(ArrowData(rows), time="ts").signal("value").sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist()
    [1.0, 2.0, 3.0]
    """
    if isinstance(data, live.Source):
        data = live.SourceData(data)
    if not hasattr(data, "location"):
        raise ParameterError(
            f"read.data: needs the data of a connector, got {_kind(data)}",
            hint="for a table in memory there is hp.from_arrow, for files hp.read.parquet and hp.read.csv",
        )
    layout = Layout(data.schema, _names(key), time, end, sequence)
    return Stream(build(Source(data=data, layout=layout, progress=progress, label=name)))


@public
def read_synthetic(
    period: Duration = "1ms",
    *,
    rows: int | None = 1000,
    arrivals: Literal["constant", "poisson", "bursty"] = "constant",
    keys: int = 1,
    burst: int = 10,
    seed: int = 0,
    paced: bool = False,
    name: str | None = None,
) -> Stream:
    """Made-up rows with the columns ``key``, ``ts`` and ``value``, in the order of time: for trials and for measuring.

    Parameters
    ----------
    period : duration
        How far rows are apart on average.
    rows : int, optional
        How many; None: no end.
    arrivals : str
        ``"constant"``: one period apart; ``"poisson"``: exponentially; ``"bursty"``: `burst` rows close together, then a pause.
    keys, seed : int
        The number of keys, and the seed. Equal seeds give equal rows, however they are read.
    paced : bool
        Whether rows come as their times pass by the clock; otherwise as fast as they are read.

    Examples
    --------
    >>> import hydrophone as hp
    >>> hp.read.synthetic("10ns", rows=100).tumble(500).agg(n=hp.count()).to_arrow()["n"].to_pylist()
    [50, 50]
    """
    made = Synthetic(duration(period), rows, arrivals, keys=keys, burst=burst, seed=seed, paced=paced)
    return read_data(made, key="key", time="ts", progress=ordered(), name=name)


def _arrow_data(given: Any) -> Data:
    """The rows, or for a schema the columns of rows that will be pushed. What gives tables one after the other is read when it is asked."""
    if isinstance(given, pa.Schema):
        return live.PushedData(without_halves(given.empty_table()).schema)
    if isinstance(given, pa.RecordBatchReader):
        return live.ReadOnce(given, given.schema)
    if isinstance(given, Iterator):
        return live.ReadOnce(given)
    return ArrowData(without_halves(_as_table(given)))


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
    return frame_table(frame, "from_pandas")


def path_text(path: object, what: str) -> str | tuple[str, ...]:
    """A path, or several, as texts."""
    if isinstance(path, str | PathLike):
        return os.fspath(path)
    if isinstance(path, Sequence) and path and all(isinstance(p, str | PathLike) for p in path):
        return tuple(os.fspath(p) for p in path)
    raise ParameterError(
        f"{what}: path must be a file, folder or pattern, or a list of these, got {path!r}",
        hint='such as "readings.parquet", "lake/", "2024-*/*.parquet"',
    )


def _kind(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")


def _names(key: Key) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _stated(given: Columns | None, what: str) -> pa.Schema | None:
    return None if given is None else _schema(given, f"{what}: schema")


def _schema(given: Columns, what: str) -> pa.Schema:
    if isinstance(given, pa.Schema):
        return given
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"{what} must be a mapping of columns to types, got {given!r}", hint='for example {"value": "float64"}'
        )
    return pa.schema([(name, _type(name, kind, what)) for name, kind in given.items()])


def _type(column: str, kind: str | pa.DataType, what: str) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(kind)
    except ValueError:
        raise ParameterError(
            f"{what}: {column!r} has {kind!r}, which is no type",
            hint='for example "float64", "int64", "string", "bool", "timestamp[ns]"; with a zone pa.timestamp("us", "UTC")',
        ) from None
