"""The referee's lists of the original match: interruptions, shots on goal and possession, and lists in the same form from the truth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from hydrophone.apps.soccer import field
from hydrophone.apps.soccer.score import Occurrence
from hydrophone.errors import DataError

HEADER = "event_id;event_name;event_time_real;event_counter;comment"
NAMES = (
    "Nick Gertje", "Dennis Dotterweich", "Niklas Waelzlein", "Wili Sommer", "Philipp Harlass", "Roman Hartleb", "Erik Engelhardt",
    "Sandro Schneider", "Leon Krapf", "Kevin Baer", "Luca Ziegler", "Ben Mueller", "Vale Reitstetter", "Christopher Lee", "Leon Heinze",
    "Leo Langhans",
)  # fmt: skip
"""The players' names, in the order of `field.PLAYERS`."""
_SPELLINGS = {"Niklas Welzlein": "A2", "Willi Sommer": "A3", "Ben Muller": "B3", "Ben Müller": "B3", "Kevin Bär": "B1"}
PLAYERS = dict(zip(NAMES, field.PLAYERS, strict=True)) | _SPELLINGS
_TIME = re.compile(r"(\d+):(\d\d):(\d\d)\.(\d{1,3})")


class Entry(NamedTuple):
    """A line of a list: its name, and nanoseconds since the half began."""

    name: str
    time: int


def entries(path: str | Path) -> Iterator[Entry]:
    """The lines of one of the referee's files, without the header and the statistic at its end."""
    for number, line in enumerate(Path(path).read_text("latin-1").splitlines(), 1):
        parts = line.strip().split(";")
        if parts[0].startswith("Statistic"):
            return
        if number == 1 or len(parts) < 3 or not parts[1].strip():
            continue
        yield Entry(parts[1].strip(), _nanoseconds(parts[2].strip(), path, number))


def _nanoseconds(text: str, path: str | Path, number: int) -> int:
    if text == "0":
        return 0
    found = _TIME.fullmatch(text)
    if found is None:
        raise DataError(
            f"{path}, line {number}: no time: {text!r}", hint="times are HH:MM:SS.mmm from the start of the half"
        )
    hours, minutes, seconds = (int(part) for part in found.groups()[:3])
    return ((hours * 60 + minutes) * 60 + seconds) * 10**9 + int(found[4].ljust(3, "0")) * 10**6


def read_interruptions(path: str | Path, half: int, offset: float = 0.0) -> pa.Table:
    """Begins and ends in pairs, in picoseconds; a begin without an end lasts until the end of the half. `offset` in seconds is added."""
    start = field.KICK_OFFS[half] + round(offset * field.PS)
    pairs: list[tuple[int, int]] = []
    begun: int | None = None
    for name, time in entries(path):
        if name.endswith("Begin"):
            begun = time
        elif name.endswith("End"):
            pairs.append((0 if begun is None else begun, time))
            begun = None
    if begun is not None:
        pairs.append((begun, round(field.HALF_SECONDS[half] * 1e9)))
    at = [[start + 1000 * t for t in side] for side in zip(*(p for p in pairs if p[1] > p[0]), strict=True)] or [[], []]
    return pa.table({"start": pa.array(at[0], pa.int64()), "end": pa.array(at[1], pa.int64())})


def read_shots(path: str | Path, half: int, offset: float = 0.0) -> list[Occurrence]:
    """Who shot when."""
    return [Occurrence(_player(path, e.name), t, t) for e in entries(path) for t in (_instant(e.time, half, offset),)]


def read_contacts(path: str | Path, half: int, player: str, offset: float = 0.0) -> list[Occurrence]:
    """When a player began to have the ball: the file of one player has begins and ends."""
    times = [e.time for e in entries(path) if e.name.endswith("Begin")]
    return [Occurrence(player, t, t) for t in (_instant(time, half, offset) for time in times)]


def write_list(path: str | Path, lines: Iterable[tuple[str, int]], half: int, lag: float = 0.0) -> None:
    """Write names and instants (nanoseconds) as the referee's files have them, `lag` seconds later."""
    start = field.KICK_OFFS[half] // 1000
    rows = [HEADER]
    for number, (name, time) in enumerate(lines, 1):
        ms = max(round((time - start) / 1e6 + lag * 1e3), 0)
        clock = f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
        rows.append(f"{6000 + number};{name};{clock if ms else '0'};{number};")
    Path(path).write_bytes("\r\n".join([*rows, "", "", "Statistic:", f"{len(rows) - 1} events;", ""]).encode("latin-1"))


def name_of(player: str) -> str:
    """The name of a player as the lists have it."""
    return NAMES[field.PLAYERS.index(player)]


def _player(path: str | Path, name: str) -> str:
    found = PLAYERS.get(name)
    if found is None:
        raise DataError(f"{path}: nobody is called {name!r}", hint=f"players: {', '.join(NAMES)}")
    return found


def _instant(time: int, half: int, offset: float) -> int:
    return field.KICK_OFFS[half] // 1000 + time + round(offset * 1e9)
