"""Operators on the arrays of windows, each row by itself: tapers, products, correlations, the strongest values, magnitudes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # scipy.fft is loaded when it is first used

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Windows
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.ops.windows.transforms import spectrum_dtype
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import WindowedType

Array = npt.NDArray[Any]


_DIRECT = 64
"""Up to this length sums of products are taken one by one; above it an FFT is cheaper."""


class RowByRow:
    """What operators share that turn every window into another one: the type is that of the answer for two windows of ones.

    Of windows with channels every channel is a row of its own.
    """

    gives: ClassVar[Order | None] = None

    def rows(self, windows: Array) -> Array:
        """Many windows at once, a row each."""
        raise NotImplementedError

    def accept(self, x: WindowedType) -> None:
        """Refuse windows that this operator cannot take."""

    def output_type(self, x: WindowedType) -> WindowedType:
        """As the answer."""
        self.accept(x)
        probe = self._quiet(np.ones((2, x.length), x.dtype))
        return x.with_arrays(probe.dtype, probe.shape[1])

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return RowByRowKernel(self)

    def _quiet(self, windows: Array) -> Array:
        with np.errstate(all="ignore"):
            return self.rows(windows)


class RowByRowKernel(Stateless):
    """Calls the operator's function of arrays."""

    def __init__(self, operator: RowByRow) -> None:
        self.operator = operator

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Windows)
        return batch.with_rows(self.operator._quiet(batch.rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class Multiply(RowByRow, Node):
    """Value by value with the same weights in every window; reference: ``windows * weights``."""

    stable_name = "multiply"

    weights: tuple[float | complex, ...]
    single: bool = False
    """Whether weights count as single precision, so that they do not widen such windows."""

    def accept(self, x: WindowedType) -> None:
        """As many weights as values."""
        if len(self.weights) != x.length:
            raise ParameterError(
                f"multiply: {len(self.weights)} weights for windows of {x.length} values",
                hint="give one weight per value",
            )
        if not np.isfinite(self.weights).all():
            raise ParameterError("multiply: all weights must be finite")

    def rows(self, windows: Array) -> Array:
        """Multiply."""
        weights = np.asarray(self.weights)
        if self.single and windows.dtype in (np.float32, np.complex64):
            weights = weights.astype(np.float32 if weights.dtype.kind == "f" else np.complex64)
        out: Array = windows * weights
        return out


def _correlation(a: Array, b: Array) -> Array:
    """``numpy.correlate(a, b, "full")`` of every pair of rows of equal length."""
    n = a.shape[1]
    dtype = np.result_type(spectrum_dtype(a.dtype), spectrum_dtype(b.dtype))
    if a.dtype.kind != "c" and b.dtype.kind != "c":
        dtype = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    same = a is b
    a = a.astype(dtype, copy=False)
    b = a if same else b.astype(dtype, copy=False)
    if n <= _DIRECT:
        return _direct_correlation(a, b)
    uneven = _uneven(a) if a is b else _uneven(a) | _uneven(b)
    if not uneven.any():
        return _fft_correlation(a, b)
    out = np.empty((len(a), 2 * n - 1), dtype)
    out[uneven], out[~uneven] = _direct_correlation(a[uneven], b[uneven]), _fft_correlation(a[~uneven], b[~uneven])
    return out


def _direct_correlation(a: Array, b: Array) -> Array:
    n = a.shape[1]
    out = np.empty((len(a), 2 * n - 1), a.dtype)
    for lag in range(1 - n, n):
        left, right = a[:, max(lag, 0) : n + min(lag, 0)], b[:, max(-lag, 0) : n - max(lag, 0)]
        out[:, n - 1 + lag] = (left * right.conj()).sum(axis=1)
    return out


def _fft_correlation(a: Array, b: Array) -> Array:
    n, dtype = a.shape[1], a.dtype
    if not len(a):
        return np.empty((0, 2 * n - 1), dtype)
    room = scipy.fft.next_fast_len(2 * n - 1, real=dtype.kind != "c")
    forth: Callable[..., Array] = scipy.fft.fft if dtype.kind == "c" else scipy.fft.rfft
    back: Callable[..., Array] = scipy.fft.ifft if dtype.kind == "c" else scipy.fft.irfft
    left = forth(a, room, axis=1)
    right = left if a is b else forth(b, room, axis=1)
    both = back(left * right.conj(), room, axis=1)
    return np.concatenate([both[:, room - n + 1 :], both[:, :n]], axis=1)


def _uneven(x: Array) -> Array:
    """Rows with values that are not finite or huge, or whose largest value is far above most others: an FFT would spread these."""
    size, n = np.abs(x), x.shape[1]
    peak, low = size.max(axis=1), np.partition(size, n // 10, axis=1)[:, n // 10]
    zeros = n - np.count_nonzero(size, axis=1)
    if zeros.any():
        tenth = np.minimum(zeros + (n - zeros) // 10, n - 1)  # of those that are not zero
        rows = np.flatnonzero(zeros)
        low[rows] = np.take_along_axis(np.sort(size[rows], axis=1), tenth[rows, None], axis=1)[:, 0]
    return ~(peak <= _limit(x)) | (peak > _range(x) * low)


def _range(x: Array) -> float:
    """By how much the largest values of a row may exceed others: an FFT spreads their rounding errors over all of it."""
    return 1e4 if x.dtype in (np.float64, np.complex128) else 300.0


def _limit(x: Array) -> float:
    """Products of larger values could overflow inside an FFT, and with them the whole row."""
    return 1e100 if x.dtype in (np.float64, np.complex128) else 1e15


@dataclass(frozen=True, kw_only=True, eq=False)
class Autocorrelate(RowByRow, Node):
    """Every window with itself at all lags, ``2 * n - 1`` values; reference: ``numpy.correlate(x, x, "full")``.

    Windows of more than 64 values go through an FFT: the error is then relative to the energy of the window. Windows with values that
    are not finite, or that stand far above the others, do not: there every sum of products is taken by itself.
    """

    stable_name = "autocorrelate"

    def rows(self, windows: Array) -> Array:
        """Correlate."""
        return _correlation(windows, windows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Convolve(RowByRow, Node):
    """Every window by itself with taps; reference: ``numpy.convolve(x, taps, mode)``.

    With more than 64 taps the products go through an FFT (``scipy.signal.fftconvolve``), whose error is relative to the largest value.
    Windows with values that are not finite, or with stretches far below the largest value, do not: NaN reaches as far as the taps.
    """

    stable_name = "convolve"

    taps: tuple[float | complex, ...]
    mode: str = "full"

    def check(self) -> None:
        """Finite taps."""
        if not self.taps or not np.isfinite(self.taps).all():
            raise ParameterError("convolve: taps must hold at least one number, all finite")
        if self.mode not in ("full", "same", "valid"):
            raise ParameterError(f"convolve: mode must be one of 'full', 'same', 'valid', got {self.mode!r}")

    def accept(self, x: WindowedType) -> None:
        """Not longer than the window, where the mode says so."""
        if self.mode != "full" and len(self.taps) > x.length:
            raise ParameterError(
                f"convolve: mode {self.mode!r} needs at most as many taps as values ({x.length}), got {len(self.taps)}",
                hint='mode="full" takes any number of taps',
            )

    def rows(self, windows: Array) -> Array:
        """Convolve."""
        taps, n = np.asarray(self.taps), windows.shape[1]
        dtype = np.result_type(windows.dtype, taps.dtype, np.float32)
        full = _convolved(windows.astype(dtype, copy=False), taps.astype(dtype))
        if self.mode == "full":
            return full
        length = n if self.mode == "same" else n - len(taps) + 1
        begin = (full.shape[1] - length) // 2
        return full[:, begin : begin + length]


def _convolved(windows: Array, taps: Array) -> Array:
    """``numpy.convolve(row, taps)`` of every row: by an FFT where it is cheaper and as good."""
    if len(taps) <= _DIRECT:
        return _direct_convolution(windows, taps)
    import scipy.ndimage  # slow to load, and rarely needed
    import scipy.signal

    size = np.abs(windows)
    peak = size.max(axis=1, initial=0)
    # The largest value under the taps, for every sum; where it is zero the sum is.
    wide = np.pad(size, ((0, 0), (0, len(taps) - 1)))
    near = scipy.ndimage.maximum_filter1d(wide, len(taps), axis=1, mode="constant", origin=(len(taps) - 1) // 2)
    quiet = (near > 0) & (near * _range(windows) < peak[:, None])
    direct = ~(peak <= _limit(windows)) | quiet.any(axis=1)
    out = np.empty((len(windows), windows.shape[1] + len(taps) - 1), windows.dtype)
    out[direct] = _direct_convolution(windows[direct], taps)
    if not direct.all():
        out[~direct] = scipy.signal.fftconvolve(windows[~direct], taps[None], axes=1)
        out[~direct] = np.where(near[~direct] > 0, out[~direct], 0)
    return out


def _direct_convolution(windows: Array, taps: Array) -> Array:
    n = windows.shape[1]
    out = np.zeros((len(windows), n + len(taps) - 1), windows.dtype)
    for k, tap in enumerate(taps):
        out[:, k : k + n] += tap * windows
    return out


@dataclass(frozen=True, kw_only=True, eq=False)
class TopK(RowByRow, Node):
    """The `k` values of largest magnitude stay, all others become zero.

    Reference: ``numpy.argsort(-abs(x), kind="stable")[:k]``. Of equal magnitudes the earlier values stay. NaN counts as the
    largest of all, so that a bad window cannot look like a good one.
    """

    stable_name = "top_k_values"

    k: int

    def check(self) -> None:
        """At least one."""
        if self.k < 1:
            raise ParameterError(f"top_k: k must be at least 1, got {self.k}")

    def rows(self, windows: Array) -> Array:
        """Choose."""
        if self.k >= windows.shape[1]:
            return windows
        size = np.abs(windows) if windows.dtype.kind in "fc" else np.abs(windows.astype(np.float64))
        if size.dtype.kind == "f":
            size[np.isnan(size)] = np.inf
        least = np.partition(size, -self.k, axis=1)[:, -self.k, None]
        best = size >= least
        many = np.flatnonzero(np.count_nonzero(best, axis=1) > self.k)
        if len(many):  # of those that are equal to the least, the first
            equal, more = size[many] == least[many], size[many] > least[many]
            room = self.k - np.count_nonzero(more, axis=1)[:, None]
            best[many] = more | (equal & (np.cumsum(equal, axis=1) <= room))
        return np.where(best, windows, windows.dtype.type(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectValues(RowByRow, Node):
    """The values at some positions of every window; reference: ``windows[:, positions]``."""

    stable_name = "select_values"

    positions: tuple[int, ...]

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "select"

    def accept(self, x: WindowedType) -> None:
        """Positions that are there."""
        wrong = [p for p in self.positions if not -x.length <= p < x.length]
        if wrong or not self.positions:
            raise ParameterError(
                f"select: no position {wrong[0]}; these windows have {x.length} values"
                if wrong
                else f"select: this leaves none of the {x.length} values",
                hint="positions count from 0, or from the end as -1, -2, …",
            )

    def rows(self, windows: Array) -> Array:
        """Pick."""
        return windows[:, list(self.positions)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Magnitude(RowByRow, Node):
    """Magnitudes; reference: ``numpy.abs``."""

    stable_name = "magnitude"

    def rows(self, windows: Array) -> Array:
        """Magnitudes."""
        out: Array = np.abs(windows)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Power(RowByRow, Node):
    """Squared magnitudes, of whole numbers as doubles; reference: ``numpy.abs(x) ** 2``."""

    stable_name = "power"

    def rows(self, windows: Array) -> Array:
        """Squares."""
        if windows.dtype.kind == "c":
            out: Array = windows.real**2 + windows.imag**2
            return out
        return np.square(windows if windows.dtype.kind == "f" else windows.astype(np.float64))


@dataclass(frozen=True, kw_only=True, eq=False)
class Phase(RowByRow, Node):
    """Angles in radians, from -pi to pi; reference: ``numpy.angle``."""

    stable_name = "phase"

    def rows(self, windows: Array) -> Array:
        """Angles."""
        out: Array = np.angle(windows)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class TrimPeak(RowByRow, Node):
    """The value of largest magnitude and `around` values on either side become zero.

    Definition: with ``p = numpy.argmax(abs(x))`` (the first of equals; a NaN is the largest), ``x[p - around : p + around + 1] = 0``.
    """

    stable_name = "trim_peak"

    around: int = 0

    def check(self) -> None:
        """Not negative."""
        if self.around < 0:
            raise ParameterError(f"trim_peak: around must not be negative, got {self.around}")

    def rows(self, windows: Array) -> Array:
        """Find and clear."""
        size = np.abs(windows) if windows.dtype.kind in "fc" else np.abs(windows.astype(np.float64))
        peak = np.argmax(np.where(np.isnan(size), np.inf, size), axis=1)
        near = np.abs(np.arange(windows.shape[1])[None, :] - peak[:, None]) <= self.around
        return np.where(near, windows.dtype.type(0), windows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Detrend(RowByRow, Node):
    """Every window less its mean (``constant``) or its straight line (``linear``); reference: ``scipy.signal.detrend(x, type=kind)``."""

    stable_name = "detrend"

    kind: str = "constant"

    def check(self) -> None:
        """A kind that exists."""
        if self.kind not in ("constant", "linear"):
            raise ParameterError(f"detrend: kind must be 'constant' or 'linear', got {self.kind!r}")

    def rows(self, windows: Array) -> Array:
        """Subtract."""
        x = windows if windows.dtype.kind in "fc" else windows.astype(np.float64)
        mean = x.mean(axis=1, keepdims=True)
        if self.kind == "constant" or x.shape[1] < 2:
            out: Array = x - mean
            return out
        line = np.arange(x.shape[1]) - (x.shape[1] - 1) / 2
        line = (line / np.sqrt((line**2).sum())).astype(x.real.dtype)
        slope = (x * line).sum(axis=1, keepdims=True)
        return np.asarray(x - mean - slope * line)
