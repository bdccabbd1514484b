"""Two-level aggregation in a stream: tasks send the panes of aggregates through the exchange, not rows that are surely in time.

Which rows are late is decided in the shards, which know the mark that held when the micro-batch began, and late rows are wanted as
they came. But the driver knows that mark too: shards report it with every micro-batch. It becomes a setting of the stream's own
session, which Spark hands to the tasks of the next micro-batch, and a task merges the rows that start at or after it. Rows before
it travel as they came, and so do all of them where a task is told nothing: in the first micro-batch after a restart, and through
Spark Connect. What a task has merged stays in a table of fixed size until the task ends, or another key and pane want its entry
(`partial_aggregates`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from hydrophone.compiler.stages import Stage
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Events, Ints
from hydrophone.model.fixed_hash_table import ENTRIES, KEY_COLUMNS
from hydrophone.model.key_table import KeyTable, shard_of_keys
from hydrophone.model.partial_aggregation import PartialAggregation
from hydrophone.model.time import MIN_TIME
from hydrophone.plan.node import Node, locating, readers
from hydrophone.plan.source import ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_ROWS = 4_096
"""Rows of a task below which they travel as they are: with so few there is nothing to be gained."""
MAX_SHARE_SENT = 0.25
"""The share of rows that may leave as cells for merging to be worth its time."""

_BATCH = "streaming.sql.batchId"  # Spark's own name for the number of the micro-batch


Sent = tuple[pa.Table, Ints]
"""Cells, one row per key and pane, and the shard of each."""
_NOTHING: Sent = pa.table({}), np.zeros(0, np.int64)


@dataclass(frozen=True)
class PartialAggregates:
    """What a task does to rows of one port: row operators, then the panes of the aggregate above them."""

    prefix: Node
    panes: Node

    def begun(self, shards: int) -> TaskMerge:
        """A task begins."""
        return TaskMerge(self, shards)


class TaskMerge:
    """What a task has merged for one port and not sent yet."""

    def __init__(self, how: PartialAggregates, shards: int) -> None:
        self.prefix, self.node, self.shards = how.prefix, how.panes, shards
        self.panes = cast(PartialAggregation, how.panes.kernel(how.prefix.type))
        self.held = self.panes.task_table(how.panes.digest, MAX_SHARE_SENT)
        self.pipeline, self._rows = Pipeline([how.prefix]), 0

    @property
    def full(self) -> bool:
        """Whether the task knows so many keys that what it holds should leave."""
        return len(self.pipeline.keys(self.prefix)) > KEY_COLUMNS

    def add(self, table: pa.Table) -> Sent | None:
        """Take rows, give what is shed; None, and nothing taken, where it is not worth it."""
        self._rows += len(table)
        if self._rows < MIN_ROWS or not self.held.due():
            return None
        self.pipeline.rows(0, table)
        found = [b for b in self.pipeline.drain() if isinstance(b, Events)]
        if not found:
            return _NOTHING
        with locating(self.node):
            shed = self.held.add(self.panes.partial_aggregates(Events.concat(found)), len(table))
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
        return _partials_to_table(cells, keys), shard_of_keys(keys.columns(cells.slot), self.shards, len(cells))


def partial_aggregates_of(stage: Stage, port: int) -> PartialAggregates | str | None:
    """How tasks may merge the rows of a port; else why not, where an aggregate over windows of time reads it."""
    given = stage.inputs[port]
    if given.source is None:
        return None
    consumers = readers(stage.root)
    above = consumers.get(ports(stage.root)[port], [])
    if len(above) == 1 and above[0].unites:
        above = consumers.get(above[0], [])
    found = [n for n in above if n.unmergeable is not None]
    if not found:
        return None
    if len(above) > 1:
        return f"{found[0].name()}: other operators read its rows too"
    if found[0].unmergeable:
        return f"{found[0].name()}: {', '.join(found[0].unmergeable)} cannot be merged from parts"
    if given.source.progress is not None and given.source.progress.per_key is not None:
        return f"{found[0].name()}: progress is per key, which only shards know"
    if given.source.progress is not None and given.source.progress.end is not None:
        return f"{found[0].name()}: ends are promised too, which only shards look at"
    return PartialAggregates(given.prefix, found[0].with_inputs([given.prefix]))


def describe_partials(cut: list[Stage]) -> list[str]:
    """For `explain`: what tasks merge in a stream, and what not and why."""
    lines = []
    for stage in cut:
        for port in range(len(stage.inputs)):
            found = partial_aggregates_of(stage, port)
            if isinstance(found, PartialAggregates):
                lines.append(
                    f"{found.panes.name()}({found.panes.describe()}): tasks merge rows that are in time before the exchange, "
                    f"in a table of {ENTRIES:,} keys and panes, where at most {MAX_SHARE_SENT:.0%} of rows leave it"
                )
            elif found is not None:
                lines.append(f"{found}, so rows travel")
    return list(dict.fromkeys(lines))


# --- cells as tables --------------------------------------------------------------------------------------------------


def _partials_to_table(cells: Events, keys: KeyTable) -> pa.Table:
    """Keys, starts in nanoseconds, parts."""
    columns = [*keys.columns(cells.slot), pa.array(cells.start), *cells.columns.columns]
    return pa.table(columns, names=[str(i) for i in range(len(columns))])


def merge_partials(pipeline: Pipeline, port: int, table: pa.Table) -> None:
    """Give cells of a port to the aggregate that merges them."""
    station = pipeline.stations[pipeline.ports[port]]
    while station.node.unmergeable is None:
        station = station.consumers[0][0]
    node, kernel, keys = station.node, cast(PartialAggregation, station.kernel), station.keys
    at = len(node.inputs[0].type.key)
    slot = keys.slots(table.columns[:at]) if at else keys.zeros(len(table))
    parts = table.columns[at + 1 :]
    named = pa.table(parts, names=[f"p{i}" for i in range(len(parts))])
    with locating(node):
        kernel.merge_partials(Events(slot, table.column(at).to_numpy(), None, named))


# --- the mark on its way to tasks -------------------------------------------------------------------------------------


def _setting(query: str) -> str:
    return f"spark.hydrophone.model.marks.{query}"


@dataclass
class AnnouncedMarks:
    """The driver's side: marks of sources after the last micro-batch."""

    query: str
    marks: dict[str, int] = field(default_factory=dict)

    def announce(self, spark: SparkSession, batch: int, shards: Iterable[Mapping[str, int]]) -> None:
        """Let the tasks of the next micro-batch know what shards say; `spark` is the stream's own session."""
        for marks in shards:
            self.marks |= {source: max(mark, self.marks.get(source, mark)) for source, mark in marks.items()}
        said = json.dumps({"after": batch, "marks": self.marks})
        spark.conf.set(_setting(self.query), said)


def announced_mark(query: str, source: int) -> int | None:
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
