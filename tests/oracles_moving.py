"""One-shot references of moving aggregates, shifts and differences: whole windows handed to NumPy, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.oracles import Samples

Whole = Callable[[np.ndarray], Any]


def moving(x: Samples, size: int, how: Whole, missing: str = "drop") -> Samples:
    """`how` over the samples that lie in the last `size` beats."""
    out: Samples = {}
    for k in x:
        window = [x[i] for i in range(k - size + 1, k + 1) if i in x]
        if len(window) == size or missing == "skip":
            out[k] = how(np.asarray(window))
    return out


HOW: dict[str, Whole] = {
    "sum": lambda w: w.sum(axis=0),
    "mean": lambda w: w.mean(axis=0),
    "min": lambda w: w.min(axis=0) + 0,
    "max": lambda w: w.max(axis=0) + 0,
    "std": lambda w: w.std(axis=0),
    "energy": lambda w: (np.abs(w) ** 2).sum(axis=0),
    "rms": lambda w: np.sqrt((np.abs(w) ** 2).mean(axis=0)),
    "median": lambda w: np.median(w, axis=0),
}


def std1(w: np.ndarray) -> Any:
    """With one degree of freedom less; of a single sample there is none."""
    return w.std(axis=0, ddof=1) if len(w) > 1 else np.full(w.shape[1:], np.nan)[()]


def around(x: Samples, size: int, how: Whole) -> Samples:
    """`how` over the `size` samples around each that has them all."""
    half = size // 2
    spans = {k: range(k - half, k + half + 1) for k in x}
    return {k: how(np.asarray([x[i] for i in span])) for k, span in spans.items() if all(i in x for i in span)}


def hampel(window: np.ndarray, sigmas: float) -> float:
    """The sample in the middle, or the median."""
    numbers = window[~np.isnan(window)]
    middle = np.median(numbers) if len(numbers) else np.nan
    spread = 1.4826 * (np.median(np.abs(numbers - middle)) if len(numbers) else np.nan)
    x = window[len(window) // 2]
    return float(x if abs(x - middle) <= sigmas * spread else middle)


def difference(x: Samples, lag: int, missing: str = "drop") -> Samples:
    if missing == "zero":
        return {k: v - x.get(k - lag, 0) for k, v in x.items()}
    return {k: v - x[k - lag] for k, v in x.items() if k - lag in x}
