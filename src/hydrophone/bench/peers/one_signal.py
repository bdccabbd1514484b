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
