"""Queries of the challenge that rest on frames: how players run, and where they are."""

from __future__ import annotations

import narwhals as nw
import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.soccer import field, game
from hydrophone.errors import ParameterError

RATE = "20ms"
"""Players have a speed and a place at 50 Hz, the most that the challenge wants."""
SMOOTHED = "1s"
"""Over so long are speed and place of both legs averaged, as the challenge suggests."""
CENTRE = "490ms"
"""From the start of such a window to the 20 ms in its middle."""
RUNNING = ("1min", "5min", "20min", None)
NESTED = ((32, 50), (16, 25))
"""Grids whose cells are four of the next finer grid each; those of 8 by 13 lie across."""
HEAT_MAP = ("1min", "5min", "10min", None)


WEARERS = pa.table(
    {
        "sid": [s.sid for s in field.SENSORS if 0 <= s.body < len(field.PLAYERS) and s.limb.endswith("leg")],
        "player": [
            field.PLAYERS[s.body] for s in field.SENSORS if 0 <= s.body < len(field.PLAYERS) and s.limb.endswith("leg")
        ],
    }
)
"""Which player wears which sensor on a leg."""


def legs(match: hp.Stream) -> hp.Stream:
    """The legs of all players: `player` as the key, place in mm, speed in µm/s.

    Examples
    --------
    >>> from hydrophone.apps.soccer import game, queries
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> queries.legs(game.from_tables(Match(seed=1, seconds=20).blocks(0, 1))).select("v").to_arrow().column_names
    ['player', 't', 'v']
    """
    return game.legs(match).select("x", "y", "v").lookup(WEARERS, on="sid").key_by("player")


def seen(players: hp.Stream) -> hp.Stream:
    """Every player at 50 Hz: the mean over a second of both legs' speed in km/h and place in m."""
    means = players.sliding(SMOOTHED, every=RATE).agg(v=hp.mean("v"), x=hp.mean("x"), y=hp.mean("y"))
    now = means.alter(RATE).shift(CENTRE)
    return now.with_columns(speed=hp.col("v") * 3.6e-6, x=hp.col("x") / 1e3, y=hp.col("y") / 1e3)


def paces(players: hp.Stream) -> hp.Stream:
    """Query 1, current: frames of one running intensity, with the distance in metres; at least one a second while it lasts."""
    moved = seen(players).with_columns(distance=hp.col("speed") * (0.02 / 3.6))
    bands = hp.bands(field.BANDS, names=field.INTENSITIES, hysteresis=0.5, of="speed")
    return moved.frames(bands, noise="100ms", at_least="1s", report="1s", sums="distance")


def running(players: hp.Stream) -> hp.Stream:
    """Query 1, aggregate: time and distance at every intensity in the last 1, 5 and 20 minutes and in the game."""
    return paces(players).trailing(*RUNNING).agg(time=hp.duration(), distance=hp.sum("distance"), by="status")


def visits(players: hp.Stream, grid: tuple[int, int] = (64, 100)) -> hp.Stream:
    """Frames in which a player is in one cell of a grid: its number, row by row; at least one a second while it lasts."""
    if grid not in field.GRIDS:
        raise ParameterError(f"heat map: no grid of {grid}; there are: {', '.join(map(str, field.GRIDS))}")
    if grid in NESTED:
        fine = (2 * grid[0], 2 * grid[1])
        column, row = (hp.col("status") % fine[0]) // 2, hp.col("status") // fine[0] // 2
        return visits(players, fine).frames(row * grid[0] + column, report="1s")
    (left, right), (low, high) = field.X, field.Y
    within = (hp.col("x") >= left) & (hp.col("x") < right) & (hp.col("y") >= low) & (hp.col("y") < high)
    inside = (
        seen(players)
        .where(within)
        .with_columns(
            column=((hp.col("x") - left) * (grid[0] / (right - left)) // 1).cast(nw.Int64),
            row=((hp.col("y") - low) * (grid[1] / (high - low)) // 1).cast(nw.Int64),
        )
    )
    return inside.frames(hp.col("row") * grid[0] + hp.col("column"), report="1s")


def heat_map(players: hp.Stream, grid: tuple[int, int] = (64, 100)) -> hp.Stream:
    """Query 3: the time that a player has spent in cells in the last 1, 5 and 10 minutes and in the game; rows of cells that changed."""
    return visits(players, grid).trailing(*HEAT_MAP).agg(time=hp.duration(), by="status", changed=True)
