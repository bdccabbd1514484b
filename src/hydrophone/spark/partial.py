"""Two-level aggregation in a stream: tasks send the panes of aggregates through the exchange, not rows that are surely in time.

Which rows are late is decided in the shards, which know the mark that held when the micro-batch began, and late rows are wanted as
they came. But the driver knows that mark too: shards report it with every micro-batch. It becomes a setting of the stream's own
session, which Spark hands to the tasks of the next micro-batch, and a task merges the rows that start at or after it. Rows before
it travel as they came, and so do all of them where a task is told nothing: in the first micro-batch after a restart, and through
Spark Connect. What a task has merged stays in a table of fixed size until the task ends, or another key and pane want its entry
(`cells`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hydrophone.batch import Events, Ints
from hydrophone.engine.pipeline import Pipeline
from hydrophone.keys import KeyTable, spread
from hydrophone.ops.panes import PaneKernel
from hydrophone.ops.picks import Pick
from hydrophone.ops.sets import Union
from hydrophone.ops.sliding import Sliding
from hydrophone.ops.tumble import Tumble
from hydrophone.plan.lower import Stage
from hydrophone.plan.node import Node, locating
from hydrophone.plan.source import Port
from hydrophone.spark.cells import ENTRIES, KEYS, TaskCells
from hydrophone.time import MIN_TIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST = 4_096
"""Rows of a task below which they travel as they are: with so few there is nothing to be gained."""
WORTH = 0.25
"""The share of rows that may leave as cells for merging to be worth its time."""

_BATCH = "streaming.sql.batchId"  # Spark's own name for the number of the micro-batch


Sent = tuple[pa.Table, Ints]
"""Cells, one row per key and pane, and the shard of each."""
_NOTHING: Sent = pa.table({}), np.zeros(0, np.int64)


@dataclass(frozen=True)
class Partial:
    """What a task does to rows of one port: row operators, then the panes of the aggregate above them."""

    prefix: Node
    panes: Tumble | Sliding

    def begun(self, shards: int) -> Merging:
        """A task begins."""
        return Merging(self, shards)


class Merging:
    """What a task has merged for one port and not sent yet."""

    def __init__(self, how: Partial, shards: int) -> None:
        self.prefix, self.node, self.shards = how.prefix, how.panes, shards
        kernel = how.panes.kernel(how.prefix.type)
        assert isinstance(kernel, PaneKernel)
        self.panes, self.held = kernel, TaskCells(kernel, how.panes.digest, WORTH)
        self.pipeline, self._rows = Pipeline([how.prefix]), 0

    @property
    def full(self) -> bool:
        """Whether the task knows so many keys that what it holds should leave."""
        return len(self.pipeline.keys(self.prefix)) > KEYS

    def add(self, table: pa.Table) -> Sent | None:
        """Take rows, give what is shed; None, and nothing taken, where it is not worth it."""
        self._rows += len(table)
        if self._rows < LEAST or not self.held.due():
            return None
        self.pipeline.rows(0, table)
        found = [b for b in self.pipeline.drain() if isinstance(b, Events)]
        if not found:
            return _NOTHING
        with locating(self.node):
            shed = self.held.add(self.panes.cells(Events.concat(found)), len(table))
        return None if shed is None else self._sent(shed)

    def rest(self) -> Sent:
        """Give what is held, and forget all keys."""
        with locating(self.node):
            sent = self._sent(self.held.rest())
        self.pipeline = Pipeline([self.prefix])
        return sent

    def _sent(self, cells: Events) -> Sent:
        if not len(cells):
            return _NOTHING
        keys = self.pipeline.keys(self.prefix)
        return _to_table(cells, keys), spread(keys.columns(cells.slot), self.shards, len(cells))


def partial_of(stage: Stage, port: int) -> Partial | str | None:
    """How tasks may merge the rows of a port; else why not, where an aggregate over windows of time reads it."""
    given = stage.inputs[port]
    if given.source is None:
        return None
    nodes = stage.root.topological()
    node = next(n for n in nodes if isinstance(n, Port) and n.number == port)
    above = _consumers(nodes, node)
    if len(above) == 1 and isinstance(above[0], Union):
        above = _consumers(nodes, above[0])
    found = [n for n in above if isinstance(n, Tumble | Sliding)]
    if not found:
        return None
    if len(above) > 1:
        return f"{found[0].name()}: other operators read its rows too"
    picks = [name for name, a in found[0].aggregates if isinstance(a, Pick)]
    if picks:
        return f"{found[0].name()}: {', '.join(picks)} cannot be merged from parts"
    if given.source.progress is not None and given.source.progress.per_key is not None:
        return f"{found[0].name()}: progress is per key, which only shards know"
    if given.source.progress is not None and given.source.progress.end is not None:
        return f"{found[0].name()}: ends are promised too, which only shards look at"
    panes = found[0].with_inputs([given.prefix])
    assert isinstance(panes, Tumble | Sliding)
    return Partial(given.prefix, panes)


def describe(cut: list[Stage]) -> list[str]:
    """For `explain`: what tasks merge in a stream, and what not and why."""
    lines = []
    for stage in cut:
        for port in range(len(stage.inputs)):
            found = partial_of(stage, port)
            if isinstance(found, Partial):
                lines.append(
                    f"{found.panes.name()}({found.panes.describe()}): tasks merge rows that are in time before the exchange, "
                    f"in a table of {ENTRIES:,} keys and panes, where at most {WORTH:.0%} of rows leave it"
                )
            elif found is not None:
                lines.append(f"{found}, so rows travel")
    return list(dict.fromkeys(lines))


def _consumers(nodes: list[Node], below: Node) -> list[Node]:
    return [n for n in nodes for i in n.inputs if i == below]


# --- cells as tables --------------------------------------------------------------------------------------------------


def _to_table(cells: Events, keys: KeyTable) -> pa.Table:
    """Keys, starts in nanoseconds, parts."""
    columns = [*keys.columns(cells.slot), pa.array(cells.start), *cells.columns.columns]
    return pa.table(columns, names=[str(i) for i in range(len(columns))])


def absorb(pipeline: Pipeline, port: int, table: pa.Table) -> None:
    """Give cells of a port to the aggregate that merges them."""
    node: Node = pipeline.ports[port]
    while not isinstance(node, Tumble | Sliding):
        node = pipeline.consumers[node][0][0]
    kernel, keys = pipeline.kernels[node], pipeline.keys(node.inputs[0])
    assert isinstance(kernel, PaneKernel)
    at = len(node.inputs[0].type.key)
    slot = keys.slots(table.columns[:at]) if at else keys.zeros(len(table))
    parts = table.columns[at + 1 :]
    named = pa.table(parts, names=[f"p{i}" for i in range(len(parts))])
    with locating(node):
        kernel.absorb(Events(slot, table.column(at).to_numpy(), None, named))


# --- the mark on its way to tasks -------------------------------------------------------------------------------------


def _setting(query: str) -> str:
    return f"spark.hydrophone.marks.{query}"


@dataclass
class Told:
    """The driver's side: marks of sources after the last micro-batch."""

    query: str
    marks: dict[str, int] = field(default_factory=dict)

    def tell(self, spark: SparkSession, batch: int, shards: Iterable[Mapping[str, int]]) -> None:
        """Let the tasks of the next micro-batch know what shards say; `spark` is the stream's own session."""
        for marks in shards:
            self.marks |= {source: max(mark, self.marks.get(source, mark)) for source, mark in marks.items()}
        said = json.dumps({"after": batch, "marks": self.marks})
        spark.conf.set(_setting(self.query), said)


def known_mark(query: str, source: int) -> int | None:
    """In a task: the mark of a source when this micro-batch began; None where that is not known."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_BATCH)
    if context is None or number is None:
        return None
    if int(number) == 0:
        return MIN_TIME
    said = json.loads(context.getLocalProperty(_setting(query)) or "null")
    if said is None or said["after"] != int(number) - 1:
        return None
    mark = said["marks"].get(str(source))
    return None if mark is None else int(mark)
