"""Many row filters that compare the same value with different numbers: each row is compared once, whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.model.batch import Batch, Events, Ints, Mask
from hydrophone.model.compiled import compiled
from hydrophone.model.family import Family, Given, given_in_shares, in_shares
from hydrophone.plan import expr

_HOW = {">": 0, ">=": 1, "<": 2, "<=": 3}
_LARGEST = 1 << 53
"""Integers beyond this do not compare with floats."""


def where_family(condition: nw.Expr, schema: pa.Schema) -> tuple[str, ...] | None:
    """What the conditions of a family have in common: all but the number.

    None for other conditions, and where Arrow would convert one side in a way that differs from number to number.
    """
    found = expr.compared(condition)
    if found is None or not expr.column_names(found[0]):
        return None
    what, how, number = found
    kind = expr.output_type(what, schema)
    if pa.types.is_float64(kind) or pa.types.is_float32(kind):
        if number != number or (type(number) is int and abs(number) > _LARGEST):
            return None
    elif not (pa.types.is_signed_integer(kind) and type(number) is int and -(1 << 63) <= number < 1 << 63):
        return None
    return "where", expr.expression_text(what), how, str(kind)


class WhereFamily(Family):
    """Rows are ranked among the numbers of the members: a row that meets one condition meets all that are easier.

    Parameters
    ----------
    value : what is compared, of a batch
    how : the comparison
    numbers : with what, one for each member
    """

    def __init__(self, value: Callable[[Events], pa.Array], how: str, numbers: Sequence[int | float]) -> None:
        self.value, self.how = value, _HOW[how]
        exact = all(type(n) is int for n in numbers)
        self.order: Ints = np.argsort(np.array(numbers, np.int64 if exact else np.float64), kind="stable")
        if self.how >= 2:  # the easiest condition first
            self.order = self.order[::-1]
        self.numbers = [numbers[i] for i in self.order]

    def take(self, batch: Batch) -> Given:
        """Rank the rows, and gather those of each member in their order."""
        assert isinstance(batch, Events)
        values, valid = _values(self.value(batch))
        numbers = np.array(self.numbers, values.dtype)
        rank = _ranks(values, valid, numbers, self.how)
        counts = _met(rank, len(numbers))
        every = int(np.searchsorted(-counts, -len(batch), "right"))  # members that take the batch as it is
        found: Given = []
        if every:
            whole = Events(batch.slot, batch.start, batch.end, batch.columns)
            at = np.array([0, len(batch)])
            found = [(int(i), whole.shares(at)[0]) for i in self.order[:every]]
        for low, high in in_shares(counts[every:]):
            few = counts[every + low : every + high]
            rows = _rows(rank, every + low, few)
            found += given_in_shares(batch.select(rows), every + low, few, self.order)
        return found


def _values(column: pa.Array) -> tuple[np.ndarray, Mask]:
    """Integers or doubles, and which are there; all of them, if the mask is empty."""
    valid = np.zeros(0, np.bool_)
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        column = pc.fill_null(column, pa.scalar(0, column.type))
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False), valid


@compiled
def _ranks(values, valid, numbers, how):  # type: ignore[no-untyped-def]
    """How many conditions each value meets; the first so many, since the easiest comes first."""
    rank = np.zeros(len(values), np.int64)
    for i in range(len(values)):
        if len(valid) and not valid[i]:
            continue
        low, high, x = 0, len(numbers), values[i]
        # Most values meet none, or all.
        while low < high:
            middle = 0 if low == 0 and high == len(numbers) else (low + high) // 2
            number = numbers[middle]
            if how == 0:
                meets = x > number
            elif how == 1:
                meets = x >= number
            elif how == 2:
                meets = x < number
            else:
                meets = x <= number
            if meets:
                low = middle + 1
            else:
                high = middle
        rank[i] = low
    return rank


@compiled
def _met(rank, members):  # type: ignore[no-untyped-def]
    """How many rows meet each condition."""
    counts = np.zeros(members + 1, np.int64)
    for r in rank:
        counts[r] += 1
    for i in range(members - 1, -1, -1):
        counts[i] += counts[i + 1]
    return counts[1:]


@compiled
def _rows(rank, first, counts):  # type: ignore[no-untyped-def]
    """The rows that meet the conditions from `first` on, one condition after the other, each in the order of the rows."""
    at = np.zeros(len(counts) + 1, np.int64)
    for i in range(len(counts)):
        at[i + 1] = at[i] + counts[i]
    rows = np.empty(at[-1], np.int64)
    for row in range(len(rank)):
        for i in range(min(rank[row] - first, len(counts))):
            rows[at[i]] = row
            at[i] += 1
    return rows
