"""The local engine: a query in this process, whole or as its rows come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from hydrophone.batch import Progress, Segments
from hydrophone.engine import emit
from hydrophone.engine.early import at_marks
from hydrophone.engine.in_order import enforce
from hydrophone.engine.late import Late, LateRows
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.watch import UNMARKED_LIMIT, Unmarked, Watch, waiting_for
from hydrophone.errors import UnsupportedError
from hydrophone.plan.lower import Lowered, lower
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source
from hydrophone.progress import Tracker, largest_times
from hydrophone.sigseg import SigSeg
from hydrophone.time import MAX_TIME, MIN_TIME

Arrival = Literal["any", "enforce"]
"""Whether rows run as they come, or are sorted and merged first (see `hydrophone.engine.in_order`)."""


SWEPT = 16
"""Marks after which keys that nothing needs are forgotten at the latest."""
FEW = 1024
"""Keys that are looked at after every mark: it takes next to no time."""
RECENT = 100
"""How many turns `Batches.progress` remembers, as many as Spark does of a stream."""


def run(root: Node, shape: emit.Shape = "rows") -> pa.Table:
    """The whole answer as one table, in no particular order."""
    plan = lower([root])
    return _collect(_finished(plan), plan.roots[0], shape)


def _finished(plan: Lowered) -> Pipeline:
    """A pipeline that has seen all rows."""
    pipeline = Pipeline(plan.roots)
    for port, source in enumerate(plan.sources):
        for table in _tables(source, None):
            pipeline.rows(port, table)
    pipeline.advance([Progress.end()] * len(plan.sources))
    return pipeline


def run_segments(root: Node) -> Iterator[tuple[tuple[Any, ...], SigSeg]]:
    """The answer of a uniform signal as (key, segment) pairs; the segments view the engine's own memory."""
    plan = lower([root])
    pipeline = _finished(plan)
    keys = pipeline.keys(plan.roots[0])
    for batch in pipeline.drain(plan.roots[0]):
        assert isinstance(batch, Segments)
        named = zip(*(c.to_pylist() for c in keys.columns(batch.slot)), strict=True) if keys.schema.names else ()
        for run, key in enumerate(named or [()] * len(batch)):
            yield key, batch.sigseg(run)


class Batches(Iterator[pa.Table]):
    """The answer in pieces: rows are read so many at a time, in turn from every source, and progress follows each source's promise."""

    def __init__(
        self,
        root: Node,
        rows: int,
        late: Late,
        shape: emit.Shape = "rows",
        order: Arrival = "any",
        unmarked: int | None = UNMARKED_LIMIT,
    ) -> None:
        self._live, self._shape = Live(root, late, order, unmarked), shape
        self._readers = {port: at_marks(_tables(s, rows), s) for port, s in enumerate(self._live.sources)}
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._pieces = self._run()

    def __next__(self) -> pa.Table:
        return next(self._pieces)

    @property
    def progress(self) -> list[dict[str, Any]]:
        """What the latest turns did, oldest first; in each every source was asked for rows once.

        The names are those of a stream on Spark (`RunningQuery.progress`), as far as they mean something here: ``batch``, ``rows`` taken,
        ``results`` given, ``late`` rows by source, ``keys`` and bytes of memory (``state_bytes``) held, rows ``shed`` since the beginning,
        ``rows_per_second``, ``marks`` by source in nanoseconds, ``passed``: the mark that results have reached, and ``mark_ms``: the
        milliseconds that marks took through all operators, until the results they made final were there.
        """
        return list(self._recent)

    def _run(self) -> Iterator[pa.Table]:
        live, number = self._live, 0
        while self._readers:
            begin, rows = time.perf_counter(), 0
            for port, reader in list(self._readers.items()):
                table = next(reader, None)
                if table is None:
                    del self._readers[port]
                    live.end(port)
                else:
                    rows += len(table)
                    live.rows(port, table)
            marked = time.perf_counter()
            live.advance()
            pieces = list(live.pieces(self._shape))
            now = time.perf_counter()
            told = {"batch": number, "rows": rows, "results": sum(map(len, pieces)), **live.metrics()}
            rate = rows / max(now - begin, 1e-9)
            self._recent.append(told | {"rows_per_second": rate, "mark_ms": (now - marked) * 1e3})
            number += 1
            yield from pieces
        live.close()


class Live:
    """A query that takes rows as they come; progress follows the promises of its sources.

    Attributes
    ----------
    sources : where rows come from, by the number of their port
    pipeline : what runs the query
    """

    def __init__(self, root: Node, late: Late, order: Arrival = "any", unmarked: int | None = UNMARKED_LIMIT) -> None:
        plan = lower([root])
        self.sources = plan.sources
        plan = enforce(plan) if order == "enforce" else plan
        self.root = plan.roots[0]
        self.pipeline = Pipeline(plan.roots)
        self._trackers = [Tracker(s.progress) if s.progress else None for s in self.sources]
        self._kept = [LateRows(late, s.layout.time, s.layout.end, s.data.identity) for s in self.sources]
        self._ended: set[int] = set()
        self._counted: dict[int, int] = {}
        self._unswept = self._needed = 0  # rows since keys were forgotten, and how many were not
        named = [(s.data.identity, waiting_for(root, s)) for s in self.sources]
        self._watch, self._unmarked = Watch(named), Unmarked(named, unmarked)

    def rows(self, port: int, table: pa.Table) -> None:
        """Take rows of a source."""
        tracker = self._trackers[port]
        count = len(table)
        self._unswept += count
        if tracker is not None:
            # Late rows speak for their source too: it has come so far, whatever becomes of them.
            layout = self.sources[port].layout
            seen = largest_times(table, layout.time, tracker.policy, layout.key)
            ends = tracker.ends
            last = {} if ends is None else largest_times(table, layout.end or "", ends.policy)
            table = self.pipeline.sift(port, table, tracker.mark, self._kept[port], tracker.ended)
            tracker.see(seen)
            if ends is not None:
                ends.see(last)
        if tracker is None or self.pipeline.far(port, tracker.mark) == MIN_TIME:
            self._unmarked.see(port, count)
        self.pipeline.rows(port, table)

    def end(self, port: int) -> None:
        """A source has no more rows."""
        self._ended.add(port)

    def advance(self) -> None:
        """Let the progress of the sources pass through all operators, and forget keys that nothing needs."""
        marks = [self._progress(port) for port in range(len(self.sources))]
        self.pipeline.advance(marks)
        self._sweep()
        # A source that promises nothing is reported by its rows instead.
        far = {i: self.pipeline.far(i, p.mark) for i, p in enumerate(marks)}
        self._watch.see({i: MAX_TIME if self._trackers[i] is None else mark for i, mark in far.items()})

    def _sweep(self) -> None:
        """Forget keys, once as many rows have come as there were keys the last time, or some marks: it takes a look at every key."""
        self._unswept += max(FEW, -(-self._needed // SWEPT))
        if self._unswept >= self._needed or len(self._ended) == len(self.sources):
            self.pipeline.sweep()
            self._unswept, self._needed = 0, sum(table.live for table in self.pipeline.scopes.values())

    def metrics(self) -> dict[str, Any]:
        """What is held, what was late since the last call, and how far sources and results are."""
        late = {port: kept.count - self._counted.get(port, 0) for port, kept in enumerate(self._kept)}
        self._counted = {port: kept.count for port, kept in enumerate(self._kept)}
        pipeline = self.pipeline
        return {
            "keys": sum(table.live for table in pipeline.scopes.values()),
            "state_bytes": pipeline.state_bytes,
            "shed": sum(pipeline.shed.values()),
            "late": {port: rows for port, rows in late.items() if rows},
            "marks": {port: pipeline.far(port, self._progress(port).mark) for port in range(len(self.sources))},
            "passed": pipeline.marks[self.root],
        }

    def pieces(self, shape: emit.Shape = "rows") -> Iterator[pa.Table]:
        """The results since the last call."""
        return _pieces(self.pipeline, self.root, shape)

    def close(self) -> None:
        """Say how many rows were late."""
        for source, kept in zip(self.sources, self._kept, strict=True):
            kept.close(source.data.identity)

    def _progress(self, port: int) -> Progress:
        if port in self._ended:
            return Progress.end()
        tracker = self._trackers[port]
        return Progress(tracker.mark, ends=tracker.ended) if tracker else Progress(MIN_TIME)


def _tables(source: Source, rows: int | None) -> Iterator[pa.Table]:
    tables = getattr(source.data, "tables", None)
    if tables is None:
        raise UnsupportedError(
            f"the local engine cannot read {source.data.identity}",
            hint="run this query on Spark, or collect the data first",
        )
    names = set(source.layout.key) | {source.layout.time, *source.layout.payload}
    names |= {n for n in (source.layout.end, source.layout.samples, source.layout.period) if n}
    result: Iterator[pa.Table] = tables([n for n in source.layout.schema.names if n in names], rows)
    return result


def _collect(pipeline: Pipeline, root: Node, shape: emit.Shape) -> pa.Table:
    pieces = list(_pieces(pipeline, root, shape))
    return pa.concat_tables(pieces) if pieces else emit.schema(root.type, shape).empty_table()


def _pieces(pipeline: Pipeline, root: Node, shape: emit.Shape) -> Iterator[pa.Table]:
    yield from emit.tables(pipeline.drain(root), root.type, pipeline.keys(root), shape)
