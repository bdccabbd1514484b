"""Filters with many taps: overlap-save convolution by FFT, in blocks that are anchored to the absolute grid.

The samples of a block are filtered together, once: when all of them have come, or can no longer come. So an answer does not
depend on how the data was cut, to the last bit. Decision 10 has the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # scipy.fft is loaded when it is first used

from hydrophone.model.batch import Batch, Ints, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import MAX_TIME
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.convolution import convolve
from hydrophone.plan.types import Missing, UniformType

Array = npt.NDArray[Any]

MIN_TAPS = 256
"""Taps from which on an FFT is faster than a sum over the taps (`hydrophone bench run long_fir`)."""
MAX_DYNAMIC_RANGE = 1e4
"""By how much the loudest stretch of a block may exceed its quietest: an FFT spreads the rounding errors of the loudest over all."""
MAX_SAMPLE = 1e100
"""Products of larger samples could overflow inside an FFT."""
SAMPLES_AT_ONCE = 1 << 17
"""Samples that go through an FFT at once: these, their spectra and the results stay in the second-level cache."""


def transform_size(taps: int) -> int:
    """Samples of an FFT: four times the taps, so that three quarters of them are results."""
    return int(scipy.fft.next_fast_len(4 * taps, real=True))


def block_size(taps: int) -> int:
    """Results of an FFT, and the samples that wait for each other."""
    return transform_size(taps) - taps + 1


class LongFirKernel(LookBackKernel):
    """Holds the samples of blocks that are not complete, and filters the others by FFT.

    A block that an FFT would spoil is summed tap by tap: one with samples that are not finite or huge, or with stretches far
    below its loudest one. So is a block with few samples, for which an FFT would cost more.
    """

    keyed = True

    def __init__(self, taps: Array, missing: Missing, out: UniformType) -> None:
        super().__init__(out, len(taps) - 1, missing)
        self.taps, self.missing, self.out = taps.astype(out.dtype), missing, out
        self.block = block_size(len(taps))
        self.waiting: HeldBatches[Segments] = HeldBatches(Segments)
        self._begins, self._batches = np.zeros(0, np.int64), -1

    def take(self, batch: Segments) -> Iterable[Batch]:
        """The blocks of which the last sample has come, or was skipped."""
        begins = self._first_waiting()
        np.minimum.at(begins, batch.slot, batch.first)
        self.waiting.add(batch)
        self._batches = len(self.waiting.batches)
        if (batch.next // self.block <= begins[batch.slot] // self.block).all():
            return ()
        held = self.waiting.all()
        assert held is not None
        # Segments are ordered by slot and index: the last of a slot says how far the slot has come.
        last = np.searchsorted(held.slot, held.slot, "right") - 1
        return self._filtered(held, held.next[last])

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """The blocks to which no sample can come any more; the others hold the output mark."""
        mark, begins, base = marks[0], self._first_waiting(), self.grids.base
        slot = np.flatnonzero(begins != MAX_TIME)
        own = marks_of_slots(mark, slot)
        closed = np.equal(own, MAX_TIME) | (base.index_from_mark(slot, own) // self.block > begins[slot] // self.block)
        if not np.any(closed):
            return (), hold_back_mark(mark, slot, base.instant(slot, begins[slot])) if len(slot) else mark
        held = self.waiting.all()
        assert held is not None
        own = marks_of_slots(mark, held.slot)
        reached = np.where(np.equal(own, MAX_TIME), held.next + self.block, held.base.index_from_mark(held.slot, own))
        out = self._filtered(held, reached)
        rest = self.waiting.all()
        return out, mark if rest is None else hold_back_mark(mark, rest.slot, rest.base.instant(rest.slot, rest.first))

    def _first_waiting(self) -> Ints:
        """The first index that waits of every slot, or ``MAX_TIME``; found again where batches were restored, joined or let go.

        So samples that wait are joined once for each block, not for each batch.
        """
        if self._batches != len(self.waiting.batches):
            self._begins = np.full(len(self.keys), MAX_TIME)
            for batch in self.waiting.batches:
                np.minimum.at(self._begins, batch.slot, batch.first)
            self._batches = len(self.waiting.batches)
        elif len(self._begins) < len(self.keys):
            self._begins = np.concatenate([self._begins, np.full(len(self.keys) - len(self._begins), MAX_TIME)])
        return self._begins

    def _filtered(self, held: Segments, reached: Ints) -> Iterable[Batch]:
        """Filter the blocks that end before these indices; their samples are let go."""
        reached = np.maximum(reached, held.first)  # a mark may be the first instant there is
        done = np.clip(reached // self.block * self.block, held.first, held.next)
        if (done == held.first).all():
            return ()
        at = np.arange(len(held))
        self.waiting.replace(held.cut(at, done, held.next), held.slot[done > held.first])
        self._batches = -1
        x = held.cut(at, held.first, done)
        wide = self.history.extend(x, len(self.keys))
        y = x.with_values(self._blocks(wide.values, wide.at, x))
        return (self.history.complete(y, wide.seen) if self.missing is Missing.DROP else y,)

    def _blocks(self, values: Array, at: Ints, x: Segments) -> Array:
        """The filtered samples, block by block; in `values` every segment begins at `at`, with its history before it."""
        out = np.empty(x.values.shape, self.out.dtype)
        width = out.shape[1] if out.ndim > 1 else 1
        rows, flat = values.reshape(-1, width), out.reshape(-1, width)
        begin, place, count = _pieces(x.first, x.offsets, at, self.block)
        direct = _uneven(rows, place, count, len(self.taps), self._least)
        sums = np.flatnonzero(direct)
        if len(sums):
            convolve(
                np.ascontiguousarray(rows).reshape(-1),
                place[sums] * width,
                begin[sums] * width,
                (begin + count)[sums] * width,
                np.arange(len(self.taps)),
                self.taps,
                width,
                flat.reshape(-1),
            )
        self._transform(rows, begin, place, count, np.flatnonzero(~direct), flat)
        return out

    def _transform(self, rows: Array, begin: Ints, place: Ints, count: Ints, which: Ints, out: Array) -> None:
        """Filter some pieces by FFT, as many at a time as stay in the cache."""
        size, width = transform_size(len(self.taps)), rows.shape[1]
        at_once = max(1, SAMPLES_AT_ONCE // (size * width))
        scratch = np.empty((min(at_once, len(which)) * width, size), self.out.dtype)
        for start in range(0, len(which), at_once):
            some = which[start : start + at_once]
            x = scratch[: len(some) * width]
            _gather(rows, place[some], count[some], len(self.taps) - 1, x)
            if self.out.dtype.kind == "c":
                y = scipy.fft.ifft(scipy.fft.fft(x, axis=1) * self._spectrum, axis=1, overwrite_x=True)
            else:
                y = scipy.fft.irfft(scipy.fft.rfft(x, axis=1) * self._spectrum, size, axis=1, overwrite_x=True)
            _scatter(y, begin[some], count[some], len(self.taps) - 1, out)

    @cached_property
    def _spectrum(self) -> Array:
        size = transform_size(len(self.taps))
        found: Array = (scipy.fft.fft if self.out.dtype.kind == "c" else scipy.fft.rfft)(self.taps, size)
        return found

    @property
    def _least(self) -> int:
        """How many samples a piece must have for an FFT to be cheaper than sums over the taps."""
        return self.block * MIN_TAPS // max(MIN_TAPS, len(self.taps))


@compiled
def _pieces(first: Any, offsets: Any, at: Any, block: int) -> Any:
    """Segments cut where blocks end: where each piece begins in the batch and in the buffer, and how many samples it has."""
    total = 0
    for s in range(len(first)):
        total += (first[s] + offsets[s + 1] - offsets[s] - 1) // block - first[s] // block + 1
    begin, place, count = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    n = 0
    for s in range(len(first)):
        i, length = 0, offsets[s + 1] - offsets[s]
        while i < length:
            size = min(block - (first[s] + i) % block, length - i)
            begin[n], place[n], count[n] = offsets[s] + i, at[s] + i, size
            i += size
            n += 1
    return begin, place, count


@compiled
def _uneven(rows: Any, place: Any, count: Any, taps: int, least: int) -> Any:
    """Pieces that an FFT would spoil, or that are too short for one.

    Half as many samples as taps make a stretch: whatever the taps cover, they cover a whole stretch.
    """
    stretch, found = max(taps // 2, 1), count < least
    for p in range(len(place)):
        for c in range(rows.shape[1]):
            found[p] = found[p] or _is_uneven(rows[place[p] - taps + 1 : place[p] + count[p], c], stretch)
    return found


@compiled
def _is_uneven(x: Any, stretch: int) -> bool:
    """Whether samples are not finite or huge, or a stretch is far below the loudest; the last one may overlap that before it."""
    low, peak = np.inf, 0.0
    for start in range(0, len(x), stretch):
        loudest = 0.0
        for i in range(max(min(start, len(x) - stretch), 0), min(start + stretch, len(x))):
            size = abs(x[i])
            if not size <= MAX_SAMPLE:
                return True
            loudest = max(loudest, size)
        low, peak = min(low, loudest), max(peak, loudest)
    return low * MAX_DYNAMIC_RANGE < peak


@compiled
def _gather(rows: Any, place: Any, count: Any, before: int, out: Any) -> None:
    """Every piece with the samples before it in a row of its own, one row per channel; zeros behind."""
    width = rows.shape[1]
    for p in range(len(place)):
        length = before + count[p]
        for c in range(width):
            row = out[p * width + c]
            for i in range(length):
                row[i] = rows[place[p] - before + i, c]
            row[length:] = 0


@compiled
def _scatter(y: Any, begin: Any, count: Any, before: int, out: Any) -> None:
    """The results of every piece to where it belongs."""
    width = out.shape[1]
    for p in range(len(begin)):
        for c in range(width):
            for i in range(count[p]):
                out[begin[p] + i, c] = y[p * width + c, before + i]
