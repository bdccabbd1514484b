"""Work shared out over threads: results come in the order of the shares, and those that wait to be taken stay within a limit."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """What is handed over."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""


S = TypeVar("S")
T = TypeVar("T", bound=Sized)


def results_in_order(
    work: Callable[[S], Iterator[T]], shares: Sequence[S], threads: int, limit: int | None = None
) -> Generator[T, None, None]:
    """What the work gives for every share, share by share, while other threads work ahead.

    An error in any of the threads is raised here at once. After it, and when nobody asks for results any more (Ctrl-C, a sink that
    fails), all threads end at their next result.

    Parameters
    ----------
    work : gives the results of one share; runs in the context (`contextvars`) of the caller
    shares : in the order of their results
    threads : how many work at the same time; with one, everything runs in the thread of the caller
    limit : bytes of results that may wait; None: any number
    """
    if threads < 2 or len(shares) < 2:
        for share in shares:
            yield from work(share)
        return
    desk = _Desk[T](limit, ahead=2 * threads)

    def run(number: int, share: S) -> None:
        try:
            if desk.begin(number):
                for result in work(share):
                    if not desk.put(number, result):
                        return
            desk.end(number, None)
        except BaseException as error:
            desk.end(number, error)

    with ThreadPoolExecutor(min(threads, len(shares)), thread_name_prefix="hydrophone") as pool:
        try:
            for number, share in enumerate(shares):
                pool.submit(contextvars.copy_context().run, run, number, share)
            for number in range(len(shares)):
                yield from desk.take(number)
        finally:
            desk.close()
            pool.shutdown(wait=True, cancel_futures=True)


class _Desk(Generic[T]):
    """Where threads put results and the caller takes them.

    Parameters
    ----------
    limit : bytes that may lie here; the share whose turn it is may always put one result, so that all goes on
    ahead : how many shares beyond the one whose turn it is may begin
    """

    def __init__(self, limit: int | None, ahead: int) -> None:
        self._limit, self._ahead = limit, ahead
        self._changed = threading.Condition()
        self._results: dict[int, deque[T]] = {}
        self._ended: set[int] = set()
        self._errors: dict[int, BaseException] = {}
        self._turn = self._held = 0
        self._closed = False

    def begin(self, number: int) -> bool:
        """Wait until a share may begin; False if nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or number <= self._turn + self._ahead)
            return not self._closed

    def put(self, number: int, result: T) -> bool:
        """Hand over a result, when there is room; False if nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(number, result.nbytes))
            self._results.setdefault(number, deque()).append(result)
            self._held += result.nbytes
            self._changed.notify_all()
            return not self._closed

    def _has_room(self, number: int, size: int) -> bool:
        if self._limit is None or self._held + size <= self._limit:
            return True
        return number == self._turn and not self._results.get(number)

    def end(self, number: int, error: BaseException | None) -> None:
        """A share has no more results."""
        with self._changed:
            self._ended.add(number)
            if error is not None:
                self._errors[number] = error
            self._changed.notify_all()

    def take(self, number: int) -> Iterator[T]:
        """The results of the share whose turn it is, as they come."""
        with self._changed:
            self._turn = number
            self._changed.notify_all()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._results.get(number) or number in self._ended or self._errors)
                if self._errors:
                    raise self._errors[min(self._errors)]
                waiting = self._results.get(number)
                if not waiting:
                    return
                result = waiting.popleft()
                self._held -= result.nbytes
                self._changed.notify_all()
            yield result

    def close(self) -> None:
        """Nobody takes results any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
