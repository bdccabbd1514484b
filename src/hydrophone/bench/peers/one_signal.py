"""What the peers do with the samples of one sensor, in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def filtered(values: Floats, taps: Floats) -> Floats:
    """A FIR filter that starts at rest."""
    return np.convolve(values, taps)[: len(values)]


def cleaned(values: Floats, size: int, top: int) -> Floats:
    """Half-overlapping Hann windows, their `top` strongest frequencies, added up again; along the last axis."""
    hop = size // 2
    if values.shape[-1] < size:
        return values[..., :0]
    windows = np.lib.stride_tricks.sliding_window_view(values, size, axis=-1)[..., ::hop, :]
    spectra = np.fft.rfft(windows * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)), axis=-1)
    weak = np.argsort(np.abs(spectra), axis=-1)[..., :-top]
    np.put_along_axis(spectra, weak, 0, axis=-1)
    parts = np.fft.irfft(spectra, size, axis=-1)
    out = np.zeros((*values.shape[:-1], (windows.shape[-2] + 1) * hop))
    # Every sample lies in two windows, except in the first and the last half.
    out[..., :-hop] += parts[..., :hop].reshape(*values.shape[:-1], -1)
    out[..., hop:] += parts[..., hop:].reshape(*values.shape[:-1], -1)
    return out


def correlated(values: Floats, pattern: Floats) -> Floats:
    """Every sample and those before it, as many as the pattern has, times the pattern."""
    return filtered(values, pattern[::-1])


def extremes(slow: Floats, fast: Floats, every: int, low: float, high: float) -> tuple[npt.NDArray[np.int64], Floats]:
    """The slow signal on the beats of the fast one, `every` to one, added to it: the beats with sums beyond the limits, and the sums."""
    beats = np.arange((len(slow) - 1) * every + 1)
    total = np.interp(beats / every, np.arange(len(slow)), slow) + fast[: len(beats)]
    found = np.flatnonzero((total < low) | (total > high))
    return found, total[found]
