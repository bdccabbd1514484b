"""Row expressions: Narwhals builds them; here they get an identity, a check, Arrow evaluation and push-down.

`col`, `lit` and `when` come from ``narwhals.stable.v2``, whose promise is that an expression written today means the
same in later releases; a query may live in a checkpoint for years. Those of Narwhals' main namespace are taken too.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Narwhals has no public way to read an expression; its list of nodes is touched in this module and nowhere else.
from narwhals._expression_parsing import ExprKind, ExprNode
from narwhals.dtypes import DType
from narwhals.exceptions import NarwhalsError
from narwhals.stable import v2 as stable
from narwhals.stable.v2 import col, lit, when
from numpy.typing import NDArray

from hydrophone.errors import DataError, ParameterError, SignalTypeError

__all__ = [
    "arrow_filter",
    "check_rowwise",
    "col",
    "evaluate",
    "keep",
    "lit",
    "names",
    "output_type",
    "sql_filter",
    "text",
    "when",
]

# --- reading the tree -------------------------------------------------------------------------------------------------


def _nodes(expr: object) -> tuple[ExprNode, ...]:
    if not isinstance(expr, nw.Expr):
        raise ParameterError(
            f"expected an expression, got {type(expr).__name__}",
            hint="an expression starts at a column: hp.col('x') > 0",
        )
    return expr._nodes


def _arguments(node: ExprNode) -> Iterator[Any]:
    """Yield the operands of `node`, with a string that means a column made into one."""
    for argument in node.exprs:
        yield col(argument) if isinstance(argument, str) and not node.str_as_lit else argument


def _walk(expr: object) -> Iterator[ExprNode]:
    for node in _nodes(expr):
        yield node
        for argument in _arguments(node):
            if isinstance(argument, nw.Expr):
                yield from _walk(argument)


def names(expr: nw.Expr) -> frozenset[str]:
    """Return the names of the columns that `expr` reads.

    Raises
    ------
    ParameterError
        If `expr` stands for several columns at once, such as ``nw.all()`` or ``col("x", "y")``.

    Examples
    --------
    >>> sorted(names(col("x") + col("y") > 3))
    ['x', 'y']
    """
    found: set[str] = set()
    for node in _walk(expr):
        columns = node.kwargs.get("names", ()) if node.kind is ExprKind.COL else ()
        if node.kind in _SEVERAL or len(columns) > 1:
            raise ParameterError(
                f"{node!r} stands for several columns, where one value per row is needed",
                hint="name one column: hp.col('x')",
            )
        found.update(columns)
        for key in ("partition_by", "order_by"):
            found.update(node.kwargs.get(key) or ())
    return frozenset(found)


_SEVERAL = frozenset({ExprKind.ALL, ExprKind.EXCLUDE, ExprKind.NTH, ExprKind.SELECTOR})
_ROWWISE = frozenset({ExprKind.COL, ExprKind.LITERAL, ExprKind.ELEMENTWISE, ExprKind.WHEN_THEN})
_AGGREGATES = frozenset({ExprKind.AGGREGATION, ExprKind.ORDERABLE_AGGREGATION})
# Without a format Narwhals guesses one from the first rows that it sees.
_GUESSES_FORMAT = frozenset({"str.to_datetime", "str.to_date", "str.to_time"})


def check_rowwise(expr: nw.Expr, what: str) -> None:
    """Refuse an expression whose value in a row depends on other rows.

    Rows come in chunks of any size, so an aggregate, ``shift`` or ``rank`` would depend on where the chunks were cut.

    Parameters
    ----------
    expr : narwhals.Expr
        The expression.
    what : str
        The operator that takes it, for the message.

    Raises
    ------
    ParameterError
        If `expr` looks at other rows, runs a function of the user's own, or stands for several columns.

    Examples
    --------
    >>> check_rowwise(col("x").abs() > 3, "where")
    >>> check_rowwise(col("x") > col("x").mean(), "where")
    Traceback (most recent call last):
        ...
    hydrophone.errors.ParameterError: where: mean() needs other rows, but an expression sees one row at a time
      Hint: aggregate over a window of time, such as .tumble('1min').agg(...)
    """
    names(expr)
    for node in _walk(expr):
        if node.name == "map_batches" or any(callable(value) for value in _values(node) if not _is_dtype(value)):
            raise _own_function(node.name, what)
        if node.name in _GUESSES_FORMAT and node.kwargs.get("format") is None:
            raise ParameterError(
                f"{what}: {node.name} without a format guesses it from the first rows",
                hint=f"write {node.name}('%Y-%m-%d') with the format of the text",
            )
        if node.kind not in _ROWWISE or any(isinstance(a, (nw.Series, np.ndarray)) for a in node.exprs):
            raise ParameterError(
                f"{what}: {node!r} needs other rows, but an expression sees one row at a time",
                hint="aggregate over a window of time, such as .tumble('1min').agg(...)"
                if node.kind in _AGGREGATES
                else "use an operator of the stream or signal, which knows about time and keys",
            )


def _values(node: ExprNode) -> Iterable[Any]:
    return node.kwargs.values()


def _own_function(name: str, what: str | None = None) -> ParameterError:
    prefix = "" if what is None else f"{what}: "
    return ParameterError(
        f"{prefix}{name} runs a Python function, which has no identity that a plan could keep",
        hint="write it with hp.col, or use .map(function) on the signal",
    )


# --- identity ---------------------------------------------------------------------------------------------------------


def text(expr: nw.Expr) -> str:
    """Return the text that identifies `expr`: equal for equal expressions, in every process.

    Literals keep their types: ``1``, ``1.0``, ``'1'`` and ``True`` are four texts.

    Raises
    ------
    ParameterError
        If `expr` holds a Python function or another value whose text could change from run to run.

    Examples
    --------
    >>> text((col("x") > 1) & col("s").is_in(["a"]))
    "col('x').__gt__(1).__and__(col('s').is_in(other=['a']))"
    """
    return ".".join(_node_text(node) for node in _nodes(expr))


def _node_text(node: ExprNode) -> str:
    if node.kind is ExprKind.COL:
        return f"col({', '.join(map(_value_text, node.kwargs['names']))})"
    if any(callable(value) for value in _values(node) if not _is_dtype(value)):
        raise _own_function(node.name)
    parts = [_value_text(argument) for argument in _arguments(node)]
    parts += [f"{key}={_value_text(value)}" for key, value in sorted(node.kwargs.items())]
    return f"{node.name}({', '.join(parts)})"


_PLAIN = (bool, int, float, str, bytes, Decimal, date, range)


def _is_dtype(value: object) -> bool:
    return isinstance(value, DType) or (isinstance(value, type) and issubclass(value, DType))


def _value_text(value: Any) -> str:
    # Exact types first: a subclass may print as it likes.
    if value is None or type(value) in _PLAIN or _is_dtype(value):
        return repr(value)
    if isinstance(value, nw.Expr):
        return text(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.generic):
        return f"{value.dtype}({value.item()!r})"
    if isinstance(value, (datetime, timedelta, time)):
        return _time_text(value)
    return _collection_text(value)


def _time_text(value: datetime | timedelta | time) -> str:
    # pandas has times in nanoseconds, of which Arrow's conversion would drop the last three digits without a word.
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise ParameterError(f"{value!r} has nanoseconds", hint="use numpy.datetime64 or numpy.timedelta64")
    if isinstance(value, timedelta):
        return f"timedelta({value // timedelta(microseconds=1)})"
    # isoformat has the offset and not the zone; the zone is part of the type of the result.
    return f"{'time' if isinstance(value, time) else 'datetime'}({value.isoformat()}, {pa.scalar(value).type})"


def _collection_text(value: Any) -> str:
    if type(value) in (list, tuple):
        inside = ", ".join(map(_value_text, value))
        return f"[{inside}]" if type(value) is list else f"({inside})"
    if type(value) in (set, frozenset):
        return f"{{{', '.join(sorted(map(_value_text, value)))}}}"
    if type(value) is dict:
        return f"{{{', '.join(f'{_value_text(k)}: {_value_text(v)}' for k, v in value.items())}}}"
    if isinstance(value, np.ndarray):
        return f"numpy({value.dtype}, {_value_text(value.tolist())})"
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return f"arrow({value.type}, {_value_text(value.to_pylist())})"
    raise ParameterError(
        f"a literal of type {type(value).__name__} has no identity that a plan could keep",
        hint="use numbers, text, times, or a list of these",
    )


# --- evaluation -------------------------------------------------------------------------------------------------------


def evaluate(expr: nw.Expr, table: pa.Table) -> pa.Array:
    """Return the value of `expr` in every row of `table`; a constant is repeated.

    Integers wrap at overflow, an integer beyond 2**53 that meets a float is an error, and comparisons follow IEEE
    (NaN equals nothing), as in Arrow. A literal time with a zone is an instant: it compares with columns of any zone.

    Raises
    ------
    ParameterError
        If a column is missing.
    SignalTypeError
        If an operation does not work on the types of its operands.
    DataError
        If a value cannot be converted.

    Examples
    --------
    >>> evaluate(col("x") * 2, pa.table({"x": [1, None]})).to_pylist()
    [2, None]
    """
    read = names(expr)
    _require(read, table.schema)
    if not read:
        # On one row of nothing: Arrow tables without columns have no rows to repeat a constant for.
        return pa.repeat(_compute(expr, pa.table({"": [None]}), "'")[0], len(table))
    # Longer than every column's name, so no column's name.
    return _compute(expr, table.select(sorted(read)), max(read, key=len) + "'").combine_chunks()


def keep(expr: nw.Expr, table: pa.Table) -> NDArray[np.bool_]:
    """Return which rows of `table` pass `expr`; null counts as False.

    Raises
    ------
    SignalTypeError
        If `expr` is not true or false; else as :func:`evaluate`.

    Examples
    --------
    >>> keep(col("x") > 1, pa.table({"x": [1, 2, None]})).tolist()
    [False, True, False]
    """
    values = evaluate(expr, table)
    if not pa.types.is_boolean(values.type):
        raise SignalTypeError(
            f"a condition must be true or false, but {expr!r} is {values.type}", hint="compare it: hp.col('x') > 0"
        )
    passed: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return passed


def output_type(expr: nw.Expr, schema: pa.Schema) -> pa.DataType:
    """Return the type that `expr` has on rows of `schema`; raises as :func:`evaluate`, but no DataError.

    Examples
    --------
    >>> output_type(col("x") / 2, pa.schema({"x": pa.int64()}))
    DataType(double)
    """
    read = [name for name in schema.names if name in names(expr)]
    _require(names(expr), schema)
    # A row of nulls and not an empty table: without rows Arrow does not look whether both times have a zone.
    nulls = pa.table({name: pa.nulls(1, schema.field(name).type) for name in read} or {"": [None]})
    try:
        return evaluate(expr, nulls).type
    except DataError as error:
        raise SignalTypeError(error.message, hint=error.hint) from error


def _require(read: Iterable[str], schema: pa.Schema) -> None:
    for name in sorted(read):
        if name not in schema.names:
            raise ParameterError(f"no column {name!r}; this stream has: {', '.join(schema.names)}")


def _compute(expr: nw.Expr, table: pa.Table, label: str) -> pa.ChunkedArray:
    try:
        frame = stable.from_native(table, eager_only=True)
        return frame.with_columns(_in_zone_of(table.schema, expr).alias(label)).to_native()[label]
    except (pa.ArrowException, NarwhalsError, TypeError, ValueError, NotImplementedError, OverflowError) as error:
        columns = ", ".join(f"{field.name}: {field.type}" for field in table.schema if field.name)
        message = f"{expr!r} does not work on {columns or 'constants'}: {str(error).strip()}"
        if len(table) and columns and isinstance(error, ValueError):
            raise DataError(message, hint="convert the column first, with .cast(...)") from error
        raise SignalTypeError(message, hint="convert one side first, with .cast(...)") from error


def _in_zone_of(schema: pa.Schema, expr: nw.Expr) -> nw.Expr:
    """Write the times in `expr` in the zone of the columns: Arrow compares instants of one zone only."""
    zones = {field.type.tz for field in schema if pa.types.is_timestamp(field.type) and field.type.tz}
    return _in_zone(expr, pa.lib.string_to_tzinfo(zones.pop())) if len(zones) == 1 else expr


def _in_zone(value: Any, zone: tzinfo) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(zone)
    if type(value) in (list, tuple, set, frozenset):
        return [_in_zone(item, zone) for item in value]
    if not isinstance(value, nw.Expr):
        return value
    nodes = [copy(node) for node in value._nodes]
    for node in nodes:
        node.exprs = tuple(_in_zone(argument, zone) for argument in node.exprs)
        if node.name in ("lit", "is_in", "replace_strict"):
            node.kwargs = {key: _in_zone(item, zone) for key, item in node.kwargs.items()}
    return nw.Expr(*nodes)


# --- push-down --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Test:
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
        Columns whose nulls must pass, because the source itself has a word to say on them.

    Returns
    -------
    pyarrow.compute.Expression or None
        None if no part can be checked.

    Examples
    --------
    >>> schema = pa.schema({"ts": pa.timestamp("us"), "x": pa.int64()})
    >>> arrow_filter((col("x") > 3) & (col("x") % 2 == 0), schema, ["ts"])
    <pyarrow.compute.Expression ((x > 3) or is_null(ts, {nan_is_null=false}))>
    """
    _require(keep_null, schema)
    parts = [_arrow_test(test) for test in _tests(_nodes(expr), schema)]
    if not parts:
        return None
    condition = parts[0]
    for part in parts[1:]:
        condition = condition & part
    for name in keep_null:
        condition = condition | pc.field(name).is_null()
    return condition


def sql_filter(expr: nw.Expr, schema: pa.Schema, keep_null: Sequence[str] = ()) -> str | None:
    """Return Spark SQL for a condition that passes at least the rows that `expr` passes, for ``DataFrame.where``.

    As :func:`arrow_filter`, and with no order on text, which in Spark follows the column's collation. Text that is
    not plain letters and digits is written in hexadecimal, so no setting of the parser changes what it means.

    Examples
    --------
    >>> schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "x": pa.int64(), "s": pa.string()})
    >>> sql_filter((col("x") > 3) & (col("s") == "it's"), schema, ["ts"])
    "(`x` > 3L AND `s` = CAST(X'69742773' AS STRING)) OR `ts` IS NULL"
    """
    _require(keep_null, schema)
    parts = [_sql_test(test) for test in _tests(_nodes(expr), schema) if _in_sql(test, schema)]
    if not parts or not all(_quotable(name, schema) for name in keep_null):
        return None
    return " OR ".join([f"({' AND '.join(parts)})", *(f"{_quoted(name)} IS NULL" for name in keep_null)])


def _tests(nodes: Sequence[ExprNode], schema: pa.Schema) -> Iterator[_Test]:
    nodes = [node for node in nodes if node.name != "alias"]
    if len(nodes) > 1 and nodes[-1].name == "__and__":
        yield from _tests(nodes[:-1], schema)
        for side in nodes[-1].exprs:
            yield from _tests(side._nodes, schema) if isinstance(side, nw.Expr) else ()
        return
    name, calls = _column(_turned(nodes))
    if name is not None and schema.names.count(name) == 1:
        yield from _column_tests(name, calls, schema.field(name).type)


def _turned(nodes: Sequence[ExprNode]) -> Sequence[ExprNode]:
    """Turn ``lit(3) < col("x")`` into ``col("x") > lit(3)``."""
    if len(nodes) != 2 or nodes[0].kind is not ExprKind.LITERAL or nodes[1].name not in _OPS:
        return nodes
    (other,) = nodes[1].exprs
    if not isinstance(other, nw.Expr) or len(other._nodes) != 1:
        return nodes
    call = copy(nodes[1])
    call.name = _FLIPPED.get(call.name, call.name)
    call.exprs = (nw.Expr(nodes[0]),)
    return (*other._nodes, call)


def _column(nodes: Sequence[ExprNode]) -> tuple[str | None, Sequence[ExprNode]]:
    if nodes and nodes[0].kind is ExprKind.COL and len(nodes[0].kwargs["names"]) == 1:
        return nodes[0].kwargs["names"][0], nodes[1:]
    return None, ()


def _column_tests(name: str, calls: Sequence[ExprNode], kind: pa.DataType) -> Iterator[_Test]:
    match [call.name for call in calls]:
        case []:
            yield from _compare(name, "=", True, kind)
        case ["is_null"]:
            yield _Test(name, "IS NULL")
        case ["is_null", "__invert__"]:
            yield _Test(name, "IS NOT NULL")
        case ["is_in"]:
            yield from _is_in(name, calls[0].kwargs["other"], kind)
        case ["is_between"]:
            for op, bound in zip(_CLOSED[calls[0].kwargs["closed"]], _arguments(calls[0]), strict=True):
                yield from _compare(name, op, _literal(bound), kind)
        case [op] if op in _OPS:
            yield from _compare(name, _OPS[op], _literal(next(_arguments(calls[0]))), kind)


def _literal(argument: Any) -> Any:
    """Return the value of a literal operand, else None, which no comparison passes and no source is asked about."""
    if not isinstance(argument, nw.Expr):
        return argument
    node = argument._nodes[0]
    bare = len(argument._nodes) == 1 and node.kind is ExprKind.LITERAL and node.kwargs["dtype"] is None
    return node.kwargs["value"] if bare else None


def _compare(name: str, op: str, value: Any, kind: pa.DataType) -> Iterator[_Test]:
    literal = _fit(value, kind)
    if literal is None or (pa.types.is_boolean(kind) and op not in ("=", "<>")):
        return
    if not pa.types.is_floating(kind):
        yield _Test(name, op, (literal,))
    elif literal.as_py() == 0 and op in ("=", "<=", ">="):
        # Parquet readers in Java order -0.0 before 0.0 in their dictionaries; a neighbour of zero is safe from that.
        if op != "<=":
            yield _Test(name, ">=", (pa.scalar(-_TINY),))
        if op != ">=":
            yield _Test(name, "<=", (pa.scalar(_TINY),))
    elif op != "<>":
        # NaN passes "not equal", but a file whose statistics say "all 3.0" may hold NaN as well.
        yield _Test(name, op, (literal,))


def _is_in(name: str, values: Any, kind: pa.DataType) -> Iterator[_Test]:
    # Not floats: Arrow tells -0.0 from 0.0 here, casts to 32 bits, and finds NaN.
    wanted = {int: pa.types.is_integer(kind), str: pa.types.is_string(kind) or pa.types.is_large_string(kind)}
    if type(values) not in (list, tuple, set, frozenset) or not 0 < len(values) <= _MANY:
        return
    literals = [_fit(value, kind) if wanted.get(type(value)) else None for value in values if value is not None]
    if literals and None not in literals:
        yield _Test(name, "IN", tuple(literals))


def _fit(value: Any, kind: pa.DataType) -> pa.Scalar | None:
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


def _arrow_test(test: _Test) -> pc.Expression:
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


def _in_sql(test: _Test, schema: pa.Schema) -> bool:
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


def _sql_test(test: _Test) -> str:
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
