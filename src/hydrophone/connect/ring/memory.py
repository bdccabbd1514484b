"""The file of a ring: its layout, its words, who is alive, and how it is made and opened.

A ring is a file that every process maps into its memory. Its header says what it is; then come words, each of which one process
alone writes; then the columns of the rows; then blocks of 4 KB. A message is a run of whole blocks that lie side by side: a header
of 64 bytes and rows in Arrow's IPC format. Positions count blocks since the beginning and never fall: block `p` lies at `p % blocks`.
Nobody takes a lock to write or to read a message.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import tempfile
import threading
import uuid
import weakref
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.connect.ring import byte_locks
from hydrophone.errors import DataError, ParameterError

BLOCK = 4096
"""Bytes of a block: a page of memory."""
MESSAGE_HEADER = 64
"""Bytes before the rows of a message: position, blocks, bytes, checksum, mark, kind, epoch, rows."""
MOST_READERS = 64
SMALLEST_RING = 64 * BLOCK
ROWS, SKIP = 1, 2
"""Kinds of messages: rows (none where only the mark has moved), and unused blocks at the end of the memory."""
OPEN, CLOSED, FAILED = 0, 1, 2
"""States of a ring: it has a writer or has lost it, the writer has closed it, or has said why it failed."""
NO_MARK = np.iinfo(np.int64).min

MAGIC = int.from_bytes(b"hydring\0", "little")
VERSION = 1

# Words of the header, which is written once; then those of the writer, a page further on.
_MAGIC, _VERSION, _SIZE, _BLOCK, _BLOCKS, _DATA, _SCHEMA, _SCHEMA_BYTES, _CHECKED = range(9)
_WRITER = BLOCK // 8
HEAD, STATE, EPOCH, WRITER_PID, WRITER_SPACE, DEAD_READERS, SLOW_READERS, MESSAGES, WAITS = range(_WRITER, _WRITER + 9)
# For every reader two lines of 64 bytes, so that two processes never write into one: the reader's, and what the writer says of it.
_LINES, _LINE = 2 * BLOCK // 8, 8
GENERATION, CURSOR, READER_PID, READER_SPACE = range(4)
DROPPED = _LINE
_FAILURE_AT = 4 * BLOCK
_SCHEMA_AT = 5 * BLOCK
WRITER_BYTE = 0
"""The byte whose lock the writer has; reader `i` has that of byte ``i + 1``."""

Words = npt.NDArray[np.int64]


class Memory:
    """The mapped file of a ring, in one process, with one role in it: writer or reader.

    Attributes
    ----------
    path : where the file is
    words : the whole memory as integers
    bytes : the whole memory
    blocks : blocks for messages
    schema : the columns of the rows
    checked : whether messages have checksums
    """

    def __init__(self, path: Path, file: int) -> None:
        self.path, self.file = path, file
        # All pages now: the first touch of each would cost more than to write it.
        self._map = mmap.mmap(file, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.words: Words = np.frombuffer(self._map, np.int64)
        self.bytes = memoryview(self._map)
        self.address = self.words.ctypes.data
        self.blocks, self._data = int(self.words[_BLOCKS]), int(self.words[_DATA])
        start = int(self.words[_SCHEMA])
        self.schema = pa.ipc.read_schema(
            pa.py_buffer(bytes(self.bytes[start : start + int(self.words[_SCHEMA_BYTES])]))
        )
        self.checked = bool(self.words[_CHECKED])
        self._fence = threading.Lock()
        self._closed = weakref.finalize(self, _close, file, os.getpid())

    def at(self, position: int) -> int:
        """The offset of a block in the memory."""
        return self._data + position % self.blocks * BLOCK

    def message(self, position: int) -> Words:
        """The header of the message at a position."""
        start = self.at(position) // 8
        return self.words[start : start + MESSAGE_HEADER // 8]

    def line(self, reader: int) -> Words:
        """The words of a reader, with those that the writer says of it."""
        start = _LINES + 2 * _LINE * reader
        return self.words[start : start + 2 * _LINE]

    def lines(self) -> Words:
        """The words of all readers, one row for each."""
        return self.words[_LINES : _LINES + 2 * _LINE * MOST_READERS].reshape(MOST_READERS, 2 * _LINE)

    def fence(self) -> None:
        """Let what was stored before be seen before what is stored after it, on every processor.

        A released lock that is taken again is an ordering in both directions; the lock belongs to nobody else, and nobody waits.
        """
        for _ in range(2):
            self._fence.acquire()
            self._fence.release()

    @property
    def head(self) -> int:
        """The position after the last message."""
        return int(self.words[HEAD])

    @property
    def failure(self) -> str:
        """Why the writer failed."""
        text = bytes(self.bytes[_FAILURE_AT:_SCHEMA_AT])
        return text.rstrip(b"\0").decode(errors="replace")

    @failure.setter
    def failure(self, text: str) -> None:
        self.bytes[_FAILURE_AT:_SCHEMA_AT] = text.encode()[:BLOCK].ljust(BLOCK, b"\0")

    # --- who is alive -------------------------------------------------------------------------------------------------

    def sign(self, words: Words, pid: int, space: int) -> None:
        """Write this process into two words."""
        words[pid], words[space] = os.getpid(), _pid_space()

    def writer_lives(self) -> bool:
        """Whether the writer is there."""
        held = byte_locks.locked_by_another(self.file, WRITER_BYTE)
        return held and _lives(int(self.words[WRITER_PID]), int(self.words[WRITER_SPACE]))

    def reader_lives(self, reader: int) -> bool:
        """Whether a reader is there."""
        line = self.line(reader)
        held = byte_locks.locked_by_another(self.file, reader + 1)
        return held and _lives(int(line[READER_PID]), int(line[READER_SPACE]))

    def live_readers(self) -> list[int]:
        """The readers that are there."""
        return [i for i in range(MOST_READERS) if self.reader_lives(i)]

    def active_readers(self) -> npt.NDArray[np.bool_]:
        """Which readers have joined and were not dropped."""
        lines = self.lines()
        found: npt.NDArray[np.bool_] = (lines[:, CURSOR] >= 0) & (lines[:, DROPPED] != lines[:, GENERATION])
        return found & (lines[:, GENERATION] > 0)

    def close(self) -> None:
        """Let go of the file; memory that somebody still looks at is unmapped when nobody does."""
        self._closed()


def _close(file: int, process: int) -> None:
    if os.getpid() == process:  # a child that was forked shares the locks of its parent
        # The mapping keeps the opening alive, and locks belong to the opening.
        byte_locks.unlock_all(file)
    os.close(file)


def _pid_space() -> int:
    """Numbers of processes mean something within a namespace only."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _lives(pid: int, space: int) -> bool:
    """Whether a process is there that has the lock: a child that it has forked may hold it after its death."""
    if space != _pid_space():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return state not in "ZX"


def checksum(message: memoryview) -> int:
    """The CRC of a message whose pages are laid over each other by XOR, which is as fast as memory; then of what is left of a page.

    Examples
    --------
    >>> checksum(memoryview(b"left of a page")), checksum(memoryview(bytes(8192)))
    (3045057857, 3340501009)
    """
    whole = len(message) // BLOCK * BLOCK
    pages = np.frombuffer(message, np.uint64, whole // 8).reshape(-1, BLOCK // 8)
    return zlib.crc32(message[whole:], zlib.crc32(np.bitwise_xor.reduce(pages, axis=0)))


# --- files ----------------------------------------------------------------------------------------------------------------


def ring_path(path: str) -> Path:
    """Where a ring lies: a bare name is a file of ``/dev/shm``, which is memory."""
    if os.sep in path:
        return Path(path)
    shared = Path("/dev/shm")
    return (shared if shared.is_dir() else Path(tempfile.gettempdir())) / path


def create(path: Path, size: int, schema: pa.Schema, checked: bool) -> Memory | None:
    """Make a ring and become its writer; None if there is a file already. It appears under its name when it is whole."""
    text = schema.serialize().to_pybytes()
    data = -(-(_SCHEMA_AT + len(text)) // BLOCK) * BLOCK
    blocks = (size - data) // BLOCK
    if size < SMALLEST_RING or blocks < SMALLEST_RING // BLOCK // 2:
        raise ParameterError(f"write.ring: size must be at least {SMALLEST_RING} bytes, got {size}", hint='size="64MB"')
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        file = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataError(
            f"write.ring: {path} cannot be made: {error.strerror}", hint="the folder must exist and be writable"
        ) from error
    try:
        _fill(path, file, data + blocks * BLOCK)
        _write_header(file, blocks, data, text, checked)
    except BaseException:
        os.close(file)
        draft.unlink()
        raise
    memory = Memory(path, file)
    byte_locks.lock(file, WRITER_BYTE)
    memory.sign(memory.words, WRITER_PID, WRITER_SPACE)
    try:
        os.link(draft, path)
    except FileExistsError:
        memory.close()
        return None
    finally:
        draft.unlink()
    return memory


def _write_header(file: int, blocks: int, data: int, schema: bytes, checked: bool) -> None:
    header = np.zeros(_SCHEMA_AT // 8, np.int64)
    header[: _CHECKED + 1] = (
        MAGIC, VERSION, data + blocks * BLOCK, BLOCK, blocks, data, _SCHEMA_AT, len(schema), int(checked)
    )  # fmt: skip
    header[_LINES : _LINES + 2 * _LINE * MOST_READERS].reshape(MOST_READERS, 2 * _LINE)[:, CURSOR] = -1
    os.pwrite(file, header.tobytes() + schema, 0)


def _fill(path: Path, file: int, size: int) -> None:
    """Take all memory now: a page that is missing later would end the process."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        free = os.statvfs(path.parent)
        raise DataError(
            f"write.ring: {path.parent} is full: the ring needs {size:,} bytes, and {free.f_bavail * free.f_frsize:,} are free",
            hint='a smaller ring (size="16MB"), files removed from there, or a path on a disk',
        ) from error


def open_file(path: Path, what: str) -> int | None:
    """Open the file of a ring after a look at who owns it and at its header; None if there is none."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(
            f"{what}: {path} cannot be opened: {error.strerror}", hint="a ring is open to its owner alone"
        ) from error
    try:
        _check_file(path, file, what)
    except BaseException:
        os.close(file)
        raise
    return file


def _check_file(path: Path, file: int, what: str) -> None:
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise DataError(
            f"{what}: {path} is no ring of this user: another owner, open to others, or no plain file",
            hint="rings are made by hp.write.ring, with permissions for the owner alone",
        )
    head = os.pread(file, 8 * (_CHECKED + 1), 0)
    words = np.frombuffer(head.ljust(8 * (_CHECKED + 1), b"\0"), np.int64)
    if words[_MAGIC] != MAGIC:
        raise DataError(
            f"{what}: {path} is no ring, and is left as it is", hint="take another name, or remove the file"
        )
    if words[_VERSION] != VERSION:
        raise DataError(
            f"{what}: {path} is a ring of version {words[_VERSION]}, and this release writes and reads version {VERSION}",
            hint="run the same release of Hydrophone on both sides; a ring that nobody uses can be removed",
        )
    if words[_SIZE] != about.st_size or words[_BLOCK] != BLOCK or words[_DATA] + words[_BLOCKS] * BLOCK != words[_SIZE]:
        raise DataError(
            f"{what}: {path} is a damaged ring: its header says {words[_SIZE]:,} bytes, and the file has {about.st_size:,}",
            hint="remove it, and start its writer again",
        )
