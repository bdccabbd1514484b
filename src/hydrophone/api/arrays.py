"""Operators on the arrays of windows: methods of `Windowed`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Self

import numpy as np

from hydrophone.api.query import Query, UniformT
from hydrophone.errors import ParameterError
from hydrophone.ops.coefficients import check_coefficients
from hydrophone.ops.user.window_operator import Apply, WindowOperator, is_sliding
from hydrophone.ops.windows import combine_windows as pairs
from hydrophone.ops.windows.arrays import (
    Autocorrelate,
    Convolve,
    Detrend,
    Magnitude,
    Multiply,
    Phase,
    Power,
    SelectValues,
    TopK,
    TrimPeak,
)
from hydrophone.ops.windows.combine_windows import CombineWindows
from hydrophone.ops.windows.map_windows import MapWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd, refuse_other_length
from hydrophone.ops.windows.tapers import taper
from hydrophone.ops.windows.unwindow import Unwindow

Numbers = Sequence[float] | np.ndarray[Any, Any]


class Arrays(Query, Generic[UniformT]):
    """Methods of `Windowed`."""

    def taper(self, window: str | tuple[Any, ...] | Numbers = "hann") -> Self:
        """Weigh every window: a name or tuple for ``scipy.signal.get_window`` (periodic, as for spectra), or an array of weights."""
        return self._then(Multiply, weights=taper(window, self.node.type.length, "taper"), single=True)

    def multiply(self, weights: Numbers) -> Self:
        """Multiply every window by the same array, value by value."""
        return self._then(Multiply, weights=tuple(check_coefficients(weights, "multiply: weights").tolist()))

    def autocorrelate(self) -> Self:
        """Every window with itself, at all ``2 * n - 1`` lags: ``numpy.correlate(x, x, "full")``."""
        return self._then(Autocorrelate)

    def cross_correlate(self, other: Self) -> Self:
        """Every window with the one of another signal that ends at the same sample: ``numpy.correlate(a, b, "full")``."""
        return self._with(other, pairs.correlate, "cross_correlate")

    def convolve(self, taps: Numbers, mode: str = "full") -> Self:
        """Every window by itself with taps: ``numpy.convolve(x, taps, mode)``; ``fir`` on the signal has no borders."""
        return self._then(Convolve, taps=tuple(check_coefficients(taps, "convolve: taps").tolist()), mode=mode)

    def top_k(self, k: int) -> Self:
        """Keep the `k` values of largest magnitude (of equal ones the earlier), and set the others to zero."""
        return self._then(TopK, k=k)

    def trim_peak(self, around: int = 0) -> Self:
        """Set the value of largest magnitude, and so many around it, to zero."""
        return self._then(TrimPeak, around=around)

    def select(self, positions: slice | Sequence[int]) -> Self:
        """Only the values at these positions of every window, or of a slice of them."""
        if not isinstance(positions, slice | Iterable):
            raise ParameterError(
                f"select: positions must be a slice or a list of whole numbers, got {positions!r}",
                hint="select([3]), or select(slice(0, 8))",
            )
        try:
            picked = range(self.node.type.length)[positions] if isinstance(positions, slice) else positions
        except (TypeError, ValueError) as error:
            raise ParameterError(f"select: {positions!r} cannot be used: {error}", hint="select(slice(0, 8))") from None
        return self._then(SelectValues, positions=tuple(picked))

    def detrend(self, kind: str = "constant") -> Self:
        """Every window less its mean, or with ``"linear"`` less its straight line."""
        return self._then(Detrend, kind=kind)

    def magnitude(self) -> Self:
        """Magnitudes of all values."""
        return self._then(Magnitude)

    def power(self) -> Self:
        """Squared magnitudes of all values; ``power().mean()`` is one number per window."""
        return self._then(Power)

    def phase(self) -> Self:
        """Angles of all values, in radians."""
        return self._then(Phase)

    def combine(self, other: Self, function: pairs.Function) -> Self:
        """A function of the windows of two signals that end at the same sample: two arrays with a row per window in, one out."""
        return self._with(other, function, "combine")

    def _with(self, other: Self, function: pairs.Function, what: str) -> Self:
        return self._then(CombineWindows, other, function=function, what=what)

    def apply(self, operator: WindowOperator) -> Self:
        """A user-defined window operator; see `hydrophone.WindowOperator`."""
        return self._then(Apply, operator=operator, raw=is_sliding(self.node))

    def unwindow(self, how: str | Callable[[Any], Any] = "sum") -> UniformT:
        """Back to samples: the sum of the windows that meet at a sample, their mean, or what a function makes of them.

        A function gets an array with a row per sample and a column per window, the oldest first, NaN where there is none.
        """
        refuse_other_length(self.node.type, "unwindow")
        named = how if isinstance(how, str) else ""  # an expression would not be compared
        if named == "sum":
            return self._then(OverlapAdd)
        if named == "mean":
            counts: Query = self._then(MapWindows, function=_ones)
            narrow = self.node.type.dtype not in (np.float64, np.complex128)  # sums may have no room, or too few digits
            parts: Query = self._then(MapWindows, function=_doubles) if narrow else self
            return parts._then(OverlapAdd) / counts._then(OverlapAdd)
        return self._then(Unwindow, function=how)

    def dewindow(self) -> UniformT:
        """Back to the samples of windows that do not overlap, as `rewindow` made them; between them are holes."""
        kind = self.node.type
        if kind.hop < kind.size:
            raise ParameterError(
                f"dewindow: windows of {kind.size} samples every {kind.hop} overlap",
                hint='unwindow("mean") takes the mean where they do',
            )
        return self.unwindow("sum")


def _ones(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ones(windows.shape)


def _doubles(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return windows.astype(np.result_type(windows.dtype, np.float64))
