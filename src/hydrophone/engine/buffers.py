"""Buffers: batches and marks that wait on an edge of a running plan, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from hydrophone.engine.stations import Station, key_marks_of
from hydrophone.model.batch import Batch, Progress
from hydrophone.model.key_table import KeyTable
from hydrophone.model.marks import Mark
from hydrophone.plan.node import Node

if TYPE_CHECKING:
    from hydrophone.engine.regions import Region

Edge = tuple[Node, int]
"""An edge by its reader: the operator, and which of its inputs."""


class Item(NamedTuple):
    """What waits in a buffer.

    Attributes
    ----------
    number : when it came, over all buffers
    what : a batch, or the progress of all that came before it
    nbytes : of the batch
    """

    number: int
    what: Batch | Progress
    nbytes: int


class Buffer:
    """An edge that holds what passes until the reader is run.

    To the station that fills it, it is a reader (`step`, `mark`); to the reader it is an input, whose progress is that of the last
    mark that was taken out. It has no bound of its own: who fills it is not run while it `is_full`, so that it holds at most
    `limit` bytes and what one batch gives.

    Attributes
    ----------
    source, reader, port : the edge
    limit : bytes above which it is full
    stations : what a batch or mark from here reaches without another buffer, inputs first
    outputs : the buffers behind these
    feeder, region : the region that fills it (None: one that has a port), and the one that empties it
    progress : what the reader was promised
    """

    out: list[Batch] | None = None
    feeder: Region | None = None
    region: Region

    def __init__(self, source: Station, reader: Station, port: int, limit: int) -> None:
        self.source, self.reader, self.port, self.limit = source, reader, port, limit
        self.node = source.node
        self.downstream: tuple[tuple[Station | Buffer, int], ...] = ((reader, port),)
        self.stations: tuple[Station, ...] = ()
        self.outputs: tuple[Buffer, ...] = ()
        self.put: Callable[[Buffer, Batch | Progress, int], None] = _nowhere
        self.items: deque[Item] = deque()
        self.nbytes = self.batches_in = self.bytes_in = 0
        self.progress = self._marked = source.progress

    @property
    def out_keys(self) -> KeyTable:
        """The keys of what it holds."""
        return self.source.out_keys

    @property
    def live(self) -> bool:
        """Whether what it holds is needed."""
        return self.reader.live

    @property
    def roots(self) -> set[Node]:
        """What needs it."""
        return self.reader.roots

    @property
    def is_full(self) -> bool:
        """Whether who fills it should wait."""
        return self.nbytes >= self.limit

    @property
    def is_blocked(self) -> bool:
        """Whether what it holds has to wait, because a buffer behind it is full."""
        return any(buffer.is_full for buffer in self.outputs)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold a batch."""
        self._marked = None  # type: ignore[assignment]
        self.batches_in += 1
        self.put(self, batch, batch.nbytes)
        return ()

    def mark(self) -> None:
        """Hold the present progress of the source; after a mark without rows in between only the later one is held."""
        progress = self.source.progress
        if progress is not self._marked and not (progress.by_key is None and progress == self._marked):
            self._marked = progress
            self.put(self, progress, 0)

    def add(self, item: Item) -> bool:
        """Put something at the end. Return whether there is one more thing than before."""
        self.nbytes += item.nbytes
        self.bytes_in += item.nbytes
        if self.items and isinstance(item.what, Progress) and isinstance(self.items[-1].what, Progress):
            self.items[-1] = item._replace(number=self.items[-1].number)
            return False
        self.items.append(item)
        return True

    def take(self) -> Batch | Progress:
        """Take the first thing."""
        item = self.items.popleft()
        self.nbytes -= item.nbytes
        return item.what

    def mark_by_key(self) -> Mark:
        """The mark that the reader was promised, or marks per key."""
        return key_marks_of(self.source, self.progress)

    def locate(self, error: BaseException) -> None:
        """Errors are those of the reader."""
        self.reader.locate(error)


def _nowhere(*_: Any) -> None:
    raise AssertionError("a buffer outside of a scheduler")
