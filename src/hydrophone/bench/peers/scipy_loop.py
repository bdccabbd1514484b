"""The loop over keys that people write: one SciPy call for every sensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.interpolate
import scipy.signal

from hydrophone.bench.harness import Answer, summary

Samples = npt.NDArray[np.float64]


def correlate(samples: Samples, keys: int, pattern: Samples) -> Answer:
    """Key by key."""
    taps = pattern[::-1]
    found = [scipy.signal.lfilter(taps, [1.0], x) for x in samples.reshape(keys, -1)]
    return summary(np.concatenate(found))


def interpolate_add_filter(
    slow: Samples, fast: Samples, keys: int, keep: Callable[[Samples], npt.NDArray[np.bool_]]
) -> Answer:
    """Key by key, by SciPy's interpolation."""
    found = []
    for few, many in zip(slow.reshape(keys, -1), fast.reshape(keys, -1), strict=True):
        line = scipy.interpolate.make_interp_spline(np.arange(len(few)), few, k=1)
        total = line(np.arange(len(many)) / 4) + many
        found.append(total[keep(total)])
    return summary(np.concatenate(found))


def interpolate_by_numpy_add_filter(
    slow: Samples, fast: Samples, keys: int, keep: Callable[[Samples], npt.NDArray[np.bool_]]
) -> Answer:
    """Key by key, by NumPy's, which does lines alone."""
    found = []
    for few, many in zip(slow.reshape(keys, -1), fast.reshape(keys, -1), strict=True):
        total = np.interp(np.arange(len(many)) / 4, np.arange(len(few)), few) + many
        found.append(total[keep(total)])
    return summary(np.concatenate(found))


def overlap_add(samples: Samples, keys: int, size: int, hop: int) -> Answer:
    """Key by key, and window by window."""
    out = []
    for x in samples.reshape(keys, -1):
        y = np.zeros((len(x) - size) // hop * hop + size)
        for start in range(0, len(x) - size + 1, hop):
            y[start : start + size] += np.fft.irfft(np.fft.rfft(x[start : start + size]), size)
        out.append(y)
    return summary(np.concatenate(out))
