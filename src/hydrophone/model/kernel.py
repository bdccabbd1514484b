"""The kernel contract. A kernel runs an operator for all keys of a batch at once, on every host.

See ``docs/decisions/0001-the-kernel-contract.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from hydrophone.model.batch import Batch, Ints, Joint, Mask
from hydrophone.model.family import Family
from hydrophone.model.key_table import KeyTable
from hydrophone.model.marks import Mark, Marks, forget_slots, lowest_marks
from hydrophone.model.nested import NestedPlan
from hydrophone.model.state import KeptRows, SlotArrays, State

__all__ = ["Joint", "Kernel", "Marks", "Stateless"]


class Kernel:
    """Base of all kernels.

    A kernel keeps its state in attributes that are `SlotArrays` or `KeptRows` rows. Snapshot, restore and release work on these without
    further code.
    All other attributes must follow from its parameters.

    Attributes
    ----------
    announced : sequence of Mark
        Marks of the last `advance`, for kernels whose `step` needs them. They are reset with the slots, and not saved.
    VERSION : int
        Increases when the meaning of the state changes; state of another version is refused.
    keys : KeyTable
        The keys of the inputs' scope (the pipeline sets it).
    out_keys : KeyTable
        The keys of the output's scope; another table only where the operator changes the key.
    nested : NestedPlan
        What runs the plan inside the operator, where its node is a host (`Node.hosted`; the pipeline sets it).
    keyed : bool
        Whether `advance` takes and returns marks per key; otherwise it gets one mark for all keys, and returns one.
    """

    VERSION: ClassVar[int] = 1
    keyed: ClassVar[bool] = False
    keys: KeyTable
    out_keys: KeyTable
    nested: NestedPlan
    announced: tuple[Mark, ...] = ()

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Take a batch on an input port; return the results that are known already. If the operator needs order, batches come in order."""
        raise NotImplementedError

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Take the marks of all inputs; return the final results and the OUTPUT mark, a lower bound on the start of later results.

        ``marks[port]`` is a number; for a kernel that is `keyed` it may be an array by slot.
        Marks never fall. ``MAX_TIME`` means that the data has ended. `hydrophone.model.marks` has functions for marks per key.
        """
        return (), lowest_marks(marks)

    def jointly(self, marks: Marks) -> Joint | None:
        """The joint progress of the output. Called after `advance` if the plan has joint progress here; the marks are plain numbers."""
        return marks.joints[0]

    def idle(self, marks: Marks) -> Mask:
        """Slots that can be forgotten at these marks without changing an answer. Held batches are checked elsewhere."""
        return np.ones(len(self.keys), np.bool_)

    @classmethod
    def together(cls, kernels: Sequence[Any]) -> Family:
        """What runs these kernels as one; asked only where their nodes are of one `family`."""
        raise NotImplementedError

    # --- from here on nothing needs to be overridden ------------------------------------------------------------------

    @property
    def takes_key_marks(self) -> bool:
        """Whether marks per key may come: also true for kernels that pass marks on unchanged."""
        return self.keyed or type(self).advance is Kernel.advance

    def states(self) -> dict[str, State]:
        """The state by attribute name."""
        return self._states

    @cached_property
    def _states(self) -> dict[str, State]:
        return {name: value for name, value in vars(self).items() if isinstance(value, SlotArrays | KeptRows)}

    @property
    def bytes_per_key(self) -> int:
        """Maximum bytes per key, without batches that are held for progress."""
        return sum(state.bytes_per_slot for state in self.states().values() if isinstance(state, SlotArrays))

    def compact(self) -> None:
        """Bring the state into the form that it would have after a restore; called before a snapshot."""

    def forgettable(self, marks: Marks) -> Mask:
        """Slots that hold no rows and can be forgotten."""
        free = self.idle(marks)
        for state in self.states().values():
            if isinstance(state, KeptRows):
                free &= ~state.holds(len(self.keys))
        return free

    def release(self, slots: Ints) -> None:
        """Forget these slots."""
        self.announced = tuple(forget_slots(mark, slots) for mark in self.announced)
        for state in self.states().values():
            if isinstance(state, SlotArrays):
                state.release(slots)


class Stateless(Kernel):
    """A kernel that maps every batch by itself."""

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Map one batch."""
        return (self.map(batch),)

    def map(self, batch: Batch) -> Batch:
        """One batch in, one batch out."""
        raise NotImplementedError
