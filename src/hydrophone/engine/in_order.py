"""The in-order variant of a plan: rows are sorted at the sources, merged at unions, and sorted after operators that disorder them.

Hydrophone does not need it. It is what a system without out-of-order processing must do, and serves for comparison:
``query.batches(order="enforce")`` and the benchmarks ``oop_*``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.compiler.ports import Lowered
from hydrophone.model.batch import Batch, Events
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.state import KeptBatches
from hydrophone.plan.node import Node, Order, topological
from hydrophone.plan.source import Port
from hydrophone.plan.types import StreamType


def enforce_order(plan: Lowered) -> Lowered:
    """Put order on every edge that an operator reads; results are not sorted.

    A source that promises order is not sorted. Row operators keep order, so that rows are sorted after them: filtered, projected, and
    with keys as slots.
    """
    done: dict[Node, Node] = {}
    loose: set[Node] = set()
    for node in topological(plan.roots):
        wait = set() if node.rowwise else loose & set(node.inputs)
        done[node] = node.with_inputs([InOrder(inputs=(done[i],)) if i in wait else done[i] for i in node.inputs])
        if _gives_disorder(node) or (node.rowwise and loose & set(node.inputs)):
            loose.add(node)
    return Lowered(tuple(done[r] for r in plan.roots), plan.sources)


def _gives_disorder(node: Node) -> bool:
    if not isinstance(node.type, StreamType) or node.rowwise or node.order is Order.INDEX:
        return False  # samples, and what the planner's Place has put in order per key
    if isinstance(node, Port):
        promise = node.progress
        return promise is None or promise.column is not None or promise.by is not None or promise.delay > 0
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class InOrder(Node):
    """Hold events until the mark passes them; release them in time order."""

    stable_name = "in_order"

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return x

    def kernel(self, x: StreamType) -> Kernel:
        """Buffer."""
        return InOrderKernel()


class InOrderKernel(Kernel):
    """Sorts batches on arrival and merges them on release."""

    def __init__(self) -> None:
        self.waiting = SortedRuns()

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Events)
        self.waiting.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], int]:
        """Release what starts before the mark."""
        ripe = self.waiting.before(marks[0])
        return (() if ripe is None else (ripe,)), marks[0]


class SortedRuns(KeptBatches[Events]):
    """Events in sorted runs, released by time. A run is copied only after enough of its rows have left.

    Examples
    --------
    >>> import pyarrow as pa
    >>> def run(*start):
    ...     return Events(np.zeros(len(start), np.int64), np.array(start), None, pa.table({"v": start}))
    >>> runs = SortedRuns()
    >>> runs.add(run(1, 5, 9)); runs.add(run(7, 2))
    >>> runs.before(6).start
    array([1, 2, 5])
    >>> runs.before(6) is None, runs.all().start
    (True, array([7, 9]))
    """

    SPARE = 0.15
    """Share of released rows from which a run is copied, to free its memory."""

    SMALL = 4096
    """Shorter runs are merged: every release takes time for each run."""

    def __init__(self) -> None:
        super().__init__(Events)
        self._left: list[int] = []  # rows of each run that have left and still use memory

    def add(self, batch: Events) -> None:
        """Hold these rows too."""
        if len(batch):
            self._mark(batch.slot)
            self._put_back(batch)

    def _put_back(self, batch: Events) -> None:
        if self._batches and len(self._batches[-1]) + len(batch) < self.SMALL:
            self._left.pop()
            batch = Events.concat([self._batches.pop(), batch])
        self._batches.append(_by_time(batch))
        self._left.append(0)

    def all(self) -> Events | None:
        """All held rows in time order, or None."""
        if len(self._batches) > 1:
            self._batches, self._left = [_by_time(Events.concat(self._batches))], [0]
        return self._batches[0] if self._batches else None

    def before(self, mark: int) -> Events | None:
        """Take the rows that start before the mark, in time order, or None."""
        ripe, runs, left = [], [], []
        for run, gone in zip(self._batches, self._left, strict=True):
            cut = int(np.searchsorted(run.start, mark))
            if cut:
                ripe.append(_slice_events(run, 0, cut))
                self._mark(ripe[-1].slot)
                run, gone = _slice_events(run, cut, len(run)), gone + cut
            if gone > self.SPARE * (gone + len(run)):
                run, gone = run.select(np.arange(len(run))), 0
            if len(run):
                runs.append(run)
                left.append(gone)
        self._batches, self._left = runs, left
        return _by_time(Events.concat(ripe)) if ripe else None


def _by_time(events: Events) -> Events:
    start = events.start
    return events if (start[1:] >= start[:-1]).all() else events.select(np.argsort(start, kind="stable"))


def _slice_events(events: Events, first: int, stop: int) -> Events:
    end = None if events.end is None else events.end[first:stop]
    columns = events.columns.slice(first, stop - first)
    return replace(events, slot=events.slot[first:stop], start=events.start[first:stop], end=end, columns=columns)
