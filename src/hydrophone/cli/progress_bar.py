"""A progress line on the terminal for long work; nothing if there is no terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_SOON = 0.5
"""Seconds before the line appears."""
_EVERY = 0.2
_BAR = 20


class Ticker:
    """The current work; `at` says how much is done, if known."""

    def __init__(self, what: str) -> None:
        self.what, self.note = what, ""
        self._start = time.monotonic()

    def at(self, done: int, total: int, of: str = "") -> None:
        """So many of so many are done.

        Examples
        --------
        >>> ticker = Ticker("reading")
        >>> ticker.at(1, 4, "files")
        >>> ticker.note
        '[#####...............] 1 of 4 files'
        """
        filled = _BAR * done // max(total, 1)
        self.note = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done} of {total} {of}".rstrip()

    def line(self) -> str:
        """What the terminal shows."""
        return f"  {self.what} {self.note} {time.monotonic() - self._start:.0f} s".replace("  ", " ").strip()


@contextmanager
def working(what: str, file: TextIO | None = None) -> Iterator[Ticker]:
    """Show a line while the block runs, if standard error (or `file`) is a terminal, and wipe it at the end.

    Examples
    --------
    >>> with working("adding") as ticker:
    ...     ticker.at(2, 4)
    """
    out, ticker = file or sys.stderr, Ticker(what)
    if not out.isatty():
        yield ticker
        return
    done = threading.Event()
    writer = threading.Thread(target=_write, args=(out, ticker, done), daemon=True)
    writer.start()
    try:
        yield ticker
    finally:
        done.set()
        writer.join()


def _write(out: TextIO, ticker: Ticker, done: threading.Event) -> None:
    if done.wait(_SOON):
        return
    width = 0
    while True:
        line = ticker.line()
        out.write(f"\r{line.ljust(width)}")
        out.flush()
        width = max(width, len(line))
        if done.wait(_EVERY):
            break
    out.write(f"\r{' ' * width}\r")
    out.flush()
