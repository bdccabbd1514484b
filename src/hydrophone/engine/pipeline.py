"""The pipeline: stations that pass batches to each other, depth first. All hosts run queries with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.engine import checkpoint
from hydrophone.engine.buffers import Buffer, Edge
from hydrophone.engine.families import NEXT_BATCH, FamilyStation, Onward, form_families
from hydrophone.engine.ingest import ingest, instants, key_slots
from hydrophone.engine.late import LateRows
from hydrophone.engine.nested import NestedPlan, without_sources
from hydrophone.engine.stations import Input, Reader, Station, scope_digest
from hydrophone.errors import DataError, ParameterError, PlanError
from hydrophone.model.batch import Batch, Ints, Mask, Progress
from hydrophone.model.key_table import KeyTable
from hydrophone.model.marks import marks_of_slots
from hydrophone.model.progress import without_key
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.node import Node, locating, topological
from hydrophone.plan.source import Port


class Pipeline:
    """Runs lowered plans: batches enter at ports and leave at roots.

    Rows of the same scope share one key table. `step` and `advance` return nothing; `drain` returns what has reached a root.
    Between two turns (rows, an `advance`, `drain`) roots can be added and dropped.

    Attributes
    ----------
    roots : what is computed
    stations : what runs the plans, inputs first
    ports : where rows come in, by number
    scopes : the key tables, by digest of their columns and types
    buffers : those on edges that `cut` has cut; who cuts edges passes on what waits in them
    failed : the errors of roots that have failed, where there are several roots
    isolated : whether an error fails the roots that it concerns also where there is one root; else a single root raises it
    """

    def __init__(
        self, roots: Sequence[Node], isolated: bool = False, scopes: Mapping[str, KeyTable] | None = None
    ) -> None:
        self.isolated = isolated
        self.roots: tuple[Node, ...] = ()
        self.stations: dict[Node, Station] = {}
        self.ports: dict[int, Node] = {}
        self.scopes: dict[str, KeyTable] = dict(scopes or {})
        self.failed: dict[Node, Exception] = {}
        self._families: list[FamilyStation] = []
        self.buffers: dict[Edge, Buffer] = {}
        self._failing = threading.Lock()
        self._written = checkpoint.StoredBlocks()
        self.add(roots)

    # --- roots come and go --------------------------------------------------------------------------------------------

    def add(self, roots: Sequence[Node]) -> None:
        """Add roots. New stations are made only for new operators; equal operators are shared, with their state."""
        every = tuple(dict.fromkeys([*self.roots, *roots]))
        for node in topological(every):
            if node not in self.stations:
                table = self._table(node)
                inputs = [self.stations[i] for i in node.inputs]
                self.stations[node] = Station(node, inputs, table, self._nested(node, table))
            if isinstance(node, Port):
                self._number(node)
        self.roots = every
        self._link()

    def drop(self, roots: Sequence[Node]) -> None:
        """Remove roots, failed or not, with the stations and key tables that no other root needs."""
        gone = set(roots)
        if not gone <= set(self.roots):
            raise ParameterError("drop: the pipeline has no such root")
        self.roots = tuple(r for r in self.roots if r not in gone)
        self.failed = {root: error for root, error in self.failed.items() if root not in gone}
        self._link()
        for station in [s for s in self.stations.values() if not s.roots]:
            del self.stations[station.node]
            self._written.drop(station.digest)
        self.buffers = {edge: buffer for edge, buffer in self.buffers.items() if edge[0] in self.stations}
        self._find_heads()
        self.ports = {number: node for number, node in self.ports.items() if node in self.stations}
        for scope in self.scopes.keys() - {scope for s in self.stations.values() for scope in s.scopes}:
            del self.scopes[scope]
            self._written.drop(scope)

    def _number(self, port: Port) -> None:
        """Register the number of a port; each number belongs to one port."""
        known, there = self.ports.setdefault(port.number, port), self.stations[port].node
        if known != port or (isinstance(there, Port) and there.number != port.number):
            raise PlanError(
                f"port {port.number} reads another source in this pipeline already",
                hint="lower all queries of a pipeline together, so that each source has one number",
            )

    def _nested(self, node: Node, table: KeyTable) -> NestedPlan | None:
        """What runs the plan inside an operator, over the same keys; None where it has none."""
        if node.hosted is None:
            return None
        return NestedPlan(Pipeline(without_sources(node.hosted), scopes={scope_digest(node.type.scope): table}), table)

    def _table(self, node: Node) -> KeyTable:
        return self.scopes.setdefault(scope_digest(node.type.scope), KeyTable(node.type.key))

    def _link(self) -> None:
        """Link the stations: readers of each, and the roots that need it."""
        readers: dict[Node, list[tuple[Station, int]]] = {n: [] for n in self.stations}
        for station in self.stations.values():
            for port, source in enumerate(station.inputs):
                readers[source.node].append((station, port))
        roots = set(self.roots)
        for station in reversed(self.stations.values()):
            node = station.node
            station.readers = tuple(readers[node])
            station.roots = set().union(*(reader.roots for reader, _ in station.readers))
            if node in roots:
                station.roots.add(node)
            station.out = (station.out or []) if node in roots else None
        self._find_heads()
        self._prune()
        self._families = form_families(list(self.stations.values()), self._families)
        self._direct()

    def _find_heads(self) -> None:
        """Find the stations that rows reach without a buffer, and the buffers behind them."""
        heads: dict[Node, Station] = {}
        for node, station in self.stations.items():
            if not station.inputs or any(i.node in heads for i in station.inputs if isinstance(i, Station)):
                heads[node] = station
        self._heads = list(heads.values())
        self._doors = [b for b in self.buffers.values() if b.source.node in heads]

    def _prune(self) -> None:
        """Leave out the stations that only failed roots need."""
        for station in self.stations.values():
            station.live = not station.roots <= self.failed.keys()
        self._direct()

    def _direct(self) -> None:
        """Find where the batches of each station go: to live readers, their families, or the buffers in front of them."""
        for station in self.stations.values():
            station.consumers = tuple((reader, port) for reader, port in station.readers if reader.live)
            to = [(self.buffers.get((r.node, port), r.family or r), port) for r, port in station.consumers]
            station.downstream = tuple(dict.fromkeys(to))[::-1]
        remembering = [s for s in self.stations.values() if s.live and s.remembers]
        self._remembering = list(dict.fromkeys(s.family or s for s in remembering))

    def cut(self, edges: Collection[Edge], limit: int) -> None:
        """Let buffers stand on these edges and on no others; those that go must be empty."""
        for node, port in self.buffers.keys() - edges:
            self._read(node, port, self.buffers.pop((node, port)).source)
        for node, port in edges - self.buffers.keys():
            reader = self.stations[node]
            source = reader.inputs[port]
            assert isinstance(source, Station)
            self.buffers[node, port] = Buffer(source, reader, port, limit)
            self._read(node, port, self.buffers[node, port])
        self._link()

    def _read(self, node: Node, port: int, source: Input) -> None:
        reader = self.stations[node]
        reader.inputs = tuple(source if p == port else i for p, i in enumerate(reader.inputs))

    @property
    def nodes(self) -> list[Node]:
        """The operators and ports, inputs first."""
        return list(self.stations)

    def keys(self, node: Node) -> KeyTable:
        """The key table of a node's scope."""
        return self.stations[node].out_keys

    def progress(self, node: Node) -> Progress:
        """The progress of a node's output."""
        return self.stations[node].progress

    # --- running ----------------------------------------------------------------------------------------------------------

    def rows(self, port: int, table: pa.Table) -> None:
        """Take rows at a port."""
        if len(table) and port in self.ports:
            station = self.stations[self.ports[port]]
            if station.live:
                try:
                    batch = self.batch(port, table)
                except Exception as error:
                    if not self._isolated(station, error):
                        raise
                else:
                    self._deliver(station, (batch,))

    def batch(self, port: int, table: pa.Table) -> Batch:
        """Rows at a port as a batch for `step`; bad ones are an error, and no root fails."""
        station = self.stations[self.ports[port]]
        node = station.node
        assert isinstance(node, Port)
        try:
            return ingest(rows_with_time(table, node), node.layout, station.out_keys)
        except Exception as error:
            found = _located(station, error)
            if found is error:
                raise
            raise found from error

    def late_threshold(self, port: int, table: pa.Table, mark: int) -> int | Ints:
        """The mark before which rows at a port are late: that of the source, or with progress per key one for each row.

        The rows, late ones too, then advance the marks of their keys.
        """
        threshold, see = self._threshold(port, table, mark)
        see()
        return threshold

    def _threshold(self, port: int, table: pa.Table, mark: int) -> tuple[int | Ints, Callable[[], None]]:
        """As `late_threshold`, and what lets the rows advance the marks of their keys."""
        node = self.ports.get(port)
        marks = None if node is None else self.stations[node].key_marks
        if marks is None or not len(table):
            return mark, _nothing
        assert isinstance(node, Port) and node.progress is not None
        slot = key_slots(table, node.layout, marks.keys)
        threshold = marks_of_slots(marks.all(mark), slot)
        if node.progress.own:
            return threshold, _nothing
        times = instants(table[node.layout.time], node.layout.time)
        return threshold, lambda: marks.see(slot, times)

    def split_late(
        self, port: int, table: pa.Table, mark: int, kept: LateRows, ends: int = MIN_TIME, limit: int = MAX_TIME
    ) -> pa.Table:
        """The rows at a port that are not late, given the `mark` of the source; they advance the marks of their keys.

        Rows that end before `ends` are late too; rows beyond `limit` are ahead of the clock guard.
        """
        node = self.ports.get(port)
        with locating(node) if node is not None else nullcontext():
            if limit < MAX_TIME:
                promise = node.progress if isinstance(node, Port) else None
                table = kept.split_ahead(table, limit, None if promise is None else promise.column)
            found = self._split_late(port, node, table, mark, kept)
            return found if ends == MIN_TIME else kept.split_late(found, ends, kept.end)

    def _split_late(self, port: int, node: Node | None, table: pa.Table, mark: int, kept: LateRows) -> pa.Table:
        policy = node.progress if isinstance(node, Port) else None
        if not isinstance(node, Port) or policy is None or policy.column is None:
            threshold, see = self._threshold(port, table, mark)
            found = kept.split_late(table, threshold)
            see()  # not before: rows that are refused with an error speak for nobody
            return found
        column = policy.column
        if self.stations[node].key_marks is None and not table[node.layout.time].null_count:
            return kept.split_late(table, mark)  # every row is an event, and its mark is for all keys
        marked = table.filter(pc.is_valid(table[column]))
        marks = self.stations[node].key_marks
        for_all = without_key(marked, node.layout.key) if policy.own else pa.array(np.ones(len(marked), np.bool_))
        # Only rows without a time, which carry just a mark, are late when their mark goes back.
        alone = pc.is_null(marked[node.layout.time])
        kept.split_late(marked.filter(pc.and_(alone, for_all)), mark, column)
        own = marked.filter(pc.invert(for_all)) if marks is not None else marked.slice(0, 0)
        events = rows_with_time(table, node)
        threshold = self.late_threshold(port, events, mark)
        if marks is not None and len(own):
            slot = key_slots(own, node.layout, marks.keys)
            back = pc.is_null(own[node.layout.time])
            kept.split_late(own.filter(back), marks.own(slot[back.to_numpy(zero_copy_only=False)]), column)
            marks.see(slot, instants(own[column], column))
        return kept.split_late(events, threshold)

    def slowest_mark(self, port: int, mark: int) -> int:
        """The mark of a source, given its common `mark`: if marks are per key, that of the slowest key."""
        node = self.ports.get(port)
        marks = None if node is None else self.stations[node].key_marks
        own = isinstance(node, Port) and node.progress is not None and node.progress.own
        return marks.slowest(mark) if own and marks is not None else mark

    def step(self, port: int, batch: Batch) -> None:
        """Take a batch at a port."""
        self.send(self.ports[port], batch)

    def send(self, node: Node, batch: Batch) -> None:
        """Hand a batch to all that read a node, as if it had made the batch."""
        self._deliver(self.stations[node], (batch,))

    def advance(self, progress: Sequence[Progress] | Mapping[int, Progress]) -> None:
        """Take the progress of every port (by number), and pass it through all operators."""
        for station in self._heads:
            if not station.live:
                continue
            if not station.inputs:
                assert isinstance(station.node, Port)
                station.promise(progress[station.node.number])
            else:
                self._pass_on(station)
        for buffer in self._doors:
            buffer.mark()

    def work(self, buffer: Buffer, what: Batch | Progress) -> None:
        """Pass on what was taken out of a buffer, up to the next buffers."""
        if not isinstance(what, Progress):
            if buffer.live:
                self._deliver(buffer, (what,))
            return
        buffer.progress = what
        for station in buffer.stations:
            if station.live:
                self._pass_on(station)
        for after in buffer.outputs:
            after.mark()

    def _pass_on(self, station: Station) -> None:
        """Let progress pass through a station; through a family with its first member that is live."""
        family: FamilyStation | None = station.family
        if family is not None and family.kernel.advances:
            if family.first is station:
                self._advance_family(family)
        elif not (station.passes_on and station.pass_on()):
            self._advance(station)

    def _advance(self, station: Station) -> None:
        assert station.kernel is not None
        try:
            marks = station.marks()
            batches, mark = station.kernel.advance(marks)
            self._deliver(station, batches)
            if station.live:
                station.take_mark(marks, mark)
        except Exception as error:
            if not self._isolated(station, error):
                raise

    def _advance_family(self, family: FamilyStation) -> None:
        """As `_advance`, for all members; if that fails, for each by itself."""
        try:
            marks, given, found = family.advance()
        except Exception:
            family.part()
            for member in family.members:
                if member.live:
                    self._advance(member)
            return
        self._work_off(family.handed(given))
        for member, mark in zip(family.members, found, strict=True):
            if member.live:
                member.take_mark(marks, mark)

    def _deliver(self, station: Reader, batches: Iterable[Batch]) -> None:
        """Pass on the batches of a station, depth first: a batch goes through all consumers before the next one is asked for.

        A stack instead of recursion: plans may be of any depth.
        """
        self._work_off([(station, NEXT_BATCH, iter(batches))])

    def _work_off(self, stack: list[tuple[Any, int, Any]]) -> None:
        """Deliver batches, and what comes of them, until the stack is empty."""
        at: Any = None
        while stack:
            try:
                while stack:
                    at, port, given = stack.pop()
                    if port == NEXT_BATCH:
                        batch = next(given, None)
                        if batch is None:
                            continue
                        stack.append((at, NEXT_BATCH, given))
                    else:
                        given = at.step(port, given)
                        if type(given) is Onward:
                            stack.extend(given)
                            continue
                        if type(given) is not tuple or len(given) != 1:
                            stack.append((at, NEXT_BATCH, iter(given)))
                            continue
                        batch = given[0]
                    if len(batch):
                        if at.out is not None:
                            at.out.append(batch)
                        for consumer, port in at.downstream:
                            stack.append((consumer, port, batch))
            except Exception as error:
                if not self._isolated(at, error):
                    raise
                stack = [waiting for waiting in stack if waiting[0].live]

    def _isolated(self, station: Reader, error: Exception) -> bool:
        """Fail the roots that need a station which raised, and no others. With a single root, return False: the caller raises."""
        found = _located(station, error)
        if len(self.roots) == 1 and not self.isolated:
            if found is not error:
                raise found from error
            return False
        self.fail(station.roots, found)
        return True

    def fail(self, roots: Iterable[Node], error: Exception) -> None:
        """Fail roots, and let what only they need rest."""
        with self._failing:
            for root in roots:
                self.failed.setdefault(root, error)
            self._prune()

    def check(self) -> None:
        """Raise the error of a failed root, for hosts whose roots belong together."""
        for error in self.failed.values():
            raise error

    def drain(self, root: Node | None = None) -> list[Batch]:
        """Take the batches that have reached a root."""
        station = self.stations[root or self.roots[0]]
        if station.out is None:
            raise ParameterError("drain: the pipeline has no such root")
        out, station.out = station.out, []
        return out

    # --- state ------------------------------------------------------------------------------------------------------------

    @property
    def state_bytes(self) -> int:
        """Bytes of keys and operator state, without results that were not drained."""
        return sum(s.nbytes for s in self.stations.values()) + sum(table.nbytes for table in self.scopes.values())

    @property
    def waiting(self) -> int:
        """How many open windows, held rows and held runs of samples wait for progress."""
        return sum(station.waiting for station in self.stations.values())

    def sweep(self) -> int:
        """Release the keys that no operator and no undrained batch needs; return their number."""
        gone = 0
        for table in self.scopes.values():
            slots = np.flatnonzero(self.forgettable(table))
            if len(slots):
                self.forget(table, slots)
                table.release(slots)
                gone += len(slots)
        return gone

    def forgettable(self, table: KeyTable) -> Mask:
        """The slots of a key table that are in use and that no operator and no undrained batch needs."""
        free = table.used.copy()
        for root in self.roots:
            station = self.stations[root]
            for batch in (station.out or ()) if station.out_keys is table else ():
                free[batch.slot] = False
        for station in self._remembering_of(table):
            if not free.any():
                break
            found = station.forgettable()
            free[: len(found)] &= found
            free[len(found) :] = False  # keys that the station's region has not seen yet
        return free

    def forget(self, table: KeyTable, slots: Ints) -> None:
        """Let the operators over a key table forget these slots."""
        for station in self._remembering_of(table):
            assert station.kernel is not None
            station.kernel.release(slots)

    def _remembering_of(self, table: KeyTable) -> list[Any]:
        return [s for s in self._remembering if s.keys is table]

    @property
    def shed(self) -> dict[str, int]:
        """Rows shed to stay within limits, by operator and state name."""
        return {path: count for s in self.stations.values() for path, count in s.shed.items()}

    def snapshot(self, changed: bool = False) -> dict[str, bytes | None]:
        """All state, or what changed since the last snapshot, by path; None deletes a block. Failed roots have no state."""
        live = [s for s in self.stations.values() if s.live]
        blocks = checkpoint.snapshot(live, self.scopes, changed)
        gone = self._written.take_gone()
        self._written.see(blocks)
        return gone | blocks

    def restore(self, blocks: Mapping[str, bytes], roots: Sequence[Node] | None = None, forget: bool = False) -> None:
        """Restore state into a new pipeline.

        Parameters
        ----------
        roots : the roots to restore, all by default; others start empty
        forget : ignore blocks that these roots do not need, instead of raising
        """
        wanted = set(self.roots if roots is None else roots)
        stations = [s for s in self.stations.values() if s.roots & wanted]
        strange = checkpoint.restore(stations, self.scopes, blocks, forget)
        self._written.see(blocks)
        for path in strange:
            self._written.drop(checkpoint.block_owner(path))


def _nothing() -> None:
    """No marks of keys to advance."""


def _located(station: Reader, error: Exception) -> Exception:
    """An error of a station with the operator and the user's line."""
    found = _without_memory(station, error) if isinstance(error, MemoryError) else error
    station.locate(found)
    return found


def _without_memory(station: Reader, error: MemoryError) -> DataError:
    """What an operator asked for in vain."""
    what, said = station.node.name(), " ".join(str(error).split())
    return DataError(
        f"{what}: there is not enough memory{f': {said}' if said else ''}",
        hint=f"{what}({station.node.describe()}) keeps or makes too much at a time: smaller windows, or fewer rows in a batch",
    )


def rows_with_time(table: pa.Table, port: Port) -> pa.Table:
    """The rows that are events; with punctuation, rows without a time only carry a mark."""
    if port.progress is None or port.progress.column is None:
        return table
    time = table[port.layout.time]
    return table.filter(pc.is_valid(time)) if time.null_count else table
