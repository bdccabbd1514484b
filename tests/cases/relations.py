"""Cases of relations between streams: unions, joins of lifetimes, differences and snapshots."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles_relations as refs
from tests.cases import data
from tests.cases.lifetimes import names
from tests.cases.table import Case, Row, Source, grid, sample_rows
from tests.cases.timewindows import PARTS, PICKS, parts_of, picks_of
from tests.oracles import Event, band_join, by_key, sample, tumble

import hydrophone as hp
from hydrophone.ops.aggregates.sliding import Sliding
from hydrophone.ops.aggregates.snapshot import Snapshot
from hydrophone.ops.aggregates.tumble import Tumble
from hydrophone.ops.relational.band_join import BandJoin
from hydrophone.ops.relational.overlap_joins import AntiJoin, Difference, Join, SemiJoin, Without
from hydrophone.ops.relational.sets import Distinct, Union

_SUM = "sums of floats in the order in which events come"
A, B, C = data.overlapping(220), data.overlapping(221), data.overlapping(222)
POINTS, OTHERS = data.points(223), data.points(224)
TOUCHING, MORE = data.intervals(225), data.intervals(226)


def few(seed: int, rows: int = 40, points: bool = False) -> Source:
    """Few different payloads, among them null and NaN, at few times: much is equal."""
    rng = np.random.default_rng(seed)
    t = rng.integers(-20, 40, rows)
    table = {
        "k": [str(c) for c in rng.choice(["a", "b"], rows)],
        "t": t,
        "e": t + rng.integers(1, 15, rows),
        "v": pa.array([[1.5, None, float("nan")][n] for n in rng.integers(0, 3, rows)], pa.float64()),
        "s": [str(c) for c in rng.choice(["x", ""], rows)],
    }
    if points:
        del table["e"]
    return Source(pa.table(table), key="k", end=None if points else "e")


def row(e: Event, source: Source, start: int | None = None, stop: int | None = None, lived: bool | None = None) -> Row:
    ends = [e.stop if stop is None else stop] if (source.end if lived is None else lived) else []
    return (*e.key, e.start if start is None else start, *ends, *(e.payload[n] for n in names(source)))


# --- sets ---------------------------------------------------------------------------------------------------------------


def union(name: str, *sources: Source) -> Case:
    lived = any(s.end for s in sources)
    return Case(
        name,
        Union,
        {f"x{i}": s for i, s in enumerate(sources)},
        lambda s: hp.union(*s.values()),
        lambda i: [row(e, sources[0], lived=lived) for s in i.values() for e in s.events()],
    )


def _union_counts() -> Case:
    """Progress of the slowest: a window of all."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        events = [e for s in i.values() for e in s.events()]
        return [(*k, t, t + 90, len(es)) for (k, t), es in refs.sliding(events, 90, 30, 0).items()]

    return Case(
        "union-sliding",
        Union,
        {"x": A, "y": POINTS, "z": B},
        lambda s: hp.union(*(x.select("v") for x in s.values())).sliding(90, every=30).agg(n=hp.count()),
        expected,
    )


def _union_itself() -> Case:
    return Case(
        "union-with-itself",
        Union,
        {"x": A},
        lambda s: s["x"].union(s["x"]),
        lambda i: [row(e, A) for e in i["x"].events()] * 2,
    )


def distinct(name: str, source: Source) -> Case:
    return Case(
        name,
        Distinct,
        {"x": source},
        lambda s: s["x"].distinct(),
        lambda i: [row(e, source) for e in refs.distinct(i["x"].events())],
    )


# --- joins --------------------------------------------------------------------------------------------------------------


def join(name: str, left: Source, right: Source, how: str = "inner", **options: Any) -> Case:
    lived = {"inner": left.end and right.end, "left": left.end, "full": left.end or right.end}[how]

    def expected(i: Mapping[str, Source]) -> list[Row]:
        a, b = i["a"].events(), i["b"].events()

        def made(key: Any, start: int, stop: int, x: Any, y: Any) -> Row:
            return (*key, start, *([stop] if lived else []), x, y)

        out = [made(x.key, s, e, x.payload["v"], y.payload["v"]) for x, y, s, e in refs.join(a, b)]
        if how != "inner":
            out += [
                made(x.key, s, e, x.payload["v"], None)
                for x in a
                for s, e in refs.without(x, [y for y in b if y.key == x.key])
            ]
        if how == "full":
            out += [
                made(y.key, s, e, None, y.payload["v"])
                for y in b
                for s, e in refs.without(y, [x for x in a if x.key == y.key])
            ]
        return out

    return Case(
        name,
        Join,
        {"a": left, "b": right},
        lambda s: s["a"].select("v").join(s["b"].select("v"), how=how, **options),
        expected,
    )


def _join_on() -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        a, b = (
            [Event((e.payload["s"], e.payload["n"]), e.start, e.stop, {"k": e.key[0]}) for e in i[x].events()]
            for x in "ab"
        )
        return [(*x.key, s, e, x.payload["k"], y.payload["k"]) for x, y, s, e in refs.join(a, b)]

    return Case(
        "join-on",
        Join,
        {"a": A, "b": B},
        lambda s: s["a"].select("s", "n").join(s["b"].select("s", "n"), on=["s", "n"]),
        expected,
    )


def _join_crossed() -> Case:
    """The right side has columns of its own with the names that the left side is joined on."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        a = [Event((e.key[0],), e.start, e.stop, e.payload) for e in i["a"].events()]
        b = [Event((e.payload["s"],), e.start, e.stop, {"k": e.key[0], "n": e.payload["n"]}) for e in i["b"].events()]
        return [(*x.key, s, e, x.payload["n"], y.payload["n"], y.payload["k"]) for x, y, s, e in refs.join(a, b)]

    renamed = B.table.set_column(B.table.column_names.index("s"), "s", pa.array([str(s) for s in "abc"] * 20))
    return Case(
        "join-on-crossed",
        Join,
        {"a": A, "b": replace(B, table=renamed)},
        lambda s: s["a"].select("n").join(s["b"].select("n", "s"), on={"k": "s"}),
        expected,
    )


def _self_join() -> Case:
    return Case(
        "join-itself",
        Join,
        {"a": few(230)},
        lambda s: s["a"].select("s").join(s["a"].select("s")),
        lambda i: [
            (*x.key, s, e, x.payload["s"], y.payload["s"]) for x, y, s, e in refs.join(i["a"].events(), i["a"].events())
        ],
    )


def _three_way() -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        pairs = refs.join(i["a"].events(), i["b"].events())
        ab = [Event(x.key, s, e, {"l": x.payload["n"], "r": y.payload["n"]}) for x, y, s, e in pairs]
        return [
            (*x.key, s, e, x.payload["l"], x.payload["r"], z.payload["n"])
            for x, z, s, e in refs.join(ab, i["c"].events())
        ]

    return Case(
        "join-three",
        Join,
        {"a": few_numbers(231), "b": few_numbers(232), "c": few_numbers(233)},
        lambda s: s["a"].join(s["b"]).join(s["c"]),
        expected,
    )


def few_numbers(seed: int) -> Source:
    source = data.overlapping(seed, rows=8)
    return replace(source, table=source.table.select(["k", "t", "e", "n"]))


def met(name: str, node: Any, left: Source, right: Source, query: Callable[[Any, Any], Any]) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        a, b = i["a"].events(), i["b"].events()
        out = []
        for x in a:
            others = [y for y in b if refs.overlapping(x, y)]
            if node is Difference:
                others = [y for y in others if refs.payload(x) == refs.payload(y)]
            if node in (SemiJoin, AntiJoin):
                out += [row(x, left)] if bool(others) == (node is SemiJoin) else []
            else:
                out += [row(x, left, s, e) for s, e in refs.without(x, others)]
        return out

    return Case(name, node, {"a": left, "b": right}, lambda s: query(s["a"], s["b"]), expected)


def _lost() -> Case:
    """Messages whose answer did not come within their time."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        sent = [Event((e.payload["n"],), e.start, e.start + 60, {"k": e.key[0]}) for e in i["a"].events()]
        got = [Event((e.payload["n"],), e.start, e.stop, {}) for e in i["b"].events()]
        return [(*x.key, x.start, x.stop, x.payload["k"]) for x in sent if not any(refs.overlapping(x, y) for y in got)]

    return Case(
        "anti-join-lost",
        AntiJoin,
        {"a": A, "b": replace(B, end=None, table=B.table.drop_columns(["e"]))},
        lambda s: s["a"].select("n").alter(60).anti_join(s["b"].select("n"), on="n"),
        expected,
    )


def band_by(name: str, left: Source, right: Source, before: int, after: int, by: str, **options: Any) -> Case:
    """Pairs with the time of either side, or of both."""
    end = {"left": left.end, "both": left.end, "right": right.end}.get(by)

    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        for a, b in band_join(i["a"].events(), i["b"].events(), before, after):
            start, stop = {
                "left": (a.start, a.stop),
                "both": (a.start, a.stop),
                "right": (b.start, b.stop),
                "min": (min(a.start, b.start), 0),
                "max": (max(a.start, b.start), 0),
            }[by]
            lefts = [] if by in ("left", "both") else [a.start]
            out.append((*a.key, start, *([stop] if end else []), a.payload["v"], b.start, b.payload["v"], *lefts))
        return out

    return Case(
        name,
        BandJoin,
        {"a": left, "b": right},
        lambda s: s["a"].select("v").band_join(s["b"].select("v"), before=before, after=after, by=by, **options),
        expected,
    )


def _counted_by(by: str) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        choose: Any = {"right": lambda a, b: b.start, "max": lambda a, b: max(a.start, b.start)}[by]
        pairs = band_join(i["a"].events(), i["b"].events(), 20, 5)
        events = [Event(a.key, choose(a, b), 0, {}) for a, b in pairs]
        return [(*k, t, t + 40, len(es)) for (k, t), es in tumble(events, 40).items()]

    return Case(
        f"band-join-tumble-by-{by}",
        BandJoin,
        {"a": POINTS, "b": OTHERS},
        lambda s: s["a"].band_join(s["b"], before=20, after=5).tumble(40, by=by).agg(n=hp.count()),
        expected,
    )


def _counted_by_both(
    name: str,
    keyed: bool,
    band: tuple[int, int],
    offset: int,
    every: int = 40,
    united: bool = False,
    report: int | None = None,
) -> Case:
    """Pairs per window of the left and window of the right time, per key or over all of them; with rows that must be held too."""
    left, right = data.points(92), data.points(93)

    def expected(i: Mapping[str, Source]) -> list[Row]:
        found: dict[tuple[Any, ...], list[tuple[Event, Event]]] = {}
        pairs = band_join(i["a"].events(), i["b"].events(), *band)
        for a, b in [*pairs, *(band_join(i["a"].events(), i["a"].events(), *band) if united else ())]:
            starts = [
                [s for s in range(-3000, 3000) if s <= e.start < s + 40 and (s - offset) % every == 0] for e in (a, b)
            ]
            for t, u in itertools.product(*starts):
                found.setdefault((*(a.key if keyed else ()), u, t), []).append((a, b))
        out: list[Row] = []
        for k, ps in found.items():
            for span in range(report or 40, 41, report or 40):
                so_far = [a.start for a, _ in ps if a.start < k[-1] + span]
                marked = () if report is None else (span == 40,)
                out += [(*k, k[-1] + span, *marked, len(so_far), max(so_far))] if so_far else []
        return out

    def query(s: Mapping[str, Any]) -> Any:
        pairs = s["a"].with_columns(at=hp.col("t")).band_join(s["b"], before=band[0], after=band[1], by="both")
        if united:
            also = s["a"].with_columns(at=hp.col("t")).band_join(s["a"], before=band[0], after=band[1], by="both")
            pairs = hp.union(pairs, also)
        pairs = pairs.where(hp.col("t") > -200) if keyed else pairs.key_by()
        windows = (
            pairs.tumble(40, by="both", offset=offset, report=report)
            if every == 40
            else pairs.sliding(40, every=every, by="both", offset=offset, report=report)
        )
        return windows.agg(n=hp.count(), last=hp.last("at"))

    return Case(name, Tumble if every == 40 else Sliding, {"a": left, "b": right}, query, expected)


# --- snapshots ----------------------------------------------------------------------------------------------------------


def snapshot(name: str, source: Source, what: str, report: int | None = None, column: str = "n") -> Case:
    made, expected_of = {"parts": (PARTS, parts_of), "picks": (PICKS, picks_of)}[what]

    def query(s: Mapping[str, Any]) -> Any:
        return s["x"].snapshot(report=report).agg(**{n: make(column) for n, make in made.items()})

    def expected(i: Mapping[str, Source]) -> list[Row]:
        found = refs.snapshot(i["x"].events(), report)
        out = [(*key, a, b, *expected_of(alive, column)) for key, a, b, alive in found]
        return out if what == "picks" else [r for r in out if None not in r]

    return Case(name, Snapshot, {"x": source}, query, expected, 1e-12, _SUM)


def _sampled() -> Case:
    """A snapshot is a signal."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        events = [Event(k, a, b, {"n": len(es)}) for k, a, b, es in refs.snapshot(i["x"].events())]
        signals = {k: sample(es, lambda e: e.payload["n"], grid(25)) for k, es in by_key(events).items()}
        return sample_rows(signals, grid(25))

    return Case(
        "snapshot-sampled", Snapshot, {"x": A}, lambda s: s["x"].snapshot().agg(n=hp.count()).sample(25), expected
    )


CASES = [
    union("union", A, B, C),
    union("union-points-and-lifetimes", replace(A, table=A.table.select(["k", "t", "e", "v"])), POINTS),
    union("union-with-nothing", POINTS, data.empty(OTHERS)),
    _union_counts(),
    _union_itself(),
    distinct("distinct", few(227)),
    distinct("distinct-points", few(228, points=True)),
    distinct("distinct-rough", data.points(229, value=data.rough)),
    join("join", A, B),
    join("join-points-and-lifetimes", POINTS, B),
    join("join-points", few(234, points=True), few(235, points=True)),
    join("join-touching", TOUCHING, MORE),
    join("join-left", A, B, "left"),
    join("join-left-points", POINTS, B, "left"),
    join("join-left-of-points", TOUCHING, OTHERS, "left"),
    join("join-left-of-nothing", POINTS, data.empty(B), "left"),
    join("join-full", TOUCHING, MORE, "full"),
    join("join-full-points", few(236, points=True), few(237, points=True), "full"),
    _join_on(),
    _join_crossed(),
    _self_join(),
    _three_way(),
    band_by("band-join-by-right", A, B, 10, 25, "right"),
    band_by("band-join-by-right-points", A, POINTS, 30, -4, "right"),
    band_by("band-join-by-min", A, POINTS, 10, 25, "min"),
    band_by("band-join-by-max", POINTS, B, 25, 3, "max"),
    _counted_by("right"),
    _counted_by("max"),
    band_by("band-join-by-both", A, B, 10, 25, "both"),
    _counted_by_both("tumble-by-both", True, (20, 90), 0),
    _counted_by_both("tumble-by-both-over-all-keys", False, (60, 30), 7),
    _counted_by_both("tumble-by-both-ahead", False, (-10, 100), 0),
    _counted_by_both("tumble-by-both-united", False, (20, 90), 0, united=True),
    _counted_by_both("sliding-by-both", True, (20, 90), 3, every=15),
    _counted_by_both("sliding-by-both-running", True, (20, 90), 3, every=15, report=10),
    _counted_by_both("sliding-by-both-apart", False, (20, 90), 0, every=60),
    met("semi-join", SemiJoin, TOUCHING, MORE, lambda a, b: a.semi_join(b)),
    met("semi-join-points", SemiJoin, POINTS, B, lambda a, b: a.semi_join(b)),
    met("anti-join", AntiJoin, TOUCHING, MORE, lambda a, b: a.anti_join(b)),
    met("anti-join-points", AntiJoin, POINTS, B, lambda a, b: a.anti_join(b)),
    met("anti-join-nothing", AntiJoin, A, data.empty(B), lambda a, b: a.anti_join(b)),
    _lost(),
    met("without", Without, A, few(238), lambda a, b: a.without(b)),
    met("without-points", Without, POINTS, TOUCHING, lambda a, b: a.without(b)),
    met("difference-of-streams", Difference, few(239), few(240), lambda a, b: a.difference(b)),
    met("difference-points", Difference, few(241, points=True), few(242), lambda a, b: a.difference(b)),
    snapshot("snapshot", A, "parts"),
    snapshot("snapshot-report", A, "parts", 40),
    snapshot("snapshot-picks", few_numbers(243), "picks"),
    snapshot("snapshot-picks-report", A, "picks", 60, "v"),
    snapshot("snapshot-touching", TOUCHING, "picks", None, "v"),
    snapshot("snapshot-points", few(244, points=True), "picks", 7, "v"),
    snapshot("snapshot-empty", data.empty(A), "parts"),
    _sampled(),
]
