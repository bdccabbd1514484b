"""One flat NumPy or SciPy call over the samples of all keys, laid out as a matrix with a row per key: the least that can be done."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.signal

from hydrophone.bench.harness import Answer, summary

Samples = npt.NDArray[np.float64]


def fir(samples: Samples, keys: int, taps: Samples) -> Answer:
    """A convolution over everything, with room between the keys so that they do not touch."""
    length = len(samples) // keys
    padded = np.zeros((keys, length + len(taps) - 1))
    padded[:, :length] = samples.reshape(keys, length)
    return summary(np.convolve(padded.reshape(-1), taps)[: padded.size].reshape(padded.shape)[:, :length])


def sos(samples: Samples, keys: int, sections: Any) -> Answer:
    """One call over the rows of a matrix."""
    return summary(scipy.signal.sosfilt(sections, samples.reshape(keys, -1), axis=1))


def stft(samples: Samples, keys: int, size: int, hop: int) -> Answer:
    """All windows of all keys in one transform."""
    windows = np.lib.stride_tricks.sliding_window_view(samples.reshape(keys, -1), size, axis=1)[:, ::hop]
    return summary(np.fft.rfft(windows, axis=2))


def count(rows: pa.Table, size: int) -> Answer:
    """A count per pair of key and window, by one flat bincount."""
    window = rows["time"].to_numpy() // size
    cells = rows["key"].to_numpy() * (int(window.max()) + 1) + window
    found = np.bincount(cells)
    return summary(found[found > 0].astype(float))
