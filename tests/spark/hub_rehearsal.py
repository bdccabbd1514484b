"""A hub in this process: the same packers, shards, state, pins and requests as on Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.api.query import Query
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.exchange.table_bytes import table_from_bytes
from hydrophone.spark.hub.changes import Told, next_pin
from hydrophone.spark.hub.folders import HubFolder, HubPlan
from hydrophone.spark.hub.packing import control_chunks, source_packer, targets
from hydrophone.spark.hub.pins import Pin
from hydrophone.spark.hub.placement import without_data
from hydrophone.spark.hub.shard import HubShard
from hydrophone.spark.streaming.chunks import SINK, Chunk, Kind


class HubRehearsal:
    """A hub over some sources; `run` is a micro-batch."""

    def __init__(
        self, home: Path, sources: list[Query], *, levels: int = 3, shards: int = 2, late: Any = None, seed: int = 0
    ) -> None:
        nodes = tuple(without_data(s.node) for s in sources)
        self.folder = HubFolder(
            str(home), "rehearsal", nodes, levels, shards, (False,) * len(nodes), late or hp.late.error()
        )
        self.labels = shard_labels(shards)
        self.state: dict[tuple[int, int], dict[str, bytes]] = defaultdict(dict)
        self.live: dict[tuple[int, int], HubShard] = {}
        self.rng = np.random.default_rng(seed)
        self.results: dict[int, list[pa.Table]] = defaultdict(list)
        self.late: list[pa.Table] = []
        none = Pin(-1, (0,) * 0, next_port=len(nodes))
        none = replace(none, seen=Told.of((), len(nodes)).seen)
        self.pin = none
        self.advance([], {})

    def subscribe(self, query: Query, name: str, start: Any = "settled", token: str | None = None) -> None:
        plan = self.folder.registry.put(HubPlan(without_data(query.node), None, "rows"))
        self.folder.requests.add("subscribe", name=name, plan=plan, token=token or name, start=start)

    def ask(self, what: str, name: str, **said: Any) -> None:
        said = {"at": None, "now": False} | said if what == "unsubscribe" else said
        self.folder.requests.add(what, **{"name": name, "token": name} | said)

    def run(self, rows: Mapping[int, pa.Table], marks: Mapping[int, int] | None = None) -> list[dict[str, Any]]:
        """One micro-batch: rows by source, and what they say of time where that is not theirs."""
        chunks = [Chunk(*r.values()) for b in control_chunks(self.folder, self.pin.batch) for r in b.to_pylist()]
        for number in range(len(self.folder.sources)):
            packer = replace(source_packer(self.folder, number), targets=targets(self.folder, self.pin, number))
            seen, batches = packer.seen(), []
            if len(rows.get(number, ())):
                batches += packer.pack("", 0, rows[number], seen)
            if marks is not None and number in marks:
                seen.largest = {"": marks[number]}
            batches += packer.end(seen)
            chunks += [Chunk(*r.values()) for b in batches for r in b.to_pylist()]
        for level in range(self.folder.levels):
            chunks = self._stage(level, chunks)
        assert {c.stage for c in chunks} <= {SINK}
        metrics = [json.loads(c.data) for c in chunks if c.kind == Kind.METRICS]
        errors = {c.port: json.loads(c.data) for c in chunks if c.kind == Kind.ERROR}
        for c in chunks:
            if c.kind == Kind.RESULT and c.port not in errors:
                self.results[c.port].append(table_from_bytes(c.data))
            elif c.kind == Kind.LATE:
                self.late.append(table_from_bytes(c.data))
        self.advance(metrics, errors)
        return metrics

    def advance(self, metrics: list[dict[str, Any]], errors: dict[int, Any]) -> None:
        asked = list(self.folder.requests.after(self.pin.request))
        told = Told.of(metrics, len(self.folder.sources))
        self.pin = self.folder.pins.write_once(next_pin(self.folder, self.pin, told, errors, asked, lambda query: None))

    def _stage(self, level: int, chunks: list[Chunk]) -> list[Chunk]:
        out = [c for c in chunks if c.stage != level]
        for number, label in enumerate(self.labels):
            mine = [c for c in chunks if c.stage == level and c.label == label]
            self.rng.shuffle(mine)  # type: ignore[arg-type]
            at = level, label
            if at not in self.live or self.rng.random() < 0.3:
                self.live[at] = HubShard(self.folder, level, number, self.state[at])
            given, changed = self.live[at].run(mine, self.pin)
            out += given
            for path, data in changed.items():
                if data is None:
                    self.state[at].pop(path, None)
                else:
                    self.state[at][path] = data
        return out

    def table(self, number: int) -> list[pa.Table]:
        return self.results[number]
