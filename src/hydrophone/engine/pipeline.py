"""The pipeline: kernels that call each other directly, depth first. Every host runs queries through it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.batch import Batch, Ints, Progress
from hydrophone.engine.ingest import ingest, instants, slots
from hydrophone.engine.key_marks import KeyMarks
from hydrophone.engine.late import LateRows
from hydrophone.errors import StateVersionError
from hydrophone.kernel import Joint, Kernel
from hydrophone.keys import KeyTable
from hydrophone.marks import Mark, by_slot, least, of
from hydrophone.plan.node import Node, locating, topological
from hydrophone.plan.source import Port
from hydrophone.progress import without_key
from hydrophone.state import Kept
from hydrophone.time import MAX_TIME, MIN_TIME

FORMAT = 1
"""Version of the snapshot's own shape; kernels have versions of their own."""


class Pipeline:
    """Runs lowered plans: batches in at ports, batches out at roots.

    Rows of the same scope share one key table. `step` and `advance` give nothing back; what reaches a root waits in `drain`.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        self.roots = tuple(roots)
        self.nodes = topological(self.roots)
        self.scopes: dict[tuple[tuple[str, str], ...], KeyTable] = {}
        self.ports: dict[int, Node] = {n.number: n for n in self.nodes if isinstance(n, Port)}
        for node in self.nodes:
            self.keys(node)
        self.kernels: dict[Node, Kernel] = {n: self._kernel(n) for n in self.nodes if n.inputs}
        self.ahead: dict[Node, KeyMarks] = {
            n: self._key_marks(n) for n in self.ports.values() if _per_key(n) is not None
        }
        self.kernels |= self.ahead
        self.consumers: dict[Node, list[tuple[Node, int]]] = {n: [] for n in self.nodes}
        for node in self.nodes:
            for port, source in enumerate(node.inputs):
                self.consumers[source].append((node, port))
        self.marks: dict[Node, int] = dict.fromkeys(self.nodes, MIN_TIME)
        self.key_marks: dict[Node, Ints] = {}
        self._by_key: dict[Node, Ints] = {}  # what joint progress says of keys, until the next advance
        self._keyed = {n for n, k in self.kernels.items() if k.takes_key_marks and _scopes(n) == {n.type.scope}}
        self.joints: dict[Node, Joint | None] = {n: None for n in self.nodes if n.paired is not None}
        self.ends: dict[Node, int] = {}  # of nodes that progress on ends too
        self._out: dict[Node, list[Batch]] = {r: [] for r in self.roots}

    def keys(self, node: Node) -> KeyTable:
        """The key table of a node's scope."""
        scope = node.type.scope
        if scope not in self.scopes:
            self.scopes[scope] = KeyTable(node.type.key)
        return self.scopes[scope]

    def _kernel(self, node: Node) -> Kernel:
        with locating(node):
            kernel = node.kernel(*(i.type for i in node.inputs))
        kernel.keys, kernel.out_keys = self.keys(node.inputs[0]), self.keys(node)
        return kernel

    def _key_marks(self, port: Node) -> KeyMarks:
        marks = KeyMarks(_per_key(port) or 0)
        marks.keys = marks.out_keys = self.keys(port)
        return marks

    # --- running ----------------------------------------------------------------------------------------------------------

    def rows(self, port: int, table: pa.Table) -> None:
        """Take rows at a port."""
        if len(table) and port in self.ports:
            node = self.ports[port]
            assert isinstance(node, Port)
            with locating(node):
                batch = ingest(events_of(table, node), node.layout, self.keys(node))
            self.step(port, batch)

    def behind(self, port: int, table: pa.Table, mark: int) -> int | Ints:
        """The mark that rows at a port must not lie behind: that of the source, or where keys have their own, for every row its key's.

        The rows, late ones too, speak for their keys from then on.
        """
        node = self.ports.get(port)
        if node not in self.ahead or not len(table):
            return mark
        assert isinstance(node, Port) and node.progress is not None
        slot, marks = slots(table, node.layout, self.keys(node)), self.ahead[node]
        passed = of(marks.all(mark), slot)
        if not node.progress.own:
            marks.see(slot, instants(table[node.layout.time], node.layout.time))
        return passed

    def sift(self, port: int, table: pa.Table, mark: int, kept: LateRows, ends: int = MIN_TIME) -> pa.Table:
        """The events among rows at a port that are in time, where the source has come to `mark`; rows speak for their keys from then on.

        Those that end before `ends` are late too.
        """
        node = self.ports.get(port)
        with locating(node) if node is not None else nullcontext():
            found = self._sifted(port, node, table, mark, kept)
            return found if ends == MIN_TIME else kept.sift(found, ends, kept.end)

    def _sifted(self, port: int, node: Node | None, table: pa.Table, mark: int, kept: LateRows) -> pa.Table:
        policy = node.progress if isinstance(node, Port) else None
        if not isinstance(node, Port) or policy is None or policy.column is None:
            return kept.sift(table, self.behind(port, table, mark))
        column = policy.column
        told = table.filter(pc.is_valid(table[column]))
        keyed = node in self.ahead
        for_all = without_key(told, node.layout.key) if policy.own else pa.array(np.ones(len(told), np.bool_))
        # Only of rows that are there for nothing else does it matter that their mark has not gone back.
        alone = pc.is_null(told[node.layout.time])
        kept.sift(told.filter(pc.and_(alone, for_all)), mark, column)
        own = told.filter(pc.invert(for_all)) if keyed else told.slice(0, 0)
        events = events_of(table, node)
        passed = self.behind(port, events, mark)
        if len(own):
            slot = slots(own, node.layout, self.keys(node))
            back = pc.is_null(own[node.layout.time])
            kept.sift(own.filter(back), self.ahead[node].own(slot[back.to_numpy(zero_copy_only=False)]), column)
            self.ahead[node].see(slot, instants(own[column], column))
        return kept.sift(events, passed)

    def far(self, port: int, mark: int) -> int:
        """How far a source is that has come to `mark`: where marks are for single keys, as far as the last of them."""
        node = self.ports.get(port)
        own = isinstance(node, Port) and node.progress is not None and node.progress.own
        return self.ahead[node].slowest(mark) if own and node in self.ahead else mark

    def step(self, port: int, batch: Batch) -> None:
        """Take a batch at a port."""
        self._give(self.ports[port], (batch,))

    def advance(self, progress: Sequence[Progress]) -> None:
        """Take the progress of every port (by number), and let it pass through all operators."""
        self.key_marks, self._by_key = {}, {}
        for node in self.nodes:
            before = self.marks[node]
            if isinstance(node, Port):
                self.marks[node] = max(before, progress[node.number].mark)
                if node in self.joints:
                    self.joints[node] = progress[node.number].joint
                if node in self.ahead:
                    self.key_marks[node] = self.ahead[node].all(self.marks[node])
                self.ends[node] = progress[node.number].ends
                continue
            kernel = self.kernels[node]
            kernel.joints = tuple(self.joints.get(i) for i in node.inputs)
            kernel.ends = min(max(self.ends.get(i, MIN_TIME), self.marks[i]) for i in node.inputs)
            if node.keeps_ends:
                self.ends[node] = kernel.ends
            with locating(node):
                batches, mark = kernel.advance(self._marks_for(node))
                self._give(node, batches)
            self.marks[node] = max(before, least(mark))
            if isinstance(mark, np.ndarray):
                self.key_marks[node] = mark
            if node in self.joints:
                self.joints[node] = kernel.jointly(tuple(self.marks[i] for i in node.inputs))

    def _marks_for(self, node: Node) -> tuple[Mark, ...]:
        """The marks of a node's inputs: per key where they are so, all have the same keys, and the node can take them."""
        if node not in self._keyed:
            return tuple(self.marks[i] for i in node.inputs)
        return tuple(self._jointly(i, self.key_marks.get(i, self.marks[i])) for i in node.inputs)

    def _jointly(self, node: Node, mark: Mark) -> Mark:
        """Marks per key from joint progress: where the other time is in the key, and passed, nothing starts before the first."""
        joint, other_time = self.joints.get(node), node.paired
        if joint is None or other_time is None or joint[0] <= least(mark) or other_time not in node.type.key.names:
            return mark
        if node in self._by_key:
            return self._by_key[node]
        keys, (start, other) = self.keys(node), joint
        times = keys.column(other_time).cast(pa.int64())
        passed = times.fill_null(MAX_TIME).to_numpy(zero_copy_only=False) < other
        own = by_slot(mark, len(keys) + 1)
        own[:-1][passed] = np.maximum(own[:-1][passed], start)
        self._by_key[node] = own
        return own

    def _give(self, node: Node, batches: Iterable[Batch]) -> None:
        for batch in batches:
            if not len(batch):
                continue
            if node in self._out:
                self._out[node].append(batch)
            for consumer, port in self.consumers[node]:
                with locating(consumer):
                    self._give(consumer, self.kernels[consumer].step(port, batch))

    def drain(self, root: Node | None = None) -> list[Batch]:
        """Take what has reached a root."""
        root = root or self.roots[0]
        out, self._out[root] = self._out[root], []
        return out

    # --- state ------------------------------------------------------------------------------------------------------------

    @property
    def state_bytes(self) -> int:
        """Bytes of memory that keys and operators hold; results that were not drained do not count."""
        held = sum(state.nbytes for kernel in self.kernels.values() for state in kernel.states().values())
        return held + sum(table.nbytes for table in self.scopes.values())

    def sweep(self) -> int:
        """Forget keys that no operator needs any more; give how many. Those of batches that were not drained stay."""
        gone = 0
        for scope, table in self.scopes.items():
            free = table.used.copy()
            for root, batches in self._out.items():
                for batch in batches if self.keys(root) is table else ():
                    free[batch.slot] = False
            for node, kernel in self.kernels.items():
                if kernel.keys is table:
                    free &= kernel.forgettable(tuple(self.marks[i] for i in node.inputs))
            slots = np.flatnonzero(free)
            if len(slots):
                for kernel in self.kernels.values():
                    if kernel.keys is table:
                        kernel.release(slots)
                self.scopes[scope].release(slots)
                gone += len(slots)
        return gone

    @property
    def shed(self) -> dict[str, int]:
        """Rows that operators have forgotten to keep to their limits, by operator and what they were kept in."""
        held = ((f"{n.digest}/{name}", s.shed) for n in self.kernels for name, s in self._held(n).items())
        return {path: count for path, count in held if count}

    def _held(self, node: Node) -> dict[str, Kept[Any]]:
        return {name: s for name, s in self.kernels[node].states().items() if isinstance(s, Kept)}

    def snapshot(self, changed: bool = False) -> dict[str, bytes | None]:
        """All state (or what changed since the last snapshot) by path; None says that a block is gone."""
        header = {"format": FORMAT, "marks": {n.digest: m for n, m in self.marks.items()}, "shed": self.shed}
        blocks: dict[str, bytes | None] = {"marks": json.dumps(header).encode()}
        for i, table in enumerate(self.scopes.values()):
            for block, rows in table.blocks(changed):
                blocks[f"keys/{i}/{block}"] = _packed(rows, FORMAT)
        for node, kernel in self.kernels.items():
            with locating(node):
                kernel.compact()
            for name, state in kernel.states().items():
                for block, rows in state.blocks(changed):
                    blocks[f"{node.digest}/{name}/{block}"] = _packed(rows, kernel.VERSION)
        return blocks

    def restore(self, blocks: Mapping[str, bytes]) -> None:
        """Put all state back into a pipeline that was just made."""
        nodes = {n.digest: n for n in self.nodes}
        tables = list(self.scopes.values())
        header = json.loads(blocks["marks"])
        if header["format"] != FORMAT or set(header["marks"]) != set(nodes):
            raise StateVersionError(
                "this state belongs to another query",
                hint="start with a new checkpoint, or run the query that made this one",
            )
        self.marks = {nodes[d]: m for d, m in header["marks"].items()}
        for path, count in header.get("shed", {}).items():
            owner, name = path.split("/")
            self._held(nodes[owner])[name].shed = count
        keys: dict[int, list[pa.Table]] = {}
        for path, data in sorted(blocks.items()):
            if path == "marks":
                continue
            owner, name, _ = path.split("/")
            if owner == "keys":
                keys.setdefault(int(name), []).append(_unpacked(data, FORMAT, path))
            else:
                kernel = self.kernels[nodes[owner]]
                kernel.states()[name].load(_unpacked(data, kernel.VERSION, nodes[owner].name()))
        for number, parts in keys.items():  # at once: to put a block back takes a look at all slots
            tables[number].load(pa.concat_tables(parts))


def events_of(table: pa.Table, port: Port) -> pa.Table:
    """The rows that are events: in a source with punctuation those without a time are marks alone."""
    time = table[port.layout.time]
    if port.progress is None or port.progress.column is None or not time.null_count:
        return table
    return table.filter(pc.is_valid(time))


def _per_key(port: Node) -> int | None:
    return port.progress.per_key if isinstance(port, Port) and port.progress is not None else None


def _scopes(node: Node) -> set[Any]:
    return {i.type.scope for i in node.inputs}


def _packed(table: pa.Table | None, version: int) -> bytes | None:
    if table is None:
        return None
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"version": str(version).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _unpacked(data: bytes, version: int, what: str) -> pa.Table:
    table = pa.ipc.open_stream(data).read_all()
    found = int(table.schema.metadata[b"version"])
    if found != version:
        raise StateVersionError(
            f"{what}: the state has version {found}, this release reads version {version}",
            hint="go on with the release that wrote it, or start with a new checkpoint",
        )
    return table
