"""Chunks: how rows, marks and results travel between the tasks and the shards of a streaming query.

A chunk is one Spark row. It is addressed to a port of a stage in one shard (or to the sink) and carries a packed Arrow
table or a small JSON text, so that a shuffle moves few large rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.files import File
from hydrophone.engine.ingest import instants
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError
from hydrophone.model.batch import Events, Ints
from hydrophone.model.key_table import shard_of_keys
from hydrophone.model.progress import Policy, merge_seen, seen_times, without_key
from hydrophone.model.progress import Seen as Said
from hydrophone.model.sorted_rows import order_by_slot
from hydrophone.model.take_rows import take_table
from hydrophone.model.time import MAX_TIME, add_time
from hydrophone.plan.data import Data
from hydrophone.plan.node import Node, rebuild
from hydrophone.plan.source import Port
from hydrophone.spark.arrow_types import to_plan_types
from hydrophone.spark.batch.shards import merge_small_tables
from hydrophone.spark.exchange.table_bytes import table_to_bytes
from hydrophone.spark.streaming.partial_aggregates import PartialAggregates, Sent, TaskMerge, announced_mark

SINK = -1
"""The stage number of what is addressed to the sink: every stage hands it on."""

BYTES_AT_ONCE = 64 << 20
"""Bytes of a packed table, at most: Spark holds a row in one buffer."""


class Kind(IntEnum):
    """What a chunk carries."""

    ROWS = 0
    MARK = 1
    RESULT = 2
    LATE = 3
    METRICS = 4
    WRITTEN = 5
    CLOCK = 6
    JOINT = 7
    PARTIALS = 8
    TAKEN = 9
    ENDS = 10
    READ = 11
    CONTROL = 12
    ERROR = 13


@dataclass(frozen=True)
class Chunk:
    """One Spark row.

    Attributes
    ----------
    label : the shard, by the number that Spark's own hash puts into the right partition
    stage, port : the address in the plan; for the sink, `port` is the number of a source
    origin, number : where the rows come from (a file and the number of its row, an upstream shard): chunks are ordered by
        it, whichever task brought them
    """

    label: int
    stage: int
    port: int
    kind: Kind
    origin: str
    number: int
    data: bytes


DDL = "label int, stage int, port int, kind int, origin string, number long, data binary"
SCHEMA = pa.schema(
    [
        ("label", pa.int32()),
        ("stage", pa.int32()),
        ("port", pa.int32()),
        ("kind", pa.int32()),
        ("origin", pa.string()),
        ("number", pa.int64()),
        ("data", pa.binary()),
    ]
)


def to_record_batch(chunks: Sequence[Chunk]) -> pa.RecordBatch:
    """Chunks as Spark takes them from a task."""
    columns = [pa.array([getattr(c, f.name) for c in chunks], f.type) for f in SCHEMA]
    return pa.record_batch(columns, schema=SCHEMA)


def chunk_tables(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts that fit into a chunk."""
    parts = max(1, -(-table.nbytes // BYTES_AT_ONCE))
    rows = max(1, -(-len(table) // parts))
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)


# --- from source rows to chunks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A port that a source feeds, the row operators between them, and how tasks may merge rows for it."""

    stage: int
    port: int
    prefix: Node
    partial: PartialAggregates | None = None


@dataclass
class TaskProgress:
    """What a task has seen of a source.

    Attributes
    ----------
    mark : that of the source when the micro-batch began; None where the task does not know it
    largest : what rows say of every identity, before any filter: its largest time, or clusters of times
    ends : the same of ends, where the source promises something of them
    taken : by target the rows that were merged
    merging : by target what was merged and not sent yet
    next : where the rows to come would lie in the source; what is held until the end has its place there
    """

    mark: int | None = None
    largest: Said = field(default_factory=dict)
    ends: Said = field(default_factory=dict)
    taken: dict[Target, int] = field(default_factory=dict)
    merging: dict[Target, TaskMerge] = field(default_factory=dict)
    next: tuple[str, int] = "", 0


@dataclass(frozen=True)
class ChunkPacker:
    """Packs the rows of one source per shard; runs in Spark tasks, before the exchange.

    Rows travel as they came. The row operators run in the shard, because only there it is known which rows are late, and
    late rows are kept as they came. Rows that are known to be in time may be merged here (see `partial`).

    Attributes
    ----------
    announced : the id of the query and the number of the source, by which a task learns the mark of the source; None: rows all travel
    until : the column of ends, where there is one
    listeners : the stages and ports that are told of marks; None: the targets
    """

    schema: pa.Schema
    time: str
    policy: Policy
    targets: tuple[Target, ...]
    labels: tuple[int, ...]
    key: tuple[str, ...] = ()
    announced: tuple[str, int] | None = None
    until: str | None = None
    listeners: tuple[tuple[int, int], ...] | None = None

    def seen(self) -> TaskProgress:
        """A task begins."""
        merges = self.announced is not None and any(t.partial for t in self.targets)
        return TaskProgress(announced_mark(*self.announced) if merges and self.announced else None)

    def files(self, data: Data, source: int) -> FilePacker:
        """For tasks whose input rows are paths of files of some data, which is the watched source of that number."""
        return FilePacker(self, data.for_tasks(self.schema.names), source)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For tasks whose input rows are the source's own. They have no order that would be the same on replay: the shard sorts them."""
        seen = self.seen()
        for number, table in enumerate(merge_small_tables(iter(batches))):
            yield from self.pack("", number, to_plan_types(table, self.schema), seen)
        yield from self.end(seen)

    def pack(self, origin: str, number: int, table: pa.Table, seen: TaskProgress) -> Iterator[pa.RecordBatch]:
        """Chunks of some rows."""
        seen.largest = merge_seen(seen.largest, seen_times(table, self.time, self.policy, self.key), self.policy)
        if self.policy.of_ends is not None and self.until is not None:
            seen.ends = merge_seen(seen.ends, seen_times(table, self.until, self.policy.of_ends), self.policy)
        for target in self.targets:
            rest = table
            if target.partial is not None and seen.mark is not None:
                merging = seen.merging.get(target) or target.partial.begun(len(self.labels))
                seen.merging[target] = merging
                rest, cells = self._merged(target, merging, table, seen, seen.mark)
                for sent in (cells, merging.rest() if merging.full else None):
                    yield from self._cells(target, sent, origin, number)
            shard = self._shard(target, rest)
            for chunk in chunks_by_shard(rest, shard, self.labels, target.stage, target.port, origin, number):
                yield to_record_batch([chunk])
        seen.next = origin, number + len(table)

    def _cells(self, target: Target, sent: Sent | None, origin: str, number: int) -> Iterator[pa.RecordBatch]:
        if sent is not None and len(sent[0]):
            for chunk in chunks_by_shard(*sent, self.labels, target.stage, target.port, origin, number):
                yield to_record_batch([replace(chunk, kind=Kind.PARTIALS)])

    def _merged(
        self, target: Target, merging: TaskMerge, table: pa.Table, seen: TaskProgress, mark: int
    ) -> tuple[pa.Table, Sent | None]:
        """The rows that travel, and of those that are surely in time what leaves the table."""
        time = table[self.time]
        # Rows without a time are there for their mark alone, or for the shard to refuse.
        early = pc.is_valid(time).to_numpy()
        at = instants(time.drop_null(), self.time)
        # What is not far ahead of the mark is not far ahead of the rest, which is at the mark at least.
        early[early] = (at >= mark) & (
            at <= (MAX_TIME if self.policy.ahead is None else add_time(mark, self.policy.ahead))
        )
        some = table if early.all() else table.filter(pa.array(early))
        cells = merging.add(some)
        if cells is None:
            return table, None
        seen.taken[target] = seen.taken.get(target, 0) + len(some)
        return table.slice(0, 0) if some is table else table.filter(pa.array(~early)), cells

    def end(self, seen: TaskProgress) -> Iterator[pa.RecordBatch]:
        """What a task still holds, and what it has seen, told to every shard."""
        for target, merging in seen.merging.items():
            yield from self._cells(target, merging.rest(), *seen.next)
        for kind, largest in ((Kind.MARK, seen.largest), (Kind.ENDS, seen.ends)):
            if largest:
                data = json.dumps(largest).encode()
                at = self._listeners()
                yield to_record_batch([Chunk(lab, s, p, kind, "", 0, data) for lab in self.labels for s, p in at])
        for target, rows in seen.taken.items():
            # All shards learn from where on rows were merged; the rows are counted by the first.
            for i, label in enumerate(self.labels):
                said = json.dumps({"rows": 0 if i else rows, "from": seen.mark}).encode()
                yield to_record_batch([Chunk(label, target.stage, target.port, Kind.TAKEN, "", 0, said)])

    def clock(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For tasks whose input rows are the times that Spark's clock has shown, one column: the latest is told to every shard."""
        latest = [pc.max(b.column(0).cast(pa.int64())).as_py() for b in batches if len(b)]
        if latest:
            data = str(max(latest) * 1_000).encode()
            at = self._listeners()
            yield to_record_batch([Chunk(lab, s, p, Kind.CLOCK, "", 0, data) for lab in self.labels for s, p in at])

    def _listeners(self) -> Sequence[tuple[int, int]]:
        return [(t.stage, t.port) for t in self.targets] if self.listeners is None else self.listeners

    def _shard(self, target: Target, table: pa.Table) -> Ints:
        """Where rows go. One that is there for its mark alone goes to the first shard, unless the mark is for its key."""
        if self.policy.column is None or not table[self.time].null_count:
            return self._by_key(target, table)
        first = pc.is_null(table[self.time])
        if self.policy.per_key is not None:
            first = pc.and_(first, without_key(table, self.key))
        shard, rest = np.zeros(len(table), np.int64), pc.invert(first)
        shard[rest.to_numpy(zero_copy_only=False)] = self._by_key(target, table.filter(rest))
        return shard

    def _by_key(self, target: Target, table: pa.Table) -> Ints:
        names = key_columns(target.prefix)
        # A filter before a key_by may remove the rows whose new key is null: only behind it null is an error.
        if names is None or any(table[n].null_count for n in names):
            return _computed_shard(target.prefix, table, len(self.labels))
        return shard_of_keys([table[n] for n in names], len(self.labels), len(table))


def file_name(path: str) -> str:
    """A path of Spark's as this machine has it: what stands after the scheme, in which a # or % is part of a name.

    Examples
    --------
    >>> file_name("file:/in/a%41.parquet"), file_name("file:///in/a.parquet")
    ('/in/a%41.parquet', '/in/a.parquet')
    """
    return "/" + path.partition(":")[2].lstrip("/")


@dataclass(frozen=True)
class FilePacker:
    """Reads arrived files in the task, as every other host does: no row crosses from the JVM, and nanoseconds stay.

    The driver is told which files were read to the end (see `source_log`).
    """

    packer: ChunkPacker
    data: Data
    source: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read and pack the files whose paths come in."""
        seen, read = self.packer.seen(), []
        for batch in batches:
            for path, length in zip(batch["path"].to_pylist(), batch["length"].to_pylist(), strict=True):
                name, number = file_name(path), 0
                for table in self._tables(name, length):
                    yield from self.packer.pack(path, number, table, seen)
                    number += len(table)
                read.append(name)
        yield from self.packer.end(seen)
        if read:
            told = json.dumps(read).encode()
            yield to_record_batch([Chunk(self.packer.labels[0], SINK, self.source, Kind.READ, "", 0, told)])

    def _tables(self, name: str, length: int) -> Iterator[pa.Table]:
        before = _file_chunks(name)
        if before.size != length:
            raise DataError(f"the file {name} has {before.size} bytes; it had {length} when it arrived", hint=_WHOLE)
        read = self.data.read(before, None, self.packer.schema.names)
        yield from merge_small_tables(batch for table in read for batch in table.to_batches())
        if _file_chunks(name) != before:
            raise DataError(f"the file {name} changed while it was read", hint=_WHOLE)


_WHOLE = (
    "files must arrive whole (write them elsewhere and move them in) and never change; when it is whole, start again: "
    "the micro-batch runs again"
)


def _file_chunks(name: str) -> File:
    try:
        return File.of(name)
    except FileNotFoundError:
        raise DataError(
            f"the file {name} is gone, and was not read yet",
            hint="bring it back and start again: the micro-batch runs again; to go on without it, "
            "put a file without rows in its place",
        ) from None


def chunks_by_shard(
    table: pa.Table, shard: Ints, labels: Sequence[int], stage: int, port: int, origin: str, number: int
) -> Iterator[Chunk]:
    """One chunk for every shard that gets rows, rows of one shard in the order in which they came."""
    order = order_by_slot(shard)
    edges = np.searchsorted(shard[order], np.arange(len(labels) + 1))
    table = take_table(table, order) if len(labels) > 1 else table
    for i, label in enumerate(labels):
        part = table.slice(int(edges[i]), int(edges[i + 1] - edges[i]))
        for j, portion in enumerate(chunk_tables(part)):
            yield Chunk(label, stage, port, Kind.ROWS, origin, number + j, table_to_bytes(portion))


def key_columns(prefix: Node) -> tuple[str, ...] | None:
    """The source's own columns that are the key above some row operators; None where the key is computed."""
    names: tuple[str, ...] | None = tuple(prefix.type.key.names)
    for node in reversed(prefix.topological()):
        names = None if names is None else node.key_below(names)
    return names


_ROW = "_hydrophone_row"


def _computed_shard(prefix: Node, table: pa.Table, shards: int) -> Ints:
    """Run the row operators to learn the keys; rows that a filter removes may go anywhere, so they go by their time."""
    root = _with_row_number(prefix)
    port = root.topological()[0]
    assert isinstance(port, Port)
    shard = shard_of_keys([pa.array(instants(table[port.layout.time], port.layout.time))], shards, len(table))
    pipeline = Pipeline([root])
    pipeline.rows(0, table.append_column(_ROW, pa.array(np.arange(len(table)))))
    for batch in pipeline.drain():
        assert isinstance(batch, Events)
        shard[batch.columns[_ROW].to_numpy()] = shard_of_keys(
            pipeline.keys(root).columns(batch.slot), shards, len(batch)
        )
    return shard


def _with_row_number(prefix: Node) -> Node:
    """The same row operators over rows that carry their number."""

    def carrying(node: Node, new: Node) -> Node:
        if not isinstance(new, Port):
            return new.carrying(_ROW)
        schema = new.layout.schema.append(pa.field(_ROW, pa.int64()))
        return replace(new, layout=replace(new.layout, schema=schema))

    return rebuild(prefix, carrying)


# --- order that is the same on replay -----------------------------------------------------------------------------------


def sort_by_content(table: pa.Table) -> pa.Table:
    """The rows in an order that depends on nothing but the rows."""
    columns = {f"c{i}": _sort_columns(c) for i, c in enumerate(table.columns)}
    keys = pa.table(columns)
    order = pa.compute.sort_indices(keys, sort_keys=[(n, "ascending") for n in keys.column_names])
    return table.take(order)


def _sort_columns(column: pa.ChunkedArray) -> Any:
    """Floats by their bits, so that NaN and -0.0 have a place; nested values by their text, as Arrow has no order for them."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    if pa.types.is_dictionary(flat.type):
        flat = flat.dictionary_decode()
    if pa.types.is_floating(flat.type):
        return flat.view({2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[flat.type.bit_width // 8])
    if pa.types.is_nested(flat.type) or pa.types.is_null(flat.type):
        return pa.array([str(v) for v in flat.to_pylist()], pa.string())
    return flat
