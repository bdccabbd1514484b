"""What a kernel sees of a plan that runs inside its operator. The engine makes it (`engine/nested.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hydrophone.model.batch import Batch, Ints, Mask
from hydrophone.model.state import State


class NestedPlan(Protocol):
    """A plan over the keys of the operator that hosts it."""

    @property
    def version(self) -> int:
        """By how much its kernels together are above their first versions: increases whenever the version of one of them does."""

    def take(self, port: int, batch: Batch) -> None:
        """Take a batch at a port; a port that nobody reads takes nothing."""

    def advance(self, mark: int) -> tuple[list[Batch], int]:
        """Promise of all ports that nothing before the mark will come; return the results since the last call, and their mark."""

    def states(self) -> Mapping[str, State]:
        """The state of all its kernels, by name. Marks are not among them: the next `advance` gives them anew."""

    def compact(self) -> None:
        """Bring the state into the form that it would have after a restore."""

    def forgettable(self) -> Mask:
        """Slots that none of its kernels needs."""

    def release(self, slots: Ints) -> None:
        """Forget these slots."""
