"""What a task holds of aggregates before the exchange: the cells of all its batches, in one table of fixed size.

A cell is what is kept of the rows of one key and pane. Batches are merged to cells first, and cells meet those of earlier batches in the
table (`LowLevel`). What two cells cannot share is shed: it leaves for the shard, which merges what it gets in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.batch import Events, Ints
from hydrophone.ops.aggregates import part_table, parts_of, split
from hydrophone.ops.panes import PaneKernel
from hydrophone.ops.summaries import Parts
from hydrophone.spark.low_level import LowLevel

ENTRIES = 1 << 17
"""Cells that a task holds: with five parts each 7.3 MB, and room for what a batch sheds."""
KEYS = 4 * ENTRIES
"""Keys that a task knows at most, and those of a batch: beyond it all cells leave, and the task begins anew."""
TRY = 16
"""Batches between two tries, where merging was not worth it."""

_skip: dict[str, int] = {}
"""Of this process, by aggregate: the batches that will travel without a try."""


class TaskCells:
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
    >>> held = TaskCells(panes, "counts", 0.5)
    >>> for start in ([0, 1, 12, 3], [2, 14, 5, 6]):
    ...     rows = Events(np.zeros(4, np.int64), np.array(start), None, pa.table({}))
    ...     print(len(held.add(panes.cells(rows), len(rows))), "shed")
    0 shed
    0 shed
    >>> cells = held.rest()
    >>> cells.start.tolist(), cells.columns["p0"].to_pylist()
    ([0, 10], [6, 2])
    """

    def __init__(self, panes: PaneKernel, who: str, worth: float) -> None:
        self.panes, self.who, self.worth = panes, who, worth
        # No window is ever too old: the shard gets all of them with the end of the task.
        self.table = LowLevel(ENTRIES, self._merges() if panes.plain else _NUMBERS, late=None)
        self._states: Parts | None = None  # of cells that the table holds by number
        self._rows = self._left = 0

    def _merges(self) -> list[tuple[np.ufunc, np.dtype[Any]]]:
        none = Events(np.zeros(0, np.int64), np.zeros(0, np.int64), None, self.panes.kind.columns.empty_table())
        return [(m, p.dtype) for m, p in zip(self.panes.merges, self.panes.parts(none), strict=True)]

    def due(self) -> bool:
        """Whether to merge the next batch; asked once for each."""
        left = _skip.get(self.who, 0)
        _skip[self.who] = max(left - 1, 0)
        return not left

    def add(self, cells: Events, rows: int) -> Events | None:
        """Take the cells of a batch of so many rows; give those that are shed. None, and nothing taken, where they are surely too many."""
        if len(cells) - len(self.table.window) > self.worth * rows:  # each cell has an entry of its own, or is shed
            _skip[self.who] = TRY
            return None
        number = (cells.start - self.panes.offset) // self.panes.pane
        take = self.table.add if self.panes.plain else self._numbered
        shed = self._events(*take(cells.slot, number, parts_of(cells)))
        self._rows += rows
        self._left += len(shed)
        if len(shed) > self.worth * rows:
            _skip[self.who] = TRY
        return shed

    def rest(self) -> Events:
        """Give all cells, and be empty."""
        slot, number, parts = self.table.rest()
        if not self.panes.plain:
            parts, self._states = [s[parts[0]] for s in self._states or ()], None
        if self._left + len(slot) > self.worth * self._rows:
            _skip[self.who] = TRY
        self._rows = self._left = 0
        return self._events(slot, number, parts)

    def _events(self, slot: Ints, number: Ints, parts: Parts) -> Events:
        return Events(slot, number * self.panes.pane + self.panes.offset, None, part_table(parts))

    def _numbered(self, slot: Ints, number: Ints, parts: Parts) -> tuple[Ints, Ints, Parts]:
        """For states that only NumPy can merge: the table holds their numbers, of two that meet the least and the largest."""
        # Only parts of rows tell their type: a user's function need not know what to do with none.
        held = self._states or [p[:0] for p in parts]
        states = [np.concatenate([s, p]) for s, p in zip(held, parts, strict=True)]
        came = np.arange(len(held[0]), len(states[0]))
        slot, number, (first, last) = self.table.add(slot, number, [came, came])
        at = self.table.taken
        kept, shed = self.table.parts[at, 0], first
        first, last = np.concatenate([shed, kept]), np.concatenate([last, self.table.parts[at, 1]])
        # Cells of a batch are all different, so that each has met one at most.
        met = first != last
        states = self._joined(states, first[met], last[met])
        self._states = [s[kept] for s in states]
        self.table.parts[at] = np.arange(len(at))[:, None]
        return slot, number, [s[shed] for s in states]

    def _joined(self, states: Parts, into: Ints, other: Ints) -> Parts:
        if len(into):
            pairs = zip(
                *(split(self.panes.summaries, [s[which] for s in states]) for which in (into, other)), strict=True
            )
            with np.errstate(all="ignore"):
                joined = [m for (a, own), (_, its) in pairs for m in a.merged(own, its)]
            for state, both in zip(states, joined, strict=True):
                state[into] = both
        return states


_NUMBERS = [(np.minimum, np.int64), (np.maximum, np.int64)]
