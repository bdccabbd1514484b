"""The registry: plans by digest of their bytes, in a folder that only its owner may write, because plans are code."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from hydrophone.errors import DataError, StateVersionError
from hydrophone.version import __version__

FORMAT = 1
"""Of the files of a hub."""
PATIENCE = 86_400.0
"""Seconds for which a plan stays that nothing names."""


def release_line() -> dict[str, Any]:
    """What must be equal where a plan is written and where it is loaded."""
    return {
        "format": FORMAT,
        "release": ".".join(__version__.split(".")[:2]),
        "python": ".".join(map(str, sys.version_info[:2])),
    }


@dataclass(frozen=True)
class Registry:
    """The plans of a hub.

    Attributes
    ----------
    folder : where they lie, with the permissions of its owner alone
    """

    folder: Path

    def prepare(self) -> None:
        """Make the folder, and refuse one that others may write."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_owner(self.folder)

    def put(self, what: Any) -> str:
        """Write something; its name is the digest of its bytes."""
        self.prepare()
        data = json.dumps(release_line()).encode() + b"\n" + cloudpickle.dumps(what)  # type: ignore[no-untyped-call]
        name = hashlib.sha256(data).hexdigest()
        path = self.folder / name
        if not path.exists():
            draft = self.folder / f".{name}.{uuid.uuid4().hex}"
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        return name

    def get(self, name: str) -> Any:
        """Load what was written under a name: as it was, by the owner of the folder, and by this release."""
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise DataError(f"hub: {name!r} names no plan", hint="a plan is named by the digest of its bytes")
        path = self.folder / name
        check_owner(self.folder)
        try:
            check_owner(path)
            found = path.stat()
        except FileNotFoundError:
            raise DataError(
                f"hub: the plan {path} is missing", hint="put back the file that was written there"
            ) from None
        return _load(path, found.st_mtime_ns, found.st_size)

    def forget(self, kept: set[str]) -> None:
        """Remove all but some plans; those of the last day stay, because a request may be about to name one."""
        for path in self.folder.iterdir():
            if path.name not in kept and time.time() - path.stat().st_mtime > PATIENCE:
                path.unlink(missing_ok=True)


@lru_cache(maxsize=512)
def _load(path: Path, changed: int, size: int) -> Any:
    with path.open("rb") as file:
        check_owner(path, os.fstat(file.fileno()))  # of what is read, whatever has come in its place since
        data = file.read()
    if hashlib.sha256(data).hexdigest() != path.name:
        raise DataError(
            f"hub: the plan {path} was changed or is damaged: its bytes do not have the digest that is its name",
            hint="remove it, and subscribe the query again",
        )
    head, _, body = data.partition(b"\n")
    said, here = json.loads(head), release_line()
    if said != here:
        raise StateVersionError(
            f"hub: the plan {path} was written by {_told(said)}, this is {_told(here)}",
            hint="subscribe the query again with this release, or go on with the one that wrote it",
        )
    return cloudpickle.loads(body)


def _told(said: dict[str, Any]) -> str:
    return f"release {said.get('release')} on Python {said.get('python')} (format {said.get('format')})"


def check_owner(path: Path, about: os.stat_result | None = None) -> None:
    """Refuse a file or folder that somebody else owns or may write: what lies there may be run."""
    found = about or path.stat()
    if found.st_uid != os.geteuid():
        raise DataError(
            f"hub: {path} belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}",
            hint="plans are code: a hub runs only those that its own user has written",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DataError(
            f"hub: others may write {path} (mode {stat.S_IMODE(found.st_mode):o})",
            hint=f"plans are code: chmod go-w {path}, and see that nobody has changed what lies there",
        )
