"""Cases of Combine, Scalar and Above."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled
from tests.cases.table import Case, Row, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.ops.detectors.above import Above
from hydrophone.ops.signals.arithmetic import Combine, Scalar

_LINE = "one side is a line between two points, up to the rounding of one multiplication"


def combine(name: str, a: Source, b: Source, symbol: str, *, period: Any = 10, spacing: Any = None) -> Case:
    function = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[symbol]

    def query(s: Mapping[str, Any]) -> Any:
        x, y = (s[n].signal("v").sample(spacing or period) for n in "ab")
        return function(x, y)

    def expected(i: Mapping[str, Source]) -> list[Row]:
        x, y = (sampled(i[n], period) for n in "ab")
        return sample_rows(oracles.each(lambda p, q: oracles.combine(function, p, q), x, y), grid(period))

    return Case(name, Combine, {"a": a, "b": b}, query, expected)


def scalar(name: str, source: Source, function: Any) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        dtype = np.int64 if source.table.schema.field("v").type == pa.int64() else None
        with np.errstate(all="ignore"):
            return sample_rows(
                {k: {n: function(np.asarray(v, dtype)) for n, v in x.items()} for k, x in sampled(i["x"], 10).items()},
                grid(10),
            )

    return Case(name, Scalar, {"x": source}, lambda s: function(s["x"].signal("v").sample(10)), expected)


def _mixed() -> Case:
    """The slow side is sampled onto the grid of the fast one: it holds progress back until its gap has passed."""
    slow, fast = data.points(104, rows=12), data.beats(105, period=5)
    return Case(
        "combine-slow-and-fast",
        Combine,
        {"a": slow, "b": fast},
        lambda s: s["a"].signal("v").sample(5, fill=hp.linear(60)) + s["b"].signal("v").sample(5),
        lambda i: sample_rows(
            oracles.each(
                lambda p, q: oracles.combine(operator.add, p, q),
                sampled(i["a"], 5, fill="linear", gap=60),
                sampled(i["b"], 5),
            ),
            grid(5),
        ),
        1e-12,
        _LINE,
    )


def _with_itself() -> Case:
    """Both inputs of one kernel come from one node."""

    def query(s: Mapping[str, Any]) -> Any:
        x = s["x"].signal("v").sample(10)
        return x * x

    def expected(i: Mapping[str, Source]) -> list[Row]:
        x = sampled(i["x"], 10)
        return sample_rows(oracles.each(lambda p: oracles.combine(operator.mul, p, p), x), grid(10))

    return Case("combine-with-itself", Combine, {"x": data.beats(106)}, query, expected)


def _with_past() -> Case:
    """A signal less its filtered self: two paths of different length meet."""

    def query(s: Mapping[str, Any]) -> Any:
        x = s["x"].signal("v").sample(10)
        return x - x.fir([0.0, 1.0], missing="drop")

    def expected(i: Mapping[str, Source]) -> list[Row]:
        x = sampled(i["x"], 10)
        return sample_rows(
            oracles.each(lambda p: oracles.combine(operator.sub, p, {k: p[k - 1] for k in p if k - 1 in p}), x),
            grid(10),
        )

    return Case("combine-with-past", Combine, {"x": data.beats(107)}, query, expected)


def _vector_and_scalar() -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return s["a"].signal("v", "w").sample(1) * s["b"].signal("v").sample(1, fill=hp.hold(40))

    def expected(i: Mapping[str, Source]) -> list[Row]:
        x, y = sampled(i["a"], 1, columns=("v", "w")), sampled(i["b"], 1, fill="last", gap=40)
        return sample_rows(oracles.each(lambda p, q: oracles.combine(operator.mul, p, q), x, y), grid(1))

    return Case("combine-vector-and-scalar", Combine, {"a": _vectors(), "b": data.points(108)}, query, expected)


def above(
    name: str, source: Source, threshold: float, report: int | None = None, *, period: Any = 10, spacing: Any = None
) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        at = grid(period)
        return [
            (*k, *row) for k, x in sampled(i["x"], period).items() for row in oracles.above(x, threshold, at, report)
        ]

    return Case(
        name,
        Above,
        {"x": source},
        lambda s: s["x"].signal("v").sample(spacing or period).above(threshold, report=report),
        expected,
    )


def _slow_wave(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(n) < 0.85, 5.0, -5.0) + rng.normal(size=n)


LONG = data.beats(110, rows=60, value=_slow_wave)

CASES = [
    combine("combine-add", data.beats(100), data.beats(101), "+"),
    combine("combine-subtract", data.beats(100), data.beats(101), "-"),
    combine("combine-multiply-rough", data.beats(100, value=data.rough), data.beats(101, value=data.rough), "*"),
    combine(
        "combine-divide-by-zero",
        data.beats(100, value=data.whole),
        data.beats(101, value=lambda n, rng: rng.integers(-1, 2, n)),
        "/",
    ),
    combine(
        "combine-integers", data.beats(100, [1, 2], value=data.whole), data.beats(101, [2, 3], value=data.whole), "+"
    ),
    combine("combine-no-common-key", data.beats(100, ["a"]), data.beats(101, ["b"]), "+"),
    combine("combine-empty-side", data.beats(100), data.empty(data.beats(101)), "+"),
    combine("combine-44khz", _cd_audio(), _cd_audio(), "+", period=GRID_44K, spacing="44.1kHz"),
    combine("combine-complex", data.beats(100, value=data.complicated), data.beats(101), "+"),
    combine("combine-epoch-2026", data.beats(100, base=data.EPOCH_2026), data.beats(101, base=data.EPOCH_2026), "-"),
    _mixed(),
    _with_itself(),
    _with_past(),
    _vector_and_scalar(),
    scalar("scalar-multiply", data.beats(109, value=data.rough), lambda x: x * 2.5),
    scalar("scalar-reflected", data.beats(109, value=data.rough), lambda x: 1 - x),
    scalar("scalar-integers", data.beats(109, value=data.whole), lambda x: x * 3 + 1),
    scalar("scalar-integers-divided", data.beats(109, value=data.whole), lambda x: 1 / x),
    scalar("scalar-complex", data.beats(109), lambda x: x * 2j),
    scalar("scalar-chain", data.beats(109), lambda x: (x + 1) / 4 - 2),
    above("above", data.beats(111), 0.5),
    above("above-long", LONG, 0.0),
    above("above-report", LONG, 0.0, 70),
    above("above-report-off-grid", LONG, 0.0, 33),
    above("above-report-below-period", LONG, 0.0, 3),
    above("above-rough", data.beats(112, value=data.rough), 1.0),
    above("above-infinity", data.beats(112, value=data.rough), float("inf")),
    above("above-everything", data.beats(113), float("-inf")),
    above("above-nothing", data.beats(113), 1e9, 50),
    above("above-integers", data.beats(114, [4, 9], value=data.whole), 0),
    above("above-44khz", _cd_audio(), 0.0, 100_000, period=GRID_44K, spacing="44.1kHz"),
    above("above-empty", data.empty(data.beats(111)), 0.5),
    above("above-one-row", data.one_row(data.beats(111)), -1e9, 50),
    above("above-no-key", replace(data.beats(115, ["a"]), key=()), 0.0, 40),
]
