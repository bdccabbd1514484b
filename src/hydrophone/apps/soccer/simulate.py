"""A simulated match: rows of 42 sensors in the challenge's format, for the whole match or a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.apps.soccer import field
from hydrophone.apps.soccer.bodies import Bodies, Floats, run_about
from hydrophone.apps.soccer.play import Play
from hydrophone.apps.soccer.rows import FIELDS, Writer
from hydrophone.apps.soccer.track import Way
from hydrophone.errors import ParameterError

Ints = npt.NDArray[np.int64]
BLOCK = 10
"""Seconds of rows that are made at once. Noise is drawn per sensor and block, so that a part has the same rows as the whole."""
BEFORE, AFTER = 5.0, 5.0
"""Seconds around a half in which the sensors send."""
JITTER = 2_000
"""Picoseconds by which a sensor's clock strays from its period."""
LOSSY = (61, 99, 88, 40)
"""Sensors that lose rows all the time, as one in ten of the real ones does: about one hole in 3.5 s."""
SPEED_SPAN, PUSH_SPAN = 12, 15
"""Rows of a ball before and after over which its velocity and acceleration are taken: 12 and 15 ms in all."""


@dataclass(frozen=True)
class Match:
    """A match that is the same for the same parameters, whatever part of it is asked for.

    Parameters
    ----------
    seed : int
        Another seed is another match.
    seconds : float, optional
        The length of each half; as the real match's if left out.
    noise : float
        Scale of the sensors' noise; 1 is as measured.
    ball_fails : bool
        Whether the balls send nothing in the last 159 s of the first half, as in the real match.

    Examples
    --------
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> match = Match(seed=1, seconds=20)
    >>> rows = match.rows(0, 2)
    >>> rows.num_rows > 25_000, rows.column_names[:3]
    (True, ['sid', 'ts', 'x'])
    """

    seed: int = 1
    seconds: float | None = None
    noise: float = 1.0
    ball_fails: bool = False

    def __post_init__(self) -> None:
        if self.seconds is not None and not 10 <= self.seconds <= field.HALF_SECONDS[1]:
            raise ParameterError(f"Match: a half has 10 to {field.HALF_SECONDS[1]} seconds, got {self.seconds}")
        if not 0 <= self.noise < 100:
            raise ParameterError(f"Match: noise must be a scale from 0 on, got {self.noise}")

    @cached_property
    def halves(self) -> tuple[Half, Half]:
        """Both halves."""
        return Half(self, 0), Half(self, 1)

    def blocks(self, start: float | None = None, end: float | None = None) -> Iterator[pa.Table]:
        """Tables of rows in the order of time.

        Parameters
        ----------
        start, end : float, optional
            A part of the match: seconds since the first kick-off; the second half begins 2,333.3 s after it.
        """
        for half in self.halves:
            away = (field.KICK_OFFS[half.number] - field.KICK_OFFS[0]) / field.PS
            yield from half.blocks(-np.inf if start is None else start - away, np.inf if end is None else end - away)

    def rows(self, start: float | None = None, end: float | None = None) -> pa.Table:
        """The same as one table."""
        return pa.concat_tables([_schema_only(), *self.blocks(start, end)])

    def write(self, path: str | Path, start: float | None = None, end: float | None = None) -> int:
        """Write rows as the challenge's file has them; gives how many there are."""
        with Writer(path) as out:
            for table in self.blocks(start, end):
                out.write(table)
            return out.count


class Half:
    """One half: bodies that run, balls that are played, sensors that send."""

    def __init__(self, match: Match, number: int) -> None:
        self.match, self.number = match, number
        self.seconds = field.HALF_SECONDS[number] if match.seconds is None else match.seconds
        rng = np.random.default_rng([match.seed, number, 1])
        self.bodies: Bodies = run_about(rng, number, -BEFORE - 1, self.seconds + AFTER + 30)
        self.play = Play(np.random.default_rng([match.seed, number, 2]), self.bodies, number, self.seconds).run()
        self.ways = {ball: track.arrays() for ball, track in self.play.tracks.items()}
        self.sensors = [s for s in field.SENSORS if s.body != field.BALL or s.sid in self.ways]

    def blocks(self, start: float, end: float) -> Iterator[pa.Table]:
        """Tables of rows of a part, in the order of time; seconds since the kick-off of this half."""
        first, last = max(start, -BEFORE), min(end, self.seconds + AFTER)
        for number in range(int(np.floor(first / BLOCK)), int(np.ceil(last / BLOCK))):
            columns = np.concatenate([self._sensor(s, number) for s in self.sensors], axis=1)
            low, high = (field.KICK_OFFS[self.number] + round(t * field.PS) for t in (first, last))
            columns = columns[:, (columns[1] >= low) & (columns[1] < high)]
            # Times repeat only by an accident of two sensors; the id then decides.
            columns = columns[:, np.lexsort((columns[0], columns[1]))]
            yield pa.table(list(columns), names=list(FIELDS))

    def _sensor(self, sensor: field.Sensor, block: int) -> Ints:
        """All rows of a sensor in a block: thirteen columns."""
        rng = np.random.default_rng([self.match.seed, self.number, 3, sensor.sid])
        phase = int(rng.integers(sensor.period))
        holes = self._holes(rng, sensor)
        low, high = ((n * BLOCK * field.PS - phase) // sensor.period + 1 for n in (block, block + 1))
        rng = np.random.default_rng([self.match.seed, self.number, 4, sensor.sid, block - int(-BEFORE // BLOCK)])
        pad = SPEED_SPAN + PUSH_SPAN if sensor.body == field.BALL else 2
        grid = phase + np.arange(low - pad, high + pad) * sensor.period
        t = grid / field.PS
        if sensor.body == field.BALL:
            place, speed, push = _moves(self.ways[sensor.sid], t, SPEED_SPAN, PUSH_SPAN)
            self._falsify(sensor.sid, t[pad:-pad], speed)
            spreads = (0.02, 0.04, 0.06, 6.5)
        else:
            side, arm = (-1 if sensor.limb.startswith("left") else 1), sensor.limb.endswith("arm")
            place = self.bodies.limb(t, sensor.body, side, arm)
            place, speed, push = _differences(place, t[1] - t[0], 1, 1)
            spreads = (0.02, 0.08, 0.08, 2.5)
        jitter = rng.integers(-JITTER, JITTER + 1, len(place))
        place, speed, push = self._noisy(rng, place, speed, push, spreads)
        ts = field.KICK_OFFS[self.number] + grid[pad:-pad] + jitter
        keep = np.searchsorted(holes, t[pad:-pad]) % 2 == 0
        return _integers(sensor.sid, ts, place, speed, push)[:, keep]

    def _noisy(
        self, rng: np.random.Generator, place: Floats, speed: Floats, push: Floats, spreads: tuple[float, ...]
    ) -> tuple[Floats, Floats, Floats]:
        """With the noise of a sensor: in the plane, in height (much worse), in velocity and in acceleration."""
        draws = rng.standard_normal((3, *place.shape), dtype=np.float32) * self.match.noise
        flat, high, fast, hard = spreads
        return place + draws[0] * [flat, flat, high], speed + draws[1] * fast, push + draws[2] * hard

    def _falsify(self, ball: int, t: Floats, speed: Floats) -> None:
        """Wrong speeds where the sensor has a glitch."""
        for glitch in self.play.glitches:
            if glitch.ball == ball and t[0] - 1 < glitch.time < t[-1] + 1:
                speed[(t >= glitch.time) & (t < glitch.time + glitch.seconds)] *= glitch.factor

    def _holes(self, rng: np.random.Generator, sensor: field.Sensor) -> Floats:
        """Starts and ends of times in which a sensor sends nothing, in turn."""
        span = self.seconds + BEFORE + AFTER
        if sensor.sid in LOSSY:
            every, longest = 3.5, 1.25
        else:
            every, longest = (240.0, 0.3) if sensor.body == field.BALL else (300.0, 0.7)
        starts = np.cumsum(rng.exponential(every, int(span / every * 2) + 10)) - BEFORE
        ends = np.minimum(starts + rng.uniform(0.1, longest, len(starts)), np.append(starts[1:], np.inf) - 0.01)
        kept = ends > starts
        holes = np.stack([starts[kept], ends[kept]], axis=1).ravel()
        if self.match.ball_fails and self.number == 0 and sensor.body == field.BALL:
            until = int(np.searchsorted(holes, field.BALL_FAILS)) // 2 * 2
            holes = np.append(holes[:until], [field.BALL_FAILS, np.inf])
        return holes


def _moves(way: Way, t: Floats, near: int, far: int) -> tuple[Floats, Floats, Floats]:
    """Place, velocity and acceleration of a ball."""
    return _differences(way.place(t), t[1] - t[0], near, far)


def _differences(place: Floats, step: float, near: int, far: int) -> tuple[Floats, Floats, Floats]:
    """Velocity and acceleration as a receiver takes them: differences over some rows, so that a kick lasts some milliseconds."""
    speed = (place[2 * near :] - place[: -2 * near]) / (2 * near * step)
    push = (speed[2 * far :] - speed[: -2 * far]) / (2 * far * step)
    pad = near + far
    return place[pad:-pad], speed[far:-far], push


def _integers(sid: int, ts: Ints, place: Floats, speed: Floats, push: Floats) -> Ints:
    """The thirteen columns: millimetres, micrometres per second, and directions of length 10,000."""
    out = np.empty((13, len(ts)), np.int64)
    out[0], out[1] = sid, ts
    out[2:5] = np.rint(place.T * 1e3)
    for size, direction, vector in ((5, 7, speed), (6, 10, push)):
        length = np.sqrt(np.einsum("ij,ij->i", vector, vector))
        out[size] = np.rint(length * 1e6)
        out[direction : direction + 3] = np.rint(vector.T * (1e4 / np.maximum(length, 1e-12)))
    return out


def _schema_only() -> pa.Table:
    """No rows."""
    return pa.schema([(name, pa.int64()) for name in FIELDS]).empty_table()
