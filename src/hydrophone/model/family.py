"""Families: kernels that differ in a number alone, such as thresholds over one input, and run as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from hydrophone.model.batch import Batch, Events, Ints, Mask
from hydrophone.model.key_table import KeyTable
from hydrophone.model.marks import Mark, Marks

Given = list[tuple[int, Batch]]
"""Results with the number of the member whose they are; members without results do not occur."""

SHARE_BELOW_ROWS = 4_096
"""Members with fewer results share one batch, until it has so many rows. Who keeps a share keeps its batch alive, and no more."""


class Family:
    """Does the work of several kernels over the same input at once, and gives each member what its kernel would give alone.

    Members keep their own state. The family takes it over when it begins (`join`) and gives it back whenever somebody looks at a member
    or members come and go (`part`).

    Attributes
    ----------
    advances : whether members have an `advance` of their own, which the family does for them
    keys : the keys of the input's scope
    """

    advances: ClassVar[bool] = False
    keys: KeyTable

    def take(self, batch: Batch) -> Given:
        """What the members give for a batch. It changes no state if it raises."""
        raise NotImplementedError

    def advance(self, marks: Marks) -> tuple[Given, Sequence[Mark]]:
        """What the members give at these marks, and their output marks."""
        raise NotImplementedError

    def join(self) -> None:
        """Take over the state of the members."""

    def part(self) -> None:
        """Give the members their state."""

    def forgettable(self) -> Mask:
        """Slots that no member needs."""
        return np.ones(len(self.keys), np.bool_)

    def release(self, slots: Ints) -> None:
        """Forget these slots, which no member needs."""


def in_shares(counts: Ints) -> list[tuple[int, int]]:
    """Which members share a batch, first and last plus one, given how many results each has.

    Examples
    --------
    >>> in_shares(np.array([5_000, 3_000, 2_000, 10]))
    [(0, 1), (1, 3), (3, 4)]
    """
    found, first, rows = [], 0, 0
    for member, count in enumerate(counts.tolist(), 1):
        rows += count
        if rows >= SHARE_BELOW_ROWS:
            found.append((first, member))
            first, rows = member, 0
    return [*found, (first, len(counts))] if rows else found


def given_in_shares(batch: Events, first: int, counts: Ints, members: Ints) -> Given:
    """A batch with the results of members in turn, ``counts[i]`` of them for the i-th after `first`, which is ``members[first + i]``."""
    cuts = np.concatenate([[0], np.cumsum(counts)])
    parts = batch.shares(cuts)
    return [(int(members[first + i]), parts[i]) for i in np.flatnonzero(counts).tolist()]
