"""Tables at rest beside a stream: every event finds its row of a reference table, whose rows may have versions in time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints, Mask
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.sorted_rows import concat_ranges, search_rows, stable_order
from hydrophone.model.time import MAX_TIME, MIN_TIME, format_instant
from hydrophone.ops.relational.rows import visible_columns, visible_schema
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import StreamType

SINCE, UNTIL = "__since", "__until"
LARGEST = 64 << 20
"""Bytes of a reference table: it travels with the plan to every task."""
_LARGEST_CODE = 1 << 62


@dataclass(frozen=True, eq=False)
class Reference:
    """The rows of a reference table, with columns `SINCE` and `UNTIL` in nanoseconds that say when each holds; null: until the next one."""

    table: pa.Table

    @cached_property
    def identity(self) -> str:
        """By content: the same table is the same query, in every process."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table.combine_chunks())
        return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup(Node):
    """Add the columns of the row of a reference table that has equal values in `on` and holds when the event starts.

    Reference: ``pandas.merge(events, table, on=..., how=...)`` where rows hold for ever. Start, gap and end: every event is
    for itself. An event that finds no row is left out (``inner``) or has nulls (``left``); null finds nothing.
    """

    stable_name = "lookup"

    reference: Reference
    on: tuple[tuple[str, str], ...]
    how: str = "inner"

    gives: ClassVar[Order | None] = None
    rowwise = True
    many: ClassVar[bool] = False
    """Whether an event may find several rows."""

    def check(self) -> None:
        """At most one row for every event, unless there may be many."""
        table = self.reference.table
        if self.how not in ("inner", "left"):
            raise ParameterError(f"lookup: how must be 'inner' or 'left', got {self.how!r}")
        if not self.on:
            raise ParameterError("lookup: name at least one column in on=")
        if table.nbytes > LARGEST:
            raise ParameterError(
                f"lookup: the table has {table.nbytes >> 20} MB, too much to travel with the plan",
                hint="leave out rows and columns that are not needed, or let Spark join it and take the result with from_spark",
            )
        for _, theirs in self.on:
            if theirs not in table.column_names:
                names = ", ".join(n for n in table.column_names if n not in (SINCE, UNTIL))
                raise ParameterError(f"lookup: the table has no column {theirs!r}; it has: {names}")
        _Index(self)

    @property
    def added(self) -> pa.Schema:
        """The columns that events get."""
        left_out = {SINCE, UNTIL, *(theirs for _, theirs in self.on)}
        return pa.schema([f for f in self.reference.table.schema if f.name not in left_out])

    def key_below(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """A column of the table has no counterpart below."""
        return None if set(self.added.names) & set(names) else names

    def output_type(self, x: StreamType) -> StreamType:
        """The payload grows."""
        schema = visible_schema(x)
        for ours, theirs in self.on:
            if ours not in schema.names:
                raise ParameterError(f"lookup: no column {ours!r}; this stream has: {', '.join(schema.names)}")
            a, b = schema.field(ours).type, self.reference.table.schema.field(theirs).type
            if a != b:
                raise SignalTypeError(
                    f"lookup: {ours!r} is {a} in the stream and {theirs!r} is {b} in the table", hint="cast one of them"
                )
        taken = sorted(set(self.added.names) & set(schema.names))
        if taken:
            raise ParameterError(
                f"lookup: the stream has columns of these names already: {', '.join(taken)}",
                hint="rename them in the table, or leave them out with columns=",
            )
        return StreamType(x.key, x.time, x.clock, pa.schema([*x.columns, *self.added]), x.end)

    def kernel(self, x: StreamType) -> Kernel:
        """Look up."""
        return LookupKernel(self, x, self.type)


@dataclass(frozen=True, kw_only=True, eq=False)
class LookupMany(Lookup):
    """As Lookup, but an event is there once for each row that holds when it starts, whatever their number.

    It is no row operator: events that it makes of one row may have different keys further on, and go to different shards.
    """

    stable_name = "lookup_many"

    gives = Order.ANY
    rowwise = False
    many = True


class _Index:
    """The rows of the table by what they are looked up with, then by time."""

    def __init__(self, node: Lookup) -> None:
        table = node.reference.table
        columns = [table[theirs] for _, theirs in node.on]
        self.values = [pc.unique(pc.drop_null(column.combine_chunks())) for column in columns]
        self.seen: list[
            Ints | None
        ] = []  # per column the codes up to it that the table has, where they would not fit otherwise
        code = self._learn(columns)
        row = np.flatnonzero(code >= 0)
        order = stable_order(code[row], table[SINCE].to_numpy()[row])
        row = row if order is None else row[order]
        self.row, self.known, self.since = row, code[row], table[SINCE].to_numpy()[row]
        told = pc.is_valid(table[UNTIL]).to_numpy()[row]
        self.until = np.where(
            told, pc.fill_null(table[UNTIL], MAX_TIME).to_numpy()[row], _next_since(self.known, self.since)
        )
        if node.many:
            self.last = _latest_until(self.known, self.until)
        else:
            self._check_one(node, told)

    def _check_one(self, node: Lookup, told: Mask) -> None:
        """Of rows that follow each other the later one holds; two that begin together, or before one has ended, do not follow."""
        clash = (self.since[1:] == self.since[:-1]) | (told[:-1] & (self.since[1:] < self.until[:-1]))
        both = np.flatnonzero((self.known[1:] == self.known[:-1]) & clash)
        if len(both):
            at = int(both[0]) + 1
            what = {theirs: node.reference.table[theirs][int(self.row[at])].as_py() for _, theirs in node.on}
            when = "" if self.since[at] == MIN_TIME else f" at {format_instant(int(self.since[at]))}"
            raise ParameterError(
                f"lookup: two rows of the table hold for {what}{when}",
                hint="keep one, or say from when to when each holds (since=, until=), or take all: many=True",
            )

    def code(self, columns: list[pa.ChunkedArray]) -> Ints:
        """A number for every row; -1 where the table has no such values."""
        code = np.zeros(len(columns[0]), np.int64)
        for column, values, seen in zip(columns, self.values, self.seen, strict=True):
            code = _combine_codes(code, column, values)
            code = code if seen is None else _position_of_codes(code, seen)
        return code

    def _learn(self, columns: list[pa.ChunkedArray]) -> Ints:
        """The codes of the table's own rows; numbered afresh before they would leave 64 bits."""
        code, largest = np.zeros(len(columns[0]), np.int64), 1
        for i, (column, values) in enumerate(zip(columns, self.values, strict=True)):
            code, largest = _combine_codes(code, column, values), largest * (len(values) + 1)
            after = len(self.values[i + 1]) + 1 if i + 1 < len(self.values) else 1
            seen = np.unique(code) if largest * after > _LARGEST_CODE else None
            if seen is not None:
                code, largest = _position_of_codes(code, seen), len(seen)
            self.seen.append(seen)
        return code

    def rows(self, code: Ints, time: Ints) -> tuple[Ints, Mask]:
        """For every (code, time) the row of the table, and whether there is one."""
        if not len(self.row):
            return np.zeros(len(code), np.int64), np.zeros(len(code), np.bool_)
        at = np.maximum(search_rows(self.known, self.since, code, time, side="right") - 1, 0)
        return self.row[at], (self.known[at] == code) & (self.since[at] <= time) & (time < self.until[at])

    def all_rows(self, code: Ints, time: Ints) -> tuple[Ints, Ints]:
        """All pairs of (position in `code`, row of the table) that hold, in the order of both."""
        first = search_rows(self.known, self.last, code, time, side="right")  # rows before it are over
        counts = np.maximum(search_rows(self.known, self.since, code, time, side="right") - first, 0)
        i, at = np.repeat(np.arange(len(code)), counts), concat_ranges(first, counts)
        holds = time[i] < self.until[at]
        return i[holds], self.row[at[holds]]


def _next_since(known: Ints, since: Ints) -> Ints:
    """When the next later row of the same values begins, of rows in order; else the end of time."""
    new = np.flatnonzero((known[1:] != known[:-1]) | (since[1:] != since[:-1])) + 1
    first = np.concatenate([[0], new]) if len(known) else np.zeros(0, np.int64)
    follows = np.full(len(first), MAX_TIME)
    same = known[first[1:]] == known[first[:-1]]
    follows[:-1][same] = since[first[1:]][same]
    return np.repeat(follows, np.diff(np.append(first, len(known))))


def _latest_until(known: Ints, until: Ints) -> Ints:
    """For every row the latest end of it and the rows before it that have the same values."""
    ends, rank = np.unique(until, return_inverse=True)
    code = np.cumsum(np.concatenate([[0], known[1:] != known[:-1]])) * len(ends) if len(known) else known
    return ends[np.maximum.accumulate(code + rank) - code]


def _combine_codes(code: Ints, column: pa.ChunkedArray, values: pa.Array) -> Ints:
    """Codes that also say which of the values each row has; -1 for none."""
    found = pc.fill_null(pc.index_in(column, value_set=values, skip_nulls=True), -1).to_numpy()
    return np.where((code < 0) | (found < 0), -1, code * (len(values) + 1) + found)


def _position_of_codes(code: Ints, seen: Ints) -> Ints:
    """Where each code is in a sorted array of them; -1 for one that is not there or says none."""
    at = np.minimum(np.searchsorted(seen, code), len(seen) - 1)
    return np.where((seen[at] == code) & (code >= 0), at, -1)


class LookupKernel(Stateless):
    """One search per event in the sorted table."""

    def __init__(self, node: Lookup, kind: StreamType, out: StreamType) -> None:
        self.node, self.kind, self.schema = node, kind, out.columns
        self.index = _Index(node)
        self.table = node.reference.table.select(node.added.names)

    def map(self, batch: Batch) -> Batch:
        """Look up all events of a batch."""
        assert isinstance(batch, Events)
        ours = [name for name, _ in self.node.on]
        seen = visible_columns(batch, self.kind, self, ours)
        code = self.index.code([seen[n] for n in ours])
        if self.node.many:
            at, row = self.index.all_rows(code, batch.start)
            found = np.ones(len(at), np.bool_)
            if self.node.how == "left":
                alone = np.setdiff1d(np.arange(len(batch)), at)
                order = np.argsort(np.concatenate([at, alone]), kind="stable")
                at, row = np.concatenate([at, alone])[order], np.concatenate([row, alone * 0])[order]
                found = np.concatenate([found, np.zeros(len(alone), np.bool_)])[order]
            batch = batch.select(at)
        else:
            row, found = self.index.rows(code, batch.start)
        if self.node.how == "inner":
            batch, row = (batch, row) if found.all() else (batch.select(found), row[found])
            added = self.table.take(pa.array(row))
        else:
            added = self.table.take(pa.array(row, mask=~found))
        arrays = [*batch.columns.columns, *added.columns]
        return batch.with_columns(pa.table(arrays, schema=self.schema))
