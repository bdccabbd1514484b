"""Progress per key, for ports whose source promises it: the mark of a key follows its own latest row."""

from __future__ import annotations

import numpy as np

from hydrophone.model.batch import Ints, Mask
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time


class KeyMarks(Kernel):
    """The latest time of every key of a port. A key behind the mark of the whole source has no state.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hydrophone.model.key_table import KeyTable
    >>> marks = KeyMarks(delay=2)
    >>> marks.keys = KeyTable(pa.schema([("k", pa.string())]))
    >>> slot = marks.keys.slots([pa.array(["a", "b", "a"])])
    >>> marks.see(slot, np.array([10, 4, 9]))
    >>> marks.all(mark=3)
    array([8, 3, 3])
    """

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.latest = SlotArrays(time=Field(np.int64, MIN_TIME))
        self._mark = MIN_TIME

    def see(self, slot: Ints, start: Ints) -> None:
        """Take rows, late ones too: they advance the marks of their keys."""
        self.latest.reserve(len(self.keys))
        np.maximum.at(self.latest["time"], slot, start)
        self.latest.touch(slot)

    def own(self, slot: Ints) -> Ints:
        """The marks of keys from their own rows alone."""
        self.latest.reserve(len(self.keys))
        return add_time(self.latest["time"][slot], -self.delay)

    def slowest(self, mark: int) -> int:
        """The lowest mark of all keys that have one."""
        own = self.own(np.flatnonzero(self.keys.used))
        return max(mark, int(own.min(initial=MAX_TIME, where=own > MIN_TIME))) if (own > MIN_TIME).any() else mark

    def all(self, mark: int) -> Ints:
        """The marks of all slots, and of keys without a slot, given the `mark` of the whole source."""
        self._mark = max(mark, self._mark)
        return np.append(np.maximum(self.own(np.arange(len(self.keys))), self._mark), self._mark)

    def idle(self, marks: Marks) -> Mask:
        """Keys that are not ahead of the whole source."""
        over: Mask = self.own(np.arange(len(self.keys))) <= self._mark
        return over
