"""Cases of the operators on arrays of windows, of reductions to one value per window, and of the way back to samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.signal
from tests import oracles, oracles_windows
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled
from tests.cases.table import Case, Source, grid, sample_rows, window_rows
from tests.cases.windows import window

import hydrophone as hp
from hydrophone.ops.filters.rolling import Rolling, Statistic
from hydrophone.ops.user.window_operator import Apply
from hydrophone.ops.windows.arrays import (
    Autocorrelate,
    Convolve,
    Detrend,
    Magnitude,
    Multiply,
    Phase,
    Power,
    SelectValues,
    TopK,
    TrimPeak,
)
from hydrophone.ops.windows.combine_windows import CombineWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.reduce import Reduce
from hydrophone.ops.windows.unwindow import Unwindow

_SUMS = "sums in another order than NumPy's"
_UPDATES = "answers follow from each other until the next recomputation"
HANN = scipy.signal.get_window("hann", 8)


def trimmed(a: np.ndarray) -> np.ndarray:
    size = np.where(np.isnan(a), np.inf, np.abs(a))
    peak = int(np.flatnonzero(size == size.max())[0])
    out = a.copy()
    out[max(peak - 1, 0) : peak + 2] = 0
    return out


def top(a: np.ndarray, k: int) -> np.ndarray:
    size = np.where(np.isnan(a), np.inf, np.abs(a))
    keep = sorted(range(len(a)), key=lambda i: (-size[i], i))[:k]
    return np.array([v if i in keep else 0 for i, v in enumerate(a)], a.dtype)


def ties(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-3, 4, n).astype(float)


def reduced(
    name: str,
    source: Source,
    size: int,
    hop: int,
    then: Callable[[Any], Any],
    function: Callable[[np.ndarray], Any],
    *,
    node: Any = Reduce,
    missing: str = "drop",
    at: str = "end",
    period: Any = 10,
    spacing: Any = None,
    tolerance: float = 0.0,
    why: str = _SUMS,
) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return then(s["x"].signal("v").sample(spacing or period))

    def expected(inputs: Mapping[str, Source]) -> Any:
        w = {k: oracles.windows(v, size, hop, missing) for k, v in sampled(inputs["x"], period).items()}
        return oracles_windows.labelled(w, function, grid(period), size, hop, at)

    return Case(name, node, {"x": source}, query, expected, tolerance, why if tolerance else "")


def rolling(kind: str, source: Source, size: int, hop: int, suffix: str = "", **more: Any) -> Case:
    how = {k: more[k] for k in ("at", "missing") if k in more}
    node = Statistic if "missing" in more else Rolling
    return reduced(
        f"rolling-{kind}{suffix}",
        source,
        size,
        hop,
        lambda s: getattr(s, kind)(size, hop=hop, **how),
        oracles_windows.AGGREGATES[kind],
        node=node,
        **{"tolerance": 1e-11, **more},
    )


def _convolved(a: np.ndarray, taps: list[float], mode: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.convolve(a, taps, mode)


def _vector_mean() -> Case:
    def expected(i: Mapping[str, Source]) -> Any:
        x = sampled(i["x"], 9, fill="last", gap=30, columns=("v", "w"))
        at = grid(18, grid(9).instant(0))
        return [
            (*k, at.instant(end // 2), *np.mean(a, axis=0).tolist())
            for k, v in x.items()
            for end, a in ((e, [v[e - 2], v[e - 1], v[e]]) for e in v if e % 2 == 0 and e - 2 in v and e - 1 in v)
        ]

    return Case(
        "rolling-mean-vectors",
        Rolling,
        {"x": _vectors()},
        lambda s: s["x"].signal("v", "w").sample(9, fill=hp.hold(30)).mean(3, hop=2),
        expected,
        1e-12,
        _SUMS,
    )


def _paired(name: str, a: Source, b: Source, then: Callable[[Any, Any], Any], function: Any, tolerance: float) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return then(*(s[n].signal("v").sample(10).window(5, hop=2) for n in "ab"))

    def expected(i: Mapping[str, Source]) -> Any:
        x, y = ({k: oracles.windows(v, 5, 2) for k, v in sampled(i[n], 10).items()} for n in "ab")
        with np.errstate(all="ignore"):
            both = oracles.each(lambda p, q: {e: function(p[e], q[e]) for e in p if e in q}, x, y)
        return window_rows(both, grid(10))

    return Case(name, CombineWindows, {"a": a, "b": b}, query, expected, tolerance, _SUMS if tolerance else "")


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(a, b)


def _unwindow(name: str, source: Source, size: int, hop: int, how: Any, function: Any, missing: str = "drop") -> Case:
    def expected(i: Mapping[str, Source]) -> Any:
        w = {k: oracles.windows(v, size, hop, missing) for k, v in sampled(i["x"], 10).items()}
        ramp = np.arange(size) + 1.0
        with np.errstate(all="ignore"):
            scaled = {k: {e: a * ramp for e, a in v.items()} for k, v in w.items()}
            return sample_rows(oracles.each(lambda v: oracles_windows.unwindow(v, function), scaled), grid(10))

    return Case(
        name,
        Unwindow if callable(how) else OverlapAdd,
        {"x": source},
        lambda s: (
            s["x"]
            .signal("v")
            .sample(10)
            .window(size, hop=hop, missing=missing)
            .multiply(np.arange(size) + 1.0)
            .unwindow(how)
        ),
        expected,
        1e-12,
        _SUMS,
    )


def middle(values: np.ndarray) -> np.ndarray:
    """The mean of the smallest and the largest that are there."""
    return (np.fmin.reduce(values, axis=1) + np.fmax.reduce(values, axis=1)) / 2


def newest(values: np.ndarray) -> np.ndarray:
    """The last column that is there."""
    at = values.shape[1] - 1 - np.argmax(~np.isnan(values[:, ::-1]), axis=1)
    return values[np.arange(len(values)), at]


class RunningEnergy(hp.WindowOperator):
    """As in the language's examples; recomputes often, so that a slice reaches less far than the data."""

    every = 4

    def output_size(self, size: int) -> int:
        return 1

    def recompute(self, x: Any) -> Any:
        return (x.all**2).sum(axis=1, keepdims=True)

    def update(self, x: Any, y: Any) -> Any:
        return y + (x.new**2).sum(axis=1, keepdims=True) - (x.old**2).sum(axis=1, keepdims=True)


class Cubed(hp.WindowOperator):
    """Value by value, so that its answers slide and another operator can follow them."""

    slides = True

    def recompute(self, x: Any) -> Any:
        return x.all**3

    def update(self, x: Any, y: Any) -> Any:
        return np.concatenate([y[:, x.new.shape[1] :], x.new**3], axis=1)


class Ramp(hp.WindowOperator):
    """Without an update, and as long as its input."""

    def recompute(self, x: Any) -> Any:
        return np.cumsum(x.all, axis=1)


def add_moments(state: np.ndarray, x: np.ndarray) -> np.ndarray:
    return state + np.stack([np.full(len(x), x.shape[1]), x.sum(axis=1)], axis=1)


def remove_moments(state: np.ndarray, x: np.ndarray) -> np.ndarray:
    return state - np.stack([np.full(len(x), x.shape[1]), x.sum(axis=1)], axis=1)


def quotient(state: np.ndarray) -> np.ndarray:
    return state[:, 1] / state[:, 0]


def add_largest(state: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.maximum(state, x.max(axis=1, keepdims=True))


def weighted_sum(windows: np.ndarray) -> np.ndarray:
    return np.abs(windows) @ np.arange(windows.shape[1])


def spread(windows: np.ndarray) -> np.ndarray:
    return windows.max(axis=1) - windows.min(axis=1)


ROUGH = data.beats(201, value=data.rough)
SINGLE = data.beats(202, value=data.single)
COMPLEX = data.beats(203, value=data.complicated)

CASES = [
    window("taper", data.beats(200), 8, 3, node=Multiply, then=lambda w: w.taper("hann"), array=lambda a: a * HANN),
    window(
        "taper-single",
        SINGLE,
        8,
        node=Multiply,
        then=lambda w: w.taper(("kaiser", 4.0)),
        array=lambda a: a * scipy.signal.get_window(("kaiser", 4.0), 8).astype(np.float32),
    ),
    window(
        "multiply-rough",
        ROUGH,
        3,
        2,
        "zero",
        node=Multiply,
        then=lambda w: w.multiply([0.5, -1, 2]),
        array=lambda a: a * [0.5, -1, 2],
    ),
    window(
        "autocorrelate",
        COMPLEX,
        5,
        2,
        node=Autocorrelate,
        then=lambda w: w.autocorrelate(),
        array=lambda a: np.correlate(a, a, "full"),
        tolerance=1e-12,
    ),
    window(
        "autocorrelate-long",
        data.beats(204, rows=150, lost=0.005),
        70,
        35,
        node=Autocorrelate,
        then=lambda w: w.autocorrelate(),
        array=lambda a: np.correlate(a, a, "full"),
        tolerance=1e-12,
    ),
    window(
        "convolve-windows",
        ROUGH,
        4,
        2,
        node=Convolve,
        then=lambda w: w.convolve([1.0, -0.5, 0.25], "same"),
        array=lambda a: _convolved(a, [1.0, -0.5, 0.25], "same"),
        tolerance=1e-12,
    ),
    window(
        "convolve-long",
        data.beats(204),
        6,
        3,
        node=Convolve,
        then=lambda w: w.convolve(np.linspace(-1, 1, 80)),
        array=lambda a: np.convolve(a, np.linspace(-1, 1, 80)),
        tolerance=1e-12,
    ),
    window(
        "top-k-ties", data.beats(205, value=ties), 6, 2, node=TopK, then=lambda w: w.top_k(2), array=lambda a: top(a, 2)
    ),
    window("top-k-rough", ROUGH, 5, 3, node=TopK, then=lambda w: w.top_k(3), array=lambda a: top(a, 3)),
    window("trim-peak", ROUGH, 5, 3, node=TrimPeak, then=lambda w: w.trim_peak(1), array=trimmed),
    window(
        "select-values",
        data.beats(206, value=data.whole),
        6,
        4,
        node=SelectValues,
        then=lambda w: w.select([0, -1, 2]),
        array=lambda a: a[[0, 5, 2]],
    ),
    window(
        "select-slice",
        data.beats(206),
        6,
        2,
        "zero",
        node=SelectValues,
        then=lambda w: w.select(slice(None, None, 2)),
        array=lambda a: a[::2],
    ),
    window(
        "detrend",
        data.beats(207),
        5,
        2,
        node=Detrend,
        then=lambda w: w.detrend(),
        array=lambda a: scipy.signal.detrend(a, type="constant"),
        tolerance=1e-12,
    ),
    window(
        "detrend-windows",
        COMPLEX,
        5,
        2,
        node=Detrend,
        then=lambda w: w.detrend("linear"),
        array=lambda a: scipy.signal.detrend(a, type="linear"),
        tolerance=1e-12,
    ),
    window(
        "magnitude",
        COMPLEX,
        4,
        2,
        node=Magnitude,
        then=lambda w: w.fft().magnitude(),
        array=lambda a: np.abs(np.fft.fft(a)),
        tolerance=1e-12,
    ),
    window(
        "power",
        SINGLE,
        4,
        2,
        node=Power,
        then=lambda w: w.rfft().power(),
        array=lambda a: np.abs(np.fft.rfft(a)) ** 2,
        tolerance=1e-5,
    ),
    window(
        "power-whole",
        data.beats(206, value=data.small_whole),
        4,
        node=Power,
        then=lambda w: w.power(),
        array=lambda a: a.astype(float) ** 2,
    ),
    window("phase", COMPLEX, 4, 2, node=Phase, then=lambda w: w.phase(), array=np.angle, tolerance=1e-12),
    _paired(
        "cross-correlate",
        COMPLEX,
        data.beats(208),
        lambda a, b: a.cross_correlate(b),
        lambda a, b: np.correlate(a, b, "full"),
        1e-12,
    ),
    _paired(
        "combine-windows-rough",
        ROUGH,
        data.beats(209, value=data.rough),
        lambda a, b: a.combine(b, larger),
        np.maximum,
        0.0,
    ),
    _paired(
        "combine-windows-no-common-key",
        data.beats(208, ["a"]),
        data.beats(209, ["b"]),
        lambda a, b: a.combine(b, larger),
        np.maximum,
        0.0,
    ),
    reduced("reduce", data.beats(210), 6, 2, lambda s: s.window(6, hop=2).reduce(np.ptp), np.ptp),
    reduced(
        "reduce-start",
        ROUGH,
        5,
        3,
        lambda s: s.window(5, hop=3).reduce(spread, at="start"),
        lambda a: a.max() - a.min(),
        at="start",
    ),
    reduced(
        "reduce-spectrum",
        data.beats(210),
        8,
        3,
        lambda s: s.window(8, hop=3, missing="zero").fft().reduce(weighted_sum),
        lambda a: np.abs(np.fft.fft(a)) @ np.arange(8),
        missing="zero",
        tolerance=1e-12,
    ),
    reduced(
        "reduce-44khz",
        _cd_audio(),
        6,
        4,
        lambda s: s.window(6, hop=4).reduce(np.max),
        np.max,
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    reduced(
        "reduce-44khz-start",
        _cd_audio(),
        6,
        4,
        lambda s: s.window(6, hop=4).reduce(np.max, at="start"),
        np.max,
        at="start",
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    reduced("reduce-then-filter", data.beats(211), 4, 4, lambda s: s.window(4).reduce(np.max).fir([1.0]), np.max),
    rolling("sum", data.beats(212, value=data.whole), 7, 2, tolerance=0.0),
    rolling("sum", COMPLEX, 5, 1, "-complex"),
    rolling("mean", ROUGH, 5, 1),
    rolling("min", ROUGH, 4, 3),
    rolling("max", data.beats(213, value=data.small_whole), 6, 1, tolerance=0.0),
    rolling("energy", SINGLE, 5, 2),
    rolling("power", COMPLEX, 3, 5, "-skipping"),
    rolling("rms", data.beats(214), 6, 3),
    rolling("rms", _cd_audio(), 7, 3, "-44khz-start", at="start", period=GRID_44K, spacing="44.1kHz"),
    rolling("std", ROUGH, 6, 1),
    rolling("kurtosis", data.beats(215, value=ties), 5, 2),
    rolling("crest", data.beats(214, value=data.small_whole), 8, 2),
    rolling("rms", data.beats(216), 6, 3, "-zero", missing="zero"),
    rolling("mean", data.empty(data.beats(216)), 6, 3, "-empty"),
    _vector_mean(),
    *(
        reduced(
            f"statistic-{kind}",
            data.beats(217),
            6,
            4,
            lambda s, k=kind: getattr(s.window(6, hop=4).detrend(), k)(),
            lambda a, k=kind: oracles_windows.AGGREGATES[k](a - a.mean()),
            node=Statistic,
            tolerance=1e-11,
        )
        for kind in ("kurtosis", "crest")
    ),
    reduced(
        "statistic-rms-spectrum",
        data.beats(217),
        6,
        4,
        lambda s: s.window(6, hop=4).rfft().rms(),
        lambda a: oracles_windows.AGGREGATES["rms"](np.fft.rfft(a)),
        node=Statistic,
        tolerance=1e-11,
    ),
    window(
        "apply",
        data.beats(218),
        8,
        2,
        node=Apply,
        then=lambda w: w.apply(RunningEnergy()),
        array=lambda a: np.array([(a**2).sum()]),
        tolerance=1e-12,
    ),
    window(
        "apply-twice",
        data.beats(218),
        8,
        2,
        node=Apply,
        then=lambda w: w.apply(Cubed()).power().apply(RunningEnergy()),
        array=lambda a: np.array([(a**12).sum()]),
        tolerance=1e-9,
    ),
    window(
        "apply-rough",
        data.beats(218, value=data.rough),
        6,
        1,
        "zero",
        node=Apply,
        then=lambda w: w.apply(RunningEnergy()),
        array=lambda a: np.array([(a**2).sum()]),
        tolerance=1e-9,
    ),
    window("apply-without-update", data.beats(218), 5, 3, node=Apply, then=lambda w: w.apply(Ramp()), array=np.cumsum),
    window(
        "apply-tapered",
        data.beats(218),
        8,
        2,
        node=Apply,
        then=lambda w: w.taper().apply(RunningEnergy()),
        array=lambda a: np.array([((a * HANN) ** 2).sum()]),
        tolerance=1e-12,
    ),
    reduced(
        "aggregate",
        data.beats(219),
        6,
        2,
        lambda s: s.window(6, hop=2).aggregate(add_moments, remove_moments, quotient, initial=[0.0, 0.0]),
        np.mean,
        node=Apply,
        tolerance=1e-12,
        why=_UPDATES,
    ),
    reduced(
        "aggregate-without-remove",
        data.beats(219, value=data.rough),
        6,
        2,
        lambda s: s.window(6, hop=2).aggregate(add_largest, initial=-np.inf),
        np.max,
        node=Apply,
    ),
    _unwindow("unwindow-mean", data.beats(220, value=data.rough), 6, 2, "mean", np.mean),
    _unwindow("unwindow-sum", data.beats(220), 5, 2, "sum", np.sum),
    _unwindow("unwindow-function", data.beats(221), 7, 3, middle, lambda v: (v.min() + v.max()) / 2),
    _unwindow("unwindow-newest", data.beats(221), 6, 2, newest, lambda v: v[-1], "zero"),
    _unwindow("unwindow-skipping", data.beats(221, lost=0.02), 2, 3, newest, lambda v: v[-1]),
]
