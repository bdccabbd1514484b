"""Errors of tasks: Spark brings home only their text; this gives them their class again."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from hydrophone import errors
from hydrophone.errors import HydrophoneError

_TEXT = re.compile(r"hydrophone\.errors\.(?P<name>\w+): (?P<message>.*?)(?=\n\s*\n|\n\S|\Z)", re.DOTALL)

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    r"""Raise what Java says of a disk that takes no more as Python would say it, with the path that the user knows.

    Examples
    --------
    >>> with disk_errors("out"):
    ...     raise RuntimeError("Task failed ...\n\tat ...\nCaused by: java.io.IOException: No space left on device\n\tat ...")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'out'
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        for number in _DISK:
            if re.search(rf"IOException: .*{os.strerror(number)}\)?$", text, re.MULTILINE):
                raise OSError(number, os.strerror(number), path) from error
        raise


def task_error(error: BaseException) -> HydrophoneError | None:
    r"""The error that a task raised, found in what Spark raises for it; None where it was not one of ours.

    Examples
    --------
    >>> task_error(RuntimeError("...\nhydrophone.errors.DataError: source: 3 rows have no time\n  Hint: drop them first\n"))
    DataError('source: 3 rows have no time')
    """
    found = list(_TEXT.finditer(str(error)))
    if not found:
        return None
    kind = getattr(errors, found[-1]["name"], HydrophoneError)
    lines = found[-1]["message"].rstrip().split("\n")
    hint = next((line.strip()[6:] for line in lines if line.strip().startswith("Hint: ")), None)
    where = next((line.strip()[3:] for line in lines[1:] if line.startswith("  at ")), None)
    made: HydrophoneError = kind(lines[0], hint=hint, where=where)
    return made
