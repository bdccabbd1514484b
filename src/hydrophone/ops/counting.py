"""Windows by a column that counts events, in place of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hydrophone.batch import Batch, Events, Ints
from hydrophone.errors import DataError, ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark, of
from hydrophone.ops.aggregates import Aggregates, Aggregating, aggregate_fields, check_aggregates, end_name, part_table
from hydrophone.ops.picks import picked
from hydrophone.ops.rows import WithColumns
from hydrophone.ops.slot_rows import SlotRows
from hydrophone.ops.summaries import Aggregate, Parts
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.source import Source
from hydrophone.plan.types import StreamType
from hydrophone.time import MAX_TIME, format_instant


@dataclass(frozen=True, kw_only=True, eq=False)
class CountWindow(Node):
    """Aggregates per key over every `size` numbers of a sequence column: 0 to size - 1, and so on, whether all came or not.

    The sequence must rise as time goes on, without repeats; events that start together may have theirs in any order. A window
    lasts from its first start to its last end, and is given when a number of a later window has come in order, or at the end
    of the data.
    """

    size: int
    by: str
    aggregates: tuple[tuple[str, Aggregate], ...]

    needs = Order.INDEX

    def check(self) -> None:
        """A positive size and at least one aggregate."""
        if self.size < 1:
            raise ParameterError(
                f"count_window: size must be at least 1, got {self.size}", hint='count_window(10, by="n")'
            )
        check_aggregates(self.aggregates, "count_window")

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is that of all events."""
        if not pa.types.is_integer(x.column(self.by, "count_window").type):
            raise ParameterError(
                f"count_window: column {self.by!r} is {x.columns.field(self.by).type}, not a whole number",
                hint="by= names the column that counts the events of a key",
            )
        end = end_name(x, "count_window")
        fields = aggregate_fields(self.aggregates, x, "count_window", end)
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), end)

    def reach(self, x: StreamType) -> Reach:
        """The next number may be any time away."""
        return Reach.unbounded("count_window: the numbers of a window may be any time apart")

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        return CountWindowKernel(self.size, self.by, self.aggregates, x, self.type)


def sequence_of(node: Node) -> str:
    """The column that orders the rows of a source, where these rows still have it: without one windows would depend on the arrival."""
    above, below = [], node
    while below.rowwise and len(below.inputs) == 1:
        above.append(below)
        below = below.inputs[0]
    name = below.layout.sequence if isinstance(below, Source) else None
    if name is None:
        what = "its source has no sequence" if isinstance(below, Source) else f"{below.name()} has no sequence"
        raise ParameterError(
            f"count_window: no column is known that counts events, because {what}",
            hint='name the column, count_window(10, by="n"), or say it at the source: sequence="n"',
        )
    changed = [
        n for n in above if (isinstance(n, WithColumns) and name in dict(n.columns)) or name not in n.type.columns.names
    ]
    if changed:
        raise ParameterError(
            f"count_window: {changed[-1].name()} does not keep {name!r}, the sequence of the source",
            hint='keep it, or name another column: count_window(10, by="n")',
        )
    return name


class CountWindowKernel(Aggregating):
    """The open window of every key: the rows of picks are held under the start of their window."""

    VERSION = 2
    keyed = True

    def __init__(self, size: int, by: str, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        super().__init__(aggregates, kind, out)
        self.size, self.by = size, by
        self.open = SlotRows(lambda rows: np.full(len(rows), MAX_TIME))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add a batch, which comes in order, to open windows; give those that a later number has ended."""
        assert isinstance(batch, Events)
        if batch.columns[self.by].null_count:
            raise DataError(
                f"count_window: {batch.columns[self.by].null_count} events have no number in {self.by!r}",
                hint="leave them out first: where(~hp.col(...).is_null())",
            )
        number = batch.columns[self.by].to_numpy().astype(np.int64)
        columns = part_table(self.parts(batch)).append_column("number", pa.array(number))
        for i, pick in enumerate(self.picks):
            columns = columns.append_column(f"v{i}", batch.columns[pick.column])
        held = self.open.take_of(batch.slot)
        new = Events(batch.slot, batch.start, batch.stop, columns)
        rows = new if held is None else Events.concat([held, new])
        # Events that start together may come in any order of their numbers.
        rows = rows.select(np.lexsort((rows.columns["number"].to_numpy(), rows.start, rows.slot)))
        self._check(rows)
        number = self._window(rows)
        last = np.append(np.flatnonzero(rows.slot[1:] != rows.slot[:-1]), len(rows) - 1)
        newest = np.repeat(number[last], np.diff(last, prepend=-1))
        done = number < newest
        self._hold(rows.select(~done))
        return (self._windows(rows.select(done)),) if done.any() else ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Open windows hold the output mark; at the end of the data they end."""
        mark, out = marks[0], []
        held = self.open.take_due(mark)
        if held is not None:
            ended = np.broadcast_to(np.equal(of(mark, held.slot), MAX_TIME), len(held))
            out = [self._windows(held.select(ended))] if ended.any() else []
            self._hold(held.select(~ended))
        return out, self.open.held_back(mark)

    def _hold(self, rows: Events) -> None:
        self.open.put(rows, due=np.full(len(rows), MAX_TIME))

    def _check(self, rows: Events) -> None:
        number = rows.columns["number"].to_numpy()
        wrong = np.flatnonzero((rows.slot[1:] == rows.slot[:-1]) & (number[1:] <= number[:-1]))
        if not len(wrong):
            return
        at = wrong[0] + 1
        when = format_instant(int(rows.start[at]))
        if number[at] == number[at - 1]:
            raise DataError(
                f"count_window: {self.by!r} has {number[at]} twice, the second at {when}",
                hint="the numbers of a key must differ; distinct() before it leaves out rows that came twice",
            )
        raise DataError(
            f"count_window: {self.by!r} falls at {when}",
            hint="windows by a sequence need numbers that rise as time goes on",
        )

    def _window(self, rows: Events) -> Ints:
        return rows.columns["number"].to_numpy() // self.size

    def _windows(self, rows: Events) -> Events:
        """Results of whole windows, whose rows are in order."""
        number = self._window(rows)
        first = np.flatnonzero(
            np.concatenate([[True], (rows.slot[1:] != rows.slot[:-1]) | (number[1:] != number[:-1])])
        )
        stop = np.append(first[1:], len(rows))
        width = rows.columns.num_columns - 1 - len(self.picks)
        parts: Parts = [rows.columns.column(i).to_numpy() for i in range(width)]
        group = np.repeat(np.arange(len(first)), stop - first)
        picks = []
        for i, pick in enumerate(self.picks):
            chosen = replace(rows, end=None, columns=pa.table({"value": rows.columns[f"v{i}"]}))
            there = rows.columns[f"v{i}"].is_valid().to_numpy()
            picks.append(picked(pick, chosen.select(there), group[there], len(first)))
        ends = np.maximum.reduceat(rows.stop, first)
        return Events(rows.slot[first], rows.start[first], ends, self.results(self.folded(parts, first, stop), picks))
