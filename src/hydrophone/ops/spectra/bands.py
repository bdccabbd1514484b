"""Bands of a power spectrum: on the mel scale, or by octaves."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError, PlanError, SignalTypeError, user_line
from hydrophone.ops.windows.arrays import RowByRow
from hydrophone.ops.windows.refusals import refuse_complex
from hydrophone.plan.node import Node
from hydrophone.plan.types import WindowedType

Array = npt.NDArray[Any]


MOST_BANDS = 10_000
"""Bands of a spectrum, or parts of an octave: every band has a weight for every line."""


def rate_of(x: WindowedType, what: str) -> float:
    """Samples per second, which must be known for all keys."""
    if x.timebase is None:
        raise PlanError(
            f"{what}: needs one period for all keys",
            hint="resample(period, fill=hp.linear()) before windows are cut, so that bins are frequencies",
            where=user_line(),
        )
    return x.timebase.rate_hz


def transform_size(x: WindowedType) -> int:
    """Of how many samples the arrays are one-sided spectra: as their type says, or else as long as the windows would have them; or 0."""
    size = x.lines_of or x.size
    return size if x.length == size // 2 + 1 and not x.two_sided else 0


def check_spectrum(x: WindowedType, what: str) -> None:
    """Windows that are one-sided power spectra."""
    if not transform_size(x):
        raise SignalTypeError(
            f"{what}: expected spectra of {x.size // 2 + 1} values for windows of {x.size} samples, got {x.length}",
            hint="spectrogram(...) gives them, or rfft().power()",
        )
    refuse_complex(what, x.dtype, "take power() first")


@dataclass(frozen=True, kw_only=True, eq=False)
class MelBands(RowByRow, Node):
    """Power in triangular bands that are equally wide on the mel scale.

    Definition: ``mel(f) = 2595 * log10(1 + f / 700)``; `count` + 2 points equally spaced in mel from `low` to `high`; band i rises from
    0 at point i to 1 at point i + 1 and falls to 0 at point i + 2; its value is the sum of the lines, each times the height there.
    """

    stable_name = "mel_bands"

    count: int
    low: float
    high: float

    def accept(self, x: WindowedType) -> None:
        """Bands that lie in the spectrum and hold a line each."""
        check_spectrum(x, "mel_bands")
        rate = rate_of(x, "mel_bands")
        if not 1 <= self.count <= MOST_BANDS:
            raise ParameterError(f"mel_bands: count must be at least 1 and at most {MOST_BANDS}, got {self.count}")
        if not 0 <= self.low < self.high <= rate / 2:
            raise ParameterError(
                f"mel_bands: the bands from {self.low:g} to {self.high:g} Hz do not lie between 0 and {rate / 2:g} Hz"
            )
        if not (np.diff(mel_points(self.count, self.low, self.high)) > 0).all():
            raise ParameterError(
                f"mel_bands: {self.count} bands from {self.low:g} to {self.high:g} Hz are too narrow to tell apart"
            )

    def output_type(self, x: WindowedType) -> WindowedType:
        """One value per band."""
        return _banded(self, x)

    def weights(self, x: WindowedType) -> Array:
        """The heights of all bands at all lines."""
        return mel_weights(self.count, self.low, self.high, transform_size(x), rate_of(x, "mel_bands"))

    def rows(self, windows: Array) -> Array:
        """Add up."""
        return _weighed(windows, self.weights(self.inputs[0].type))


@functools.lru_cache(32)
def mel_points(count: int, low: float, high: float) -> Array:
    """Where mel bands begin, have their peak and end, in hertz."""
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    points: Array = 700 * (10 ** (np.linspace(ends[0], ends[1], count + 2) / 2595) - 1)
    return points


def mel_weights(count: int, low: float, high: float, size: int, rate: float) -> Array:
    """The heights of mel bands at the lines of a spectrum, a column per band."""
    points = mel_points(count, low, high)
    lines = np.arange(size // 2 + 1)[:, None] * rate / size
    rise = (lines - points[:-2]) / (points[1:-1] - points[:-2])
    fall = (points[2:] - lines) / (points[2:] - points[1:-1])
    return np.maximum(np.minimum(rise, fall), 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class OctaveBands(RowByRow, Node):
    """Power in bands of an octave, or a fraction of one.

    Definition: band centres ``1000 Hz * 2 ** (i / fraction)`` for whole i, edges half a band below and above (in octaves); all bands that
    lie wholly below half the rate and hold at least one line. The value of a band is the sum of the lines in it, the lower edge included.
    """

    stable_name = "octave_bands"

    fraction: int = 1

    def accept(self, x: WindowedType) -> None:
        """At least one band."""
        check_spectrum(x, "octave_bands")
        if not 1 <= self.fraction <= MOST_BANDS:
            raise ParameterError(
                f"octave_bands: fraction must be at least 1 (3: thirds) and at most {MOST_BANDS}, got {self.fraction}"
            )
        if not len(octave_centres(self.fraction, transform_size(x), rate_of(x, "octave_bands"))):
            raise ParameterError("octave_bands: no band holds a line of this spectrum", hint="use longer windows")

    def output_type(self, x: WindowedType) -> WindowedType:
        """One value per band."""
        return _banded(self, x)

    def weights(self, x: WindowedType) -> Array:
        """Which lines lie in which band."""
        rate = rate_of(x, "octave_bands")
        return octave_weights(self.fraction, transform_size(x), rate)

    def rows(self, windows: Array) -> Array:
        """Add up."""
        return _weighed(windows, self.weights(self.inputs[0].type))


@functools.lru_cache(32)
def octave_centres(fraction: int, size: int, rate: float) -> Array:
    """The centres of all bands, in hertz.

    Examples
    --------
    >>> octave_centres(1, 256, 8000.0).tolist()
    [31.25, 62.5, 125.0, 250.0, 500.0, 1000.0, 2000.0]
    """
    half = 2 ** (0.5 / fraction)
    lowest = math.floor(fraction * math.log2(rate / size / half / 1000)) - 1
    highest = math.ceil(fraction * math.log2(rate / 2000)) + 1
    centres = 1000 * 2.0 ** (np.arange(lowest, highest + 1) / fraction)
    lines = np.arange(1, size // 2 + 1)[:, None] * rate / size
    full = ((lines >= centres / half) & (lines < centres * half)).any(axis=0)
    return np.asarray(centres[full & (centres * half <= rate / 2)])


@functools.lru_cache(32)
def octave_weights(fraction: int, size: int, rate: float) -> Array:
    """One where a line lies in a band, a column per band."""
    centres, half = octave_centres(fraction, size, rate), 2 ** (0.5 / fraction)
    lines = np.arange(size // 2 + 1)[:, None] * rate / size
    return ((lines >= centres / half) & (lines < centres * half)).astype(np.float64)


def _banded(node: MelBands | OctaveBands, x: WindowedType) -> WindowedType:
    node.accept(x)
    dtype = x.dtype if x.dtype == np.float32 else np.dtype(np.float64)
    return replace(x, dtype=dtype, length=node.weights(x).shape[1], lines_of=0)


def frequencies(x: WindowedType) -> Array:
    """The frequency of every value of a spectrum, in hertz: ``numpy.fft.rfftfreq``, or ``fftfreq`` of a whole spectrum.

    Which values are lines of a transform is known by the type; what a user's function or a choice of values made of them is not.
    """
    rate, size = rate_of(x, "frequencies"), x.lines_of or transform_size(x)
    if not size:
        raise SignalTypeError(
            f"frequencies: these are no spectra, but arrays of {x.length} values for windows of {x.size} samples",
            hint="rfft, fft, stft, spectrogram and welch give spectra; take frequencies() before values are chosen or bands are made",
            where=user_line(),
        )
    lines = np.fft.fftfreq(size, 1 / rate) if x.two_sided else np.fft.rfftfreq(size, 1 / rate)
    return np.asarray(lines)


def band_sum(windows: Array, first: int, stop: int, width: float) -> Array:
    """The sum of some values of every row, times the width of a line."""
    out: Array = windows[:, first:stop].sum(axis=1, dtype=np.float64) * width
    return out


def _weighed(windows: Array, weights: Array) -> Array:
    dtype = windows.dtype if windows.dtype == np.float32 else np.float64
    out: Array = windows.astype(dtype, copy=False) @ weights.astype(dtype, copy=False)
    return out
