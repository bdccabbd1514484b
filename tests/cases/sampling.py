"""Cases of ToSignal, Sample, Place and Channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests.cases import data
from tests.cases.table import Case, Row, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.model.time import period as exact_period
from hydrophone.ops.signals.place import Place
from hydrophone.ops.signals.sample import Sample
from hydrophone.ops.signals.to_signal import Channel, ToSignal

_ROUNDING = "the line between two points, up to the rounding of one multiplication"


def values(*names: str) -> Callable[[oracles.Event], Any]:
    def value(event: oracles.Event) -> Any:
        return event.payload[names[0]] if len(names) == 1 else np.array([event.payload[n] for n in names])

    return value


def sampled(
    source: Source,
    period: Any,
    *,
    origin: int = 0,
    fill: str | None = None,
    gap: int | None = None,
    columns: tuple[str, ...] = ("v",),
) -> dict[Any, Any]:
    """The oracle's answer for every key; null readings are no readings."""
    events = [e for e in source.events() if all(e.payload[c] is not None for c in columns)]
    at = grid(period, origin)
    return {k: oracles.sample(es, values(*columns), at, fill, gap) for k, es in oracles.by_key(events).items()}


def case(
    name: str,
    source: Source,
    period: Any,
    *,
    spacing: Any = None,
    fill: str | None = None,
    gap: int | None = None,
    origin: int = 0,
    columns: tuple[str, ...] = ("v",),
    node: Any = Sample,
    convert: Callable[[float], Any] | None = None,
    tolerance: float | None = None,
) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        policy = None if fill is None else (hp.hold if fill == "last" else hp.linear)(gap)
        return s["x"].signal(*columns).sample(period if spacing is None else spacing, offset=origin, fill=policy)

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        rows = sample_rows(
            sampled(inputs["x"], period, origin=origin, fill=fill, gap=gap, columns=columns), grid(period, origin)
        )
        return rows if convert is None else [(*r[:2], *(convert(v) for v in r[2:])) for r in rows]

    allowed = tolerance if tolerance is not None else (1e-12 if fill == "linear" else 0.0)
    return Case(name, node, {"x": source}, query, expected, allowed, _ROUNDING if allowed else "")


def _two_keys() -> Source:
    base = data.points(7, ["a|b", "a", "\\"], 12)
    second = pa.array([0 if i % 3 else -1 for i in range(len(base.table))])
    # One time per (k, j): the times of one k are distinct already.
    return replace(base, table=base.table.append_column("j", second), key=("k", "j"))


def _ties(order: str) -> Case:
    columns = {
        "k": ["a", "a", "a", "a", "b", "b", "b"],
        "t": [0, 0, 0, 10, -10, -10, 20],
        "v": [2.0, -1.0, 5.0, 4.0, 0.0, -0.0, data.NAN],
    }
    wanted = {"first": [-1.0, 4.0, -0.0, data.NAN], "last": [5.0, 4.0, 0.0, data.NAN]}[order]
    return Case(
        f"signal-ties-{order}",
        ToSignal,
        {"x": Source(pa.table(columns), key="k")},
        lambda s: s["x"].signal("v", ties=order).sample(10),
        lambda _: list(zip(["a", "a", "b", "b"], [0, 10, -10, 20], wanted, strict=True)),
    )


def _sequence() -> Case:
    """The sequence column decides before the value does."""
    columns = {"k": ["a", "a", "b", "b"], "t": [0, 0, 0, 0], "v": [9.0, 1.0, 1.0, 9.0], "n": [0, 1, 0, 1]}
    source = Source(pa.table(columns), key="k", sequence="n")
    return Case(
        "signal-ties-sequence",
        ToSignal,
        {"x": source},
        lambda s: s["x"].signal("v", ties="first").sample(5),
        lambda _: [("a", 0, 9.0), ("b", 0, 1.0)],
    )


def _timestamps(unit: str) -> Source:
    base = data.points(9, [1, 2, 3], 15)
    scale = {"us": 1000, "ms": 1_000_000}[unit]
    at = pa.array(base.table["t"].to_numpy() + data.EPOCH_2026 // scale).cast(pa.timestamp(unit))
    return replace(base, table=base.table.set_column(1, "t", at))


def _shifted(source: Source, by: int) -> Source:
    return replace(source, table=source.table.set_column(1, "t", pa.array(source.table["t"].to_numpy() + by)))


def _cd_audio() -> Source:
    """Samples at 44.1 kHz, whose instants are no whole nanoseconds apart, near 2026."""
    at = grid(exact_period("44.1kHz"))
    first = at.first(data.EPOCH_2026)
    index = np.concatenate([np.arange(first, first + 30), np.arange(first + 37, first + 60)])
    t = [at.instant(int(k)) for k in index]
    rng = np.random.default_rng(5)
    order = rng.permutation(len(t))
    return Source(pa.table({"k": ["m"] * len(t), "t": [t[i] for i in order], "v": rng.normal(size=len(t))}), key="k")


def _vectors() -> Source:
    base = data.points(11, ["a", "b"], 20)
    return replace(base, table=base.table.append_column("w", pa.array(np.arange(len(base.table)) * 1.5)))


def _place_case() -> Case:
    """Segments that come in any order, touch, and leave holes; every key has a period of its own."""
    rows = [
        ("a", 40, [5.0, 6.0], 10.0),
        ("a", 0, [1.0, 2.0, 3.0, 4.0], 10.0),
        ("b", -3, [-1.0, data.NAN], 5.0),
        ("b", 12, [0.0], 5.0),
        ("b", 7, [2.5], 5.0),
    ]
    table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(["k", "t", "values", "period"])})
    flat = [(k, t + int(p) * i, v) for k, t, vs, p in rows for i, v in enumerate(vs)]
    return Case(
        "place-segments",
        Place,
        {"x": Source(table, key="k", samples="values")},
        lambda s: s["x"].fir([1.0]),
        lambda _: flat,
    )


GRID_44K = exact_period("44.1kHz")

CASES = [
    case("sample-on-grid", data.beats(1), 10),
    case("sample-off-grid-loses", data.points(2), 7),
    case("sample-origin", data.beats(1), 10, origin=3),
    case("sample-last", data.points(3), 9, fill="last", gap=30),
    case("sample-last-long-gap", data.points(3), 9, fill="last", gap=500),
    case("sample-last-tiny-gap", data.points(3), 9, fill="last", gap=1),
    case("sample-last-no-gap", data.points(4), 9, fill="last"),
    case("sample-linear", data.points(5), 9, fill="linear", gap=60),
    case("sample-linear-no-gap", data.points(5), 11, fill="linear"),
    case("sample-linear-tight-gap", data.points(5), 4, fill="linear", gap=12),
    case("sample-linear-rough", data.points(6, value=data.rough), 9, fill="linear", gap=80),
    case("sample-last-rough", data.points(6, value=data.rough), 9, fill="last", gap=80),
    case(
        "sample-linear-integers",
        data.points(6, [3, -1, 2**60], value=data.whole),
        9,
        fill="linear",
        gap=80,
        convert=float,
    ),
    case("sample-last-integers", data.points(6, [3, -1, 2**60], value=data.whole), 9, fill="last", gap=80),
    case("sample-linear-single", data.points(8, value=data.single), 9, fill="linear", gap=80, tolerance=1e-5),
    case("sample-linear-complex", data.points(8, value=data.complicated), 9, fill="linear", gap=80),
    case("sample-none-complex", data.beats(8, value=data.complicated), 10),
    case("sample-nulls-are-no-readings", data.points(8, value=data.with_nulls), 9, fill="linear", gap=90),
    case("sample-intervals", data.intervals(9), 10),
    case("sample-intervals-last", data.intervals(9), 10, fill="last", gap=20),
    case("sample-intervals-linear", data.intervals(9), 10, fill="linear", gap=20),
    case("sample-intervals-linear-no-gap", data.intervals(10), 7, fill="linear"),
    case("sample-vectors", _vectors(), 9, fill="linear", gap=60, columns=("v", "w")),
    case("sample-epoch-2026", _shifted(data.points(12), data.EPOCH_2026), 9, fill="linear", gap=60),
    case("sample-timestamps", _timestamps("us"), 9000, fill="last", gap=60_000),
    case("sample-timestamps-ms", _timestamps("ms"), 9_000_000, fill="linear", gap=60_000_000),
    case("sample-44khz", _cd_audio(), GRID_44K, spacing="44.1kHz"),
    case("sample-44khz-linear", _cd_audio(), GRID_44K / 3, spacing="132.3kHz", fill="linear", gap=30_000),
    case("sample-two-key-columns", _two_keys(), 9, fill="last", gap=30),
    case("sample-no-key", replace(data.points(3, ["a"]), key=()), 9, fill="last", gap=30),
    case("sample-empty", data.empty(data.points(3)), 9, fill="linear", gap=30),
    case("sample-one-row", data.one_row(data.beats(3)), 10, fill="last", gap=35),
    case("sample-keys-once", data.points(3, list(range(40)), 1), 9, fill="last", gap=30),
    case("signal-intervals-touch", data.intervals(13, rows=20), 3, node=ToSignal),
    _ties("first"),
    _ties("last"),
    _sequence(),
    _place_case(),
    Case(
        "channel",
        Channel,
        {"x": _vectors()},
        lambda s: s["x"].signal("v", "w").sample(9, fill=hp.hold(30)).channel(1),
        lambda i: [
            (*r[:2], r[3]) for r in sample_rows(sampled(i["x"], 9, fill="last", gap=30, columns=("v", "w")), grid(9))
        ],
    ),
    Case(
        "channel-of-scalar",
        Channel,
        {"x": data.beats(14)},
        lambda s: s["x"].signal("v").sample(10).channel(0),
        lambda i: sample_rows(sampled(i["x"], 10), grid(10)),
    ),
]
