"""The local engine: a query in this process, whole or as its rows come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hydrophone.batch import Progress, Segments
from hydrophone.engine import emit
from hydrophone.engine.late import Late, LateRows
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import UnsupportedError
from hydrophone.plan.lower import Lowered, lower
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source
from hydrophone.progress import Tracker, largest_times
from hydrophone.sigseg import SigSeg
from hydrophone.time import MIN_TIME


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


def run_as_it_comes(root: Node, rows: int, late: Late, shape: emit.Shape = "rows") -> Iterator[pa.Table]:
    """The answer in pieces: rows are read so many at a time, in turn from every source, and progress follows each source's promise."""
    plan = lower([root])
    pipeline = Pipeline(plan.roots)
    trackers = [Tracker(s.progress) if s.progress else None for s in plan.sources]
    kept = [LateRows(late, s.layout.time, s.layout.end) for s in plan.sources]
    readers = {port: _tables(s, rows) for port, s in enumerate(plan.sources)}
    while readers:
        for port, reader in list(readers.items()):
            table = next(reader, None)
            if table is None:
                del readers[port]
                continue
            tracker = trackers[port]
            if tracker is not None:
                # Late rows speak for their source too: it has come so far, whatever becomes of them.
                seen = largest_times(table, plan.sources[port].layout.time, tracker.policy)
                table = kept[port].sift(table, tracker.mark)
                tracker.see(seen)
            pipeline.rows(port, table)
        pipeline.advance([_progress(t, port in readers) for port, t in enumerate(trackers)])
        pipeline.sweep()
        yield from _pieces(pipeline, plan.roots[0], shape)
    for source, rows_aside in zip(plan.sources, kept, strict=True):
        rows_aside.close(source.data.identity)


def _progress(tracker: Tracker | None, more: bool) -> Progress:
    if not more:
        return Progress.end()
    return Progress(tracker.mark if tracker else MIN_TIME)


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
    for batch in pipeline.drain(root):
        yield emit.table(batch, root.type, pipeline.keys(root), shape)
