"""Queries of the challenge that rest on frames: how players run, and where they are."""

from __future__ import annotations

from collections.abc import Iterable

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hydrophone as hp
from hydrophone.apps.soccer import field
from hydrophone.errors import ParameterError

RATE = "20ms"
"""Players have a speed and a place at 50 Hz, the most that the challenge wants."""
SMOOTHED = "1s"
"""Over so long are speed and place of both legs averaged, as the challenge suggests."""
CENTRE = "490ms"
"""From the start of such a window to the 20 ms in its middle."""
RUNNING = ("1min", "5min", "20min", None)
HEAT_MAP = ("1min", "5min", "10min", None)


def legs(tables: Iterable[pa.Table]) -> hp.Stream:
    """The legs of all players: `player` as the key, `t` in nanoseconds, `ts` in picoseconds as it came, place in m, speed in km/h.

    Examples
    --------
    >>> from hydrophone.apps.soccer import queries
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> queries.legs(Match(seed=1, seconds=20).blocks(0, 1)).select("speed").to_arrow().column_names
    ['player', 't', 'speed']
    """
    wearer = np.full(256, len(field.PLAYERS))
    for sensor in field.SENSORS:
        if 0 <= sensor.body < len(field.PLAYERS) and sensor.limb.endswith("leg"):
            wearer[sensor.sid] = sensor.body
    parts = []
    for table in tables:
        body = wearer[table["sid"].to_numpy()]
        mine = table.filter(pa.array(body < len(field.PLAYERS)))
        names = pa.DictionaryArray.from_arrays(pa.array(body[body < len(field.PLAYERS)]), pa.array(field.PLAYERS))
        columns = {
            "player": names.cast(pa.string()),
            "t": pc.divide(mine["ts"], 1000),
            "ts": mine["ts"],
            "x": pc.divide(mine["x"].cast(pa.float64()), 1e3),
            "y": pc.divide(mine["y"].cast(pa.float64()), 1e3),
            "speed": pc.multiply(mine["v"].cast(pa.float64()), 3.6e-6),
        }
        parts.append(pa.table(columns))
    return hp.from_arrow(pa.concat_tables(parts), key="player", time="t", progress=hp.ordered())


def paces(players: hp.Stream) -> hp.Stream:
    """Query 1, current: frames of one running intensity, with the distance in metres; at least one a second while it lasts."""
    seen = players.sliding(SMOOTHED, every=RATE).agg(speed=hp.mean("speed")).alter(RATE).shift(CENTRE)
    moved = seen.with_columns(distance=hp.col("speed") * (0.02 / 3.6))
    bands = hp.bands(field.BANDS, names=field.INTENSITIES, hysteresis=0.5, of="speed")
    return moved.frames(bands, noise="100ms", at_least="1s", report="1s", sums="distance")


def running(players: hp.Stream) -> hp.Stream:
    """Query 1, aggregate: time and distance at every intensity in the last 1, 5 and 20 minutes and in the game."""
    return paces(players).trailing(*RUNNING).agg(time=hp.duration(), distance=hp.sum("distance"), by="status")


def visits(players: hp.Stream, grid: tuple[int, int] = (64, 100)) -> hp.Stream:
    """Frames in which a player is in one cell of a grid: its number, row by row; at least one a second while it lasts."""
    if grid not in field.GRIDS:
        raise ParameterError(f"heat map: no grid of {grid}; there are: {', '.join(map(str, field.GRIDS))}")
    seen = players.sliding(SMOOTHED, every=RATE).agg(x=hp.mean("x"), y=hp.mean("y")).alter(RATE).shift(CENTRE)
    (left, right), (low, high) = field.X, field.Y
    within = (hp.col("x") >= left) & (hp.col("x") < right) & (hp.col("y") >= low) & (hp.col("y") < high)
    inside = seen.where(within).with_columns(
        column=((hp.col("x") - left) * (grid[0] / (right - left)) // 1).cast(nw.Int64),
        row=((hp.col("y") - low) * (grid[1] / (high - low)) // 1).cast(nw.Int64),
    )
    return inside.frames(hp.col("row") * grid[0] + hp.col("column"), report="1s")


def heat_map(players: hp.Stream, grid: tuple[int, int] = (64, 100)) -> hp.Stream:
    """Query 3: the time that a player has spent in each cell in the last 1, 5 and 10 minutes and in the game."""
    return visits(players, grid).trailing(*HEAT_MAP).agg(time=hp.duration(), by="status")
