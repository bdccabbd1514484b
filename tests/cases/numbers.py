"""Cases of numbers at the ends of their types: sums beyond 63 bits, samples that overflow, plateaus, transforms of very few samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.signal
from tests import oracles
from tests import oracles_relations as refs
from tests.cases import data
from tests.cases.detectors import integral, peaks
from tests.cases.filters import _RINGING
from tests.cases.sampling import sampled
from tests.cases.table import Case, Row, Source, grid, sample_rows, window_rows
from tests.cases.timewindows import Groups
from tests.cases.uniform import uniform

import hydrophone as hp
from hydrophone.ops.aggregates.count_window import CountWindow
from hydrophone.ops.aggregates.sliding import Session, Sliding
from hydrophone.ops.aggregates.snapshot import Snapshot
from hydrophone.ops.aggregates.tumble import Tumble
from hydrophone.ops.filters.difference import Difference
from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.filters.iir import Iir
from hydrophone.ops.filters.rolling import Rolling
from hydrophone.ops.filters.sos import Sos
from hydrophone.ops.relational.consecutive import LastN
from hydrophone.ops.resampling.resample_poly import ResamplePoly
from hydrophone.ops.signals.arithmetic import Combine
from hydrophone.ops.spectra.shift_frequency import ShiftFrequency
from hydrophone.ops.windows.arrays import Autocorrelate, Convolve
from hydrophone.ops.windows.overlap_add import OverlapAdd

SECOND = 10**9
SMALL = ((1, 1), (2, 1), (2, 2), (3, 1), (5, 5))
LONG = np.random.default_rng(8).normal(size=70)
"""More taps than are taken one by one."""
ECHO = np.array([[4.0, 0.3, 0.1, 1, -0.5, 0]])
"""A section in which 1e308 overflows at once."""


# --- sums of integers -----------------------------------------------------------------------------------------------------------


def unsigned(n: int, rng: np.random.Generator) -> pa.Array:
    """Nine of them are more than int64 holds, sixteen more than uint64; some are missing."""
    return pa.array(rng.integers(2**60, 2**60 + 1000, n).astype(np.uint64), mask=rng.random(n) < 0.05)


def signed(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-(2**58) - 1000, -(2**58) + 1000, n)


def _counted(seed: int) -> Source:
    t = np.arange(45) * 10
    return Source(data.table(t=t, n=np.arange(45), v=unsigned(45, np.random.default_rng(seed))))


def _lasting(seed: int) -> Source:
    points = data.points(seed, rows=15, value=unsigned)
    return Source(points.table.append_column("end", pa.array(points.starts() + 90)), key="k", end="end")


def _numbered(events: list[oracles.Event]) -> Groups:
    found = [events[i : i + 10] for i in range(0, len(events), 10)]
    return [((), es[0].start, es[-1].stop, es) for es in found]


def total(name: str, node: Any, source: Source, windows: Callable[[Any], Any], groups: Callable[[Any], Groups]) -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        return [
            (*key, start, stop, oracles.total(e.payload["v"] for e in events))
            for key, start, stop, events in groups(inputs["x"].events())
        ]

    return Case(name, node, {"x": source}, lambda s: windows(s["x"]).agg(s=hp.sum("v")), expected)


def _tumbling(size: int) -> Callable[[Any], Groups]:
    return lambda events: [(k, start, start + size, es) for (k, start), es in oracles.tumble(events, size).items()]


def _kinds(name: str, value: Any, seed: int) -> list[Case]:
    points = data.points(seed, rows=40, value=value, holes=False)
    return [
        total(f"tumble-{name}", Tumble, points, lambda s: s.tumble(200), _tumbling(200)),
        total(
            f"sliding-{name}",
            Sliding,
            points,
            lambda s: s.sliding(200, every=50),
            lambda e: [(k, t, t + 200, es) for (k, t), es in refs.sliding(e, 200, 50, 0).items()],
        ),
        total(
            f"session-{name}",
            Session,
            data.points(seed, rows=12, value=value),
            lambda s: s.session(60),
            lambda e: refs.sessions(e, 60, False),
        ),
    ]


def _last_ten() -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        found = refs.rows_before(inputs["x"].events(), 10, np.inf)
        return [(*e.key, e.start, oracles.total(b.payload["v"] for b in before)) for e, before in found]

    points = data.points(821, rows=20, value=unsigned)
    return Case("last-n-uint64", LastN, {"x": points}, lambda s: s["x"].last_n(10).agg(s=hp.sum("v")), expected)


# --- filters -------------------------------------------------------------------------------------------------------------------


def huge(n: int, rng: np.random.Generator) -> np.ndarray:
    """Finite readings with which a filter overflows."""
    v = rng.normal(0, 3, n)
    v[rng.integers(0, n, max(1, n // 25))] = 1e308
    v[rng.integers(0, n, 1)] = -1e308
    return v


def too_large(x: oracles.Samples) -> oracles.Samples:
    """What a filter cannot take counts as infinite."""
    return {k: np.copysign(np.inf, v) if abs(v) > 1e300 else v for k, v in x.items()}


def echo(name: str, seed: int, missing: str = "zero", initial: str = "rest") -> Case:
    return uniform(
        name,
        Sos,
        data.beats(seed, rows=120, value=huge),
        lambda x: x.sos(ECHO, missing=missing, initial=initial),
        lambda x: oracles.sos(too_large(x), ECHO, missing, initial),
        why=_RINGING,
    )


def longest(n: int, rng: np.random.Generator) -> np.ndarray:
    """Integers of 64 bits whose differences and products do not fit into 64 bits."""
    return rng.choice(np.array([-(2**63), -(2**62), 5, 2**62, 2**63 - 1]), n)


def longest_unsigned(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(np.array([0, 5, 2**63 + 5, 2**64 - 1], np.uint64), n)


def _slopes(x: oracles.Samples) -> oracles.Samples:
    return {k: float(int(v) - int(x[k - 1])) * 1e8 for k, v in x.items() if k - 1 in x}


def _between(x: oracles.Samples, size: int) -> oracles.Samples:
    out: oracles.Samples = {}
    for k, v in x.items():
        span = [int(x[i]) for i in range(k - size + 1, k + 1) if i in x]
        if len(span) == size:
            out[k] = float(int(v) - min(span)) / float(max(span) - min(span)) if max(span) > min(span) else np.nan
    return out


def _sums(x: oracles.Samples, size: int) -> oracles.Samples:
    spans = {k: [x.get(i) for i in range(k - size + 1, k + 1)] for k in x}
    return {k: sum(int(v) for v in s) for k, s in spans.items() if None not in s}


def _filtered(x: oracles.Samples, b: Any, a: Any) -> oracles.Samples:
    return oracles.filtered(x, lambda v: scipy.signal.lfilter(b, a, v), "zero")


# --- windows -------------------------------------------------------------------------------------------------------------------


def rows(name: str, node: Any, source: Source, size: int, query: Callable[[Any], Any], row: Any) -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        with np.errstate(all="ignore"):
            found = {
                k: {e: row(w) for e, w in oracles.windows(x, size, size // 4).items()}
                for k, x in sampled(inputs["x"], 10).items()
            }
        return window_rows(found, grid(10))

    def ask(s: Mapping[str, Any]) -> Any:
        return query(s["x"].signal("v").sample(10).window(size, hop=size // 4))

    return Case(name, node, {"x": source}, ask, expected, 1e-15, "sums in another order, relative to the largest")


def back(name: str, source: Source, size: int, hop: int) -> Case:
    """Samples through their spectra and back, under windows of ones: each comes back times the share of its windows that are there."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        x = sampled(inputs["x"], 10)
        share = np.full(size, 1 / -(-size // hop))
        covered = {k: oracles.overlap_add({e: share for e in oracles.windows(v, size, hop)}) for k, v in x.items()}
        return sample_rows({k: {n: c * x[k][n] for n, c in v.items()} for k, v in covered.items()}, grid(10))

    def ask(s: Mapping[str, Any]) -> Any:
        return s["x"].signal("v").sample(10).stft(size, hop=hop, window="boxcar").istft("boxcar")

    return Case(name, OverlapAdd, {"x": source}, ask, expected, 1e-12, "rounding of transforms")


def _line(x: oracles.Samples) -> oracles.Samples:
    """One line of the spectrum of five samples in a row."""
    turn = np.exp(-2j * np.pi * 0.123 * np.arange(5))
    return {k: complex(a.astype(float) @ turn) for k, a in oracles.windows(x, 5, 1).items()}


def _covered(x: oracles.Samples) -> dict[int, int]:
    """Every sample as often as windows of four cover it."""
    found: dict[int, int] = {}
    for end in oracles.windows(x, 4, 1):
        for k in range(end - 3, end + 1):
            found[k] = found.get(k, 0) + int(x[k])
    return found


def _twice(x: oracles.Samples, taps: np.ndarray) -> dict[int, Any]:
    """Every sample and a zero after it, under complex taps."""
    half = len(taps) // 2
    out = {}
    for n in [m for k in x for m in (2 * k, 2 * k + 1)]:
        out[n] = sum(2 * taps[n - 2 * k + half] * x[k] for k in x if 0 <= n - 2 * k + half < len(taps))
    return out


def _resampled() -> Case:
    taps = np.array([0.25j, 0.5, 1.0 - 0.5j, 0.5, 2.0])

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        found = {k: {n: complex(v) for n, v in _twice(x, taps).items()} for k, x in sampled(inputs["x"], 10).items()}
        return sample_rows(found, grid(5))

    return Case(
        "resample-poly-complex-taps",
        ResamplePoly,
        {"x": data.beats(820)},
        lambda s: s["x"].signal("v").sample(10).resample_poly(up=2, down=1, window=taps),
        expected,
        1e-12,
        "sums in another order",
    )


def plateaus(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 3, n)


def _in_floats(kind: str, value: Any) -> list[Case]:
    """Operators that give doubles compute in doubles."""

    def doubles(x: oracles.Samples) -> oracles.Samples:
        return {k: float(v) for k, v in x.items()}

    source, b, a = data.beats(817, value=value), [3, -2], [1, -0.5]
    return [
        uniform(f"differentiate-{kind}", Difference, source, lambda x: x.differentiate(), _slopes),
        uniform(f"normalise-{kind}", Combine, source, lambda x: x.normalise(3), lambda x: _between(x, 3)),
        uniform(f"fir-{kind}", Fir, source, lambda x: x.fir(b), lambda x: oracles.fir(doubles(x), b)),
        uniform(f"iir-{kind}", Iir, source, lambda x: x.iir(b, a), lambda x: _filtered(doubles(x), b, a)),
    ]


CASES = [
    *_kinds("uint64", unsigned, 800),
    *_kinds("int64-low", signed, 801),
    total(
        "count-window-uint64",
        CountWindow,
        _counted(802),
        lambda s: s.count_window(10, by="n"),
        _numbered,
    ),
    total(
        "snapshot-uint64",
        Snapshot,
        _lasting(803),
        lambda s: s.snapshot(),
        refs.snapshot,
    ),
    _last_ten(),
    uniform(
        "moving-sum-uint64",
        Rolling,
        data.beats(804, value=lambda n, rng: rng.integers(2**60, 2**60 + 9, n).astype(np.uint64)),
        lambda x: x.moving_sum(12),
        lambda x: _sums(x, 12),
        tolerance=0.0,
    ),
    echo("sos-overflow", 805),
    echo("sos-overflow-reset", 806, missing="reset"),
    echo("sos-overflow-steady", 807, initial="steady"),
    integral("integrate-overflow", data.beats(808, value=huge), 170),
    peaks("find-peaks-plateaus", data.beats(809, value=plateaus, rows=90, lost=0.02)),
    peaks("find-peaks-plateaus-short", data.beats(810, value=plateaus, rows=90, lost=0.02), plateau=2),
    peaks("find-peaks-plateaus-distance", data.beats(811, value=plateaus, rows=90, lost=0.0), distance=3, height=1),
    peaks("find-peaks-plateaus-within", data.beats(812, value=plateaus, rows=90, lost=0.0), prominence=1, within=4),
    rows(
        "convolve-long-rough",
        Convolve,
        data.beats(813, rows=240, lost=0.0, value=data.rough),
        80,
        lambda w: w.convolve(LONG),
        lambda a: np.convolve(a, LONG),
    ),
    rows(
        "autocorrelate-long-rough",
        Autocorrelate,
        data.beats(814, rows=240, lost=0.0, value=data.rough),
        80,
        lambda w: w.autocorrelate(),
        lambda a: np.correlate(a, a, "full"),
    ),
    *(back(f"istft-complex-{n}-{h}", data.beats(815, value=data.complicated), n, h) for n, h in SMALL),
    *(back(f"istft-{n}-{h}", data.beats(816), n, h) for n, h in SMALL),
    *_in_floats("int64", longest),
    *_in_floats("uint64", longest_unsigned),
    Case(
        "goertzel-single",
        ShiftFrequency,
        {"x": Source(data.beats(822, period=SECOND, value=data.single).table, key="k")},
        lambda s: s["x"].signal("v").sample(SECOND).goertzel(0.123, 5, hop=1),
        lambda i: sample_rows({k: _line(x) for k, x in sampled(i["x"], SECOND).items()}, grid(SECOND)),
        1e-14,
        "phases turned from the origin of the grid, and sums in another order",
    ),
    Case(
        "overlap-add-int16",
        OverlapAdd,
        {"x": data.beats(823, value=data.widest)},
        lambda s: s["x"].signal("v").sample(10).window(4, hop=1).overlap_add(),
        lambda i: sample_rows({k: _covered(x) for k, x in sampled(i["x"], 10).items()}, grid(10)),
    ),
    _resampled(),
]  # fmt: skip
