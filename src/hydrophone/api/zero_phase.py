"""What needs samples on both sides: filters without delay, the analytic signal; and signals relative to their surroundings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hydrophone.api.arithmetic import Arithmetic
from hydrophone.api.calculus import Calculus
from hydrophone.api.designs import Designs, Numbers
from hydrophone.api.moving import MovingAggregates
from hydrophone.api.quantities import Extent, sample_count, sample_rate
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.ops.coefficients import check_coefficients
from hydrophone.ops.filters.difference import float_difference
from hydrophone.ops.filters.fir_ahead import FirAhead
from hydrophone.ops.signals.arithmetic import CombineSamples
from hydrophone.ops.windows.refusals import refuse_complex
from hydrophone.plan.parameters import real

LONGEST_LOOK_AHEAD = 1 << 16
"""Samples that `filtfilt` holds for every key at most."""


class ZeroPhase(Designs, MovingAggregates, Calculus, Arithmetic):
    """Methods of `UniformSignal`. Sizes are in samples, or durations that are whole multiples of the period."""

    def fir_ahead(self, taps: Numbers) -> Self:
        """Weighted sum of each sample and the ``len(taps) - 1`` after it; zeros where there are none."""
        return self._then(FirAhead, taps=tuple(check_coefficients(taps, "fir_ahead: taps").tolist()))

    def filtfilt(self, sections: Any, *, tolerance: float = 1e-9) -> Self:
        """An `sos` forwards and then backwards: twice the attenuation and no delay; ``scipy.signal.sosfiltfilt`` away from the edges.

        Reference: ``u = sosfilt(sections, x)``, then ``sosfilt(sections, u[::-1])[::-1]``.
        The way back begins only as far ahead as the impulse response `h` needs to fade: what is left out of ``sum(abs(h))``
        is at most `tolerance` of it, so that the answer differs by at most ``tolerance * sum(abs(h)) * max(abs(u))``.

        Start: at rest. Gap: counts as zeros on both ways; what rings into a hole does not come back. End: zeros follow the last
        sample. (SciPy puts a mirrored signal at both edges.)
        """
        import scipy.signal

        forward = self.sos(sections)
        tolerance = real(tolerance, "filtfilt: tolerance")
        if not 0 < tolerance < 1:
            raise ParameterError(f"filtfilt: tolerance must be above 0 and below 1, got {tolerance!r}")
        impulse = np.eye(1, LONGEST_LOOK_AHEAD)[0]
        response = scipy.signal.sosfilt(np.asarray(sections, float), impulse)
        left = np.cumsum(np.abs(response[::-1]))[::-1]
        needed = int(np.count_nonzero(left > tolerance * left[0]))
        if needed >= LONGEST_LOOK_AHEAD // 2:
            raise ParameterError(
                f"filtfilt: the filter rings for more than {LONGEST_LOOK_AHEAD // 2:,} samples",
                hint="a larger tolerance, a wider filter, or a lower rate",
            )
        return forward.fir_ahead(response[: max(needed, 1)])

    def hilbert(self, size: Extent = 65) -> Self:
        """The analytic signal: the signal itself, and its Hilbert transform as imaginary part; without delay.

        An odd number of taps, ``2 / (pi * n)`` for odd `n` under a Kaiser window (beta 6). For a tone of a frequency between
        ``3 / size`` and ``0.5 - 3 / size`` of the rate it lies within 0.001 of the amplitude of what ``scipy.signal.hilbert``
        makes of the whole signal (which has no such bound near its edges); slower and faster tones lose imaginary part.
        Start, gap and end: samples that have fewer than ``size // 2`` neighbours on either side give nothing.
        """
        if self.node.type.dtype.kind == "c":
            raise SignalTypeError("hilbert: the signal is complex already", hint="take the real() part first")
        count = sample_count(size, self.node.type, "hilbert: size")
        if count < 3 or count % 2 == 0:
            raise ParameterError(f"hilbert: size must be odd and at least 3 samples, got {count}")
        half = count // 2
        n = np.arange(-half, half + 1)
        with np.errstate(divide="ignore"):
            transform = np.where(n % 2 == 1, 2 / (np.pi * n), 0) * np.kaiser(count, 6)
        return self.fir((n == 0) + 1j * transform, missing="drop").shift(-half)

    def envelope(self, size: Extent = 65) -> Self:
        """The magnitude of the analytic signal; see `hilbert`."""
        return self.hilbert(size).magnitude()

    def instantaneous_frequency(self, size: Extent = 65) -> Self:
        """How fast the analytic signal turns between a sample and the one before it, in Hz; see `hilbert`.

        Reference: ``numpy.diff(numpy.unwrap(numpy.angle(z))) * rate / (2 * pi)``, between minus half and half the rate.
        """
        z = self.hilbert(size)
        turn = (z * z.shift(1).conjugate()).angle()
        return turn * (sample_rate(self.node.type, "instantaneous_frequency") / (2 * np.pi))

    def zscore(self, size: Extent, *, ddof: int = 0) -> Self:
        """Standard deviations above the mean, both of the last `size` samples; NaN (or infinite) where these are all alike."""
        refuse_complex("zscore", self.node.type.dtype, "take magnitude() or real() first")
        return (self - self.moving_mean(size)) / self.moving_std(size, ddof=ddof)

    def normalise(self, size: Extent) -> Self:
        """Where a sample lies between the smallest (0) and the largest (1) of the last `size`; NaN where these are all alike."""
        refuse_complex("normalise", self.node.type.dtype, "take magnitude() or real() first")
        low: Self = self.moving_min(size)
        above: Self = self._then(CombineSamples, low, function=float_difference)
        span: Self = self.moving_max(size)._then(CombineSamples, low, function=float_difference)
        return above / span

    def detrend(self, size: Extent, *, kind: str = "linear") -> Self:
        """What is left of a sample without the line (or, ``"constant"``, the mean) through the last `size` samples.

        Reference: the last value of ``scipy.signal.detrend(w, type=kind)`` over every `w` of `size` samples in a row.
        Start and gap: nothing until there are so many. End: nothing follows the last sample.
        """
        count = sample_count(size, self.node.type, "detrend: size")
        if kind not in ("linear", "constant"):
            raise ParameterError(f"detrend: kind must be one of 'linear', 'constant', got {kind!r}")
        if count < (2 if kind == "linear" else 1):
            raise ParameterError(f"detrend: size must be at least 2 samples (1 for a constant), got {count}")
        # The value at the newest sample of the line with least squares, as weights of the samples, newest first.
        age = np.arange(count) - (count - 1) / 2
        line = 1 / count + (age * age[0] / (age @ age) if kind == "linear" else 0 * age)
        return self.fir((np.arange(count) == 0) - line, missing="drop")
