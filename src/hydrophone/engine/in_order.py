"""The in-order twin of a plan: rows are sorted at the sources, merged at unions and sorted after operators that give disorder.

Hydrophone needs none of this. It is what a system must do that knows progress only through order, and is there to compare with:
``query.batches(order="enforce")`` and the benchmarks ``oop_*``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.batch import Batch, Events
from hydrophone.kernel import Kernel, Marks
from hydrophone.plan.lower import Lowered
from hydrophone.plan.node import Node, Order, topological
from hydrophone.plan.source import Port
from hydrophone.plan.types import StreamType
from hydrophone.state import Parts


def enforce(plan: Lowered) -> Lowered:
    """The same plan with order on every edge that an operator reads; nothing is sorted for the sake of the result.

    A source that promises order is believed, and hands its rows on. Row by row operators keep the order of their input, so that
    rows wait behind them: filtered, with the columns that are wanted, and with keys as slots.
    """
    done: dict[Node, Node] = {}
    loose: set[Node] = set()
    for node in topological(plan.roots):
        wait = set() if node.rowwise else loose & set(node.inputs)
        done[node] = node.with_inputs([InOrder(inputs=(done[i],)) if i in wait else done[i] for i in node.inputs])
        if _disorders(node) or (node.rowwise and loose & set(node.inputs)):
            loose.add(node)
    return Lowered(tuple(done[r] for r in plan.roots), plan.sources)


def _disorders(node: Node) -> bool:
    if not isinstance(node.type, StreamType) or node.rowwise or node.order is Order.INDEX:
        return False  # samples, and what the planner's Place has put in order per key
    if isinstance(node, Port):
        promise = node.progress
        return promise is None or promise.column is not None or promise.by is not None or promise.delay > 0
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class InOrder(Node):
    """Events wait until progress has passed them and leave in the order of time."""

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return x

    def kernel(self, x: StreamType) -> Kernel:
        """Buffer."""
        return InOrderKernel()


class InOrderKernel(Kernel):
    """Runs that are sorted when they come, and merged when they leave."""

    def __init__(self) -> None:
        self.waiting = SortedRuns()

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Events)
        self.waiting.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], int]:
        """Let go of what starts before the mark."""
        ripe = self.waiting.before(marks[0])
        return (() if ripe is None else (ripe,)), marks[0]


class SortedRuns(Parts[Events]):
    """Events as runs in the order of time, which leave by time alone. A row is copied only when a good part of its run has left.

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
    """The share of a run that may have left before the rest is copied, so that its memory is given back."""

    SMALL = 4096
    """Runs of fewer rows are put together: a run costs time whenever something leaves."""

    def __init__(self) -> None:
        super().__init__(Events)
        self._left: list[int] = []  # rows of each run that have left and still use memory

    def add(self, batch: Events) -> None:
        """Hold these rows too."""
        if not len(batch):
            return
        if self._parts and len(self._parts[-1]) + len(batch) < self.SMALL:
            self._left.pop()
            batch = Events.concat([self._parts.pop(), batch])
        self._parts.append(_by_time(batch))
        self._left.append(0)
        self._mark(batch.slot)

    def _put_back(self, rows: Events) -> None:
        self.add(rows)

    def all(self) -> Events | None:
        """Everything that is held, in the order of time, or None."""
        if len(self._parts) > 1:
            self._parts, self._left = [_by_time(Events.concat(self._parts))], [0]
        return self._parts[0] if self._parts else None

    def before(self, mark: int) -> Events | None:
        """Give away the rows that start before the mark, in the order of time, or None where there are none."""
        ripe, runs, left = [], [], []
        for run, gone in zip(self._parts, self._left, strict=True):
            cut = int(np.searchsorted(run.start, mark))
            if cut:
                ripe.append(_slice(run, 0, cut))
                self._mark(ripe[-1].slot)
                run, gone = _slice(run, cut, len(run)), gone + cut
            if gone > self.SPARE * (gone + len(run)):
                run, gone = run.select(np.arange(len(run))), 0
            if len(run):
                runs.append(run)
                left.append(gone)
        self._parts, self._left = runs, left
        return _by_time(Events.concat(ripe)) if ripe else None


def _by_time(events: Events) -> Events:
    start = events.start
    return events if (start[1:] >= start[:-1]).all() else events.select(np.argsort(start, kind="stable"))


def _slice(events: Events, first: int, stop: int) -> Events:
    end = None if events.end is None else events.end[first:stop]
    columns = events.columns.slice(first, stop - first)
    return replace(events, slot=events.slot[first:stop], start=events.start[first:stop], end=end, columns=columns)
