"""Cases of the operators that change lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from tests import oracles_relations as refs
from tests.cases import data
from tests.cases.table import Case, Row, Source
from tests.oracles import Event

from hydrophone.ops.relational.lifetimes import Alter, Chop, Clip, Extend, Lasting, PointAtEnd, Shift, Stitch

LIVES = data.overlapping(210)
POINTS = data.points(211)


def names(source: Source) -> list[str]:
    return [n for n in source.table.column_names if n not in (*source.keys, source.time, source.end)]


def lived(
    name: str,
    node: Any,
    source: Source,
    query: Callable[[Any], Any],
    spans: Callable[[Event], list[tuple[int, int]]],
    points: bool = False,
) -> Case:
    def rows(e: Event) -> list[Row]:
        times = [(a,) if points else (a, b) for a, b in spans(e)]
        return [(*e.key, *t, *(e.payload[n] for n in names(source))) for t in times]

    return Case(
        name, node, {"x": source}, lambda s: query(s["x"]), lambda i: [r for e in i["x"].events() for r in rows(e)]
    )


def stitch(
    name: str, source: Source, before: Callable[[Any], Any] = lambda x: x, chopped: int = 0, gap: int = 0
) -> Case:
    def expected(i: Any) -> list[Row]:
        events = i["x"].events()
        if chopped:
            events = [e._replace(start=a, stop=b) for e in events for a, b in refs.chop(e, chopped, 0)]
        return [(*e.key, e.start, e.stop, *(e.payload[n] for n in names(i["x"]))) for e in refs.stitch(events, gap)]

    return Case(name, Stitch, {"x": source}, lambda s: before(s["x"]).stitch(gap=gap), expected)


def _repeated() -> Source:
    """Few different payloads, with NaN and nulls among them."""
    table = LIVES.table.select(["k", "t", "e", "s"]).append_column(
        "v", pa.array([[1.5, None, float("nan")][n % 3] for n in LIVES.table["n"].to_pylist()])
    )
    return replace(LIVES, table=table)


def _snapped(source: Source) -> Source:
    """Points that often follow each other at once."""
    t = pa.array(source.table["t"].to_numpy() // 20)
    return replace(source, table=source.table.set_column(1, "t", t).select(["k", "t"]))


CASES = [
    lived("shift", Shift, LIVES, lambda x: x.shift(35), lambda e: [(e.start + 35, e.stop + 35)]),
    lived("shift-back", Shift, POINTS, lambda x: x.shift(-35), lambda e: [(e.start - 35, 0)], points=True),
    Case(
        "shift-between",
        Shift,
        {"x": LIVES, "y": POINTS},
        lambda s: s["x"].select().shift(-50).band_join(s["y"].select().shift(20), before=10, after=10),
        lambda i: [
            (*a.key, a.start - 50, a.stop - 50, b.start + 20)
            for a in i["x"].events()
            for b in i["y"].events()
            if a.key == b.key and abs(b.start + 20 - (a.start - 50)) <= 10
        ],
    ),
    lived("clip", Clip, LIVES, lambda x: x.clip(30), lambda e: [(e.start, min(e.stop, e.start + 30))]),
    lived("clip-points", Clip, POINTS, lambda x: x.clip(30), lambda e: [(e.start, 0)], points=True),
    lived("extend", Extend, LIVES, lambda x: x.extend(25), lambda e: [(e.start, e.stop + 25)]),
    lived("extend-points", Extend, POINTS, lambda x: x.extend(25), lambda e: [(e.start, e.start + 25)]),
    lived(
        "extend-back",
        Extend,
        LIVES,
        lambda x: x.extend(-25),
        lambda e: [(e.start, e.stop - 25)] if e.stop - e.start > 25 else [],
    ),
    lived(
        "lasting",
        Lasting,
        LIVES,
        lambda x: x.lasting(10, 40),
        lambda e: [(e.start, e.stop)] if 10 <= e.stop - e.start <= 40 else [],
    ),
    lived("lasting-points", Lasting, POINTS, lambda x: x.lasting(0), lambda e: [(e.start, 0)], points=True),
    lived("alter", Alter, POINTS, lambda x: x.alter(40), lambda e: [(e.start, e.start + 40)]),
    lived("alter-lifetimes", Alter, LIVES, lambda x: x.alter(40), lambda e: [(e.start, e.start + 40)]),
    lived("point-at-end", PointAtEnd, LIVES, lambda x: x.point_at_end(), lambda e: [(e.stop, 0)], points=True),
    lived("point-at-end-points", PointAtEnd, POINTS, lambda x: x.point_at_end(), lambda e: [(e.start, 0)], points=True),
    lived(
        "point-at-end-of-extended",
        PointAtEnd,
        POINTS,
        lambda x: x.extend(30).point_at_end(),
        lambda e: [(e.start + 30, 0)],
        points=True,
    ),
    lived("chop", Chop, LIVES, lambda x: x.chop(17, offset=-4), lambda e: refs.chop(e, 17, -4)),
    lived("chop-points", Chop, POINTS, lambda x: x.chop(17), lambda e: [(e.start, 0)], points=True),
    lived(
        "chop-extended",
        Chop,
        POINTS,
        lambda x: x.extend(29).chop(10),
        lambda e: refs.chop(e._replace(stop=e.start + 29), 10, 0),
    ),
    stitch("stitch", _repeated()),
    stitch("stitch-chopped", _repeated(), lambda x: x.chop(10), 10),
    stitch("stitch-points", _snapped(POINTS)),
    stitch("stitch-gap", _repeated(), gap=12),
    stitch("stitch-gap-points", _snapped(POINTS), gap=3),
    stitch("stitch-empty", data.empty(LIVES)),
]
