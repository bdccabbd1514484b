"""Cases of the state of joins: forms that the plan would not choose, and limits that are always passed."""

from __future__ import annotations

from tests.cases import ordered
from tests.cases.relations import MORE, OTHERS, POINTS, TOUCHING, A, B, band_by, few, join, met

from hydrophone.ops.relational.overlap_joins import AntiJoin, Difference, SemiJoin, Without

CASES = [
    join("join-list", A, B, area="list"),
    join("join-sorted", A, B, area="sorted"),
    join("join-hash-and-list", POINTS, B, area=("hash", "list")),
    join("join-full-sorted-and-list", TOUCHING, MORE, "full", area=("sorted", "list")),
    join("join-spills", A, B, limit=200),
    join("join-list-spills", POINTS, B, area="list", limit="0.2kB"),
    join("join-left-spills", A, B, "left", limit=200),
    join("join-full-spills", TOUCHING, MORE, "full", limit=200),
    band_by("band-join-spills", POINTS, OTHERS, 20, 5, "left", limit=200),
    met("semi-join-spills", SemiJoin, TOUCHING, MORE, lambda a, b: a.semi_join(b, limit=200)),
    met("anti-join-spills", AntiJoin, POINTS, B, lambda a, b: a.anti_join(b, limit=200)),
    met("without-spills", Without, A, few(238), lambda a, b: a.without(b, limit=100)),
    met("difference-spills", Difference, few(239), few(240), lambda a, b: a.difference(b, limit=100)),
    ordered.asof("asof-join-spills", ordered.POINTS, ordered.RIGHT, "backward", None, limit=200),
    ordered.asof("asof-join-spills-ties", ordered.TIES, ordered.MORE_TIES, "nearest", 6, limit=100),
    ordered.asof("asof-join-spills-forward", ordered.MORE_TIES, ordered.TIES, "forward", 5, limit=100),
    ordered.interpolated("asof-join-spills-interpolated", ordered.LIVES, ordered.ROUGH, "v", 40, limit=200),
]
