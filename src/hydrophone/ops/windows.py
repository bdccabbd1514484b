"""Windows: from samples to arrays, array operators, and back by overlap-add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import scipy.fft

from hydrophone.batch import AT_ONCE, Batch, Ints, Mask, Segments, Windows
from hydrophone.errors import DataError, ParameterError, PlanError, SignalTypeError
from hydrophone.kernel import Kernel, Marks, Stateless
from hydrophone.marks import Mark, of
from hydrophone.ops.calls import guarded, name_of
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import History
from hydrophone.ops.signals import check_number
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType, WindowedType
from hydrophone.state import Field, SlotArrays
from hydrophone.time import MIN_TIME
from hydrophone.timebase import Timebases


@dataclass(frozen=True, kw_only=True, eq=False)
class Window(Node):
    """Arrays of `size` samples, every `hop` samples; their last samples lie at ``size - 1 + m * hop`` on the absolute grid.

    ``drop`` gives the windows all of whose samples are there. ``zero`` gives every window that holds at least one
    sample, with zeros where there is none:
    also those that begin before the first or end after the last sample.
    """

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
                hint='use missing="drop", or sample to a common period first',
            )
        return WindowedType(x.key, x.time, x.clock, x.dtype, self.size, self.size, self.hop, x.timebase, x.channels)

    def reach(self, x: UniformType) -> Reach:
        """A window is owned by its last instant."""
        return Reach.samples(x.timebase, before=self.size - 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Cut."""
        return WindowKernel(self.size, self.hop, self.missing, x)


FEW = 1 << 15
"""Samples that are sooner copied behind the history of their keys than cut in two steps."""


class WindowKernel(Kernel):
    """The last ``size - 1`` samples per key; with ``zero`` also the next window end that the key owes."""

    keyed = True

    def __init__(self, size: int, hop: int, missing: Missing, kind: UniformType) -> None:
        self.size, self.hop, self.missing = size, hop, missing
        self.grids = Grids(kind.timebase)
        self.few = max(1, AT_ONCE // (size * max(kind.channels, 1)))
        self.history = History(size - 1, kind.dtype, kind.channels, missing)
        self.owed = SlotArrays(end=Field(np.int64, MIN_TIME))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """All windows that end inside the runs of the batch, or (``zero``) in the holes before them."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        large = len(batch.values) > FEW
        if large and self.missing is not Missing.ZERO and (batch.slot[1:] > batch.slot[:-1]).all():
            return self._straight(batch)
        self.owed.reserve(len(self.keys))
        wide = self.history.extend(batch, len(self.keys))
        ripe = batch.first if self.missing is Missing.ZERO else batch.first + self.history.size - wide.seen
        start, at = self._grid(ripe), wide.at - batch.first
        stop, slot = batch.next, batch.slot
        if self.missing is Missing.ZERO:
            start, stop, at, slot = self._with_holes(batch, wide.due, wide.pad, wide.end, start, at)
        return self._cut(slot, start, stop, at, wide.values, batch.base)

    def _straight(self, batch: Segments) -> Iterator[Windows]:
        """Every key has one run: first the windows that begin before it, then those inside, which are not copied."""
        seams, size = self.history.seams(batch, len(self.keys)), self.history.size
        whole = batch.first + size
        start, stop = self._grid(whole - seams.seen), np.minimum(whole, batch.next)
        yield from self._cut(batch.slot, start, stop, seams.at - batch.first, seams.values, batch.base)
        inside = batch.offsets[:-1] - batch.first
        yield from self._cut(batch.slot, self._grid(whole), batch.next, inside, batch.values, batch.base)

    def _with_holes(
        self, batch: Segments, due: Ints, pad: Ints, end: Ints, start: Ints, at: Ints
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Before the windows of each run, those that end in the pad before it and were not given by `advance` already."""
        known = due > MIN_TIME
        hole = np.where(known, due, 0)
        hole_start = self._grid(np.maximum(hole, self.owed["end"][batch.slot]))
        both = [
            np.stack(pair, axis=1).reshape(-1)
            for pair in (
                (hole_start, start),
                (np.where(known, hole + pad, hole_start), batch.next),
                (end - hole, at),
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
        stop = np.minimum(due + self.history.size, base.index_from_mark(slot, of(marks[0], slot)))
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

    def idle(self, marks: Marks) -> Mask:
        """Keys that have been silent for a whole window."""
        return self.history.idle(self.grids, len(self.keys), marks[0])

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
        if not even or not values.flags.c_contiguous:
            return np.lib.stride_tricks.sliding_window_view(values, self.size, axis=0)[begin]
        step, *between = values.strides
        shape = (len(begin), *values.shape[1:], self.size)
        view = np.ndarray(shape, values.dtype, values[begin[0] :], 0, (step * self.hop, *between, step))
        view.flags.writeable = False  # windows share samples
        return view


@numba.njit(cache=True, nogil=True)
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


def spectrum_dtype(values: np.dtype[Any]) -> np.dtype[Any]:
    """What SciPy transforms these values to: single precision stays so, whole numbers of any width become double."""
    return np.dtype(scipy.fft.fft(np.zeros(1, values)).dtype)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rfft(Node):
    """Spectrum of real windows; reference: ``numpy.fft.rfft``."""

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """Half the values, and complex."""
        if x.dtype.kind == "c":
            raise SignalTypeError("rfft: the windows are complex", hint="use fft, which is for complex values")
        return replace(x, dtype=spectrum_dtype(x.dtype), length=x.length // 2 + 1)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.rfft)


@dataclass(frozen=True, kw_only=True, eq=False)
class Irfft(Node):
    """Real windows from their spectrum; reference: ``numpy.fft.irfft`` with the window's size."""

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """As many real values as the window has samples."""
        if x.length != x.size // 2 + 1:
            raise SignalTypeError(
                f"irfft: expected {x.size // 2 + 1} values for windows of {x.size} samples, got {x.length}",
                hint="irfft undoes rfft",
            )
        return replace(x, dtype=np.dtype(np.float32 if x.dtype == np.complex64 else np.float64), length=x.size)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.irfft, x.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fft(Node):
    """Full spectrum of windows; reference: ``numpy.fft.fft``."""

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """Complex."""
        return replace(x, dtype=spectrum_dtype(x.dtype))

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.fft)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ifft(Node):
    """Windows from their full spectrum; reference: ``numpy.fft.ifft``. The result is complex."""

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """Complex."""
        return replace(x, dtype=spectrum_dtype(x.dtype))

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.ifft)


class Rows(Stateless):
    """A transform of every row by itself: a NaN in one key's window stays there."""

    def __init__(self, transform: Callable[..., Any], length: int | None = None) -> None:
        self.transform, self.length = transform, length

    def map(self, batch: Batch) -> Batch:
        """Transform one batch."""
        assert isinstance(batch, Windows)
        if len(batch):
            return batch.with_values(self.transform(batch.values, n=self.length, axis=-1))
        one = np.ones_like(batch.values, shape=(1, *batch.values.shape[1:]))
        return batch.with_values(self.transform(one, n=self.length, axis=-1)[:0])


@dataclass(frozen=True, kw_only=True, eq=False)
class MapWindows(Node):
    """A user's function over windows: it gets a two-dimensional array with a row per window, and gives one with as many rows.

    Of windows with channels every channel is a row of its own.
    """

    function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "map"

    def output_type(self, x: WindowedType) -> WindowedType:
        """The function is tried on two windows of zeros."""
        probe = apply(self.function, np.zeros((2, x.length), x.dtype))
        return replace(x, dtype=probe.dtype, length=probe.shape[1])

    def kernel(self, x: WindowedType) -> Kernel:
        """Call it."""
        return MapWindowsKernel(self.function, self.type)


class MapWindowsKernel(Stateless):
    """Calls the function and checks what comes back."""

    def __init__(self, function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], out: WindowedType) -> None:
        self.function, self.out = function, out

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Windows)
        if not len(batch):
            return batch.with_rows(np.zeros((0, self.out.length), self.out.dtype))
        values = apply(self.function, batch.rows)
        if values.shape[1] != self.out.length:
            raise DataError(
                f"map: {name_of(self.function)} gave windows of {values.shape[1]} values, and {self.out.length} when it was tried",
                hint="the length must not depend on the data; fill up with zeros",
            )
        if not np.can_cast(values.dtype, self.out.dtype, "same_kind"):
            raise DataError(
                f"map: {name_of(self.function)} gave {values.dtype}, and {self.out.dtype} when it was tried",
                hint="the type must not depend on the data; end with .astype(...)",
            )
        return batch.with_rows(values.astype(self.out.dtype, copy=False))


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowChannel(Node):
    """One channel of windows; reference: ``windows[:, number]``."""

    number: int

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "channel"

    def output_type(self, x: WindowedType) -> WindowedType:
        """Without channels."""
        check_number(self.number)
        if not 0 <= self.number < max(x.channels, 1):
            raise ParameterError(f"channel: no channel {self.number}; these windows have {max(x.channels, 1)}")
        return replace(x, channels=0)

    def kernel(self, x: WindowedType) -> Kernel:
        """A view."""
        return WindowChannelKernel(self.number)


class WindowChannelKernel(Stateless):
    """Picks an array."""

    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, batch: Batch) -> Batch:
        """A view of one batch."""
        assert isinstance(batch, Windows)
        return batch.with_values(batch.values[:, self.number]) if batch.values.ndim == 3 else batch


def refuse_labels(what: str, *kinds: WindowedType) -> None:
    """An error for operators to which windows that end at one sample would be the same."""
    for x in kinds:
        if x.labels:
            raise SignalTypeError(
                f"{what}: these windows carry columns of events ({', '.join(x.labels.names)})",
                hint="leave out columns= of epochs, or do this before the windows are cut",
            )


def refuse_channels(what: str, *kinds: WindowedType) -> None:
    """An error for operators whose windows have one array each."""
    for x in kinds:
        if x.channels:
            raise SignalTypeError(
                f"{what}: these windows have {x.channels} channels",
                hint="pick one first: channel(0), of the windows or of their signal",
            )


def apply(function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], windows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Call a user's window function; a wrong shape or an exception names the function."""
    values = guarded("map", "it gets an array with a row per window", function, windows)
    if values.ndim == 1 and len(values) == len(windows):
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(windows):
        raise DataError(
            f"map: {name_of(function)} turned an array of shape {windows.shape} into {values.shape}",
            hint="it must give one row per window; reduce along axis 1",
        )
    return values
