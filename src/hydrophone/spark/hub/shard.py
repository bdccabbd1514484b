"""A shard of a hub: the pipeline of all queries in one stage, which come and go between micro-batches."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.subscription import gated, last_owner
from hydrophone.engine.turns import latest_end
from hydrophone.errors import HydrophoneError
from hydrophone.model.batch import Batch
from hydrophone.model.time import MIN_TIME
from hydrophone.plan.node import Node
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.exchange.table_bytes import table_to_bytes
from hydrophone.spark.hub.folders import HubFolder
from hydrophone.spark.hub.pins import Pin
from hydrophone.spark.streaming.chunks import SINK, Chunk, Kind, chunk_tables
from hydrophone.spark.streaming.claims import CLAIM, Claims
from hydrophone.spark.streaming.intake import Inlet, Intake, ShardInput
from hydrophone.spark.streaming.shard import late_chunks, others, stage_chunks, to_frame
from hydrophone.spark.streaming.shard_state import ShardState
from hydrophone.spark.streaming.sinks import Drafts


@dataclass
class Work:
    """What a shard computes, by root.

    Attributes
    ----------
    exits : the later stage and port that get its rows
    answers : the queries whose answer it is
    """

    exits: set[tuple[int, int]] = field(default_factory=set)
    answers: list[int] = field(default_factory=list)


class HubShard:
    """A share of the keys in one stage of a hub."""

    def __init__(self, folder: HubFolder, level: int, number: int, blocks: Mapping[str, bytes]) -> None:
        self.folder, self.level, self.number = folder, level, number
        self.label = shard_labels(folder.shards)[number]
        self.pipeline = Pipeline((), isolated=True)
        self.intake = Intake(self.pipeline, folder.shards, folder.late)
        self.failed: dict[int, dict[str, Any]] = {}
        self.work: dict[Node, Work] = {}
        self.needs: dict[int, list[tuple[Node, tuple[int, int] | None]]] = {}  # by query its roots, and where they lead
        self.ports = [s.port(n) for n, s in enumerate(folder.sources)] if level == 0 else []
        self.pin: Pin | None = None
        self.sizes = {path: len(data) for path, data in blocks.items()}
        if blocks:
            self._restore(dict(blocks))

    def run(self, chunks: Iterable[Chunk], pin: Pin) -> tuple[list[Chunk], dict[str, bytes | None]]:
        """One micro-batch: change what runs, step all rows, advance once. Gives chunks and the state that changed."""
        changed = self.change(pin)
        given = self.intake.sort(c for c in chunks if c.kind != Kind.CONTROL)
        late = self.intake.take(given)
        out = late_chunks(self.intake, self.label)
        begin = time.perf_counter()
        self.intake.advance()
        seen, told = self._emit(pin, out)
        took = time.perf_counter() - begin
        self.pipeline.sweep()
        changed |= self._drop_failed()
        blocks = self._blocks(changed)
        metrics = self._metrics(given, late, took, told) | {"seen": seen, "queries": told}
        out.append(self._to_sink(Kind.METRICS, 0, json.dumps(metrics).encode()))
        for query, error in self.failed.items():
            out.append(self._to_sink(Kind.ERROR, query, json.dumps(error).encode()))
        return out, blocks

    # --- what runs ------------------------------------------------------------------------------------------------------

    def change(self, pin: Pin) -> bool:
        """Run the queries of a pin and no others: what is shared goes on with its state. Returns whether anything changed."""
        if self.pin is not None and _running(self.pin) == _running(pin) and self.pin.ports == pin.ports:
            self.pin = pin
            return False
        known = set() if self.pin is None else {q.number for q in self.pin.queries}
        self.pin = pin
        running = {q.number for q in pin.queries}
        self.failed = {n: e for n, e in self.failed.items() if n in running}
        self.needs = {n: roots for n, roots in self.needs.items() if n in running}
        self.intake.connect(self._inlets(pin))
        self._add(self.ports)  # late rows and ends of sources are looked at whoever reads them
        for query in pin.queries:
            if query.number not in known and query.number not in self.failed:
                placed = self.folder.placed(query)
                roots = [r for step in placed.steps if step.level == self.level for r in step.roots(pin.ports)]
                try:
                    self._add(root for root, _ in roots)
                    self.needs[query.number] = roots
                except Exception as error:
                    self._fail(query.number, error)
        self._drop_unneeded()
        return True

    def _add(self, roots: Iterable[Node]) -> None:
        new = [r for r in roots if r not in self.pipeline.roots]
        if new:
            self.pipeline.add(new)

    def _drop_unneeded(self) -> None:
        """Note what becomes of every root, and drop those that nobody needs."""
        self.work = {}
        for number, roots in self.needs.items():
            for root, exit_at in roots:
                work = self.work.setdefault(root, Work())
                if exit_at is None:
                    work.answers.append(number)
                else:
                    work.exits.add(exit_at)
        # Also where there are none: stations that could not be linked go.
        self.pipeline.drop([r for r in self.pipeline.roots if r not in self.work and r not in self.ports])

    def _inlets(self, pin: Pin) -> dict[int, Inlet]:
        """The ports of this stage; marks of every source are heard at the port of its number."""
        found = {}
        for n, (source, ordered) in enumerate(zip(self.folder.sources, self.folder.ordered, strict=True)):
            layout = source.layout
            found[n] = Inlet(
                layout.time, layout.end, source.progress, n if self.level == 0 else None, ordered, source.title
            )
        for query in pin.queries:
            for gate in self.folder.placed(query).gates:
                port = pin.ports[gate.address]
                if gate.level != self.level or port in found:
                    continue
                if gate.source is None:
                    found[port] = Inlet("", None, None, None, ordered=True)
                else:
                    source, layout = self.folder.sources[gate.source], self.folder.sources[gate.source].layout
                    ordered = self.folder.ordered[gate.source]
                    found[port] = Inlet(
                        layout.time, layout.end, source.progress, None, ordered, source.title, gate.source
                    )
        return found

    # --- output ---------------------------------------------------------------------------------------------------------

    def _emit(self, pin: Pin, out: list[Chunk]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Pack what has reached the roots. Returns the largest ends of the rows of sources, and what is said of queries."""
        seen: dict[str, int] = {}
        told: dict[str, dict[str, int]] = {}
        queries = {q.number: q for q in pin.queries}
        numbers: dict[Node, int] = {port: n for n, port in enumerate(self.ports)}
        for root in self.pipeline.roots:
            batches = self.pipeline.drain(root)
            if root in numbers:
                seen[str(numbers[root])] = max(map(latest_end, batches), default=MIN_TIME)
            work = self.work.get(root)
            if work is None or root in self.pipeline.failed:
                continue
            for level, port in sorted(work.exits):
                out += stage_chunks(self.pipeline, root, batches, self.number, self.folder.shards, level, port)
            made = max((last_owner(b) + 1 for b in batches), default=MIN_TIME)
            mark = self.pipeline.progress(root).mark
            for number in work.answers:
                try:
                    rows = self._answer(root, batches, queries[number].spans(), number, out)
                except Exception as error:
                    self._fail(number, error)
                else:
                    told[str(number)] = {"mark": mark, "made": made, "rows": rows}
        return seen, told

    def _answer(self, root: Node, batches: list[Batch], spans: Any, number: int, out: list[Chunk]) -> int:
        assert self.pin is not None
        mine = [part for batch in batches for part in gated(batch, spans)]
        if not mine:
            return 0
        shape = self.folder.plan(next(q.plan for q in self.pin.queries if q.number == number)).shape
        table = pa.concat_tables(emit.result_tables(mine, root.type, self.pipeline.keys(root), shape))
        out.extend(self._to_sink(Kind.RESULT, number, table_to_bytes(p)) for p in chunk_tables(table))
        return len(table)

    def _to_sink(self, kind: Kind, port: int, data: bytes) -> Chunk:
        return Chunk(self.label, SINK, port, kind, "", 0, data)

    # --- queries that fail ----------------------------------------------------------------------------------------------

    def _fail(self, number: int, error: Exception) -> None:
        self.failed.setdefault(number, described(error))

    def _drop_failed(self) -> bool:
        """Forget the state of queries that have failed; the driver is told until it has dropped them too."""
        for root, error in self.pipeline.failed.items():
            for number, roots in self.needs.items():
                if any(root == mine for mine, _ in roots):
                    self._fail(number, error)
        gone = [n for n in self.needs if n in self.failed]
        if gone:
            self.needs = {n: roots for n, roots in self.needs.items() if n not in self.failed}
            self._drop_unneeded()
        return bool(gone)

    # --- metrics and state ----------------------------------------------------------------------------------------------

    def _metrics(
        self, given: ShardInput, late: dict[int, int], took: float, told: dict[str, dict[str, int]]
    ) -> dict[str, Any]:
        own = range(len(self.folder.sources)) if self.level == 0 else ()
        marks = [m["mark"] for m in told.values()]
        return {
            "stage": self.level,
            "shard": self.number,
            "rows": sum(given.arrived(p) for p in own),
            "rows_of": {str(s): given.arrived(s) for s in own},
            "merged": 0,
            "results": sum(m["rows"] for m in told.values()),
            "late": {str(s): n for s, n in late.items()},
            "keys": sum(t.live for t in self.pipeline.scopes.values()),
            "state_bytes": sum(self.sizes.values()),
            "shed": sum(self.pipeline.shed.values()),
            "waiting": self.pipeline.waiting,
            "marks": {str(s): far for s in own if (far := self.intake.slowest_mark(s)) is not None},
            "mark_us": {str(self.level): round(took * 1e6)},
            **({"passed": min(marks)} if marks else {}),
        }

    def _blocks(self, changed: bool) -> dict[str, bytes | None]:
        """The state that changed; with it what ran, so that a restored shard runs the same."""
        assert self.pin is not None
        blocks = self.pipeline.snapshot(changed=True) | {"trackers": json.dumps(self.intake.saved()).encode()}
        if changed:
            blocks["pin"] = self.pin.to_json().encode()
            blocks["failed"] = json.dumps(self.failed).encode()
        for path, data in blocks.items():
            if data is None:
                self.sizes.pop(path, None)
            else:
                self.sizes[path] = len(data)
        return blocks

    def _restore(self, blocks: dict[str, bytes]) -> None:
        self.failed = {int(n): e for n, e in json.loads(blocks.pop("failed")).items()}
        self.change(Pin.from_json(blocks.pop("pin").decode(), "the state of a shard"))
        self.intake.load({int(port): saved for port, saved in json.loads(blocks.pop("trackers")).items()})
        self.pipeline.restore(blocks)


def _running(pin: Pin) -> list[tuple[int, str]]:
    return [(q.number, q.plan) for q in pin.queries]


def described(error: BaseException) -> dict[str, Any]:
    """An error as text, which every process can read."""
    if isinstance(error, HydrophoneError):
        return {"type": type(error).__name__, "message": error.message, "hint": error.hint, "where": error.where}
    return {"type": type(error).__name__, "message": str(error), "hint": None, "where": None}


@dataclass(frozen=True)
class HubTask:
    """What a task does for one shard in one micro-batch of a hub."""

    folder: HubFolder
    level: int

    def run(self, label: int, rows: Iterable[pd.DataFrame], blocks: Any) -> Iterator[pd.DataFrame]:
        """Run one micro-batch of one shard, whose state Spark gives; what is addressed elsewhere is handed on."""
        mine: list[Chunk] = []
        yield from others(rows, self.level, mine)
        batches = {int(c.data) for c in mine if c.kind == Kind.CONTROL}
        if not mine:
            return
        (batch,) = batches
        pin = self.folder.pins.read(batch)
        number = shard_labels(self.folder.shards).index(label)
        state: ShardState[HubShard] = ShardState(
            blocks, f"hub {self.folder.id}, stage {self.level},", self.folder.shards
        )
        shard = state.load(label, lambda found: HubShard(self.folder, self.level, number, found))
        chunks, changed = shard.run(mine, pin)
        state.save(label, shard, changed)
        yield to_frame(self._written(pin, chunks))

    def _written(self, pin: Pin, chunks: list[Chunk]) -> list[Chunk]:
        """Results in files, where sinks take them: a sink that fails fails its query alone."""
        results = [c for c in chunks if c.kind == Kind.RESULT]
        passed = [c for c in chunks if c.kind not in (Kind.RESULT, Kind.LATE)]
        passed += Drafts.at(self.folder.late_outlets, self.folder.id).write([c for c in chunks if c.kind == Kind.LATE])
        by_query: dict[int, list[Chunk]] = {}
        for chunk in results:
            by_query.setdefault(chunk.port, []).append(chunk)
        queries = {q.number: q for q in pin.queries}
        for number, theirs in by_query.items():
            query = queries[number]
            try:
                outlet = self.folder.plan(query.plan).outlet(query)
                if outlet is not None:
                    if not Path(outlet.sink.folder or "", CLAIM).exists():
                        raise Claims(self.folder.home, query.token, (outlet,), "hub").gone(outlet)
                    theirs = Drafts.at([outlet], self.folder.id).write(theirs)
                passed += theirs
            except Exception as error:
                said = json.dumps(described(error)).encode()
                passed.append(Chunk(by_query[number][0].label, SINK, number, Kind.ERROR, "", 0, said))
        return passed
