"""The local engine: runs a query in this process, at once or as rows come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

import pyarrow as pa

from hydrophone.compiler.compile import Host, compile_plan, lower
from hydrophone.compiler.result_range import ResultRange
from hydrophone.engine import emit
from hydrophone.engine.in_order import enforce_order
from hydrophone.engine.late import Action, Late
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.resources import Resources
from hydrophone.engine.shares import Share, one_share, run_share, shares_in_process
from hydrophone.engine.split_at_marks import split_at_marks
from hydrophone.engine.turns import Turns
from hydrophone.engine.watch import UNMARKED_LIMIT, first_waiting_operator
from hydrophone.engine.workers import results_in_order
from hydrophone.model.batch import Segments
from hydrophone.model.sigseg import SigSeg
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source, sources

Arrival = Literal["any", "enforce"]
"""Whether rows run as they come, or are sorted and merged first (see `hydrophone.engine.in_order`)."""


TURNS_REMEMBERED = 100
"""Turns that `Batches.progress` keeps, as many as Spark."""


def execute(
    root: Node, shape: emit.Shape = "rows", wanted: ResultRange | None = None, resources: Resources | None = None
) -> pa.Table:
    """The whole answer, or the wanted range of it, as one table in no particular order."""
    pieces = list(execute_tables(root, shape, wanted, resources))
    return pa.concat_tables(pieces) if pieces else emit.result_schema(root.type, shape).empty_table()


def execute_tables(
    root: Node, shape: emit.Shape = "rows", wanted: ResultRange | None = None, resources: Resources | None = None
) -> Generator[pa.Table, None, None]:
    """The answer in tables, as they are made; equal ones in the same order for any number of threads."""
    wanted, resources = wanted or ResultRange(), resources or Resources()
    shares = shares_in_process(compile_plan(wanted.restrict(root), Host.LOCAL), resources)
    lowered = shares.plan.roots[0]
    readers = resources.threads if len(shares.shares) == 1 else 1

    def work(share: Share) -> Iterator[pa.Table]:
        pipeline = Pipeline([lowered])
        for found in run_share(pipeline, shares.scans, share, shares.rows, readers):
            mine = (emit.owned_rows(b, wanted.start, wanted.end) if wanted.timed else b for b in found)
            yield from emit.result_tables(mine, lowered.type, pipeline.keys(lowered), shape)

    yield from results_in_order(work, shares.shares, resources.threads, resources.memory // 4)


def execute_segments(root: Node) -> Iterator[tuple[tuple[Any, ...], SigSeg]]:
    """The answer of a uniform signal as (key, segment) pairs; segments are views of the engine's memory."""
    shares = one_share(compile_plan(root, Host.LOCAL))
    root = shares.plan.roots[0]
    pipeline = Pipeline([root])
    keys = pipeline.keys(root)
    for batch in chain.from_iterable(run_share(pipeline, shares.scans, shares.shares[0])):
        assert isinstance(batch, Segments)
        named = zip(*(c.to_pylist() for c in keys.columns(batch.slot)), strict=True) if keys.schema.names else ()
        for run, key in enumerate(named or [()] * len(batch)):
            yield key, batch.sigseg(run)


class Batches(Iterator[pa.Table]):
    """The answer in pieces: sources are read in turn, `rows` rows at a time, and progress follows the promise of each."""

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
        wholes = sources(root)
        self._readers = {
            port: split_at_marks(s.data.tables(_columns_to_read(s, wholes, late), rows), s)
            for port, s in enumerate(self._live.sources)
        }
        self._recent: deque[dict[str, Any]] = deque(maxlen=TURNS_REMEMBERED)
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
            record = {"batch": number, "rows": rows, "results": sum(map(len, pieces)), **live.metrics()}
            rate = rows / max(now - begin, 1e-9)
            self._recent.append(record | {"rows_per_second": rate, "mark_ms": (now - marked) * 1e3})
            number += 1
            yield from pieces
        live.close()


class Live(Turns):
    """A query that takes rows as they come; progress follows the promises of its sources.

    Attributes
    ----------
    sources : where rows come from, by the number of their port
    root : what is computed
    """

    def __init__(self, root: Node, late: Late, order: Arrival = "any", unmarked: int | None = UNMARKED_LIMIT) -> None:
        plan = lower([root], Host.LOCAL)
        self.sources = plan.sources
        plan = enforce_order(plan) if order == "enforce" else plan
        self.root = plan.roots[0]
        super().__init__(Pipeline(plan.roots), late, unmarked, zoned=root.type.clock == "zoned")
        for source in self.sources:
            self.waits(self.follow(source).number, first_waiting_operator(root, source))

    def metrics(self) -> dict[str, Any]:
        """As in `Turns`, with the mark of the results."""
        return super().metrics() | {"passed": self.pipeline.progress(self.root).mark}

    def pieces(self, shape: emit.Shape = "rows") -> Iterator[pa.Table]:
        """The results since the last call."""
        return _table_slices(self.pipeline, self.root, shape)


def _columns_to_read(source: Source, wholes: Sequence[Source], late: Late) -> list[str]:
    """The columns to read of a pruned source: also those of its promise, or all if late rows are kept.

    All rows are read: rows that a filter drops still advance the mark.
    """
    layout = next(w.layout for w in wholes if w.data is source.data and w.layout.key == source.layout.key)
    if late.action is Action.SIDE:
        return layout.columns
    promise = (source.progress.by, source.progress.column) if source.progress else ()
    named = {*source.layout.columns, *promise}
    return [n for n in layout.schema.names if n in named]


def _table_slices(pipeline: Pipeline, root: Node, shape: emit.Shape) -> Iterator[pa.Table]:
    yield from emit.result_tables(pipeline.drain(root), root.type, pipeline.keys(root), shape)
