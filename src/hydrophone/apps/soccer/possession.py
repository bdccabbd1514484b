"""Query 2, ball possession: of players, of teams, and one list of who had the ball when."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

import hydrophone as hp
from hydrophone.apps.soccer import field, game
from hydrophone.apps.soccer.hits import hits

WINDOWS = ("1min", "5min", "10min", "20min", None)
LONGEST = "1min"
"""A possession ends so long after the last contact, if nothing else ends it."""
SEEN = "20ms"
"""How often it is looked whether a ball is in the field."""
_MILLISECONDS = 1e-6
_TEAMS = (("a", "A"), ("b", "B"))
_NOBODY = hp.lit(None).cast(nw.String)


def touches(match: hp.Stream, stops: hp.Stream) -> hp.Stream:
    """All that begins or ends a possession: hits with `player` and `team`; a ball that leaves the field and interruptions with nulls."""
    struck = hits(match).anti_join(stops).select("player", "team")
    nobody = {"player": _NOBODY, "team": _NOBODY}
    gone = leaving(match).with_columns(**nobody).select("player", "team")
    stopped = stops.alter("1ns").with_columns(**nobody).select("player", "team")
    return struck.alter("1ns").union(gone.alter("1ns"), stopped)


def leaving(match: hp.Stream) -> hp.Stream:
    """When a ball leaves the field."""
    place = game.balls(match).signal("x", "y").sample(SEEN, fill=hp.linear(max_gap="100ms"))
    return place.map(is_inside).difference(1, missing="drop").where(is_negative).events("inside").key_by()


def is_inside(place: Any) -> Any:
    """1 for places in the field, 0 for others."""
    low, high = np.array([field.X, field.Y]).T * 1_000
    return np.all((place >= low) & (place <= high), axis=1).astype(np.float64)


def is_negative(change: Any) -> Any:
    """Whether changes are falls."""
    return change < 0


def contacts(match: hp.Stream, stops: hp.Stream) -> hp.Stream:
    """Touches with `held`: the milliseconds since the contact before, if it belongs to the same possession; `a` and `b` by team."""
    touch = touches(match, stops)
    found = touch.asof_join(touch.shift("1ns").select("player"))
    since = (hp.col("t") - hp.col("t_right") + 1) * _MILLISECONDS
    held = hp.when(hp.col("player") == hp.col("player_right")).then(since).otherwise(0.0)
    timed = found.with_columns(held=held)
    of_team = {name: hp.when(hp.col("team") == team).then(hp.col("held")).otherwise(0.0) for name, team in _TEAMS}
    return timed.with_columns(**of_team).select("player", "team", "held", "a", "b")


def of_players(match: hp.Stream, stops: hp.Stream) -> hp.Stream:
    """How long every player has had the ball in the game, in milliseconds, and how often hit it; a row with every hit."""
    mine = contacts(match, stops).where(~hp.col("player").is_null()).key_by(player_id="player")
    return mine.trailing(None).agg(time=hp.sum("held"), hits=hp.count()).select("time", "hits")


def possessions(match: hp.Stream, stops: hp.Stream) -> hp.Stream:
    """One list of who had the ball: from the first contact until somebody else has it, it leaves the field or the game stops.

    `status` is the player, `readings` how many hits there were, `held` the milliseconds from the first to the last of them.
    """
    return contacts(match, stops).alter(LONGEST).frames("player", report=LONGEST, sums=("held", "a", "b"))


def of_teams(match: hp.Stream, stops: hp.Stream) -> hp.Stream:
    """How long each team has had the ball, in milliseconds and as a share of both, in the last minutes and in the game.

    Two rows for every window with each possession that ends.
    """
    both = possessions(match, stops).trailing(*WINDOWS).agg(a=hp.sum("a"), b=hp.sum("b"))
    total = hp.col("a") + hp.col("b")
    rows = [
        both.with_columns(
            team_id=hp.lit(team),
            time=hp.col(name),
            time_percent=hp.when(total > 0).then(100 * hp.col(name) / total).otherwise(0.0),
        ).select("window", "team_id", "time", "time_percent")
        for name, team in _TEAMS
    ]
    return rows[0].union(rows[1])
