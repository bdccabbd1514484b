"""Filters made by a formula or by SciPy's designs: all of them are a `fir`, an `sos` or an `iir` in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hydrophone.api.filters import Filters
from hydrophone.api.quantities import Extent, hertz, sample_count, sample_rate
from hydrophone.errors import ParameterError
from hydrophone.ops.coefficients import check_coefficients
from hydrophone.ops.filters.iir import Iir
from hydrophone.ops.filters.savgol import savgol_taps
from hydrophone.ops.filters.shift import Shift
from hydrophone.plan.parameters import length, real, whole
from hydrophone.plan.types import Missing

Numbers = Sequence[float] | Sequence[complex] | np.ndarray[Any, Any]


HIGHEST_ORDER = 1_000
"""Of recursive designs: beyond it nothing is left of their precision."""


class Designs(Filters):
    """Methods of `UniformSignal`. At start, gap and end they behave as the `fir` or `sos` that they build."""

    def iir(self, b: Numbers, a: Numbers, *, missing: str = "zero", initial: str = "rest") -> Self:
        """A recursive filter by its two polynomials, as ``scipy.signal.lfilter(b, a, x)``; of high order better as `sos`.

        ``initial="steady"`` starts as if the first sample had been there for ever, see `sos`.
        """
        kind = Missing.of(missing, "iir", (Missing.ZERO, Missing.RESET))
        return self._then(Iir, b=_polynomial(b, "iir: b"), a=_polynomial(a, "iir: a"), missing=kind, initial=initial)

    def convolve(self, taps: Numbers, *, missing: str = "zero") -> Self:
        """``numpy.convolve(x, taps)`` as far as there are samples: the same as `fir`."""
        return self.fir(check_coefficients(taps, "convolve: taps"), missing=missing)

    def correlate(self, pattern: Numbers, *, missing: str = "zero") -> Self:
        """The last samples times a pattern, ``y[n] = sum(conj(pattern) * x[n - len(pattern) + 1 : n + 1])``.

        A `fir` whose taps are the conjugate of the pattern, backwards; with ``missing="drop"`` it is
        ``numpy.correlate(x, pattern, "valid")``, each value at the sample where the pattern ends.
        """
        return self.fir(check_coefficients(pattern, "correlate: pattern")[::-1].conj(), missing=missing)

    def matched_filter(self, template: Numbers, *, missing: str = "zero") -> Self:
        """`correlate` with a template of unit energy: white noise keeps its level, and the template peaks at the root of its energy."""
        taps = check_coefficients(template, "matched_filter: template")
        norm = float(np.sqrt(np.sum(np.abs(taps) ** 2)))
        if norm == 0:
            raise ParameterError("matched_filter: template is all zero")
        return self.fir((taps / norm)[::-1].conj(), missing=missing)

    def single_pole(self, alpha: float, *, missing: str = "zero", initial: str = "rest") -> Self:
        """``scipy.signal.lfilter([alpha], [1, alpha - 1], x)``: as `ema`, but it starts at rest, and a hole counts as zeros."""
        alpha = real(alpha, "single_pole: alpha")
        if not 0 < alpha <= 1:
            raise ParameterError(f"single_pole: alpha must be above 0 and at most 1, got {alpha!r}")
        return self.sos([[alpha, 0, 0, 1, alpha - 1, 0]], missing=missing, initial=initial)

    def dc_block(self, r: float = 0.995, *, missing: str = "zero", initial: str = "rest") -> Self:
        """Take away what stays constant, as ``scipy.signal.lfilter([1, -1], [1, -r], x)``; nearer to 1 takes away less else."""
        r = real(r, "dc_block: r")
        if not 0 <= r < 1:
            raise ParameterError(f"dc_block: r must be at least 0 and below 1, got {r!r}")
        return self.sos([[1, -1, 0, 1, -r, 0]], missing=missing, initial=initial)

    def notch(self, freq: float | str, q: float = 30.0, *, missing: str = "zero", initial: str = "rest") -> Self:
        """Take away one frequency, as ``scipy.signal.iirnotch(freq, q, fs)``; `q` is the frequency over the width of the notch."""
        import scipy.signal

        at = hertz(freq, self.node.type, "notch: freq")
        q = real(q, "notch: q")
        if not 0 < q < np.inf:
            raise ParameterError(f"notch: q must be positive, got {q!r}")
        b, a = scipy.signal.iirnotch(at, q, sample_rate(self.node.type, "notch"))
        return self.sos([[*b, *a]], missing=missing, initial=initial)

    def lowpass(
        self,
        cutoff: float | str,
        order: int = 4,
        *,
        taps: int | None = None,
        missing: str = "zero",
        initial: str = "rest",
    ) -> Self:
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
    ) -> Self:
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
    ) -> Self:
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
    ) -> Self:
        """Take away what lies between two frequencies; see `lowpass`."""
        return self._design("bandstop", [low, high], order, taps, missing, initial)

    def _design(
        self, kind: str, edges: Sequence[float | str], order: int, taps: int | None, missing: str, initial: str
    ) -> Self:
        import scipy.signal

        names = ("cutoff",) if len(edges) == 1 else ("low", "high")
        at = [hertz(e, self.node.type, f"{kind}: {name}") for name, e in zip(names, edges, strict=True)]
        if sorted(set(at)) != at:
            raise ParameterError(f"{kind}: low must be below high, got {edges[0]!r} and {edges[1]!r}")
        fs, cut = sample_rate(self.node.type, kind), at if len(at) > 1 else at[0]
        if taps is not None:
            if initial != "rest":
                raise ParameterError(
                    f"{kind}: initial={initial!r} is for the recursive filter, and taps= makes one without feedback",
                    hint='missing="drop" gives nothing until all taps have a sample',
                )
            taps = length(taps, f"{kind}: taps")
            if taps < 1 or (taps % 2 == 0 and kind in ("highpass", "bandstop")):
                raise ParameterError(
                    f"{kind}: taps must be at least 1 (and odd for highpass and bandstop), got {taps!r}",
                    hint="with an even number nothing of half the rate can pass",
                )
            return self.fir(scipy.signal.firwin(taps, cut, pass_zero=kind, fs=fs), missing=missing)
        order = whole(order, f"{kind}: order")
        if not 1 <= order <= HIGHEST_ORDER:
            raise ParameterError(f"{kind}: order must be at least 1 and at most {HIGHEST_ORDER}, got {order!r}")
        return self.sos(scipy.signal.butter(order, cut, kind, output="sos", fs=fs), missing=missing, initial=initial)

    def savgol(self, window: Extent, polyorder: int, deriv: int = 0, delta: float = 1.0) -> Self:
        """Smooth by a polynomial through the `window` samples around each, as ``scipy.signal.savgol_filter``, without delay.

        Start, gap and end: samples that have fewer than ``window // 2`` neighbours on either side give nothing (SciPy's edges
        are made up). Results come ``window // 2`` samples later than their input.

        A derivative (`deriv`) is per `delta`, by default per sample; with the period in seconds as `delta` it is per second, as that
        of `differentiate`.
        """
        size = sample_count(window, self.node.type, "savgol: window")
        if size < 1 or size % 2 == 0:
            raise ParameterError(f"savgol: window must be odd and at least 1 sample, got {size}")
        polyorder, deriv, delta = (
            whole(polyorder, "savgol: polyorder"),
            whole(deriv, "savgol: deriv"),
            real(delta, "savgol: delta"),
        )
        if not 0 <= polyorder < size:
            raise ParameterError(f"savgol: polyorder must be at least 0 and below the window, got {polyorder}")
        if deriv < 0:
            raise ParameterError(f"savgol: deriv must be at least 0, got {deriv}")
        if not 0 < abs(delta) < np.inf:
            raise ParameterError(f"savgol: delta must be a number other than 0, got {delta}")
        return self.fir(savgol_taps(size, polyorder, deriv, delta), missing="drop")._then(Shift, samples=-(size // 2))


def _polynomial(values: Any, what: str) -> tuple[Any, ...]:
    return tuple(check_coefficients(np.atleast_1d(values) if np.isscalar(values) else values, what).tolist())
