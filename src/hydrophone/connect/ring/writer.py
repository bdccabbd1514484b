"""The writer of a ring: it publishes messages, waits for room, and drops readers that have died or are too slow."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from hydrophone.connect.ring import byte_locks
from hydrophone.connect.ring.memory import (
    BLOCK,
    CLOSED,
    CURSOR,
    DEAD_READERS,
    DROPPED,
    EPOCH,
    FAILED,
    GENERATION,
    HEAD,
    MESSAGE_HEADER,
    MESSAGES,
    MOST_READERS,
    NO_MARK,
    OPEN,
    ROWS,
    SKIP,
    SLOW_READERS,
    STATE,
    WAITS,
    WRITER_BYTE,
    WRITER_PID,
    WRITER_SPACE,
    Memory,
    checksum,
    create,
    open_file,
)
from hydrophone.errors import DataError

_log = logging.getLogger("hydrophone")

SHORTEST_NAP, LONGEST_NAP = 0.00005, 0.002
"""Seconds between two looks at readers that are waited for: longer each time."""
LIFE_CHECK = 0.02
"""Seconds between two looks at whether a reader that is waited for is alive."""
LARGEST_MESSAGE = 4
"""A message takes one of so many parts of the ring at most, so that readers and writer work at the same time."""
_ATTEMPTS = 100
_OPTIONS = pa.ipc.IpcWriteOptions()  # else each message would look for them in the environment


class RingWriter:
    """Writes tables into a ring.

    Parameters
    ----------
    path : of the ring; a file that is there goes on if readers wait for a new writer, and else is replaced
    size : bytes of the file
    schema : the columns of all rows
    patience : seconds that a reader may hold up the writer before it is dropped; None: for as long as it lives
    checked : whether messages have checksums
    """

    def __init__(
        self, path: Path, size: int, schema: pa.Schema, patience: float | None = None, checked: bool = True
    ) -> None:
        byte_locks.check_supported()
        self.patience = patience
        self.memory = _opened(path, size, schema, checked)
        words = self.memory.words
        words[EPOCH] += 1
        words[STATE] = OPEN
        self._epoch = int(words[EPOCH])
        self._limit = 0  # blocks before it are free
        self._closed = False

    # --- what it has seen -----------------------------------------------------------------------------------------------

    @property
    def dead(self) -> int:
        """Readers that died and were dropped."""
        return int(self.memory.words[DEAD_READERS])

    @property
    def slow(self) -> int:
        """Readers that were dropped because they held up the writer for too long."""
        return int(self.memory.words[SLOW_READERS])

    @property
    def messages(self) -> int:
        """Messages of rows that were written."""
        return int(self.memory.words[MESSAGES])

    @property
    def waits(self) -> int:
        """How often the writer found no room."""
        return int(self.memory.words[WAITS])

    @property
    def readers(self) -> int:
        """Readers that have joined and were not dropped."""
        return int(self.memory.active_readers().sum())

    def wait_for_readers(self, count: int, patience: float | None) -> None:
        """Wait until so many have joined."""
        begun = time.monotonic()
        while (there := self.readers) < count:
            if patience is not None and time.monotonic() - begun > patience:
                raise DataError(
                    f"write.ring: {there} of {count} readers have come to {self.memory.path} in {patience:g} s",
                    hint="start them, or wait longer: patience=None waits for as long as it takes",
                )
            time.sleep(LONGEST_NAP)

    # --- writing --------------------------------------------------------------------------------------------------------

    def write(self, table: pa.Table, mark: int = NO_MARK) -> None:
        """Publish rows, after which none belongs to an instant before `mark`; many rows are several messages."""
        size = _ipc_size(table)
        if MESSAGE_HEADER + size <= self.memory.blocks * BLOCK // LARGEST_MESSAGE:
            self._put(size, mark, table)
            return
        if len(table) < 2:
            raise DataError(
                f"write.ring: a row takes {size:,} bytes, and a message of {self.memory.path} has room for "
                f"{self.memory.blocks * BLOCK // LARGEST_MESSAGE:,}",
                hint='a larger ring: size="1GB"',
            )
        self.write(table.slice(0, len(table) // 2))
        self.write(table.slice(len(table) // 2), mark)

    def advance(self, mark: int) -> None:
        """Publish a mark without rows."""
        self._put(0, mark, None)

    def close(self, error: BaseException | None = None) -> None:
        """Say that nothing more comes, or why the writer failed. The file's name goes; readers read what is there."""
        if self._closed:
            return
        self._closed = True
        memory = self.memory
        if error is not None:
            memory.failure = f"{type(error).__name__}: {error}"
        memory.fence()
        memory.words[STATE] = CLOSED if error is None else FAILED
        with contextlib.suppress(FileNotFoundError):
            if memory.path.stat().st_ino == os.fstat(memory.file).st_ino:
                memory.path.unlink()
        if self.dead or self.slow:
            _log.warning("ring %s: %d readers died, %d were too slow", memory.path, self.dead, self.slow)
        memory.close()

    def _put(self, size: int, mark: int, table: pa.Table | None) -> None:
        memory, blocks = self.memory, -(-(MESSAGE_HEADER + size) // BLOCK)
        position = memory.head
        left = memory.blocks - position % memory.blocks
        if left < blocks:
            self._publish(position, left, (0, 0, NO_MARK, SKIP, 0))
            position += left
        self._wait_for_room(position + blocks)
        crc = 0
        if table is not None:
            start = memory.at(position) + MESSAGE_HEADER
            room = memory.bytes[start : start + size]
            with pa.FixedSizeBufferWriter(pa.py_buffer(room)) as target:
                _serialize(table, target)
            crc = checksum(room) if memory.checked else 0
        self._publish(position, blocks, (size, crc, mark, ROWS, 0 if table is None else len(table)))
        memory.words[MESSAGES] += 1

    def _publish(self, position: int, blocks: int, about: tuple[int, int, int, int, int]) -> None:
        memory = self.memory
        self._wait_for_room(position + blocks)
        size, crc, mark, kind, rows = about
        memory.message(position)[:] = (position, blocks, size, crc, mark, kind, self._epoch, rows)
        memory.fence()
        memory.words[HEAD] = position + blocks

    # --- room -----------------------------------------------------------------------------------------------------------

    def _wait_for_room(self, end: int) -> None:
        """Wait until all readers have read what lies where blocks before `end` go."""
        if end <= self._limit or self._has_room(end):
            return
        self.memory.words[WAITS] += 1
        begun, nap, looked = time.monotonic(), SHORTEST_NAP, 0.0
        while not self._has_room(end):
            now = time.monotonic()
            if now - looked > LIFE_CHECK:
                looked = now
                self._drop(end, DEAD_READERS, lambda i: not self.memory.reader_lives(i))
            if self.patience is not None and now - begun > self.patience:
                self._drop(end, SLOW_READERS, lambda _: True)
            time.sleep(nap)
            nap = min(2 * nap, LONGEST_NAP)

    def _has_room(self, end: int) -> bool:
        active, cursors = self.memory.active_readers(), self.memory.lines()[:, CURSOR]
        slowest = int(cursors[active].min()) if active.any() else self.memory.head
        self._limit = slowest + self.memory.blocks
        return end <= self._limit

    def _drop(self, end: int, counted: int, wanted: Callable[[int], bool]) -> None:
        """Drop readers that are in the way of blocks before `end`."""
        memory = self.memory
        for reader in range(MOST_READERS):
            line = memory.line(reader)
            generation, cursor = int(line[GENERATION]), int(line[CURSOR])
            joined = generation > 0 and generation != int(line[DROPPED])
            if joined and 0 <= cursor < end - memory.blocks and wanted(reader):
                # The generation is that of the reader which was looked at: a new one in its place has the next number.
                line[DROPPED] = generation
                memory.words[counted] += 1
                memory.fence()


def _opened(path: Path, size: int, schema: pa.Schema, checked: bool) -> Memory:
    """A new ring, or one that readers wait at for a new writer."""
    for _ in range(_ATTEMPTS):
        memory = create(path, size, schema, checked)
        if memory is not None:
            return memory
        memory = _taken_over(path, schema)
        if memory is not None:
            return memory
    raise DataError(f"write.ring: {path} comes and goes: other writers use the same name", hint="take another name")


def _taken_over(path: Path, schema: pa.Schema) -> Memory | None:
    """The ring of a writer that has died, if readers are there; else it is removed."""
    file = open_file(path, "write.ring")
    if file is None:
        return None
    memory = Memory(path, file)
    if memory.words[WRITER_PID] and not memory.writer_lives() and byte_locks.lock(file, WRITER_BYTE):
        if not memory.live_readers():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(file).st_ino:
                    path.unlink()
            memory.close()
            return None
        memory.sign(memory.words, WRITER_PID, WRITER_SPACE)
        if memory.schema.equals(schema):
            return memory
        memory.close()
        raise DataError(
            f"write.ring: readers wait at {path} for rows with other columns: {', '.join(memory.schema.names)}",
            hint="take another name, or end these readers",
        )
    pid = int(memory.words[WRITER_PID])
    memory.close()
    raise DataError(
        f"write.ring: {path} has a writer already (process {pid})", hint="a ring has one writer: take another name"
    )


def _serialize(table: pa.Table, target: pa.NativeFile) -> None:
    with pa.ipc.new_stream(target, table.schema, options=_OPTIONS) as stream:
        stream.write_table(table)


def _ipc_size(table: pa.Table) -> int:
    counted = pa.MockOutputStream()
    _serialize(table, counted)
    return int(counted.size())


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns with plain values: dictionaries would be sent with every message."""
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema])
