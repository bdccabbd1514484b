"""Changes of a running graph happen between its turns."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

_log = logging.getLogger("hydrophone")

T = TypeVar("T")


class Changes:
    """Runs turns and changes one at a time. What is asked for during a turn waits until the turn is over.

    `request` never waits for another thread, so that a sink that hangs can still be unsubscribed; `run` does, because its caller
    needs the result.
    """

    def __init__(self) -> None:
        self._lock, self._waiting = threading.Lock(), deque[Callable[[], object]]()
        self._owner: int | None = None

    @property
    def inside(self) -> bool:
        """Whether this thread is in a turn."""
        return self._owner == threading.get_ident()

    def request(self, change: Callable[[], object]) -> None:
        """Make a change now, or after the turn that runs."""
        self._waiting.append(change)
        self._catch_up()

    def run(self, change: Callable[[], T], timeout: float = -1) -> T:
        """Make a change, or a turn, and return its result; not from inside a turn.

        `TimeoutError` if another turn does not end within so many seconds.
        """
        if not self._lock.acquire(timeout=timeout):
            raise TimeoutError
        self._owner = threading.get_ident()
        try:
            self._make_waiting()
            return change()
        finally:
            self._make_waiting()
            self._owner = None
            self._lock.release()
            self._catch_up()

    def _catch_up(self) -> None:
        """Make what was asked for while another thread was about to leave."""
        while self._waiting and self._lock.acquire(blocking=False):
            self._owner = threading.get_ident()
            try:
                self._make_waiting()
            finally:
                self._owner = None
                self._lock.release()

    def _make_waiting(self) -> None:
        while self._waiting:
            try:
                self._waiting.popleft()()
            except Exception:
                _log.exception("a change of the graph that waited for the end of a turn failed")
