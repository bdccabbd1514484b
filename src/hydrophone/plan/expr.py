"""Row expressions: Narwhals builds them; here they get an identity, a check and Arrow evaluation.

`col`, `lit` and `when` come from ``narwhals.stable.v2``, whose promise is that an expression written today means the
same in later releases; a query may live in a checkpoint for years. Those of Narwhals' main namespace are taken too.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from copy import copy
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Narwhals has no public way to read an expression; only this module uses its list of nodes.
from narwhals._expression_parsing import ExprKind, ExprNode
from narwhals.dtypes import DType
from narwhals.exceptions import NarwhalsError
from narwhals.stable import v2 as stable
from narwhals.stable.v2 import col, lit, when
from numpy.typing import NDArray

from hydrophone.errors import DataError, ParameterError, SignalTypeError

__all__ = [
    "ExprKind",
    "ExprNode",
    "arguments_of",
    "calls_of",
    "check_rowwise",
    "col",
    "column_names",
    "compared",
    "evaluate",
    "expression_text",
    "lit",
    "output_type",
    "passing_rows",
    "require",
    "when",
]

# --- reading the tree -------------------------------------------------------------------------------------------------


def calls_of(expr: object) -> tuple[ExprNode, ...]:
    """The calls that make up an expression, first to last."""
    if not isinstance(expr, nw.Expr):
        raise ParameterError(
            f"expected an expression, got {type(expr).__name__}",
            hint="an expression starts at a column: hp.col('x') > 0",
        )
    return expr._nodes


def arguments_of(node: ExprNode) -> Iterator[Any]:
    """Yield the operands of `node`, with a string that means a column made into one."""
    for argument in node.exprs:
        yield col(argument) if isinstance(argument, str) and not node.str_as_lit else argument


def _walk(expr: object) -> Iterator[ExprNode]:
    for node in calls_of(expr):
        yield node
        for argument in arguments_of(node):
            if isinstance(argument, nw.Expr):
                yield from _walk(argument)


def column_names(expr: nw.Expr) -> frozenset[str]:
    """Return the names of the columns that `expr` reads.

    Raises
    ------
    ParameterError
        If `expr` stands for several columns at once, such as ``nw.all()`` or ``col("x", "y")``.

    Examples
    --------
    >>> sorted(column_names(col("x") + col("y") > 3))
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


COMPARISONS = {"__gt__": ">", "__ge__": ">=", "__lt__": "<", "__le__": "<="}
"""Comparisons of sizes, by the name of the call."""


def compared(expr: nw.Expr) -> tuple[nw.Expr, str, int | float] | None:
    """For an expression that compares something with a number: what, how and the number; None for any other.

    Examples
    --------
    >>> what, how, number = compared(col("x").abs() >= 2.5)
    >>> expression_text(what), how, number
    ("col('x').abs()", '>=', 2.5)
    >>> compared(col("x") > col("y"))
    """
    *before, last = calls_of(expr)
    if not before or last.name not in COMPARISONS or len(last.exprs) != 1:
        return None
    number: Any = last.exprs[0]
    if type(number) in (np.float64, np.int64):
        number = number.item()
    return (nw.Expr(*before), COMPARISONS[last.name], number) if type(number) in (int, float) else None


_SEVERAL = frozenset({ExprKind.ALL, ExprKind.EXCLUDE, ExprKind.NTH, ExprKind.SELECTOR})
_ROWWISE = frozenset({ExprKind.COL, ExprKind.LITERAL, ExprKind.ELEMENTWISE, ExprKind.WHEN_THEN})
_AGGREGATES = frozenset({ExprKind.AGGREGATION, ExprKind.ORDERABLE_AGGREGATION})
# Without a format Narwhals guesses one from the first rows.
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
        If `expr` reads other rows, calls a user-defined function, or stands for several columns.

    Examples
    --------
    >>> check_rowwise(col("x").abs() > 3, "where")
    >>> check_rowwise(col("x") > col("x").mean(), "where")
    Traceback (most recent call last):
        ...
    hydrophone.errors.ParameterError: where: mean() needs other rows, but an expression sees one row at a time
      Hint: aggregate over a window of time, such as .tumble('1min').agg(...)
    """
    column_names(expr)
    for node in _walk(expr):
        if node.name == "map_batches" or any(callable(value) for value in _values(node) if not _is_dtype(value)):
            raise _user_function(node.name, what)
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


def _user_function(name: str, what: str | None = None) -> ParameterError:
    prefix = "" if what is None else f"{what}: "
    return ParameterError(
        f"{prefix}{name} runs a Python function, which has no identity that a plan could keep",
        hint="write it with hp.col, or use .map(function) on the signal",
    )


# --- identity ---------------------------------------------------------------------------------------------------------


def expression_text(expr: nw.Expr) -> str:
    """Return the text that identifies `expr`: equal for equal expressions, in every process.

    Literals keep their types: ``1``, ``1.0``, ``'1'`` and ``True`` are four texts.

    Raises
    ------
    ParameterError
        If `expr` holds a Python function or another value whose text could change from run to run.

    Examples
    --------
    >>> expression_text((col("x") > 1) & col("s").is_in(["a"]))
    "col('x').__gt__(1).__and__(col('s').is_in(other=['a']))"
    """
    return ".".join(_node_text(node) for node in calls_of(expr))


def _node_text(node: ExprNode) -> str:
    if node.kind is ExprKind.COL:
        return f"col({', '.join(map(_value_text, node.kwargs['names']))})"
    if any(callable(value) for value in _values(node) if not _is_dtype(value)):
        raise _user_function(node.name)
    parts = [_value_text(argument) for argument in arguments_of(node)]
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
        return expression_text(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.generic):
        return f"{value.dtype}({value.item()!r})"
    if isinstance(value, (datetime, timedelta, time)):
        return _time_text(value)
    return _collection_text(value)


def _time_text(value: datetime | timedelta | time) -> str:
    # pandas has nanoseconds; Arrow's conversion would silently drop the last three digits.
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
    read = column_names(expr)
    require(read, table.schema)
    if not read:
        # A dummy column with one row: Arrow tables without columns have no rows.
        return pa.repeat(_compute(expr, pa.table({"": [None]}), "'")[0], len(table))
    # Longer than every column's name, so no column's name.
    return _compute(expr, table.select(sorted(read)), max(read, key=len) + "'").combine_chunks()


def passing_rows(expr: nw.Expr, table: pa.Table) -> NDArray[np.bool_]:
    """Return which rows of `table` pass `expr`; null counts as False.

    Raises
    ------
    SignalTypeError
        If `expr` is not true or false; else as :func:`evaluate`.

    Examples
    --------
    >>> passing_rows(col("x") > 1, pa.table({"x": [1, 2, None]})).tolist()
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
    read = [name for name in schema.names if name in column_names(expr)]
    require(column_names(expr), schema)
    # A row of nulls, not an empty table: without rows Arrow does not check that both times have a zone.
    nulls = pa.table({name: pa.nulls(1, schema.field(name).type) for name in read} or {"": [None]})
    try:
        return evaluate(expr, nulls).type
    except DataError as error:
        raise SignalTypeError(error.message, hint=error.hint) from error


def require(read: Iterable[str], schema: pa.Schema) -> None:
    """Refuse columns that the rows do not have."""
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
        zones = str(error).count("timestamp[") == 2 and "tz=" in str(error)
        hint = "give times a zone: datetime(..., tzinfo=UTC)" if zones else "convert one side first, with .cast(...)"
        raise SignalTypeError(message, hint=hint) from error


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
    nodes = [copy(node) for node in calls_of(value)]
    for node in nodes:
        node.exprs = tuple(_in_zone(argument, zone) for argument in node.exprs)
        if node.name in ("lit", "is_in", "replace_strict"):
            node.kwargs = {key: _in_zone(item, zone) for key, item in node.kwargs.items()}
    return nw.Expr(*nodes)
