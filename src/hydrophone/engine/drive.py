"""Driving a graph: its sources are read in turn, by whoever calls, or by a thread of the graph."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa

from hydrophone.engine.graph import RunningGraph
from hydrophone.engine.readers import Ended, Reader, reader
from hydrophone.engine.turns import Feed
from hydrophone.errors import PlanError

_log = logging.getLogger("hydrophone")

PATIENCE = 5.0
"""Seconds that a turn has to end when the graph closes."""
NAP = 0.05
"""Seconds after which a driver that has nothing to do looks again, where nobody wakes it."""


class Driver:
    """Reads the sources of a graph that somebody uses and that nobody pushes to, one table of each in a turn.

    Parameters
    ----------
    rows : rows of a table that is read
    queued : tables that a source of its own thread may be ahead
    burst : tables of each source that are taken in one turn, if they are there
    """

    def __init__(self, graph: RunningGraph, rows: int, queued: int, burst: int) -> None:
        self._graph, self._rows, self._queued, self._burst = graph, rows, queued, burst
        self._readers: dict[int, Reader] = {}
        self._arrived, self._stop, self._turn = threading.Event(), threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether a thread of the graph drives it."""
        return self._thread is not None and self._thread.is_alive()

    def waiting(self, feed: Feed) -> int:
        """Tables of a source that wait in its queue."""
        return self._readers[feed.number].waiting if feed.number in self._readers else 0

    def open(self) -> None:
        """Begin to read the sources that are used: those with a thread of their own fill their queues."""
        for feed in self._graph.read_feeds():
            if feed.number not in self._readers:
                self._readers[feed.number] = reader(feed.source, self._rows, self._queued, self._arrived)

    def step(self) -> bool | None:
        """One turn. False: there was nothing at the moment; None: there is nothing to read any more, or somebody else drives."""
        if not self._turn.acquire(blocking=False):
            return None
        try:
            self._arrived.clear()
            self.open()
            feeds = self._graph.read_feeds()
            something = [(feed, found) for feed in feeds for found in self._take(feed)]
            if something:
                self._graph.changes.run(lambda: self._graph.take(something), turn=True)
        finally:
            self._turn.release()
        return bool(something) if feeds else None

    def _take(self, feed: Feed) -> Iterator[pa.Table | Ended]:
        """What there is of one source, up to a burst; how long the first of it has waited is its load."""
        one = self._readers[feed.number]
        for number in range(self._burst):
            found = one.take()
            if found is not None:
                if not number:
                    feed.load = feed.shedding.load(one.delay, one.full)
                yield found
            if found is None or isinstance(found, Ended):
                return

    def run(self) -> None:
        """Drive until there is nothing to read any more."""
        if self.running:
            raise PlanError(
                "run: the graph runs already, in a thread of its own", hint="wait for a subscription: wait()"
            )
        while (found := self.step()) is not None:
            if not found:
                self._arrived.wait(NAP)
        self._graph.changes.run(self._graph.flush)

    def start(self) -> None:
        """Drive in a thread, also what comes later, until `close`."""
        if not self.running:
            self._stop.clear()
            self._thread = threading.Thread(target=self._work, daemon=True, name="hydrophone graph")
            self._thread.start()

    def _work(self) -> None:
        while not self._stop.is_set():
            if not self.step():
                self._arrived.wait(NAP)

    def close(self) -> None:
        """Stop driving and reading."""
        self._stop.set()
        self._arrived.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                _log.warning("the graph closes while a sink or a source does not come back; its thread is left behind")
        for one in self._readers.values():
            one.close()
        self._readers.clear()
