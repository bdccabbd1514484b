"""Window: from samples to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.batch import COLUMNS_AT_ONCE, Batch, Ints, Segments, Windows
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.model.sorted_rows import gather_ranges
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.model.timebase import Timebases
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.history import Extended
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType, WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class Window(Node):
    """Arrays of `size` samples, every `hop` samples; their last samples lie at ``size - 1 + m * hop`` on the absolute grid.

    ``drop`` gives the windows all of whose samples are there. ``zero`` gives every window that holds at least one
    sample, with zeros where there is none:
    also those that begin before the first or end after the last sample.
    """

    stable_name = "window"

    size: int
    hop: int
    missing: Missing = Missing.DROP

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """At least one sample."""
        if self.size < 1:
            raise ParameterError(f"window: size must be at least 1 sample, got {self.size}")
        if self.hop < 1:
            raise ParameterError(
                f"window: hop must be at least 1 sample, got {self.hop}",
                hint="hop=size makes windows that do not overlap",
            )

    def output_type(self, x: UniformType) -> WindowedType:
        """Arrays of scalars, of every channel its own."""
        if x.timebase is None and self.missing is Missing.ZERO:
            raise PlanError(
                'window: missing="zero" needs one period for all keys',
                hint='use missing="drop", or resample(period, fill=hp.linear()), which gives all keys one',
            )
        return WindowedType(x.key, x.time, x.clock, x.dtype, self.size, self.size, self.hop, x.timebase, x.channels)

    def reach(self, x: UniformType) -> Reach:
        """A window is owned by its last instant."""
        return Reach.samples(x.timebase, before=self.size - 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Cut."""
        return WindowKernel(self.size, self.hop, self.missing, x)


COPY_BELOW_SAMPLES = 1 << 15
"""Samples that are sooner copied behind the history of their keys than cut in two steps."""


class WindowKernel(LookBackKernel):
    """The last ``size - 1`` samples per key; with ``zero`` also the next window end that the key owes."""

    keyed = True

    def __init__(self, size: int, hop: int, missing: Missing, kind: UniformType) -> None:
        super().__init__(kind, size - 1, missing)
        self.size, self.hop, self.missing = size, hop, missing
        self.few = max(1, COLUMNS_AT_ONCE // (size * max(kind.channels, 1)))
        self.owed = SlotArrays(end=Field(np.int64, MIN_TIME))

    def take(self, batch: Segments) -> Iterable[Batch]:
        """All windows that end inside the runs of the batch, or (``zero``) in the holes before them."""
        large = len(batch.values) > COPY_BELOW_SAMPLES
        if large and self.missing is not Missing.ZERO and (batch.slot[1:] > batch.slot[:-1]).all():
            return self._straight(batch)
        return super().take(batch)

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """With the history of every key in front of its samples."""
        self.owed.reserve(len(self.keys))
        ripe = batch.first if self.missing is Missing.ZERO else batch.first + self.history.size - wide.seen
        start, at = self._grid(ripe), wide.at - batch.first
        stop, slot = batch.next, batch.slot
        if self.missing is Missing.ZERO:
            start, stop, at, slot = self._with_holes(batch, wide, start, at)
        return self._cut(slot, start, stop, at, wide.values, batch.base)

    def _straight(self, batch: Segments) -> Iterator[Windows]:
        """Every key has one run: first the windows that begin before it, then those inside, which are not copied."""
        seams, size = self.history.seams(batch, len(self.keys)), self.history.size
        whole = batch.first + size
        start, stop = self._grid(whole - seams.seen), np.minimum(whole, batch.next)
        yield from self._cut(batch.slot, start, stop, seams.at - batch.first, seams.values, batch.base)
        inside = batch.offsets[:-1] - batch.first
        yield from self._cut(batch.slot, self._grid(whole), batch.next, inside, batch.values, batch.base)

    def _with_holes(self, batch: Segments, wide: Extended, start: Ints, at: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Before the windows of each run, those that end in the pad before it and were not given by `advance` already."""
        known = wide.due > MIN_TIME
        hole = np.where(known, wide.due, 0)
        hole_start = self._grid(np.maximum(hole, self.owed["end"][batch.slot]))
        both = [
            np.stack(pair, axis=1).reshape(-1)
            for pair in (
                (hole_start, start),
                (np.where(known, hole + wide.pad, hole_start), batch.next),
                (wide.at - wide.pad - hole, at),
                (batch.slot, batch.slot),
            )
        ]
        self.owed["end"][batch.slot] = batch.next
        self.owed.touch(batch.slot)
        return both[0], both[1], both[2], both[3]

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """With ``zero``, the windows that end in the silence before the mark."""
        if self.missing is not Missing.ZERO or self.size == 1:
            return (), marks[0]
        slot, base = np.flatnonzero(self.history.used), self.grids.base
        due = self.history["due"][slot]
        stop = np.minimum(due + self.history.size, base.index_from_mark(slot, marks_of_slots(marks[0], slot)))
        start = self._grid(np.maximum(due, self.owed["end"][slot]))
        ripe = start < stop
        slot, due, start, stop = slot[ripe], due[ripe], start[ripe], stop[ripe]
        if not len(slot):
            return (), marks[0]
        self.owed["end"][slot] = stop
        self.owed.touch(slot)
        values = np.concatenate([self.history["tail"][slot], np.zeros_like(self.history["tail"][slot])], axis=1)
        at = np.arange(len(slot)) * values.shape[1] + self.history.size - due
        return self._cut(slot, start, stop, at, values.reshape(-1, *values.shape[2:]), base), marks[0]

    def _grid(self, index: Ints) -> Ints:
        """The first window end at or after an index."""
        return index + (self.size - 1 - index) % self.hop

    def _cut(
        self, slot: Ints, start: Ints, stop: Ints, at: Ints, values: npt.NDArray[Any], base: Timebases
    ) -> Iterator[Windows]:
        """Windows that end at ``start, start + hop, …`` before `stop`; the sample of index k lies at ``at + k`` in `values`.

        A few at a time, so that what follows finds them in the cache, and overlap costs no memory.
        """
        run, end = 0, int(start[0]) if len(start) else 0
        while run < len(start):
            some, last, begin, even, run, end = _next_windows(slot, start, stop, at, self.hop, self.few, run, end)
            if len(some):
                begin -= self.size - 1
                yield Windows(some, last, self._gathered(values, begin, even), base)

    def _gathered(self, values: npt.NDArray[Any], begin: Ints, even: bool) -> npt.NDArray[Any]:
        """The windows that begin at these places; those that lie evenly are not copied."""
        if not even and values.ndim == 1:
            return gather_ranges(values, begin, np.full(len(begin), self.size)).reshape(len(begin), self.size)
        if not even or not values.flags.c_contiguous:
            return np.lib.stride_tricks.sliding_window_view(values, self.size, axis=0)[begin]
        step, *between = values.strides
        shape = (len(begin), *values.shape[1:], self.size)
        view = np.ndarray(shape, values.dtype, values[begin[0] :], 0, (step * self.hop, *between, step))
        view.flags.writeable = False  # windows share samples
        return view


@compiled
def _next_windows(slot: Any, start: Any, stop: Any, at: Any, hop: int, few: int, run: int, end: int) -> Any:
    """At most `few` windows from the one of `run` that ends at `end`.

    Their slots, the indices and places of their last samples, whether these places lie evenly, and where to go on.
    """
    total, r, e = 0, run, end
    while r < len(start) and total < few:
        total += max(0, -((e - stop[r]) // hop))
        r += 1
        e = start[r] if r < len(start) else 0
    total = min(total, few)
    slots, last, place = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    n, even = 0, True
    while run < len(start):
        while end < stop[run] and n < total:
            slots[n], last[n], place[n] = slot[run], end, at[run] + end
            even &= n == 0 or place[n] - place[n - 1] == hop
            n, end = n + 1, end + hop
        if end < stop[run]:
            break
        run += 1
        if run < len(start):
            end = start[run]
    return slots, last, place, even, run, end
