"""Aggregates over windows of time, closed by progress: events may come in any order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.batch import Batch, Events, Ints
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.kernel import Kernel, Marks
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType
from hydrophone.runs import stable_order
from hydrophone.state import Held
from hydrophone.time import MAX_TIME, MIN_TIME, add_time


@dataclass(frozen=True)
class Aggregate:
    """A function of many events that can be built from parts: the parts of two sets of events merge into those of their union.

    Attributes
    ----------
    column : the payload column, or "" where none is needed
    merge : for each part the ufunc that merges it
    """

    column: str = ""

    merge: tuple[np.ufunc, ...] = ()

    def output_type(self, x: StreamType) -> pa.DataType:
        """Type of the result."""
        raise NotImplementedError

    def parts(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
        """The parts of every single event; nulls are not `valid`."""
        raise NotImplementedError

    def result(self, parts: Sequence[npt.NDArray[Any]]) -> pa.Array:
        """The answer from merged parts."""
        raise NotImplementedError

    def _number(self, x: StreamType) -> pa.DataType:
        kind = x.column(self.column, type(self).__name__.lower()).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SignalTypeError(f"{type(self).__name__.lower()}: column {self.column!r} is {kind}, not a number")
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

    def parts(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
        """One each."""
        return [valid.astype(np.int64)]

    def result(self, parts: Sequence[npt.NDArray[Any]]) -> pa.Array:
        """The count."""
        return pa.array(parts[0])


@dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of a column; integers stay integers; null where no event has a value."""

    merge: tuple[np.ufunc, ...] = (np.add, np.add)

    def output_type(self, x: StreamType) -> pa.DataType:
        """Wide enough."""
        return pa.int64() if pa.types.is_integer(self._number(x)) else pa.float64()

    def parts(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
        """Value and count."""
        wide = np.int64 if values.dtype.kind in "iu" else np.float64
        return [np.where(valid, values, 0).astype(wide), valid.astype(np.int64)]

    def result(self, parts: Sequence[npt.NDArray[Any]]) -> pa.Array:
        """The sum."""
        return pa.array(parts[0], mask=parts[1] == 0)


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean of a column; null where no event has a value."""

    merge: tuple[np.ufunc, ...] = (np.add, np.add)

    def output_type(self, x: StreamType) -> pa.DataType:
        """A float."""
        self._number(x)
        return pa.float64()

    def parts(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
        """Value and count."""
        return [np.where(valid, values, 0).astype(np.float64), valid.astype(np.int64)]

    def result(self, parts: Sequence[npt.NDArray[Any]]) -> pa.Array:
        """Sum over count."""
        return pa.array(parts[0] / np.maximum(parts[1], 1), mask=parts[1] == 0)


@dataclass(frozen=True)
class Extreme(Aggregate):
    """Least or largest value of a column; NaN wins over numbers; null where no event has a value."""

    def output_type(self, x: StreamType) -> pa.DataType:
        """That of the column."""
        return self._number(x)

    def parts(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
        """Value, with nulls at the losing end, and count."""
        limits = np.finfo(values.dtype) if values.dtype.kind == "f" else np.iinfo(values.dtype)
        largest = self.merge[0] is np.minimum
        loser = (
            (np.inf if largest else -np.inf) if values.dtype.kind == "f" else (limits.max if largest else limits.min)
        )
        # Adding zero makes -0.0 plain: which of the two zeros wins would depend on the order of arrival.
        chosen = np.where(valid, values, np.asarray(loser, values.dtype)) + values.dtype.type(0)
        return [chosen, valid.astype(np.int64)]

    def result(self, parts: Sequence[npt.NDArray[Any]]) -> pa.Array:
        """The extreme."""
        return pa.array(parts[0], mask=parts[1] == 0)


@dataclass(frozen=True)
class Min(Extreme):
    """The least value of a column."""

    merge: tuple[np.ufunc, ...] = (np.minimum, np.add)


@dataclass(frozen=True)
class Max(Extreme):
    """The largest value of a column."""

    merge: tuple[np.ufunc, ...] = (np.maximum, np.add)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tumble(Node):
    """Aggregates per key and window of time; windows begin at multiples of `size` after `offset`.

    An event belongs to the window in which it starts.
    A window with no event gives no row. A window is given when progress passes its end.
    """

    size: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    offset: int = 0

    def check(self) -> None:
        """A positive size and at least one aggregate."""
        if self.size <= 0:
            raise ParameterError(f"tumble: size must be positive, got {self.size}")
        if not self.aggregates:
            raise ParameterError("tumble: agg needs at least one aggregate", hint="agg(n=hp.count())")

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is the window."""
        end = x.end or "end"
        if end in (*x.key.names, x.time):
            raise ParameterError(
                f"tumble: windows end in a column {end!r}, and the key or time of this stream has that name",
                hint=f"rename the key: stream.key_by(name={end!r})",
            )
        taken = {*x.key.names, x.time, end}
        fields = [pa.field(name, a.output_type(x)) for name, a in self.aggregates]
        for f in fields:
            if f.name in taken:
                raise ParameterError(f"tumble: the name {f.name!r} is taken by the key or time of this stream")
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), end)

    def reach(self, x: StreamType) -> Reach:
        """A window is owned by its start and needs all events until its end."""
        return Reach(after=self.size)

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        return TumbleKernel(self.size, self.offset, self.aggregates, x, self.type)


class TumbleKernel(Kernel):
    """Open windows are held as events whose columns are the parts of the aggregates."""

    MANY = 16
    """Batches of open windows that are held before they are merged."""
    ROOMY = 4
    """Cells of a full table per event up to which the table is cheaper than sorting."""

    def __init__(
        self, size: int, offset: int, aggregates: Sequence[tuple[str, Aggregate]], kind: StreamType, out: StreamType
    ) -> None:
        self.size, self.offset, self.out = size, offset, out
        self.aggregates = [a for _, a in aggregates]
        self.merges = [m for a in self.aggregates for m in a.merge]
        self.kind = kind
        self.open: Held[Events] = Held(Events)
        self._added = 0

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add events to their windows."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        parts = [p for a in self.aggregates for p in a.parts(*self._column(batch, a.column))]
        self.open.add(self._merged(batch.slot, batch.start, parts))
        self._added += 1
        if self._added >= self.MANY:
            self._compact()
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], int]:
        """Give the windows that ended at or before the mark."""
        mark = marks[0]
        bound = mark if mark in (MIN_TIME, MAX_TIME) else (mark - self.offset) // self.size * self.size + self.offset
        held = self._compact()
        if held is None:
            return (), bound
        done = add_time(held.start, self.size) <= mark
        if not done.any():
            return (), bound
        cells = self.open.take(done)
        parts = [c.to_numpy() for c in cells.columns.columns]
        results = []
        for a in self.aggregates:
            results.append(a.result(parts[: len(a.merge)]))
            parts = parts[len(a.merge) :]
        columns = pa.table(
            [r.cast(f.type) for r, f in zip(results, self.out.columns, strict=True)], schema=self.out.columns
        )
        return (Events(cells.slot, cells.start, add_time(cells.start, self.size), columns),), bound

    def _compact(self) -> Events | None:
        held, added = self.open.all(), self._added
        self._added = 0
        if held is None or (added <= 1 and self._is_merged(held)):
            return held
        merged = self._merged(held.slot, held.start, [c.to_numpy() for c in held.columns.columns])
        self.open.replace(merged, np.zeros(0, np.int64))
        return merged

    @staticmethod
    def _is_merged(held: Events) -> bool:
        later = (held.slot[1:] > held.slot[:-1]) | (
            (held.slot[1:] == held.slot[:-1]) & (held.start[1:] > held.start[:-1])
        )
        return bool(later.all())

    def _merged(self, slot: Ints, start: Ints, parts: list[npt.NDArray[Any]]) -> Events:
        """One row per slot and window, ordered by both."""
        number = (start - self.offset) // self.size
        low = int(number.min())
        width = int(number.max()) - low + 1
        cells = (int(slot.max()) + 1) * width
        if cells <= self.ROOMY * len(slot):
            where = slot * width + (number - low)
            seen = np.zeros(cells, np.bool_)
            seen[where] = True
            found = np.flatnonzero(seen)
            merged = [_scattered(m, where, p, cells)[found] for m, p in zip(self.merges, parts, strict=True)]
            slot, number = found // width, found % width + low
        else:
            order = stable_order(slot, number)
            if order is not None:
                slot, number, parts = slot[order], number[order], [p[order] for p in parts]
            first = np.flatnonzero(np.concatenate([[True], (slot[1:] != slot[:-1]) | (number[1:] != number[:-1])]))
            with np.errstate(all="ignore"):
                merged = [m.reduceat(p, first) for m, p in zip(self.merges, parts, strict=True)]
            slot, number = slot[first], number[first]
        columns = pa.table(merged, names=[f"p{i}" for i in range(len(merged))])
        return Events(slot, number * self.size + self.offset, None, columns)

    def _column(self, batch: Events, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        if not name:
            return np.zeros(len(batch)), np.ones(len(batch), np.bool_)
        column = batch.columns[name].combine_chunks()
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not numeric:
            return np.zeros(len(batch)), valid
        filled = pc.fill_null(column, 0) if column.null_count else column
        return np.asarray(filled.to_numpy(zero_copy_only=False)), valid


def _scattered(merge: np.ufunc, where: Ints, part: npt.NDArray[Any], cells: int) -> npt.NDArray[Any]:
    """Merge the parts that belong to the same cell of a full table, in the order in which they came."""
    out = np.zeros(cells, part.dtype)
    if merge.identity is None:
        out[where] = part
    with np.errstate(all="ignore"):
        merge.at(out, where, part)
    return out


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
