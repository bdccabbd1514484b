"""Cases of further fills, of snapping to beats, and of epochs around events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.interpolate
from tests import oracles
from tests.cases import data
from tests.cases.channels import pair
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled, values
from tests.cases.table import Case, Source, grid, sample_rows, window_rows

import hydrophone as hp
from hydrophone.ops.filters.rolling import Statistic
from hydrophone.ops.signals.epochs import Epochs
from hydrophone.ops.signals.sample import Sample
from hydrophone.ops.signals.snap import Snap

_POLYNOMIAL = "the same polynomial in another form"


def fill(
    name: str,
    source: Source,
    period: int,
    policy: Any,
    gap: int | None,
    points: int,
    function: Callable[[np.ndarray, Any], Any],
    *,
    columns: tuple[str, ...] = ("v",),
    tolerance: float = 0.0,
) -> Case:
    """`function` gets how far each point lies after the beat, the oldest first, and the values there."""
    value, at = values(*columns), grid(period)

    def one(events: list[oracles.Event]) -> oracles.Samples:
        events = sorted(events, key=lambda e: e.start)
        out: oracles.Samples = {k: value(e) for e in events for k in range(at.first(e.start), at.first(e.stop))}
        for n in range(1, len(events)):
            chain = [events[n]]
            for before in reversed(events[max(n - points + 1, 0) : n]):
                if gap is not None and chain[0].start - before.start > gap:
                    break
                chain.insert(0, before)
            if len(chain) > 1:
                for k in range(at.first(chain[-2].start + 1), at.first(chain[-1].start)):
                    away = np.array([e.start - at.instant(k) for e in chain], float)
                    with np.errstate(all="ignore"):
                        out[k] = function(away, np.array([value(e) for e in chain]))
        return out

    def expected(i: Mapping[str, Source]) -> Any:
        return sample_rows({k: one(e) for k, e in oracles.by_key(i["x"].events()).items()}, at)

    return Case(
        name,
        Sample,
        {"x": source},
        lambda s: s["x"].signal(*columns).sample(period, fill=policy),
        expected,
        tolerance,
        _POLYNOMIAL if tolerance else "",
    )


def polynomial(away: np.ndarray, y: np.ndarray) -> Any:
    return scipy.interpolate.barycentric_interpolate(away, y, 0.0)


def newest_mean(offsets: np.ndarray, values_: np.ndarray) -> np.ndarray:
    """The mean of all points that are there."""
    there = ~np.isnan(offsets)
    return np.where(there, values_, 0).sum(axis=1) / there.sum(axis=1)


def snap(name: str, source: Source, period: Any, tolerance: int, spacing: Any = None) -> Case:
    at = grid(period)

    def one(events: list[oracles.Event]) -> oracles.Samples:
        best: dict[int, tuple[int, int, Any]] = {}
        for e in events:
            for k in (at.first(e.start) - 1, at.first(e.start)):
                away = abs(at.instant(k) - e.start)
                if away <= tolerance:
                    best[k] = min(best.get(k, (away, e.start, e.payload["v"])), (away, e.start, e.payload["v"]))
        return {k: v for k, (_, _, v) in best.items()}

    return Case(
        name,
        Snap,
        {"x": source},
        lambda s: s["x"].signal("v").snap(spacing or period, tolerance),
        lambda i: sample_rows({k: one(e) for k, e in oracles.by_key(i["x"].events()).items()}, at),
    )


def epochs(
    name: str, x: Source, events: Source, before: int, after: int, period: Any = 10, spacing: Any = None
) -> Case:
    at = grid(period)

    def expected(i: Mapping[str, Source]) -> Any:
        signals = sampled(i["x"], period)
        found: dict[Any, oracles.Arrays] = {k: {} for k in signals}
        for e in i["e"].events():
            k = at.first(e.start)
            span = range(k - before, k + after + 1)
            if all(n in signals.get(e.key, {}) for n in span):
                found[e.key][k + after] = np.array([signals[e.key][n] for n in span])
        return window_rows(found, at)

    return Case(
        name,
        Epochs,
        {"x": x, "e": events},
        lambda s: s["x"].signal("v").sample(spacing or period).epochs(s["e"], before=before, after=after),
        expected,
    )


def epochs_with_columns(
    name: str, node: Any, then: Callable[[Any], Any], row: Callable[[np.ndarray], tuple[Any, ...]], at: int
) -> Case:
    """Two channels around events that tie, share a sample or lack one; `row` makes what leaves of the window around one of them."""
    events = data.points(295, spread=12)
    twice = pa.concat_tables([events.table, events.table.slice(0, 9)])
    events = replace(
        events, table=twice.append_column("cue", pa.array([f"c{i % 4}" if i % 5 else None for i in range(len(twice))]))
    )

    def expected(i: Mapping[str, Source]) -> Any:
        signals, beats = sampled(i["x"], 10, columns=("v", "w")), grid(10)
        out = []
        for e in i["e"].events():
            k, x = beats.first(e.start), signals.get(e.key, {})
            if all(n in x for n in range(k - 2, k + 2)):
                window = np.array([x[n] for n in range(k - 2, k + 2)]).T
                out.append((*e.key, beats.instant(k + at), e.payload["cue"], *row(window)))
        return out

    return Case(
        name,
        node,
        {"x": pair(294), "e": events},
        lambda s: then(s["x"].signal("v", "w").sample(10).epochs(s["e"], before=2, after=1, columns="cue")),
        expected,
    )


def halved(windows: np.ndarray) -> np.ndarray:
    return windows[:, ::2]


def _moments_of_audio() -> Source:
    """Events at samples of the audio, a nanosecond beside them, and far away."""
    t = np.sort(_cd_audio().table["t"].to_numpy())
    at = np.concatenate([t[::5], t[2::7] + 1, t[4::9] - 1, t[:1] - 10**6])
    return Source(data.table(k=["m"] * len(at), t=at, v=np.arange(len(at)) * 1.0), key="k")


ROUGH = data.points(280, value=data.rough)

CASES = [
    fill("sample-constant", data.points(281), 7, hp.constant(0.5, 60), 60, 2, lambda a, y: 0.5),
    fill("sample-zero-order", ROUGH, 9, hp.zero_order(50), 50, 2, lambda a, y: y[0]),
    fill("sample-zero-order-no-gap", ROUGH, 9, hp.zero_order(), None, 2, lambda a, y: y[0]),
    fill("sample-quadratic", data.points(282), 5, hp.quadratic(40), 40, 3, polynomial, tolerance=1e-9),
    fill("sample-cubic", data.points(283, rows=15), 4, hp.cubic(30), 30, 4, polynomial, tolerance=1e-9),
    fill(
        "sample-cubic-no-gap",
        data.points(283, rows=15, value=data.complicated),
        9,
        hp.cubic(),
        None,
        4,
        polynomial,
        tolerance=1e-9,
    ),
    fill(
        "sample-quadratic-vectors",
        _vectors(),
        6,
        hp.quadratic(60),
        60,
        3,
        polynomial,
        columns=("v", "w"),
        tolerance=1e-9,
    ),
    fill(
        "sample-fill-with",
        data.points(284),
        6,
        hp.fill_with(newest_mean, 3, 50),
        50,
        3,
        lambda a, y: y.mean(),
        tolerance=1e-12,
    ),
    snap("snap", data.points(285, spread=25), 20, 6),
    snap("snap-exact", data.beats(286), 10, 0),
    snap("snap-crowded", data.points(287, spread=6, value=data.rough), 20, 9),
    snap("snap-44khz", data.points(288, spread=30_000), GRID_44K, 5000, "44.1kHz"),
    epochs("epochs", data.beats(289), data.points(290, spread=30), 2, 3),
    epochs("epochs-one-sample", data.beats(289, value=data.whole), data.points(291), 0, 0),
    epochs("epochs-44khz", _cd_audio(), _moments_of_audio(), 3, 1, GRID_44K, "44.1kHz"),
    epochs("epochs-lifetimes", data.beats(292, rows=60), data.intervals(293), 4, 0),
    epochs_with_columns(
        "epochs-columns", Epochs, lambda w: w.map(halved), lambda a: tuple(tuple(c[::2].tolist()) for c in a), 1
    ),
    epochs_with_columns(
        "epochs-columns-max", Statistic, lambda w: w.max(at="start"), lambda a: tuple(np.max(a, axis=1).tolist()), -2
    ),
]
