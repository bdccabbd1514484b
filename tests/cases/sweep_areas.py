"""Cases of the state of joins: forms that the plan would not choose, and limits that are always passed."""

from __future__ import annotations

from typing import Any

from tests.cases import relations
from tests.cases.table import Case, Source


def _with(case: Case, name: str, **options: Any) -> Case:
    """A join of `relations` over the columns v, with options that must not change its answer."""
    return Case(
        name,
        case.node,
        case.inputs,
        lambda s: s["a"].select("v").join(s["b"].select("v"), **options),
        case.expected,
    )


def band(name: str, left: Source, right: Source) -> Case:
    case = relations.band_by(name, left, right, 20, 5, "left")
    return Case(
        name,
        case.node,
        case.inputs,
        lambda s: s["a"].select("v").band_join(s["b"].select("v"), before=20, after=5, limit=200),
        case.expected,
    )


INNER = relations.join("join", relations.A, relations.B)
MIXED = relations.join("join", relations.POINTS, relations.B)
FULL = relations.join("join", relations.TOUCHING, relations.MORE, "full")

CASES = [
    _with(INNER, "join-list", area="list"),
    _with(INNER, "join-sorted", area="sorted"),
    _with(MIXED, "join-hash-and-list", area=("hash", "list")),
    _with(FULL, "join-full-sorted-and-list", how="full", area=("sorted", "list")),
    _with(INNER, "join-spills", limit=200),
    _with(MIXED, "join-list-spills", area="list", limit="0.2kB"),
    band("band-join-spills", relations.POINTS, relations.OTHERS),
]
