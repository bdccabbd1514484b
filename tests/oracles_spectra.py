"""One-shot references of spectra: SciPy over the samples of every stretch without a hole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.signal
from tests.oracles import Arrays, Samples


def groups(
    x: Samples, size: int, hop: int, count: int, function: Callable[..., np.ndarray], *others: Samples
) -> Arrays:
    """A function of the samples under every `count` windows from number 0 of the grid on, where all signals have them all."""
    out: Arrays = {}
    span = size + (count - 1) * hop
    for start in range(min(x, default=0) - span, max(x, default=0) + 1):
        where = range(start, start + span)
        if start % (hop * count) == 0 and all(k in s for s in (x, *others) for k in where):
            with np.errstate(all="ignore"):
                out[start + span - 1] = function(*(np.array([s[k] for k in where]) for s in (x, *others)))
    return out


def whole(w: Arrays) -> Arrays:
    """The mean of all windows, at the last of them."""
    with np.errstate(all="ignore"):
        return {max(w): np.mean([w[end] for end in sorted(w)], axis=0)} if w else {}


def short_time(x: np.ndarray, first: int, size: int, hop: int, window: Any) -> Arrays:
    """``ShortTimeFFT`` over one stretch, only the slices that lie inside it."""
    half = size // 2
    assert half % hop == 0, "slices are centred there: only then both grids are one"
    # Zeros in front, up to a multiple of the hop.
    lead = first % hop
    padded = np.concatenate([np.zeros(lead), x])
    spectra = scipy.signal.ShortTimeFFT(scipy.signal.get_window(window, size), hop, 1.0, phase_shift=None)
    table = spectra.stft(padded)
    out: Arrays = {}
    for column, p in enumerate(range(spectra.p_min, spectra.p_max(len(padded)))):
        start = p * hop - half
        if start >= lead and start + size <= len(padded):
            out[first - lead + start + size - 1] = table[:, column]
    return out


def ema(w: Arrays, alpha: float, hop: int) -> Arrays:
    """Step by step; windows that are missing let the past fade as if the next one had been there all along."""
    out: Arrays = {}
    before: int | None = None
    for end in sorted(w):
        past = 0.0 if before is None else (1 - alpha) ** ((end - before) // hop)
        out[end] = w[end] if before is None else (1 - past) * w[end] + past * out[before]
        before = end
    return out
