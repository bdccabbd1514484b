"""What comes to a shard: rows and marks by port, sorted so that a replay sees the same; late rows; the progress of every port."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hydrophone.engine.late import Late, LateRows
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import StateVersionError
from hydrophone.model.batch import Progress
from hydrophone.model.kernel import Joint
from hydrophone.model.progress import Policy, Seen, Tracker, merge_seen
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.spark.exchange.table_bytes import table_from_bytes
from hydrophone.spark.streaming.chunks import Chunk, Kind, chunk_tables, sort_by_content


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
    speaker : the port whose marks hold for these rows, where a source feeds several ports; None: this one
    """

    time: str
    end: str | None
    policy: Policy | None
    source: int | None
    ordered: bool
    name: str = ""
    speaker: int | None = None


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


class Intake:
    """The ports of a shard.

    Parameters
    ----------
    pipeline : where rows go
    shards : how many there are in every stage
    late : the policy for late rows

    Attributes
    ----------
    inlets : what is known of every port
    trackers : the marks, by port; ports with another speaker have none
    joints : by port and shard of the stage before
    aside : late rows that are to be kept, with the number of their source
    """

    def __init__(self, pipeline: Pipeline, shards: int, late: Late) -> None:
        self.pipeline, self.shards, self.late = pipeline, shards, late
        self.inlets: dict[int, Inlet] = {}
        self.trackers: dict[int, Tracker] = {}
        self.joints: dict[int, dict[str, Joint]] = {}
        self.aside: list[tuple[int, pa.Table]] = []

    def connect(self, inlets: Mapping[int, Inlet]) -> None:
        """Have these ports and no others; those that were there go on."""
        own = {port: inlet for port, inlet in inlets.items() if inlet.speaker is None}
        self.trackers = {p: self.trackers[p] if p in self.trackers else self._tracker(i) for p, i in own.items()}
        self.joints = {port: self.joints.get(port, {}) for port in inlets}
        self.inlets = dict(inlets)

    def sort(self, chunks: Iterable[Chunk]) -> ShardInput:
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
        return table if self.inlets[port].ordered else sort_by_content(table)

    def _counted(self, chunk: Chunk) -> int:
        """The rows that a task has merged; none of them may have been late."""
        said = json.loads(chunk.data)
        if said["from"] < self.trackers[chunk.port].mark:
            raise StateVersionError(
                f"start: a task has merged rows from {said['from']} on, and the mark is {self.trackers[chunk.port].mark} already",
                hint="this is a fault of ours; start(combine=False) goes on without merging",
            )
        return int(said["rows"])

    def take(self, given: ShardInput) -> dict[int, int]:
        """Take rows that are not late, and then the marks; the number of late rows by source, which are in `aside`.

        Rows are late against the mark that held when the micro-batch began, so that its own order does not matter.
        """
        late: dict[int, int] = {}
        # Every shard is told the same of all rows, so that all believe the same.
        limits = {port: self.trackers[port].limit(seen) for port, seen in given.largest.items()}
        for port in sorted(given.rows):
            speaker = self._speaker(port)
            table = self._split_late(
                port, given.rows[port], self.trackers[speaker], late, limits.get(speaker, MAX_TIME)
            )
            if len(table) and port in self.pipeline.ports:
                # Bad rows are an error of their source, whoever reads it.
                self.pipeline.step(port, self.pipeline.batch(port, table))
        for port, seen in given.largest.items():
            self.trackers[port].see(seen, limits[port])
        for port, seen in given.ends.items():
            if (ends := self.trackers[port].ends) is not None:
                ends.see(seen, ends.limit(seen))
        for port in given.clock.keys() - given.largest.keys():
            self.trackers[port].tick(given.clock[port])
        return late

    def _speaker(self, port: int) -> int:
        speaker = self.inlets[port].speaker
        return port if speaker is None else speaker

    def _split_late(self, port: int, table: pa.Table, tracker: Tracker, late: dict[int, int], limit: int) -> pa.Table:
        inlet = self.inlets[port]
        if inlet.policy is None:
            return table
        sieve = ShardLateRows(self.late, inlet)
        table = self.pipeline.split_late(port, table, tracker.mark, sieve, tracker.ended, limit)
        if sieve.count and inlet.source is not None:
            late[inlet.source] = late.get(inlet.source, 0) + sieve.count
            self.aside += [(inlet.source, part) for aside in sieve.aside for part in chunk_tables(aside)]
        return table

    def advance(self) -> None:
        """Pass the progress of all ports through the pipeline."""
        self.pipeline.advance({port: self._progress(port) for port in self.inlets})

    def _progress(self, port: int) -> Progress:
        tracker = self.trackers[self._speaker(port)]
        return Progress(tracker.mark, self._joint(port), tracker.ended)

    def _joint(self, port: int) -> Joint | None:
        """What all shards of the stage before have passed; none may be overtaken before it has spoken."""
        told = self.joints[port].values()
        if len(told) < self.shards:
            return None
        return min(start for start, _ in told), min(other for _, other in told)

    def _tracker(self, inlet: Inlet) -> Tracker:
        if inlet.policy is not None:
            return Tracker(inlet.policy)
        # All shards of the stage before are known from the start: none may be overtaken before it has spoken.
        return Tracker(Policy(), {str(i): MIN_TIME for i in range(self.shards)})

    def slowest_mark(self, port: int) -> int | None:
        """How far a source is as seen from here; None where keys speak for themselves, and none of them is here."""
        far, policy = self.pipeline.slowest_mark(port, self.trackers[port].mark), self.inlets[port].policy
        silent = (
            far == MIN_TIME
            and policy is not None
            and policy.own
            and not any(t.live for t in self.pipeline.scopes.values())
        )
        return None if silent else far

    # --- state ----------------------------------------------------------------------------------------------------------

    def saved(self) -> dict[int, dict[str, Any]]:
        """The marks of every port that has its own."""
        return {
            p: {**_progress_to_bytes(t), "joint": self.joints[p], "ends": t.ends and _progress_to_bytes(t.ends)}
            for p, t in self.trackers.items()
        }

    def load(self, saved: Mapping[int, dict[str, Any]]) -> None:
        """Take over what was saved."""
        for port, found in saved.items():
            tracker = self.trackers[port]
            _progress_from_bytes(tracker, found)
            if tracker.ends is not None:
                _progress_from_bytes(tracker.ends, found["ends"])
            self.joints[port] = {who: tuple(mark) for who, mark in found.get("joint", {}).items()}


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
