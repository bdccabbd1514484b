"""The timebases that a kernel needs to know between batches: one for all keys, or learned per key and kept as state."""

from __future__ import annotations

import numpy as np

from hydrophone.model.batch import Ints, Segments, Windows, grid_changed
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.model.timebase import Timebase, Timebases


class KeyGrids(SlotArrays):
    """The timebase of every slot. Where the plan knows one for all keys this costs nothing.

    Examples
    --------
    >>> KeyGrids(Timebase.every("20ms")).base.single.period
    Fraction(20000000, 1)
    """

    def __init__(self, timebase: Timebase | None) -> None:
        super().__init__(num=Field(np.int64, 1), den=Field(np.int64, 1), origin=Field(np.int64, 0))
        self._shared = None if timebase is None else Timebases.shared(timebase)

    def learn(self, batch: Segments | Windows, slots: int) -> None:
        """Remember the grids of the keys in a batch."""
        if self._shared is None:
            self.reserve(slots)
            num, den, origin = batch.base.rows(batch.slot)
            known = (
                (self["num"][batch.slot] == num)
                & (self["den"][batch.slot] == den)
                & (self["origin"][batch.slot] == origin)
            )
            if not (known | ~self.used[batch.slot]).all():
                raise grid_changed()
            if not self.used[batch.slot].all():
                self["num"][batch.slot], self["den"][batch.slot], self["origin"][batch.slot] = num, den, origin
                self.touch(batch.slot)

    @property
    def bytes_per_slot(self) -> int:
        """Nothing where the plan knows one grid for all."""
        return 0 if self._shared is not None else super().bytes_per_slot

    @property
    def base(self) -> Timebases:
        """The table of all slots."""
        return self._shared or Timebases(self["num"], self["den"], self["origin"])

    def ended_before(self, index: Ints, mark: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """For slots 0, 1, …: whether the mark has passed this index; true where the index is ``MIN_TIME`` (none)."""
        if self._shared is None:
            self.reserve(len(index))
        none = index == MIN_TIME
        return none | (self.base.instant(np.arange(len(index)), np.where(none, 0, index)) < mark)
