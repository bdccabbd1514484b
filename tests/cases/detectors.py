"""Cases of Trigger, ZeroCrossings, FindPeaks, Integrate, FirAhead, and of the detectors made of other operators."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.signal
from tests import oracles
from tests import oracles_detectors as reference
from tests import oracles_moving as moving
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, sampled
from tests.cases.segments import GRIDS, segmented, signals
from tests.cases.table import Case, Row, Source, grid
from tests.cases.uniform import found, uniform

from hydrophone.ops.aggregates.snapshot import Snapshot
from hydrophone.ops.detectors.above import Above
from hydrophone.ops.detectors.find_peaks import FindPeaks
from hydrophone.ops.detectors.trigger import Trigger
from hydrophone.ops.detectors.zero_crossings import ZeroCrossings
from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.filters.fir_ahead import FirAhead
from hydrophone.ops.filters.integrate import Integrate
from hydrophone.ops.filters.rolling import Rolling
from hydrophone.ops.filters.shift import Shift
from hydrophone.ops.signals.arithmetic import Combine
from hydrophone.ops.signals.part import Part

LOW = scipy.signal.butter(2, 0.3, output="sos")
TAPS = [0.5, -1.0, 0.25, 2.0]
_FORGOTTEN = "the way back is cut where the impulse response has faded to 1e-9 of its sum; and rounding"
_PERIOD = "a hole is faded over by one power where the reference multiplies; sums in another order"


def steps(n: int, rng: np.random.Generator) -> np.ndarray:
    """Few levels: plateaus, and samples that equal the levels of a trigger."""
    return rng.choice([-2.0, -0.0, 0.0, 1.0, 2.0, 3.0], n)


def alike(n: int, rng: np.random.Generator) -> np.ndarray:
    """All whole numbers, some of them NaN."""
    v = rng.integers(-3, 4, n).astype(float)
    v[rng.random(n) < 0.05] = np.nan
    return v


def _of_segments(name: str, node: Any, query: Any, answer: Any) -> Case:
    """Every key has a period of its own."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        return [(k, *row) for k, x in signals(inputs["x"]).items() for row in answer(x, GRIDS[k])]

    return Case(name, node, {"x": segmented(260)}, lambda s: query(s["x"]), expected, 1e-12, "rounding")


def _samples(answer: Any) -> Any:
    return lambda x, at: [(at.instant(k), float(v)) for k, v in answer(x, at).items()]


def trigger(name: str, source: Source, on: float, off: float, report: int | None = None, **options: Any) -> Case:
    return found(
        name,
        Trigger,
        source,
        lambda x: x.trigger(on, off, report=report),
        lambda x, at: reference.trigger(x, on, off, at, report),
        **options,
    )


def peaks(name: str, source: Source, **options: Any) -> Case:
    return found(
        name, FindPeaks, source, lambda x: x.find_peaks(**options), lambda x, at: reference.peaks(x, at, **options)
    )


def integral(name: str, source: Source, reset: Any = "gap", rule: str = "trapezoid", **options: Any) -> Case:
    every = None if reset == "gap" else reset
    at = grid(options.get("period", 10))
    return uniform(
        name,
        Integrate,
        source,
        lambda x: x.integrate(reset=reset, rule=rule),
        lambda x: reference.integrate(x, at, every, rule),
        **options,
    )


def _ratio(x: oracles.Samples, few: int, many: int) -> oracles.Samples:
    energy = {k: v * v for k, v in x.items()}
    short, long = reference.ewm(energy, 1 / few), reference.ewm(energy, 1 / many)
    return {k: short[k] / long[k] for k in x}


def _analytic(size: int) -> Any:
    """The taps by the formula, handed to NumPy."""
    n = np.arange(size) - size // 2
    with np.errstate(divide="ignore"):
        taps = np.where(n % 2 != 0, 2 / np.pi / n, 0) * scipy.signal.windows.kaiser(size, 6)
    return lambda w: np.complex128(w[size // 2] + 1j * np.dot(taps[::-1], w))


def _turning(x: oracles.Samples, size: int, rate: float) -> oracles.Samples:
    z = moving.around(x, size, _analytic(size))
    return {k: np.angle(z[k] / z[k - 1]) * rate / (2 * np.pi) for k in z if k - 1 in z}


def together(events: list[tuple[int, int]], k: int) -> list[tuple[int, int, int]]:
    """(start, end, how many) of the stretches between any two changes in which at least `k` are alive."""
    edges = {t for pair in events for t in pair}
    cuts = sorted(edges)
    spans = [(a, b, sum(s <= a < e for s, e in events)) for a, b in itertools.pairwise(cuts)]
    return [span for span in spans if span[2] >= k]


def stitched(events: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals that touch or overlap, as one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(events):
        if out and start <= out[-1][1]:
            start, end = out[-1][0], max(out.pop()[1], end)
        out.append((start, end))
    return out


def _coincidence(name: str, source: Source, query: Any, find: Any, k: int) -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        events = [e for x in sampled(inputs["x"], 10).values() for e in find(x)]
        return [tuple(row) for row in together(events, k)]

    return Case(name, Snapshot, {"x": source}, lambda s: query(s["x"].signal("v").sample(10)), expected)


CASES = [
    _coincidence(
        "coincidence",
        data.beats(261, rows=60, value=steps),
        lambda x: x.above(0.5).coincidence(2),
        lambda x: [row[:2] for row in oracles.above(x, 0.5, grid(10))],
        2,
    ),
    _coincidence(
        "coincidence-points",
        data.beats(262, value=alike),
        lambda x: x.zero_crossings().coincidence(3, within=25),
        lambda x: stitched([(row[0], row[0] + 25) for row in reference.zero_crossings(x, grid(10))]),
        3,
    ),
    trigger("trigger", data.beats(240, value=steps, rows=60), 1.5, 1.0),
    trigger("trigger-rough", data.beats(241, value=data.rough, rows=60), 2.0, -1.0, 70),
    trigger("trigger-44khz", _cd_audio(), 0.5, -0.5, period=GRID_44K, spacing="44.1kHz"),
    _of_segments(
        "trigger-segments",
        Trigger,
        lambda x: x.trigger(1.0, -1.0),
        lambda x, at: reference.trigger(x, 1.0, -1.0, at),
    ),
    found(
        "zero-crossings",
        ZeroCrossings,
        data.beats(242, value=alike),
        lambda x: x.zero_crossings(),
        reference.zero_crossings,
    ),
    found(
        "zero-crossings-rough",
        ZeroCrossings,
        data.beats(243, value=data.rough),
        lambda x: x.zero_crossings(),
        reference.zero_crossings,
    ),
    peaks("find-peaks", data.beats(244, value=alike, rows=60, lost=0.02)),
    peaks("find-peaks-distance", data.beats(245, rows=60, lost=0.02), height=0.5, distance=3),
    peaks("find-peaks-prominence", data.beats(246, value=data.rough, rows=60, lost=0.0), prominence=2.0, within=5),
    _of_segments(
        "find-peaks-segments",
        FindPeaks,
        lambda x: x.find_peaks(distance=2),
        lambda x, at: reference.peaks(x, at, distance=2),
    ),
    integral("integrate", data.beats(247)),
    integral("integrate-rough", data.beats(248, value=data.rough), 70),
    integral("integrate-rectangle", data.beats(249, value=data.complicated), 45, "rectangle"),
    _of_segments("integrate-segments", Integrate, lambda x: x.integrate(), _samples(reference.integrate)),
    uniform("fir-ahead", FirAhead, data.beats(250), lambda x: x.fir_ahead(TAPS), lambda x: reference.ahead(x, TAPS)),
    uniform(
        "fir-ahead-rough",
        FirAhead,
        data.beats(251, value=data.rough),
        lambda x: x.fir_ahead(TAPS[:2]),
        lambda x: reference.ahead(x, TAPS[:2]),
    ),
    _of_segments(
        "fir-ahead-segments",
        FirAhead,
        lambda x: x.fir_ahead(TAPS),
        _samples(lambda x, at: reference.ahead(x, TAPS)),
    ),
    uniform(
        "filtfilt",
        FirAhead,
        data.beats(252, rows=80),
        lambda x: x.filtfilt(LOW),
        lambda x: reference.there_and_back(x, LOW),
        tolerance=1e-8,
        why=_FORGOTTEN,
    ),
    uniform(
        "sta-lta",
        Combine,
        data.beats(253, lost=0.03),
        lambda x: x.sta_lta(3, 7),
        lambda x: reference.full(x, 7, lambda w: np.mean(w[-3:] ** 2) / np.mean(w**2)),
    ),
    uniform(
        "sta-lta-recursive",
        Combine,
        data.beats(253),
        lambda x: x.sta_lta("30ns", "70ns", recursive=True),
        lambda x: _ratio(x, 3, 7),
        why=_PERIOD,
    ),
    uniform(
        "sta-lta-recursive-narrow",
        Combine,
        data.beats(253, value=data.widest),
        lambda x: x.sta_lta(3, 7, recursive=True),
        lambda x: _ratio({k: np.float64(v) for k, v in x.items()}, 3, 7),
        why=_PERIOD,
    ),
    uniform(
        "cfar-score",
        Shift,
        data.beats(254, lost=0.03),
        lambda x: x.cfar_score(cells=6, guard=1),
        lambda x: reference.score(x, 6, 1),
    ),
    found(
        "cfar",
        Above,
        data.beats(255, lost=0.03, rows=60),
        lambda x: x.cfar(1.2, cells=5, report=70),
        lambda x, at: oracles.above(reference.score(x, 5, 0), 1.2, at, 70),
        tolerance=1e-12,
    ),
    found(
        "cfar-average",
        Above,
        data.beats(256, lost=0.03, rows=60, value=lambda n, rng: rng.normal(size=n) ** 2),
        lambda x: x.cfar(2.0, cells=3, guard=1, noise="average", report=70),
        lambda x, at: oracles.above(reference.score(x, 3, 1, "average"), 2.0, at, 70),
        tolerance=1e-12,
    ),
    uniform(
        "zscore",
        Rolling,
        data.beats(257, lost=0.03),
        lambda x: x.zscore(5, ddof=1),
        lambda x: reference.full(x, 5, lambda w: (w[-1] - w.mean()) / w.std(ddof=1)),
    ),
    uniform(
        "normalise",
        Rolling,
        data.beats(257, lost=0.03, value=steps),
        lambda x: x.normalise(4),
        lambda x: reference.full(x, 4, lambda w: (w[-1] - w.min()) / (w.max() - w.min())),
    ),
    uniform(
        "normalise-narrow",
        Rolling,
        data.beats(257, lost=0.03, value=data.widest),
        lambda x: x.normalise(4),
        lambda x: reference.full(x, 4, lambda w: (float(w[-1]) - w.min()) / (float(w.max()) - w.min())),
    ),
    uniform(
        "detrend-moving",
        Fir,
        data.beats(258, lost=0.03),
        lambda x: x.detrend(6),
        lambda x: reference.full(x, 6, lambda w: scipy.signal.detrend(w)[-1]),
    ),
    uniform(
        "detrend-moving-mean",
        Fir,
        data.beats(258, lost=0.03, value=data.whole),
        lambda x: x.detrend(5, kind="constant"),
        lambda x: reference.full(x, 5, lambda w: scipy.signal.detrend(w, type="constant")[-1]),
    ),
    uniform(
        "hilbert",
        Shift,
        data.beats(259, lost=0.02),
        lambda x: x.hilbert(7),
        lambda x: moving.around(x, 7, _analytic(7)),
    ),
    uniform(
        "envelope",
        Part,
        _cd_audio(),
        lambda x: x.envelope(9),
        lambda x: moving.around(x, 9, lambda w: float(abs(_analytic(9)(w)))),
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    uniform(
        "instantaneous-frequency",
        Part,
        data.beats(259, lost=0.02),
        lambda x: x.instantaneous_frequency(5),
        lambda x: _turning(x, 5, 1e8),
    ),
]
