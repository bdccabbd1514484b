"""Cases of aggregates over windows of time: sliding windows, sessions, and all aggregates on each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests import oracles_relations as refs
from tests.cases import data
from tests.cases.table import Case, Row, Source

import hydrophone as hp
from hydrophone.ops.aggregates.flush import Flush
from hydrophone.ops.aggregates.sliding import RunningTumble, Session, Sliding
from hydrophone.ops.aggregates.tumble import Tumble

_SUM = "sums of floats in the order in which events come"

Groups = list[tuple[tuple[Any, ...], int, int, list[oracles.Event]]]


def _fresh(n: int) -> np.ndarray:
    return np.tile([np.inf, -np.inf], (n, 1))


def _add(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.stack([np.fmin(states[:, 0], values), np.fmax(states[:, 1], values)], axis=1)


def _merge(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.stack([np.fmin(a[:, 0], b[:, 0]), np.fmax(a[:, 1], b[:, 1])], axis=1)


def _width(states: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return states[:, 1] - states[:, 0]


def _more(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return states + values.astype(float) ** 2


def _less(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return states - values.astype(float) ** 2


def energy(column: str, *, remove: bool = True) -> Any:
    """The sum of squares, from which events can be taken away."""
    return hp.aggregate(
        column, create=np.zeros, add=_more, merge=np.add, result=np.asarray, remove=_less if remove else None
    )


PARTS = {
    "n": lambda c: hp.count(),
    "total": hp.sum,
    "low": hp.min,
    "var": hp.variance,
    "std": lambda c: hp.std(c, ddof=1),
    "width": lambda c: hp.aggregate(c, create=_fresh, add=_add, merge=_merge, result=_width),
    "energy": energy,
}
PICKS = {
    "first": hp.first,
    "last": lambda c: hp.last(c),
    "distinct": hp.distinct_count,
    "median": lambda c: hp.quantile(c, 0.5),
    "low": lambda c: hp.quantile(c, 0.05),
    "top": lambda c: hp.top_k(c, 3),
}


def _width_of(values: list[Any]) -> float | None:
    v = np.asarray(refs.there(values), float)
    with np.errstate(invalid="ignore"):
        return float(np.fmax.reduce(v, initial=-np.inf) - np.fmin.reduce(v, initial=np.inf)) if len(v) else None


def _energy_of(values: list[Any]) -> float | None:
    v = np.asarray(refs.there(values), float)
    with np.errstate(over="ignore"):
        return float((v**2).sum()) if len(v) else None


def parts_of(events: list[oracles.Event], column: str) -> Row:
    v = [e.payload[column] for e in events]
    deviation = refs.variance(v, 1)
    return (
        len(v),
        oracles.total(v),
        oracles.extreme(min, v),
        refs.variance(v),
        None if deviation is None else deviation**0.5,
        _width_of(v),
        _energy_of(v),
    )


def picks_of(events: list[oracles.Event], column: str) -> Row:
    v = [e.payload[column] for e in events]
    return (
        refs.first(events, column),
        refs.last(events, column),
        refs.distinct_count(v),
        refs.quantile(v, 0.5),
        refs.quantile(v, 0.05),
        refs.top_k(v, 3),
    )


def _case(
    name: str, node: Any, source: Source, windows: Any, groups: Any, what: str, column: str, tolerance: float
) -> Case:
    made, expected_of = {"parts": (PARTS, parts_of), "picks": (PICKS, picks_of)}[what]

    def query(s: Mapping[str, Any]) -> Any:
        return windows(s["x"]).agg(**{n: make(column) for n, make in made.items()})

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        found: Groups = groups(inputs["x"].events())
        return [(*key, start, stop, *expected_of(events, column)) for key, start, stop, events in found]

    return Case(name, node, {"x": source}, query, expected, tolerance, _SUM if tolerance else "")


def tumble(
    name: str,
    source: Source,
    size: int,
    what: str,
    column: str = "v",
    tolerance: float = 1e-12,
    flush: Flush | None = None,
) -> Case:
    def groups(events: list[oracles.Event]) -> Groups:
        return [(k, t, t + size, es) for (k, t), es in oracles.tumble(events, size).items()]

    return _case(name, Tumble, source, lambda x: x.tumble(size, flush=flush), groups, what, column, tolerance)


def sliding(
    name: str,
    source: Source,
    size: int,
    every: int,
    offset: int,
    what: str,
    column: str = "v",
    tolerance: float = 1e-12,
    flush: Flush | None = None,
) -> Case:
    def groups(events: list[oracles.Event]) -> Groups:
        return [(k, t, t + size, es) for (k, t), es in refs.sliding(events, size, every, offset).items()]

    def windows(x: Any) -> Any:
        return x.sliding(size, every=every, offset=offset, flush=flush)

    return _case(name, Sliding, source, windows, groups, what, column, tolerance)


def reported(
    name: str,
    source: Source,
    size: int,
    report: int,
    what: str,
    every: int | None = None,
    offset: int = 0,
    column: str = "v",
    tolerance: float = 1e-12,
) -> Case:
    """Running results: every window once more for every instant, by trying all instants."""
    made, expected_of = {"parts": (PARTS, parts_of), "picks": (PICKS, picks_of)}[what]

    def query(s: Mapping[str, Any]) -> Any:
        how = {"offset": offset, "report": report}
        windows = s["x"].tumble(size, **how) if every is None else s["x"].sliding(size, every=every, **how)
        return windows.agg(**{n: make(column) for n, make in made.items()})

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        out = []
        for (k, t), es in refs.sliding(inputs["x"].events(), size, every or size, offset).items():
            for until in range(t + report, t + size + 1, report):
                so_far = [e for e in es if e.start < until]
                if so_far:
                    out.append((*k, t, until, until == t + size, *expected_of(so_far, column)))
        return out

    node = RunningTumble if every is None else Sliding
    return Case(name, node, {"x": source}, query, expected, tolerance, _SUM if tolerance else "")


def session(name: str, source: Source, gap: int, what: str, column: str = "v", tolerance: float = 1e-12) -> Case:
    def groups(events: list[oracles.Event]) -> Groups:
        return refs.sessions(events, gap, source.end is not None)

    return _case(name, Session, source, lambda x: x.session(gap), groups, what, column, tolerance)


def _texts() -> Case:
    """Values that are no numbers, with nulls."""
    base = data.overlapping(201)
    words = pa.array([None if s == "" else s for s in base.table["s"].to_pylist()])
    source = replace(base, table=base.table.set_column(base.table.column_names.index("s"), "s", words))

    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        for (k, t), es in refs.sliding(i["x"].events(), 60, 45, 0).items():
            v = [e.payload["s"] for e in es]
            top = refs.top_k(v, 2)
            out.append((*k, t, t + 60, refs.first(es, "s"), refs.last(es, "s"), refs.distinct_count(v), top))
        return out

    def query(s: Mapping[str, Any]) -> Any:
        made = {"a": hp.first("s"), "b": hp.last("s"), "n": hp.distinct_count("s"), "top": hp.top_k("s", 2)}
        return s["x"].sliding(60, every=45).agg(**made)

    return Case("sliding-texts", Sliding, {"x": source}, query, expected)


def _times() -> Case:
    """The earliest and latest of times, and of dates with nulls."""
    base = data.overlapping(202)
    number = base.table["n"].to_pylist()
    days = pa.array([None if n % 3 == 0 else n for n in number], pa.int32()).cast(pa.date32())
    at = pa.array([1000 * n for n in number]).cast(pa.timestamp("us"))
    source = replace(base, table=base.table.append_column("at", at).append_column("day", days))

    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        for (k, t), es in refs.sliding(i["x"].events(), 60, 45, 0).items():
            n = [e.payload["n"] for e in es]
            day = [dt.date(1970, 1, 1) + dt.timedelta(v) for v in n if v % 3]
            ends = (min(day), max(day)) if day else (None, None)
            out.append((*k, t, t + 60, min(n) * 1_000_000, max(n) * 1_000_000, *ends))
        return out

    def query(s: Mapping[str, Any]) -> Any:
        made = {"a": hp.min("at"), "b": hp.max("at"), "c": hp.min("day"), "d": hp.max("day")}
        return s["x"].sliding(60, every=45).agg(**made)

    return Case("sliding-times", Sliding, {"x": source}, query, expected)


def _twice() -> Case:
    """What reads results that leave late: it waits for them, and no longer."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        counts: dict[int, list[int]] = {}
        for (_, t), es in oracles.tumble(i["x"].events(), 20).items():
            counts.setdefault(t // 60 * 60, []).append(len(es))
        return [(t, t + 60, len(ns), max(ns)) for t, ns in counts.items()]

    def query(s: Mapping[str, Any]) -> Any:
        each = s["x"].tumble(20, flush=hp.slow(every=4, late=3)).agg(n=hp.count())
        return each.key_by().tumble(60, flush=hp.lazy()).agg(keys=hp.count(), most=hp.max("n"))

    return Case("tumble-slow-then-lazy", Tumble, {"x": LIVES}, query, expected)


LIVES = data.overlapping(200)
ROUGH = data.points(203, value=data.rough)
FAR = data.points(204, value=lambda n, rng: rng.normal(1e9, 1.0, n), spread=4, holes=False)

CASES = [
    tumble("tumble-more-parts", LIVES, 70, "parts"),
    tumble("tumble-more-parts-far-from-zero", FAR, 30, "parts", tolerance=1e-7),
    tumble("tumble-picks", LIVES, 70, "picks"),
    tumble("tumble-picks-rough", ROUGH, 200, "picks"),
    sliding("sliding", LIVES, 60, 20, 0, "parts"),
    sliding("sliding-uneven", ROUGH, 100, 35, 13, "parts", tolerance=1e-9),
    sliding("sliding-apart", LIVES, 20, 50, -7, "parts", column="n"),
    sliding("sliding-picks", ROUGH, 70, 28, 5, "picks"),
    sliding("sliding-picks-integers", LIVES, 40, 20, 0, "picks", column="n"),
    sliding("sliding-many-panes", data.points(205, ["a", "b"], 12), 300, 1, 0, "parts"),
    sliding("sliding-afresh", data.points(208, ["a", "b"], 300, spread=2), 20, 2, 1, "parts"),
    sliding("sliding-empty", data.empty(LIVES), 60, 20, 0, "parts"),
    _texts(),
    _times(),
    reported("tumble-running", LIVES, 60, 20, "parts", offset=-7),
    reported("tumble-running-picks", ROUGH, 200, 50, "picks"),
    reported("tumble-running-whole", LIVES, 70, 70, "parts"),
    reported("tumble-running-empty", data.empty(LIVES), 60, 20, "parts"),
    reported("sliding-running", LIVES, 60, 30, "parts", every=20),
    reported("sliding-running-uneven", ROUGH, 100, 25, "parts", every=35, offset=13, tolerance=1e-9),
    reported("sliding-running-apart", LIVES, 20, 5, "picks", every=50, offset=-7, column="n"),
    tumble("tumble-lazy", LIVES, 30, "parts", flush=hp.lazy(late=2)),
    tumble("tumble-slow-picks", ROUGH, 60, "picks", flush=hp.slow(every=3, late=4)),
    sliding("sliding-slow", ROUGH, 100, 35, 13, "parts", tolerance=1e-9, flush=hp.slow(every=2, late=3)),
    _twice(),
    session("session", data.points(206), 60, "parts"),
    session("session-lifetimes", LIVES, 3, "picks"),
    session("session-touching", data.intervals(207), 1, "picks"),
    session("session-everything", LIVES, 10**9, "parts"),
]
