"""How the laws run a case: rows in any chunks and order, any legal marks, sweeps and restarts at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from tests.cases import Case, Row, Source, rows
from tests.choice import may_stall

import hydrophone as hp
from hydrophone.compiler.compile import Lowered, lower
from hydrophone.engine import emit
from hydrophone.engine.ingest import key_slots
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Batch, Progress, Segments
from hydrophone.model.marks import Mark, forget_slots, low_water_mark, marks_of_slots
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.plan.node import Node

EXAMPLES = settings.default.max_examples // 10 if settings.default.max_examples > 100 else 3
"""Examples per case: the table is long, so that a law still sees hundreds of runs in `make test`, and many thousands in `make soak`."""


ROWS_IN_SHORT_INPUTS = 200

FAR = 10**17
"""How far the marks of a stream go on after its last row, in nanoseconds: three years, longer than any case waits."""


@dataclass
class Feed:
    """Rows of one source on their way in: an order of arrival, and how far it has come."""

    source: Source
    order: np.ndarray
    done: int = 0
    starts: np.ndarray = field(init=False)
    keys: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.starts = self.source.starts()[self.order]
        self.keys = key_numbers(self.source)[self.order]

    @property
    def left(self) -> int:
        return len(self.order) - self.done

    def take(self, count: int) -> pa.Table:
        picked = self.order[self.done : self.done + count]
        self.done += len(picked)
        return self.source.table.take(pa.array(picked, pa.int64()))

    def promise(self) -> int:
        """The largest mark that is legal now."""
        return int(self.starts[self.done :].min()) if self.left else MAX_TIME

    def promises(self) -> tuple[pa.Table, np.ndarray]:
        """A row of every key that has come, and the largest mark that is legal for it now."""
        key, first = np.unique(self.keys[: self.done], return_index=True)
        legal = np.full(int(self.keys.max(initial=0)) + 1, MAX_TIME)
        np.minimum.at(legal, self.keys[self.done :], self.starts[self.done :])
        return self.source.table.take(pa.array(self.order[first], pa.int64())), legal[key]


def key_numbers(source: Source) -> np.ndarray:
    """A number for the key of every row."""
    if not source.keys:
        return np.zeros(len(source.table), np.int64)
    names = zip(*(source.table[k].to_pylist() for k in source.keys), strict=True)
    known: dict[Any, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


@dataclass(frozen=True)
class Manner:
    """How to run: drawn by Hypothesis, so that a failing one is small and can be read."""

    seed: int
    disorder: float
    """0: by time; 1: any order at all; between: a row may come late by this share of the whole time."""
    chunk: int
    eager: float
    """How often marks are given, and how close to what is legal."""
    sweeps: bool = True
    apart: float | None = None
    """How far keys are apart, as a share of the whole time, where they promise each for itself; None: sources promise for all keys."""

    def feeds(self, sources: list[Source]) -> list[Feed]:
        rng = np.random.default_rng(self.seed)
        feeds = []
        for source in sources:
            start = source.starts()
            span = float(start.max() - start.min() + 1) if len(start) else 1.0
            # Relative to the first start: near 2026 a double no longer tells nanoseconds apart.
            relative = (start - start.min()).astype(float) if len(start) else start.astype(float)
            if self.apart is not None:
                key = key_numbers(source)
                relative += rng.random(int(key.max(initial=0)) + 1)[key] * span * self.apart
            feeds.append(
                Feed(source, np.argsort(relative + rng.random(len(start)) * span * self.disorder, kind="stable"))
            )
        return feeds


def manners() -> st.SearchStrategy[Manner]:
    return st.builds(
        Manner,
        seed=st.integers(0, 2**20),
        disorder=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
        chunk=st.sampled_from([1, 2, 5, 13, 1000]),
        eager=st.sampled_from([1.0, 0.7, 0.3, 0.0]),
        apart=st.sampled_from([None, None, 0.3, 1.0]),
    )


class Run:
    """One run of a plan; checks on the way that no output breaks the promise of the output mark."""

    def __init__(self, case: Case, restart: Callable[[Run], None] | None = None, per_key: bool = False) -> None:
        if per_key:
            own = hp.delayed(MAX_TIME - 1, per_key=0)
            case = replace(case, inputs={name: replace(s, progress=own) for name, s in case.inputs.items()})
        self.case = case
        self.plan = lower([case.plan])
        self.root: Node = self.plan.roots[0]
        self.pipeline = Pipeline(self.plan.roots)
        self.sources = sources_of(case, self.plan)
        self.found: list[Row] = []
        self.restart = restart
        self.promised: Mark = MIN_TIME
        self.given = [MIN_TIME] * len(self.sources)
        self.whole: int | None = None

    def drain(self) -> None:
        for batch in self.pipeline.drain(self.root):
            at = emit.owner_instants(batch)
            late = at < marks_of_slots(self.promised, batch.sample_slot if isinstance(batch, Segments) else batch.slot)
            assert not late.any(), f"a row at {at[late][0]} after the mark {self.promised}"
            self.found += self._rows(batch)

    def _rows(self, batch: Batch) -> list[Row]:
        return rows(emit.result_table(batch, self.root.type, self.pipeline.keys(self.root)))

    def advance(self, marks: list[int]) -> None:
        self.given = [max(a, b) for a, b in zip(self.given, marks, strict=True)]
        self.pipeline.advance([Progress(m) for m in self.given])
        self.drain()
        progress = self.pipeline.progress(self.root)
        assert progress.mark >= low_water_mark(self.promised), "an output mark fell"
        self.promised = progress.mark if progress.by_key is None else progress.by_key

    def sweep(self) -> None:
        self.pipeline.sweep()
        self.promised = forget_slots(self.promised, np.flatnonzero(~self.pipeline.keys(self.root).used))

    def promise(self, port: int, feed: Feed, rng: np.random.Generator) -> None:
        """Every key says something that is legal, as far as the plan cares."""
        node = self.pipeline.ports[port]
        own = self.pipeline.stations[node].key_marks
        if own is not None:
            keys, legal = feed.promises()
            marks = np.array([_some_mark(int(m), MIN_TIME + 100, rng) for m in legal], np.int64)
            own.see(key_slots(keys, node.layout, self.pipeline.keys(node)), marks)

    def go(self, manner: Manner) -> list[Row]:
        rng = np.random.default_rng(manner.seed + 1)
        feeds = manner.feeds(self.sources)
        chunk = manner.chunk * coarseness(sum(f.left for f in feeds))
        while any(f.left for f in feeds):
            port = int(rng.choice([i for i, f in enumerate(feeds) if f.left]))
            self.pipeline.rows(port, feeds[port].take(int(rng.integers(1, chunk + 1))))
            if rng.random() < 0.7:
                self.drain()
            if rng.random() < manner.eager:
                for number, feed in enumerate(feeds) if manner.apart is not None else ():
                    self.promise(number, feed, rng)
                self.advance([_some_mark(f.promise(), g, rng) for f, g in zip(feeds, self.given, strict=True)])
            if manner.sweeps and rng.random() < 0.3:
                self.sweep()
            if self.restart is not None and rng.random() < 0.4:
                self.restart(self)
        self.end_as_streams_do()
        self.advance([MAX_TIME] * len(feeds))
        assert low_water_mark(self.promised) == MAX_TIME, "the end of the data did not reach the end of the plan"
        assert self.whole in (None, len(self.found)), "the end of the data gave what a stream would wait for for ever"
        return self.found

    def end_as_streams_do(self) -> None:
        """No more rows, and marks that go on: all that came must be given, unless a stream refuses the query.

        The end of the data, which no stream ever sends, has nothing to add then.
        """
        last = last_instant(self.sources)
        self.advance([add_time(last, FAR)] * len(self.sources))
        if not may_stall(self.case):
            assert low_water_mark(self.promised) >= last, (
                f"all sources have passed {last}, and the output mark is {self.promised}"
            )
            self.whole = len(self.found)


def coarseness(rows: int) -> int:
    """How many times larger than in short inputs the pieces of so many rows are: thousands of turns show no more than hundreds."""
    return max(1, rows // ROWS_IN_SHORT_INPUTS)


def _some_mark(legal: int, given: int, rng: np.random.Generator) -> int:
    """What is legal, a little less, or nothing new. A source that has ended may say so, or not yet."""
    choice = rng.random()
    if choice < 0.2:
        return given
    if legal == MAX_TIME:
        return legal if choice < 0.6 else given
    return legal if choice < 0.7 else legal - int(rng.integers(0, 50))


def sources_of(case: Case, plan: Lowered) -> list[Source]:
    """The case's inputs in the order of the plan's ports."""
    by_table = {id(s.table): s for s in case.inputs.values()}
    return [by_table[id(node.data.table)] for node in plan.sources]  # type: ignore[attr-defined]


def last_instant(sources: list[Source]) -> int:
    """The end of the last event of all."""
    return max((int(s.stops().max()) for s in sources if len(s.table)), default=0)


def merged(base: dict[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """A chain of snapshots as a store keeps it: later blocks replace earlier ones, None deletes."""
    both: dict[str, Any] = {**base, **changes}
    return {path: block for path, block in both.items() if block is not None}


def tables_of(source: Source, keep: np.ndarray) -> pa.Table:
    return source.table.filter(pa.array(keep))


def pieces(batches: list[Batch], start: int, stop: int) -> Iterator[Batch]:
    """What a slice owns."""
    for batch in batches:
        mine = emit.owned_rows(batch, start, stop)
        if len(mine):
            yield mine
