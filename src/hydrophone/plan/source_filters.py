"""Row filters for sources: conditions as Arrow filters, and as Spark SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.plan.expr import ExprKind, ExprNode, arguments_of, calls_of, require
from hydrophone.plan.source import Layout

__all__ = ["arrow_filter", "row_filter", "sql_filter"]


@dataclass(frozen=True)
class _ColumnTest:
    """One condition on one column that a source can check; `op` as in SQL."""

    name: str
    op: str
    literals: tuple[pa.Scalar, ...] = ()


_OPS = {"__eq__": "=", "__ne__": "<>", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_FLIPPED = {"__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__"}
_CLOSED = {"both": (">=", "<="), "left": (">=", "<"), "right": (">", "<="), "none": (">", "<")}
_EXACT = 2**53
_TINY = 5e-324
_MANY = 1000


def arrow_filter(expr: nw.Expr, schema: pa.Schema, keep_null: Sequence[str] = ()) -> pc.Expression | None:
    """Return a filter for an Arrow dataset that passes at least the rows that `expr` passes.

    The parts of `expr` that a source can check are comparisons of a column with a literal, ``is_in``,
    ``is_between`` and ``is_null``, joined by ``&``. The others are left out, and :func:`keep` decides in the end.

    Parameters
    ----------
    expr : narwhals.Expr
        A condition.
    schema : pyarrow.Schema
        The columns as they are stored. Whether a part is safe depends on their types: Arrow narrows the literal
        ``2.0`` to 32 bits and an integer column with it, and a Parquet file's statistics do not count NaN.
    keep_null : sequence of str
        Columns whose nulls must pass, because the source itself reports them.

    Returns
    -------
    pyarrow.compute.Expression or None
        None if no part can be checked.

    Examples
    --------
    >>> schema = pa.schema({"ts": pa.timestamp("us"), "x": pa.int64()})
    >>> col = nw.col
    >>> arrow_filter((col("x") > 3) & (col("x") % 2 == 0), schema, ["ts"])
    <pyarrow.compute.Expression ((x > 3) or is_null(ts, {nan_is_null=false}))>
    """
    require(keep_null, schema)
    parts = [_arrow_test(test) for test in _filter_tests(calls_of(expr), schema)]
    if not parts:
        return None
    condition = parts[0]
    for part in parts[1:]:
        condition = condition & part
    for name in keep_null:
        condition = condition | pc.field(name).is_null()
    return condition


def row_filter(layout: Layout, conditions: Sequence[nw.Expr]) -> pc.Expression | None:
    """Return a filter for a reader of a source: at least the rows that meet all conditions, and those that are errors."""
    parts = [arrow_filter(c, layout.schema, [*layout.key, layout.time]) for c in conditions]
    found = [p for p in parts if p is not None]
    if not found:
        return None
    passed = found[0]
    for part in found[1:]:
        passed = passed & part
    if layout.end is None:
        return passed
    start, end = pc.field(layout.time), pc.field(layout.end)
    if layout.schema.field(layout.end).type != layout.schema.field(layout.time).type:
        return None
    return passed | (end <= start) | end.is_null()


def sql_filter(expr: nw.Expr, schema: pa.Schema, keep_null: Sequence[str] = ()) -> str | None:
    """Return Spark SQL for a condition that passes at least the rows that `expr` passes, for ``DataFrame.where``.

    As :func:`arrow_filter`, and with no order on text, which in Spark follows the column's collation. Text that is
    not plain letters and digits is written in hexadecimal, so no setting of the parser changes what it means.

    Examples
    --------
    >>> schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "x": pa.int64(), "s": pa.string()})
    >>> col = nw.col
    >>> sql_filter((col("x") > 3) & (col("s") == "it's"), schema, ["ts"])
    "(`x` > 3L AND `s` = CAST(X'69742773' AS STRING)) OR `ts` IS NULL"
    """
    require(keep_null, schema)
    parts = [_sql_test(test) for test in _filter_tests(calls_of(expr), schema) if _in_sql(test, schema)]
    if not parts or not all(_quotable(name, schema) for name in keep_null):
        return None
    return " OR ".join([f"({' AND '.join(parts)})", *(f"{_quoted(name)} IS NULL" for name in keep_null)])


def _filter_tests(nodes: Sequence[ExprNode], schema: pa.Schema) -> Iterator[_ColumnTest]:
    nodes = [node for node in nodes if node.name != "alias"]
    if len(nodes) > 1 and nodes[-1].name == "__and__":
        yield from _filter_tests(nodes[:-1], schema)
        for side in nodes[-1].exprs:
            yield from _filter_tests(calls_of(side), schema) if isinstance(side, nw.Expr) else ()
        return
    name, calls = _column(_column_first(nodes))
    if name is not None and schema.names.count(name) == 1:
        yield from _column_tests(name, calls, schema.field(name).type)


def _column_first(nodes: Sequence[ExprNode]) -> Sequence[ExprNode]:
    """Turn ``lit(3) < col("x")`` into ``col("x") > lit(3)``."""
    if len(nodes) != 2 or nodes[0].kind is not ExprKind.LITERAL or nodes[1].name not in _OPS:
        return nodes
    (other,) = nodes[1].exprs
    if not isinstance(other, nw.Expr) or len(calls_of(other)) != 1:
        return nodes
    call = copy(nodes[1])
    call.name = _FLIPPED.get(call.name, call.name)
    call.exprs = (nw.Expr(nodes[0]),)
    return (*calls_of(other), call)


def _column(nodes: Sequence[ExprNode]) -> tuple[str | None, Sequence[ExprNode]]:
    if nodes and nodes[0].kind is ExprKind.COL and len(nodes[0].kwargs["names"]) == 1:
        return nodes[0].kwargs["names"][0], nodes[1:]
    return None, ()


def _column_tests(name: str, calls: Sequence[ExprNode], kind: pa.DataType) -> Iterator[_ColumnTest]:
    match [call.name for call in calls]:
        case []:
            yield from _compare(name, "=", True, kind)
        case ["is_null"]:
            yield _ColumnTest(name, "IS NULL")
        case ["is_null", "__invert__"]:
            yield _ColumnTest(name, "IS NOT NULL")
        case ["is_in"]:
            yield from _is_in(name, calls[0].kwargs["other"], kind)
        case ["is_between"]:
            for op, bound in zip(_CLOSED[calls[0].kwargs["closed"]], arguments_of(calls[0]), strict=True):
                yield from _compare(name, op, _literal(bound), kind)
        case [op] if op in _OPS:
            yield from _compare(name, _OPS[op], _literal(next(arguments_of(calls[0]))), kind)


def _literal(argument: Any) -> Any:
    """Return the value of a literal operand, else None; comparisons with None are not pushed down."""
    if not isinstance(argument, nw.Expr):
        return argument
    node = calls_of(argument)[0]
    bare = len(calls_of(argument)) == 1 and node.kind is ExprKind.LITERAL and node.kwargs["dtype"] is None
    return node.kwargs["value"] if bare else None


def _compare(name: str, op: str, value: Any, kind: pa.DataType) -> Iterator[_ColumnTest]:
    literal = _comparable_literal(value, kind)
    if literal is None or (pa.types.is_boolean(kind) and op not in ("=", "<>")):
        return
    if not pa.types.is_floating(kind):
        yield _ColumnTest(name, op, (literal,))
    elif literal.as_py() == 0 and op in ("=", "<=", ">="):
        # Parquet readers in Java order -0.0 before 0.0 in their dictionaries; a neighbour of zero is safe from that.
        if op != "<=":
            yield _ColumnTest(name, ">=", (pa.scalar(-_TINY),))
        if op != ">=":
            yield _ColumnTest(name, "<=", (pa.scalar(_TINY),))
    elif op != "<>":
        # NaN passes "not equal", but a file whose statistics say "all 3.0" may hold NaN as well.
        yield _ColumnTest(name, op, (literal,))


def _is_in(name: str, values: Any, kind: pa.DataType) -> Iterator[_ColumnTest]:
    # Not floats: Arrow tells -0.0 from 0.0 here, casts to 32 bits, and finds NaN.
    wanted = {int: pa.types.is_integer(kind), str: pa.types.is_string(kind) or pa.types.is_large_string(kind)}
    if type(values) not in (list, tuple, set, frozenset) or not 0 < len(values) <= _MANY:
        return
    literals = [
        _comparable_literal(value, kind) if wanted.get(type(value)) else None for value in values if value is not None
    ]
    if literals and None not in literals:
        yield _ColumnTest(name, "IN", tuple(literals))


def _comparable_literal(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """Return `value` as a literal that every engine compares with a column of type `kind` alike, else None."""
    if isinstance(value, (np.bool_, np.integer, np.float64)):
        value = value.item()
    fit = next((fit for matches, fit in _FITS if matches(kind)), None)
    return None if fit is None else fit(value, kind)


def _fit_boolean(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    return pa.scalar(value) if type(value) is bool else None


def _fit_integer(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    # Not a float: Arrow refuses integers beyond 2**53 then, and a source that drops them first would hide it.
    # Not unsigned 64 bits: Arrow compares them with literals as signed ones.
    fits = type(value) is int and -(2**63) <= value < 2**63 and not pa.types.is_uint64(kind)
    return pa.scalar(value, pa.int64()) if fits else None


def _fit_float(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    fits = (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) <= _EXACT)
    return pa.scalar(float(value), pa.float64()) if fits and not pa.types.is_float16(kind) else None


def _fit_text(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    fits = type(value) is str and value.encode("utf-8", "ignore").decode() == value
    return pa.scalar(value, pa.string()) if fits else None


def _fit_date(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    return pa.scalar(value, pa.date32()) if type(value) is date else None


def _fit_timestamp(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    if type(value) is not datetime or (value.tzinfo is None) != (kind.tz is None):
        return None
    epoch = datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else UTC)
    ticks, rest = divmod((value - epoch) // timedelta(microseconds=1) * 1000, _NANOSECONDS[kind.unit])
    return pa.scalar(ticks, kind) if rest == 0 and abs(ticks) < 2**63 else None


_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_FITS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], pa.Scalar | None]], ...] = (
    (pa.types.is_boolean, _fit_boolean),
    (pa.types.is_integer, _fit_integer),
    (pa.types.is_floating, _fit_float),
    (pa.types.is_string, _fit_text),
    (pa.types.is_large_string, _fit_text),
    (pa.types.is_date32, _fit_date),
    (pa.types.is_timestamp, _fit_timestamp),
)


def _arrow_test(test: _ColumnTest) -> pc.Expression:
    field = pc.field(test.name)
    match test.op:
        case "IS NULL":
            return field.is_null()
        case "IS NOT NULL":
            return field.is_valid()
        case "IN":
            return field.isin(pa.array([value.as_py() for value in test.literals], test.literals[0].type))
    (value,) = test.literals
    compared = {"=": field == value, "<>": field != value, "<": field < value, "<=": field <= value}
    return (compared | {">": field > value, ">=": field >= value})[test.op]


def _in_sql(test: _ColumnTest, schema: pa.Schema) -> bool:
    kind = schema.field(test.name).type
    if pa.types.is_unsigned_integer(kind) or not _quotable(test.name, schema):
        return False
    if pa.types.is_timestamp(kind):
        return all(value.value * _NANOSECONDS[kind.unit] % 1000 == 0 for value in test.literals)
    # A collation only makes more texts equal, but it may order them differently.
    return test.op in ("=", "IN") or not any(pa.types.is_string(value.type) for value in test.literals)


def _quotable(name: str, schema: pa.Schema) -> bool:
    # Spark replaces ${...} even within quotes, and does not tell x from X.
    same = [other for other in schema.names if other.lower() == name.lower()]
    return name != "" and "${" not in name and len(same) == 1


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _sql_test(test: _ColumnTest) -> str:
    literals = [_sql_literal(value) for value in test.literals]
    right = f" ({', '.join(literals)})" if test.op == "IN" else "".join(f" {value}" for value in literals)
    return f"{_quoted(test.name)} {test.op}{right}"


def _sql_literal(literal: pa.Scalar) -> str:
    kind = literal.type
    if pa.types.is_timestamp(kind):
        micros = literal.value * _NANOSECONDS[kind.unit] // 1000
        if kind.tz is not None:
            return f"timestamp_micros({micros}L)"
        return f"TIMESTAMP_NTZ '{datetime(1970, 1, 1) + timedelta(microseconds=micros)}'"
    value = literal.as_py()
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z0-9 _.:/-]*", value)
        return f"'{value}'" if plain else f"CAST(X'{value.encode().hex().upper()}' AS STRING)"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, bool):
        return str(value).upper()
    return f"{value!r}{'L' if isinstance(value, int) else 'D'}"
