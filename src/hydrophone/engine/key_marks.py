"""Progress per key: at a port whose source promises it, every key is as far as its own latest row."""

from __future__ import annotations

import numpy as np

from hydrophone.batch import Ints, Mask
from hydrophone.kernel import Kernel, Marks
from hydrophone.state import Field, SlotArrays
from hydrophone.time import MAX_TIME, MIN_TIME, add_time


class KeyMarks(Kernel):
    """The latest row of every key of a port. A key that the whole source has overtaken is as good as new.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hydrophone.keys import KeyTable
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
        """Rows speak for their keys, late ones too."""
        self.latest.reserve(len(self.keys))
        np.maximum.at(self.latest["time"], slot, start)
        self.latest.touch(slot)

    def own(self, slot: Ints) -> Ints:
        """What keys have said themselves, wherever the whole source is."""
        self.latest.reserve(len(self.keys))
        return add_time(self.latest["time"][slot], -self.delay)

    def slowest(self, mark: int) -> int:
        """How far the last of the keys is that have said something."""
        own = self.own(np.flatnonzero(self.keys.used))
        return max(mark, int(own.min(initial=MAX_TIME, where=own > MIN_TIME))) if (own > MIN_TIME).any() else mark

    def all(self, mark: int) -> Ints:
        """The marks of all slots, and of keys in none, where the whole source has come to `mark`."""
        self._mark = max(mark, self._mark)
        return np.append(np.maximum(self.own(np.arange(len(self.keys))), self._mark), self._mark)

    def idle(self, marks: Marks) -> Mask:
        """Keys that are no further than all are."""
        over: Mask = self.own(np.arange(len(self.keys))) <= self._mark
        return over
