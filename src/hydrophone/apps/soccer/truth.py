"""What really happened in a simulated match: hits, possession, interruptions, shots, running intensities and places, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.apps.soccer import field
from hydrophone.apps.soccer.bodies import PX, PY, STEP, VX, VY, Bodies, Floats
from hydrophone.apps.soccer.play import Play, Touch
from hydrophone.apps.soccer.simulate import Half, Match
from hydrophone.apps.soccer.track import Piece, time_of_share

BLIND = 0.5
"""Seconds after a hit in which another one falls into the blind eye of a detector."""
SHOT_SECONDS = 1.5
_LEGS = {(s.body, -1 if s.limb == "left_leg" else 1): s.sid for s in field.SENSORS if s.limb.endswith("leg")}


@dataclass(frozen=True)
class Truth:
    """Tables about a match; times are in picoseconds, as in its rows.

    Examples
    --------
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> from hydrophone.apps.soccer.truth import Truth
    >>> truth = Truth(Match(seed=1, seconds=20))
    >>> first = truth.hits().slice(0, 1).to_pylist()[0]
    >>> first["ts"], first["player"], first["kind"]
    (10753295594424116, 'A6', 'kick-off')
    """

    match: Match

    def hits(self) -> pa.Table:
        """All touches of the ball: speed before and after in m/s, and whether one comes less than half a second after the hit before."""
        rows: list[dict[str, Any]] = []
        for half in self.match.halves:
            last = -np.inf
            for touch in touches(half):
                before, after = half.play.tracks[touch.ball].speeds(touch.time)
                rows.append(
                    {
                        "ts": _ps(half, touch.time),
                        "player": field.PLAYERS[touch.player],
                        "sensor": _LEGS[touch.player, touch.leg],
                        "ball": touch.ball,
                        "kind": touch.kind,
                        "before": float(np.linalg.norm(before)),
                        "after": float(np.linalg.norm(after)),
                        "change": float(np.linalg.norm(after - before)),
                        "blind": bool(touch.time - last < BLIND),
                    }
                )
                last = touch.time
        return pa.Table.from_pylist(rows)

    def others(self) -> pa.Table:
        """Sudden changes of the ball's velocity that are no hits, with the distance in metres of the nearest leg."""
        rows = []
        for half in self.match.halves:
            for t, ball, kind in half.play.others:
                if t < half.seconds:
                    near = _nearest_leg(half, t, ball)
                    rows.append({"ts": _ps(half, t), "ball": ball, "kind": kind, "distance": near})
        schema = [("ts", pa.int64()), ("ball", pa.int64()), ("kind", pa.string()), ("distance", pa.float64())]
        return pa.Table.from_pylist(rows, pa.schema(schema))

    def interruptions(self) -> pa.Table:
        """When the game stood still; the end of a half begins the last one."""
        rows = [
            {"start": _ps(half, s.start), "end": _ps(half, min(s.end, half.seconds)), "kind": s.kind}
            for half in self.match.halves
            for s in half.play.stops
            if s.start < half.seconds
        ]
        return pa.Table.from_pylist(
            rows, pa.schema([("start", pa.int64()), ("end", pa.int64()), ("kind", pa.string())])
        )

    def possession(self) -> pa.Table:
        """From the first to the last hit of a player, until another one hits or the game stops."""
        rows: list[dict[str, Any]] = []
        for half in self.match.halves:
            stops = np.array([s.start for s in half.play.stops])
            before = (-1, -1)
            for touch in touches(half):
                turn = touch.player, int(np.searchsorted(stops, touch.time, side="left"))
                ts = _ps(half, touch.time)
                if turn == before:
                    rows[-1] |= {"end": ts, "hits": rows[-1]["hits"] + 1}
                else:
                    rows.append({"player": field.PLAYERS[touch.player], "start": ts, "end": ts, "hits": 1})
                before = turn
        return pa.Table.from_pylist(rows)

    def shots(self) -> pa.Table:
        """Hits after which the ball, left alone, would be in the other goal within 1.5 s, until something happens to it."""
        rows = []
        for half in self.match.halves:
            for touch in touches(half):
                piece = _piece(half.play, touch)
                side = field.attack(touch.player, half.number)
                when = goal_time(piece, side)
                if when <= SHOT_SECONDS:
                    end = piece.start + min(piece.seconds, when)
                    rows.append(
                        {
                            "ts": _ps(half, touch.time),
                            "end": _ps(half, end),
                            "player": field.PLAYERS[touch.player],
                            "ball": touch.ball,
                            "meant": touch.kind == "shot",
                        }
                    )
        names = [("ts", pa.int64()), ("end", pa.int64()), ("player", pa.string()), ("ball", pa.int64())]
        return pa.Table.from_pylist(rows, pa.schema([*names, ("meant", pa.bool_())]))

    def intensity(self, at_least: float = 1.0) -> pa.Table:
        """How fast players run, with the distance in metres; what lasts less than `at_least` seconds counts onto the next that lasts."""
        rows = []
        for half, player in self._players():
            runs = _speed_runs(half.bodies, player, half.seconds)
            for start, end, status in lasting(runs, at_least):
                rows.append(
                    {
                        "player": field.PLAYERS[player],
                        "start": _ps(half, start),
                        "end": _ps(half, end),
                        "status": field.INTENSITIES[status],
                        "distance": distance(half.bodies, player, start, end),
                    }
                )
        return pa.Table.from_pylist(rows)

    def cells(self, grid: tuple[int, int]) -> pa.Table:
        """In which cell of a grid players are: column along x, row along y; nothing while one is outside the field."""
        rows = []
        for half, player in self._players():
            for start, end, cell in _cell_runs(half.bodies, player, half.seconds, grid):
                if cell >= 0:
                    column, row = cell % grid[0], cell // grid[0]
                    times = {"start": _ps(half, start), "end": _ps(half, end)}
                    rows.append({"player": field.PLAYERS[player], **times, "column": column, "row": row})
        return pa.Table.from_pylist(rows)

    def _players(self) -> Iterator[tuple[Half, int]]:
        """Both halves of every player."""
        return ((half, player) for half in self.match.halves for player in range(16))


def _ps(half: Half, t: float) -> int:
    """Picoseconds of a moment of a half."""
    return field.KICK_OFFS[half.number] + round(t * field.PS)


def touches(half: Half) -> list[Touch]:
    """All hits before the final whistle."""
    return [t for t in half.play.touches if t.time < half.seconds]


def _piece(play: Play, touch: Touch) -> Piece:
    """The way of the ball after a hit."""
    return next(p for p in play.tracks[touch.ball].pieces if p.start == touch.time)


def goal_time(piece: Piece, side: int) -> float:
    """When a ball would be in a goal if nothing more happened to it; infinite if it would not."""
    if piece.dy * side <= 0 or piece.drag < 0:
        return np.inf
    part = (field.GOAL_LINE[side] - piece.y) / piece.dy
    t = time_of_share(piece, part)
    if not np.isfinite(t):
        return np.inf
    z = piece.z + piece.rise * t - piece.fall * t * t / 2
    return t if field.goal_crossed(piece.x + piece.dx * part, z, side) else np.inf


def _nearest_leg(half: Half, t: float, ball: int) -> float:
    """Metres from a ball to the nearest leg of a player."""
    players, sides = np.repeat(np.arange(16), 2), np.tile([-1, 1], 16)
    legs = half.bodies.limb(np.full(32, t), players, sides)
    return float(np.linalg.norm(legs - half.ways[ball].place(np.array([t])), axis=1).min())


# --- what can be read off exactly: speed and place are quadratic between knots ---------------------------------------------


def _speed_runs(bodies: Bodies, player: int, seconds: float) -> list[tuple[float, float, int]]:
    """Runs of one intensity: start, end and number."""
    v = bodies.knots[:, player, [VX, VY]]
    step = np.diff(v, axis=0)
    squares = np.sum(step**2, axis=1), 2 * np.sum(v[:-1] * step, axis=1), np.sum(v[:-1] ** 2, axis=1)
    levels = (np.array(field.BANDS) / 3.6) ** 2
    cuts = _cuts(bodies, [(squares, levels)], seconds)
    middle = (cuts[1:] + cuts[:-1]) / 2
    # Upper bounds belong to their band.
    return _runs(cuts, np.searchsorted(levels, speed_squared(bodies, player, middle), side="left"))


def speed_squared(bodies: Bodies, player: int, t: Floats) -> Floats:
    """The square of a body's speed."""
    at = ((t - bodies.start) / STEP).astype(np.int64)
    v, after = bodies.knots[at, player][:, [VX, VY]], bodies.knots[at + 1, player][:, [VX, VY]]
    now = v + (after - v) * ((t - bodies.start) / STEP - at)[:, None]
    out: Floats = np.sum(now**2, axis=1)
    return out


def distance(bodies: Bodies, player: int, start: float, end: float) -> float:
    """Metres run between two times: Gauss-Legendre with three points between knots, which is below a millimetre in an hour."""
    knots = bodies.start + STEP * np.arange(len(bodies.knots))
    inner = knots[(knots > start) & (knots < end)]
    cuts = np.concatenate([[start], inner, [end]])
    nodes, weights = np.polynomial.legendre.leggauss(3)
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    t = middle[:, None] + half[:, None] * nodes
    speed = np.sqrt(speed_squared(bodies, player, t.ravel())).reshape(t.shape)
    return float(np.sum(speed * weights * half[:, None]))


def _cell_runs(bodies: Bodies, player: int, seconds: float, grid: tuple[int, int]) -> list[tuple[float, float, int]]:
    """Runs in one cell: start, end and the cell's number, -1 outside the field."""
    lines = [np.linspace(*span, count + 1) for span, count in zip((field.X, field.Y), grid, strict=True)]
    curves = []
    for place, speed, levels in zip((PX, PY), (VX, VY), lines, strict=True):
        p, v = bodies.knots[:-1, player, place], bodies.knots[:, player, speed]
        curves.append(((np.diff(v) * STEP / 2, v[:-1] * STEP, p), levels))
    cuts = _cuts(bodies, curves, seconds)
    at = bodies.place((cuts[1:] + cuts[:-1]) / 2, player)
    column, row = (np.searchsorted(line, at[:, i], side="right") - 1 for i, line in enumerate(lines))
    outside = (column < 0) | (column >= grid[0]) | (row < 0) | (row >= grid[1])
    return _runs(cuts, np.where(outside, -1, row * grid[0] + column))


def _cuts(bodies: Bodies, curves: list[tuple[tuple[Floats, Floats, Floats], Floats]], seconds: float) -> Floats:
    """Zero, all times at which quadratic curves cross their levels, and the end."""
    found = [np.array([0.0, seconds])]
    for (a, b, c), levels in curves:
        bend = np.clip(-b / np.where(a == 0, np.inf, 2 * a), 0, 1)
        ends = np.stack([c, a + b + c, a * bend**2 + b * bend + c])
        low, high = ends.min(axis=0), ends.max(axis=0)
        for level in levels:
            at = np.flatnonzero((low <= level) & (high >= level))
            found += [bodies.start + STEP * (at[ok] + s[ok]) for s, ok in _roots(a[at], b[at], c[at] - level)]
    times = np.unique(np.concatenate(found))
    return times[(times >= 0) & (times <= seconds)]


def _roots(a: Floats, b: Floats, c: Floats) -> Iterator[tuple[Floats, Any]]:
    """Where quadratics are zero between 0 and 1."""
    with np.errstate(all="ignore"):
        q = -0.5 * (b + np.copysign(np.sqrt(b * b - 4 * a * c), b))
        for s in (q / a, c / q):
            yield s, (s >= 0) & (s < 1)


def _runs(cuts: Floats, status: Any) -> list[tuple[float, float, int]]:
    """Neighbours of equal status joined."""
    first = np.flatnonzero(np.concatenate([[True], status[1:] != status[:-1]]))
    ends = cuts[np.append(first[1:], len(status))]
    return list(zip(cuts[first].tolist(), ends.tolist(), status[first].tolist(), strict=True))


def lasting(runs: list[tuple[float, float, int]], at_least: float) -> list[tuple[float, float, int]]:
    """Runs of at least some seconds; shorter ones count onto the next of these, those at the very end are one run of the last status."""
    out: list[tuple[float, float, int]] = []
    start = runs[0][0]
    for number, (_, end, status) in enumerate(runs):
        if end - runs[number][0] < at_least and number + 1 < len(runs):
            continue
        if out and out[-1][2] == status:
            out[-1] = (out[-1][0], end, status)
        else:
            out.append((start, end, status))
        start = end
    return out
