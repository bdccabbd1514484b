"""Cases of Rolling at every sample, Hampel, Shift, Difference and Part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tests import oracles, oracles_windows
from tests import oracles_moving as reference
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors
from tests.cases.segments import GRIDS, segmented, signals
from tests.cases.table import Case, Row, Source
from tests.cases.uniform import uniform

from hydrophone.ops.filters.difference import Difference
from hydrophone.ops.filters.hampel import Hampel
from hydrophone.ops.filters.rolling import Rolling
from hydrophone.ops.filters.shift import Shift
from hydrophone.ops.signals.norm import Norm
from hydrophone.ops.signals.part import Part


def moving(how: str, source: Source, size: int, missing: str = "drop", *, name: str = "", **options: Any) -> Case:
    """Extremes and medians are samples: there is nothing to round."""
    exact = how in ("min", "max") or (how == "sum" and name == "integers")
    return uniform(
        f"moving-{how}{'-' + name if name else ''}",
        Rolling,
        source,
        lambda x: getattr(x, f"moving_{how}")(size, missing=missing),
        lambda x: reference.moving(x, size, reference.HOW[how], missing),
        tolerance=0 if exact else 1e-12,
        **options,
    )


def skipping(kind: str, source: Source, size: int, hop: int, how: reference.Whole) -> Case:
    """Windows with holes in them, as far as their last beat has a sample."""
    return uniform(
        f"rolling-{kind}-skip",
        Rolling,
        source,
        lambda x: x.rolling(kind, size, hop=hop, missing="skip"),
        lambda x: {k: v for k, v in reference.moving(x, size, how, "skip").items() if (k + 1 - size) % hop == 0},
        tolerance=1e-11,
    )


def plateaus(n: int, rng: np.random.Generator) -> np.ndarray:
    """Few different values, so that windows hold equal ones; zeros of both signs."""
    return rng.choice([-1.0, -0.0, 0.0, 2.0], n)


def steps(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-3, 4, n).astype(float)


def spikes(n: int, rng: np.random.Generator) -> np.ndarray:
    v = rng.normal(0, 1, n)
    v[rng.random(n) < 0.15] = 50
    v[rng.random(n) < 0.1] = np.nan
    return v


def _shift_of_segments() -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        return [(k, GRIDS[k].instant(n - 3), float(v)) for k, x in signals(inputs["x"]).items() for n, v in x.items()]

    return Case("shift-segments", Shift, {"x": segmented(210)}, lambda s: s["x"].shift(-3), expected)


def shifted(by: int) -> Any:
    return lambda x: {k + by: v for k, v in x.items()}


def _doubles(x: oracles.Samples) -> oracles.Samples:
    return {k: np.float64(v) for k, v in x.items()}


CASES = [
    moving("sum", data.beats(200), 5),
    moving("sum", data.beats(201, [7, -7], value=data.small_whole), 4, "skip", name="integers"),
    moving("sum", data.beats(202, value=data.rough), 6, "skip", name="rough"),
    moving("sum", data.beats(203, rows=10), 50, "skip", name="longer-than-data"),
    moving("mean", data.beats(200), 3, "skip"),
    moving("mean", _cd_audio(), 4, name="44khz", period=GRID_44K, spacing="44.1kHz"),
    moving("mean", data.beats(204, value=data.complicated), 3, name="complex"),
    moving("min", data.beats(205, value=plateaus), 4, "skip"),
    moving("max", data.beats(206, value=data.rough), 5),
    moving("max", data.beats(207, value=data.single), 3, "skip", name="single"),
    moving("std", data.beats(208, value=lambda n, rng: 1e6 + rng.normal(size=n)), 5),
    moving("std", data.beats(202, value=data.rough), 6, "skip", name="rough"),
    moving("energy", data.beats(204, value=data.complicated), 4),
    moving("rms", _vectors(), 3, "skip", period=1, columns=("v", "w")),
    moving("median", data.beats(205, value=plateaus), 4, "skip"),
    moving("median", data.beats(202, value=data.rough), 5, name="rough"),
    moving("median", data.empty(data.beats(202)), 5, name="empty"),
    skipping("sum", data.beats(202, value=data.rough), 5, 2, reference.HOW["sum"]),
    skipping("median", data.beats(205, value=plateaus), 4, 3, reference.HOW["median"]),
    skipping("kurtosis", data.beats(215, value=steps), 5, 1, oracles_windows.AGGREGATES["kurtosis"]),
    skipping("crest", data.beats(214), 6, 8, oracles_windows.AGGREGATES["crest"]),
    uniform(
        "moving-std-ddof",
        Rolling,
        data.beats(209),
        lambda x: x.moving_std("40ns", ddof=1, missing="skip"),
        lambda x: reference.moving(x, 4, reference.std1, "skip"),
    ),
    uniform(
        "hampel",
        Hampel,
        data.beats(211, value=spikes, lost=0.03),
        lambda x: x.hampel(7),
        lambda x: reference.around(x, 7, lambda w: reference.hampel(w, 3)),
    ),
    uniform(
        "hampel-rough",
        Hampel,
        data.beats(212, value=data.rough, lost=0.03),
        lambda x: x.hampel("50ns", 1.5),
        lambda x: reference.around(x, 5, lambda w: reference.hampel(w, 1.5)),
    ),
    uniform("shift-later", Shift, data.beats(213), lambda x: x.shift(4), shifted(4), tolerance=0),
    uniform("shift-earlier", Shift, data.beats(213), lambda x: x.shift("-30ns"), shifted(-3), tolerance=0),
    uniform(
        "shift-44khz",
        Shift,
        _cd_audio(),
        lambda x: x.shift(-5),
        shifted(-5),
        tolerance=0,
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    _shift_of_segments(),
    uniform(
        "difference",
        Difference,
        data.beats(214),
        lambda x: x.difference(),
        lambda x: reference.difference(x, 1),
        tolerance=0,
    ),
    uniform(
        "difference-lag",
        Difference,
        data.beats(215, value=data.rough),
        lambda x: x.difference(3),
        lambda x: reference.difference(x, 3),
        tolerance=0,
    ),
    uniform(
        "difference-zero",
        Difference,
        _vectors(),
        lambda x: x.difference(2, missing="zero"),
        lambda x: reference.difference(x, 2, "zero"),
        tolerance=0,
        period=1,
        columns=("v", "w"),
    ),
    uniform(
        "differentiate",
        Difference,
        data.beats(216, value=data.whole),
        lambda x: x.differentiate(),
        lambda x: {k: v / 10e-9 for k, v in reference.difference(x, 1).items()},
    ),
    uniform(
        "differentiate-narrow",
        Difference,
        data.beats(216, value=data.widest),
        lambda x: x.differentiate(),
        lambda x: {k: v / 10e-9 for k, v in reference.difference(_doubles(x), 1).items()},
    ),
    uniform(
        "part-magnitude",
        Part,
        data.beats(217, value=data.complicated),
        lambda x: x.magnitude(),
        lambda x: {k: abs(v) for k, v in x.items()},
        tolerance=1e-15,
        why="NumPy's and Python's absolute values round differently",
    ),
    uniform(
        "norm",
        Norm,
        _vectors(),
        lambda x: x.norm(),
        lambda x: {k: np.float64(np.linalg.norm(np.float64(v))) for k, v in x.items()},
        tolerance=1e-15,
        why="one rounding",
        period=1,
        columns=("v", "w"),
    ),
    uniform(
        "norm-one-channel",
        Norm,
        data.beats(218, value=data.widest),
        lambda x: x.norm(),
        lambda x: {k: abs(float(v)) for k, v in x.items()},
        tolerance=0,
    ),
    uniform(
        "part-all",
        Part,
        data.beats(217, value=data.complicated),
        lambda x: x.conjugate().angle() * x.real() + x.imag(),
        lambda x: {k: np.angle(np.conj(v)) * v.real + v.imag for k, v in x.items()},
        tolerance=1e-15,
        why="one rounding",
    ),
]
