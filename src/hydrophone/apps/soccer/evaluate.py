"""The queries over a simulated match, and how well they do against its truth: a table as the paper's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.soccer import challenge, field, game, hits, possession, queries, score, shots
from hydrophone.apps.soccer.score import Score
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth

GRID = (16, 25)
_LEAD = 1.0
"""Seconds of rows before and after the part that counts: windows and the last shot need them."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of hits and shots; the share of time with the right intensity and cell; the error of team A's share of possession."""

    hits: Score
    shots: Score
    intensity: float
    cells: float
    possession: float

    def lines(self) -> list[str]:
        """As a table."""
        return [
            "                   precision recall      F   found  true",
            f"hits                  {self.hits}   {self.hits.found:5} {self.hits.true:5}",
            f"shots on goal         {self.shots}   {self.shots.found:5} {self.shots.true:5}",
            f"time per intensity    {self.intensity:6.1%} in common with the truth",
            f"time per cell         {self.cells:6.1%} in common with the truth, {GRID[0]} by {GRID[1]} cells",
            f"possession of team A  {self.possession:+6.1%} off",
        ]


def results(match: hp.Stream, stops: hp.Stream) -> dict[str, hp.Stream]:
    """What is scored and drawn, by name."""
    players = queries.legs(match)
    return {
        "hits": hits.hits(match),
        "attempts": shots.attempts(match),
        "paces": queries.paces(players),
        "visits": queries.visits(players, GRID),
        "possessions": possession.possessions(match, stops),
    }


def evaluate(match: Match, seconds: float) -> Evaluation:
    """Run the queries over the first seconds of a match, and score them.

    Examples
    --------
    >>> from hydrophone.apps.soccer.evaluate import evaluate
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> evaluate(Match(seed=1, seconds=20), 12).hits.precision
    1.0
    """
    rows = game.from_tables(match.blocks(-_LEAD, seconds + _LEAD))
    found = challenge.collect(results(rows, game.interruptions(Truth(match).interruptions())))
    return judge(match, seconds, found)


def judge(match: Match, seconds: float, found: dict[str, pa.Table]) -> Evaluation:
    """Score what was found in the first seconds of a match."""
    truth, until = Truth(match), field.KICK_OFFS[0] + round(seconds * field.PS)
    late = until // 1000
    return Evaluation(
        score.compare([o for o in score.found_hits(found["hits"]) if o.start < late], score.true_hits(truth, until)),
        score.compare(
            [o for o in score.found_shots(found["attempts"]) if o.start < late], score.true_shots(truth, until)
        ),
        _in_common(found["paces"], truth.intensity(), "status", until),
        _in_common(found["visits"], _numbered(truth.cells(GRID)), "status", until),
        _share_of_a(found["possessions"]) - _true_share_of_a(truth, until),
    )


def _numbered(cells: pa.Table) -> pa.Table:
    """Cells by number."""
    number = cells["row"].to_numpy() * GRID[0] + cells["column"].to_numpy()
    return cells.append_column("status", pa.array(number))


def _in_common(found: pa.Table, true: pa.Table, status: str, until: int) -> float:
    """The mean over players of what their times per status have in common with the true ones."""
    values = []
    for player in field.PLAYERS:
        one, other = (
            _spent(table, player, status, start, until // scale, field.KICK_OFFS[0] // scale)
            for table, start, scale in ((found, "t", 1000), (true, "start", 1))
        )
        values.append(score.overlap(one, other))
    return float(np.mean(values))


def _spent(table: pa.Table, player: str, status: str, start: str, until: int, since: int) -> dict[object, float]:
    """How long a player had each status between two instants."""
    mine = table.filter(pa.compute.equal(table["player"], player))
    low, high = (np.clip(mine[name].to_numpy(), since, until) for name in (start, "end"))
    return score.shares(mine[status].to_pylist(), (high - low).astype(float))


def _share_of_a(list_: pa.Table) -> float:
    a, b = (float(list_[team].to_numpy().sum()) for team in "ab")
    return a / (a + b) if a + b else 0.5


def _true_share_of_a(truth: Truth, until: int) -> float:
    rows = [r for r in truth.possession().to_pylist() if r["start"] < until]
    times = score.shares(
        (r["player"] in field.PLAYERS[:8] for r in rows),
        np.array([float(min(r["end"], until) - r["start"]) for r in rows]),
    )
    total = sum(times.values())
    return times.get(True, 0.0) / total if total else 0.5
