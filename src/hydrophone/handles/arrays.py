"""Operators on the arrays of windows: methods of `Windowed`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hydrophone.handles.query import Query
from hydrophone.ops import pairs
from hydrophone.ops.arrays import (
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
from hydrophone.ops.overlap_add import OverlapAdd, refuse_other_length
from hydrophone.ops.pairs import CombineWindows
from hydrophone.ops.tapers import taper
from hydrophone.ops.unwindow import Unwindow
from hydrophone.ops.window_operator import Apply, WindowOperator, sliding
from hydrophone.ops.windows import MapWindows

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal
    from hydrophone.handles.windowed import Windowed

Numbers = Sequence[float] | np.ndarray[Any, Any]


class Arrays(Query):
    """Methods of `Windowed`."""

    def taper(self, window: str | tuple[Any, ...] | Numbers = "hann") -> Windowed:
        """Weigh every window: a name or tuple for ``scipy.signal.get_window`` (periodic, as for spectra), or an array of weights."""
        return self._then(Multiply, weights=taper(window, self.node.type.length, "taper"), single=True)

    def multiply(self, weights: Numbers) -> Windowed:
        """Multiply every window by the same array, value by value."""
        return self._then(Multiply, weights=tuple(np.asarray(weights).ravel().tolist()))

    def autocorrelate(self) -> Windowed:
        """Every window with itself, at all ``2 * n - 1`` lags: ``numpy.correlate(x, x, "full")``."""
        return self._then(Autocorrelate)

    def cross_correlate(self, other: Windowed) -> Windowed:
        """Every window with the one of another signal that ends at the same sample: ``numpy.correlate(a, b, "full")``."""
        return self._with(other, pairs.correlate, "cross_correlate")

    def convolve(self, taps: Numbers, mode: str = "full") -> Windowed:
        """Every window by itself with taps: ``numpy.convolve(x, taps, mode)``; ``fir`` on the signal has no borders."""
        return self._then(Convolve, taps=tuple(np.asarray(taps).ravel().tolist()), mode=mode)

    def top_k(self, k: int) -> Windowed:
        """Keep the `k` values of largest magnitude (of equal ones the earlier), and set the others to zero."""
        return self._then(TopK, k=int(k))

    def trim_peak(self, around: int = 0) -> Windowed:
        """Set the value of largest magnitude, and so many around it, to zero."""
        return self._then(TrimPeak, around=int(around))

    def select(self, positions: slice | Sequence[int]) -> Windowed:
        """Only the values at these positions of every window, or of a slice of them."""
        picked = range(self.node.type.length)[positions] if isinstance(positions, slice) else positions
        return self._then(SelectValues, positions=tuple(int(p) for p in picked))

    def detrend(self, kind: str = "constant") -> Windowed:
        """Every window less its mean, or with ``"linear"`` less its straight line."""
        return self._then(Detrend, kind=kind)

    def magnitude(self) -> Windowed:
        """Magnitudes of all values."""
        return self._then(Magnitude)

    def power(self) -> Windowed:
        """Squared magnitudes of all values; ``power().mean()`` is one number per window."""
        return self._then(Power)

    def phase(self) -> Windowed:
        """Angles of all values, in radians."""
        return self._then(Phase)

    def combine(self, other: Windowed, function: pairs.Function) -> Windowed:
        """A function of the windows of two signals that end at the same sample: two arrays with a row per window in, one out."""
        return self._with(other, function, "combine")

    def _with(self, other: Windowed, function: pairs.Function, what: str) -> Windowed:
        return self._then(CombineWindows, other, function=function, what=what)

    def apply(self, operator: WindowOperator) -> Windowed:
        """A window operator of one's own; see `hydrophone.WindowOperator`."""
        return self._then(Apply, operator=operator, raw=sliding(self.node))

    def unwindow(self, how: str | Callable[[Any], Any] = "sum") -> UniformSignal:
        """Back to samples: the sum of the windows that meet at a sample, their mean, or what a function makes of them.

        A function gets an array with a row per sample and a column per window, the oldest first, NaN where there is none.
        """
        refuse_other_length(self.node.type, "unwindow")
        named = how if isinstance(how, str) else ""  # an expression would not be compared
        if named == "sum":
            return self._then(OverlapAdd)
        if named == "mean":
            counts: Query = self._then(MapWindows, function=_ones)
            whole = self.node.type.dtype.kind in "iu"  # their sums may have no room in a narrow type
            parts: Query = self._then(MapWindows, function=_doubles) if whole else self
            total: UniformSignal = parts._then(OverlapAdd)
            return total / counts._then(OverlapAdd)
        return self._then(Unwindow, function=how)


def _ones(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ones(windows.shape)


def _doubles(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return windows.astype(np.float64)
