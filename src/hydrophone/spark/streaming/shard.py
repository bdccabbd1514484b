"""A shard of a streaming query: chunks of a micro-batch in, the pipeline of its stage, chunks for the next stage or the sink out."""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from hydrophone.engine import emit
from hydrophone.engine.late import Late, LateRows
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import StateVersionError
from hydrophone.model.batch import Progress
from hydrophone.model.kernel import Joint
from hydrophone.model.key_table import shard_of_keys
from hydrophone.model.progress import Policy, Seen, Tracker, merge_seen
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.node import Node
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.exchange.table_bytes import table_from_bytes, table_to_bytes
from hydrophone.spark.streaming.chunks import SCHEMA, SINK, Chunk, Kind, chunk_tables, chunks_by_shard, sort_by_content
from hydrophone.spark.streaming.partial_aggregates import merge_partials
from hydrophone.spark.streaming.shard_state import BLOCKS, ShardState
from hydrophone.spark.streaming.sinks import Drafts


@dataclass(frozen=True)
class Inlet:
    """What a shard knows about one port.

    Attributes
    ----------
    time, end : the columns of starts and ends in rows that come from a source
    policy : the promise of the source; None where the shards of an earlier stage feed this port
    source : the number of the source, for late rows and metrics; None where another port answers for its late rows
    ordered : whether chunks say where in the source their rows lie; else rows are sorted by content
    name : what the source is called
    """

    time: str
    end: str | None
    policy: Policy | None
    source: int | None
    ordered: bool
    name: str = ""


@dataclass(frozen=True)
class ShardPlan:
    """One stage of a streaming query, as a shard runs it.

    Attributes
    ----------
    stage : its number
    roots : what it computes, over ports that take rows as they travel
    outlets : for every root the (stage, port) that it feeds; none for the last stage, whose one root is the answer
    shards : how many there are
    """

    stage: int
    roots: tuple[Node, ...]
    inlets: tuple[Inlet, ...]
    outlets: tuple[tuple[int, int], ...]
    shards: int
    late: Late
    shape: emit.Shape


@dataclass(frozen=True)
class ShardInput:
    """What came to a shard in a micro-batch, by port.

    Attributes
    ----------
    rows : as they came
    partials : partial aggregates of other rows, which tasks have merged
    taken : how many rows tasks have merged
    largest : what rows say of every identity: its largest time, or clusters of times
    ends : the same of ends
    clock : the latest time of the clock
    """

    rows: dict[int, pa.Table]
    partials: dict[int, pa.Table]
    taken: dict[int, int]
    largest: dict[int, Seen]
    ends: dict[int, Seen]
    clock: dict[int, int]

    def arrived(self, port: int) -> int:
        """How many rows came to a port."""
        return self.taken.get(port, 0) + (len(self.rows[port]) if port in self.rows else 0)


class ShardLateRows(LateRows):
    """Sifts one micro-batch of one source and keeps late rows at hand."""

    def __init__(self, policy: Late, inlet: Inlet) -> None:
        known = replace(policy, path=policy.path or "beside the checkpoint")
        super().__init__(known, inlet.time, inlet.end, inlet.name)
        self.aside: list[pa.Table] = []

    def _put_aside(self, rows: pa.Table) -> None:
        self.aside.append(rows)


class Shard:
    """A share of the keys of one stage."""

    def __init__(self, plan: ShardPlan, number: int, blocks: Mapping[str, bytes]) -> None:
        self.plan, self.number = plan, number
        self.label = shard_labels(plan.shards)[number]
        self.pipeline = Pipeline(plan.roots)
        self.trackers = [self._tracker(i) for i in plan.inlets]
        self.joints: list[dict[str, Joint]] = [{} for _ in plan.inlets]  # by port and shard of the stage before
        self.sizes = {path: len(data) for path, data in blocks.items()}
        if blocks:
            self._restore(dict(blocks))

    def run(self, chunks: Iterable[Chunk]) -> tuple[list[Chunk], dict[str, bytes | None]]:
        """One micro-batch: step all rows, advance once. Gives chunks and the state that changed.

        Rows are late against the mark that held when the micro-batch began, so that its own order does not matter.
        """
        given = self._sorted(chunks)
        out: list[Chunk] = []
        late: dict[int, int] = {}
        for port in sorted(given.partials):
            merge_partials(self.pipeline, port, given.partials[port])
        # Every shard is told the same of all rows, so that all believe the same.
        limits = {port: self.trackers[port].limit(seen) for port, seen in given.largest.items()}
        for port in sorted(given.rows):
            table = self._split_late(port, given.rows[port], out, late, limits.get(port, MAX_TIME))
            self.pipeline.rows(port, table)
        for port, seen in given.largest.items():
            self.trackers[port].see(seen, limits[port])
        for port, seen in given.ends.items():
            if (ends := self.trackers[port].ends) is not None:
                ends.see(seen, ends.limit(seen))
        for port in given.clock.keys() - given.largest.keys():
            self.trackers[port].tick(given.clock[port])
        begin = time.perf_counter()
        self.pipeline.advance([Progress(t.mark, self._joint(port), t.ended) for port, t in enumerate(self.trackers)])
        self.pipeline.check()
        results = sum(self._emit(i, out) for i in range(len(self.plan.roots)))
        took = time.perf_counter() - begin
        self.pipeline.sweep()
        changed = self._changed()
        out.append(self._to_sink(Kind.METRICS, 0, json.dumps(self._metrics(given, results, late, took)).encode()))
        return out, changed

    # --- input ----------------------------------------------------------------------------------------------------------

    def _sorted(self, chunks: Iterable[Chunk]) -> ShardInput:
        """What came, rows and cells in an order that is the same on replay."""
        parts: dict[Kind, dict[int, list[Chunk]]] = {Kind.ROWS: {}, Kind.PARTIALS: {}}
        taken: dict[int, int] = {}
        largest: dict[Kind, dict[int, Seen]] = {Kind.MARK: {}, Kind.ENDS: {}}
        clock: dict[int, int] = {}
        for chunk in chunks:
            if chunk.kind in parts:
                parts[chunk.kind].setdefault(chunk.port, []).append(chunk)
            elif chunk.kind == Kind.TAKEN:
                taken[chunk.port] = taken.get(chunk.port, 0) + self._counted(chunk)
            elif chunk.kind == Kind.CLOCK:
                clock[chunk.port] = max(int(chunk.data), clock.get(chunk.port, 0))
            elif chunk.kind == Kind.JOINT:
                self.joints[chunk.port].update({who: tuple(mark) for who, mark in json.loads(chunk.data).items()})
            else:
                known, policy = largest[chunk.kind], self.trackers[chunk.port].policy
                known[chunk.port] = merge_seen(known.get(chunk.port, {}), json.loads(chunk.data), policy)
        rows, cells = ({p: self._table(p, found) for p, found in parts[kind].items()} for kind in parts)
        return ShardInput(rows, cells, taken, largest[Kind.MARK], largest[Kind.ENDS], clock)

    def _table(self, port: int, chunks: list[Chunk]) -> pa.Table:
        chunks.sort(key=lambda c: (c.origin, c.number))
        table = pa.concat_tables([table_from_bytes(c.data) for c in chunks])
        return table if self.plan.inlets[port].ordered else sort_by_content(table)

    def _counted(self, chunk: Chunk) -> int:
        """The rows that a task has merged; none of them may have been late."""
        said = json.loads(chunk.data)
        if said["from"] < self.trackers[chunk.port].mark:
            raise StateVersionError(
                f"start: a task has merged rows from {said['from']} on, and the mark is {self.trackers[chunk.port].mark} already",
                hint="this is a fault of ours; start(combine=False) goes on without merging",
            )
        return int(said["rows"])

    def _split_late(self, port: int, table: pa.Table, out: list[Chunk], late: dict[int, int], limit: int) -> pa.Table:
        inlet = self.plan.inlets[port]
        if inlet.policy is None:
            return table
        sieve = ShardLateRows(self.plan.late, inlet)
        tracker = self.trackers[port]
        table = self.pipeline.split_late(port, table, tracker.mark, sieve, tracker.ended, limit)
        if sieve.count and inlet.source is not None:
            late[inlet.source] = late.get(inlet.source, 0) + sieve.count
            for aside in sieve.aside:
                out.extend(self._to_sink(Kind.LATE, inlet.source, table_to_bytes(p)) for p in chunk_tables(aside))
        return table

    def _joint(self, port: int) -> Joint | None:
        """What all shards of the stage before have passed; none may be overtaken before it has spoken."""
        told = self.joints[port].values()
        if len(told) < self.plan.shards:
            return None
        return min(start for start, _ in told), min(other for _, other in told)

    def _tracker(self, inlet: Inlet) -> Tracker:
        if inlet.policy is not None:
            return Tracker(inlet.policy)
        # All shards of the stage before are known from the start: none may be overtaken before it has spoken.
        return Tracker(Policy(), {str(i): MIN_TIME for i in range(self.plan.shards)})

    # --- output ---------------------------------------------------------------------------------------------------------

    def _emit(self, which: int, out: list[Chunk]) -> int:
        """Pack what has reached a root, and for a later stage the mark of this shard."""
        root = self.plan.roots[which]
        keys = self.pipeline.keys(root)
        shape: emit.Shape = "rows" if self.plan.outlets else self.plan.shape
        tables = list(emit.result_tables(self.pipeline.drain(root), root.type, keys, shape))
        table = pa.concat_tables(tables) if tables else None
        if not self.plan.outlets:
            if table is not None:
                out.extend(self._to_sink(Kind.RESULT, 0, table_to_bytes(p)) for p in chunk_tables(table))
            return 0 if table is None else len(table)
        stage, port = self.plan.outlets[which]
        if table is not None:
            shard = shard_of_keys([table[k] for k in root.type.key.names], self.plan.shards, len(table))
            out.extend(
                chunks_by_shard(table, shard, shard_labels(self.plan.shards), stage, port, f"{self.number:08}", 0)
            )
        self._tell(out, stage, port, Kind.MARK, self.pipeline.progress(root).mark)
        if (joint := self.pipeline.progress(root).joint) is not None:
            self._tell(out, stage, port, Kind.JOINT, joint)
        return 0

    def _tell(self, out: list[Chunk], stage: int, port: int, kind: Kind, mark: int | Joint) -> None:
        """Progress of this shard to all shards of a later stage."""
        data = json.dumps({str(self.number): mark}).encode()
        out.extend(Chunk(lab, stage, port, kind, "", 0, data) for lab in shard_labels(self.plan.shards))

    def _to_sink(self, kind: Kind, source: int, data: bytes) -> Chunk:
        return Chunk(self.label, SINK, source, kind, "", 0, data)

    def _metrics(self, given: ShardInput, results: int, late: dict[int, int], took: float) -> dict[str, Any]:
        sources = {p: i.source for p, i in enumerate(self.plan.inlets) if i.source is not None}
        last = {} if self.plan.outlets else {"passed": self.pipeline.progress(self.plan.roots[0]).mark}
        return {
            "stage": self.plan.stage,
            "shard": self.number,
            "rows": sum(given.arrived(p) for p in sources),
            "rows_of": {str(s): given.arrived(p) for p, s in sources.items()},
            "merged": sum(given.taken.get(p, 0) for p in sources),
            "results": results,
            "late": {str(s): n for s, n in late.items()},
            "keys": sum(t.live for t in self.pipeline.scopes.values()),
            "state_bytes": sum(self.sizes.values()),
            "shed": sum(self.pipeline.shed.values()),
            "waiting": self.pipeline.waiting,
            "marks": {str(s): far for p, s in sources.items() if (far := self._slowest_mark(p)) is not None},
            "mark_us": {str(self.plan.stage): round(took * 1e6)},
            **last,
        }

    def _slowest_mark(self, port: int) -> int | None:
        """How far a source is as seen from here; None where keys speak for themselves, and none of them is here."""
        far, policy = self.pipeline.slowest_mark(port, self.trackers[port].mark), self.plan.inlets[port].policy
        silent = (
            far == MIN_TIME
            and policy is not None
            and policy.own
            and not any(t.live for t in self.pipeline.scopes.values())
        )
        return None if silent else far

    # --- state ----------------------------------------------------------------------------------------------------------

    def _changed(self) -> dict[str, bytes | None]:
        told = zip(self.trackers, self.joints, strict=True)
        trackers = [
            {**_progress_to_bytes(t), "joint": j, "ends": t.ends and _progress_to_bytes(t.ends)} for t, j in told
        ]
        changed = self.pipeline.snapshot(changed=True) | {"trackers": json.dumps(trackers).encode()}
        for path, data in changed.items():
            if data is None:
                self.sizes.pop(path, None)
            else:
                self.sizes[path] = len(data)
        return changed

    def _restore(self, blocks: dict[str, bytes]) -> None:
        for port, saved in enumerate(json.loads(blocks.pop("trackers"))):
            tracker = self.trackers[port]
            _progress_from_bytes(tracker, saved)
            if tracker.ends is not None:
                _progress_from_bytes(tracker.ends, saved["ends"])
            self.joints[port] = {who: tuple(mark) for who, mark in saved.get("joint", {}).items()}
        self.pipeline.restore(blocks)


def _progress_to_bytes(tracker: Tracker) -> dict[str, Any]:
    guard = tracker.guard
    believed = {} if guard is None else {"guard": [guard.frontier, guard.near, guard.beyond]}
    return {"marks": tracker.marks, "mark": tracker.mark, **believed}


def _progress_from_bytes(tracker: Tracker, saved: dict[str, Any]) -> None:
    tracker.marks, tracker.mark = saved["marks"], saved["mark"]
    if tracker.guard is not None:
        # A checkpoint from before there were guards has marks, which no row may have been believed for that was not there.
        known = saved.get("guard", [max([tracker.mark, *tracker.marks.values()]), 0, 0])
        tracker.guard.frontier, tracker.guard.near, tracker.guard.beyond = known


@dataclass(frozen=True)
class ShardTask:
    """What a task does for one shard in one micro-batch.

    Attributes
    ----------
    query : the id of the query
    plan : the stage
    drafts : where the task may write results itself
    """

    query: str
    plan: ShardPlan
    drafts: Drafts | None

    def run(self, label: int, rows: Iterable[pd.DataFrame], blocks: Any) -> Iterator[pd.DataFrame]:
        """Run one micro-batch of one shard, whose state Spark gives; what is addressed elsewhere is handed on."""
        number = shard_labels(self.plan.shards).index(label)
        mine: list[Chunk] = []
        for frame in rows:
            here = frame["stage"] == self.plan.stage
            if not here.all():
                yield frame[~here]
            mine += [Chunk(*row) for row in frame[here].itertuples(index=False, name=None)]
        if not mine:
            return
        owner = f"query {self.query}, stage {self.plan.stage},"
        state: ShardState[Shard] = ShardState(blocks, owner, self.plan.shards)
        shard = state.load(label, lambda found: Shard(self.plan, number, found))
        chunks, changed = shard.run(mine)
        state.save(label, shard, changed)
        if self.drafts is not None:
            chunks = self.drafts.write(chunks)
        yield pd.DataFrame([[getattr(c, n) for n in SCHEMA.names] for c in chunks], columns=SCHEMA.names)


def processor(task: ShardTask) -> StatefulProcessor:
    """Spark's view of a stage: called once per shard and micro-batch.

    A class within a function travels by value, and the task as bytes. So the Python process that Spark starts on the driver
    at every start of a query, only to ask for the state's name and types, does not import this package: that takes seconds, and
    the process has ten.
    """
    data, state = cloudpickle.dumps(task), BLOCKS  # type: ignore[no-untyped-call]

    class Processor(StatefulProcessor):
        def __init__(self) -> None:
            self.silences = "pyspark.sql.streaming.transform_with_state_driver_worker"
            self.task: Any = None

        def __setstate__(self, kept: dict[str, Any]) -> None:
            # That process would print all of the query into the log.
            self.__dict__.update(kept)
            host = sys.modules["__main__"]
            if getattr(host.__spec__, "name", "") == self.silences:
                host.print = lambda *words, **options: None  # type: ignore[attr-defined]

        def init(self, handle: StatefulProcessorHandle) -> None:
            self.blocks = handle.getMapState(*state)

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            if self.task is None:
                self.task = pickle.loads(data)  # the plan, as the driver sent it with this class
            return self.task.run(int(key[0]), rows, self.blocks)

        def close(self) -> None:
            pass  # the live shard outlives the task

    return Processor()
