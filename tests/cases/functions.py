"""Cases of Modulate and SampleFunction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors, sampled
from tests.cases.table import Case, Row, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.ops.signals.functions import Modulate, SampleFunction


def carrier(t: Any) -> Any:
    return np.cos(t / 3)


def spiral(t: Any) -> Any:
    return np.exp(1j * t)


def modulate(name: str, source: Source, query: Any, expected: Any, *, period: Any = 10, columns: Any = ("v",)) -> Case:
    at = grid(period)

    def rows(i: Mapping[str, Source]) -> list[Row]:
        x = sampled(i["x"], period, columns=columns)
        return sample_rows({k: {n: expected(v, float(at.instant(n))) for n, v in s.items()} for k, s in x.items()}, at)

    return Case(name, Modulate, {"x": source}, query, rows)


def tone(t: Any, e: Any) -> Any:
    return e.v * np.sin((t - e.start) / 7)


def ramp(t: Any, e: Any) -> Any:
    return (t - e.start) / (e.end - e.start)


def _functions() -> Source:
    """Events that do not overlap, each with a kind."""
    source = data.intervals(131)
    kinds = np.random.default_rng(132).choice(["tone", "ramp"], len(source.table))
    return Source(source.table.append_column("kind", pa.array(kinds)), source.key, source.time, source.end)


def functional(name: str, query: Any, value: Any) -> Case:
    def rows(i: Mapping[str, Source]) -> list[Row]:
        at, out = grid(10), {}
        for key, events in oracles.by_key(i["x"].events()).items():
            found = out.setdefault(key, {})
            for e in events:
                if None not in e.payload.values():
                    n = -(-e.start // 10)
                    found |= {k: value(float(at.instant(k)), e) for k in range(n, -(-e.stop // 10))}
        return sample_rows(out, at)

    return Case(name, SampleFunction, {"x": _functions()}, query, rows)


def _tone(t: float, e: oracles.Event) -> float:
    return float(e.payload["v"] * np.sin((t - e.start) / 7))


def _ramp(t: float, e: oracles.Event) -> float:
    return (t - e.start) / (e.stop - e.start)


CASES = [
    modulate(
        "modulate-times",
        data.beats(130, value=data.rough),
        lambda s: s["x"].signal("v").sample(10) * hp.function(carrier, unit="ns"),
        lambda v, t: v * np.cos(t / 3),
    ),
    modulate(
        "modulate-combined",
        data.beats(133),
        lambda s: 1 - (2 * hp.function(carrier, unit="ns", origin=50) + 1) / s["x"].signal("v").sample(10),
        lambda v, t: 1 - (2 * np.cos((t - 50) / 3) + 1) / v,
    ),
    modulate(
        "modulate-complex-vectors",
        _vectors(),
        lambda s: s["x"].signal("v", "w").sample(10) + hp.function(spiral, unit="ns", dtype=complex),
        lambda v, t: v + np.exp(1j * t),
        columns=("v", "w"),
    ),
    modulate(
        "modulate-cd-audio",
        _cd_audio(),
        lambda s: s["x"].signal("v").sample("44.1kHz") - hp.function(carrier, unit="us"),
        lambda v, t: v - np.cos(t / 1000 / 3),
        period=GRID_44K,
    ),
    functional("sample-function", lambda s: s["x"].signal(tone, unit="ns").sample(10), _tone),
    functional(
        "sample-functions-by-kind",
        lambda s: s["x"].signal({"tone": tone, "ramp": ramp}, by="kind", unit="ns").sample(10),
        lambda t, e: (_tone if e.payload["kind"] == "tone" else _ramp)(t, e),
    ),
]
