"""Aggregates that are built from parts: what is kept of many events is a few numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.errors import DataError, HydrophoneError, ParameterError, SignalTypeError
from hydrophone.model.batch import Mask
from hydrophone.ops.user.calls import at_least_single, name_of, naming_operator, remembering_nothing
from hydrophone.plan.parameters import whole
from hydrophone.plan.types import StreamType

Values = npt.NDArray[Any]
Partials = list[Values]


@dataclass(frozen=True)
class Aggregate:
    """A function of many events that can be built from parts: the parts of two sets of events merge into those of their union.

    Floats are summed as they come, so that another order of arrival changes a result by rounding only: for n events
    by at most n times 2**-53 of the sum of their magnitudes.

    Attributes
    ----------
    column : the payload column, or "" where none is needed
    merge : for each part the ufunc that merges it; none where `merged` knows more
    """

    column: str = ""

    merge: tuple[np.ufunc, ...] = ()

    @property
    def width(self) -> int:
        """How many parts there are."""
        return len(self.merge)

    def output_type(self, x: StreamType) -> pa.DataType:
        """Type of the result."""
        raise NotImplementedError

    def partials(self, values: Values, valid: Mask) -> Partials:
        """The parts of every single event; nulls are not `valid`."""
        raise NotImplementedError

    def over(self, x: StreamType) -> Aggregate:
        """The aggregate as it is computed for the columns of a stream, where their type decides what is kept."""
        return self

    def merged(self, a: Partials, b: Partials) -> Partials:
        """The parts of many unions at once, row by row."""
        return [m(x, y) for m, x, y in zip(self.merge, a, b, strict=True)]

    def result(self, partials: Partials) -> pa.Array:
        """The answer from merged parts."""
        raise NotImplementedError

    def _number(self, x: StreamType, what: str = "") -> pa.DataType:
        what = what or type(self).__name__.lower()
        kind = x.column(self.column, what).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SignalTypeError(
                f"{what}: column {self.column!r} is {kind}, not a number",
                hint="count, first, last, distinct_count and top_k take any column; min and max take times too",
            )
        return kind


@dataclass(frozen=True)
class Count(Aggregate):
    """How many events, or how many that have a value in `column`."""

    merge: tuple[np.ufunc, ...] = (np.add,)

    def output_type(self, x: StreamType) -> pa.DataType:
        """A whole number."""
        if self.column:
            x.column(self.column, "count")
        return pa.int64()

    def partials(self, values: Values, valid: Mask) -> Partials:
        """One each."""
        if valid.strides == (0,):  # one value for all events, which takes no memory
            return [np.broadcast_to(np.int64(1), len(valid))]
        return [valid.astype(np.int64)]

    def result(self, partials: Partials) -> pa.Array:
        """The count."""
        return pa.array(partials[0])


@dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of a column; integers stay integers, exactly or an error; null where no event has a value."""

    merge: tuple[np.ufunc, ...] = (np.add, np.add)

    def output_type(self, x: StreamType) -> pa.DataType:
        """Wide enough: 64 bits, unsigned for an unsigned column of 64 bits."""
        kind = self._number(x, "sum")
        if pa.types.is_uint64(kind):
            return kind
        return pa.int64() if pa.types.is_integer(kind) else pa.float64()

    def over(self, x: StreamType) -> Aggregate:
        """Integers of 64 bits are added up in two halves."""
        kind = self._number(x, "sum")
        if not pa.types.is_integer(kind):
            return self
        bits = kind.bit_width
        if bits < 64:
            return IntegerSum(self.column, bits=bits)
        return WideSum(self.column, (np.add,) * 3, unsigned=pa.types.is_uint64(kind))

    def partials(self, values: Values, valid: Mask) -> Partials:
        """Value and count."""
        return [np.where(valid, values, 0).astype(np.float64), valid.astype(np.int64)]

    def result(self, partials: Partials) -> pa.Array:
        """The sum."""
        return pa.array(partials[0], mask=partials[1] == 0)


@dataclass(frozen=True)
class IntegerSum(Sum):
    """The sum of integers of up to 32 bits, which 64 bits hold for any number of events below a limit."""

    bits: int = 32

    def partials(self, values: Values, valid: Mask) -> Partials:
        """Value and count."""
        return [np.where(valid, values, 0).astype(np.int64), valid.astype(np.int64)]

    def result(self, partials: Partials) -> pa.Array:
        """The sum."""
        self._check_count(partials[1])
        return super().result(partials)

    def _check_count(self, count: Values) -> None:
        limit = 2 ** (63 - self.bits)
        if len(count) and count.max() > limit:
            raise DataError(
                f"sum: a window has {count.max():,} values of column {self.column!r}; with more than {limit:,} the sum may wrap",
                hint="take shorter windows, or cast to a float first",
            )


@dataclass(frozen=True)
class WideSum(IntegerSum):
    """The sum of integers of 64 bits: their upper and lower 32 bits are added up apart, so that nothing wraps on the way.

    Only the answer must fit: partial sums may go beyond 64 bits and come back.
    """

    unsigned: bool = False

    def partials(self, values: Values, valid: Mask) -> Partials:
        """Both halves and the count."""
        values = np.where(valid, values, values.dtype.type(0))
        lower = (values & values.dtype.type(0xFFFFFFFF)).astype(np.int64)
        return [(values >> values.dtype.type(32)).astype(np.int64), lower, valid.astype(np.int64)]

    def result(self, partials: Partials) -> pa.Array:
        """The sum, if its type can hold it."""
        upper, lower, count = partials
        self._check_count(count)
        upper, lower = upper + (lower >> 32), lower & 0xFFFFFFFF
        low, high = (0, 2**32) if self.unsigned else (-(2**31), 2**31)
        beyond = np.flatnonzero((upper < low) | (upper >= high))
        if len(beyond):
            at, name = beyond[0], "uint64" if self.unsigned else "int64"
            raise DataError(
                f"sum: column {self.column!r} adds up to {int(upper[at]) * 2**32 + int(lower[at])} in a window, "
                f"which {name} cannot hold",
                hint=f"add up floats: with_columns({self.column}=hp.col({self.column!r}).cast(nw.Float64))",
            )
        kind = np.dtype(np.uint64 if self.unsigned else np.int64)
        return pa.array((upper.astype(kind) << kind.type(32)) | lower.astype(kind), mask=count == 0)


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean of a column; null where no event has a value."""

    merge: tuple[np.ufunc, ...] = (np.add, np.add)

    def output_type(self, x: StreamType) -> pa.DataType:
        """A float."""
        self._number(x)
        return pa.float64()

    def partials(self, values: Values, valid: Mask) -> Partials:
        """Value and count."""
        return [np.where(valid, values, 0).astype(np.float64), valid.astype(np.int64)]

    def result(self, partials: Partials) -> pa.Array:
        """Sum over count."""
        return pa.array(partials[0] / np.maximum(partials[1], 1), mask=partials[1] == 0)


@dataclass(frozen=True)
class Extreme(Aggregate):
    """Least or largest value of a column, earliest or latest of one of times; NaN wins over numbers; null where no event has a value."""

    def output_type(self, x: StreamType) -> pa.DataType:
        """That of the column."""
        what = type(self).__name__.lower()
        kind = x.column(self.column, what).type
        return kind if pa.types.is_temporal(kind) and not pa.types.is_interval(kind) else self._number(x, what)

    def partials(self, values: Values, valid: Mask) -> Partials:
        """Value, with nulls at the losing end, and count."""
        limits = np.finfo(values.dtype) if values.dtype.kind == "f" else np.iinfo(values.dtype)
        largest = self.merge[0] is np.minimum
        loser = (
            (np.inf if largest else -np.inf) if values.dtype.kind == "f" else (limits.max if largest else limits.min)
        )
        # Adding zero makes -0.0 plain: which of the two zeros wins would depend on the order of arrival.
        chosen = np.where(valid, values, np.asarray(loser, values.dtype)) + values.dtype.type(0)
        return [chosen, valid.astype(np.int64)]

    def result(self, partials: Partials) -> pa.Array:
        """The extreme."""
        return pa.array(partials[0], mask=partials[1] == 0)


@dataclass(frozen=True)
class Min(Extreme):
    """The least value of a column."""

    merge: tuple[np.ufunc, ...] = (np.minimum, np.add)


@dataclass(frozen=True)
class Max(Extreme):
    """The largest value of a column."""

    merge: tuple[np.ufunc, ...] = (np.maximum, np.add)


@dataclass(frozen=True)
class Variance(Aggregate):
    """The variance of a column, or with `root` the standard deviation; null where no more than `ddof` events have a value.

    Means and squared distances from them merge as Chan, Golub and LeVeque do it, so that a large mean costs no digits.
    """

    ddof: int = 0
    root: bool = False

    @property
    def width(self) -> int:
        """Count, mean, sum of squared distances from it."""
        return 3

    def output_type(self, x: StreamType) -> pa.DataType:
        """A float."""
        self._number(x, "std" if self.root else "variance")
        if self.ddof < 0:
            raise ParameterError(f"variance: ddof must not be negative, got {self.ddof}", hint="0, or 1 for a sample")
        return pa.float64()

    def partials(self, values: Values, valid: Mask) -> Partials:
        """A single value is its own mean."""
        mean = np.where(valid, values, 0).astype(np.float64)
        with np.errstate(invalid="ignore"):
            return [valid.astype(np.int64), mean, mean - mean]  # NaN where the value is not finite

    def merged(self, a: Partials, b: Partials) -> Partials:
        """Means move by their share."""
        n = a[0] + b[0]
        share = b[0] / np.maximum(n, 1)
        off = b[1] - a[1]
        mean, squares = a[1] + off * share, a[2] + b[2] + off * off * share * a[0]
        alone, other = b[0] == 0, a[0] == 0  # infinities must not meet the zeros of an empty side
        mean = np.where(alone, a[1], np.where(other, b[1], mean))
        return [n, mean, np.where(alone, a[2], np.where(other, b[2], squares))]

    def result(self, partials: Partials) -> pa.Array:
        """The mean squared distance, or its root."""
        free = partials[0] - self.ddof
        found = partials[2] / np.maximum(free, 1)
        return pa.array(np.sqrt(found) if self.root else found, mask=free <= 0)


_MANY = "all functions work on many states at once, one per row"


def _naming_function(what: str, function: Callable[..., Any]) -> str:
    name = name_of(function)
    return what if name == what else f"{what} ({name})"


@contextmanager
def _calling(what: str, function: Callable[..., Any], hint: str = _MANY) -> Iterator[None]:
    """Around a call of one of a user's functions."""
    name = _naming_function(what, function)
    with remembering_nothing("aggregate", function, name), naming_operator("aggregate", name, hint, inside=True):
        yield


@dataclass(frozen=True)
class Custom(Aggregate):
    """A user-defined aggregate; see `aggregate`."""

    create: Callable[[int], Values] = np.zeros
    add: Callable[[Values, Values], Values] = np.add
    join: Callable[[Values, Values], Values] = np.add
    finish: Callable[[Values], Values] = np.asarray
    remove: Callable[[Values, Values], Values] | None = None

    adds: ClassVar[str] = "add"
    """What the user calls the function in `add`, for errors."""

    @property
    def width(self) -> int:
        """The numbers of a state, and how many events have a value."""
        return int(self._fresh(1).size) + 1

    def output_type(self, x: StreamType) -> pa.DataType:
        """What `result` gives for a fresh state."""
        self._number(x, "aggregate")
        fresh = self._fresh(2)
        if fresh.ndim not in (1, 2) or len(fresh) != 2 or fresh.dtype.kind not in "iufb":
            raise ParameterError(
                f"aggregate: create(2) must give an array with two rows of numbers, got {fresh.dtype} of shape {fresh.shape}",
                hint="create=lambda n: np.zeros(n), or np.zeros((n, 3)) for a state of three numbers",
                inside=True,
            )
        self._states_of("add", self.add, fresh.copy(), np.zeros(2), ParameterError)
        self._states_of("merge", self.join, fresh.copy(), fresh.copy(), ParameterError)
        if self.remove is not None:
            self._states_of("remove", self.remove, fresh.copy(), np.ones(2), ParameterError)
        found = self._results(fresh.copy(), ParameterError)
        self._check_remove(fresh)
        return pa.from_numpy_dtype(found.dtype)

    def _check_remove(self, fresh: Values) -> None:
        """Whether what is taken away of a fresh state undoes what is added to one, tried on two values."""
        if self.remove is None:
            return
        values = np.array([1.0, 3.0])
        added, removed = (
            self._states_of(what, function, fresh.copy(), values)
            for what, function in (("add", self.add), ("remove", self.remove))
        )
        left = self._states_of("merge", self.join, added, removed)
        if not np.allclose(left, fresh, equal_nan=True):
            raise ParameterError(
                f"aggregate: remove must undo add, but merge(add(fresh, v), remove(fresh, v)) is {np.asarray(left).tolist()} "
                f"for v of {values.tolist()} and fresh states of {fresh.tolist()}",
                hint="leave remove out where nothing can be taken away, as from an extreme",
                inside=True,
            )

    def partials(self, values: Values, valid: Mask) -> Partials:
        """Every event in a state of its own; a null leaves it fresh."""
        fresh = self._fresh(len(values))
        added = self._states_of(self.adds, self.add, fresh.copy(), np.where(valid, values, 0))
        there = valid if fresh.ndim == 1 else valid[:, None]
        return [*self._columns(np.where(there, added, fresh)), valid.astype(np.int64)]

    def merged(self, a: Partials, b: Partials) -> Partials:
        """The user's merge; counts add up."""
        rows = len(a[0])
        joined = self._states_of("merge", self.join, self._states(a[:-1], rows), self._states(b[:-1], rows))
        return [*self._columns(joined), a[-1] + b[-1]]

    def result(self, partials: Partials) -> pa.Array:
        """The user's result; null where no event has a value."""
        return pa.array(self._results(self._states(partials[:-1], len(partials[0]))), mask=partials[-1] == 0)

    def _fresh(self, rows: int) -> Values:
        with _calling("create", self.create, "create(n) gives n fresh states"):
            return at_least_single(np.asarray(self.create(rows)))

    @staticmethod
    def _states_of(
        what: str,
        function: Callable[[Values, Values], Values],
        states: Values,
        other: Values,
        wrong: type[HydrophoneError] = DataError,
    ) -> Values:
        """What a user's function makes of states, which it may change; it must give as many of the same shape."""
        shape = states.shape
        with _calling(what, function):
            made = at_least_single(np.asarray(function(states, other)))
        if made.shape != shape or made.dtype.kind not in "iufb":
            raise wrong(
                f"aggregate: {what} must give states of shape {shape}, got {made.dtype} of shape {made.shape}",
                hint=_MANY,
                inside=True,
            )
        return made

    def _results(self, states: Values, wrong: type[HydrophoneError] = DataError) -> Values:
        rows = len(states)
        with _calling("result", self.finish):
            found = at_least_single(np.asarray(self.finish(states)))
        if found.shape != (rows,):
            raise wrong(
                f"aggregate: result must give one number per state, got shape {found.shape} for {rows} states",
                hint="reduce over the last axis",
                inside=True,
            )
        return found

    @staticmethod
    def _columns(states: Values) -> Partials:
        return list(np.ascontiguousarray(states.reshape(len(states), math.prod(states.shape[1:])).T))

    def _states(self, columns: Partials, rows: int) -> Values:
        like = self._fresh(1)
        return np.stack(columns, axis=1).reshape(rows, *like.shape[1:]).astype(like.dtype, copy=False)


def count(column: str = "") -> Count:
    """How many events a window holds, or how many that have a value in a column."""
    return Count(column)


def sum_(column: str) -> Sum:
    """The sum of a column over a window."""
    return Sum(column)


def mean(column: str) -> Mean:
    """The mean of a column over a window."""
    return Mean(column)


def min_(column: str) -> Min:
    """The least value of a column over a window."""
    return Min(column)


def max_(column: str) -> Max:
    """The largest value of a column over a window."""
    return Max(column)


def variance(column: str, *, ddof: int = 0) -> Variance:
    """The variance of a column over a window, as ``numpy.var``."""
    return Variance(column, (), whole(ddof, "variance: ddof"))


def std(column: str, *, ddof: int = 0) -> Variance:
    """The standard deviation of a column over a window, as ``numpy.std``."""
    return Variance(column, (), whole(ddof, "std: ddof"), root=True)


def aggregate(
    column: str,
    *,
    create: Callable[[int], Values],
    add: Callable[[Values, Values], Values],
    merge: Callable[[Values, Values], Values],
    result: Callable[[Values], Values],
    remove: Callable[[Values, Values], Values] | None = None,
) -> Custom:
    """A user-defined aggregate. Every function works on many states at once, a row each.

    Parameters
    ----------
    column : a column of numbers
    create : ``create(n)`` gives n fresh states: an array of n numbers, or of n rows of numbers
    add : ``add(states, values)`` adds one value to each state
    merge : ``merge(a, b)`` merges states pairwise; a fresh state changes nothing, and neither order nor grouping matters
    result : ``result(states)`` gives one number per state
    remove : ``remove(states, values)`` undoes `add`, also in a fresh state: ``merge(add(s, v), remove(create(n), v))`` is ``s``. Windows
        that overlap, and snapshots, then follow from the one before by what came and went. Where a state is not finite, or small
        against what was taken away, and now and then, it is made afresh, so that no rounding error stays

    Examples
    --------
    >>> product = aggregate("v", create=np.ones, add=np.multiply, merge=np.multiply, result=np.asarray)
    >>> [p.tolist() for p in product.partials(np.array([2.0, 3.0]), np.array([True, False]))]
    [[2.0, 1.0], [1, 0]]
    >>> power = aggregate(
    ...     "v", create=np.zeros, add=lambda s, v: s + v**2, remove=lambda s, v: s - v**2, merge=np.add, result=np.asarray
    ... )
    """
    return Custom(column, (), create, add, merge, result, remove)
