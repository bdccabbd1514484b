"""What a case is: a query over named inputs, and the rows that it must give on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.oracles import Event, Grid, Key

import hydrophone as hp
from hydrophone.api import Query
from hydrophone.model.progress import Policy
from hydrophone.model.time import period as exact_period
from hydrophone.plan.node import Node

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Source:
    """One input: a plain Arrow table and the keyword arguments with which any engine reads it.

    With `samples` the rows are segments (see `hydrophone.from_segments`), which streams do not read.
    """

    table: pa.Table
    key: str | tuple[str, ...] = ()
    time: str = "t"
    end: str | None = None
    sequence: str | None = None
    progress: Policy | None = None
    samples: str | None = None
    period: Any = "period"

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `from_arrow`, `read.parquet` and their kin."""
        return {n: getattr(self, n) for n in ("key", "time", "end", "sequence", "progress")}

    def stream(self, name: str | None = None) -> Query:
        if self.samples:
            return hp.from_segments(
                self.table,
                key=self.key,
                time=self.time,
                samples=self.samples,
                period=self.period,
                progress=self.progress,
                name=name,
            )
        return hp.from_arrow(self.table, name=name, **self.options)

    def lake(self, path: Path) -> Query:
        """The same rows, where they lie in Parquet files."""
        if not self.samples:
            return hp.read.parquet(path, **self.options)
        options = {n: getattr(self, n) for n in ("key", "time", "samples", "period", "progress")}
        longest = int((self.stops() - self.starts()).max(initial=1))
        return hp.read.segments(path, longest=longest, **options)

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def starts(self) -> np.ndarray:
        """The start of every row in nanoseconds."""
        return nanoseconds(self.table[self.time])

    def stops(self) -> np.ndarray:
        """The end of every row: of points one nanosecond later, of segments after the last sample."""
        if self.samples:
            lengths = self.table[self.samples].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
            periods = (
                self.table[self.period].to_numpy()
                if self.period in self.table.column_names
                else float(exact_period(self.period))
            )
            return self.starts() + np.ceil(lengths * periods).astype(np.int64)
        return nanoseconds(self.table[self.end]) if self.end else self.starts() + 1

    def events(self) -> list[Event]:
        """The rows for an oracle."""
        names = [n for n in self.table.column_names if n not in (*self.keys, self.time, self.end)]
        columns = {n: plain_values(self.table[n]) for n in names}
        keys = (
            list(zip(*(plain_values(self.table[k]) for k in self.keys), strict=True))
            if self.keys
            else [()] * len(self.table)
        )
        pairs = zip(keys, self.starts().tolist(), self.stops().tolist(), strict=True)
        return [Event(k, a, b, {n: columns[n][i] for n in names}) for i, (k, a, b) in enumerate(pairs)]


@dataclass(frozen=True)
class Case:
    """One query with its answer.

    Attributes
    ----------
    name : unique among all cases
    node : the operator that this is a case of
    inputs : the sources by name
    query : from handles of the sources (made by any engine's reader) to a query
    expected : the rows of the answer, each (key columns, time, [end], payload): as the columns of the result
    tolerance : how far a float may be off, relative to the largest finite float of its column (at least 1); 0 asks for equal bits
    why : the reason for a tolerance
    """

    name: str
    node: type[Node]
    inputs: Mapping[str, Source]
    query: Callable[[Mapping[str, Any]], Query]
    expected: Callable[[Mapping[str, Source]], Iterable[Row]]
    tolerance: float = 0.0
    why: str = ""

    def __post_init__(self) -> None:
        assert bool(self.tolerance) == bool(self.why), f"{self.name}: a tolerance needs a reason"

    def build(self, streams: Mapping[str, Any] | None = None) -> Query:
        """The query, over given handles or over the tables in memory."""
        return self.query(streams if streams is not None else {n: s.stream() for n, s in self.inputs.items()})

    @cached_property
    def plan(self) -> Node:
        """The plan of the query over the tables in memory, built once: many tests ask what a case is like."""
        return self.build().node

    @cached_property
    def wanted(self) -> list[Row]:
        """The rows of the answer: the oracle is asked once, not in every example of every law."""
        return list(self.expected(self.inputs))

    def check(self, answer: pa.Table | Sequence[Row]) -> None:
        """Compare an answer with what is expected."""
        assert_same(rows(answer) if isinstance(answer, pa.Table) else list(answer), self.wanted, self.tolerance)


# --- from Arrow to rows ---------------------------------------------------------------------------------------------------------


def nanoseconds(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    return column.to_numpy().astype(np.int64)


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Python values: instants as nanoseconds, structs of re and im as complex numbers, lists as tuples."""
    if pa.types.is_timestamp(column.type):
        return nanoseconds(column).tolist()
    return [_plain(v) for v in column.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"re", "im"}:
        re, im = (_plain(part) for part in value.values())
        return (
            tuple(_plain({"re": a, "im": b}) for a, b in zip(re, im, strict=True))
            if isinstance(re, tuple)
            else complex(re, im)
        )
    return tuple(_plain(v) for v in value) if isinstance(value, list | tuple | np.ndarray) else value


def rows(table: pa.Table) -> list[Row]:
    """A result as rows that can be compared."""
    return list(zip(*(plain_values(c) for c in table.columns), strict=True)) if len(table) else []


def sample_rows(signals: Mapping[Key, Mapping[int, Any]], grid: Grid) -> list[Row]:
    """The rows of a uniform signal; a vector has a column per channel."""
    return [(*key, grid.instant(k), *np.atleast_1d(v).tolist()) for key, x in signals.items() for k, v in x.items()]


def window_rows(signals: Mapping[Key, Mapping[int, np.ndarray]], grid: Grid) -> list[Row]:
    return [(*key, grid.instant(k), tuple(v.tolist())) for key, w in signals.items() for k, v in w.items()]


def grid(period: Any, origin: int = 0) -> Grid:
    return Grid(Fraction(period), origin)


# --- comparing ------------------------------------------------------------------------------------------------------------------


def assert_same(found: list[Row], wanted: list[Row], tolerance: float) -> None:
    """Both hold the same rows, each as often; floats within the tolerance, NaN equals NaN."""
    found, wanted = (sorted(map(_without_dicts, some), key=_order) for some in (found, wanted))
    assert [_exact(r) for r in found] == [_exact(r) for r in wanted], _difference(found, wanted)
    scale = [_scale(c) for c in zip(*wanted, strict=True)]
    for a, b in zip(found, wanted, strict=True):
        for x, y, s in zip(a, b, scale, strict=True):
            assert _close(x, y, tolerance * s, tolerance == 0), f"{a} is not {b} (tolerance {tolerance:g})"


def _without_dicts(value: Any) -> Any:
    """Structs as tuples of their values: the floats among these are compared as all others."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return tuple(map(_without_dicts, value)) if isinstance(value, tuple) else value


def _order(row: Row) -> Any:
    exact = [(str(type(v)), 0 if v is None else v) for v in _exact(row)]
    return exact, [_sortable(v) for v in row if _is_float(v)]


def _sortable(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_sortable(v) for v in value]
    if value is None:  # within a list
        return [(True, 0.0, 0.0)]
    parts = (value.real, value.imag) if isinstance(value, complex) else (float(value),)
    return [(p != p, 0.0 if p != p else p, math.copysign(1, p)) for p in parts]


def _is_float(value: Any) -> bool:
    return isinstance(value, float | complex) or (isinstance(value, tuple) and any(_is_float(v) for v in value))


def _exact(row: Row) -> Row:
    """The part of a row that must be equal whatever the tolerance, with placeholders for floats."""
    return tuple("~" if _is_float(v) else v for v in row)


def _numbers(value: Any) -> list[float]:
    if isinstance(value, tuple):
        return [n for v in value for n in _numbers(v)]
    return [abs(value)] if isinstance(value, float | complex) and np.isfinite(value) else []


def _scale(column: Iterable[Any]) -> float:
    return max([1.0, *(n for v in column for n in _numbers(v))])


def _close(x: Any, y: Any, allowed: float, bits: bool) -> bool:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_close(a, b, allowed, bits) for a, b in zip(x, y, strict=True))
    if isinstance(x, complex) or isinstance(y, complex):
        x, y = complex(x), complex(y)
        if not (np.isfinite(x) and np.isfinite(y)):
            return not np.isfinite(x) and not np.isfinite(y)
        return abs(x - y) <= allowed
    if isinstance(x, float) and isinstance(y, float):
        if x != x or y != y:
            return x != x and y != y
        same_sign = not bits or math.copysign(1, x) == math.copysign(1, y)
        return (x == y and same_sign) or (not bits and math.isfinite(x) and math.isfinite(y) and abs(x - y) <= allowed)
    return bool(x == y)


def _difference(found: list[Row], wanted: list[Row]) -> str:
    extra = [r for r in found if _exact(r) not in {_exact(w) for w in wanted}]
    lacking = [r for r in wanted if _exact(r) not in {_exact(f) for f in found}]
    return f"{len(found)} rows, {len(wanted)} wanted; not wanted: {extra[:5]}; lacking: {lacking[:5]}"
