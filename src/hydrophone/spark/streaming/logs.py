"""Spark's own files in a checkpoint: whether they are whole, and what to say where they are not."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hydrophone.errors import DataError

_ANEW = (
    "put back a copy of the file that was made while no query ran, or start with a new checkpoint and a new folder of results, "
    "which reads all input again"
)
_DAMAGE = re.compile(
    r"Checksum error|checksum|CANNOT_LOAD_STATE_STORE|CANNOT_READ|STATE_STORE\w*(?:INVALID|CORRUPT|NOT_FOUND)|Corruption|"
    r"EOFException|end-of-input|Incomplete log file|doesn't exist|does not exist|ZipException|"
    r"INVALID_LOG_VERSION\.\w+|Failed to read log file|No usable value for \w+"
)


def check_logs(checkpoint: Path) -> None:
    """Refuse a checkpoint in which an entry of Spark's logs is missing, empty, cut off or no log at all.

    Spark reads them when the query runs, and says then what its parser says. An entry of `commits` may be missing at the end: its
    micro-batch runs again.
    """
    if not any((checkpoint / name).is_dir() for name in ("offsets", "commits")):
        return
    _json(checkpoint / "metadata", checkpoint)
    offsets, commits = (_numbers(checkpoint / name) for name in ("offsets", "commits"))
    _check_entries(checkpoint / "offsets", offsets, last=max([-1, *offsets, *commits]))
    _check_entries(checkpoint / "commits", commits, last=max([-1, *commits]))
    for log in sorted(checkpoint.glob("sources/*")):
        _check_source(log, checkpoint, max([-1, *offsets]))


def _numbers(log: Path) -> list[int]:
    return sorted(int(p.name) for p in log.iterdir() if p.name.isdecimal()) if log.is_dir() else []


def _check_entries(log: Path, numbers: list[int], last: int) -> None:
    """Every entry from the first one that Spark has kept to the last is there and whole."""
    for number in range(min(numbers, default=last), last + 1):
        if number >= 0:
            _lines(log / str(number))


def _check_source(log: Path, checkpoint: Path, batch: int) -> None:
    """The entries from the last that was put together (``9.compact``) to the one that the last micro-batch takes."""
    compact = sorted(int(p.stem) for p in log.glob("*.compact"))
    first = compact[-1] if compact else 0
    taken = _taken(checkpoint / "offsets" / str(batch), int(log.name)) if batch >= 0 and log.name.isdecimal() else None
    for number in range(first, first if taken is None else taken + 1):
        whole = log / f"{number}.compact"
        _lines(whole if whole.exists() else log / str(number))


def _taken(entry: Path, source: int) -> int | None:
    """The last entry of a source's log that a micro-batch takes; None where its offsets are of another kind."""
    lines = entry.read_text().splitlines()
    try:
        return int(json.loads(lines[2 + source])["logOffset"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _lines(file: Path) -> None:
    text = _text(file)
    head, *rest = text.splitlines()
    if not re.fullmatch(r"v\d+", head):
        raise _damaged(file, f"it begins with {head[:20]!r}, and logs of Spark's with their version")
    for line in rest:
        if line not in ("", "-") and not _is_entry(line):
            raise _damaged(file, "it is cut off, or something else was written there")
    if not rest:
        raise _damaged(file, "it is cut off after its version")


def _json(file: Path, checkpoint: Path) -> None:
    if not _is_entry(_text(file)):
        raise _damaged(file, "it is no JSON, or says something else than Spark wrote")


_KINDS: dict[str, type] = {"id": str, "logOffset": int, "path": str, "timestamp": int, "batchId": int, "conf": dict}
"""Of what Spark writes: the kind of value that each name has. Sources that are no files have offsets of other kinds."""


def _is_entry(text: str) -> bool:
    """Whether a line is JSON in which nothing that Spark reads as a number or text is something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    if not isinstance(found, dict):
        return type(found) in (int, str)
    return all(type(found[name]) is kind for name, kind in _KINDS.items() if name in found)


def _text(file: Path) -> str:
    try:
        text = file.read_text()
    except FileNotFoundError:
        raise DataError(f"start: {file} is missing, and the checkpoint has later entries", hint=_ANEW) from None
    except UnicodeDecodeError:
        raise _damaged(file, "it holds no text") from None
    if not text.strip():
        raise _damaged(file, "it is empty")
    return text


def _damaged(file: Path, what: str) -> DataError:
    return DataError(f"start: {file} is damaged: {what}", hint=_ANEW)


def state_damage(text: str, checkpoint: str) -> DataError | None:
    r"""What Spark says of files of a checkpoint that it cannot read, as an error that names the file; None where it is about other things.

    Examples
    --------
    >>> print(state_damage("... Checksum error: file:/c/state/0/1/4.changelog at 0 exp: 1 got: 2\n...", "/c").message)
    start: /c/state/0/1/4.changelog is damaged or missing: Checksum error
    >>> print(state_damage("Failed to read log file file:/c/commits/1. [INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] ...", "/c").message)
    start: /c/commits/1 cannot be read by this release of Spark: INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION
    """
    root = checkpoint.removeprefix("file:").rstrip("/")
    found = re.search(rf"{re.escape(root)}/(?:state|offsets|commits|sources)/[^\s,;)\]]+", text)
    said = _DAMAGE.search(text) if found else re.search("CANNOT_LOAD_STATE_STORE", text)
    if not said:
        return None
    where = found[0].rstrip(".:'\"") if found else f"a file of the checkpoint {checkpoint}"
    if version := re.search(r"INVALID_LOG_VERSION\.\w+", text):
        hint = f"a newer one wrote it, or it is damaged: start with that release, or {_ANEW}"
        return DataError(f"start: {where} cannot be read by this release of Spark: {version[0]}", hint=hint)
    return DataError(f"start: {where} is damaged or missing: {said[0]}", hint=_ANEW)
