"""Columns whose types differ between files: one type that holds the values of all, or an error that names the files.

The rules are the same for every format and engine. A column has in a query the least type that holds all values of all files
(`merge`). Every file is then brought to it (`conform`), value by value where the types alone do not promise that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError
from hydrophone.plan.source import plain_type

_HINT = "write the column with one type in all files, or read them apart and put them together with union"
_UNITS = ("s", "ms", "us", "ns")
_DIGITS = {1: 3, 2: 5, 4: 10, 8: 19}
"""Decimal digits of integers by their bytes, as Arrow counts them; those of uint64 are one more."""
_SIGNIFICANT = {2: 11, 4: 24, 8: 53}
"""Bits of a whole number that a float of so many bytes holds."""


# --- one type for two -------------------------------------------------------------------------------------------------


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The least type for the values of two; None where they mean different things.

    No type holds all 64-bit integers and floats, or those with and without a sign. They get double and int64, and `conform`
    refuses the values that do not fit.

    Examples
    --------
    >>> common(pa.float32(), pa.float64()), common(pa.int32(), pa.float32()), common(pa.int16(), pa.uint16())
    (DataType(double), DataType(double), DataType(int32))
    >>> common(pa.timestamp("us"), pa.timestamp("ns"))
    TimestampType(timestamp[ns])
    >>> common(pa.timestamp("us"), pa.timestamp("us", "UTC")), common(pa.bool_(), pa.int8())
    (None, None)
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    one, other = plain_type(one), plain_type(other)
    if one == other:
        return one
    return next((found for rule in _RULES if (found := rule(one, other)) is not None), None)


def _numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return _integers(one, other)
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    if pa.types.is_floating(one):
        one, other = other, one
    if pa.types.is_integer(one) and pa.types.is_floating(other):
        floats = (pa.float16(), pa.float32(), pa.float64())
        wide = (f for f in floats if f.bit_width >= other.bit_width and _holds(f, one))
        return next(wide, pa.float64())
    return None


def _integers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if _signed(one) == _signed(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    signed, unsigned = (one, other) if _signed(one) else (other, one)
    wide = (i for i in (pa.int16(), pa.int32(), pa.int64()) if i.bit_width > unsigned.bit_width)
    return max(next(wide, pa.int64()), signed, key=lambda kind: kind.bit_width)


def _signed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind))


def _holds(floating: pa.DataType, integer: pa.DataType) -> bool:
    """Whether a float holds every value of an integer."""
    return _SIGNIFICANT[floating.bit_width // 8] >= integer.bit_width - _signed(integer)


def _decimals(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    sizes = [_decimal_size(kind) for kind in (one, other)]
    if not (pa.types.is_decimal(one) or pa.types.is_decimal(other)) or None in sizes:
        return None
    whole, scale = (max(size[n] for size in sizes if size) for n in (0, 1))
    return pa.decimal128(whole + scale, scale) if whole + scale <= 38 else None


def _decimal_size(kind: pa.DataType) -> tuple[int, int] | None:
    """Digits before and after the point."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    if pa.types.is_integer(kind):
        return _DIGITS[kind.bit_width // 8] + (kind == pa.uint64()), 0
    return None


def _times(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        # The zone itself is a way to write an instant: `plain_type` has made it UTC.
        return pa.timestamp(_finer(one, other), one.tz) if one.tz == other.tz else None
    if pa.types.is_duration(one) and pa.types.is_duration(other):
        return pa.duration(_finer(one, other))
    if pa.types.is_time(one) and pa.types.is_time(other):
        unit = _finer(one, other)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return pa.date32() if pa.types.is_date(one) and pa.types.is_date(other) else None


def _finer(one: pa.DataType, other: pa.DataType) -> str:
    return max(one.unit, other.unit, key=_UNITS.index)


def _bytes(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    kinds = (pa.types.is_binary, pa.types.is_fixed_size_binary)
    return pa.binary() if all(any(is_kind(t) for is_kind in kinds) for t in (one, other)) else None


def _lists(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (_is_list(one) and _is_list(other)):
        return None
    values = common(one.value_type, other.value_type)
    if values is None:
        return None
    sizes = {t.list_size if pa.types.is_fixed_size_list(t) else None for t in (one, other)}
    if len(sizes) == 1 and None not in sizes:
        return pa.list_(values, sizes.pop())
    return pa.large_list(values) if any(pa.types.is_large_list(t) for t in (one, other)) else pa.list_(values)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _structs(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (pa.types.is_struct(one) and pa.types.is_struct(other)):
        return None
    fields = {f.name: f for f in one}
    for f in other:
        kind = common(fields[f.name].type, f.type) if f.name in fields else f.type
        if kind is None:
            return None
        fields[f.name] = fields.get(f.name, f).with_type(kind).with_nullable(True)
    return pa.struct(list(fields.values()))


_RULES: tuple[Callable[[pa.DataType, pa.DataType], pa.DataType | None], ...] = (
    _numbers,
    _decimals,
    _times,
    _bytes,
    _lists,
    _structs,
)


# --- one schema for all files -----------------------------------------------------------------------------------------


@dataclass
class Merged:
    """The columns of some files together.

    Attributes
    ----------
    schema : every column once, in the order in which files first have it
    files : by column a file that has it with its type
    conflicts : by column the error for whoever reads it; a column that nobody reads may be anything
    """

    schema: pa.Schema
    files: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, DataError] = field(default_factory=dict)

    def check(self, columns: Iterable[str]) -> None:
        """Refuse to read a column that has no one type."""
        for name in columns:
            if name in self.conflicts:
                raise self.conflicts[name]


def merge(found: Iterable[tuple[str, pa.Schema]], *, what: str, hint: str = _HINT) -> Merged:
    """The columns of files, each with the least type that holds the values of all.

    Examples
    --------
    >>> old, new, odd = (pa.schema([("v", t)]) for t in (pa.float32(), pa.float64(), pa.string()))
    >>> merge([("a.parquet", old), ("b.parquet", new)], what="read.parquet").schema.types
    [DataType(double)]
    >>> merge([("a.parquet", old), ("c.parquet", odd)], what="read.parquet").check(["v"])
    Traceback (most recent call last):
    hydrophone.errors.DataError: read.parquet: column 'v' is float in a.parquet and string in c.parquet
      Hint: write the column with one type in all files, or read them apart and put them together with union
    """
    merged = Merged(pa.schema([]))
    fields: dict[str, pa.Field] = {}
    last: pa.Schema | None = None
    for file, schema in found:
        if last is not None and schema.equals(last):
            continue
        last = schema
        if len(set(schema.names)) < len(schema.names):
            return Merged(schema)  # two columns of one name, which whoever reads them is told
        for column in schema:
            _add(merged, fields, file, column, what, hint)
    merged.schema = pa.schema(list(fields.values()))
    return merged


def _add(merged: Merged, fields: dict[str, pa.Field], file: str, column: pa.Field, what: str, hint: str) -> None:
    name = column.name
    known = fields.get(name)
    if known is None:
        fields[name], merged.files[name] = column, file
        return
    kind = common(known.type, column.type)
    if kind is None:
        told = f"{what}: column {name!r} is {known.type} in {merged.files[name]} and {column.type} in {file}"
        merged.conflicts.setdefault(name, DataError(told + _reason(known.type, column.type), hint=hint))
    elif known.type != column.type:
        both = "\n".join((merged.files[name], file))
        if kind != known.type:
            merged.files[name] = file
        fields[name] = known.with_type(kind).with_metadata({_BECAUSE: both})


_BECAUSE = b"hydrophone:because"
"""In the metadata of a column whose type differs between files: the two that made it what it is. It travels to tasks with the schema."""


def _because(column: pa.Field, file: str) -> str:
    """Which other file made a type what it is, for errors."""
    files = (column.metadata or {}).get(_BECAUSE, b"").decode().splitlines()
    return next((f" because of {other}" for other in files if other != file), "")


def _reason(one: pa.DataType, other: pa.DataType) -> str:
    both = pa.types.is_timestamp(one) and pa.types.is_timestamp(other)
    return ": with a zone a time is an instant, without one it may be any of 24 hours" if both else ""


# --- a file in the types of the query ---------------------------------------------------------------------------------


def as_found(schema: pa.Schema, found: pa.Schema, columns: Iterable[str], file: str, *, what: str) -> pa.Schema:
    """The schema with the types that a file has, to read it with; the same object where none differs.

    Refuses a file in which a column means something else than in the query.

    Examples
    --------
    >>> query, file = pa.schema([("v", pa.float64()), ("w", pa.string())]), pa.schema([("v", pa.float32())])
    >>> as_found(query, file, ["v", "w"], "a.parquet", what="read.parquet").types
    [DataType(float), DataType(string)]
    """
    own = schema
    for name in columns:
        if name not in found.names or name not in schema.names:
            continue  # a column that a file lacks is null there; folders have columns of their own
        here, wanted = found.field(name).type, schema.field(name).type
        if here == wanted:
            continue
        if common(here, wanted) is None:
            raise DataError(
                f"{what}: {file}: column {name!r} is {here}, and the query reads it as {wanted}"
                + _reason(here, wanted),
                hint=_LATER,
            )
        own = own.set(own.get_field_index(name), own.field(name).with_type(here))
    return own


_LATER = (
    "write the file again with the type of the query, and run it again; for another type in the query start it anew "
    "(a stream with a new checkpoint), with all files there or with schema=..."
)


def conform(table: pa.Table, schema: pa.Schema, file: str, *, what: str) -> pa.Table:
    """The rows of a file with the columns of the query, in their order and types; what a file lacks is null.

    A value that would change is an error.

    Examples
    --------
    >>> query = pa.schema([("v", pa.float64())])
    >>> conform(pa.table({"v": [1, 2]}), query, "a.parquet", what="read.parquet")["v"].to_pylist()
    [1.0, 2.0]
    >>> try:
    ...     conform(pa.table({"v": [2**53 + 1]}), query, "a.parquet", what="read.parquet")
    ... except DataError as error:
    ...     print(error.message)
    read.parquet: a.parquet: column 'v' is int64, and the query reads it as double, which does not hold 9007199254740993
    """
    if table.schema.names == schema.names and table.schema.types == schema.types:
        return table
    as_found(schema, table.schema, schema.names, file, what=what)
    columns = []
    for wanted in schema:
        if wanted.name not in table.column_names:
            columns.append(pa.chunked_array([pa.nulls(len(table), wanted.type)]))
            continue
        column = table[wanted.name]
        try:
            columns.append(pa.chunked_array([_converted(chunk, wanted.type) for chunk in column.chunks], wanted.type))
        except _DoesNotHold as error:
            raise DataError(
                f"{what}: {file}: column {wanted.name!r} is {column.type}, and the query reads it as {wanted.type}"
                f"{_because(wanted, file)}, which does not hold {error}",
                hint=_LATER,
            ) from None
    return pa.table(columns, schema=schema)


class _DoesNotHold(Exception):
    """A value that another type does not hold."""


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    here = array.type
    if here == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if pa.types.is_dictionary(here):
        return _converted(array.dictionary_decode(), kind)
    if pa.types.is_dictionary(kind):
        return _converted(array, kind.value_type).dictionary_encode().cast(kind)
    if _is_list(here) and _is_list(kind):
        return _list(array, kind)
    if pa.types.is_struct(here) and pa.types.is_struct(kind):
        return _struct(array, kind)
    if _is_number(here) and _is_number(kind) and (pa.types.is_floating(here) or pa.types.is_floating(kind)):
        return _number(array, kind)
    try:
        if pa.types.is_integer(here) and pa.types.is_decimal(kind):
            # Arrow refuses by the digits that the type could have: by way of a type with room for them, it looks at the values.
            array = array.cast(pa.decimal256(20 + kind.scale, kind.scale))
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _DoesNotHold(f"all values: {error}") from None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values inside converted, around them Arrow's own cast between kinds of lists.

    Of a slice only its own values: rows come in slices of one array, and to convert all of them for each would be quadratic.
    """
    mask = array.is_null() if array.null_count else None
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        values = _converted(array.values.slice(array.offset * size, len(array) * size), kind.value_type)
        inner = pa.FixedSizeListArray.from_arrays(values, size, mask=mask)
    else:
        offsets = array.offsets.to_numpy()
        values = _converted(array.values.slice(offsets[0], offsets[-1] - offsets[0]), kind.value_type)
        made = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
        inner = made.from_arrays(pa.array(offsets - offsets[0]), values, mask=mask)
    try:
        return inner.cast(kind)
    except pa.ArrowInvalid as error:
        raise _DoesNotHold(f"all lists: {error}") from None


def _struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    for name in {f.name for f in array.type} - {f.name for f in kind}:
        if array.field(name).null_count < len(array):
            raise _DoesNotHold(f"its field {name!r}")
    known = {f.name for f in array.type}
    parts = [_converted(array.field(f.name), f.type) if f.name in known else pa.nulls(len(array), f.type) for f in kind]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())


def _number(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Between integers and floats, and from wide floats to narrow ones: Arrow rounds these without a word."""
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    values = array.fill_null(pa.scalar(0).cast(array.type)).to_numpy(zero_copy_only=False)
    to = np.dtype(kind.to_pandas_dtype())
    with np.errstate(all="ignore"):
        made = values.astype(to)
        kept = _kept(values, made) | nulls
    if not kept.all():
        raise _DoesNotHold(str(values[~kept][0]))
    return pa.array(made, kind, mask=nulls)


def _kept(values: npt.NDArray[Any], made: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values are the same after they were cast."""
    if values.dtype.kind == "f" and made.dtype.kind == "f":
        same: npt.NDArray[np.bool_] = (made.astype(values.dtype) == values) | np.isnan(values)
        return same
    integers, floats = (made, values) if values.dtype.kind == "f" else (values, made)
    # A float below 2**63 is compared as an integer, because a comparison as floats would round the integer.
    limits = np.iinfo(integers.dtype)
    wide = floats.astype(np.float64)
    inside = (wide >= float(limits.min)) & (wide < float(limits.max) + (1 if limits.bits < 53 else 0))
    back = np.where(inside, wide, 0).astype(integers.dtype)
    whole = back.astype(np.float64) == wide
    zero = (wide != 0) | ~np.signbit(wide)  # an integer has no -0.0
    found: npt.NDArray[np.bool_] = inside & whole & zero & (back == integers)
    return found


def equal_to(column: pa.ChunkedArray, value: object) -> bool:
    """Whether a column holds one value alone; None is null.

    Examples
    --------
    >>> equal_to(pa.chunked_array([[3, 3]]), 3), equal_to(pa.chunked_array([[3, None]]), 3)
    (True, False)
    """
    if value is None:
        return bool(column.null_count == len(column))
    same = pc.equal(column, pa.scalar(value, column.type))
    return bool(pc.all(pc.fill_null(same, False)).as_py() is not False)
