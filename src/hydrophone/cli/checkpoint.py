"""Describes the checkpoint of a streaming query without running the query."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydrophone.errors import DataError, ParameterError

MANIFEST = "hydrophone.json"
Facts = list[tuple[str, object]]


def describe_checkpoint(path: str) -> Iterator[tuple[str, Facts]]:
    """Titles and facts: the manifest of the checkpoint, and the progress of Spark.

    Examples
    --------
    >>> list(describe_checkpoint("nowhere"))
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: state: there is no folder nowhere
    """
    folder = Path(path)
    if "://" in path:
        raise ParameterError(f"state: {path} is not on this machine", hint="copy it here first")
    if not folder.is_dir():
        raise ParameterError(f"state: there is no folder {path}")
    yield f"checkpoint {path}", list(_manifest(folder).items())
    for log in sorted(folder.rglob("commits")):
        if log.is_dir() and "state" not in log.relative_to(folder).parts:
            inner = log.parent.relative_to(folder)
            yield "progress" if inner == Path() else f"progress of {inner}", _checkpoint_progress(log.parent)
    yield "on disk", _folder_sizes(folder)


def _manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    try:
        # If Spark wrote it, it is a folder with one part.
        parts = sorted(file.rglob("part-*")) if file.is_dir() else [file]
        found = json.loads("".join(p.read_text() for p in parts))
    except FileNotFoundError:
        spark = (folder / "commits").is_dir()
        raise DataError(
            f"state: there is no {MANIFEST} in {folder}: this is no checkpoint of Hydrophone's",
            hint="it is one of another Spark query"
            if spark
            else "name the folder that start(checkpoint=...) was given",
        ) from None
    except ValueError as error:
        raise DataError(f"state: {file} can't be read: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"state: {file} holds no object but a {type(found).__name__}")
    return found


def _checkpoint_progress(folder: Path) -> Facts:
    planned, done = _micro_batches(folder / "offsets"), _micro_batches(folder / "commits")
    facts: Facts = [("last micro-batch that is done", done[-1] if done else "none")]
    if planned and (not done or planned[-1] > done[-1]):
        facts.append(("begun and not done, runs again at the next start", planned[-1]))
    if done:
        facts.append(("done at", _modified(folder / "commits" / str(done[-1]))))
    return facts


def _micro_batches(folder: Path) -> list[int]:
    """The micro-batches that a log of Spark's has an entry for."""
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal()) if folder.is_dir() else []


def _modified(file: Path) -> str:
    return dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC).isoformat(sep=" ", timespec="seconds")


def _folder_sizes(folder: Path) -> Facts:
    facts: Facts = []
    for part in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        files = [f for f in part.rglob("*") if f.is_file()]
        facts.append((part.name, f"{len(files)} files, {_bytes(sum(f.stat().st_size for f in files))}"))
    return facts


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
