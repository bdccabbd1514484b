"""Buffers on edges of a running plan, where batches and marks wait in order, and the regions between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hydrophone.engine.stations import Reader, Station, key_marks_of
from hydrophone.model.batch import Batch, Progress
from hydrophone.model.key_table import KeyTable
from hydrophone.model.key_view import KeyView
from hydrophone.model.marks import Mark
from hydrophone.plan.node import Node

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
        self.downstream: tuple[tuple[Reader, int], ...] = ((reader, port),)
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
        for buffer in self.outputs:  # noqa: SIM110  a generator costs more than all the rest
            if buffer.nbytes >= buffer.limit:
                return True
        return False

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


class Region:
    """Stations joined by edges without a buffer: one thread at a time runs them, from a batch or mark of a buffer in front of them.

    Attributes
    ----------
    number : for `explain`
    stations : inputs first
    buffers, outputs : the buffers in front of them and behind them
    views : the key tables as its operators see them, where regions run in threads
    roots : those of the pipeline that are made here
    seconds : how long it has worked
    share : `seconds`, divided by its weight, where shares are handed out
    weight : its part of the time, against other regions
    served : when it ran last, as a count over all regions
    priority, rated : its `chain_priority`, and when that was computed, in counts of `served`
    is_ready, is_running, is_delivering : what the dispatcher does with it
    """

    def __init__(self, number: int, stations: Sequence[Station]) -> None:
        self.number, self.stations = number, tuple(stations)
        self.buffers: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.views: list[KeyView] = []
        self.roots = tuple(s.node for s in stations if s.out is not None)
        self.seconds = self.share = 0.0
        self.weight = 1.0
        self.served = self.rated = 0
        self.priority = float("inf")
        self.is_ready = self.is_running = self.is_delivering = False

    @property
    def waiting(self) -> int:
        """Batches and marks that wait."""
        return sum(len(buffer.items) for buffer in self.buffers)

    def oldest(self) -> Buffer | None:
        """The buffer whose first thing has waited longest and may run."""
        if len(self.buffers) == 1:
            only = self.buffers[0]
            return only if only.items and not (only.outputs and only.is_blocked) else None
        able = [buffer for buffer in self.buffers if buffer.items and not buffer.is_blocked]
        return min(able, key=lambda buffer: buffer.items[0].number, default=None)

    def refresh(self) -> None:
        """Let the operators see the keys that have come."""
        for view in self.views:
            view.refresh()


def _nowhere(*_: Any) -> None:
    raise AssertionError("a buffer outside of a scheduler")
