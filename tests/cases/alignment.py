"""Cases of resampling to another grid, and of arithmetic between signals on different ones."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled, values
from tests.cases.table import Case, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.ops.resampling.resample import Resample
from hydrophone.ops.resampling.shift_to import ShiftTo
from hydrophone.ops.signals.arithmetic import Combine

_LINE = "the line between two points, up to the rounding of one multiplication"


def onto(x: oracles.Samples, old: oracles.Grid, new: oracles.Grid, fill: str, gap: int | None) -> oracles.Samples:
    """The samples of one key as point events, which are sampled again."""
    events = [oracles.Event((), old.instant(k), old.instant(k) + 1, {"v": v}) for k, v in x.items()]
    return oracles.sample(events, values("v"), new, fill, gap)


def resample(
    name: str,
    source: Source,
    spacing: Any,
    *,
    fill: str = "linear",
    gap: int | None = None,
    default: bool = False,
    period: Any = 10,
    written: tuple[Any, Any] | None = None,
    origin: int = 0,
    columns: tuple[str, ...] = ("v",),
) -> Case:
    policy = None if default else {"linear": hp.linear, "last": hp.hold}[fill](gap)
    old, new = grid(period), grid(spacing, origin)
    sampling, resampling = written or (period, spacing)
    return Case(
        name,
        Resample,
        {"x": source},
        lambda s: s["x"].signal(*columns).sample(sampling).resample(resampling, fill=policy, offset=origin),
        lambda i: sample_rows(
            oracles.each(lambda x: onto(x, old, new, fill, gap), sampled(i["x"], period, columns=columns)), new
        ),
        1e-12 if fill == "linear" else 0.0,
        _LINE if fill == "linear" else "",
    )


def between(name: str, source: Source, spacing: int, policy: Any, gap: int, value: Callable[[Any], Any]) -> Case:
    """A fill that needs the sample before the beat alone, where another follows within the gap."""

    def one(x: oracles.Samples) -> oracles.Samples:
        out: oracles.Samples = {}
        order = sorted(x)
        for k, later in zip(order, [*order[1:], None], strict=True):
            for m in range(-(-k * 10 // spacing), -(-((later if later is not None else k) * 10 + 1) // spacing)):
                if m * spacing == k * 10:
                    out[m] = x[k]
                elif later is not None and (later - k) * 10 <= gap and m * spacing < later * 10:
                    out[m] = value(x[k])
        return out

    return Case(
        name,
        Resample,
        {"x": source},
        lambda s: s["x"].signal("v").sample(10).resample(spacing, fill=policy),
        lambda i: sample_rows(oracles.each(one, sampled(i["x"], 10)), grid(spacing)),
    )


def _per_key() -> Case:
    """Every key has a period of its own; one is slower than the gap, the other faster."""
    rows = [("a", 0, [1.0, 2.0, 3.0, 4.0], 10.0), ("b", -6, [1.0, 0.5, 3.0], 3.0), ("a", 50, [7.0, 1.0], 10.0)]
    table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(["k", "t", "values", "period"])})

    def expected(_: Any) -> Any:
        out = []
        for key, period in (("a", 10), ("b", 3)):
            x = {t // period + i: v for k, t, vs, _ in rows if k == key for i, v in enumerate(vs)}
            out += [(key, 4 * m, v) for m, v in onto(x, grid(period), grid(4), "last", 7).items()]
        return out

    return Case(
        "resample-per-key",
        Resample,
        {"x": Source(table, key="k", samples="values")},
        lambda s: s["x"].resample(4, fill=hp.hold(7)),
        expected,
    )


def newest(offsets: np.ndarray, values_: np.ndarray) -> np.ndarray:
    return values_[:, 0] + offsets[:, 1]


def _own_fill() -> Case:
    """A function of two points."""

    def one(x: oracles.Samples) -> oracles.Samples:
        out = {5 * k // 2: v for k, v in x.items() if k % 2 == 0}
        for m in range(5 * min(x) // 2, 5 * max(x) // 2 + 1):
            low = m * 4 // 10
            if m * 4 % 10 and low in x and low + 1 in x:
                out[m] = x[low] + ((low + 1) * 10 - m * 4)
        return out

    return Case(
        "resample-own-fill",
        Resample,
        {"x": data.beats(284)},
        lambda s: s["x"].signal("v").sample(10).resample(4, fill=hp.fill_with(newest, points=2, max_gap=10)),
        lambda i: sample_rows(oracles.each(one, sampled(i["x"], 10)), grid(4)),
    )


def _continuous(name: str, gap: int | None) -> Case:
    """No beat is missing between samples that are near enough."""

    def one(x: oracles.Samples) -> oracles.Samples:
        out = dict(x)
        for k, later in pairwise(sorted(x)):
            if gap is None or (later - k) * 10 <= gap:
                out |= dict.fromkeys(range(k + 1, later), -1.0)
        return out

    return Case(
        name,
        Resample,
        {"x": ROUGH},
        lambda s: s["x"].signal("v").sample(10).continuous(-1, max_gap=gap),
        lambda i: sample_rows(oracles.each(one, sampled(i["x"], 10)), grid(10)),
    )


def aligned(
    name: str,
    a: tuple[Source, int, int],
    b: tuple[Source, int, int],
    query: Callable[[Any, Any], Any],
    expected: Callable[[oracles.Samples, oracles.Samples], oracles.Samples],
    at: oracles.Grid,
    node: Any = Combine,
) -> Case:
    """Two signals, each with its period and the instant of a beat."""

    def ask(s: Mapping[str, Any]) -> Any:
        return query(*(s[n].signal("v").sample(p, offset=o) for n, (_, p, o) in (("a", a), ("b", b))))

    def rows(i: Mapping[str, Source]) -> Any:
        x, y = (sampled(i[n], p, origin=o) for n, (_, p, o) in (("a", a), ("b", b)))
        return sample_rows(oracles.each(expected, x, y), at)

    return Case(name, node, {"a": a[0], "b": b[0]}, ask, rows, 1e-12, _LINE)


def _sum(x: oracles.Samples, y: oracles.Samples) -> oracles.Samples:
    return oracles.combine(operator.add, x, y)


def _ratio(x: oracles.Samples, y: oracles.Samples) -> oracles.Samples:
    return oracles.combine(operator.truediv, x, y)


def _moved(source: Source, by: int) -> Source:
    return replace(source, table=source.table.set_column(1, "t", pa.array(source.table["t"].to_numpy() + by)))


ROUGH = data.beats(280, value=data.rough)
FAST, SLOW = data.beats(281, rows=60, period=5), data.beats(282, lost=0.05, first=-3)
CASES = [
    resample("resample-whole-ratio", ROUGH, 5, default=True, gap=10),
    resample("resample-phase", data.beats(283), 5, default=True, gap=10, origin=3),
    resample("resample-slower", ROUGH, 25, gap=40),
    resample("resample-bridged", data.beats(284, value=data.complicated), Fraction(7, 2), gap=35),
    resample("resample-no-gap", data.beats(285), 7),
    resample("resample-held-long", data.beats(286, value=data.whole), 4, fill="last", gap=33),
    resample("resample-held-on", data.beats(286), 4, fill="last"),
    _continuous("continuous", None),
    _continuous("continuous-near", 30),
    resample("resample-narrow-gap", ROUGH, 3, gap=9),
    resample("resample-vectors", _vectors(), Fraction(1, 1), period=3, gap=40, columns=("v", "w")),
    resample(
        "resample-44khz-to-48khz",
        _cd_audio(),
        Fraction(10**9, 48_000),
        default=True,
        gap=22_676,
        period=GRID_44K,
        written=("44.1kHz", "48kHz"),
    ),
    resample("resample-empty", data.empty(data.beats(283)), 5, default=True, gap=10),
    between("resample-constant", data.beats(287), 4, hp.constant(0.5, 20), 20, lambda v: 0.5),
    between("resample-zero-order", data.beats(287), 5, hp.zero_order(10), 10, lambda v: v),
    _per_key(),
    _own_fill(),
    aligned(
        "plus-slow-and-fast",
        (SLOW, 10, 0),
        (FAST, 5, 0),
        lambda a, b: a + b,
        lambda x, y: _sum(onto(x, grid(10), grid(5), "linear", 10), y),
        grid(5),
    ),
    aligned(
        "over-fast-and-slow",
        (FAST, 5, 0),
        (SLOW, 10, 0),
        lambda a, b: a.over(b, fill=hp.hold(30)),
        lambda x, y: _ratio(x, onto(y, grid(10), grid(5), "last", 30)),
        grid(5),
    ),
    aligned(
        "plus-other-phase",
        (SLOW, 10, 0),
        (_moved(ROUGH, 4), 10, 4),
        lambda a, b: a.plus(b),
        lambda x, y: _sum(x, onto(y, grid(10, 4), grid(10), "linear", 10)),
        grid(10),
    ),
    aligned(
        "plus-shift",
        (SLOW, 10, 0),
        (_moved(ROUGH, 6), 10, 6),
        lambda a, b: a.plus(b, realign="shift"),
        lambda x, y: _sum(x, {k + 1: v for k, v in y.items()}),
        grid(10),
        ShiftTo,
    ),
    aligned(
        "minus-same-beats",
        (SLOW, 10, 30),
        (ROUGH, 10, 0),
        lambda a, b: a - b,
        lambda x, y: _sum(x, {k - 3: -v for k, v in y.items()}),
        grid(10, 30),
        ShiftTo,
    ),
    Case(
        "shift-to-44khz",
        ShiftTo,
        {"x": _cd_audio()},
        lambda s: (
            s["x"].signal("v").sample("44.1kHz").shift_to(s["x"].signal("v").sample("44.1kHz", offset=100_000_007))
        ),
        lambda i: sample_rows(
            oracles.each(lambda x: {k - 4410: v for k, v in x.items()}, sampled(i["x"], GRID_44K)),
            grid(GRID_44K, 100_000_007),
        ),
    ),
    Case(
        "plus-any-times",
        Combine,
        {"a": FAST, "b": data.points(288)},
        lambda s: s["a"].signal("v").sample(5).times(s["b"].signal("v"), fill=hp.linear(60)),
        lambda i: sample_rows(
            oracles.each(
                lambda x, y: oracles.combine(operator.mul, x, y),
                sampled(i["a"], 5),
                sampled(i["b"], 5, fill="linear", gap=60),
            ),
            grid(5),
        ),
        1e-12,
        _LINE,
    ),
]
