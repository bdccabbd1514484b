"""Pins: what every micro-batch of a hub runs, by its number; written once, before the micro-batch before it commits."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hydrophone.engine.subscription import Span
from hydrophone.errors import DataError, StateVersionError
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.spark.hub.registry import FORMAT

KEPT_PINS = 100
"""Pins that stay, as many as Spark keeps of its own logs."""
KEPT_ENDED = 100
"""Queries that have ended and are still listed."""


@dataclass(frozen=True)
class PinnedQuery:
    """A query of a hub, as of one micro-batch.

    Attributes
    ----------
    number : of its results; never given again
    name : what the user calls it
    token : what its sink is claimed with
    plan : its name in the registry
    since : for a fresh start the first instant that counts, by number of source
    start, end : the interval of event time
    pauses, paused : pieces that are cut out of it, and where the present pause began
    added : the first micro-batch that runs it
    mark : of its results, in the slowest shard
    frontier : the first instant after all results that have been made, or the mark of the fastest shard
    rows : how many it has given
    """

    number: int
    name: str
    token: str
    plan: str
    start: int
    added: int
    since: dict[str, int] = field(default_factory=dict)
    end: int = MAX_TIME
    pauses: tuple[Span, ...] = ()
    paused: int | None = None
    mark: int = MIN_TIME
    frontier: int = MIN_TIME
    rows: int = 0

    def spans(self) -> list[Span]:
        """The interval without the pauses."""
        open_at, found = self.start, []
        for low, high in [*self.pauses, *([] if self.paused is None else [(self.paused, MAX_TIME)])]:
            found.append((open_at, low))
            open_at = high
        found.append((open_at, MAX_TIME))
        return [(low, min(high, self.end)) for low, high in found if low < min(high, self.end)]

    @property
    def over(self) -> bool:
        """Whether the mark has passed the end of the interval."""
        return self.mark >= self.end


@dataclass(frozen=True)
class Pin:
    """What one micro-batch runs.

    Attributes
    ----------
    batch : its number
    seen : by source the largest end of all rows that were in time, before this micro-batch
    request : the last request that is part of it
    ports : by level and digest the numbers of ports in use
    next_query, next_port : numbers that were never given
    queries : what runs
    ended : what ran before, the latest last: what `queries` say at the end, with the state and the error
    refused : by request why it was refused
    """

    batch: int
    seen: tuple[int, ...]
    next_port: int
    request: int = -1
    next_query: int = 1
    ports: dict[str, int] = field(default_factory=dict)
    queries: tuple[PinnedQuery, ...] = ()
    ended: tuple[dict[str, Any], ...] = ()
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)

    def named(self, name: str) -> PinnedQuery | None:
        """The running query of a name."""
        return next((q for q in self.queries if q.name == name), None)

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str, path: str) -> Pin:
        """As it was written."""
        try:
            found = json.loads(text)
            form = found.pop("format")
            if form != FORMAT:
                raise StateVersionError(
                    f"hub: {path} has format {form}, this release reads format {FORMAT}",
                    hint="go on with the release that wrote it",
                )
            queries = tuple(
                PinnedQuery(**{**q, "pauses": tuple((low, high) for low, high in q["pauses"])})
                for q in found.pop("queries")
            )
            told = {**found, "seen": tuple(found["seen"]), "ended": tuple(found["ended"])}
            return cls(queries=queries, **told)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"hub: {path} is damaged: {error}", hint="put back the file that was written with this checkpoint"
            ) from None


@dataclass(frozen=True)
class Pins:
    """The folder of pins."""

    folder: Path

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch}.json"

    def find(self, batch: int) -> Pin | None:
        """The pin of a micro-batch; None where it is not pinned."""
        path = self._path(batch)
        try:
            return Pin.from_json(path.read_text(), str(path))
        except FileNotFoundError:
            return None

    def read(self, batch: int) -> Pin:
        """The pin of a micro-batch."""
        found = self.find(batch)
        if found is None:
            raise DataError(
                f"hub: {self._path(batch)} is missing, so that nobody knows what micro-batch {batch} runs",
                hint="put back the file that was written with this checkpoint",
            )
        return found

    def write_once(self, pin: Pin) -> Pin:
        """Pin a micro-batch, unless it is; what is pinned then."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{pin.batch}.{uuid.uuid4().hex}"
        with draft.open("w") as file:
            file.write(pin.to_json())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._path(pin.batch))
        except FileExistsError:
            return self.read(pin.batch)
        finally:
            draft.unlink()
        return pin

    def numbers(self) -> list[int]:
        """The micro-batches that are pinned."""
        if not self.folder.is_dir():
            return []
        return sorted(int(p.stem) for p in self.folder.iterdir() if p.stem.isdecimal() and p.suffix == ".json")

    def latest(self) -> Pin | None:
        """The last pin."""
        numbers = self.numbers()
        return self.find(numbers[-1]) if numbers else None

    def prune(self, before: int) -> None:
        """Remove the pins that no replay needs."""
        for number in self.numbers():
            if number < before:
                self._path(number).unlink(missing_ok=True)
