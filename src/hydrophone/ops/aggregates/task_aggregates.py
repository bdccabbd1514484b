"""What a task holds of aggregates before the exchange: the cells of all its batches, in one table of fixed size.

A cell is what is kept of the rows of one key and pane. Batches are merged to cells first, and cells meet those of earlier batches in the
table (`FixedHashTable`). What two cells cannot share is shed: it leaves for the shard, which merges what it gets in any order.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from hydrophone.model.batch import Events, Ints
from hydrophone.model.fixed_hash_table import ENTRIES, FixedHashTable
from hydrophone.model.time import step_number
from hydrophone.ops.aggregates.aggregates import partials_from_table, partials_to_table, split_partials
from hydrophone.ops.aggregates.summaries import Aggregate, Partials
from hydrophone.plan.types import StreamType

BATCHES_BETWEEN_TRIES = 16
"""Batches between two tries, where merging was not worth it."""

_skip: dict[str, int] = {}
"""Of this process, by aggregate: the batches that will travel without a try."""


class PaneAggregates(Protocol):
    """What a task needs to know of aggregates over panes: their grid, and how rows become parts and parts are merged."""

    pane: int
    offset: int
    kind: StreamType
    summaries: list[Aggregate]
    merges: list[np.ufunc]
    plain: bool

    def partials(self, batch: Events) -> Partials:
        """The parts of every row."""
        ...


class TaskAggregateTable:
    """The cells of one task.

    Parameters
    ----------
    panes : the kernel of the aggregate, which makes cells of rows
    who : the name by which this process remembers that merging was not worth it
    worth : the share of rows that may leave as cells for merging to be worth its time

    Examples
    --------
    >>> import pyarrow as pa, hydrophone as hp
    >>> node = hp.from_arrow(pa.table({"t": [0]}), time="t").tumble(10).agg(n=hp.count()).node
    >>> panes = node.kernel(node.inputs[0].type)
    >>> held = TaskAggregateTable(panes, "counts", 0.5)
    >>> for start in ([0, 1, 12, 3], [2, 14, 5, 6]):
    ...     rows = Events(np.zeros(4, np.int64), np.array(start), None, pa.table({}))
    ...     print(len(held.add(panes.partial_aggregates(rows), len(rows))), "shed")
    0 shed
    0 shed
    >>> cells = held.rest()
    >>> cells.start.tolist(), cells.columns["p0"].to_pylist()
    ([0, 10], [6, 2])
    """

    def __init__(self, panes: PaneAggregates, who: str, worth: float) -> None:
        self.panes, self.who, self.worth = panes, who, worth
        # No window is ever too old: the shard gets all of them with the end of the task.
        self.table = FixedHashTable(ENTRIES, self._merges() if panes.plain else _NUMBERS, late=None)
        self._states: Partials | None = None  # of cells that the table holds by number
        self._rows = self._left = 0

    def _merges(self) -> list[tuple[np.ufunc, np.dtype[Any]]]:
        none = Events(np.zeros(0, np.int64), np.zeros(0, np.int64), None, self.panes.kind.columns.empty_table())
        return [(m, p.dtype) for m, p in zip(self.panes.merges, self.panes.partials(none), strict=True)]

    def due(self) -> bool:
        """Whether to merge the next batch; asked once for each."""
        left = _skip.get(self.who, 0)
        _skip[self.who] = max(left - 1, 0)
        return not left

    def add(self, cells: Events, rows: int) -> Events | None:
        """Take the cells of a batch of so many rows; give those that are shed. None, and nothing taken, where they are surely too many."""
        if len(cells) - len(self.table.window) > self.worth * rows:  # each cell has an entry of its own, or is shed
            _skip[self.who] = BATCHES_BETWEEN_TRIES
            return None
        number = step_number(cells.start, self.panes.pane, self.panes.offset)
        take = self.table.add if self.panes.plain else self._numbered
        shed = self._events(*take(cells.slot, number, partials_from_table(cells)))
        self._rows += rows
        self._left += len(shed)
        if len(shed) > self.worth * rows:
            _skip[self.who] = BATCHES_BETWEEN_TRIES
        return shed

    def rest(self) -> Events:
        """Give all cells, and be empty."""
        slot, number, partials = self.table.rest()
        if not self.panes.plain:
            partials, self._states = [s[partials[0]] for s in self._states or ()], None
        if self._left + len(slot) > self.worth * self._rows:
            _skip[self.who] = BATCHES_BETWEEN_TRIES
        self._rows = self._left = 0
        return self._events(slot, number, partials)

    def _events(self, slot: Ints, number: Ints, partials: Partials) -> Events:
        return Events(slot, number * self.panes.pane + self.panes.offset, None, partials_to_table(partials))

    def _numbered(self, slot: Ints, number: Ints, partials: Partials) -> tuple[Ints, Ints, Partials]:
        """For states that only NumPy can merge: the table holds their numbers, of two that meet the least and the largest."""
        # Only parts of rows tell their type: a user's function need not know what to do with none.
        held = self._states or [p[:0] for p in partials]
        states = [np.concatenate([s, p]) for s, p in zip(held, partials, strict=True)]
        came = np.arange(len(held[0]), len(states[0]))
        slot, number, (first, last) = self.table.add(slot, number, [came, came])
        at = self.table.taken
        kept, shed = self.table.partials[at, 0], first
        first, last = np.concatenate([shed, kept]), np.concatenate([last, self.table.partials[at, 1]])
        # Cells of a batch are all different, so that each has met one at most.
        met = first != last
        states = self._joined(states, first[met], last[met])
        self._states = [s[kept] for s in states]
        self.table.partials[at] = np.arange(len(at))[:, None]
        return slot, number, [s[shed] for s in states]

    def _joined(self, states: Partials, into: Ints, other: Ints) -> Partials:
        if len(into):
            pairs = zip(
                *(split_partials(self.panes.summaries, [s[which] for s in states]) for which in (into, other)),
                strict=True,
            )
            with np.errstate(all="ignore"):
                joined = [m for (a, own), (_, its) in pairs for m in a.merged(own, its)]
            for state, both in zip(states, joined, strict=True):
                state[into] = both
        return states


_NUMBERS = [(np.minimum, np.int64), (np.maximum, np.int64)]
