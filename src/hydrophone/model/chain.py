"""Copy-on-write samples: segments share a chain of buffer slices, and copy a slice only before they write to it."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from numpy.typing import NDArray

__all__ = ["LOCK", "Buffer", "BufferSlice", "Chain", "Values"]

Values = NDArray[Any]

LOCK = threading.RLock()
"""Guards reference counts and the growth of chains. Reentrant, because the garbage collector may run __del__ inside it. A lost decrement
is harmless: it costs one copy more."""


class Buffer:
    """Samples in memory, and the number of slices that refer to them."""

    __slots__ = ("array", "holders", "lent")

    def __init__(self, array: Values, *, lent: bool) -> None:
        self.array = array
        self.holders = 0
        self.lent = lent  # An array outside shares this memory: it must not be written.


class BufferSlice(NamedTuple):
    """A stretch of a buffer."""

    buffer: Buffer
    start: int
    stop: int

    def lend(self) -> Values:
        """A read-only view for use outside."""
        self.buffer.lent = True
        view = self.read()
        view.flags.writeable = False
        return view

    def read(self) -> Values:
        """A view for us."""
        return self.buffer.array[self.start : self.stop]


class Chain:
    """A growing list of buffer slices that segments share; each segment sees a range of its samples.

    Segments hold the chain and chains hold buffers. With these two levels a new segment has constant cost.
    """

    __slots__ = ("ends", "holders", "pieces")

    def __init__(self, pieces: Iterable[BufferSlice]) -> None:
        self.holders = 0
        self.pieces: list[BufferSlice] = []
        self.ends: list[int] = []  # Where each piece ends, in samples from the start of the chain.
        self.push(pieces)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __del__(self) -> None:
        with LOCK:
            for piece in self.pieces:
                piece.buffer.holders -= 1

    def push(self, pieces: Iterable[BufferSlice]) -> None:
        """Append slices; existing segments do not change."""
        with LOCK:
            for piece in pieces:
                piece.buffer.holders += 1
                self.pieces.append(piece)
                self.ends.append(len(self) + piece.stop - piece.start)

    def numbers(self, lo: int, hi: int) -> range:
        """Which pieces hold samples of ``[lo, hi)``."""
        return range(bisect_right(self.ends, lo), bisect_right(self.ends, hi - 1) + 1) if lo < hi else range(0)

    def cut(self, lo: int, hi: int) -> Iterator[BufferSlice]:
        """Yield the pieces of ``[lo, hi)``, the outer ones trimmed."""
        for n in self.numbers(lo, hi):
            buffer, start, stop = self.pieces[n]
            end = self.ends[n]
            yield BufferSlice(buffer, max(start, stop - (end - lo)), min(stop, stop - (end - hi)))

    def own(self, n: int) -> BufferSlice:
        """Make slice `n` exclusive, by a copy if it is shared."""
        piece = self.pieces[n]
        if piece.buffer.lent or piece.buffer.holders > 1:
            piece.buffer.holders -= 1
            copy = Buffer(piece.read().copy(), lent=False)
            copy.holders = 1
            self.pieces[n] = piece = BufferSlice(copy, 0, len(copy.array))
        return piece
