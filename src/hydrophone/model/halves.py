"""Numbers of half precision, which neither Arrow, Numba nor Spark computes with: single precision holds the same numbers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import SignalTypeError


def holds_halves(kind: pa.DataType) -> bool:
    """Whether a column has numbers of half precision, itself or in its parts."""
    return kind == pa.float16() or any(holds_halves(kind.field(i).type) for i in range(kind.num_fields))


def single(kind: pa.DataType) -> pa.DataType:
    """The type that holds the same numbers, and none of half precision.

    Examples
    --------
    >>> str(single(pa.struct([("x", pa.float16()), ("n", pa.int8())]))), str(single(pa.list_(pa.float16(), 2)))
    ('struct<x: float, n: int8>', 'fixed_size_list<item: float>[2]')
    """
    if kind == pa.float16():
        return pa.float32()
    if not holds_halves(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(single(f.type)) for f in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(single(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return made(single(kind.value_type))
    raise SignalTypeError(f"a {kind} holds numbers of half precision", hint="cast them to float32 first")


def without_halves(table: pa.Table) -> pa.Table:
    """The same numbers in single precision, where some have half of it: neither Arrow nor Spark computes with those.

    Examples
    --------
    >>> without_halves(pa.table({"v": pa.array([0.5, 1.5], pa.float16())})).schema.types
    [DataType(float)]
    """
    if not any(holds_halves(f.type) for f in table.schema):
        return table
    columns = [_widened(c, single(c.type)) if holds_halves(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _widened(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """By way of its parts: Arrow casts no structs and lists of halves."""
    return pa.chunked_array([_part_widened(chunk, kind) for chunk in column.chunks], kind)


def _part_widened(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    there = values.is_valid()
    if pa.types.is_struct(kind):
        fields = [_part_widened(values.field(i), f.type) for i, f in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.invert(there))
    if pa.types.is_float32(kind):
        return values.cast(kind)
    return pa.array(values.to_pylist(), kind)  # lists
