"""Two windowed signals together: the arrays of both that end at the same sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy  # scipy.fft is loaded when it is first used

from hydrophone.errors import DataError, SignalTypeError
from hydrophone.model.batch import Batch, Segments, Windows
from hydrophone.model.kernel import Kernel
from hydrophone.ops.signals.arithmetic import CombineKernel
from hydrophone.ops.user.calls import call_guarded, name_of
from hydrophone.ops.windows.arrays import Array, _correlation
from hydrophone.ops.windows.refusals import refuse_channels, refuse_labels
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import WindowedType, rate, same_clock

Function = Callable[[Array, Array], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class CombineWindows(Node):
    """A function of the windows of two signals that end at the same sample; a window without a partner gives nothing.

    The function gets two arrays with a row per window, and gives one with as many rows.
    """

    stable_name = "combine_windows"

    function: Function
    what: str = "combine"
    """What the user wrote, for errors."""

    needs = Order.INDEX
    gives = Order.INDEX

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "combine"

    def output_type(self, a: WindowedType, b: WindowedType) -> WindowedType:
        """The same keys and windows; the function is tried on two windows of ones."""
        if a.scope != b.scope:
            raise SignalTypeError(
                f"{self.what}: the signals have different keys: {list(a.key.names)} and {list(b.key.names)}",
                hint="bring both to one key with key_by",
            )
        same_clock(a, b, self.what)
        refuse_channels(self.what, a, b)
        refuse_labels(self.what, a, b)
        if a.timebase != b.timebase:
            raise SignalTypeError(
                f"{self.what}: the signals lie on different grids ({rate(a.timebase)}, {rate(b.timebase)})",
                hint="resample one of them to the rate of the other before it is windowed",
            )
        if (a.size, a.hop) != (b.size, b.hop):
            raise SignalTypeError(
                f"{self.what}: windows of {a.size} samples every {a.hop} do not meet windows of {b.size} every {b.hop}",
                hint="window both with the same size and hop",
            )
        probe = call_on_windows(
            self.what, self.function, np.ones((2, a.length), a.dtype), np.ones((2, b.length), b.dtype)
        )
        return a.with_arrays(probe.dtype, probe.shape[1])

    def kernel(self, a: WindowedType, b: WindowedType) -> Kernel:
        """Match windows."""
        return CombineWindowsKernel(self.what, self.function, self.type)


class CombineWindowsKernel(CombineKernel):
    """Windows that wait for their partner, held as samples that are vectors."""

    def __init__(self, what: str, function: Function, out: WindowedType) -> None:
        super().__init__(lambda a, b: self._called(a, b))
        self.what, self.function, self.out = what, function, out

    def _called(self, a: Array, b: Array) -> Array:
        values = call_on_windows(self.what, self.function, a, b)
        if values.shape[1] != self.out.length or not np.can_cast(values.dtype, self.out.dtype, "same_kind"):
            raise DataError(
                f"{self.what}: {name_of(self.function)} gave {values.dtype}[{values.shape[1]}], "
                f"and {self.out.dtype}[{self.out.length}] when it was tried",
                hint="length and type must not depend on the data",
            )
        return values.astype(self.out.dtype, copy=False)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Match the new windows of one side with the waiting ones of the other."""
        assert isinstance(batch, Windows)
        for out in super().step(port, Segments.of_samples(batch.slot, batch.last, batch.values, batch.base)):
            assert isinstance(out, Segments)
            yield Windows(out.sample_slot, out.sample_index, out.values, out.base)


def call_on_windows(what: str, function: Function, a: Array, b: Array) -> Array:
    """Call a function of two arrays; a wrong shape or an exception names it."""
    values = call_guarded(what, "it gets two arrays with a row per window", function, a, b)
    if values.ndim == 1 and len(values) == len(a):
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(a):
        raise DataError(
            f"{what}: {name_of(function)} turned arrays of shapes {a.shape} and {b.shape} into {values.shape}",
            hint="it must give one row per window",
        )
    return values


# --- functions of two windows that have names of their own ------------------------------------------------------------


def correlate(a: Array, b: Array) -> Array:
    """``numpy.correlate(a, b, "full")`` of every pair of rows: lags from ``1 - n`` to ``n - 1``."""
    return _correlation(a, b)


def cross_spectrum(a: Array, b: Array) -> Array:
    """``conj(a) * b``, as ``scipy.signal.csd`` has it."""
    out: Array = np.conj(a) * b
    return out


def phat(a: Array, b: Array) -> Array:
    """The correlation of `correlate` with every line of its spectrum brought to magnitude one; silence stays silence."""
    n = a.shape[1]
    room = scipy.fft.next_fast_len(2 * n - 1, real=True)
    cross = scipy.fft.rfft(a, room, axis=1) * scipy.fft.rfft(b, room, axis=1).conj()
    size = np.abs(cross)
    white = np.where(size > 0, cross / np.where(size > 0, size, 1), np.where(size == 0, 0, np.nan))
    both = scipy.fft.irfft(white, room, axis=1)
    return np.concatenate([both[:, room - n + 1 :], both[:, :n]], axis=1)


def squared_over(cross: Array, power: Array) -> Array:
    """``abs(cross) ** 2 / power``."""
    out: Array = (cross.real**2 + cross.imag**2) / power
    return out


def over(a: Array, b: Array) -> Array:
    """``a / b``."""
    out: Array = a / b
    return out
