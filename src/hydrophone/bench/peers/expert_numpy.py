"""What an expert writes for one question with NumPy and SciPy: a matrix with a row per key, no loop over keys, no time, no gaps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.fft
import scipy.signal

from hydrophone.bench.harness import Answer, summary

Samples = npt.NDArray[np.float64]


def tumbling_fft(samples: Samples, size: int) -> Answer:
    """Spectra of windows that do not overlap."""
    return summary(scipy.fft.rfft(samples.reshape(-1, size), axis=1))


def fir(samples: Samples, taps: Samples) -> Answer:
    """One signal, filtered."""
    return summary(np.convolve(samples, taps)[: len(samples)])


def fir_by_scipy(samples: Samples, taps: Samples) -> Answer:
    """One signal, filtered by the call that most people use."""
    return summary(scipy.signal.lfilter(taps, [1.0], samples))


def correlate(samples: Samples, keys: int, pattern: Samples) -> Answer:
    """All keys in one convolution, with zeros between them."""
    matrix = samples.reshape(keys, -1)
    padded = np.zeros((keys, matrix.shape[1] + len(pattern) - 1))
    padded[:, : matrix.shape[1]] = matrix
    flat = np.convolve(padded.ravel(), pattern[::-1])[: padded.size]
    return summary(flat.reshape(padded.shape)[:, : matrix.shape[1]])


def interpolate_add_filter(
    slow: Samples, fast: Samples, keys: int, keep: Callable[[Samples], npt.NDArray[np.bool_]]
) -> Answer:
    """The slow signals on the beats of the fast ones, four to one, then added and filtered: all keys in a matrix."""
    few, many = slow.reshape(keys, -1), fast.reshape(keys, -1)
    wide = np.empty_like(many)
    for step in range(4):
        stop = None if step == 0 else -1
        left = few[:, :stop]
        wide[:, step::4] = left if step == 0 else left + (few[:, 1:] - left) * (step / 4)
    wide += many
    return summary(wide[keep(wide)])


def overlap_add(samples: Samples, keys: int, size: int, hop: int) -> Answer:
    """To the spectrum and back, key by window by sample in one array, then added up offset by offset."""
    windows = np.lib.stride_tricks.sliding_window_view(samples.reshape(keys, -1), size, axis=1)[:, ::hop]
    back = scipy.fft.irfft(scipy.fft.rfft(windows, axis=2), size, axis=2)
    count = windows.shape[1]
    out = np.zeros((keys, (count - 1) * hop + size))
    if count * keys < size:
        for w in range(count):
            out[:, w * hop : w * hop + size] += back[:, w]
    else:
        for i in range(size):
            out[:, i : i + (count - 1) * hop + 1 : hop] += back[:, :, i]
    return summary(out)
