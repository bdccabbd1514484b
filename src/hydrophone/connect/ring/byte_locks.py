"""Locks on single bytes of a file. The kernel releases them when their process ends, however it ends: so they say who is alive."""

from __future__ import annotations

import fcntl
import os
import struct

from hydrophone.errors import UnsupportedError


def check_supported() -> None:
    """Refuse systems that have no locks of open files."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        raise UnsupportedError(
            "ring: this system has no locks of open files (OFD locks), by which a ring sees who is alive",
            hint="a ring needs Linux",
        )


def lock(file: int, byte: int) -> bool:
    """Take the lock of a byte, if nobody else has it. Two openings of one file exclude each other, also in one process."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, byte))
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock_all(file: int) -> None:
    """Let go of all locks that this opening has."""
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, 0, 0))


def locked_by_another(file: int, byte: int) -> bool:
    """Whether another opening of the file has the lock of a byte."""
    found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, byte))
    kind: int = struct.unpack_from("h", found)[0]
    return kind != fcntl.F_UNLCK


def _flock(kind: int, start: int, length: int = 1) -> bytes:
    """The C structure flock of Linux: kind, whence, start, length (0: to the end) and process, padded as C does it."""
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, start, length, 0)
