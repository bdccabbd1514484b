"""How well the queries do: precision, recall and F of hits and shots, and errors of shares of time, against the truth or a referee."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa

from hydrophone.apps.soccer.truth import Truth

TOLERANCE = 100_000_000
"""Nanoseconds by which a hit or shot may miss the true one."""
Shares = Mapping[Any, float]


class Occurrence(NamedTuple):
    """Something that a player does, from when to when in nanoseconds."""

    player: str
    start: int
    end: int


@dataclass(frozen=True)
class Score:
    """How many were found, how many there are, and how many of both are the same."""

    found: int
    true: int
    right: int

    def __add__(self, other: Score) -> Score:
        return Score(self.found + other.found, self.true + other.true, self.right + other.right)

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of what there is that was found."""
        return self.right / self.true if self.true else 1.0

    @property
    def f(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / (self.found + self.true) if self.found + self.true else 1.0

    def __str__(self) -> str:
        """As the paper's Table 1 has it."""
        return f"{self.precision:6.1%} {self.recall:6.1%} {self.f:6.1%}"


def compare(
    found: Iterable[Occurrence], true: Iterable[Occurrence], early: int = TOLERANCE, late: int = TOLERANCE
) -> Score:
    """Match what was found with what there is, each at most once: the same player, and times that overlap.

    What was found may begin up to `late` nanoseconds after the true one has ended, and end up to `early` before it begins. In the order
    of time each takes the first true one that is free.

    Examples
    --------
    >>> from hydrophone.apps.soccer.score import Occurrence, compare
    >>> compare([Occurrence("A1", 5, 5), Occurrence("A1", 90, 90)], [Occurrence("A1", 4, 4)], early=2, late=2)
    Score(found=2, true=1, right=1)
    """
    seen, there = (sorted(x, key=lambda o: (o.start, o.end)) for x in (found, true))
    free = [True] * len(there)
    right = 0
    for one in seen:
        for number, other in enumerate(there):
            if other.start > one.end + early:
                break
            if free[number] and other.player == one.player and other.end + late >= one.start:
                free[number], right = False, right + 1
                break
    return Score(len(seen), len(there), right)


# --- what the queries and the truth say ----------------------------------------------------------------------------------


def found_hits(table: pa.Table) -> list[Occurrence]:
    """From the rows of `hits.hits`."""
    return [Occurrence(r["player"], r["t"], r["t"]) for r in table.select(["player", "t"]).to_pylist()]


def true_hits(truth: Truth, until: int) -> list[Occurrence]:
    """All touches before an instant (picoseconds), those in the blind eye included."""
    return [
        Occurrence(r["player"], r["ts"] // 1000, r["ts"] // 1000) for r in truth.hits().to_pylist() if r["ts"] < until
    ]


def found_shots(table: pa.Table) -> list[Occurrence]:
    """From the rows of `shots.attempts`."""
    rows = table.select(["player_id", "first", "last"]).to_pylist()
    return [Occurrence(r["player_id"], r["first"] // 1000, r["last"] // 1000) for r in rows]


def true_shots(truth: Truth, until: int) -> list[Occurrence]:
    """All shots before an instant (picoseconds), meant or not."""
    rows = truth.shots().to_pylist()
    return [Occurrence(r["player"], r["ts"] // 1000, r["end"] // 1000) for r in rows if r["ts"] < until]


# --- shares of time -----------------------------------------------------------------------------------------------------


def overlap(found: Shares, true: Shares) -> float:
    """How much two distributions have in common: 1 where they are equal, 0 where they share nothing.

    Examples
    --------
    >>> from hydrophone.apps.soccer.score import overlap
    >>> overlap({"trot": 6.0, "sprint": 2.0}, {"trot": 1.0, "low": 1.0})
    0.5
    """
    total, all_ = sum(found.values()), sum(true.values())
    if not total or not all_:
        return 1.0 if total == all_ else 0.0
    return sum(min(found.get(k, 0.0) / total, true.get(k, 0.0) / all_) for k in true)


def shares(keys: Iterable[Any], times: npt.NDArray[Any]) -> dict[Any, float]:
    """The time of each key, added up."""
    out: dict[Any, float] = {}
    for key, time in zip(keys, times.tolist(), strict=True):
        out[key] = out.get(key, 0.0) + time
    return out
