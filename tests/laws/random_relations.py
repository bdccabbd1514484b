"""Random rows and random parameters of the temporal relations, for `test_random`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.cases import Case, Source, lifetimes, ordered, relations, timewindows

from hydrophone.ops.aggregates.flush import Flush
from hydrophone.ops.relational.overlap_joins import AntiJoin, Difference, SemiJoin, Without

VALUES = st.sampled_from([1.5, -2.0, 0.0, -0.0, 7.25, float("nan"), float("inf"), None])


@st.composite
def events(draw: st.DrawFn, lived: bool | None = None, finite: bool = False) -> Source:
    """Events of two keys at few times, points or lifetimes: much is equal, touches or overlaps."""
    value = st.sampled_from([1.5, -2.0, 0.0, 7.25, None]) if finite else VALUES
    row = st.tuples(st.sampled_from("ab"), st.integers(-6, 12), st.integers(1, 9), value, st.sampled_from("xy"))
    rows = draw(st.lists(row, max_size=14))
    lived = draw(st.booleans()) if lived is None else lived
    columns: dict[str, Any] = {
        "k": pa.array([r[0] for r in rows], pa.string()),
        "t": pa.array([r[1] for r in rows], pa.int64()),
    }
    if lived:
        columns["e"] = pa.array([r[1] + r[2] for r in rows], pa.int64())
    columns["v"] = pa.array([r[3] for r in rows], pa.float64())
    columns["s"] = pa.array([r[4] for r in rows], pa.string())
    return Source(pa.table(columns), key="k", end="e" if lived else None)


def small(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def what() -> st.SearchStrategy[str]:
    return st.sampled_from(["parts", "picks"])


def flushes() -> st.SearchStrategy[Flush | None]:
    return st.none() | st.builds(Flush, late=small(1, 4), every=st.none() | small(1, 5))


def a_sliding(draw: st.DrawFn) -> Case:
    size, every, offset = draw(small(1, 9)), draw(small(1, 9)), draw(small(-4, 4))
    rows = draw(events(finite=True))
    return timewindows.sliding("sliding", rows, size, every, offset, draw(what()), flush=draw(flushes()))


def a_flush(draw: st.DrawFn) -> Case:
    rows = draw(events(finite=True))
    return timewindows.tumble("tumble", rows, draw(small(1, 9)), draw(what()), flush=draw(flushes()))


def a_session(draw: st.DrawFn) -> Case:
    return timewindows.session("session", draw(events(finite=True)), draw(small(1, 5)), draw(what()))


def a_snapshot(draw: st.DrawFn) -> Case:
    report = draw(st.none() | small(1, 6))
    return relations.snapshot("snapshot", draw(events(finite=True)), draw(what()), report, "v")


def a_stitch(draw: st.DrawFn) -> Case:
    return lifetimes.stitch("stitch", draw(events()))


def a_distinct(draw: st.DrawFn) -> Case:
    return relations.distinct("distinct", draw(events()))


def limits() -> st.SearchStrategy[int | None]:
    """Bytes that an area of a join may keep, most of which are passed."""
    return st.none() | st.sampled_from([1, 60, 200])


def a_join(draw: st.DrawFn) -> Case:
    how = draw(st.sampled_from(["inner", "left", "full"]))
    return relations.join("join", draw(events()), draw(events()), how, limit=draw(limits()))


def a_band(draw: st.DrawFn) -> Case:
    before = draw(small(-4, 8))
    after, by = draw(small(max(-4, -before), 8)), draw(st.sampled_from(["left", "right", "both", "min", "max"]))
    return relations.band_by("band", draw(events()), draw(events()), before, after, by, limit=draw(limits()))


def a_meeting(draw: st.DrawFn) -> Case:
    limit = draw(limits())
    node, query = draw(
        st.sampled_from(
            [
                (SemiJoin, lambda a, b: a.semi_join(b, limit=limit)),
                (AntiJoin, lambda a, b: a.anti_join(b, limit=limit)),
                (Without, lambda a, b: a.without(b, limit=limit)),
                (Difference, lambda a, b: a.difference(b, limit=limit)),
            ]
        )
    )
    return relations.met("met", node, draw(events()), draw(events()), query)


def an_asof(draw: st.DrawFn) -> Case:
    direction = draw(st.sampled_from(["backward", "forward", "nearest"]))
    tolerance = draw(small(0, 7) | st.none() if direction == "backward" else small(0, 7))
    return ordered.asof("asof", draw(events()), draw(events()), direction, tolerance, limit=draw(limits()))


def an_interpolated(draw: st.DrawFn) -> Case:
    near, limit = draw(small(0, 7)), draw(limits())
    return ordered.interpolated("interpolated", draw(events()), draw(events()), "v", near, limit=limit)


def some_pairs(draw: st.DrawFn) -> Case:
    return ordered.pairs("pairs", draw(events()), draw(st.none() | small(1, 6)))


def a_pattern(draw: st.DrawFn) -> Case:
    return ordered.pattern("pattern", draw(events()), draw(small(1, 9)))


def a_last_n(draw: st.DrawFn) -> Case:
    within = draw(st.none() | small(1, 6))
    return ordered.last_n("last-n", draw(events(finite=True)), draw(small(1, 5)), within, draw(what()))


def a_top(draw: st.DrawFn) -> Case:
    return ordered.top("top", draw(events()), draw(small(1, 4)), "v", draw(small(1, 9)), draw(small(-3, 3)))


def a_reservoir(draw: st.DrawFn) -> Case:
    return ordered.reservoir("reservoir", draw(events()), draw(small(1, 4)), draw(small(1, 9)), draw(small(0, 3)))


MAKERS: list[Callable[[Any], Case]] = [
    a_sliding,
    a_flush,
    a_session,
    a_snapshot,
    a_stitch,
    a_distinct,
    a_join,
    a_band,
    a_meeting,
    an_asof,
    an_interpolated,
    some_pairs,
    a_pattern,
    a_last_n,
    a_top,
    a_reservoir,
]
