"""Cases of Fir, Sos and Ema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.signal
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled
from tests.cases.table import Case, Source, grid, sample_rows

from hydrophone.ops.filters.ema import Ema
from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.filters.sos import Sos

_SUMS = "sums of products in another order than SciPy's"
_RINGING = "a hole longer than the filter rings puts it to rest (below 2**-60 of the peak); SciPy adds in another order"

_FADING = (
    "one power over a hole where pandas multiplies step by step; a hole or stretch in which the past fades below 2**-60"
)

BUTTER = scipy.signal.butter(4, 0.3, output="sos")
NOTCH = scipy.signal.tf2sos(*scipy.signal.iirnotch(0.2, 4))
PLAIN = np.array([[0.5, -0.25, 0.125, 1.0, 0.0, 0.0]])
SHORT = np.array([[0.5, 0.3, 0.1, 1, -1e-4, 0]])  # rings for a few samples: holes are longer


def fir(
    name: str,
    source: Source,
    taps: Any,
    missing: str = "zero",
    *,
    tolerance: float = 1e-12,
    period: Any = 10,
    spacing: Any = None,
    columns: Any = ("v",),
) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return s["x"].signal(*columns).sample(spacing or period).fir(taps, missing=missing)

    def expected(inputs: Mapping[str, Source]) -> Any:
        x = sampled(inputs["x"], period, columns=columns)
        return sample_rows(
            oracles.each(lambda v: oracles.fir({k: _wide(s) for k, s in v.items()}, taps, missing), x), grid(period)
        )

    return Case(name, Fir, {"x": source}, query, expected, tolerance, _SUMS if tolerance else "")


def sos(
    name: str,
    source: Source,
    sections: Any,
    missing: str = "zero",
    *,
    initial: str = "rest",
    period: Any = 10,
    spacing: Any = None,
    columns: Any = ("v",),
) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return s["x"].signal(*columns).sample(spacing or period).sos(sections, missing=missing, initial=initial)

    def expected(inputs: Mapping[str, Source]) -> Any:
        x = sampled(inputs["x"], period, columns=columns)
        return sample_rows(oracles.each(lambda v: oracles.sos(v, sections, missing, initial), x), grid(period))

    return Case(name, Sos, {"x": source}, query, expected, 1e-12, _RINGING)


def ema(
    name: str,
    source: Source,
    alpha: float,
    missing: str = "fade",
    *,
    period: Any = 10,
    spacing: Any = None,
    columns: Any = ("v",),
) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return s["x"].signal(*columns).sample(spacing or period).ema(alpha, missing=missing)

    def expected(inputs: Mapping[str, Source]) -> Any:
        x = sampled(inputs["x"], period, columns=columns)
        return sample_rows(oracles.each(lambda v: _ewm(v, alpha, missing), x), grid(period))

    return Case(name, Ema, {"x": source}, query, expected, 1e-12, _FADING)


def _ewm(x: oracles.Samples, alpha: float, missing: str) -> oracles.Samples:
    """pandas' ``ewm`` of one key, channel by channel and part by part; a sample that is not finite is a hole that gives NaN."""
    if not x:
        return {}
    index, table = list(x), np.array([np.atleast_1d(v) for v in x.values()])
    table = table.astype(np.result_type(table.dtype, float))

    def column(v: np.ndarray) -> np.ndarray:
        series = pd.Series(v, index)[np.isfinite(v)].sort_index()
        mean = pd.Series(np.nan, index)
        if len(series) and missing == "fade":
            dense = series.reindex(range(series.index[0], series.index[-1] + 1)).bfill()
            mean[series.index] = dense.ewm(alpha=alpha, adjust=False).mean()[series.index]
        elif len(series):
            stretch = (series.index.to_series().diff() != 1).cumsum()
            for _, alone in series.groupby(stretch):
                mean[alone.index] = alone.ewm(alpha=alpha, adjust=False).mean()
        return mean.to_numpy()

    parts = [column(c.real) + 1j * column(c.imag) if np.iscomplexobj(c) else column(c) for c in table.T]
    return dict(zip(index, parts[0] if len(parts) == 1 else np.stack(parts, axis=1), strict=True))


def _wide(v: Any) -> Any:
    return v if isinstance(v, complex) or np.iscomplexobj(v) else np.asarray(v, float)


def _bursts(n: int, rng: np.random.Generator) -> np.ndarray:
    """Quiet, with a few samples twelve orders above the rest."""
    v = rng.normal(0, 1e-3, n)
    v[rng.integers(0, n, max(1, n // 700))] = 1e9
    return v


LOW = scipy.signal.firwin(9, 0.3).tolist()
MANY = scipy.signal.firwin(256, 0.3).tolist()  # by FFT, in blocks of 769 samples

CASES = [
    fir("fir-zero", data.beats(20), LOW),
    fir("fir-drop", data.beats(20), [0.5, -0.25, 1.0], "drop"),
    fir("fir-reset", data.beats(20), LOW, "reset"),
    fir("fir-one-tap", data.beats(21), [2.0], tolerance=0),
    fir("fir-one-tap-drop", data.beats(21), [-0.5], "drop", tolerance=0),
    fir("fir-longer-than-data", data.beats(22, rows=10), np.linspace(-1, 1, 50).tolist()),
    fir("fir-longer-than-data-drop", data.beats(22, rows=10), np.linspace(-1, 1, 50).tolist(), "drop"),
    fir("fir-rough", data.beats(23, value=data.rough), [0.5, 0.25, 0.25]),
    fir("fir-rough-drop", data.beats(23, value=data.rough), [0.5, 0.25, 0.25], "drop"),
    fir("fir-integers", data.beats(24, [7, -7], value=data.whole), [1.0, -1.0], tolerance=0),
    fir("fir-complex-taps", data.beats(25), [1 + 1j, 0.5j, -1.0]),
    fir("fir-complex", data.beats(25, value=data.complicated), LOW, "reset"),
    fir("fir-single", data.beats(26, value=data.single), LOW, "drop", tolerance=1e-6),
    fir("fir-vectors", _vectors(), [1.0, -0.5], period=1, columns=("v", "w")),
    fir("fir-44khz", _cd_audio(), LOW, period=GRID_44K, spacing="44.1kHz"),
    fir("fir-empty", data.empty(data.beats(20)), LOW),
    fir("fir-one-row", data.one_row(data.beats(20)), LOW),
    fir("fir-keys-once", data.beats(27, list(range(50)), 1, lost=0), LOW),
    fir("fir-many-taps", data.beats(28, ["a", "b"], 2000, lost=0.001), MANY),
    fir("fir-many-taps-drop", data.beats(28, ["a", "b"], 2000, lost=0.001), MANY, "drop"),
    fir("fir-many-taps-reset", data.beats(28, ["a", "b"], 2000, lost=0.001), MANY, "reset"),
    fir("fir-many-taps-rough", data.beats(29, ["a"], 1700, lost=0.01, value=data.rough), MANY),
    fir("fir-many-taps-bursts", data.beats(29, ["a", "b"], 1700, lost=0, value=_bursts), MANY),
    fir("fir-many-taps-complex", data.beats(29, ["a"], 1700, lost=0, value=data.complicated), MANY),
    fir("fir-many-taps-few-samples", data.beats(29, list(range(30)), 12), MANY),
    sos("sos-zero", data.beats(30), BUTTER),
    sos("sos-reset", data.beats(30), BUTTER, "reset"),
    sos("sos-notch", data.beats(31, rows=80), NOTCH),
    sos("sos-without-poles", data.beats(32), PLAIN),
    sos("sos-without-poles-reset", data.beats(32), PLAIN, "reset"),
    sos("sos-rough", data.beats(33, value=data.rough), BUTTER, "reset"),
    sos("sos-integers", data.beats(34, [7, -7], value=data.whole), BUTTER),
    sos("sos-complex", data.beats(35, value=data.complicated), BUTTER),
    sos("sos-single", data.beats(36, value=data.single), BUTTER),
    sos("sos-vectors", _vectors(), PLAIN, period=1, columns=("v", "w")),
    sos("sos-44khz", _cd_audio(), BUTTER, period=GRID_44K, spacing="44.1kHz"),
    sos("sos-steady", data.beats(30, value=lambda n, rng: rng.normal(20, 1, n)), BUTTER, initial="steady"),
    sos("sos-steady-reset", data.beats(37, value=data.rough), BUTTER, "reset", initial="steady"),
    sos("sos-steady-long-holes", data.beats(32, value=data.rough), SHORT, initial="steady"),
    sos("sos-steady-vectors", _vectors(), SHORT, initial="steady", period=1, columns=("v", "w")),
    sos("sos-empty", data.empty(data.beats(30)), BUTTER),
    ema("ema-fade", data.beats(40), 0.3),
    ema("ema-reset", data.beats(40), 0.3, "reset"),
    ema("ema-without-holes", data.beats(41, lost=0), 0.1),
    ema("ema-all-of-the-new", data.beats(42), 1.0),
    ema("ema-quick", data.beats(43, rows=80), 0.999_9),
    ema("ema-brisk", data.beats(43, rows=80), 0.9),
    ema("ema-brisk-reset", data.beats(43, rows=80), 0.9, "reset"),
    ema("ema-slow", data.beats(43, rows=80), 0.01),
    ema("ema-slow-reset", data.beats(43, rows=80), 0.01, "reset"),
    ema("ema-without-bound", data.beats(44), 1e-9),
    ema("ema-rough", data.beats(45, value=data.rough), 0.5),
    ema("ema-rough-reset", data.beats(45, value=data.rough), 0.5, "reset"),
    ema("ema-integers", data.beats(46, [7, -7], value=data.whole), 0.25),
    ema("ema-complex", data.beats(47, value=data.complicated), 0.25),
    ema("ema-single", data.beats(48, value=data.single), 0.25),
    ema("ema-vectors", _vectors(), 0.5, period=1, columns=("v", "w")),
    ema("ema-44khz", _cd_audio(), 0.2, period=GRID_44K, spacing="44.1kHz"),
    ema("ema-empty", data.empty(data.beats(40)), 0.3),
    ema("ema-keys-once", data.beats(49, list(range(50)), 1, lost=0), 0.3),
]
