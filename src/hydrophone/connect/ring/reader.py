"""A reader of a ring: it joins, takes one message after the other, and notices when the writer dies or has dropped it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa

from hydrophone.connect.ring import byte_locks
from hydrophone.connect.ring.memory import (
    CURSOR,
    DROPPED,
    EPOCH,
    FAILED,
    GENERATION,
    MESSAGE_HEADER,
    MOST_READERS,
    NO_MARK,
    OPEN,
    READER_PID,
    READER_SPACE,
    ROWS,
    STATE,
    Memory,
    checksum,
    open_file,
)
from hydrophone.errors import DataError

T = TypeVar("T")

LIFE_CHECK = 0.05
"""Seconds between two looks at whether the writer is alive, while nothing comes."""
NAP = 0.01
"""Seconds between two looks for a ring that is not there yet."""


@dataclass(frozen=True)
class Message:
    """What the writer has published: rows, and the mark after them where there is one."""

    rows: Any
    mark: int | None


class End:
    """The writer has closed the ring, and everything was read."""


END = End()


class RingReader:
    """Reads the messages of a ring from the moment on at which it joins.

    Parameters
    ----------
    path : of the ring
    patience : seconds to wait for a ring that has a writer; None: for as long as it takes
    lost : what to do when the writer dies: "error", or "wait" for a new one
    stop : says whether to give up waiting
    """

    def __init__(
        self,
        path: Path,
        patience: float | None = 60.0,
        lost: Literal["error", "wait"] = "error",
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.memory = open_memory(path, patience, stop)
        self._lost = lost
        self._number = self._join()
        self._line = self.memory.line(self._number)
        self._generation = int(self._line[GENERATION])
        self._cursor = int(self._line[CURSOR])
        self._epoch = int(self.memory.words[EPOCH])
        self._looked = time.monotonic()

    def _join(self) -> int:
        memory = self.memory
        number = next((i for i in range(MOST_READERS) if byte_locks.lock(memory.file, i + 1)), None)
        if number is None:
            memory.close()
            raise DataError(f"read.ring: {memory.path} has {MOST_READERS} readers, and no room for another")
        line = memory.line(number)
        line[CURSOR] = memory.head
        memory.sign(line, READER_PID, READER_SPACE)
        memory.fence()
        line[GENERATION] += 1
        memory.fence()
        # From now on the writer minds us; what it has published meanwhile may have run over where we began.
        line[CURSOR] = memory.head
        return number

    # --- messages -----------------------------------------------------------------------------------------------------

    def take(self) -> Message | End | None:
        """The next message with rows of its own, the end, or None where there is nothing at the moment."""
        return self.use(lambda table: table)

    def use(self, function: Callable[[pa.Table], T]) -> Message | End | None:
        """As `take`, with what `function` makes of the rows; it sees them in the ring, where they are not copied.

        If what it returns still looks into the ring, it is called again with a copy: the writer will overwrite the ring.
        """
        words = self._next()
        if words is None or isinstance(words, End):
            return words
        position, blocks, size, crc, mark = words[:5]
        start = self.memory.at(position) + MESSAGE_HEADER
        rows: Any = None
        if size:
            self._check_sum(position, start, size, crc)
            rows = self._used(start, size, function)
        self._release(position, position + blocks)
        return Message(rows, None if mark == NO_MARK else mark)

    def _used(self, start: int, size: int, function: Callable[[pa.Table], T]) -> T:
        lease = _Lease()
        there = weakref.ref(lease)
        view = pa.foreign_buffer(self.memory.address + start, size, lease)
        del lease
        found = function(_table(view))
        del view
        if there() is None:
            return found
        del found
        return function(_table(pa.py_buffer(bytes(self.memory.bytes[start : start + size]))))

    def _next(self) -> list[int] | End | None:
        """The header of the next message with rows or a mark."""
        memory = self.memory
        while True:
            state = int(memory.words[STATE])  # before the head: the writer stores it after the head
            memory.fence()
            if memory.head > self._cursor:
                memory.fence()
                words: list[int] = memory.message(self._cursor).tolist()
                self._check_dropped()
                self._check_number(words)
                self._check_epoch(words[6])
                if words[5] == ROWS:
                    return words
                self._release(words[0], words[0] + words[1])
                continue
            self._check_dropped()
            if state == FAILED:
                raise DataError(f"read.ring: the writer of {memory.path} failed: {memory.failure}")
            if state != OPEN:
                return END
            self._check_writer()
            return None

    def _release(self, position: int, end: int) -> None:
        """Let the writer have the blocks of a message, if they were still ours while they were read."""
        self.memory.fence()
        self._check_dropped()
        self._cursor = end
        self._line[CURSOR] = end

    # --- what can go wrong --------------------------------------------------------------------------------------------

    def _check_dropped(self) -> None:
        if int(self._line[DROPPED]) == self._generation:
            raise DataError(
                f"read.ring: the writer of {self.memory.path} has dropped this reader: it held up the writer for too long",
                hint="a larger ring, more patience of the writer (hp.write.ring(..., patience=None) waits), or fewer rows",
            )

    def _check_number(self, words: list[int]) -> None:
        if words[0] != self._cursor:
            raise DataError(
                f"read.ring: {self.memory.path} is damaged: block {self._cursor} says that it is {words[0]}",
                hint="another program has written into the file",
            )

    def _check_sum(self, position: int, start: int, size: int, crc: int) -> None:
        if self.memory.checked and checksum(self.memory.bytes[start : start + size]) != crc:
            self._check_dropped()
            raise DataError(
                f"read.ring: {self.memory.path} is damaged: the checksum of block {position} does not match",
                hint="another program has written into the file",
            )

    def _check_epoch(self, epoch: int) -> None:
        if epoch != self._epoch and self._lost == "error":
            raise DataError(
                f"read.ring: another writer has taken over {self.memory.path}",
                hint='rows between the two may be missing; lost="wait" goes on with the new writer',
            )
        self._epoch = epoch

    def _check_writer(self) -> None:
        if time.monotonic() - self._looked < LIFE_CHECK or self._lost == "wait":
            return
        self._looked = time.monotonic()
        memory = self.memory
        lives = memory.writer_lives()
        memory.fence()
        if not lives and memory.words[STATE] == OPEN and memory.head <= self._cursor:
            raise DataError(
                f"read.ring: the writer of {memory.path} has ended without closing the ring",
                hint='what it had published was read; lost="wait" waits for a new writer',
            )

    # --- its life -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the ring."""
        self._line[CURSOR] = -1
        self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Lease:
    """Lives for as long as somebody looks at a message."""


def _table(buffer: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(buffer) as stream:
        return stream.read_all()


def open_memory(path: Path, patience: float | None, stop: Callable[[], bool] = lambda: False) -> Memory:
    """A ring that has a writer; waits for it."""
    byte_locks.check_supported()
    begun = time.monotonic()
    while True:
        file = open_file(path, "read.ring")
        if file is not None:
            memory = Memory(path, file)
            if memory.writer_lives() or memory.words[STATE] != OPEN:
                return memory
            memory.close()
        if stop() or (patience is not None and time.monotonic() - begun >= patience):
            said = "there is no ring" if file is None else "there is a ring whose writer has ended"
            raise DataError(
                f"read.ring: {said} at {path}, also after {time.monotonic() - begun:.1f} s",
                hint="start the writer (hp.write.ring), or wait longer: patience=None waits for as long as it takes",
            )
        time.sleep(NAP)
