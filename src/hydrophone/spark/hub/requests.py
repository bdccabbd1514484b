"""Requests: what users ask of a hub, as numbered files in its folder. They hold names and numbers, never code."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydrophone.errors import DataError

SUFFIX = ".request"

_KEYS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "subscribe": {"name": str, "plan": str, "token": str, "start": (str, int)},
    "unsubscribe": {"name": str, "token": str, "at": (int, type(None)), "now": bool},
    "pause": {"name": str, "token": str},
    "resume": {"name": str, "token": str},
    "wake": {},
    "stop": {},
}
"""What may be asked, and what a request says beside that."""


@dataclass(frozen=True)
class Requests:
    """The folder of requests, which the stream watches: a new file wakes it. Requests are numbered without a hole."""

    folder: Path

    def add(self, ask: str, **said: Any) -> int:
        """Write a request whole, under the next number; of two at a time each gets a number of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{uuid.uuid4().hex}"
        draft.write_text(json.dumps({"ask": ask, **said}))
        try:
            while True:
                number = max(self.numbers(), default=-1) + 1
                try:
                    os.link(draft, self._path(number))
                except FileExistsError:
                    time.sleep(0.001)
                else:
                    return number
        finally:
            draft.unlink()

    def after(self, number: int) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
        """The requests after one, in their order; what is no request is an error in its place."""
        found = number + 1
        while (path := self._path(found)).exists():
            try:
                yield found, _checked(path)
            except DataError as error:
                yield found, error
            found += 1

    def numbers(self) -> list[int]:
        """Of all requests that are there."""
        return sorted(int(p.stem) for p in self.folder.glob(f"*{SUFFIX}") if p.stem.isdecimal())

    def prune(self, before: int) -> None:
        """Remove requests that were answered, but for the last, which gives the next its number."""
        for number in self.numbers()[:-1]:
            if number < before:
                self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012}{SUFFIX}"


def _checked(path: Path) -> dict[str, Any]:
    hint = "requests are written by Hub and by `hydrophone hub`, whole; this one is left out"
    try:
        said = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"hub: the request {path} is half written or damaged: {error}", hint=hint) from None
    known = _KEYS.get(said.get("ask", "")) if isinstance(said, dict) else None
    if known is None or said.keys() != {"ask", *known}:
        raise DataError(f"hub: {path} is no request: {str(said)[:100]}", hint=hint)
    for name, kind in known.items():
        if not isinstance(said[name], kind):
            raise DataError(f"hub: {path}: {name} is {said[name]!r}", hint=hint)
    return dict(said)
