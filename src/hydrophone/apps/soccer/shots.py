"""Query 4, shots on goal: rows of a ball that was hit and whose straight way crosses the other team's goal in time."""

from __future__ import annotations

import hydrophone as hp
from hydrophone.apps.soccer import field
from hydrophone.apps.soccer.hits import balls, hits

SECONDS = 1.5
"""From the hit to the goal line."""
AWAY = 1_000
"""Millimetres that a ball has moved from where it was hit before its direction is believed."""
SLOWEST = 100
"""Millimetres per second towards a goal below which nothing is a shot."""
PAUSE = "500ms"
COLUMNS = ("ts", "player_id", "x", "y", "z", "v", "vx", "vy", "vz", "a", "ax", "ay", "az")


def aimed(match: hp.Stream) -> hp.Stream:
    """Rows of balls whose straight way crosses a goal within 1.5 s: with the `side` of the goal, and `left` seconds to go."""
    # Millimetres per second: speed in µm/s along a direction of length 10,000.
    speed = {axis: hp.col("v") * hp.col(f"v{axis}") * 1e-7 for axis in "xyz"}
    moving = balls(match).where((speed["y"] > SLOWEST) | (speed["y"] < -SLOWEST)).with_columns(towards=speed["y"])
    up = hp.col("towards") > 0
    line = hp.when(up).then(field.GOAL_LINE[1] * 1e3).otherwise(field.GOAL_LINE[-1] * 1e3)
    timed = moving.with_columns(left=(line - hp.col("y")) / hp.col("towards"))
    soon = timed.where((hp.col("left") >= 0) & (hp.col("left") <= SECONDS))
    x, z = (hp.col(axis) + hp.col("left") * speed[axis] for axis in "xz")
    (low, high), (low_, high_) = ([1e3 * edge for edge in field.GOAL_X[side]] for side in (1, -1))
    within = (up & (x > low) & (x < high)) | (~up & (x > low_) & (x < high_))
    return soon.where(within & (z < 1e3 * field.GOAL_HEIGHT)).with_columns(side=hp.when(up).then(1).otherwise(-1))


def shots(match: hp.Stream) -> hp.Stream:
    """Shots on goal while they last, at the rate of the sensor, with the columns of the challenge and `hit`, when the ball was hit.

    A shot ends with the next hit, when the ball leaves the field, or when its way no longer crosses the goal.
    """
    struck = hits(match).with_columns(hit=hp.col("t")).key_by(sid="ball").select("hit", "player", "team", "x", "y", "z")
    flying = aimed(match).asof_join(struck, tolerance=round(SECONDS * 1e9))
    moved = sum((hp.col(axis) - hp.col(f"{axis}_right")) ** 2 for axis in "xyz")
    first_half = hp.col("t") < field.KICK_OFFS[1] // 1000
    attacks_up = (hp.col("team") == "A") == first_half
    since = (hp.col("t") - hp.col("hit")) * 1e-9
    shot = flying.where(((hp.col("side") > 0) == attacks_up) & (since + hp.col("left") <= SECONDS) & (moved >= AWAY**2))
    return shot.with_columns(player_id=hp.col("player")).select(*COLUMNS, "hit")


def attempts(match: hp.Stream) -> hp.Stream:
    """One row for each shot: when the ball was hit, from the first to the last of its rows, and where these are.

    Its lifetime ends `PAUSE` after the last row; a ball that aims at the goal again after a longer pause is another attempt.
    """
    shot = shots(match).key_by("player_id").session(PAUSE)
    ends = {f"{axis}{n}": how(axis) for axis in "xy" for n, how in ((1, hp.first), (2, hp.last))}
    return shot.agg(
        hit=hp.max("hit"), first=hp.min("ts"), last=hp.max("ts"), rows=hp.count(), speed=hp.max("v"), **ends
    )
