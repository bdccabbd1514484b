"""History: the last samples of every key in front of its new ones.

"History in front, flat function, history off" makes a filter a few lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.model.batch import Ints, Mask, Segments, Values
from hydrophone.model.compiled import compiled
from hydrophone.model.sorted_rows import gather_ranges
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.signals.grids import KeyGrids
from hydrophone.plan.types import Missing


@dataclass(frozen=True, eq=False)
class Extended:
    """The runs of a batch in one buffer, each with at least `size` samples of its own key in front of it.

    Attributes
    ----------
    values : the buffer
    at : where in the buffer each run of the batch begins
    seen : how many samples without a hole lie before each run (at most `size`)
    lengths : how many samples each run has
    pad : zeros put in front of each run for a hole (see `History`)
    due : the index that was due before each run (``MIN_TIME`` for a key that is new)
    """

    values: Values
    at: Ints
    seen: Ints
    lengths: Ints
    pad: Ints
    due: Ints

    def lagged(self, steps: int) -> Values:
        """For every sample of the batch the one so many steps before it."""
        return gather_ranges(self.values, self.at - steps, self.lengths)


@dataclass(frozen=True, eq=False)
class Seams:
    """The begin of every run with the `size` samples before it: what cannot be read from the batch itself.

    Attributes
    ----------
    values : the buffer
    at : where in the buffer each run begins
    heads : how many samples of each run are in the buffer: `size`, or all that it has
    seen : how many samples without a hole lie before each run (at most `size`)
    """

    values: Values
    at: Ints
    heads: Ints
    seen: Ints


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
        runs = len(x)
        at, seen, pad, due = (np.empty(runs, np.int64) for _ in range(4))
        zero = self.missing is Missing.ZERO
        room = _layout_buffer(
            x.slot, x.first, x.offsets, self["due"], self["seen"], self.size, zero, at, seen, pad, due
        )
        values = np.empty((room, *x.values.shape[1:]), self.dtype)
        fresh, tail, width = self._words(x)
        memory = tail, self["due"], self["seen"]
        out = values.reshape(-1).view(tail.dtype)
        _fill_buffer(x.slot, x.first, x.offsets, fresh, *memory, self.size, width, seen, at, pad, out)
        self.touch(x.slot)
        return Extended(values, at, seen, x.lengths, pad, due)

    def seams(self, x: Segments, slots: int) -> Seams:
        """As `extend`, without a copy of the samples that have enough others before them in their own run."""
        self.reserve(slots)
        zero, (fresh, tail, width) = self.missing is Missing.ZERO, self._words(x)
        memory = tail, self["due"], self["seen"]
        words, at, heads, seen = _fill_seams(x.slot, x.first, x.offsets, fresh, *memory, self.size, width, zero)
        self.touch(x.slot)
        return Seams(words.view(self.dtype).reshape(-1, *x.values.shape[1:]), at, heads, seen)

    def _words(self, x: Segments) -> tuple[Values, Values, int]:
        """The samples of a batch and the history as words, and the words of a sample.

        What only copies is compiled once for all types of a size, and copies fastest along one dimension.
        """
        word = np.dtype(f"i{min(self.dtype.itemsize, 8)}")
        width = math.prod(x.values.shape[1:]) * (self.dtype.itemsize // word.itemsize)
        fresh = np.ascontiguousarray(x.values, self.dtype).reshape(-1)
        return fresh.view(word), self["tail"].reshape(-1).view(word), width

    def complete(self, y: Segments, seen: Ints) -> Segments:
        """The samples of a batch that have all `size` samples before them."""
        return y.cut(np.arange(len(y)), np.minimum(y.first + self.size - seen, y.next), y.next)

    def idle(self, grids: KeyGrids, slots: int, mark: int) -> Mask:
        """Keys whose history can no longer show in any output."""
        self.reserve(slots)
        due = self["due"][:slots]
        beyond = max(self.size - 1, 0) if self.missing is Missing.ZERO else 0
        return grids.ended_before(np.where(due == MIN_TIME, due, due + beyond), mark)


@compiled
def _layout_buffer(
    slot: Any,
    first: Any,
    offsets: Any,
    due: Any,
    known: Any,
    size: int,
    zero: bool,
    at: Any,
    seen: Any,
    pad: Any,
    was: Any,
) -> int:
    """Where each run will lie, and what lies before it; gives the length of the buffer."""
    room = 0
    for run in range(len(slot)):
        s = slot[run]
        new = run == 0 or slot[run - 1] != s
        was[run] = due[s] if new else first[run - 1] + offsets[run] - offsets[run - 1]
        gap = 0 if was[run] == MIN_TIME else first[run] - was[run]
        pad[run] = min(gap, size) if zero else (size if gap > 0 else 0)
        seen[run] = known[s] if new and gap == 0 else 0
        at[run] = room + pad[run] + (size if new else 0)
        room = at[run] + offsets[run + 1] - offsets[run]
    return room


# Loops, because Numba takes seconds to compile the assignment of one slice to another, with its checks and messages.


@compiled
def _copy(source: Any, start: int, out: Any, at: int, number: int) -> None:
    for i in range(number):
        out[at + i] = source[start + i]


@compiled
def _clear(out: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        out[i] = 0


@compiled
def _fill_buffer(
    slot: Any,
    first: Any,
    offsets: Any,
    x: Any,
    tail: Any,
    due: Any,
    known: Any,
    size: int,
    width: int,
    seen: Any,
    at: Any,
    pad: Any,
    out: Any,
) -> None:
    """Copy tails, pads and runs into the buffer, and the new tails out of it."""
    past = size * width
    for run in range(len(slot)):
        s, length, begin = slot[run], offsets[run + 1] - offsets[run], at[run] * width
        padded = begin - pad[run] * width
        if run == 0 or slot[run - 1] != s:
            _copy(tail, s * past, out, padded - past, past)
        _clear(out, padded, begin)
        _copy(x, offsets[run] * width, out, begin, length * width)
        if run + 1 == len(slot) or slot[run + 1] != s:
            _copy(out, begin + length * width - past, tail, s * past, past)
            due[s] = first[run] + length
            known[s] = min(seen[run] + length, size)


@compiled
def _fill_seams(
    slot: Any, first: Any, offsets: Any, x: Any, tail: Any, due: Any, known: Any, size: int, width: int, zero: bool
) -> Any:
    """Run by run: the tail of the key with zeros for a hole, then the begin of the run; and the new tail."""
    runs, room, past = len(slot), 0, size * width
    at, heads, seen = np.empty(runs, np.int64), np.empty(runs, np.int64), np.empty(runs, np.int64)
    for run in range(runs):
        heads[run] = min(offsets[run + 1] - offsets[run], size)
        at[run] = room + size
        room += size + heads[run]
    out = np.empty(room * width, tail.dtype)
    for run in range(runs):
        s, begin, end, here = slot[run], offsets[run], offsets[run + 1], at[run] * width
        gap = 0 if due[s] == MIN_TIME else first[run] - due[s]
        pad = (min(gap, size) if zero else (size if gap > 0 else 0)) * width
        seen[run] = known[s] if gap == 0 else 0
        head = heads[run] * width
        _copy(tail, s * past + pad, out, here - past, past - pad)
        _clear(out, here - pad, here)
        _copy(x, begin * width, out, here, head)
        if end - begin >= size:
            _copy(x, end * width - past, tail, s * past, past)
        else:
            _copy(out, here + head - past, tail, s * past, past)
        due[s] = first[run] + end - begin
        known[s] = min(seen[run] + end - begin, size)
    return out, at, heads, seen
