"""One-shot references of window operators: NumPy and SciPy over whole windows, never a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.stats
from tests.oracles import Arrays, Grid, Key, Samples


def labelled(
    w: Mapping[Key, Arrays], function: Callable[[np.ndarray], Any], grid: Grid, size: int, hop: int, at: str
) -> list[Any]:
    """Rows of one value per window. The period of the hops is exact; the origin is the instant of a sample."""
    offset = size - 1 if at == "end" else 0
    origin = grid.instant(offset % hop)
    coarse = Grid(grid.period * hop, origin)
    out = []
    for key, windows in w.items():
        for end, array in windows.items():
            k = end - (size - 1) + offset
            with np.errstate(all="ignore"):
                out.append((*key, coarse.instant((k - offset % hop) // hop), np.asarray(function(array)).item()))
    return out


def kurtosis(a: np.ndarray) -> float:
    """SciPy's, without its warning about equal values."""
    a = np.asarray(a, float)
    if np.isfinite(a).all() and np.ptp(a) == 0:
        return math.nan
    return float(scipy.stats.kurtosis(a)) if np.isfinite(a).all() else math.nan


def energy(a: np.ndarray) -> float:
    return float((np.abs(a).astype(float) ** 2).sum())


AGGREGATES: dict[str, Callable[[np.ndarray], Any]] = {
    "sum": np.sum,
    "mean": lambda a: np.mean(a if np.iscomplexobj(a) else a.astype(float)),
    "min": np.min,
    "max": np.max,
    "energy": energy,
    "power": lambda a: energy(a) / len(a),
    "rms": lambda a: math.sqrt(energy(a) / len(a)),
    "std": lambda a: np.std(a.astype(float)),
    "kurtosis": kurtosis,
    "crest": lambda a: np.max(np.abs(a)) / np.sqrt(np.mean(a.astype(float) ** 2)),
}


def unwindow(w: Arrays, function: Callable[[np.ndarray], Any]) -> Samples:
    """A function of all values that meet at a sample, the oldest window first."""
    met: dict[int, list[float]] = {}
    for end in sorted(w):
        for i, v in enumerate(w[end]):
            met.setdefault(end - len(w[end]) + 1 + i, []).append(v)
    return {k: function(np.asarray(v)) for k, v in met.items()}
