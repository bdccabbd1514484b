"""Cases of as-of joins and of operators on events in a row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests import oracles_relations as refs
from tests.cases import data
from tests.cases.lifetimes import names
from tests.cases.relations import few, row
from tests.cases.table import Case, Row, Source
from tests.cases.timewindows import PARTS, PICKS, parts_of, picks_of
from tests.oracles import Event

import hydrophone as hp
from hydrophone.model.key_table import shard_of_keys
from hydrophone.ops.aggregates.count_window import CountWindow
from hydrophone.ops.relational.asof_join import AsofJoin
from hydrophone.ops.relational.consecutive import LastN, Pairs, Pattern
from hydrophone.ops.relational.dead_time import DeadTime
from hydrophone.ops.relational.top_k import Reservoir, Sort, TopK

_SUM = "sums of floats in the order in which events come"
LIVES, POINTS = data.overlapping(250), data.points(251)
RIGHT = data.overlapping(252)
TIES, MORE_TIES = few(253), few(254, points=True)


# --- as-of joins --------------------------------------------------------------------------------------------------------


def asof(name: str, left: Source, right: Source, direction: str, tolerance: int | None, **options: Any) -> Case:
    columns = names(right)

    def expected(i: Mapping[str, Source]) -> list[Row]:
        others, out = i["b"].events(), []
        for e in i["a"].events():
            how = {n: options[n] for n in ("exact", "ties") if n in options}
            found = refs.asof(e, others, direction, math.inf if tolerance is None else tolerance, **how)
            joined = (
                [None] * (len(columns) + 1) if found is None else [found.start, *(found.payload[c] for c in columns)]
            )
            out.append((*row(e, left), *joined))
        return out

    def query(s: Mapping[str, Any]) -> Any:
        return s["a"].asof_join(s["b"], direction=direction, tolerance=tolerance, **options)

    return Case(name, AsofJoin, {"a": left, "b": right}, query, expected)


def interpolated(name: str, left: Source, right: Source, column: str, tolerance: int, **options: Any) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        others = i["b"].events()
        return [(*row(e, left), refs.interpolated(e, others, column, tolerance)) for e in i["a"].events()]

    def query(s: Mapping[str, Any]) -> Any:
        return s["a"].asof_join(s["b"].select(column), direction="interpolated", tolerance=tolerance, **options)

    return Case(name, AsofJoin, {"a": left, "b": right}, query, expected)


def _asof_on() -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        others = [Event((e.payload["n"],), e.start, e.stop, {"k": e.key[0]}) for e in i["b"].events()]
        out = []
        for e in i["a"].events():
            found = refs.asof(Event((e.payload["n"],), e.start, e.stop, {}), others, "backward", 20)
            joined = (None, None) if found is None else (found.start, found.payload["k"])
            out.append((e.payload["n"], e.start, e.stop, e.key[0], *joined))
        return out

    return Case(
        "asof-join-on",
        AsofJoin,
        {"a": LIVES, "b": RIGHT},
        lambda s: s["a"].select("n").asof_join(s["b"].select("n"), on="n", tolerance=20),
        expected,
    )


# --- events in a row ----------------------------------------------------------------------------------------------------


def pairs(name: str, source: Source, within: int | None) -> Case:
    limit = math.inf if within is None else within

    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        for e, last in refs.rows_before(i["x"].events(), 2, limit):
            if len(last) == 2:
                before = last[0]
                out.append((*row(e, source), before.start, *(before.payload[n] for n in names(source))))
        return out

    return Case(name, Pairs, {"x": source}, lambda s: s["x"].pairs(within=within), expected)


def pattern(name: str, source: Source, within: int) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        steps = {"a": hp.col("v") > 0, "b": hp.col("v") < 1, "c": hp.col("t") > -100}
        return s["x"].select("v").pattern(**steps, within=within)

    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        events = [e._replace(payload={"v": e.payload["v"]}) for e in i["x"].events()]
        for e, last in refs.rows_before(events, 3, within):
            v = [o.payload["v"] for o in last]
            if len(last) < 3 or v[0] is None or v[1] is None or not (v[0] > 0 and v[1] < 1 and e.start > -100):
                continue
            times = (e.start, e.stop) if source.end else (e.start,)
            out.append((*e.key, *times, last[0].start, v[0], last[1].start, v[1], v[2]))
        return out

    return Case(name, Pattern, {"x": source}, query, expected)


def dead_time(name: str, source: Source, span: int) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        for mine in oracles.by_key(i["x"].events()).values():
            last = -math.inf
            for e in refs.placed(mine):
                if e.start - last >= span:
                    out.append(row(e, source))
                    last = e.start
        return out

    return Case(name, DeadTime, {"x": source}, lambda s: s["x"].dead_time(span), expected)


def last_n(name: str, source: Source, n: int, within: int | None, what: str, column: str = "v") -> Case:
    made, expected_of = {"parts": (PARTS, parts_of), "picks": (PICKS, picks_of)}[what]

    def expected(i: Mapping[str, Source]) -> list[Row]:
        found = refs.rows_before(i["x"].events(), n, math.inf if within is None else within)
        times = [(e.start, e.stop) if source.end else (e.start,) for e, _ in found]
        return [(*e.key, *t, *expected_of(last, column)) for (e, last), t in zip(found, times, strict=True)]

    return Case(
        name,
        LastN,
        {"x": source},
        lambda s: s["x"].last_n(n, within=within).agg(**{m: make(column) for m, make in made.items()}),
        expected,
        1e-9,
        _SUM,
    )


def numbered(seed: int) -> Source:
    """Every event of a key counted from 1 on in the order of time, with some lost."""
    source = data.points(seed)
    at, key = source.table["t"].to_numpy(), np.asarray(source.table["k"].to_pylist())
    number = np.array([1 + int(((key == k) & (at < t)).sum()) for k, t in zip(key, at, strict=True)])
    lost = np.random.default_rng(seed).random(len(at)) < 0.2
    table = source.table.append_column("i", pa.array(number))
    return replace(source, table=table.filter(pa.array(~lost)))


def begun_anew(source: Source, at: int) -> Source:
    """The same events, which are counted from 1 on once more some time after an instant."""
    start, number = source.starts(), source.table["i"].to_numpy()
    late = start >= at
    table = source.table.set_column(
        source.table.column_names.index("i"), "i", pa.array(np.where(late, 1 + start - at, number))
    )
    return replace(source, table=table.set_column(table.column_names.index("t"), "t", pa.array(start + late * 1_000)))


def count_window(
    name: str, source: Source, size: int, what: str, by: str | None = "i", within: int | None = None
) -> Case:
    made, expected_of = {"parts": (PARTS, parts_of), "picks": (PICKS, picks_of)}[what]

    def expected(i: Mapping[str, Source]) -> list[Row]:
        windows: list[tuple[Any, list[Event]]] = []
        open_: dict[Any, list[Event]] = {}
        for e in sorted(i["x"].events(), key=lambda e: (e.start, e.payload["i"])):
            mine = open_.get(e.key)
            same = mine is not None and mine[0].payload["i"] // size == e.payload["i"] // size
            if mine is None or not same or (within is not None and e.start - mine[0].start >= within):
                mine = open_[e.key] = []
                windows.append((e.key, mine))
            mine.append(e)
        return [(*k, es[0].start, max(e.stop for e in es), *expected_of(es, "v")) for k, es in windows]

    return Case(
        name,
        CountWindow,
        {"x": source},
        lambda s: s["x"].count_window(size, by=by, within=within).agg(**{m: make("v") for m, make in made.items()}),
        expected,
        1e-12,
        _SUM,
    )


# --- some of them -------------------------------------------------------------------------------------------------------


def top(name: str, source: Source, k: int, by: str, size: int, offset: int = 0) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        out = []
        for es in oracles.tumble(i["x"].events(), size, offset).values():
            there = [e for e in refs.placed(es) if e.payload[by] is not None]
            value = [(math.isnan(v), 0 if math.isnan(v) else v) for v in (e.payload[by] for e in there)]
            best = sorted(
                range(len(there)), key=lambda n: value[n], reverse=True
            )  # stable: the first of equals stays first
            out += [row(there[n], source) for n in best[:k]]
        return out

    return Case(name, TopK, {"x": source}, lambda s: s["x"].top_k(k, by=by, size=size, offset=offset), expected)


def reservoir(name: str, source: Source, k: int, size: int, seed: int) -> Case:
    def hashed(value: Any) -> int:
        if value is None:
            return 0
        known = np.float64(value + 0.0).view(np.int64) if isinstance(value, float) else value
        return 1 + int(shard_of_keys([pa.array([known])], 2**63 - 2, 1)[0])

    def ranked(e: Event) -> int:
        values = [hashed(e.payload[c]) for c in names(source)]
        known = [seed, e.start, e.stop, *values, *e.key]
        return int(shard_of_keys([pa.array([n]) for n in known], 2**63 - 2, 1)[0])

    def expected(i: Mapping[str, Source]) -> list[Row]:
        groups = oracles.tumble(i["x"].events(), size).values()
        return [row(e, source) for es in groups for e in sorted(refs.placed(es), key=ranked)[:k]]

    return Case(name, Reservoir, {"x": source}, lambda s: s["x"].reservoir(k, size=size, seed=seed), expected)


def sort(name: str, source: Source) -> Case:
    return Case(name, Sort, {"x": source}, lambda s: s["x"].sort(), lambda i: [row(e, source) for e in i["x"].events()])


ROUGH = data.points(255, value=data.rough)

CASES = [
    asof("asof-join", POINTS, RIGHT, "backward", None),
    asof("asof-join-tolerance", POINTS, RIGHT, "backward", 30),
    asof("asof-join-ties", TIES, MORE_TIES, "backward", 4),
    asof("asof-join-forward", MORE_TIES, TIES, "forward", 5),
    asof("asof-join-nearest", TIES, MORE_TIES, "nearest", 6),
    asof("asof-join-nearest-far", LIVES, POINTS, "nearest", 10**6),
    asof("asof-join-at-once", TIES, MORE_TIES, "forward", 0),
    asof("asof-join-strict", TIES, MORE_TIES, "backward", None, exact=False),
    asof("asof-join-strict-tolerance", MORE_TIES, TIES, "backward", 4, exact=False),
    asof("asof-join-strict-forward", TIES, MORE_TIES, "forward", 5, exact=False),
    asof("asof-join-strict-nearest", TIES, MORE_TIES, "nearest", 6, exact=False),
    asof("asof-join-nearest-later", TIES, MORE_TIES, "nearest", 6, ties="later"),
    asof("asof-join-forward-endless", POINTS, RIGHT, "forward", None),
    asof("asof-join-nearest-endless", MORE_TIES, TIES, "nearest", None),
    asof("asof-join-nothing", POINTS, data.empty(RIGHT), "nearest", 10),
    asof(
        "asof-join-epoch",
        data.points(256, start=data.EPOCH_2026),
        data.points(257, start=data.EPOCH_2026),
        "nearest",
        20,
    ),
    interpolated("asof-join-interpolated", LIVES, ROUGH, "v", 40),
    interpolated("asof-join-interpolated-ties", MORE_TIES, TIES, "v", 9),
    interpolated("asof-join-interpolated-integers", POINTS, RIGHT, "n", 25),
    _asof_on(),
    pairs("pairs", TIES, None),
    pairs("pairs-within", LIVES, 12),
    pairs("pairs-rough", ROUGH, 60),
    pattern("pattern", LIVES, 30),
    pattern("pattern-rough", ROUGH, 90),
    pattern("pattern-ties", TIES, 4),
    dead_time("dead-time", POINTS, 30),
    dead_time("dead-time-ties", TIES, 3),
    dead_time("dead-time-lives", LIVES, 25),
    dead_time("dead-time-one", MORE_TIES, 1),
    dead_time("dead-time-far", data.points(261, start=data.EPOCH_2026), 2**62),
    last_n("last-n", LIVES, 4, None, "parts"),
    last_n("last-n-within", ROUGH, 3, 80, "parts"),
    last_n("last-n-picks", TIES, 5, None, "picks"),
    last_n("last-n-picks-within", LIVES, 5, 25, "picks", "n"),
    last_n("last-n-one", POINTS, 1, None, "parts"),
    count_window("count-window", numbered(258), 4, "parts"),
    count_window("count-window-picks", numbered(259), 3, "picks"),
    count_window("count-window-sequence", replace(numbered(260), sequence="i"), 4, "picks", by=None),
    count_window("count-window-within", numbered(258), 4, "parts", within=60),
    count_window("count-window-anew", begun_anew(numbered(259), 700), 7, "picks", within=200),
    top("top", ROUGH, 2, "v", 150),
    top("top-nulls", LIVES, 3, "v", 60, 11),
    top("top-ties", TIES, 2, "v", 20),
    reservoir("reservoir", LIVES, 3, 80, 7),
    reservoir("reservoir-ties", TIES, 4, 25, 0),
    sort("sort", TIES),
    sort("sort-points", MORE_TIES),
]
