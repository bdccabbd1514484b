"""Changes of a running graph happen between its turns."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

_log = logging.getLogger("hydrophone")

T = TypeVar("T")


class Stopped(Exception):
    """The graph has closed while somebody waited for its operators."""


class Changes:
    """Runs turns and changes one at a time. What is asked for during a turn waits until the turn is over.

    `request` never waits for another thread, so that a sink that hangs can still be unsubscribed; `run` does, because its caller
    needs the result. Where operators run in threads of their own, a change waits until they are quiet, and a turn does not.

    Parameters
    ----------
    quiet : waits until operators are quiet, at most so many seconds (None: for ever), and says whether they are
    """

    def __init__(self, quiet: Callable[[float | None], bool] = lambda _: True) -> None:
        self._lock, self._waiting = threading.Lock(), deque[Callable[[], object]]()
        self._owner: int | None = None
        self._quiet = quiet
        self.asked: Callable[[], None] | None = None

    @property
    def inside(self) -> bool:
        """Whether this thread is in a turn."""
        return self._owner == threading.get_ident()

    def request(self, change: Callable[[], object]) -> None:
        """Make a change now, or after the turn that runs."""
        self._waiting.append(change)
        self._catch_up()

    def run(self, change: Callable[[], T], timeout: float = -1, turn: bool = False) -> T:
        """Make a change, or a turn, and return its result; not from inside a turn.

        `TimeoutError` if another turn does not end within so many seconds, or if operators do not come to rest.
        """
        if not self._lock.acquire(timeout=timeout):
            raise TimeoutError
        self._owner = threading.get_ident()
        try:
            self._make_waiting()
            if not turn and not self._quiet(None if timeout < 0 else timeout):
                raise TimeoutError
            return change()
        finally:
            self._make_waiting()
            self._owner = None
            self._lock.release()
            self._catch_up()

    def _catch_up(self) -> None:
        """Make what was asked for while another thread was about to leave; if operators are at work, let somebody else wait for them."""
        while self._waiting and self._lock.acquire(blocking=False):
            self._owner = threading.get_ident()
            try:
                quiet = self._make_waiting(0)
            finally:
                self._owner = None
                self._lock.release()
            if not quiet:
                if self.asked is not None:
                    self.asked()
                return

    def _make_waiting(self, timeout: float | None = None) -> bool:
        while self._waiting:
            if not self._quiet(timeout):
                return False
            try:
                self._waiting.popleft()()
            except Exception:
                _log.exception("a change of the graph that waited for the end of a turn failed")
        return True


class ChangesThread:
    """Makes the changes that were asked for while operators were at work, in a thread of its own, which waits until they are quiet.

    The thread begins when it is needed first.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes, self._wake, self._over = changes, threading.Event(), False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        changes.asked = self._ask

    def _ask(self) -> None:
        self._wake.set()
        with self._starting:
            if self._thread is None and not self._over:
                self._thread = threading.Thread(target=self._work, daemon=True, name="hydrophone changes")
                self._thread.start()

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._over:
                return
            try:
                self._changes.run(_nothing)
            except Stopped:
                return

    def stop(self) -> None:
        """End the thread."""
        self._over = True
        self._wake.set()


def _nothing() -> None:
    """What was asked for comes first."""
