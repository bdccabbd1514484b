"""One-shot references of detectors, integrals and filters that look ahead."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.integrate
import scipy.signal
from tests.oracles import Grid, Samples, runs


def trigger(x: Samples, on: float, off: float, grid: Grid, report: int | None = None) -> list[tuple[Any, ...]]:
    """(start, end, peak, samples) of every interval."""
    found: list[list[int]] = []
    inside = False
    for k in sorted(x):
        goes_on = inside and k - 1 in x and x[k] >= off
        inside = bool(goes_on or x[k] > on)
        joined = bool(found) and found[-1][-1] == k - 1
        if joined and report is not None:
            joined = grid.instant(k) // report == grid.instant(k - 1) // report
        if inside and joined:
            found[-1].append(k)
        elif inside:
            found.append([k])
    return [(grid.instant(f[0]), grid.instant(f[-1] + 1), max(x[k] for k in f) + 0, len(f)) for f in found]


def zero_crossings(x: Samples, grid: Grid) -> list[tuple[Any, ...]]:
    """Between neighbours that are numbers."""
    numbers = {k: v for k, v in x.items() if v == v}
    return [
        (grid.instant(first + int(i) + 1), bool(v[i + 1] >= 0))
        for first, v in runs(numbers)
        for i in np.flatnonzero(np.diff(v < 0))
    ]


def peaks(
    x: Samples, grid: Grid, height: float = -np.inf, distance: int = 1, prominence: float = 0, within: int = 0, plateau: int = 1000,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Every sample against its neighbours; local maxima and prominences by SciPy."""
    maxima = {
        first + int(edge)
        for first, v in runs(x)
        for edge in scipy.signal.find_peaks(np.where(np.isnan(v), np.inf, v), plateau_size=(1, plateau))[1][
            "left_edges"
        ]
    }
    sides, found = max(distance, within), []
    for k, v in x.items():
        around = range(k - sides, k + sides + 1)
        if not all(i in x for i in around):
            continue
        before, after = ([x[k + s * j] for j in range(1, distance + 1)] for s in (-1, 1))
        if k not in maxima or not (v >= height and all(v > u for u in before) and all(v >= u for u in after)):
            continue
        row: tuple[Any, ...] = (grid.instant(k), float(v))
        if within:
            w = np.array([x[i] for i in around], float)
            w[np.isnan(w)] = np.inf  # beyond NaN a foot is not looked for
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a plateau that fills the window has no prominence
                rise = scipy.signal.peak_prominences(w, [sides], 2 * within + 1)[0][0]
            if not rise >= prominence:
                continue
            row = (*row, float(rise))
        found.append(row)
    return found


def integrate(x: Samples, grid: Grid, every: int | None = None, rule: str = "trapezoid") -> Samples:
    """Stretch by stretch: holes, multiples of `every` and samples that are not finite end one."""
    dt = float(grid.period) / 1e9
    out: Samples = {k: np.full(np.shape(v), np.nan)[()] for k, v in x.items()}
    stretch: list[int] = []

    def finish() -> None:
        v = np.array([x[k] for k in stretch])
        if len(v):
            y = scipy.integrate.cumulative_trapezoid(v, dx=dt, initial=0) if rule == "trapezoid" else np.cumsum(v) * dt
            out.update(zip(stretch, y, strict=True))
        stretch.clear()

    for k in sorted(x):
        if stretch and (stretch[-1] != k - 1 or (every and grid.instant(k) // every != grid.instant(k - 1) // every)):
            finish()
        if np.isfinite(x[k]):
            stretch.append(k)
        else:
            finish()
    finish()
    return out


def there_and_back(x: Samples, sections: Any) -> Samples:
    """A filter forwards and then backwards over the whole signal, holes filled with zeros."""
    if not x:
        return {}
    first, last = min(x), max(x)
    dense = np.zeros(last - first + 1)
    dense[np.array(list(x)) - first] = list(x.values())
    forward = scipy.signal.sosfilt(sections, dense)
    there = np.zeros(len(dense))
    there[np.array(list(x)) - first] = forward[np.array(list(x)) - first]  # a hole has no sample on the way back either
    y = scipy.signal.sosfilt(sections, there[::-1])[::-1]
    return {k: y[k - first] for k in x}


def ahead(x: Samples, taps: Any) -> Samples:
    return {k: sum(h * x[k + j] for j, h in enumerate(taps) if k + j in x) for k in x}


def full(x: Samples, size: int, how: Any, missing: str = "drop") -> Samples:
    """`how` of every `size` samples in a row, at the last of them."""
    spans = {k: range(k - size + 1, k + 1) for k in x}
    return {k: how(np.asarray([x[i] for i in s], float)) for k, s in spans.items() if all(i in x for i in s)}


def score(x: Samples, cells: int, guard: int, noise: str = "gaussian") -> Samples:
    out: Samples = {}
    for k, v in x.items():
        before = [x.get(i) for i in range(k - guard - cells, k - guard)]
        after = [x.get(i) for i in range(k + guard + 1, k + guard + cells + 1)]
        if any(c is None for c in (before if noise == "gaussian" else before + after)):
            continue
        if noise == "gaussian":
            out[k] = np.divide(v - np.mean(before), np.std(before))
        else:
            out[k] = np.divide(v, (np.mean(before) + np.mean(after)) / 2)
    return out


def ewm(x: Samples, alpha: float) -> Samples:
    """An exponential average that fades through holes, as if the sample after one had been there all along."""
    out: Samples = {}
    before = None
    for k in sorted(x):
        past = 0.0 if before is None else (1 - alpha) ** (k - before)
        out[k] = (1 - past) * x[k] + (past * out[before] if before is not None else 0)
        before = k
    return out
