"""The field, the sensors and the clock of the challenge's match, as measured and published. Lengths are in metres."""

from __future__ import annotations

from dataclasses import dataclass

PS = 1_000_000_000_000
"""Picoseconds in a second: the unit of the challenge's clock."""
KICK_OFFS = (10_753_295_594_424_116, 13_086_639_146_403_495)
"""Start of each half, in picoseconds."""
HALF_SECONDS = (1804.0, 1793.0)
BALL_FAILS = 1644.7
"""Seconds into the first half after which the real match's ball sent nothing more until the break."""

X = (0.0, 52.483)
Y = (-33.960, 33.965)
GOAL_LINE = {1: 33.941, -1: -33.968}
"""The goals by the sign of their side."""
GOAL_X = {1: (22.5785, 29.8985), -1: (22.560, 29.880)}
GOAL_HEIGHT = 2.44

BANDS = (1.0, 11.0, 14.0, 17.0, 24.0)
"""Upper bounds of the running intensities, in km/h."""
INTENSITIES = ("standing", "trot", "low", "medium", "high", "sprint")
GRIDS = ((8, 13), (16, 25), (32, 50), (64, 100))
"""Heat maps: columns along x by rows along y."""


@dataclass(frozen=True)
class Sensor:
    """A transmitter: who wears it, where, and the time between its rows in picoseconds."""

    sid: int
    body: int
    limb: str
    period: int


BALLS = (4, 8, 10, 12)
PLAYERS = ("GA", "A1", "A2", "A3", "A4", "A5", "A6", "A7", "GB", "B1", "B2", "B3", "B4", "B5", "B6", "B7")
KEEPERS = (0, 8)
REFEREE = 16
"""The referee's number among the bodies; 0 to 15 are the players, 8 of team A and 8 of team B."""
BALL = -1

_MEASURED = {
    8: 511_996_143,
    13: 4_570_956_393,
    14: 4_575_957_128,
    16: 4_591_973_318,
    19: 4_607_976_364,
    23: 4_634_964_775,
    24: 4_639_979_697,
    28: 4_666_976_567,
    38: 4_730_966_082,
    52: 4_820_974_575,
    53: 4_826_976_454,
    54: 4_831_972_992,
    57: 4_852_968_515,
    58: 4_858_955_985,
    59: 4_863_973_181,
    61: 4_879_962_443,
    62: 4_884_967_829,
    63: 4_890_971_072,
    64: 4_895_971_357,
    65: 4_904_018_254,
    66: 4_911_964_709,
    67: 4_916_988_763,
    68: 4_922_968_613,
    69: 4_927_979_140,
    71: 4_943_978_513,
    73: 4_954_965_012,
    74: 4_961_944_016,
    75: 4_968_026_489,
}
"""Periods seen in rows of the real match, in picoseconds."""

_WORN = {
    "left_leg": (13, 47, 49, 19, 53, 23, 57, 59, 61, 63, 65, 67, 69, 71, 73, 75, 105),
    "right_leg": (14, 16, 88, 52, 54, 24, 58, 28, 62, 64, 66, 68, 38, 40, 74, 44, 106),
}
_GLOVES = {97: (0, "left_arm"), 98: (0, "right_arm"), 99: (8, "left_arm"), 100: (8, "right_arm")}


def period_of(sid: int) -> int:
    """The measured period, or for sensors never measured what the line through the others says (their periods grow with the id)."""
    if sid in _MEASURED:
        return _MEASURED[sid]
    return 511_996_143 + 1_000 * (sid - 8) if sid in BALLS else 4_487_176_400 + 6_411_627 * sid


SENSORS = tuple(
    sorted(
        [
            *(Sensor(s, body, limb, period_of(s)) for limb, ids in _WORN.items() for body, s in enumerate(ids)),
            *(Sensor(s, body, limb, period_of(s)) for s, (body, limb) in _GLOVES.items()),
            *(Sensor(s, BALL, "ball", period_of(s)) for s in BALLS),
        ],
        key=lambda s: s.sid,
    )
)
"""All 42 of them, by id."""


def team_of(body: int) -> int:
    """0 for team A, 1 for team B."""
    return body // 8


def attack(body: int, half: int) -> int:
    """The side that a player attacks: the sign of y. Team A starts at negative y; sides change in the second half."""
    return (1 if team_of(body) == 0 else -1) * (1 if half == 0 else -1)


def goal_crossed(x: float, z: float, side: int) -> bool:
    """Whether a ball that crosses the goal line here is in the goal."""
    low, high = GOAL_X[side]
    return low < x < high and z < GOAL_HEIGHT


def inside(x: float, y: float) -> bool:
    """Whether a place is in the field."""
    return X[0] <= x <= X[1] and Y[0] <= y <= Y[1]
