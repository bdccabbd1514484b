"""Rows of the challenge: thirteen integers, read and written as CSV without a header. Times stay in picoseconds, exactly."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from hydrophone.apps.soccer.field import SENSORS
from hydrophone.errors import DataError, ParameterError
from hydrophone.model.compiled import compiled

FIELDS = ("sid", "ts", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
"""Sensor, picoseconds, place in mm, speed in µm/s, acceleration in µm/s², and their directions with length 10,000."""
BLOCK_BYTES = 16 << 20
_KNOWN = np.zeros(256, np.bool_)
_KNOWN[[s.sid for s in SENSORS]] = True


def read(path: str | Path, *, fields: tuple[str, ...] = FIELDS, unknown: str = "error") -> Iterator[pa.Table]:
    r"""Read a file of the challenge or of the simulator, block by block; compressed files by their suffix.

    Parameters
    ----------
    path : str or Path
        The file; it has no header.
    fields : tuple of str
        Which columns to give; others are checked all the same.
    unknown : {"error", "drop"}
        What to do with rows of sensors that nobody wears.

    Yields
    ------
    pyarrow.Table
        Integers of 64 bits, in the order of the file.

    Raises
    ------
    DataError
        For a row with missing or further fields, with something that is no integer, or (unless dropped) of an unknown
        sensor; it names file and line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hydrophone.apps.soccer import rows
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "game.csv"
    >>> _ = path.write_text("4,10753295594424116,27187,-405,451,5053947,341072227,-1830,9748,1268,-4018,9154,198\n")
    >>> next(rows.read(path))["ts"][0].as_py()
    10753295594424116
    """
    if unknown not in ("error", "drop"):
        raise ParameterError(f"read: unknown is 'error' or 'drop', got {unknown!r}")
    absent = [f for f in fields if f not in FIELDS]
    if absent:
        raise ParameterError(f"read: no field {absent[0]!r}; rows have: {', '.join(FIELDS)}")
    with _bytes(path) as file:
        yield from _tables(path, file, None, fields, unknown)


def read_range(path: str | Path, start: int, stop: int, *, fields: tuple[str, ...] = FIELDS) -> Iterator[pa.Table]:
    """Read the lines between two bytes of a file that is not compressed; both are where lines begin."""
    with open(path, "rb") as file:
        file.seek(start)
        try:
            yield from _tables(path, file, stop - start, fields, "error")
        except BrokenRow as error:
            file.seek(0)
            raise error.after(file.read(start).count(b"\n")) from None


def _tables(
    path: str | Path, file: IO[bytes], size: int | None, fields: tuple[str, ...], unknown: str
) -> Iterator[pa.Table]:
    """Tables of whole lines, of the rest of a file or of so many bytes."""
    done, rest, left = 0, b"", size
    while chunk := file.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
        left = None if left is None else left - len(chunk)
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        data, rest = data[:whole], data[whole:]
        yield _table(path, data, done, unknown).select(list(fields))
        done += data.count(b"\n")
    if rest:
        yield _table(path, rest + b"\n", done, unknown).select(list(fields))


def _table(path: str | Path, data: bytes, done: int, unknown: str) -> pa.Table:
    """The rows of whole lines, which follow `done` others."""
    out = np.empty((len(FIELDS), data.count(b"\n")), np.int64)
    count = parse(np.frombuffer(data, np.uint8), out)
    if count < out.shape[1]:
        raise _refusal(path, data, done, count)
    known = _known(out[0])
    if not known.all():
        if unknown == "error":
            raise _refusal(path, data, done, int(np.argmin(known)))
        out = out[:, known]
    return pa.table(list(out), names=list(FIELDS))


@compiled
def parse(data: Any, out: Any) -> Any:
    """Parse lines of integers into columns; gives how many lines are whole and sound."""
    width, count = out.shape
    at = 0
    for row in range(count):
        for column in range(width):
            minus = data[at] == 45
            at += minus
            first, value = at, np.int64(0)
            while 48 <= data[at] <= 57:
                value = value * 10 + (np.int64(data[at]) - 48)
                at += 1
            # Nineteen digits may not fit; no field of the format has as many.
            if at == first or at - first > 18:
                return row
            out[column, row] = -value if minus else value
            if column + 1 < width:
                if data[at] != 44:
                    return row
                at += 1
        at += data[at] == 13
        if data[at] != 10:
            return row
        at += 1
    return count


def _known(sid: Any) -> Any:
    """Which sensors there are."""
    inside = (sid >= 0) & (sid < len(_KNOWN))
    return inside & _KNOWN[np.where(inside, sid, 0)]


class BrokenRow(DataError):
    """A row that cannot be read: which line of the file it is, and what is wrong with it."""

    def __init__(self, path: str | Path, line: int, fault: str) -> None:
        super().__init__(f"{path}, line {line}: {fault}", hint="rows are 13 integers: " + ",".join(FIELDS))
        self.path, self.line, self.fault = path, line, fault

    def after(self, lines: int) -> BrokenRow:
        """The same where so many lines came before those that were counted."""
        return BrokenRow(self.path, self.line + lines, self.fault)


def _refusal(path: str | Path, data: bytes, done: int, row: int) -> BrokenRow:
    """What is wrong with a row of some lines, and where it is."""
    line = data.split(b"\n", row + 1)[row].rstrip(b"\r")
    return BrokenRow(path, done + row + 1, _fault(line))


def _fault(line: bytes) -> str:
    """What is wrong with a row."""
    parts = line.split(b",")
    if len(parts) != len(FIELDS):
        return f"{len(parts) if line else 'no'} fields instead of {len(FIELDS)}"
    for name, part in zip(FIELDS, parts, strict=True):
        if not re.fullmatch(rb"-?[0-9]+", part):
            return f"{name} is no integer: {part[:40].decode(errors='replace')!r}"
        if len(part.lstrip(b"-")) > 18:
            return f"{name} has more than 18 digits: {part[:40].decode()}"
    return f"no sensor has the id {parts[0].decode()}"


def _bytes(path: str | Path) -> IO[bytes]:
    """The file, unpacked if need be."""
    return gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


class Writer:
    """Writes rows to a file, and counts them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hydrophone.apps.soccer.rows import Writer, read
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "game.csv"
    >>> part = Match(seed=1, seconds=20).rows(0, 1)
    >>> with Writer(path) as out:
    ...     out.write(part)
    >>> next(read(path)).equals(part.combine_chunks())
    True
    """

    def __init__(self, path: str | Path) -> None:
        schema = pa.schema([(name, pa.int64()) for name in FIELDS])
        self._out = pc.CSVWriter(str(path), schema, write_options=pc.WriteOptions(include_header=False))
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._out.close()

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        # Arrow 26 writes zero bytes for a table whose first chunk is empty.
        for batch in table.to_batches():
            if batch.num_rows:
                self._out.write_batch(batch)
        self.count += table.num_rows
