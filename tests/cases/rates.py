"""Cases of other rates and times, and of functions of single samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.signal
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled
from tests.cases.table import Case, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.ops.filters.shift import Shift
from hydrophone.ops.resampling.downsample import Downsample
from hydrophone.ops.resampling.resample import Resample
from hydrophone.ops.resampling.resample_poly import ResamplePoly
from hydrophone.ops.resampling.shift_time import ShiftTime
from hydrophone.ops.resampling.upsample import Upsample
from hydrophone.ops.signals.part import Part
from hydrophone.ops.signals.samples import ClipSamples, MapSamples, WhereSamples

_SUMS = "sums of products in another order than SciPy's"
_LINE = "the line between two points, up to the rounding of one multiplication"


def case(
    name: str,
    node: Any,
    source: Source,
    then: Callable[[Any], Any],
    expected: Callable[[oracles.Samples], oracles.Samples],
    at: oracles.Grid,
    *,
    period: Any = 10,
    spacing: Any = None,
    columns: tuple[str, ...] = ("v",),
    tolerance: float = 0.0,
    why: str = _SUMS,
) -> Case:
    """A query over samples; `at` is the grid of the answer."""

    def rows(i: Mapping[str, Source]) -> Any:
        with np.errstate(all="ignore"):
            return sample_rows(oracles.each(expected, sampled(i["x"], period, columns=columns)), at)

    def query(s: Mapping[str, Any]) -> Any:
        return then(s["x"].signal(*columns).sample(spacing or period))

    return Case(name, node, {"x": source}, query, rows, tolerance, why if tolerance else "")


def resampled(
    x: oracles.Samples, up: int, down: int, window: Any = ("kaiser", 5.0), whole: int | None = None
) -> oracles.Samples:
    """SciPy over the signal with zeros in its holes, from an index on that both grids share.

    `whole` is half the length of the taps: then only samples that lack none under the filter are kept.
    """
    if not x:
        return {}
    start = min(x) // down * down
    dense = np.array([x.get(k, np.zeros_like(next(iter(x.values())))) for k in range(start, max(x) + 1)])
    y = scipy.signal.resample_poly(dense.astype(np.result_type(dense, float)), up, down, window=window)
    first = start * up // down
    out = {first + i: v for i, v in enumerate(y) if (first + i) * down // up in x}
    if whole is None:
        return out
    return {
        m: v
        for m, v in out.items()
        if all(k in x for k in range(-((whole - m * down) // up), (m * down + whole) // up + 1))
    }


def poly(name: str, source: Source, up: int, down: int, period: Any = 10, spacing: Any = None, **more: Any) -> Case:
    taps = more.pop("taps", None)
    missing = more.pop("missing", "zero")
    window = ("kaiser", 5.0) if taps is None else taps
    whole = len(taps) // 2 if missing == "drop" else None
    return case(
        name,
        ResamplePoly,
        source,
        more.pop("then", lambda s: s.resample_poly(up=up, down=down, window=window, missing=missing)),
        lambda x: resampled(x, up, down, window, whole),
        grid(Fraction(period) * down / up),
        period=period,
        spacing=spacing,
        tolerance=1e-12,
        **more,
    )


TAPS = [0.1, -0.2, 0.3, 0.5, 0.3, -0.2, 0.1]
SHORT = [0.25, 0.5, 0.25]


def _halved(x: oracles.Samples) -> oracles.Samples:
    """Written out: SciPy pads the taps with zeros, and zero times NaN would show one sample too far."""
    return {
        m: sum(h * x[2 * m + i] for i, h in zip((-1, 0, 1), SHORT, strict=True) if 2 * m + i in x)
        for m in range(min(x) // 2, max(x) // 2 + 1)
        if 2 * m in x
    }


def _decimated(x: oracles.Samples) -> oracles.Samples:
    """``scipy.signal.decimate`` itself, over the signal with zeros in its holes."""
    start = min(x) // 3 * 3
    dense = np.array([x.get(k, 0.0) for k in range(start, max(x) + 1)])
    y = scipy.signal.decimate(dense, 3, ftype="fir")
    return {start // 3 + i: v for i, v in enumerate(y) if start + 3 * i in x}


def _lines(x: oracles.Samples) -> oracles.Samples:
    """Every 4 ns between samples every 10 ns that follow each other."""
    out: oracles.Samples = {}
    for k in range(min(x) * 10 // 4 - 1, max(x) * 10 // 4 + 2):
        low = k * 4 // 10
        if k * 4 % 10 == 0 and low in x:
            out[k] = x[low]
        elif low in x and low + 1 in x:
            out[k] = x[low] + (x[low + 1] - x[low]) * ((k * 4 - low * 10) / 10)
    return out


def _per_key() -> Case:
    """Every key has a period of its own, and keeps it exactly."""
    rows = [("a", 0, [1.0, 2.0, 3.0, 4.0], 10.0), ("b", -6, [1.0, 0.5, 3.0], 3.0), ("a", 50, [7.0], 10.0)]
    table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(["k", "t", "values", "period"])})

    def expected(_: Any) -> Any:
        out = []
        for k, p, x in (
            ("a", 10, {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0, 5: 7.0}),
            ("b", 3, {-2: 1.0, -1: 0.5, 0: 3.0}),
        ):
            at = grid(Fraction(p * 2, 3))
            out += [(k, at.instant(m), v) for m, v in resampled(x, 3, 2, TAPS).items()]
        return out

    return Case(
        "resample-poly-per-key",
        ResamplePoly,
        {"x": Source(table, key="k", samples="values")},
        lambda s: s["x"].resample_poly(up=3, down=2, window=TAPS),
        expected,
        1e-12,
        _SUMS,
    )


def _there_and_back() -> Case:
    """A window of a slower signal: the instants of both grids are those of the exact period."""
    return case(
        "downsample-then-window",
        Downsample,
        _cd_audio(),
        lambda s: s.downsample(3).max(2, hop=1),
        lambda x: {k // 3: max(x[k], x[k - 3]) for k in x if k % 3 == 0 and k - 3 in x},
        grid(GRID_44K * 3),
        period=GRID_44K,
        spacing="44.1kHz",
    )


def squared(v: np.ndarray) -> np.ndarray:
    return v * v + 1


def summed(v: np.ndarray) -> np.ndarray:
    return v.sum(axis=1)


def loud(v: np.ndarray) -> np.ndarray:
    return (v < -1) | (v > 2)


ROUGH = data.beats(260, value=data.rough)

CASES = [
    case(
        "downsample",
        Downsample,
        ROUGH,
        lambda s: s.downsample(3),
        lambda x: {k // 3: v for k, v in x.items() if k % 3 == 0},
        grid(30),
    ),
    case(
        "downsample-phase",
        Downsample,
        data.beats(261, value=data.whole),
        lambda s: s.downsample(4, 3),
        lambda x: {k // 4: v for k, v in x.items() if k % 4 == 3},
        grid(40, 30),
    ),
    case(
        "downsample-44khz",
        Downsample,
        _cd_audio(),
        lambda s: s.downsample(4, 1),
        lambda x: {k // 4: v for k, v in x.items() if k % 4 == 1},
        grid(GRID_44K * 4, int(GRID_44K)),
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    _there_and_back(),
    case(
        "upsample",
        Upsample,
        ROUGH,
        lambda s: s.upsample(2),
        lambda x: {k * 2 + i: 0.0 if i else v for k, v in x.items() for i in (0, 1)},
        grid(5),
    ),
    case(
        "upsample-hold",
        Upsample,
        _cd_audio(),
        lambda s: s.upsample(3, "hold"),
        lambda x: {k * 3 + i: v for k, v in x.items() for i in range(3)},
        grid(GRID_44K / 3),
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    poly("resample-poly", data.beats(262), 3, 2, taps=TAPS),
    poly("resample-poly-down", data.beats(263, value=data.complicated), 2, 5, taps=TAPS),
    case(
        "resample-poly-rough",
        ResamplePoly,
        ROUGH,
        lambda s: s.resample_poly(down=2, window=SHORT),
        _halved,
        grid(20),
        tolerance=1e-12,
    ),
    poly("resample-poly-drop", data.beats(264, lost=0.05), 4, 3, taps=TAPS, missing="drop"),
    poly("resample-poly-designed", data.beats(265, rows=60, value=data.whole), 3, 4),
    poly(
        "resample-poly-44khz",
        _cd_audio(),
        160,
        147,
        period=GRID_44K,
        spacing="44.1kHz",
        then=lambda s: s.resample_poly("48kHz"),
    ),
    poly("resample-poly-vectors", _vectors(), 2, 3, period=1, taps=TAPS, columns=("v", "w")),
    poly("resample-poly-empty", data.empty(data.beats(262)), 3, 2, taps=TAPS),
    _per_key(),
    case(
        "decimate",
        ResamplePoly,
        data.beats(266, rows=70, lost=0.04),
        lambda s: s.decimate(3),
        _decimated,
        grid(30),
        tolerance=1e-12,
    ),
    case("resample", Resample, data.beats(267), lambda s: s.resample(4), _lines, grid(4), tolerance=1e-12, why=_LINE),
    case(
        "resample-hold",
        Resample,
        ROUGH,
        lambda s: s.resample(5, fill=hp.hold(9)),
        lambda x: {2 * k + i: v for k, v in x.items() for i in (0, 1)},
        grid(5),
    ),
    case("shift-time", ShiftTime, ROUGH, lambda s: s.shift_time(7), dict, grid(10, 7)),
    case(
        "shift-time-back",
        ShiftTime,
        _cd_audio(),
        lambda s: s.shift_time(-1000),
        dict,
        grid(GRID_44K, -1000),
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    case(
        "shift-time-on-grid",
        Shift,
        ROUGH,
        lambda s: s.shift_time(-30),
        lambda x: {k - 3: v for k, v in x.items()},
        grid(10),
    ),
    case(
        "map-samples",
        MapSamples,
        ROUGH,
        lambda s: s.map(squared),
        lambda x: {k: v * v + 1 for k, v in x.items()},
        grid(10),
    ),
    case(
        "map-samples-vectors",
        MapSamples,
        _vectors(),
        lambda s: s.map(summed),
        lambda x: {k: v.sum() for k, v in x.items()},
        grid(1),
        period=1,
        columns=("v", "w"),
    ),
    case(
        "where-samples",
        WhereSamples,
        ROUGH,
        lambda s: s.where(loud),
        lambda x: {k: v for k, v in x.items() if v < -1 or v > 2},
        grid(10),
    ),
    case(
        "where-then-window",
        WhereSamples,
        data.beats(268),
        lambda s: s.where(loud).window(1).reduce(np.max),
        lambda x: {k: v for k, v in x.items() if v < -1 or v > 2},
        grid(10),
    ),
    case(
        "clip-samples",
        ClipSamples,
        ROUGH,
        lambda s: s.clip(-1.5, 2),
        lambda x: {k: np.clip(v, -1.5, 2) for k, v in x.items()},
        grid(10),
    ),
    case(
        "clip-samples-whole",
        ClipSamples,
        data.beats(269, value=data.small_whole),
        lambda s: s.clip(high=20),
        lambda x: {k: min(v, 20) for k, v in x.items()},
        grid(10),
    ),
    case(
        "abs",
        Part,
        data.beats(269, value=data.complicated),
        lambda s: s.abs().scale(2.0),
        lambda x: {k: abs(v) * 2 for k, v in x.items()},
        grid(10),
        tolerance=1e-12,
        why="NumPy's hypotenuse is not Python's",
    ),
]
