"""Cases of Frames and Trailing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles_frames as reference
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio
from tests.cases.table import Case, Row, Source
from tests.cases.uniform import found

import hydrophone as hp
from hydrophone.ops.frames.frames import Frames
from hydrophone.ops.frames.trailing import Trailing

EDGES = (-2.0, 0.0, 2.0)
NAMES = ("low", "cool", "warm", "high")
_SUMS = "amounts are added frame by frame, the reference adds them one by one"


def _order(value: Any) -> Any:
    """Null first, then by value."""
    return (value is not None, ("" if isinstance(value, str) else 0) if value is None else value)


def by_key(source: Source) -> dict[Any, list[dict[str, Any]]]:
    """Rows of every key in the order in which readings count: time, end, columns."""
    out: dict[Any, list[dict[str, Any]]] = {}
    names = [n for n in ("t", "e", "v", "n", "s") if n in source.table.column_names]
    for row in sorted(source.table.to_pylist(), key=lambda r: [_order(r[n]) for n in names if n != "s"]):
        out.setdefault(row["k"], []).append(row)
    return out


def _case(
    name: str, source: Source, query: Any, status: Any, value: str, amounts: tuple[str, ...] = (), **how: Any
) -> Case:
    hold = how.pop("hold", None)
    names = how.pop("names", None)

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        rows = []
        for key, events in by_key(inputs["x"]).items():
            given = [
                (r["t"], r["e"] if hold is None else r["t"] + hold, r[value], *(r[a] or 0 for a in amounts))
                for r in events
            ]
            for start, end, found_status, *rest in reference.frames(reference.readings(given, status), **how):
                rows.append((key, start, end, names[found_status] if names else found_status, *rest))
        return rows

    return Case(
        name,
        Frames,
        {"x": source},
        lambda s: query(s["x"]),
        expected,
        1e-12 if amounts else 0.0,
        _SUMS if amounts else "",
    )


def levels(seed: int, rows: int = 60, keys: tuple[str, ...] = ("a", "b", "c"), spread: int = 12) -> Source:
    """Readings that dither about a slow wave, with holes; some are no number, some are null."""
    key, t = data.irregular(seed, keys, rows, spread=spread)
    rng = np.random.default_rng(seed)
    v = 3 * np.sin(t / 60.0) + rng.normal(0, 0.7, len(t))
    v[rng.random(len(t)) < 0.02] = np.nan
    values = pa.array(v, mask=rng.random(len(t)) < 0.02)
    return Source(pa.table({"k": key, "t": t, "v": values, "n": rng.integers(-9, 9, len(t))}), key="k")


def dithering(seed: int, rows: int = 70) -> Source:
    """Statuses as text, short and long, some null, and several at one instant."""
    key, t = data.irregular(seed, ("a", "b", "c"), rows, spread=9)
    rng = np.random.default_rng(seed)
    order = np.lexsort((t, key))
    words = np.empty(len(t), object)
    words[order] = np.repeat(rng.choice(["idle", "busy", "off", ""], len(t)), rng.integers(1, 7, len(t)))[: len(t)]
    words[rng.random(len(t)) < 0.03] = None
    return Source(pa.table({"k": key, "t": t, "v": pa.array(words.tolist(), pa.string())}), key="k")


def _plain(before: Any, value: Any) -> Any:
    return value


def _number(before: Any, value: Any) -> Any:
    return reference.banded([], EDGES)(before, float("nan") if value is None else value)


def _slack(before: Any, value: Any) -> Any:
    return reference.banded([], EDGES, 0.5)(before, float("nan") if value is None else value)


def _true(before: Any, value: Any) -> Any:
    return None if value is None else bool(value > 0.5)


def _sampled(name: str, source: Source, **how: Any) -> Case:
    """Bands of samples; conditions and sums are of streams."""
    spacing, period = how.pop("spacing", None), how.pop("period", 10)

    def answer(x: Any, at: Any) -> list[tuple[Any, ...]]:
        hold = -int(-period // 1)
        given = [(at.instant(k), at.instant(k) + hold, float(x[k])) for k in sorted(x)]
        status = reference.banded([], EDGES, 0.5)
        return [(a, b, NAMES[s], n) for a, b, s, n in reference.frames(reference.readings(given, status), **how)]

    bands = hp.bands(EDGES, names=NAMES, hysteresis=0.5)
    return found(name, Frames, source, lambda x: x.frames(bands, **how), answer, period=period, spacing=spacing)


def _trail(
    name: str, source: Source, lengths: tuple[int | None, ...], by: str | None = "s", changed: bool = False
) -> Case:
    answer = reference.changed if changed else reference.trailing
    how: dict[str, Any] = ({"by": by} if by else {}) | ({"changed": True} if changed else {})

    def query(s: Mapping[str, Any]) -> Any:
        return (
            s["x"]
            .trailing(*lengths)
            .agg(time=hp.duration(), n=hp.count(), total=hp.sum("v"), level=hp.mean("v"), **how)
        )

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        rows: list[Row] = []
        for key, events in by_key(inputs["x"]).items():
            given = [(r["t"], r["e"], r[by] if by else None, r["v"]) for r in events]
            for end, length, status, t in answer(given, lengths):
                rows.append((key, end, length, *([status] if by else []), t.time, t.count, t.amount, t.mean))
        return rows

    return Case(name, Trailing, {"x": source}, query, expected, 1e-12, "weights times sums in another order")


def episodes(seed: int, **how: Any) -> Source:
    """Intervals that never overlap, with a status and a value that is null at times."""
    source = data.intervals(seed, **how)
    rng = np.random.default_rng(seed)
    count = len(source.table)
    words = pa.array(rng.choice(["x", "y", "z"], count).tolist(), mask=rng.random(count) < 0.05)
    values = pa.array(source.table["v"].to_numpy(), mask=rng.random(count) < 0.2)
    return Source(source.table.set_column(3, "v", values).append_column("s", words), key="k", end="e")


CASES = [
    _case(
        "frames",
        levels(900),
        lambda x: x.frames(hp.bands(EDGES, names=NAMES, of="v"), hold=30, noise=12, at_least=40),
        _number,
        "v",
        hold=30,
        noise=12,
        at_least=40,
        names=NAMES,
    ),
    _case(
        "frames-hysteresis-report",
        levels(901),
        lambda x: x.frames(hp.bands(EDGES, hysteresis=0.5, of="v"), hold=25, noise=8, at_least=30, report=50, sums="n"),
        _slack,
        "v",
        ("n",),
        hold=25,
        noise=8,
        at_least=30,
        report=50,
    ),
    _case(
        "frames-of-text",
        dithering(902),
        lambda x: x.frames("v", hold=40, noise=5, at_least=25, report=100),
        _plain,
        "v",
        hold=40,
        noise=5,
        at_least=25,
        report=100,
    ),
    _case(
        "frames-of-condition",
        levels(903),
        lambda x: x.frames(
            hp.when(hp.col("v").is_nan()).then(hp.lit(False)).otherwise(hp.col("v") > 0.5), hold=20, report=70
        ),
        _true,
        "v",
        hold=20,
        report=70,
    ),
    _case(
        "frames-of-intervals",
        data.intervals(904, keys=("a", "b", "c"), rows=30),
        lambda x: x.frames(hp.bands((0.0,)), noise=15, at_least=50, sums="v"),
        reference.banded([], (0.0,)),
        "v",
        ("v",),
        noise=15,
        at_least=50,
    ),
    _case(
        "frames-that-never-last",
        levels(905, rows=400, spread=3),
        lambda x: x.frames(hp.bands(EDGES, of="v"), hold=9, noise=1, at_least=3, report=40),
        _number,
        "v",
        hold=9,
        noise=1,
        at_least=3,
        report=40,
    ),
    _case(
        "frames-empty",
        data.empty(levels(900)),
        lambda x: x.frames(hp.bands(EDGES, of="v"), hold=30, report=50),
        _number,
        "v",
        hold=30,
        report=50,
    ),
    _sampled("frames-of-samples", data.beats(906, rows=80, lost=0.03), noise=15, at_least=40, report=70),
    _sampled("frames-of-rough-samples", data.beats(907, rows=80, value=data.rough, lost=0.03), at_least=30, report=90),
    _sampled(
        "frames-44khz", _cd_audio(), noise=30_000, at_least=50_000, report=200_000, period=GRID_44K, spacing="44.1kHz"
    ),
    _trail("trailing", episodes(910, keys=("a", "b", "c"), rows=25), (30, 200)),
    _trail("trailing-all-time", episodes(911, rows=25), (50, None)),
    _trail("trailing-only-all-time", episodes(912, rows=15), (None,), by=None),
    _trail("trailing-changed", episodes(913, keys=("a", "b", "c"), rows=25), (30, 200), changed=True),
    _trail("trailing-changed-all-time", episodes(914, rows=25), (None, 50, 10), changed=True),
    _trail("trailing-empty", data.empty(episodes(910)), (30, None)),
]
