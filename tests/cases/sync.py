"""Cases of segments cut out by ranges of time, put beside each other and regrouped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tests import oracles
from tests.cases import data
from tests.cases.channels import pair
from tests.cases.sampling import GRID_44K, _cd_audio, sampled
from tests.cases.segments import GRIDS, segmented, signals
from tests.cases.table import Case, Row, Source, grid, sample_rows
from tests.cases.uniform import uniform

import hydrophone as hp
from hydrophone.ops.resampling.interleave import Deinterleave, Interleave
from hydrophone.ops.signals.sync import Sync
from hydrophone.ops.signals.zip_signals import Zip
from hydrophone.ops.windows.overlap_add import OverlapAdd

Signals = tuple[Mapping[Any, oracles.Samples], Callable[[Any], oracles.Grid]]
"""The samples by key, and the grid of a key."""


def samples_in(x: oracles.Samples, at: oracles.Grid, start: int, stop: int) -> tuple[Any, ...] | None:
    """The samples in a range, or None where one lacks or there is none."""
    there = range(at.first(start), at.first(stop))
    if not there or any(k not in x for k in there):
        return None
    return tuple(tuple(v.tolist()) if isinstance(v, np.ndarray) else v for v in (x[k] for k in there))


def undone(events: list[oracles.Event]) -> list[tuple[oracles.Event, int]]:
    """Ranges of one key with where they begin if each sample leaves once."""
    out, until = [], -(2**63)
    for e in sorted(events, key=lambda e: (e.start, e.stop)):
        if max(e.start, until) < e.stop:
            out.append((e, max(e.start, until)))
        until = max(until, e.stop)
    return out


def rows(events: list[oracles.Event], of: list[Signals], *, missing: str = "drop", delete: bool = False) -> list[Row]:
    out = []
    for key, mine in oracles.by_key(events).items():
        for e, start in undone(mine) if delete else [(e, e.start) for e in mine]:
            arrays = [samples_in(x.get(key, {}), at(key), start, e.stop) for x, at in of]
            if missing == "null" or all(a is not None for a in arrays):
                out.append((*key, start, e.stop, *e.payload.values(), *arrays))
    return out


def sync(
    name: str,
    x: Source,
    ranges: Source,
    *,
    period: Any = 10,
    spacing: Any = None,
    columns: tuple[str, ...] = ("v",),
    halved: bool = False,
    missing: str = "drop",
    delete: bool = False,
    longest: int | None = None,
) -> Case:
    """With `halved` a second signal has every second sample."""

    def query(s: Mapping[str, Any]) -> Any:
        signal = s["x"].signal(*columns).sample(spacing or period)
        more = (signal.downsample(2),) if halved else ()
        names = ["x", "half"] if halved else "x"
        return hp.sync(s["r"], signal, *more, names=names, missing=missing, delete=delete, longest=longest)

    def expected(i: Mapping[str, Source]) -> list[Row]:
        found, at = sampled(i["x"], period, columns=columns), grid(period)
        of: list[Signals] = [(found, lambda _: at)]
        if halved:
            of.append(
                (
                    {key: {k // 2: v for k, v in x.items() if k % 2 == 0} for key, x in found.items()},
                    lambda _: grid(2 * period),
                )
            )
        return rows(i["r"].events(), of, missing=missing, delete=delete)

    return Case(name, Sync, {"x": x, "r": ranges}, query, expected)


def own_grids(name: str) -> Case:
    """Every key has a period and a phase of its own."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        found = {(k,): x for k, x in signals(i["x"]).items()}
        return rows(i["r"].events(), [(found, lambda key: GRIDS.get(key[0], grid(10)))])

    inputs = {"x": segmented(411), "r": data.intervals(412, keys=("a", "b", "c", "e"), start=-90)}
    return Case(name, Sync, inputs, lambda s: hp.sync(s["r"], s["x"]), expected)


def audio_ranges() -> Source:
    """Ranges that begin and end at samples of the audio, and a nanosecond beside them."""
    t = np.sort(_cd_audio().table["t"].to_numpy())
    start = np.concatenate([t[::6], t[1::6] + 1, t[2::6] - 1])
    stop = np.concatenate([t[::6] + 1, t[1::6] + 90_000, t[2::6] + 45_351])
    return Source(data.table(k=["m"] * len(start), t=start, e=stop, v=np.arange(len(start)) * 1.0), key="k", end="e")


def zipped(
    name: str, a: Source, b: Source, query: Callable[[Any, Any], Any], of: Callable[[Any, Any], list[Any]]
) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        x, y = (sampled(i[n], 10) for n in ("a", "b"))
        both = {key: {k: np.array(of(v, y[key][k])) for k, v in x[key].items() if k in y[key]} for key in x if key in y}
        return sample_rows(both, grid(10))

    def ask(s: Mapping[str, Any]) -> Any:
        return query(*(s[n].signal("v").sample(10) for n in ("a", "b")))

    return Case(name, Zip, {"a": a, "b": b}, ask, expected)


def interleaved(name: str) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        found = sampled(i["x"], 10, columns=("v", "w"))
        flat = {key: {2 * k + c: v[c] for k, v in x.items() for c in (0, 1)} for key, x in found.items()}
        return sample_rows(flat, grid(5))

    return Case(name, Interleave, {"x": pair(420)}, lambda s: s["x"].signal("v", "w").sample(10).interleave(), expected)


def deinterleaved(name: str, source: Source, n: int) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        out: dict[Any, dict[int, np.ndarray]] = {}
        for key, x in sampled(i["x"], 10).items():
            groups = {k // n for k in x}
            whole = [g for g in groups if all(g * n + c in x for c in range(n))]
            out[key] = {g: np.array([x[g * n + c] for c in range(n)]) for g in whole}
        return sample_rows(out, grid(10 * n))

    return Case(name, Deinterleave, {"x": source}, lambda s: s["x"].signal("v").sample(10).deinterleave(n), expected)


RANGES = data.overlapping(400)

CASES = [
    sync("sync", data.beats(401), RANGES),
    sync("sync-null", data.beats(402, rows=60), RANGES, halved=True, missing="null"),
    sync("sync-two-rates", data.beats(403, rows=60, lost=0.03), RANGES, halved=True),
    sync("sync-delete", data.beats(404, lost=0.02), RANGES, delete=True),
    sync("sync-longest", data.beats(405, value=data.rough), data.intervals(406, keys=("a", "b", "d")), longest=45),
    sync("sync-delete-longest", data.beats(405, lost=0.02), RANGES, delete=True, longest=90, missing="null"),
    sync("sync-channels", pair(407), data.intervals(408), columns=("v", "w"), missing="null"),
    sync("sync-complex", data.beats(409, value=data.complicated), data.intervals(410), missing="null"),
    sync("sync-44khz", _cd_audio(), audio_ranges(), period=GRID_44K, spacing="44.1kHz"),
    sync("sync-empty", data.empty(data.beats(401)), RANGES, missing="null"),
    sync("sync-no-ranges", data.beats(401), data.empty(RANGES)),
    own_grids("sync-own-grids"),
    zipped(
        "zip", data.beats(413), data.beats(414, value=data.whole), lambda a, b: hp.zip(a, b), lambda a, b: [a, float(b)]
    ),
    zipped(
        "zip-three",
        data.beats(415, value=data.rough),
        data.beats(416),
        lambda a, b: hp.zip(a, b, a.shift(0)),
        lambda a, b: [a, b, a],
    ),
    interleaved("interleave"),
    deinterleaved("deinterleave", data.beats(421, lost=0.04), 3),
    deinterleaved("deinterleave-whole", data.beats(422, lost=0.04, value=data.small_whole), 2),
    uniform(
        "deinterleave-interleave",
        Interleave,
        data.beats(423, lost=0.05),
        lambda x: x.deinterleave(2).interleave(),
        lambda x: {k: v for k, v in x.items() if k ^ 1 in x},
        tolerance=0,
    ),
    uniform(
        "rewindow-dewindow",
        OverlapAdd,
        data.beats(424, lost=0.05),
        lambda x: x.rewindow(3, gap=1).dewindow(),
        lambda x: {k: v for k, v in x.items() if k % 4 < 3 and all(k - k % 4 + c in x for c in range(3))},
        tolerance=0,
    ),
]
