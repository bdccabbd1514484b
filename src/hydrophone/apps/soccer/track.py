"""The way of a ball: pieces of rolling, flying, being carried and resting, each with a closed formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
GRAVITY = 9.81
OFFSET = 0.008
"""Metres between a ball's middle and its sensor, which turns with the ball."""


class Piece(NamedTuple):
    """One stretch of a ball's way. `drag` per second slows it down; a negative one means carried: from rest to rest."""

    start: float
    seconds: float
    x: float
    y: float
    z: float
    dx: float
    dy: float
    drag: float
    rise: float
    fall: float
    spin: float


def share(drag: Any, t: Any, seconds: Any) -> Any:
    """How much of its way a ball has behind it after `t` of `seconds`."""
    carried = np.clip(t / seconds, 0, 1)
    slowed = np.where(drag > 0, drag, 1.0)
    rolled = np.where(drag > 0, np.expm1(-slowed * t) / np.expm1(-slowed * seconds), t / seconds)
    return np.where(drag < 0, carried * carried * (3 - 2 * carried), rolled)


def time_of_share(piece: Piece, part: float) -> float:
    """When a ball has gone this share of its way, also beyond the end of the piece; infinite if it never does."""
    if piece.drag == 0:
        return part * piece.seconds if part >= 0 else np.inf
    left = 1 + part * np.expm1(-piece.drag * piece.seconds)
    return float(-np.log(left) / piece.drag) if 0 < left <= 1 else np.inf


@dataclass
class Track:
    """All pieces of one ball in one half, one after the other without holes."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Where in time it ends."""
        return self.pieces[-1].start + self.pieces[-1].seconds

    @property
    def place(self) -> Floats:
        """Where it ends."""
        last = self.pieces[-1]
        z = last.z + last.rise * last.seconds - last.fall * last.seconds**2 / 2
        return np.array([last.x + last.dx, last.y + last.dy, z])

    def go(self, to: Floats, until: float, *, drag: float = 0.0, flies: bool = False) -> Piece:
        """Add a piece from where it is to another place."""
        here, start = self.place, self.end
        seconds = until - start
        way = to - here
        fall = GRAVITY if flies else 0.0
        speed = float(np.hypot(way[0], way[1])) / seconds
        spin = 0.0 if drag < 0 else min(speed / 1.4, 10.0)
        x, y, z = here
        piece = Piece(start, seconds, x, y, z, way[0], way[1], drag, way[2] / seconds + fall * seconds / 2, fall, spin)
        self.pieces.append(piece)
        return piece

    def rest(self, until: float) -> None:
        """Add a piece in which it lies still."""
        self.go(self.place, until)

    def arrays(self) -> Way:
        """For many times at once."""
        columns = np.array(self.pieces)
        turns = np.concatenate([[0.0], np.cumsum(columns[:, 1] * columns[:, 10])[:-1]])
        return Way(columns, 2 * np.pi * turns)

    def speeds(self, t: float) -> tuple[Floats, Floats]:
        """The velocity just before and just after a time at which a piece starts."""
        at = next(i for i, p in enumerate(self.pieces) if p.start == t)
        before = velocity(self.pieces[at - 1], self.pieces[at - 1].seconds) if at else np.zeros(3)
        return before, velocity(self.pieces[at], 0.0)


def velocity(piece: Piece, t: float) -> Floats:
    """How a ball moves, `t` after the start of a piece."""
    if piece.drag < 0:
        part = min(max(t / piece.seconds, 0.0), 1.0)
        rate = 6 * part * (1 - part) / piece.seconds
    elif piece.drag == 0:
        rate = 1 / piece.seconds
    else:
        rate = piece.drag * np.exp(-piece.drag * t) / -np.expm1(-piece.drag * piece.seconds)
    return np.array([piece.dx * rate, piece.dy * rate, piece.rise - piece.fall * t])


@dataclass(frozen=True)
class Way:
    """A track as arrays: columns as in `Piece`, and how far the ball has turned when each piece starts."""

    columns: Floats
    turned: Floats

    def place(self, t: Floats) -> Floats:
        """Where the sensor is at ascending times: x, y and z."""
        starts = self.columns[:, 0]
        cuts = np.searchsorted(t, starts[1:], side="left")
        at = np.repeat(np.arange(len(starts)), np.diff(np.concatenate([[0], cuts, [len(t)]])))
        p = self.columns[at].T
        dt = t - p[0]
        done = share(p[7], dt, p[1])
        angle = self.turned[at] + 2 * np.pi * p[10] * dt
        c, s = OFFSET * np.cos(angle), OFFSET * np.sin(angle)
        z = p[4] + p[8] * dt - p[9] * dt * dt / 2
        return np.stack([p[2] + p[5] * done + c, p[3] + p[6] * done + 0.6 * s, z + 0.8 * s], axis=1)
