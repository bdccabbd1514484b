"""Hits: who kicks the ball, and when. Seen by the ball's speed, as SPRINT does it (Wu, Maier, Tan: DEBS 2013, section 2.2)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.soccer import field, game

GAIN, LOSS = 5_000_000, -2_000_000
"""Changes of speed that are sudden, in µm/s: +5 and -2 m/s."""
GRID = "1ms"
CHANGE_IN = 15
"""Steps of the grid in which speed changes: 15 ms."""
LONGEST_HOLE = "20ms"
"""A speed is known between rows of a ball that are no further apart."""
REACH = 1_000
"""Millimetres within which a leg hits the ball."""
SEEN = "100ms"
"""How old the last place of a leg may be: one whose sensor is silent hits nothing."""
BLIND = "500ms"

LEGS = pa.Table.from_pylist(
    [
        {"sid": ball, "leg": s.sid, "player": field.PLAYERS[s.body], "team": "AB"[field.team_of(s.body)]}
        for ball in field.BALLS
        for s in field.SENSORS
        if 0 <= s.body < len(field.PLAYERS) and s.limb.endswith("leg")
    ]
)
"""For every ball all legs that may hit it."""


def balls(match: hp.Stream) -> hp.Stream:
    """Rows of balls in the field; those that lie beside it send too."""
    (left, right), (low, high) = ([round(1_000 * edge) for edge in span] for span in (field.X, field.Y))
    x, y = hp.col("x"), hp.col("y")
    return game.balls(match).where((x >= left) & (x <= right) & (y >= low) & (y <= high))


def jumps(match: hp.Stream) -> hp.Stream:
    """When the speed of a ball has changed suddenly, and where the ball was."""
    ball = balls(match)
    speed = ball.signal("v").sample(GRID, fill=hp.linear(max_gap=LONGEST_HOLE))
    sudden = speed.difference(CHANGE_IN, missing="drop").where(is_sudden).events("change")
    return sudden.asof_join(ball.select("x", "y", "z"), tolerance=LONGEST_HOLE)


def is_sudden(change: Any) -> Any:
    """Whether changes of speed are."""
    return (change >= GAIN) | (change <= LOSS)


def hits(match: hp.Stream) -> hp.Stream:
    """Sudden changes of speed within a metre of a leg: ball, place, player, team; nothing for half a second after each.

    Examples
    --------
    >>> from hydrophone.apps.soccer import game
    >>> from hydrophone.apps.soccer.hits import hits
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> hits(game.from_tables(Match(seed=1, seconds=20).blocks(-1, 1))).select("player", "ball").to_arrow().to_pylist()
    [{'t': 10753295000000, 'player': 'A6', 'ball': 4}]
    """
    legs = game.legs(match).select("x", "y", "z")
    # Every jump once for each leg, with the last place of that leg.
    pairs = jumps(match).select("x", "y", "z").lookup(LEGS, on="sid", many=True)
    beside = pairs.asof_join(legs, on={"leg": "sid"}, tolerance=SEEN)
    x, y, z = (hp.col(axis) - hp.col(f"{axis}_right") for axis in "xyz")
    near = beside.with_columns(nearness=-(x**2 + y**2 + z**2), ball=hp.col("sid")).where(
        hp.col("nearness") > -(REACH**2)
    )
    nearest = near.key_by().top_k(1, by="nearness", size=GRID)
    return nearest.dead_time(BLIND).select("ball", "x", "y", "z", "player", "team")
