"""Row operators: each output row comes from one input row alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints, Mask, Segments
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.take_rows import number_column, one_chunk
from hydrophone.ops.relational.where_family import WhereFamily, where_family
from hydrophone.plan import expr
from hydrophone.plan.node import Node
from hydrophone.plan.source import plain_type
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import SignalType, StreamType, UniformType, arrow_type


@dataclass(frozen=True, kw_only=True, eq=False)
class Where(Node):
    """Keep the events for which a condition is true; a null condition counts as false."""

    stable_name = "where"

    condition: nw.Expr

    gives = None
    rowwise = True

    def check(self) -> None:
        """The condition looks at one row."""
        expr.check_rowwise(self.condition, "where")

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged, if the condition is one."""
        kind = expr.output_type(self.condition, visible_schema(x))
        if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
            raise ParameterError(
                f"where: the condition is {kind}, not true or false", hint="compare with something: hp.col('x') > 0"
            )
        return x

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """Also those that the condition names."""
        return None if needed is None else needed | expr.column_names(self.condition)

    @property
    def row_filter(self) -> nw.Expr:
        """The condition."""
        return self.condition

    @cached_property
    def family(self) -> tuple[str, ...] | None:
        """Conditions that compare the same value with another number."""
        return where_family(self.condition, visible_schema(self.inputs[0].type))

    @cached_property
    def paired(self) -> str | None:
        """Fewer pairs progress as all do."""
        self.bottom_up("paired")
        return self.inputs[0].paired

    def kernel(self, x: StreamType) -> Kernel:
        """Filter."""
        return WhereKernel(self.condition, x)


class WhereKernel(Stateless):
    """Evaluates the condition on the columns that it names."""

    def __init__(self, condition: nw.Expr, kind: StreamType) -> None:
        self.condition, self.kind, self.compared = condition, kind, expr.compared(condition)

    def map(self, batch: Batch) -> Batch:
        """Filter one batch."""
        assert isinstance(batch, Events)
        keep = expr.passing_rows(
            self.condition, visible_columns(batch, self.kind, self, expr.column_names(self.condition))
        )
        return batch if keep.all() else batch.select(keep)

    @classmethod
    def together(cls, kernels: Sequence[WhereKernel]) -> WhereFamily:
        """All conditions at once."""
        first, found = kernels[0], [k.compared for k in kernels if k.compared is not None]
        what, how, _ = found[0]
        names = expr.column_names(what)

        def value(events: Events) -> pa.Array:
            return expr.evaluate(what, visible_columns(events, first.kind, first, names))

        return WhereFamily(value, how, [number for _, _, number in found])


@dataclass(frozen=True, kw_only=True, eq=False)
class WithColumns(Node):
    """Add or replace payload columns by expressions over the row."""

    stable_name = "with_columns"

    columns: tuple[tuple[str, nw.Expr], ...]

    gives = None
    rowwise = True

    def check(self) -> None:
        """Every expression looks at one row."""
        for name, column in self.columns:
            expr.check_rowwise(column, f"with_columns: {name}")

    def output_type(self, x: StreamType) -> StreamType:
        """The payload grows."""
        schema = visible_schema(x)
        fields = {f.name: f for f in x.columns}
        for name, column in self.columns:
            if name in (*x.key.names, x.time, x.end):
                raise ParameterError(
                    f"with_columns: {name!r} is the key or time of this stream", hint="use key_by to change the key"
                )
            # A zone other than UTC is for the expression alone: Spark would not know it in the result.
            fields[name] = pa.field(name, plain_type(expr.output_type(column, schema)))
        return StreamType(x.key, x.time, x.clock, pa.schema(list(fields.values())), x.end)

    @property
    def made(self) -> frozenset[str]:
        """The columns that are added or replaced."""
        return frozenset(name for name, _ in self.columns)

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """What is needed and not made here, and what the expressions name."""
        return None if needed is None else (needed - self.made).union(*(expr.column_names(e) for _, e in self.columns))

    def filter_passes(self, names: frozenset[str]) -> bool:
        """Where the filter looks at no column that is made here."""
        return not self.made & names

    def key_below(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """A column that is made here has no counterpart below."""
        return None if self.made & set(names) else names

    @cached_property
    def paired(self) -> str | None:
        """The other time, unless it is replaced."""
        self.bottom_up("paired")
        other = self.inputs[0].paired
        return None if other in dict(self.columns) else other

    def kernel(self, x: StreamType) -> Kernel:
        """Map."""
        return WithColumnsKernel(self.columns, x, self.type.columns)


class WithColumnsKernel(Stateless):
    """Evaluates all expressions on the row as it came in."""

    def __init__(self, columns: tuple[tuple[str, nw.Expr], ...], kind: StreamType, schema: pa.Schema) -> None:
        self.columns, self.kind, self.schema = columns, kind, schema

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Events)
        need = frozenset().union(*(expr.column_names(c) for _, c in self.columns))
        table = visible_columns(batch, self.kind, self, need)
        new = {name: expr.evaluate(c, table) for name, c in self.columns}
        arrays = [new[f.name].cast(f.type) if f.name in new else batch.columns[f.name] for f in self.schema]
        return batch.with_columns(pa.table(arrays, schema=self.schema))


@dataclass(frozen=True, kw_only=True, eq=False)
class Select(Node):
    """Keep only these payload columns."""

    stable_name = "select"

    columns: tuple[str, ...]

    gives = None
    rowwise = True

    def output_type(self, x: StreamType) -> StreamType:
        """The payload shrinks."""
        return StreamType(x.key, x.time, x.clock, pa.schema([x.column(c, "select") for c in self.columns]), x.end)

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """The selected ones."""
        return frozenset(self.columns)

    def filter_passes(self, names: frozenset[str]) -> bool:
        """Always: what is selected is there below."""
        return True

    def carrying(self, column: str) -> Node:
        """Select it too."""
        return replace(self, columns=(*self.columns, column))

    @cached_property
    def paired(self) -> str | None:
        """The other time, if it stays."""
        self.bottom_up("paired")
        other = self.inputs[0].paired
        return other if other in (*self.type.key.names, *self.columns) else None

    def kernel(self, x: StreamType) -> Kernel:
        """Project."""
        return SelectKernel(self.columns)


class SelectKernel(Stateless):
    """Projects."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = list(columns)

    def map(self, batch: Batch) -> Batch:
        """Project one batch."""
        assert isinstance(batch, Events)
        return batch.with_columns(batch.columns.select(self.columns))


@dataclass(frozen=True, kw_only=True, eq=False)
class ToEvents(Node):
    """The samples of a uniform signal as point events; with `fields` the channels are the fields of one struct."""

    stable_name = "to_events"

    column: str = "value"
    fields: tuple[str, ...] = ()

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "events"

    def output_type(self, x: UniformType) -> StreamType:
        """One payload column, or one per channel."""
        names = [f"{self.column}_{i}" for i in range(x.channels)] if x.channels and not self.fields else [self.column]
        kind = arrow_type(x.dtype)
        if self.fields:
            if len(self.fields) != max(x.channels, 1) or len(set(self.fields)) < len(self.fields):
                raise ParameterError(
                    f"events: fields {', '.join(map(repr, self.fields))} for {max(x.channels, 1)} channels",
                    hint="give every channel a name of its own",
                )
            kind = pa.struct([(f, kind) for f in self.fields])
        taken = {*x.key.names, x.time}
        if taken & set(names):
            raise ParameterError(
                f"events: the name {self.column!r} is taken by the key or time", hint='choose another: events("sample")'
            )
        return StreamType(x.key, x.time, x.clock, pa.schema([pa.field(n, kind) for n in names]), None)

    def kernel(self, x: UniformType) -> Kernel:
        """Map."""
        return ToEventsKernel(self.type.columns, self.fields)


class ToEventsKernel(Stateless):
    """A row per sample."""

    def __init__(self, schema: pa.Schema, fields: tuple[str, ...]) -> None:
        self.schema, self.fields = schema, fields

    def map(self, batch: Batch) -> Batch:
        """Unfold one batch."""
        assert isinstance(batch, Segments)
        columns = sample_columns(batch.values)
        if self.fields:
            columns = [pa.StructArray.from_arrays(columns, list(self.fields))]
        return Events(batch.sample_slot, batch.sample_time, None, pa.table(columns, schema=self.schema))


def sample_columns(values: np.ndarray[Any, Any]) -> list[pa.Array]:
    """Samples as Arrow columns: one, or one per channel; complex numbers as structs of re and im."""
    if values.ndim == 2:
        return [c for i in range(values.shape[1]) for c in sample_columns(np.ascontiguousarray(values[:, i]))]
    if values.dtype.kind == "c":
        return [pa.StructArray.from_arrays([pa.array(values.real), pa.array(values.imag)], ["re", "im"])]
    return [number_column(values)]


def array_column(values: np.ndarray[Any, Any], *offsets: Ints, lacking: Mask | None = None) -> pa.Array:
    """Samples cut into arrays, and for each further `offsets` these into arrays of arrays; null where one is `lacking`.

    The type is that of `hydrophone.plan.types.arrays_type`.
    """
    if values.dtype.kind == "c":
        parts = [array_column(part, *offsets) for part in (values.real, values.imag)]
        return pa.StructArray.from_arrays(parts, ["re", "im"], mask=None if lacking is None else pa.array(lacking))
    column = number_column(values)
    for depth, cuts in enumerate(offsets, 1):
        mask = None if lacking is None or depth < len(offsets) else pa.array(lacking)
        # NumPy narrows faster than Arrow, which raises where offsets are too large.
        narrow = number_column(cuts.astype(np.int32)) if cuts[-1] < 1 << 31 else pa.array(cuts, pa.int32())
        column = pa.ListArray.from_arrays(narrow, column, mask=mask)
    return column


def column_values(column: pa.ChunkedArray | pa.Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Undo `sample_columns` for one column without nulls."""
    column = one_chunk(column)
    if dtype.kind == "c":
        out = np.empty(len(column), dtype)
        out.real, out.imag = (column.field(i).to_numpy(zero_copy_only=False) for i in (0, 1))
        return out
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(dtype, copy=False)


def signal_values(events: Events, kind: SignalType) -> np.ndarray[Any, Any]:
    """The samples of a signal's events: flat, or a column per channel."""
    columns = [column_values(events.columns[n], kind.dtype) for n in kind.value]
    return np.stack(columns, axis=1) if kind.channels else columns[0]


def visible_schema(x: StreamType) -> pa.Schema:
    """What an expression may name: key, time, end and payload."""
    times = [pa.field(x.time, x.stamp)] + ([pa.field(x.end, x.stamp)] if x.end else [])
    return pa.schema([*x.key, *times, *x.columns])


def visible_columns(events: Events, kind: StreamType, kernel: Kernel, names: Iterable[str]) -> pa.Table:
    """The named columns of a batch as one table."""
    wanted, schema = set(names), visible_schema(kind)
    arrays: dict[str, Any] = {}
    if wanted & set(kind.key.names):
        arrays |= dict(zip(kind.key.names, kernel.keys.columns(events.slot), strict=True))
    if kind.time in wanted:
        arrays[kind.time] = pa.array(events.start).cast(schema.field(kind.time).type)
    if kind.end in wanted and kind.end:
        arrays[kind.end] = pa.array(events.stop).cast(schema.field(kind.end).type)
    arrays |= {n: events.columns[n] for n in kind.columns.names if n in wanted}
    if not wanted:
        return pa.table({"_": pa.nulls(len(events))})
    missing = wanted - set(arrays)
    if missing:
        expr.output_type(nw.col(min(missing)), schema)
    return pa.table({n: arrays[n] for n in schema.names if n in wanted})
