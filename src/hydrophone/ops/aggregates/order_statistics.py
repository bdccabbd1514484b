"""Aggregates that look at the values themselves: the first and last, the largest, how many different ones, quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Events, Ints, Mask
from hydrophone.model.take_rows import without_minus_zero
from hydrophone.ops.aggregates.summaries import Aggregate, Values
from hydrophone.ops.signals.place import sort_events
from hydrophone.plan.parameters import real, whole
from hydrophone.plan.types import StreamType


@dataclass(frozen=True)
class OrderStatistic(Aggregate):
    """An aggregate that keeps rows: values of its column in order, each with its group.

    Nulls never come here. Values are ordered by (start, value) where `timed`, else by value; NaN is larger than all numbers.
    """

    timed: ClassVar[bool] = False

    def keep(self, column: pa.Array, first: Ints, stop: Ints) -> Mask | None:
        """Which rows of groups in order a later answer can still need; None: all."""
        return None

    def chosen(self, column: pa.Array, first: Ints, stop: Ints) -> pa.Array:
        """The answer for every group of rows ``first[i] .. stop[i] - 1``, which may be empty."""
        raise NotImplementedError

    def _at(self, column: pa.Array, rows: Ints, there: Mask) -> pa.Array:
        return column.take(pa.array(np.where(there, rows, 0), mask=~there))


@dataclass(frozen=True)
class First(OrderStatistic):
    """The value of the event that starts first; of those that start together the least value; null where none has a value."""

    timed = True

    def output_type(self, x: StreamType) -> pa.DataType:
        """That of the column."""
        return x.column(self.column, type(self).__name__.lower()).type

    def keep(self, column: pa.Array, first: Ints, stop: Ints) -> Mask:
        """The first."""
        return _mask(len(column), first[stop > first])

    def chosen(self, column: pa.Array, first: Ints, stop: Ints) -> pa.Array:
        """The first."""
        return self._at(column, first, stop > first)


@dataclass(frozen=True)
class Last(First):
    """The value of the event that starts last; of those that start together the largest value."""

    def keep(self, column: pa.Array, first: Ints, stop: Ints) -> Mask:
        """The last."""
        return _mask(len(column), stop[stop > first] - 1)

    def chosen(self, column: pa.Array, first: Ints, stop: Ints) -> pa.Array:
        """The last."""
        return self._at(column, stop - 1, stop > first)


@dataclass(frozen=True)
class DistinctCount(OrderStatistic):
    """How many different values a column has: NaN is one value, -0.0 and 0.0 are the same, null is none."""

    def output_type(self, x: StreamType) -> pa.DataType:
        """A whole number."""
        _check_flat(x.column(self.column, "distinct_count"), "distinct_count")
        return pa.int64()

    def keep(self, column: pa.Array, first: Ints, stop: Ints) -> Mask:
        """One of each."""
        return _changes_value(column, first[stop > first])

    def chosen(self, column: pa.Array, first: Ints, stop: Ints) -> pa.Array:
        """Values that differ from the one before."""
        seen = np.concatenate([[0], np.cumsum(_changes_value(column, first[stop > first]))])
        return pa.array(seen[stop] - seen[first])


@dataclass(frozen=True)
class Quantile(OrderStatistic):
    """A quantile of a column, as ``numpy.quantile``: linear between values; NaN if there is one; null where none has a value."""

    q: float = 0.5

    def output_type(self, x: StreamType) -> pa.DataType:
        """A float."""
        if not 0 <= self.q <= 1:
            raise ParameterError(f"quantile: q must be from 0 to 1, got {self.q}", hint="0.5 is the median")
        self._number(x)
        return pa.float64()

    def chosen(self, column: pa.Array, first: Ints, stop: Ints) -> pa.Array:
        """Between the two values around."""
        there = stop > first
        values: Values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        if not len(values):
            return pa.nulls(len(first), pa.float64())
        place = np.where(there, stop - first - 1, 0) * self.q
        low = np.floor(place).astype(np.int64)
        share = place - low
        at = np.where(there, first, 0)
        last = np.where(there, stop - 1, 0)
        a, b = values[at + low], values[np.minimum(at + low + 1, last)]
        with np.errstate(all="ignore"):
            found = np.where(share < 0.5, a + (b - a) * share, b - (b - a) * (1 - share))
        return pa.array(np.where(np.isnan(values[last]), np.nan, found), mask=~there)


@dataclass(frozen=True)
class TopK(OrderStatistic):
    """The k largest values of a column as a list, the largest first; NaN is larger than all numbers; empty where none has a value."""

    k: int = 1

    def output_type(self, x: StreamType) -> pa.DataType:
        """A list."""
        if self.k < 1:
            raise ParameterError(f"top_k: k must be at least 1, got {self.k}", hint='top_k("value", 3)')
        field = x.column(self.column, "top_k")
        _check_flat(field, "top_k")
        return pa.list_(field.type)

    def keep(self, column: pa.Array, first: Ints, stop: Ints) -> Mask:
        """The last k in order."""
        low = np.maximum(first, stop - self.k)
        edges = np.bincount(low, minlength=len(column) + 1) - np.bincount(stop, minlength=len(column) + 1)
        return np.cumsum(edges)[: len(column)] > 0

    def chosen(self, column: pa.Array, first: Ints, stop: Ints) -> pa.Array:
        """The last k in order, backwards."""
        lengths = np.minimum(stop - first, self.k)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(stop - 1 + offsets[:-1], lengths) - np.arange(offsets[-1])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column.take(pa.array(rows)))


def _mask(size: int, rows: Ints) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _changes_value(column: pa.Array, first: Ints) -> Mask:
    """Rows that differ from the one before, or begin a group."""
    code = pc.dictionary_encode(without_minus_zero(column)).indices.to_numpy(zero_copy_only=False)
    fresh = np.concatenate([[True], code[1:] != code[:-1]])[: len(code)]
    fresh[first] = True
    return fresh


def _check_flat(field: pa.Field, what: str) -> None:
    if pa.types.is_nested(field.type):
        raise SignalTypeError(f"{what}: column {field.name!r} is {field.type}, which has no order", hint="pick a part")


def order_statistic(pick: OrderStatistic, rows: Events, group: Ints, groups: int) -> pa.Array:
    """The answer of a pick for every group, given rows in any order and their groups."""
    time = rows.start if pick.timed else np.zeros(len(rows), np.int64)
    placed = sort_events(Events(group, time, None, rows.columns))
    stop = np.cumsum(np.bincount(group, minlength=groups))
    return pick.chosen(value_column(placed), np.concatenate([[0], stop[:-1]]), stop)


def value_column(rows: Events) -> pa.Array:
    """The column of rows that have one."""
    column = rows.columns.column(0)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def first(column: str) -> First:
    """The value of the event that starts first in a window; of those that start together the least value."""
    return First(column)


def last(column: str) -> Last:
    """The value of the event that starts last in a window; of those that start together the largest value."""
    return Last(column)


def distinct_count(column: str) -> DistinctCount:
    """How many different values a column has in a window."""
    return DistinctCount(column)


def quantile(column: str, q: float) -> Quantile:
    """A quantile of a column over a window, as ``numpy.quantile``; exact, so that it keeps the values of open windows."""
    return Quantile(column, (), real(q, "quantile: q"))


def top_k(column: str, k: int) -> TopK:
    """The k largest values of a column in a window as a list, the largest first."""
    return TopK(column, (), whole(k, "top_k: k"))
