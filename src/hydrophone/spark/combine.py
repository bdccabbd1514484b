"""Two-level aggregation on Spark: tasks send partial aggregates through the exchange, not rows.

The low level is what a task holds of all its batches (`cells`); the high level is the shard, which merges what it gets in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hydrophone.batch import Batch, Events
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark
from hydrophone.ops.aggregates import part_table, parts_of
from hydrophone.ops.panes import PaneKernel
from hydrophone.ops.picks import Pick
from hydrophone.ops.sets import Union
from hydrophone.ops.summaries import Aggregate, Parts
from hydrophone.ops.tumble import Tumble, TumbleKernel
from hydrophone.plan.node import Node, Order
from hydrophone.plan.source import Source
from hydrophone.plan.types import StreamType
from hydrophone.spark.cells import ENTRIES, TaskCells
from hydrophone.time import MAX_TIME


def combine(root: Node) -> Node:
    """The same plan with every count, sum and the like over windows of time in two levels, where the first can run before an exchange."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        new = node.with_inputs([done[i] for i in node.inputs])
        done[node] = _in_two(new) if isinstance(new, Tumble) and _mergeable(new) else new
    return done[root]


def describe(root: Node) -> list[str]:
    """For `explain`: what tasks of a plan by shards merge before the exchange."""
    found = dict.fromkeys(n.describe() for n in combine(root).topological() if isinstance(n, Low))
    how = f"in a table of {ENTRIES:,} keys and windows, where at most {LowKernel.WORTH:.0%} of rows leave it"
    return [f"tumble({what}): tasks merge rows before the exchange, {how}" for what in found]


def _mergeable(node: Tumble) -> bool:
    return all(a.merge and not isinstance(a, Pick) for _, a in node.aggregates)


def _in_two(node: Tumble) -> Node:
    below = node.inputs[0]
    inputs = below.inputs if isinstance(below, Union) else (below,)
    if not all(_before_exchange(i) for i in inputs):
        return node
    parts = tuple(
        Low(inputs=(i,), where=node.where, size=node.size, offset=node.offset, aggregates=node.aggregates)
        for i in inputs
    )
    united = Union(inputs=parts, where=below.where) if isinstance(below, Union) else parts[0]
    kind = below.type
    return High(
        inputs=(united,),
        where=node.where,
        size=node.size,
        offset=node.offset,
        aggregates=node.aggregates,
        columns=kind.columns,
        end=kind.end,
    )


def _before_exchange(node: Node) -> bool:
    while node.rowwise and len(node.inputs) == 1:
        node = node.inputs[0]
    return isinstance(node, Source) and not node.layout.samples


@dataclass(frozen=True, kw_only=True, eq=False)
class Low(Node):
    """The parts of aggregates per key and window of the rows of one task; a window may come in several parts."""

    size: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    offset: int = 0

    gives = Order.ANY
    rowwise = True  # in what matters: it runs on any share of the rows, before the exchange

    @classmethod
    def name(cls) -> str:
        """As `explain` shows it."""
        return "partial"

    def output_type(self, x: StreamType) -> StreamType:
        """The parts."""
        return StreamType(x.key, x.time, x.clock, part_schema(self.aggregates, x), None)

    def kernel(self, x: StreamType) -> Kernel:
        """Merge within a task."""
        return LowKernel(self.digest, self.size, self.offset, self.aggregates, x, self.type)


class LowKernel(PaneKernel):
    """Merges the rows of a task, if that makes them much fewer; this is tried now and then.

    It lives no longer than the task, so that what it holds need not be saved.
    """

    WORTH = 0.5
    """The share of rows that may leave as cells for merging to be worth its time."""

    def __init__(self, who: str, *how: object) -> None:
        super().__init__(*how)  # type: ignore[arg-type]
        self.held = TaskCells(self, who, self.WORTH)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """What leaves the table; where merging is left out, the parts of rows."""
        assert isinstance(batch, Events)
        if not self.held.due():
            parts = [np.asarray(p) for p in self.parts(batch)]
            return (Events(batch.slot, self._pane_of(batch.start), None, part_table(parts)),)
        cells = self.cells(batch)
        shed = self.held.add(cells, len(batch))
        return (cells if shed is None else shed,)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the rest when the task ends."""
        return (self.held.rest(),) if marks[0] == MAX_TIME else (), marks[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class High(Tumble):
    """A `tumble` over parts; `columns` and `end` are those of the rows that the parts were made of."""

    columns: pa.Schema
    end: str | None = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "tumble"

    def output_type(self, x: StreamType) -> StreamType:
        """As over the rows themselves."""
        return super().output_type(self.rows(x))

    def rows(self, x: StreamType) -> StreamType:
        """The type of the rows."""
        return StreamType(x.key, x.time, x.clock, self.columns, self.end)

    def kernel(self, x: StreamType) -> Kernel:
        """Merge."""
        return HighKernel(self.size, self.offset, self.aggregates, self.rows(x), self.type)


class HighKernel(TumbleKernel):
    """The parts are there already."""

    def parts(self, batch: Events) -> Parts:
        """As they came."""
        return parts_of(batch)


def part_schema(aggregates: tuple[tuple[str, Aggregate], ...], x: StreamType) -> pa.Schema:
    """The columns of parts: those of no rows at all."""
    none = Events(np.zeros(0, np.int64), np.zeros(0, np.int64), None, x.columns.empty_table())
    return part_table(PaneKernel(1, 0, aggregates, x, x).parts(none)).schema
