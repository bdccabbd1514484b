"""Filters made by a formula or by SciPy's designs: all of them are a `fir`, an `sos` or an `iir` in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.handles.filters import Filters
from hydrophone.handles.lengths import hertz, rate, samples
from hydrophone.ops.iir import Iir
from hydrophone.plan.types import Missing

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal

Numbers = Sequence[float] | Sequence[complex] | np.ndarray[Any, Any]


class Designs(Filters):
    """Methods of `UniformSignal`. At start, gap and end they behave as the `fir` or `sos` that they build."""

    def iir(self, b: Numbers, a: Numbers, *, missing: str = "zero", initial: str = "rest") -> UniformSignal:
        """A recursive filter by its two polynomials, as ``scipy.signal.lfilter(b, a, x)``; of high order better as `sos`.

        ``initial="steady"`` starts as if the first sample had been there for ever, see `sos`.
        """
        kind = Missing.of(missing, "iir", (Missing.ZERO, Missing.RESET))
        return self._then(Iir, b=_numbers(b), a=_numbers(a), missing=kind, initial=initial)

    def convolve(self, taps: Numbers, *, missing: str = "zero") -> UniformSignal:
        """``numpy.convolve(x, taps)`` as far as there are samples: the same as `fir`."""
        return self.fir(finite_taps(taps, "convolve: taps"), missing=missing)

    def correlate(self, pattern: Numbers, *, missing: str = "zero") -> UniformSignal:
        """The last samples times a pattern, ``y[n] = sum(conj(pattern) * x[n - len(pattern) + 1 : n + 1])``.

        A `fir` whose taps are the conjugate of the pattern, backwards; with ``missing="drop"`` it is
        ``numpy.correlate(x, pattern, "valid")``, each value at the sample where the pattern ends.
        """
        return self.fir(finite_taps(pattern, "correlate: pattern")[::-1].conj(), missing=missing)

    def matched_filter(self, template: Numbers, *, missing: str = "zero") -> UniformSignal:
        """`correlate` with a template of unit energy: white noise keeps its level, and the template peaks at the root of its energy."""
        taps = finite_taps(template, "matched_filter: template")
        norm = float(np.sqrt(np.sum(np.abs(taps) ** 2)))
        if norm == 0:
            raise ParameterError("matched_filter: template is all zero")
        return self.fir((taps / norm)[::-1].conj(), missing=missing)

    def single_pole(self, alpha: float, *, missing: str = "zero", initial: str = "rest") -> UniformSignal:
        """``scipy.signal.lfilter([alpha], [1, alpha - 1], x)``: as `ema`, but it starts at rest, and a hole counts as zeros."""
        if not 0 < alpha <= 1:
            raise ParameterError(f"single_pole: alpha must be above 0 and at most 1, got {alpha!r}")
        return self.sos([[alpha, 0, 0, 1, alpha - 1, 0]], missing=missing, initial=initial)

    def dc_block(self, r: float = 0.995, *, missing: str = "zero", initial: str = "rest") -> UniformSignal:
        """Take away what stays constant, as ``scipy.signal.lfilter([1, -1], [1, -r], x)``; nearer to 1 takes away less else."""
        if not 0 <= r < 1:
            raise ParameterError(f"dc_block: r must be at least 0 and below 1, got {r!r}")
        return self.sos([[1, -1, 0, 1, -r, 0]], missing=missing, initial=initial)

    def notch(
        self, freq: float | str, q: float = 30.0, *, missing: str = "zero", initial: str = "rest"
    ) -> UniformSignal:
        """Take away one frequency, as ``scipy.signal.iirnotch(freq, q, fs)``; `q` is the frequency over the width of the notch."""
        import scipy.signal

        at = hertz(freq, self.node.type, "notch: freq")
        if not q > 0:
            raise ParameterError(f"notch: q must be positive, got {q!r}")
        b, a = scipy.signal.iirnotch(at, q, rate(self.node.type, "notch"))
        return self.sos([[*b, *a]], missing=missing, initial=initial)

    def lowpass(
        self,
        cutoff: float | str,
        order: int = 4,
        *,
        taps: int | None = None,
        missing: str = "zero",
        initial: str = "rest",
    ) -> UniformSignal:
        """Keep what is slower than `cutoff` (Hz, or text such as ``"1kHz"``): ``scipy.signal.butter(order, cutoff, fs=rate)``.

        With `taps` it is ``scipy.signal.firwin(taps, cutoff, fs=rate)`` instead, which delays by ``(taps - 1) / 2`` samples.
        With ``initial="steady"`` the first starts as if its first sample had been there for ever instead of zeros, see `sos`.
        """
        return self._design("lowpass", [cutoff], order, taps, missing, initial)

    def highpass(
        self,
        cutoff: float | str,
        order: int = 4,
        *,
        taps: int | None = None,
        missing: str = "zero",
        initial: str = "rest",
    ) -> UniformSignal:
        """Keep what is faster than `cutoff`; see `lowpass`."""
        return self._design("highpass", [cutoff], order, taps, missing, initial)

    def bandpass(
        self,
        low: float | str,
        high: float | str,
        order: int = 4,
        *,
        taps: int | None = None,
        missing: str = "zero",
        initial: str = "rest",
    ) -> UniformSignal:
        """Keep what lies between two frequencies; see `lowpass`."""
        return self._design("bandpass", [low, high], order, taps, missing, initial)

    def bandstop(
        self,
        low: float | str,
        high: float | str,
        order: int = 4,
        *,
        taps: int | None = None,
        missing: str = "zero",
        initial: str = "rest",
    ) -> UniformSignal:
        """Take away what lies between two frequencies; see `lowpass`."""
        return self._design("bandstop", [low, high], order, taps, missing, initial)

    def _design(
        self, kind: str, edges: Sequence[float | str], order: int, taps: int | None, missing: str, initial: str
    ) -> UniformSignal:
        import scipy.signal

        at = [hertz(e, self.node.type, f"{kind}: cutoff" if len(edges) == 1 else f"{kind}: edge") for e in edges]
        if sorted(set(at)) != at:
            raise ParameterError(f"{kind}: the lower edge must come first, got {edges[0]!r} and {edges[1]!r}")
        fs, cut = rate(self.node.type, kind), at if len(at) > 1 else at[0]
        if taps is not None:
            if initial != "rest":
                raise ParameterError(
                    f"{kind}: initial={initial!r} is for the recursive filter, and taps= makes one without feedback",
                    hint='missing="drop" gives nothing until all taps have a sample',
                )
            if taps < 1 or (taps % 2 == 0 and kind in ("highpass", "bandstop")):
                raise ParameterError(
                    f"{kind}: taps must be at least 1 (and odd for highpass and bandstop), got {taps!r}",
                    hint="with an even number nothing of half the rate can pass",
                )
            return self.fir(scipy.signal.firwin(taps, cut, pass_zero=kind, fs=fs), missing=missing)
        if not isinstance(order, int) or order < 1:
            raise ParameterError(f"{kind}: order must be at least 1, got {order!r}")
        return self.sos(scipy.signal.butter(order, cut, kind, output="sos", fs=fs), missing=missing, initial=initial)

    def savgol(self, window: int | str, polyorder: int, deriv: int = 0, delta: float = 1.0) -> UniformSignal:
        """Smooth by a polynomial through the `window` samples around each, as ``scipy.signal.savgol_filter``, without delay.

        Start, gap and end: samples that have fewer than ``window // 2`` neighbours on either side give nothing (SciPy's edges
        are made up). Results come ``window // 2`` samples later than their input.

        A derivative (`deriv`) is per `delta`, by default per sample; with the period in seconds as `delta` it is per second, as that
        of `differentiate`.
        """
        import scipy.signal

        size = samples(window, self.node.type, "savgol: window")
        if size < 1 or size % 2 == 0:
            raise ParameterError(f"savgol: window must be odd and at least 1 sample, got {size}")
        if not 0 <= polyorder < size:
            raise ParameterError(f"savgol: polyorder must be at least 0 and below the window, got {polyorder}")
        if deriv < 0:
            raise ParameterError(f"savgol: deriv must be at least 0, got {deriv}")
        taps = scipy.signal.savgol_coeffs(size, polyorder, deriv, delta)
        return self.fir(taps, missing="drop").shift(-(size // 2))


def _numbers(values: Any) -> tuple[Any, ...]:
    return tuple(np.atleast_1d(np.asarray(values)).ravel().tolist())


def finite_taps(values: Numbers, what: str) -> np.ndarray[Any, Any]:
    """Weights that a user gives, or an error that names them."""
    taps = np.asarray(values)
    if taps.ndim != 1 or not len(taps):
        raise ParameterError(f"{what} must be a sequence of at least one number, got an array of shape {taps.shape}")
    if taps.dtype.kind not in "iufc" or not np.isfinite(taps).all():
        raise ParameterError(f"{what} must be finite numbers")
    return taps
