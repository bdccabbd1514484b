"""Samples in pieces of shared buffers: a chain that segments look into, and copy only to write what others see too."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from numpy.typing import NDArray

__all__ = ["LOCK", "Buffer", "Chain", "Piece", "Values"]

Values = NDArray[Any]

LOCK = threading.RLock()
"""Guards the counts of holders and the growth of chains. Reentrant, because the garbage collector may run __del__ inside it; all that
this can lose is a decrement, which costs a copy and never shares one too many."""


class Buffer:
    """Samples in memory, and how many pieces of chains point at them."""

    __slots__ = ("array", "holders", "lent")

    def __init__(self, array: Values, *, lent: bool) -> None:
        self.array = array
        self.holders = 0
        self.lent = lent  # An array outside sees this memory, so it must never be written.


class Piece(NamedTuple):
    """A stretch of a buffer."""

    buffer: Buffer
    start: int
    stop: int

    def lend(self) -> Values:
        """A view for somebody outside, who must not write."""
        self.buffer.lent = True
        view = self.read()
        view.flags.writeable = False
        return view

    def read(self) -> Values:
        """A view for us."""
        return self.buffer.array[self.start : self.stop]


class Chain:
    """A growing list of pieces that segments share: each looks at a range of its samples, and none sees the rest.

    Segments count as holders of the chain and chains as holders of buffers: two levels, so that a new segment costs
    the same however many pieces it has.
    """

    __slots__ = ("ends", "holders", "pieces")

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.holders = 0
        self.pieces: list[Piece] = []
        self.ends: list[int] = []  # Where each piece ends, in samples from the start of the chain.
        self.push(pieces)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __del__(self) -> None:
        with LOCK:
            for piece in self.pieces:
                piece.buffer.holders -= 1

    def push(self, pieces: Iterable[Piece]) -> None:
        """Add pieces at the end; who looks at what was there sees no change."""
        with LOCK:
            for piece in pieces:
                piece.buffer.holders += 1
                self.pieces.append(piece)
                self.ends.append(len(self) + piece.stop - piece.start)

    def numbers(self, lo: int, hi: int) -> range:
        """Which pieces hold samples of ``[lo, hi)``."""
        return range(bisect_right(self.ends, lo), bisect_right(self.ends, hi - 1) + 1) if lo < hi else range(0)

    def cut(self, lo: int, hi: int) -> Iterator[Piece]:
        """Yield the pieces of ``[lo, hi)``, the outer ones trimmed."""
        for n in self.numbers(lo, hi):
            buffer, start, stop = self.pieces[n]
            end = self.ends[n]
            yield Piece(buffer, max(start, stop - (end - lo)), min(stop, stop - (end - hi)))

    def own(self, n: int) -> Piece:
        """Make piece `n` one that nobody else sees, by a copy if need be."""
        piece = self.pieces[n]
        if piece.buffer.lent or piece.buffer.holders > 1:
            piece.buffer.holders -= 1
            copy = Buffer(piece.read().copy(), lent=False)
            copy.holders = 1
            self.pieces[n] = piece = Piece(copy, 0, len(copy.array))
        return piece
