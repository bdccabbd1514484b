"""The course of a half: who touches the ball when, what else happens to it, and when the game stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hydrophone.apps.soccer.bodies import Bodies, Floats, Generator
from hydrophone.apps.soccer.field import GOAL_LINE, GOAL_X, KEEPERS, X, Y, attack, inside, team_of
from hydrophone.apps.soccer.track import Piece, Track, time_of_share

QUICK = 0.05
"""Share of hits that follow the one before within half a second."""
ONE_TOUCH = 0.06
NO_HITS = 0.3
"""Share of sudden changes of velocity that are no hits."""
GROUND = 0.11
SPOTS = {4: (-1.6, 6.0), 8: (54.2, -14.0), 10: (-2.1, -17.5), 12: (26.0, 36.8)}
"""Where balls lie that are not in play."""


class Touch(NamedTuple):
    """A hit: when, by whom, with which leg (-1 left), which ball, why."""

    time: float
    player: int
    leg: int
    ball: int
    kind: str


class Other(NamedTuple):
    """A sudden change of velocity that is no hit: bounce, board, net, post, throw or glitch of the sensor."""

    time: float
    ball: int
    kind: str


class Stop(NamedTuple):
    """An interruption of the game."""

    start: float
    end: float
    kind: str


class Glitch(NamedTuple):
    """A moment in which a sensor says a wrong speed: its true one times `factor`."""

    time: float
    seconds: float
    ball: int
    factor: float


@dataclass
class Play:
    """One half while it is made up; times are seconds since its kick-off."""

    rng: Generator
    bodies: Bodies
    half: int
    seconds: float
    tracks: dict[int, Track] = field(default_factory=dict)
    touches: list[Touch] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    glitches: list[Glitch] = field(default_factory=list)
    ball: int = 4
    holder: int = 0
    leg: int = 1
    fresh: bool = False

    def run(self) -> Play:
        """From kick-off to the final whistle."""
        self.holder = 6 if self.half == 0 else 14
        for ball in (4, 8, 10) if self.half == 0 else (4, 8, 10, 12):
            x, y = SPOTS[ball] if ball != self.ball else self._contact(0.0, self.holder, self.leg)[:2]
            self.tracks[ball] = Track([Piece(self.bodies.start, -self.bodies.start, x, y, 0.15, 0, 0, 0, 0, 0, 0)])
        self._touch("kick-off")
        self._pass()
        while self.track.end < self.seconds - 6:
            self._turn()
        self._touch("last")
        for track in self.tracks.values():
            track.rest(self.bodies.end + 1)
        return self

    @property
    def track(self) -> Track:
        """The way of the ball in play."""
        return self.tracks[self.ball]

    @property
    def now(self) -> float:
        """When the ball in play is touched next."""
        return self.track.end

    def _turn(self) -> None:
        """The holder touches the ball and decides where it goes."""
        chance = self.rng.random(4)
        if self.fresh and chance[0] < QUICK * 2.2:
            self._touch("quick")
            self._keep(self.rng.uniform(0.12, 0.45), 0.0)
        elif self.fresh and chance[1] > ONE_TOUCH:
            self._touch("control")
            self._keep(self.rng.uniform(0.6, 1.5), 0.0)
        elif self._near_goal() and chance[2] < 0.4:
            self._touch("shot")
            self._shoot()
        elif chance[3] < 0.02:
            self._touch("foul")
            self._foul()
        elif chance[3] < 0.07:
            self._touch("out")
            self._out()
        elif chance[3] < 0.5 and self._dribbles():
            pass
        else:
            self._touch("pass")
            self._pass()

    # --- where the ball goes --------------------------------------------------------------------------------------------

    def _keep(self, seconds: float, drag: float) -> None:
        """To the next touch of the same player."""
        self.leg = -self.leg
        self.fresh = False
        self.track.go(self._contact(self.now + seconds, self.holder, self.leg), self.now + seconds, drag=drag)

    def _dribbles(self) -> bool:
        """Push the ball ahead, if the player runs, and once in a while if he does not."""
        seconds = self.rng.uniform(0.6, 1.0)
        ahead = self._contact(self.now + seconds, self.holder, -self.leg) - self.track.place
        if np.hypot(ahead[0], ahead[1]) < (2.3 if self.rng.random() > 0.04 else 0.8):
            return False
        self._touch("dribble")
        self._keep(seconds, 3.0)
        return True

    def _pass(self) -> None:
        """To another player; one in five goes to the other team."""
        self._send(self._receiver(), self.rng.uniform(8, 15))

    def _send(self, to: int, speed: float) -> None:
        """To a player, rolling or bouncing, so that enough sudden changes are no hits."""
        leg, until = self._meeting(to, speed)
        owed = len(self.touches) * NO_HITS / (1 - NO_HITS) * 0.97 - len(self.others)
        count = min(3, int(np.ceil(owed)), int((until - self.now) / 0.55))
        target = self._contact(until, to, leg)
        if owed > 0 and self.rng.random() < 0.08:
            self._glitch(self.now + 0.4 * (until - self.now))
            count -= 1
        if count > 0:
            self._bounce(target, until, count)
        else:
            self.track.go(target, until, drag=0.35)
        self.holder, self.leg, self.fresh = to, leg, True

    def _bounce(self, target: Floats, until: float, count: int) -> None:
        """Through the air, touching the ground `count` times; one in twelve of the last bounces is right before the receiver."""
        seconds = until - self.now
        last = self.rng.uniform(0.05, 0.09) if self.rng.random() < 1 / 12 else max(0.3, 0.22 * seconds)
        shares = 0.75 ** np.arange(count)
        lengths = np.append(shares / shares.sum() * (seconds - last), last)
        ways = lengths * 0.8 ** np.arange(count + 1)
        ways = np.cumsum(ways) / ways.sum()
        here, start = self.track.place, self.now
        for part, end in zip(ways[:-1], start + np.cumsum(lengths)[:-1], strict=True):
            self.track.go(np.append((here + (target - here) * part)[:2], GROUND), float(end), drag=0.05, flies=True)
            self._other("bounce")
        self.track.go(target, until, drag=0.05, flies=True)

    def _shoot(self) -> None:
        """At the other goal: saved, in, at the post, over it or wide."""
        side, speed, chance = attack(self.holder, self.half), self.rng.uniform(17, 27), self.rng.random()
        low, high = GOAL_X[side]
        flies, line = bool(self.rng.random() < 0.4), GOAL_LINE[side]
        if chance < 0.35:
            keeper = KEEPERS[1 - team_of(self.holder)]
            leg, until = self._meeting(keeper, speed)
            self.track.go(self._contact(until, keeper, leg), until, drag=0.1, flies=flies)
            self.holder, self.leg, self.fresh = keeper, leg, True
            return
        if chance < 0.45:
            post = np.array([self.rng.choice([low, high]), line, GROUND])
            self._fly(post, speed, False)
            self._other("post")
            self._send(self._receiver(), self.rng.uniform(6, 10))
            return
        behind = line + side * self.rng.uniform(1.0, 2.0)
        if chance < 0.6:
            target = np.array(
                [self.rng.uniform(low + 0.4, high - 0.4), behind, self.rng.uniform(0.2, 1.6) if flies else GROUND]
            )
        else:
            wide = self.rng.uniform(0.8, 6.0)
            target = np.array(
                [self.rng.choice([low - wide, high + wide]), behind, self.rng.uniform(0.2, 4) if flies else GROUND]
            )
        self._leave(target, speed, flies, "net" if chance < 0.6 else "board")

    def _out(self) -> None:
        """Over the side line that is nearer, or over the goal line."""
        here, away = self.track.place, self.rng.uniform(1.0, 3.5)
        if self.rng.random() < 0.75:
            x = X[0] - away if here[0] < X[1] / 2 else X[1] + away
            target = np.array([x, np.clip(here[1] + self.rng.normal(0, 8), *Y), GROUND])
        else:
            side = attack(self.holder, self.half)
            corner = self.rng.choice([self.rng.uniform(3, 18), self.rng.uniform(34, 49)])
            target = np.array([corner, GOAL_LINE[side] + side * away, GROUND])
        self._leave(target, self.rng.uniform(9, 16), False, "board")

    def _leave(self, target: Floats, speed: float, flies: bool, kind: str) -> None:
        """Out of the field, until something stops the ball; then the game goes on with a throw or a kick."""
        piece = self._fly(target, speed, flies)
        crossed = piece.start + _crossing(piece)
        self._other(kind)
        self.track.rest(self.now + self.rng.uniform(0.8, 1.5))
        over_side = not X[0] <= target[0] <= X[1]
        place = np.array([X[1] / 2, 0.0]) if kind == "net" else target[:2]
        self._restart(crossed, place, "goal" if kind == "net" else "out", throws=over_side)

    def _foul(self) -> None:
        """The ball rolls on for a moment and stops; the game goes on with a kick."""
        stopped, here = self.now, self.track.place
        ahead = np.append(self.bodies.heading(self.now, self.holder) * self.rng.uniform(0.8, 1.8), 0.0)
        self.track.go(np.append((here + ahead)[:2], GROUND), self.now + 1.5, drag=3.0)
        self._restart(stopped, self.track.place[:2], "foul", throws=False)

    def _restart(self, stopped: float, place: Floats, kind: str, *, throws: bool) -> None:
        """Bring a ball to whom comes by soonest, who throws or kicks it."""
        times = self.now + np.arange(4.0, 22.0, 0.5)
        times = times[times < max(self.seconds, self.now + 5)]
        feet = self.bodies.place(times[:, None], np.arange(16)[None, :])
        cost = np.hypot(feet[..., 0] - place[0], feet[..., 1] - place[1]) + 0.6 * (times - self.now)[:, None]
        at, taker = np.unravel_index(np.argmin(cost), cost.shape)
        until, self.holder, self.fresh = float(times[at]), int(taker), False
        if kind != "foul" and self.rng.random() < 0.4:
            self._swap()
        hands = np.append(self.bodies.place(until, self.holder), 2.1)
        spot = hands if throws else self._contact(until, self.holder, self.leg)
        self.track.go(spot, until, drag=-1.0)
        self.stops.append(Stop(stopped, until, kind))
        if throws:
            self._other("throw")
            self._throw()
        else:
            self._touch("restart")
            self._pass()

    def _swap(self) -> None:
        """Another ball comes into play; the old one is carried to its spot."""
        now = self.now
        lying = [b for b, track in self.tracks.items() if b != self.ball and track.end < now]
        if not lying:
            return
        x, y = SPOTS[self.ball]
        self.track.go(np.array([x, y, 0.15]), now + 6.0, drag=-1.0)
        self.ball = int(self.rng.choice(lying))
        self.track.rest(now)

    def _throw(self) -> None:
        """A throw: through the air to a player who is near."""
        to = self._receiver(6.0)
        leg, until = self._meeting(to, self.rng.uniform(7, 10))
        self.track.go(self._contact(until, to, leg), until, drag=0.05, flies=True)
        self.holder, self.leg, self.fresh = to, leg, True

    def _fly(self, target: Floats, speed: float, flies: bool) -> Piece:
        """Straight to a place."""
        far = float(np.hypot(*(target - self.track.place)[:2]))
        return self.track.go(target, self.now + max(far / speed, 0.3), drag=0.1 if flies else 0.3, flies=flies)

    # --- who and where --------------------------------------------------------------------------------------------------

    def _touch(self, kind: str) -> None:
        """Note a hit."""
        self.touches.append(Touch(self.now, self.holder, self.leg, self.ball, kind))

    def _other(self, kind: str) -> None:
        """Note a sudden change that is no hit."""
        self.others.append(Other(self.now, self.ball, kind))

    def _glitch(self, t: float) -> None:
        """Note a glitch of the sensor."""
        self.glitches.append(Glitch(t, 0.03, self.ball, float(self.rng.choice([0.4, 1.9]))))
        self.others.append(Other(t, self.ball, "glitch"))

    def _contact(self, t: float, player: int, leg: int) -> Floats:
        """Where the ball is when a leg hits it: a hand's breadth before it, near the ground."""
        foot = self.bodies.limb(np.asarray(t), player, leg)
        return np.append(foot[:2] + 0.2 * self.bodies.heading(t, player), 0.15)

    def _meeting(self, to: int, speed: float) -> tuple[int, float]:
        """The leg of a player, and the time at which a ball of this mean speed reaches it."""
        leg, until, here = int(self.rng.choice([-1, 1])), self.now + 1.0, self.track.place
        for _ in range(6):
            far = float(np.hypot(*(self._contact(until, to, leg) - here)[:2]))
            until = self.now + max(far / speed, 0.55)
        return leg, until

    def _receiver(self, wanted: float = 14.0) -> int:
        """Whom a pass reaches: somebody at about the wanted distance."""
        feet = self.bodies.place(self.now + 1.0, np.arange(16))
        far = np.hypot(feet[:, 0] - self.track.place[0], feet[:, 1] - self.track.place[1])
        mates = np.arange(16) // 8 == team_of(self.holder)
        weight = np.exp(-np.abs(far - wanted) / 6) * (mates if self.rng.random() > 0.2 else ~mates) + 1e-12
        weight[self.holder] = 0
        return int(self.rng.choice(16, p=weight / weight.sum()))

    def _near_goal(self) -> bool:
        """Whether a shot is worth it."""
        x, y, _ = self.track.place
        far = np.hypot(x - X[1] / 2, y - GOAL_LINE[attack(self.holder, self.half)])
        return bool(far < 22) and self.holder not in KEEPERS and inside(x, y)


def _crossing(piece: Piece) -> float:
    """The time, since its start, at which a ball that ends outside leaves the field."""
    parts = []
    for at, way, (low, high) in ((piece.x, piece.dx, X), (piece.y, piece.dy, Y)):
        end = at + way
        if end < low or end > high:
            parts.append(((high if end > high else low) - at) / way)
    return min(time_of_share(piece, float(np.clip(min(parts), 0, 1))), piece.seconds)
