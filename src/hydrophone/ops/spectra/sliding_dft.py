"""The spectrum of a window that moves by a few samples, from the spectrum before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # scipy.fft is loaded when it is first used

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import COLUMNS_AT_ONCE, Batch, Ints, Segments, Windows
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.model.timebase import Timebases
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.history import Extended
from hydrophone.ops.windows.refusals import refuse_complex
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType, WindowedType

Array = npt.NDArray[Any]

LONGEST_HOP = 4
"""Beyond this many samples an FFT of every window is much cheaper (see docs/windows.md)."""
EVERY = 32
"""Windows from one FFT to the next."""
_QUIET = 1e-3
"""Where the strongest line falls below this share of what it was since the last FFT, rounding would show: an FFT again."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlidingDft(Node):
    """The spectrum of the last `size` samples, every `hop` samples; reference: ``numpy.fft.rfft`` of every window.

    Each line is turned and corrected by the samples that come and go. Every 32 windows (counted on the absolute grid), after a hole, and
    where the signal has become much quieter or is not finite, the spectrum comes from an FFT: so the error stays near rounding.

    Start, gap and end: only whole windows, as ``window(size, hop=hop)``.
    """

    stable_name = "sliding_dft"

    size: int
    hop: int = 1

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """Small steps."""
        if self.size < 2:
            raise ParameterError(f"sliding_dft: size must be at least 2 samples, got {self.size}")
        if not 1 <= self.hop <= min(LONGEST_HOP, self.size - 1):
            raise ParameterError(
                f"sliding_dft: hop must be from 1 to {min(LONGEST_HOP, self.size - 1)} samples, got {self.hop}",
                hint="for longer hops window(size, hop=hop).rfft() is cheaper",
            )

    def output_type(self, x: UniformType) -> WindowedType:
        """Half the values, and complex."""
        refuse_complex("sliding_dft", x.dtype, "use window(...).fft(), which is for complex values")
        if x.channels:
            raise SignalTypeError(
                f"sliding_dft: this signal has {x.channels} channels",
                hint="window(size, hop=hop).rfft() takes all of them; or pick one first: signal.channel(0)",
            )
        length, dtype = self.size // 2 + 1, np.dtype(np.complex128)
        return WindowedType(x.key, x.time, x.clock, dtype, length, self.size, self.hop, x.timebase, lines_of=self.size)

    def reach(self, x: UniformType) -> Reach:
        """The window, and back to the last FFT."""
        return Reach.samples(x.timebase, before=self.size - 1 + EVERY * self.hop)

    def kernel(self, x: UniformType) -> Kernel:
        """Slide."""
        return SlidingDftKernel(self.size, self.hop, x)


class SlidingDftKernel(LookBackKernel):
    """Per key the samples of its last window, that spectrum as it slides, and its largest line since the last FFT."""

    def __init__(self, size: int, hop: int, kind: UniformType) -> None:
        super().__init__(kind, size - 1 + hop, Missing.DROP, np.dtype(np.float64))
        self.size, self.hop = size, hop
        self.turn = np.exp(2j * np.pi * np.arange(size // 2 + 1) / size)
        self.past = SlotArrays(
            y=Field(np.complex128, 0, (size // 2 + 1,)), peak=Field(np.float64), number=Field(np.int64, MIN_TIME)
        )

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """All windows that end inside the runs of the batch."""
        self.past.reserve(len(self.keys))
        start = np.maximum(batch.first - wide.seen, batch.first - self.size + 1)
        start += -start % self.hop
        counts = np.maximum(-((start + self.size - 1 - batch.next) // self.hop), 0)
        if not counts.any():
            return ()
        which = np.repeat(np.arange(len(batch)), counts)
        begin = start[which] + (concat_ranges(start, counts) - start[which]) * self.hop
        at = wide.at[which] - batch.first[which] + begin
        return self._in_turn(batch.slot[which], begin, at, wide.values, batch.base)

    def _in_turn(self, slot: Ints, begin: Ints, at: Ints, values: Array, base: Timebases) -> Iterator[Windows]:
        """A few windows at a time, so that what follows finds them in the cache, and overlap costs no memory."""
        few = max(1, COLUMNS_AT_ONCE // len(self.turn))
        for i in range(0, len(slot), few):
            some = slice(i, i + few)
            spectra = self._spectra(slot[some], begin[some], at[some], values)
            yield Windows(slot[some], begin[some] + self.size - 1, spectra, base)

    def _spectra(self, slot: Ints, begin: Ints, at: Ints, values: Array) -> Array:
        """Spectra of windows that begin at these positions: by FFT where they must, then sliding, then by FFT where that was no good."""
        number = begin // self.hop
        before = np.concatenate([[MIN_TIME], number[:-1]])
        new = np.concatenate([[True], slot[1:] != slot[:-1]])
        before[new] = self.past["number"][slot[new]]
        fresh = (number % EVERY == 0) | (before != number - 1)
        view = np.lib.stride_tricks.sliding_window_view(values, self.size)
        y = np.empty((len(slot), len(self.turn)), np.complex128)
        with np.errstate(all="ignore"):
            y[fresh] = scipy.fft.rfft(view[at[fresh]], axis=1)
        poor = np.zeros(len(slot), np.bool_)
        state = self.past["y"], self.past["peak"], self.past["number"]
        _slide(slot, number, at, fresh, values, self.turn, self.size, self.hop, _QUIET**2, *state, y, poor)
        self.past.touch(slot)
        if poor.any():
            with np.errstate(all="ignore"):
                y[poor] = scipy.fft.rfft(view[at[poor]], axis=1)
        return y


@compiled
def _slide(
    slot: Any,
    number: Any,
    at: Any,
    fresh: Any,
    x: Any,
    turn: Any,
    size: int,
    hop: int,
    quiet: float,
    past: Any,
    peak: Any,
    last: Any,
    y: Any,
    poor: Any,
) -> None:
    """Window after window; those that are not fresh follow from the one before, which the state of the key holds."""
    for w in range(len(slot)):
        s = slot[w]
        line = past[s]
        if fresh[w]:
            for k in range(len(line)):
                line[k] = y[w, k]
            peak[s] = 0.0
        else:
            for i in range(at[w] - hop, at[w]):
                change = x[i + size] - x[i]
                for k in range(len(line)):
                    line[k] = (line[k] + change) * turn[k]
        largest, total = 0.0, 0.0
        for k in range(len(line)):
            power = line[k].real * line[k].real + line[k].imag * line[k].imag
            largest = max(largest, power)
            total += power
        peak[s] = max(peak[s], largest)
        if not fresh[w]:
            for k in range(len(line)):
                y[w, k] = line[k]
            # A sum that is not finite, or much less than there was.
            poor[w] = total - total != 0 or largest < quiet * peak[s]
        last[s] = number[w]
