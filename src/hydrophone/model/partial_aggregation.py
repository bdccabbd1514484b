"""Protocols for kernels whose partial aggregates can be merged in tasks, before the exchange."""

from __future__ import annotations

from typing import Protocol

from hydrophone.model.batch import Events


class TaskAggregates(Protocol):
    """The partial aggregates of one task. A cell is the partial aggregate of one key and pane."""

    def due(self) -> bool:
        """Whether to merge the next batch; asked once for each."""

    def add(self, cells: Events, rows: int) -> Events | None:
        """Take the cells of a batch of `rows` rows; return those that are shed. Takes nothing and returns None if there are too many."""

    def rest(self) -> Events:
        """Return all cells, and empty the table."""


class PartialAggregation(Protocol):
    """A kernel whose state can be built from cells in any order."""

    def partial_aggregates(self, batch: Events) -> Events:
        """The partial aggregates of a batch, one row per slot and pane."""

    def merge_partials(self, cells: Events) -> None:
        """Merge cells that were made in tasks."""

    def task_table(self, who: str, worth: float) -> TaskAggregates:
        """A table for the cells of one task.

        Parameters
        ----------
        who : the name by which this process remembers that merging was not worth it
        worth : the share of rows that may leave as cells for merging to be worth its time
        """
