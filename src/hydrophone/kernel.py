"""The contract of a kernel: what runs an operator for all keys of a batch at once, on every host.

See ``docs/decisions/0001-the-kernel-contract.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from hydrophone.batch import Batch, Ints, Mask
from hydrophone.keys import KeyTable
from hydrophone.marks import Mark, forgotten, lowest
from hydrophone.state import Kept, SlotArrays, State

Marks = tuple[Any, ...]
"""A mark for every input: a number, or in the `advance` of a kernel that is `keyed` also an array by slot (`hydrophone.marks.Mark`)."""
Joint = tuple[int, int]
"""Joint progress of pairs: none will come that starts before the first and whose other time lies before the second."""


class Kernel:
    """Base of all kernels.

    A kernel keeps its state in attributes that are `SlotArrays` or `Kept` rows: snapshot, restore and release follow
    from these and need no code of their own.
    Everything else that it keeps must be derived from its parameters.

    Attributes
    ----------
    told : tuple of Mark
        The marks that `step` looks at between two advances, where it does; forgotten with the slots, and not kept over a restart.
    VERSION : int
        Goes up when the meaning of the state changes; state of another version is refused.
    keys : KeyTable
        The keys of the inputs' scope (the pipeline sets it).
    out_keys : KeyTable
        The keys of the output's scope; another table only where the operator changes the key.
    keyed : bool
        Whether `advance` takes and gives marks per key where there are some; otherwise it gets one for all, and gives one.
    joints : tuple of Joint or None
        The joint progress of every input, where it has one (the pipeline sets it before `advance`).
    ends : int
        No event to come of any input ends before this, whatever its start (the pipeline sets it before `advance`).
    """

    VERSION: ClassVar[int] = 1
    keyed: ClassVar[bool] = False
    keys: KeyTable
    out_keys: KeyTable
    joints: tuple[Joint | None, ...] = ()
    ends: int
    told: Marks = ()

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Take a batch on an input port; give what is known already. Batches of a key that needs order come in order."""
        raise NotImplementedError

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Take the marks of all inputs; give what became final, and the OUTPUT mark: a lower bound on the start of anything still to come.

        Marks never fall. ``MAX_TIME`` means that the data has ended. `hydrophone.marks` has the words for marks per key.
        """
        return (), lowest(marks)

    def jointly(self, marks: Marks) -> Joint | None:
        """The joint progress of the output, asked for after `advance` where the plan says that it has one."""
        return self.joints[0]

    def idle(self, marks: Marks) -> Mask:
        """Which slots could be forgotten without changing any answer, given these marks (held batches need not be looked at)."""
        return np.ones(len(self.keys), np.bool_)

    # --- from here on nothing needs to be overridden ------------------------------------------------------------------

    @property
    def takes_key_marks(self) -> bool:
        """Whether marks per key may come: who leaves marks as they are leaves those of keys too."""
        return self.keyed or type(self).advance is Kernel.advance

    def states(self) -> dict[str, State]:
        """The state by attribute name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, SlotArrays | Kept)}

    @property
    def bytes_per_key(self) -> int:
        """The most that a key takes, but for batches that are held until progress lets go of them."""
        return sum(state.bytes_per_slot for state in self.states().values() if isinstance(state, SlotArrays))

    def compact(self) -> None:
        """Bring state that is about to be saved into the form that it would have after a restore."""

    def forgettable(self, marks: Marks) -> Mask:
        """Slots that neither hold rows nor matter any more."""
        free = self.idle(marks)
        for state in self.states().values():
            if isinstance(state, Kept):
                free &= ~state.holds(len(self.keys))
        return free

    def release(self, slots: Ints) -> None:
        """Forget these slots."""
        self.told = tuple(forgotten(mark, slots) for mark in self.told)
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
