"""Filters that look ahead: a weighted sum of a sample and those after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Ints, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import MAX_TIME, add_time
from hydrophone.ops.filters.convolution import convolve
from hydrophone.ops.filters.group_delay import polynomial_delay, radians_per_sample, rate_hz
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class FirAhead(Node):
    """Weighted sum of a sample and the ``len(taps) - 1`` after it; reference: ``scipy.signal.lfilter(taps, 1, x[::-1])[::-1]``.

    Start: nothing comes before the first sample. Gap: a hole counts as zeros. End: zeros follow the last sample.
    A result is known when the last sample that it needs has come or can no longer come.
    """

    stable_name = "fir_ahead"

    taps: tuple[float | complex, ...]

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """At least one tap, all finite."""
        if not self.taps or not np.isfinite(self.taps).all():
            raise ParameterError("fir_ahead: taps must hold at least one number, and all must be finite")

    def output_type(self, x: UniformType) -> UniformType:
        """At least double precision."""
        dtype = np.result_type(x.dtype, np.asarray(self.taps), np.float64)
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """The samples under the taps."""
        return Reach.samples(x.timebase, after=len(self.taps) - 1)

    def group_delay(self, frequency: float) -> float:
        """That of the taps, which look ahead."""
        x = self.inputs[0].type
        return -polynomial_delay(self.taps, -radians_per_sample(frequency, x)) / rate_hz(x)

    def kernel(self, x: UniformType) -> Kernel:
        """Sum."""
        return FirAheadKernel(np.asarray(self.taps), self.type)


class FirAheadKernel(Kernel):
    """Holds the samples whose sum is not known yet, which are also all that these sums need."""

    keyed = True

    def __init__(self, taps: npt.NDArray[Any], out: UniformType) -> None:
        self.taps, self.out = taps.astype(out.dtype), out
        self.waiting: HeldBatches[Segments] = HeldBatches(Segments)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """The sums whose last sample has come, or was skipped."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.waiting.add(batch.with_values(batch.values.astype(self.out.dtype, copy=False)))
        held = self.waiting.all()
        assert held is not None
        # Runs are ordered by slot and index: the last of a slot knows how far the slot has come.
        last = np.searchsorted(held.slot, held.slot, "right") - 1
        return self._known(held, held.next[last] - len(self.taps) + 1)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """The sums whose last sample cannot come any more; the others hold the output mark."""
        held, mark = self.waiting.all(), marks[0]
        if held is None:
            return (), mark
        own = marks_of_slots(mark, held.slot)
        before = add_time(held.base.index_from_mark(held.slot, own), 1 - len(self.taps))
        out = self._known(held, np.where(np.equal(own, MAX_TIME), held.next, before))
        rest = self.waiting.all()
        return out, mark if rest is None else hold_back_mark(mark, rest.slot, rest.base.instant(rest.slot, rest.first))

    def _known(self, held: Segments, before: Ints) -> Iterable[Batch]:
        """The sums before these indices; their samples are let go."""
        done = np.clip(before, held.first, held.next) - held.first
        if not done.any():
            return ()
        some = np.flatnonzero(done)
        offsets = np.concatenate([[0], np.cumsum(done[some])])
        y = Segments(held.slot[some], held.first[some], offsets, self._sums(held, some, offsets), held.base)
        rest = held.cut(np.arange(len(held)), held.first + done, held.next)
        self.waiting.replace(rest, held.slot[done > 0])
        return (y,)

    def _sums(self, held: Segments, some: Ints, offsets: Ints) -> npt.NDArray[Any]:
        """The sums at the first samples of some segments; tap by tap, so that no cut can change a bit."""
        width = held.values.shape[1] if held.values.ndim > 1 else 1
        words = np.ascontiguousarray(held.values).reshape(-1, width).view(np.int64)
        buffer, at = _lay_out(held.slot, held.first, held.offsets, words, len(self.taps) - 1)
        out = np.empty((offsets[-1], *held.values.shape[1:]), self.out.dtype)
        begin, end, ahead = offsets[:-1] * width, offsets[1:] * width, -np.arange(len(self.taps))
        values = buffer.reshape(-1).view(self.out.dtype)
        convolve(values, at[some] * width, begin, end, ahead, self.taps, width, out.reshape(-1))
        return out


@compiled
def _lay_out(slot: Any, first: Any, offsets: Any, words: Any, size: int) -> Any:
    """The segments in one buffer, each with the `size` samples after it: zeros for a hole, and where the samples end."""
    count = len(slot)
    at, room = np.empty(count, np.int64), 0
    for run in range(count):
        at[run] = room
        room += offsets[run + 1] - offsets[run]
        if run + 1 < count and slot[run + 1] == slot[run]:
            room += min(size, first[run + 1] - first[run] - offsets[run + 1] + offsets[run])
        else:
            room += size
    out = np.empty((room, words.shape[1]), words.dtype)
    for run in range(count):
        end = at[run] + offsets[run + 1] - offsets[run]
        out[at[run] : end] = words[offsets[run] : offsets[run + 1]]
        out[end : at[run + 1] if run + 1 < count else room] = 0
    return out, at
