"""A match as a source of queries, on every engine: rows of sensors from files or tables, and interruptions of the game."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hydrophone as hp
from hydrophone.apps.soccer import field, rows
from hydrophone.connect.file_data import FileData
from hydrophone.connect.files import File
from hydrophone.errors import DataError
from hydrophone.plan.data import Piece, Times

PIECE_BYTES = 16 << 20
"""Bytes that a task reads at once."""
SCHEMA = pa.schema([("t", pa.int64()), *((name, pa.int64()) for name in rows.FIELDS)])
"""The challenge's columns, and `t`: the same time in nanoseconds, by which queries run."""
LAST_BALL = max(field.BALLS)
LEGS = (13, 88)
"""Balls have the lowest ids; those from 13 to 88 are on legs of players. To compare numbers is faster than to look them up."""
STOPS = pa.schema([("t", pa.int64()), ("end", pa.int64()), ("mark", pa.int64())])


def from_file(path: str | Path) -> hp.Stream:
    """The match in a file, or in a folder of them: the sensor is the key, `t` the time in nanoseconds, `ts` in picoseconds.

    Examples
    --------
    >>> import tempfile
    >>> from hydrophone.apps.soccer import game
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> path = tempfile.mkdtemp() + "/game.csv"
    >>> written = Match(seed=1, seconds=20).write(path, 0, 1)
    >>> game.from_file(path).to_arrow().num_rows == written
    True
    """
    return hp.read.data(GameData(str(path)), key="sid", time="t", progress=hp.ordered())


def from_tables(tables: Iterable[pa.Table]) -> hp.Stream:
    """The match in tables of the challenge's columns, such as ``Match(seed=1).blocks(0, 60)``; see `from_file`.

    Examples
    --------
    >>> from hydrophone.apps.soccer import game
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> match = game.from_tables(Match(seed=1, seconds=20).blocks(0, 1))
    >>> sorted(set(match.to_arrow()["sid"].to_pylist()))[:3]
    [4, 8, 10]
    """
    parts = [timed(t) for t in tables]
    return hp.from_arrow(
        pa.concat_tables([SCHEMA.empty_table(), *parts]), key="sid", time="t", progress=hp.ordered(), name="match"
    )


def balls(match: hp.Stream) -> hp.Stream:
    """Rows of balls."""
    return match.where(hp.col("sid") <= LAST_BALL)


def legs(match: hp.Stream) -> hp.Stream:
    """Rows of legs of players, not of the referee's."""
    return match.where((hp.col("sid") >= LEGS[0]) & (hp.col("sid") <= LEGS[1]))


def interruptions(stops: pa.Table) -> hp.Stream:
    """When the game stood still, from a table with `start` and `end` in picoseconds; they may overlap.

    Examples
    --------
    >>> from hydrophone.apps.soccer import game
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> from hydrophone.apps.soccer.truth import Truth
    >>> game.interruptions(Truth(Match(seed=1, seconds=60)).interruptions()).to_arrow().column_names
    ['t', 'end', 'mark']
    """
    table = stop_rows(stops)
    return hp.from_arrow(table, time="t", end="end", progress=hp.punctuated("mark"), name="interruptions")


def interruptions_from_files(path: str | Path) -> hp.Stream:
    """The same from Parquet files with the rows of `stop_rows`, for streams: a row without a time says how far the referee has seen."""
    columns = {name: "int64" for name in STOPS.names}
    return hp.read.parquet(
        str(path), time="t", end="end", progress=hp.punctuated("mark"), schema=columns, name="interruptions"
    )


def stop_rows(stops: pa.Table, until: int | None = None) -> pa.Table:
    """Interruptions in nanoseconds, in order, and a last row that says that none will come before `until` (picoseconds; else: ever)."""
    start, end = (stops[name].to_numpy() // 1000 for name in ("start", "end"))
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if (end <= start).any():
        raise DataError(f"interruptions: {int((end <= start).sum())} end before they begin")
    last = np.iinfo(np.int64).max // 2 if until is None else until // 1000
    columns = [pa.array([*start, None], pa.int64()), pa.array([*end, None], pa.int64()), pa.array([*start, last])]
    return pa.table(columns, schema=STOPS)


def timed(table: pa.Table) -> pa.Table:
    """With the time in nanoseconds."""
    return table.add_column(0, "t", pc.divide(table["ts"], 1000)).select(SCHEMA.names)


@dataclass(frozen=True, eq=False)
class GameData(FileData):
    """Rows of the challenge's file, or of files that a simulator writes, in pieces that tasks read by themselves."""

    kind = "game"
    suffixes = (".csv", ".csv.gz")

    def schema_of(self, path: str) -> pa.Schema:
        """All files have the same columns."""
        return SCHEMA

    def pieces_of(self, file: File, columns: Sequence[str], times: Times) -> Sequence[Piece]:
        """Stretches of whole lines; when each begins is read from its first line."""
        if file.path.endswith(".gz") or not file.size:
            return [Piece(file, 0, 0, file.size)]
        cuts = _cuts(file.path, file.size)
        begins = [_time_at(file.path, cut) for cut in cuts[:-1]]
        ends = [begin + 1 for begin in begins[1:]] + [_last_time(file.path, file.size) + 1]
        found = []
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            size = cuts[number + 1] - cuts[number]
            found.append(Piece(file, number, size // _TYPICAL_LINE, size, begin, end, known=True))
        return found

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """Parse some pieces, or everything."""
        wanted = [name for name in rows.FIELDS if name in columns or (name == "ts" and "t" in columns)]
        if numbers is None or path.endswith(".gz"):
            found = rows.read(path, fields=tuple(wanted))
        else:
            cuts = _cuts(path, Path(path).stat().st_size)
            found = (t for n in numbers for t in rows.read_range(path, cuts[n], cuts[n + 1], fields=tuple(wanted)))
        latest = None
        for table in found:
            if "ts" in wanted:
                latest = _in_order(path, table["ts"].to_numpy(), latest)
                table = table.append_column("t", pc.divide(table["ts"], 1000))
            yield table.select(list(columns))


_TYPICAL_LINE = 85
"""Bytes of a row in the file."""


def _cuts(path: str, size: int) -> list[int]:
    """Where pieces begin: at the first line that begins at a multiple of their size or after it; and the end of the file."""
    cuts = [0]
    with open(path, "rb") as file:
        for near in range(PIECE_BYTES, size, PIECE_BYTES):
            file.seek(near - 1)
            file.readline()
            if cuts[-1] < file.tell() < size:
                cuts.append(file.tell())
    return [*cuts, size]


def _time_at(path: str, at: int) -> int:
    """The time of the line that begins there, in nanoseconds; a broken one is an error when it is read."""
    with open(path, "rb") as file:
        file.seek(at)
        return _time_of(file.readline())


def _last_time(path: str, size: int) -> int:
    """The time of the last line."""
    with open(path, "rb") as file:
        file.seek(max(size - 4096, 0))
        return _time_of(file.read().rstrip(b"\r\n").rpartition(b"\n")[2])


def _time_of(line: bytes) -> int:
    parts = line.split(b",")
    return int(parts[1]) // 1000 if len(parts) > 1 and parts[1].isdigit() else field.KICK_OFFS[0] // 1000


def _in_order(path: str, ts: np.ndarray, latest: int | None) -> int | None:
    """Refuse times that go back: pieces, and all that waits for progress, rely on their order. Gives the latest time."""
    if not len(ts):
        return latest
    before = ts[0] if latest is None else latest
    if ts[0] < before or (ts[1:] < ts[:-1]).any():
        at = 0 if ts[0] < before else 1 + int(np.argmax(ts[1:] < ts[:-1]))
        raise DataError(
            f"{path}: times go back to {ts[at]}, after {ts[at - 1] if at else before}",
            hint="sort the file by its second column: sort -t, -k2,2n -s",
        )
    return int(ts[-1])
