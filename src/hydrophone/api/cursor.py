"""Cursors: results of a graph for who asks for them, with `next` or with `async for`."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Self

import pyarrow as pa

from hydrophone.connect.sink import Sink
from hydrophone.engine.drive import NAP, Driver
from hydrophone.engine.subscription import Subscription
from hydrophone.errors import DataError


class Cursor(Sink, Iterator[pa.Table]):
    """The results of a query, table by table; `Graph.cursor` makes it.

    `next` runs a turn of the graph if nobody drives it, and waits if somebody does. At most `limit` tables wait to be read: then the
    graph waits, and after `patience` seconds in which nobody reads the subscription fails.

    Attributes
    ----------
    subscription : the subscription behind it

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
    >>> graph = hp.Graph()
    >>> with graph.cursor(rows) as cursor:
    ...     graph.push(rows, {"ts": [1], "value": [1.0]})
    ...     next(cursor)["value"].to_pylist(), cursor.poll()
    ([1.0], None)
    """

    noun = "cursor"
    subscription: Subscription

    def __init__(self, driver: Driver, limit: int, patience: float) -> None:
        self._driver, self._limit, self._patience = driver, limit, patience
        self._tables: deque[pa.Table] = deque()
        self._changed = threading.Condition()
        self._over = self._mine = False  # _mine: the thread that reads runs a turn
        self._error: BaseException | None = None

    # --- as a sink ----------------------------------------------------------------------------------------------------

    def process(self, table: pa.Table, mark: int) -> None:
        """Keep a table until it is read."""
        with self._changed:
            if not self._changed.wait_for(self._has_room, self._patience):
                raise DataError(
                    f"cursor: {len(self._tables)} tables wait, and nobody has read one for {self._patience:g} s",
                    hint="read it in another thread than the one that pushes, or as often; a larger limit=... waits longer",
                )
            if not self._over:
                self._tables.append(table)
                self._changed.notify_all()

    def _has_room(self) -> bool:
        # Who reads may be waiting for this very turn to end.
        return self._over or self._mine or len(self._tables) < self._limit

    def done(self, error: BaseException | None) -> None:
        """Nothing more comes."""
        with self._changed:
            self._over, self._error = True, error
            self._changed.notify_all()

    # --- for the user -------------------------------------------------------------------------------------------------

    def poll(self) -> pa.Table | None:
        """A table that is there, or None; it neither waits nor runs a turn. An error of the subscription is raised."""
        with self._changed:
            if self._tables:
                self._changed.notify_all()
                return self._tables.popleft()
            if self._error is not None:
                raise self._error
            return None

    def __next__(self) -> pa.Table:
        while True:
            found = self.poll()
            if found is not None:
                return found
            if self._over:
                raise StopIteration
            if not self._drive():
                with self._changed:
                    self._changed.wait_for(lambda: self._tables or self._over, NAP)

    def _drive(self) -> bool:
        """Run a turn, if nobody else does and there is something to read."""
        if self._driver.running:
            return False
        with self._changed:
            self._mine = True
            self._changed.notify_all()
        try:
            return bool(self._driver.step())
        finally:
            self._mine = False

    def close(self) -> None:
        """Leave: nothing more is kept, and the graph waits no longer."""
        with self._changed:
            self._over = True
            self._tables.clear()
            self._changed.notify_all()
        self.subscription.unsubscribe(now=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncCursor(AsyncIterator[pa.Table]):
    """The results of a query for asyncio; `Graph.acursor` makes it. Waiting is done in a thread."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    async def __anext__(self) -> pa.Table:
        found = self._cursor.poll()
        if found is None:
            try:
                found = await asyncio.to_thread(next, self._cursor, None)
            except asyncio.CancelledError:
                self._cursor.close()
                raise
        if found is None:
            raise StopAsyncIteration
        return found

    async def aclose(self) -> None:
        """Leave, as `Cursor.close` does."""
        self._cursor.close()
