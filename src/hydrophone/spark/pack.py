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
import pyarrow.dataset as ds

from hydrophone.batch import Events, Ints
from hydrophone.columns import take_table
from hydrophone.engine.ingest import instants
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError
from hydrophone.io.parquet import check_fragment, named
from hydrophone.keys import spread
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.lookup import Lookup
from hydrophone.ops.rows import Select, WithColumns
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port
from hydrophone.progress import Policy, largest_times, without_key
from hydrophone.runs import order_by_slot
from hydrophone.spark.data import as_planned
from hydrophone.spark.partial import Merging, Partial, Sent, known_mark
from hydrophone.spark.shards import gathered
from hydrophone.spark.wire import packed

SINK = -1
"""The stage number of what is addressed to the sink: every stage hands it on."""

ROWS_AT_ONCE = 1 << 20
"""Rows that are read from a file at once."""

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
    CELLS = 8
    TAKEN = 9
    ENDS = 10


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


def portions(table: pa.Table) -> Iterator[pa.Table]:
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
    partial: Partial | None = None


@dataclass
class Seen:
    """What a task has seen of a source.

    Attributes
    ----------
    mark : that of the source when the micro-batch began; None where the task does not know it
    largest : the largest time of every identity, before any filter
    ends : the largest end of every identity, where the source promises something of ends
    taken : by target the rows that were merged
    merging : by target what was merged and not sent yet
    next : where the rows to come would lie in the source; what is held until the end has its place there
    """

    mark: int | None = None
    largest: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    taken: dict[Target, int] = field(default_factory=dict)
    merging: dict[Target, Merging] = field(default_factory=dict)
    next: tuple[str, int] = "", 0


@dataclass(frozen=True)
class Packer:
    """Packs the rows of one source per shard; runs in Spark tasks, before the exchange.

    Rows travel as they came. The row operators run in the shard, because only there it is known which rows are late, and
    late rows are kept as they came. Rows that are known to be in time may be merged here (see `partial`).

    Attributes
    ----------
    told : the id of the query and the number of the source, by which a task learns the mark of the source; None: rows all travel
    until : the column of ends, where there is one
    """

    schema: pa.Schema
    time: str
    policy: Policy
    targets: tuple[Target, ...]
    labels: tuple[int, ...]
    key: tuple[str, ...] = ()
    told: tuple[str, int] | None = None
    until: str | None = None

    def seen(self) -> Seen:
        """A task begins."""
        merges = self.told is not None and any(t.partial for t in self.targets)
        return Seen(known_mark(*self.told) if merges and self.told else None)

    def files(self, root: str) -> FilePacker:
        """For tasks whose input rows are paths of files under `root`."""
        return FilePacker(self, root)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For tasks whose input rows are the source's own. They have no order that would be the same on replay: the shard sorts them."""
        seen = self.seen()
        for number, table in enumerate(gathered(iter(batches))):
            yield from self.pack("", number, as_planned(table, self.schema), seen)
        yield from self.end(seen)

    def pack(self, origin: str, number: int, table: pa.Table, seen: Seen) -> Iterator[pa.RecordBatch]:
        """Chunks of some rows."""
        for who, time in largest_times(table, self.time, self.policy, self.key).items():
            seen.largest[who] = max(time, seen.largest.get(who, time))
        if self.policy.of_ends is not None and self.until is not None:
            for who, time in largest_times(table, self.until, self.policy.of_ends).items():
                seen.ends[who] = max(time, seen.ends.get(who, time))
        for target in self.targets:
            rest = table
            if target.partial is not None and seen.mark is not None:
                merging = seen.merging.get(target) or target.partial.begun(len(self.labels))
                seen.merging[target] = merging
                rest, cells = self._merged(target, merging, table, seen, seen.mark)
                for sent in (cells, merging.rest() if merging.full else None):
                    yield from self._cells(target, sent, origin, number)
            shard = self._shard(target, rest)
            for chunk in by_shard(rest, shard, self.labels, target.stage, target.port, origin, number):
                yield to_record_batch([chunk])
        seen.next = origin, number + len(table)

    def _cells(self, target: Target, sent: Sent | None, origin: str, number: int) -> Iterator[pa.RecordBatch]:
        if sent is not None and len(sent[0]):
            for chunk in by_shard(*sent, self.labels, target.stage, target.port, origin, number):
                yield to_record_batch([replace(chunk, kind=Kind.CELLS)])

    def _merged(
        self, target: Target, merging: Merging, table: pa.Table, seen: Seen, mark: int
    ) -> tuple[pa.Table, Sent | None]:
        """The rows that travel, and of those that are surely in time what leaves the table."""
        time = table[self.time]
        # Rows without a time are there for their mark alone, or for the shard to refuse.
        early = pc.is_valid(time).to_numpy()
        early[early] = instants(time.drop_null(), self.time) >= mark
        some = table if early.all() else table.filter(pa.array(early))
        cells = merging.add(some)
        if cells is None:
            return table, None
        seen.taken[target] = seen.taken.get(target, 0) + len(some)
        return table.slice(0, 0) if some is table else table.filter(pa.array(~early)), cells

    def end(self, seen: Seen) -> Iterator[pa.RecordBatch]:
        """What a task still holds, and what it has seen, told to every shard."""
        for target, merging in seen.merging.items():
            yield from self._cells(target, merging.rest(), *seen.next)
        for kind, largest in ((Kind.MARK, seen.largest), (Kind.ENDS, seen.ends)):
            if largest:
                data = json.dumps(largest).encode()
                at = [(t.stage, t.port) for t in self.targets]
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
            at = [(t.stage, t.port) for t in self.targets]
            yield to_record_batch([Chunk(lab, s, p, Kind.CLOCK, "", 0, data) for lab in self.labels for s, p in at])

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
        return spread([table[n] for n in names], len(self.labels), len(table))


@dataclass(frozen=True)
class FilePacker:
    """Reads Parquet files with pyarrow in the task, as every other host does: no row crosses from the JVM, and nanoseconds stay."""

    packer: Packer
    root: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read and pack the files whose paths come in."""
        seen = self.packer.seen()
        for batch in batches:
            for path, length in zip(batch["path"].to_pylist(), batch["length"].to_pylist(), strict=True):
                # Spark writes a path as it is after the scheme: a # or % in it is part of a name.
                name = "/" + path.partition(":")[2].lstrip("/")
                number = 0
                for table in self._tables(name, length):
                    yield from self.packer.pack(path, number, table, seen)
                    number += len(table)
        yield from self.packer.end(seen)

    def _tables(self, name: str, length: int) -> Iterator[pa.Table]:
        schema = self.packer.schema
        file = ds.dataset([name], schema, format="parquet", partitioning="hive", partition_base_dir=self.root)
        found = file.filesystem.get_file_info(name).size
        if found != length:
            raise DataError(
                f"the file {name} has {found} bytes; it had {length} when it arrived",
                hint="files must arrive whole (write them elsewhere and move them in) and never change",
            )
        for fragment in file.get_fragments():
            check_fragment(fragment, schema, schema.names)
        with named(name):
            yield from gathered(file.to_batches(batch_size=ROWS_AT_ONCE))


def by_shard(
    table: pa.Table, shard: Ints, labels: Sequence[int], stage: int, port: int, origin: str, number: int
) -> Iterator[Chunk]:
    """One chunk for every shard that gets rows, rows of one shard in the order in which they came."""
    order = order_by_slot(shard)
    edges = np.searchsorted(shard[order], np.arange(len(labels) + 1))
    table = take_table(table, order) if len(labels) > 1 else table
    for i, label in enumerate(labels):
        part = table.slice(int(edges[i]), int(edges[i + 1] - edges[i]))
        for j, portion in enumerate(portions(part)):
            yield Chunk(label, stage, port, Kind.ROWS, origin, number + j, packed(portion))


def key_columns(prefix: Node) -> tuple[str, ...] | None:
    """The source's own columns that are the key above some row operators; None where the key is computed."""
    names = tuple(prefix.type.key.names)
    for node in reversed(prefix.topological()):
        if isinstance(node, KeyBy):
            if node.window is not None:
                return None
            renamed = dict(node.columns)
            names = tuple(renamed.get(n, n) for n in names)
        elif _made(node) & set(names):
            return None
    return names


def _made(node: Node) -> set[str]:
    """The columns that a row operator adds or replaces."""
    if isinstance(node, WithColumns):
        return {name for name, _ in node.columns}
    return set(node.added.names) if isinstance(node, Lookup) else set()


_ROW = "_hydrophone_row"


def _computed_shard(prefix: Node, table: pa.Table, shards: int) -> Ints:
    """Run the row operators to learn the keys; rows that a filter removes may go anywhere, so they go by their time."""
    root = _numbered(prefix)
    port = root.topological()[0]
    assert isinstance(port, Port)
    shard = spread([pa.array(instants(table[port.layout.time], port.layout.time))], shards, len(table))
    pipeline = Pipeline([root])
    pipeline.rows(0, table.append_column(_ROW, pa.array(np.arange(len(table)))))
    for batch in pipeline.drain():
        assert isinstance(batch, Events)
        shard[batch.columns[_ROW].to_numpy()] = spread(pipeline.keys(root).columns(batch.slot), shards, len(batch))
    return shard


def _numbered(prefix: Node) -> Node:
    """The same row operators over rows that carry their number."""
    done: dict[Node, Node] = {}
    for node in prefix.topological():
        if isinstance(node, Port):
            schema = node.layout.schema.append(pa.field(_ROW, pa.int64()))
            done[node] = replace(node, layout=replace(node.layout, schema=schema))
        elif isinstance(node, Select):
            done[node] = replace(node, columns=(*node.columns, _ROW), inputs=(done[node.inputs[0]],))
        else:
            done[node] = node.with_inputs([done[i] for i in node.inputs])
    return done[prefix]


# --- order that is the same on replay -----------------------------------------------------------------------------------


def by_content(table: pa.Table) -> pa.Table:
    """The rows in an order that depends on nothing but the rows."""
    columns = {f"c{i}": _sortable(c) for i, c in enumerate(table.columns)}
    keys = pa.table(columns)
    order = pa.compute.sort_indices(keys, sort_keys=[(n, "ascending") for n in keys.column_names])
    return table.take(order)


def _sortable(column: pa.ChunkedArray) -> Any:
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
