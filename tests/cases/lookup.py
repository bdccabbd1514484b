"""Cases of Lookup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from tests.cases import data
from tests.cases.table import Case, Row, Source, plain_values

import hydrophone as hp
from hydrophone.ops.relational.lookup import Lookup, LookupMany

PLACES = pa.table({"k": ["c", "a", "z"], "room": ["cellar", None, "attic"], "floor": [-1, 0, 9]})
GAINS = pa.table(
    {"who": ["a", "b", "a", "b"], "from": [-50, 0, 300, 700], "until": [200, 400, None, None], "gain": [1, 2, 3, 4]}
)


def merged(how: str) -> Any:
    """pandas does it with the whole table."""

    def rows(i: Mapping[str, Source]) -> list[Row]:
        left = i["x"].table.to_pandas()
        out = left.merge(PLACES.to_pandas(types_mapper=pd.ArrowDtype), on="k", how=how)
        null = lambda v: None if v is pd.NA or v is None else v  # noqa: E731
        columns = zip(*(out[c] for c in ("k", "t", "v", "room", "floor")), strict=True)
        return [(k, t, v, null(room), None if pd.isna(floor) else int(floor)) for k, t, v, room, floor in columns]

    return rows


def versions(i: Mapping[str, Source]) -> list[Row]:
    """By hand: every version of every event's sensor is looked at."""
    held = list(zip(*(plain_values(c) for c in GAINS.columns), strict=True))
    return [
        (*e.key, e.start, e.payload["v"], gain)
        for e in i["x"].events()
        for who, since, until, gain in held
        if (who,) == e.key and since <= e.start < (np.inf if until is None else until)
    ]


def until_the_next(i: Mapping[str, Source]) -> list[Row]:
    found = []
    for e in i["x"].events():
        begun = [
            (s, g)
            for w, s, _, g in zip(*(c.to_pylist() for c in GAINS.columns), strict=True)
            if (w,) == e.key and s <= e.start
        ]
        found.append((*e.key, e.start, e.payload["v"], max(begun)[1] if begun else None))
    return found


def by_floor(i: Mapping[str, Source]) -> list[Row]:
    return [(f, t, v) for _, t, v, _, f in merged("inner")(i)]


CREWS = pa.table(
    {
        "who": ["a", "a", "a", "b", "a", "b", "a", "c"],
        "from": [0, 0, 400, -50, 100, 300, 400, 5000],
        "until": [None, None, None, 700, 600, None, 450, None],
        "crew": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)


def crews(how: str) -> Any:
    """By hand: a row without an end holds until a later one of the same sensor begins."""

    def rows(i: Mapping[str, Source]) -> list[Row]:
        held = list(zip(*(c.to_pylist() for c in CREWS.columns), strict=True))
        found: list[Row] = []
        for e in i["x"].events():
            mine = [(s, u, c) for w, s, u, c in held if (w,) == e.key]
            ends = [min((n for n, _, _ in mine if n > s), default=np.inf) if u is None else u for s, u, _ in mine]
            there = [c for (s, _, c), u in zip(mine, ends, strict=True) if s <= e.start < u]
            found += [(*e.key, e.start, e.payload["v"], c) for c in there or ([None] if how == "left" else [])]
        return found

    return rows


def per_crew(i: Mapping[str, Source]) -> list[Row]:
    found: dict[tuple[Any, Any], list[float]] = {}
    for _, t, v, crew in crews("inner")(i):
        found.setdefault((crew, t // 1000 * 1000), []).append(v)
    return [(crew, t, t + 1000, len(vs), max(vs)) for (crew, t), vs in found.items()]


POINTS = data.points(140)

CASES = [
    Case("lookup", Lookup, {"x": POINTS}, lambda s: s["x"].lookup(PLACES, on="k"), merged("inner")),
    Case("lookup-left", Lookup, {"x": POINTS}, lambda s: s["x"].lookup(PLACES, on=["k"], how="left"), merged("left")),
    Case(
        "lookup-versions",
        Lookup,
        {"x": POINTS},
        lambda s: s["x"].lookup(GAINS, on={"k": "who"}, since="from", until="until"),
        versions,
    ),
    Case(
        "lookup-until-the-next",
        Lookup,
        {"x": POINTS},
        lambda s: s["x"].lookup(GAINS, on={"k": "who"}, since="from", columns=["gain"], how="left"),
        until_the_next,
    ),
    Case(
        "lookup-then-by-what-was-found",
        Lookup,
        {"x": POINTS},
        lambda s: s["x"].lookup(PLACES, on="k").key_by("floor").select("v"),
        by_floor,
    ),
    *(
        Case(
            f"lookup-many-{how}",
            LookupMany,
            {"x": POINTS},
            lambda s, how=how: s["x"].lookup(  # type: ignore[misc]
                CREWS, on={"k": "who"}, since="from", until="until", many=True, how=how
            ),
            crews(how),
        )
        for how in ("inner", "left")
    ),
    Case(
        "lookup-many-then-by-what-was-found",
        LookupMany,
        {"x": POINTS},
        lambda s: (
            s["x"]
            .lookup(CREWS, on={"k": "who"}, since="from", until="until", many=True)
            .key_by("crew")
            .tumble(1000)
            .agg(n=hp.count(), most=hp.max("v"))
        ),
        per_crew,
    ),
    Case("lookup-empty", Lookup, {"x": data.empty(POINTS)}, lambda s: s["x"].lookup(PLACES, on="k"), lambda i: []),
    Case(
        "lookup-in-nothing",
        Lookup,
        {"x": replace(POINTS)},
        lambda s: s["x"].lookup(PLACES.slice(0, 0), on="k", how="left").select("v", "floor"),
        lambda i: [(*e.key, e.start, e.payload["v"], None) for e in i["x"].events()],
    ),
]
