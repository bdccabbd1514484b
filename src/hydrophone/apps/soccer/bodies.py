"""How players and referee run: velocities that are linear between knots, and the strides of their legs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from hydrophone.apps.soccer.field import KEEPERS, REFEREE, X, Y, attack

Floats = npt.NDArray[np.float64]
Generator = np.random.Generator
STEP = 0.1
"""Seconds between knots."""
LAG = 0.4
"""Seconds in which a body takes on two thirds of a new speed."""
_SHARES = (0.14, 0.50, 0.13, 0.10, 0.10, 0.03)
_SPEEDS = ((0.0, 0.15), (0.5, 2.9), (3.15, 3.8), (4.0, 4.6), (4.9, 6.5), (6.9, 8.2))
"""How often a player runs at each intensity, and how fast in m/s."""
_HOMES = ((0.50, -32.3), (0.22, -19), (0.50, -21), (0.78, -19), (0.32, -5), (0.68, -5), (0.34, 11), (0.66, 11))
"""Places of the eight players of a team that attacks towards positive y: share of the width, and y."""

PX, PY, VX, VY, ANGLE, TURN, SWING, GROWTH, STRIDE, PACE = range(10)
"""Columns of the knots: place, velocity, heading and its rate, length of the swing and its rate, phase of the stride and its rate."""


@dataclass(frozen=True)
class Bodies:
    """Seventeen bodies in one half: `knots` has the time, the body and the ten columns above; times are seconds since kick-off."""

    start: float
    knots: Floats

    @property
    def end(self) -> float:
        """The last knot."""
        return self.start + (len(self.knots) - 1) * STEP

    def limb(self, t: Floats, body: Any, side: Any, arm: bool = False) -> Floats:
        """Where a leg (side -1 left, 1 right) or a glove is: x, y and z for every time."""
        at, dt, now = self._at(t, body)
        after = self.knots[at + 1, body]
        place = now[..., :2] + _moved(now[..., 2:4], after[..., 2:4], dt[..., None])
        angle = now[..., ANGLE] + now[..., TURN] * dt
        swing = now[..., SWING] + now[..., GROWTH] * dt
        phase = (
            now[..., STRIDE] + _moved(now[..., PACE], after[..., PACE], dt) + np.where(np.asarray(side) < 0, 0, np.pi)
        )
        along = -swing * np.sin(phase) * (0.4 if arm else 1.0)
        across = np.asarray(side) * (0.35 if arm else 0.13)
        c, s = np.cos(angle), np.sin(angle)
        z = 1.1 + 0.1 * np.sin(phase) if arm else 0.30 + 0.1 * swing * (1 - np.cos(phase))
        return np.stack([place[..., 0] + along * c + across * s, place[..., 1] + along * s - across * c, z], axis=-1)

    def place(self, t: Any, body: Any) -> Floats:
        """Where the middle of a body is: x and y."""
        at, dt, now = self._at(np.asarray(t, np.float64), body)
        out: Floats = now[..., :2] + _moved(now[..., 2:4], self.knots[at + 1, body][..., 2:4], dt[..., None])
        return out

    def heading(self, t: float, body: int) -> Floats:
        """The direction in which a body looks, a unit vector."""
        _, dt, now = self._at(np.asarray(t), body)
        angle = now[ANGLE] + now[TURN] * dt
        return np.array([np.cos(angle), np.sin(angle)])

    def _at(self, t: Floats, body: Any) -> tuple[Any, Floats, Floats]:
        """The knot before each time, the time since it, and its columns."""
        at = np.clip(((t - self.start) / STEP).astype(np.int64), 0, len(self.knots) - 2)
        return at, t - (self.start + at * STEP), self.knots[at, body]


def _moved(before: Floats, after: Floats, dt: Floats) -> Floats:
    """The integral of a rate that is linear between knots."""
    return before * dt + (after - before) * (dt * dt / (2 * STEP))


def run_about(rng: Generator, half: int, start: float, end: float) -> Bodies:
    """Bodies that run between places of their formation, which follows a wandering centre of play."""
    count = int(np.ceil((end - start) / STEP)) + 2
    centre = _wander(rng, count)
    knots = np.zeros((count, 17, 10))
    for body in range(17):
        wanted, first = _legs(rng, body, half, centre)
        _fill(knots[:, body], wanted, first)
    return Bodies(start, knots)


def _wander(rng: Generator, count: int) -> Floats:
    """The centre of play: x and y, two smooth random walks that return to the middle."""
    keep = np.exp(-STEP / np.array([20.0, 25.0]))
    steps = rng.standard_normal((count, 2)) * np.sqrt(1 - keep**2) * np.array([7.0, 14.0])
    walked = np.stack([lfilter([1], [1, -keep[i]], steps[:, i]) for i in range(2)], axis=1)
    return np.clip(walked, [-18, -28], [18, 28])


def _legs(rng: Generator, body: int, half: int, centre: Floats) -> tuple[Floats, Floats]:
    """The wanted velocity at every knot, from one target to the next, and the first place."""
    count, width = len(centre), X[1] - X[0]
    wanted, at = np.zeros((count, 2)), 0
    place = first = _target(rng, body, half, centre[0], width)
    while at < count:
        band = rng.choice(6, p=_SHARES if body not in KEEPERS else (0.45, 0.48, 0.04, 0.02, 0.01, 0.0))
        speed = rng.uniform(*_SPEEDS[band])
        ahead = _target(rng, body, half, centre[at], width) - place
        far = float(np.hypot(*ahead))
        seconds = max(rng.uniform(1.2, 6.0) if band == 0 else min(far / speed, rng.uniform(1.5, 8.0)), 0.4)
        steps = min(max(round(seconds / STEP), 1), count - at)
        wanted[at : at + steps] = ahead / max(far, 1e-9) * speed
        place, at = place + wanted[at] * steps * STEP, at + steps
    return wanted, first


def _target(rng: Generator, body: int, half: int, centre: Floats, width: float) -> Floats:
    """Where a body wants to be: its place in the formation, moved with the play, and some chance."""
    if body == REFEREE:
        goal = np.array([width / 2, 0.0]) + centre * 0.8 + rng.normal(0, 5, 2)
    else:
        side = attack(body, half)
        share, forward = _HOMES[body % 8]
        loose = 0.04 if body in KEEPERS else 1.0
        home = np.array([share * width, forward * side])
        goal = home + loose * (centre * np.array([0.5, 0.65]) + rng.normal(0, 1, 2) * np.array([6.0, 7.0]))
    return np.clip(goal, [X[0] + 1.0, Y[0] + 1.0], [X[1] - 1.0, Y[1] - 1.0])


def _fill(knots: Floats, wanted: Floats, first: Floats) -> None:
    """Place, heading, swing and stride from wanted velocities."""
    keep = np.exp(-STEP / LAG)
    v = lfilter([1 - keep], [1, -keep], wanted, axis=0)
    speed = np.hypot(v[:, 0], v[:, 1])
    knots[:, [VX, VY]] = v
    knots[:, [PX, PY]] = first + _sums((v[1:] + v[:-1]) * (STEP / 2))
    moving = np.maximum.accumulate(np.where(speed > 0.3, np.arange(len(v)), 0))
    angle = np.unwrap(np.arctan2(v[moving, 1], v[moving, 0]))
    angle = lfilter([0.3], [1, -0.7], angle, zi=[0.7 * angle[0]])[0]
    pace = 0.9 + 0.11 * speed
    swing = speed / (2 * np.pi * pace)
    knots[:, ANGLE], knots[:-1, TURN] = angle, np.diff(angle) / STEP
    knots[:, SWING], knots[:-1, GROWTH] = swing, np.diff(swing) / STEP
    knots[:, PACE] = 2 * np.pi * pace
    knots[:, STRIDE] = _sums((knots[1:, PACE] + knots[:-1, PACE]) * (STEP / 2))


def _sums(steps: Floats) -> Floats:
    """Running sums from zero."""
    return np.concatenate([np.zeros_like(steps[:1]), np.cumsum(steps, axis=0)])
