"""Reading inside tasks: Parquet row groups and tables straight into Arrow, with only the columns and rows that the plan needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from hydrophone import expr
from hydrophone.engine.ingest import instants
from hydrophone.errors import PlanError
from hydrophone.io.arrow import ArrowData
from hydrophone.io.parquet import File, ParquetData, check_fragment, named
from hydrophone.ops.epochs import Epochs
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.rows import Select, Where, WithColumns
from hydrophone.ops.signals import ToSignal
from hydrophone.ops.sliding import Session, Sliding
from hydrophone.ops.snapshots import Snapshot
from hydrophone.ops.tumble import Tumble
from hydrophone.plan.node import Node
from hydrophone.plan.rewrite import filters_on_sources
from hydrophone.plan.source import Layout, Source
from hydrophone.pushdown import arrow_filter
from hydrophone.spark.wire import packed, unpacked
from hydrophone.time import MAX_TIME, MIN_TIME

ROWS_AT_ONCE = 1 << 20
"""Rows that a task takes at a time, if it can: arrays beyond 32 MB go back to the system and come anew with every operation,
which cost more than the work itself."""
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
LARGEST_TABLE = 64 << 20
"""Bytes of a table in memory that may travel with the plan."""


# --- which columns and rows -------------------------------------------------------------------------------------------


def prune(root: Node) -> Node:
    """The same plan over sources that hold only the payload columns it looks at."""
    needs: dict[Node, frozenset[str] | None] = {root: None}
    for node in reversed(root.topological()):
        for child in node.inputs:
            wanted = _wanted(node, needs[node])
            both = wanted if child not in needs else _either(needs[child], wanted)
            needs[child] = both
    done: dict[Node, Node] = {}
    for node in root.topological():
        need = needs[node]
        if isinstance(node, Source) and need is not None:
            done[node] = dataclasses.replace(node, layout=_narrowed(node.layout, need))
        else:
            done[node] = node.with_inputs([done[i] for i in node.inputs])
    return done[root]


def smoothed(node: Node) -> TypeGuard[Tumble | Sliding]:
    """Whether results of an operator should leave a few at a time."""
    return isinstance(node, Tumble | Sliding) and node.flush is not None


def at_once(root: Node) -> Node:
    """The same plan without `flush`: a task gives what it has at its end, and a micro-batch is a burst anyway.

    Nor would what leaves be the same when a micro-batch runs again, where tasks have merged events before they are counted.
    """
    done: dict[Node, Node] = {}
    for node in root.topological():
        new = node.with_inputs([done[i] for i in node.inputs])
        done[node] = dataclasses.replace(new, flush=None) if smoothed(new) else new
    return done[root]


def _wanted(node: Node, need: frozenset[str] | None) -> frozenset[str] | None:
    """The payload columns of its input that an operator needs, given those that are needed of its output; None: all.

    Events that tie are ordered by all their columns, so an operator that chooses among them needs all.
    """
    match node:
        case Select():
            return frozenset(node.columns)
        case Epochs():
            return frozenset(node.columns)
        case ToSignal(ties="error"):
            return frozenset(node.value)
        case Tumble() | Sliding() | Session() | Snapshot():
            return frozenset(a.column for _, a in node.aggregates if a.column)
        case Where() if need is not None:
            return need | expr.names(node.condition)
        case WithColumns() if need is not None:
            made = {name for name, _ in node.columns}
            return (need - made).union(*(expr.names(e) for _, e in node.columns))
        case KeyBy() if need is not None:
            return need | {old for _, old in node.columns}
    return None


def _either(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    return None if a is None or b is None else a | b


def _narrowed(layout: Layout, need: frozenset[str]) -> Layout:
    kept = [f for f in layout.schema if f.name in need or f.name not in layout.payload]
    return dataclasses.replace(layout, schema=pa.schema(kept))


def columns(layout: Layout) -> list[str]:
    """The columns that are read, in the order of the layout."""
    named = {*layout.key, layout.time, layout.end, layout.samples, layout.period, *layout.payload}
    return [n for n in layout.schema.names if n in named]


def condition(layout: Layout, conditions: Sequence[nw.Expr]) -> pc.Expression | None:
    """A filter for the file reader: at least the rows that meet all conditions, and those that are errors."""
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


# --- what a task reads ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Row groups of one file that a task reads; no row starts before `low`, and with `edge` some lie beyond the bounds."""

    file: File
    folder: pc.Expression
    groups: tuple[int, ...]
    low: int
    edge: bool = False


@dataclass(frozen=True)
class ParquetScan:
    """How to read the row groups of one source."""

    schema: pa.Schema
    layout: Layout
    condition: pc.Expression | None

    def read(self, parts: Sequence[Part], start: int = MIN_TIME, stop: int = MAX_TIME) -> pa.Table:
        """The rows of some row groups that start before `stop` and end after `start`, in one table."""
        tables = list(self.tables(parts, start, stop))
        return pa.concat_tables(tables) if tables else self.empty()

    def tables(self, parts: Sequence[Part], start: int = MIN_TIME, stop: int = MAX_TIME) -> Iterator[pa.Table]:
        """As `read`, a table for each part."""
        for part in parts:
            part.file.check()
            table = self._read(part)
            yield self._within(table, start, stop) if part.edge else table

    def empty(self) -> pa.Table:
        """No rows."""
        return pa.schema([self.layout.schema.field(n) for n in columns(self.layout)]).empty_table()

    def _read(self, part: Part) -> pa.Table:
        fragment = ds.ParquetFileFormat().make_fragment(
            part.file.path, pyarrow.fs.LocalFileSystem(), partition_expression=part.folder, row_groups=part.groups
        )
        check_fragment(fragment, self.schema, columns(self.layout))
        with named(part.file.path):
            # One core per task is what Spark reckons with.
            return fragment.to_table(
                schema=self.schema, columns=columns(self.layout), filter=self.condition, use_threads=False
            )

    def _within(self, table: pa.Table, start: int, stop: int) -> pa.Table:
        begin, nulls = _times(table[self.layout.time])
        if self.layout.end is None:
            end = np.minimum(begin, MAX_TIME - self.layout.lasts) + self.layout.lasts
        else:
            end = np.maximum(_times(table[self.layout.end])[0], begin + 1)
        # A null time belongs to the slice that begins at minus infinity, where it is refused.
        keep = (begin < stop) & (end > start)
        if nulls is not None:
            keep = np.where(nulls, start == MIN_TIME, keep)
        rows = np.flatnonzero(keep)
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            return table.slice(int(rows[0]), len(rows))
        return table.filter(pa.array(keep))


def _times(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    if not column.null_count:
        return instants(column, ""), None
    nulls = pc.is_null(column).to_numpy()
    return instants(pc.fill_null(column, pa.scalar(0, pa.int64()).cast(column.type)), ""), nulls


def earliest(table: pa.Table, layout: Layout) -> int:
    """No row starts before this instant."""
    return nanoseconds(pc.min(table[layout.time]))


def nanoseconds(value: pa.Scalar) -> int:
    """A time as nanoseconds; null is before all others."""
    if not value.is_valid:
        return MIN_TIME
    return int(value.value) * NANOSECONDS[value.type.unit] if pa.types.is_timestamp(value.type) else int(value.as_py())


@dataclass(frozen=True)
class TableScan:
    """A table in memory that travels with the plan."""

    data: bytes
    layout: Layout

    @classmethod
    def of(cls, source: Source) -> TableScan:
        """Pack the columns that are needed."""
        assert isinstance(source.data, ArrowData)
        table = source.data.table.select(columns(source.layout))
        if table.nbytes > LARGEST_TABLE:
            raise PlanError(
                f"to_spark: the table {source.data.identity} has {table.nbytes >> 20} MB, too much to travel with the plan",
                hint="write it to Parquet files and use hp.read.parquet",
            )
        return cls(packed(table), source.layout)

    @cached_property
    def table(self) -> pa.Table:
        """The rows."""
        return unpacked(self.data)


def scan_of(root: Node, source: Source) -> ParquetScan:
    """How tasks read a Parquet source."""
    assert isinstance(source.data, ParquetData)
    filters = filters_on_sources(root)[source]
    return ParquetScan(source.data.schema, source.layout, condition(source.layout, filters))
