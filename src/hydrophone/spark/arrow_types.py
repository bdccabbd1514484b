"""The types that cross between Arrow and Spark, and paths as Spark has them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError, PlanError
from hydrophone.plan.types import DataType, StreamType, UniformType, WindowedType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def local_path(path: str) -> str | None:
    """A path that may be one of this machine, without its scheme; None where the scheme says that it lies elsewhere.

    Examples
    --------
    >>> local_path("lake/a:b"), local_path("file:///lake"), local_path("hdfs://host/lake")
    ('lake/a:b', '/lake', None)
    """
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return path
    return "/" + rest.lstrip("/") if scheme == "file" else None


# --- the result, as Spark can hold it ---------------------------------------------------------------------------------


def spark_arrow_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark holds values of this one: what it picks itself when it reads such a Parquet file.

    Examples
    --------
    >>> spark_arrow_type(pa.timestamp("ns")), spark_arrow_type(pa.uint32())
    (TimestampType(timestamp[us]), DataType(int64))
    """
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(spark_arrow_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, spark_arrow_type(f.type), f.nullable) for f in kind])
    return kind


_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """All columns as Spark holds them: timestamps with a zone as TIMESTAMP, others as TIMESTAMP_NTZ."""
    return pa.schema([pa.field(f.name, spark_arrow_type(f.type)) for f in schema])


def spark_schema(schema: pa.Schema, never_null: Collection[str] = ()) -> StructType:
    """An Arrow schema in Spark's terms; the columns in `never_null` hold no nulls, at no depth.

    Spark copies what a Python task gives element by element, and where nulls may be it looks at each element, and of a
    complex number at both parts: a third of its work.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([_never_null_type(f) if f.name in never_null else f for f in schema]))


def _never_null_type(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_list(kind):
        kind = pa.list_(_never_null_type(kind.value_field))
    elif pa.types.is_struct(kind):
        kind = pa.struct([_never_null_type(f) for f in kind])
    return pa.field(field.name, kind, nullable=False)


def end_of(kind: DataType) -> str | None:
    """The column in which lifetimes end, or None."""
    return kind.end if isinstance(kind, StreamType) else None


def to_spark_types(table: pa.Table, schema: pa.Schema, end: str | None = None) -> pa.Table:
    """A result in the types that Spark holds; what would be lost is an error, but for ends of lifetimes, which are rounded up.

    A point ends a nanosecond after its start, and Spark's timestamps are whole microseconds.

    Examples
    --------
    >>> table = pa.table({"end": pa.array([3_000, 3_001], pa.timestamp("ns"))})
    >>> to_spark_types(table, spark_arrow_schema(table.schema), end="end")["end"].cast(pa.int64()).to_pylist()
    [3, 4]
    """
    columns = []
    for name, column, want in zip(schema.names, table.columns, schema.types, strict=True):
        if name == end and pa.types.is_timestamp(column.type) and column.type.unit == "ns" and column.type != want:
            column = _rounded_up(column).cast(column.type)
        columns.append(column if column.type == want else _cast(name, column, want))
    return pa.table(columns, schema=schema)


def _rounded_up(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Nanoseconds as whole microseconds, none earlier; nulls stay."""
    nanoseconds = column.cast(pa.int64())
    beyond = pc.subtract(nanoseconds, pc.multiply(pc.divide(nanoseconds, 1000), 1000))  # of negative ones: below zero
    return pc.add(pc.subtract(nanoseconds, beyond), pc.if_else(pc.greater(beyond, 0), 1000, 0))


def _cast(name: str, column: pa.ChunkedArray, want: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(want)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"to_spark: a value of {name!r} does not fit: {error}",
            hint="Spark's timestamps are whole microseconds: give all times as integers in nanoseconds"
            if pa.types.is_timestamp(want)
            else None,
        ) from error


def check_grid(kind: DataType) -> None:
    """Refuse a grid whose instants Spark's microseconds cannot show."""
    timebase = kind.timebase if isinstance(kind, UniformType | WindowedType) else None
    if kind.clock == "int" or timebase is None:
        return
    if timebase.period % 1000 or timebase.origin % 1000:
        raise PlanError(
            f"to_spark: {kind.describe()} lies between microseconds, and Spark's timestamps are whole ones",
            hint="give the time column as integer nanoseconds, and the result has them too",
        )


def to_plan_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows from Spark in the types that the plan knows: Spark writes instants in the zone of the session."""
    return table if table.schema.equals(schema) else table.cast(schema)
