"""History: the last samples of every key in front of its new ones.

"History in front, flat function, history off" makes a filter a few lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.batch import Ints, Mask, Segments, Values
from hydrophone.ops.grids import Grids
from hydrophone.plan.types import Missing
from hydrophone.runs import ranges
from hydrophone.state import Field, SlotArrays
from hydrophone.time import MIN_TIME


@dataclass(frozen=True, eq=False)
class Extended:
    """The runs of a batch in one buffer, each with at least `size` samples of its own key in front of it.

    Attributes
    ----------
    values : the buffer
    at : where in the buffer each run of the batch begins
    seen : how many samples without a hole lie before each run (at most `size`)
    pad : zeros put in front of each run for a hole (see `History`)
    end : where in the buffer the key's earlier samples end, before the pad
    """

    values: Values
    at: Ints
    seen: Ints
    pad: Ints
    end: Ints
    due: Ints
    """The index that was due before each run (``MIN_TIME`` for a key that is new)."""


class History(SlotArrays):
    """The last `size` samples of every key, and the index that is due next.

    A hole is a pad of zeros: with ``ZERO`` as long as the hole but no longer than `size` (more would only push
    zeros out), otherwise always `size`.
    """

    def __init__(self, size: int, dtype: np.dtype[Any], channels: int, missing: Missing) -> None:
        shape = (size, channels) if channels else (size,)
        super().__init__(tail=Field(dtype, 0, shape), due=Field(np.int64, MIN_TIME), seen=Field(np.int64))
        self.size, self.missing, self.dtype = size, missing, dtype

    def extend(self, x: Segments, slots: int) -> Extended:
        """Put history in front of every run of a batch, and remember the new history."""
        self.reserve(slots)
        size, lengths = self.size, x.lengths
        new = np.concatenate([[True], x.slot[1:] != x.slot[:-1]])
        due = np.concatenate([[MIN_TIME], x.next[:-1]])
        due[new] = self["due"][x.slot[new]]
        fresh = due == MIN_TIME
        gap = np.where(fresh, 0, x.first - due)
        pad = np.minimum(gap, size) if self.missing is Missing.ZERO else np.where(gap > 0, size, 0)
        seen = np.where(new & (gap == 0), self["seen"][x.slot], 0)
        room = lengths + pad + np.where(new, size, 0)
        stop = np.cumsum(room)
        at = stop - lengths
        values = np.zeros((int(stop[-1]), *x.values.shape[1:]), self.dtype)
        head = (stop - room)[new]
        values[ranges(head, np.full(len(head), size))] = self["tail"][x.slot[new]].reshape(-1, *x.values.shape[1:])
        values[ranges(at, lengths)] = x.values
        last = np.concatenate([new[1:], [True]])
        slot = x.slot[last]
        self["tail"][slot] = values[stop[last, None] + np.arange(-size, 0)]
        self["due"][slot] = x.next[last]
        self["seen"][slot] = np.minimum(seen[last] + lengths[last], size)
        self.touch(slot)
        return Extended(values, at, seen, pad, at - pad, due)

    def idle(self, grids: Grids, slots: int, mark: int) -> Mask:
        """Keys whose history can no longer show in any output."""
        self.reserve(slots)
        due = self["due"][:slots]
        beyond = max(self.size - 1, 0) if self.missing is Missing.ZERO else 0
        return grids.passed(np.where(due == MIN_TIME, due, due + beyond), mark)
