"""Readers: how a graph gets the rows of its sources, in the thread that drives it or in a thread of the source with a bounded queue."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Protocol, TypeAlias

import pyarrow as pa

from hydrophone.plan.source import Source

_log = logging.getLogger("hydrophone")

PATIENCE = 1.0
"""Seconds that a source of its own thread has to come back from a read when the graph closes."""


class Ended:
    """A source has no more rows; `error` says why, if it failed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


Taken: TypeAlias = "pa.Table | Ended | None"
"""What a reader gives: rows, the end, or None where there is nothing at the moment."""


class Reader(Protocol):
    """Reads one source."""

    def take(self) -> Taken:
        """The next rows."""

    @property
    def waiting(self) -> int:
        """Tables that wait in its queue."""

    @property
    def full(self) -> bool:
        """Whether the queue had no room when rows were taken from it the last time."""

    @property
    def delay(self) -> float | None:
        """Seconds that the latest rows have waited in the queue; None where there is none."""

    def close(self) -> None:
        """Stop reading."""


def reader(source: Source, rows: int, queued: int, arrived: threading.Event) -> Reader:
    """The reader that a source needs. `arrived` is set when a source of its own thread has something."""
    columns = source.layout.schema.names
    if source.data.live:
        return ThreadReader(source, columns, rows, queued, arrived)
    return DirectReader(source, columns, rows)


class DirectReader:
    """Reads in the thread that drives the graph, when it is asked."""

    waiting, full, delay = 0, False, None

    def __init__(self, source: Source, columns: list[str], rows: int) -> None:
        self._tables: Iterator[pa.Table] = iter(source.data.tables(columns, rows))

    def take(self) -> Taken:
        """The next rows, or the end."""
        try:
            table = next(self._tables, None)
        except Exception as error:
            return Ended(error)
        return Ended() if table is None else table

    def close(self) -> None:
        """Let go of what is open."""
        close = getattr(self._tables, "close", None)
        if close is not None:
            close()


class ThreadReader:
    """Reads in a thread of its own, which waits while the queue is full."""

    def __init__(self, source: Source, columns: list[str], rows: int, queued: int, arrived: threading.Event) -> None:
        self._source, self._arrived = source, arrived
        self._queue: queue.Queue[tuple[float, pa.Table | Ended]] = queue.Queue(queued)
        self.full, self.delay = False, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(columns, rows), daemon=True, name=f"hydrophone {source.title}"
        )
        self._thread.start()

    def _read(self, columns: list[str], rows: int) -> None:
        ended = Ended()
        try:
            with closing(self._source.data.tables_until(self._stop, columns, rows)) as tables:
                for table in tables:
                    if not self._put(table):
                        return
        except Exception as error:
            ended = Ended(error)
        self._put(ended)

    def _put(self, item: pa.Table | Ended) -> bool:
        begun = time.monotonic()
        while not self._stop.is_set():
            try:
                self._queue.put((begun, item), timeout=0.1)
            except queue.Full:
                continue
            self._arrived.set()
            return True
        return False

    def take(self) -> Taken:
        """What has come, if anything."""
        full = self._queue.full()
        try:
            begun, item = self._queue.get_nowait()
        except queue.Empty:
            return None
        self.full, self.delay = full, time.monotonic() - begun
        return item

    @property
    def waiting(self) -> int:
        """Tables in the queue."""
        return self._queue.qsize()

    def close(self) -> None:
        """Stop the thread; a source that does not come back from a read is closed under it, and left."""
        self._stop.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._source.data.wake()
            self._thread.join(PATIENCE)
        if self._thread.is_alive():
            _log.warning("%s does not come back from a read; its thread is left behind", self._source.title)
