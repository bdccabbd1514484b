"""SigSeg: a segment of one signal as a value, made of views of shared buffers."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.chain import LOCK, Buffer, BufferSlice, Chain, Values
from hydrophone.model.time import add_time, format_duration, format_instant
from hydrophone.model.timebase import Timebase

__all__ = ["SigSeg"]

# A chain up to this long is copied by append, so that a short segment does not keep alive what others appended to it.
_SHORT = 8


class _Kind(NamedTuple):
    """What two segments must share to be appended."""

    timebase: Timebase
    dtype: np.dtype[Any]
    channels: int | None

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return () if self.channels is None else (self.channels,)

    def __str__(self) -> str:
        return f"{self.dtype}" if self.channels is None else f"{self.dtype} in {self.channels} channels"


class SigSeg:
    """A contiguous segment of one signal: a timebase, the index of the first sample, and the samples.

    A segment is a value: it behaves as if every holder had a copy of its own. `append`, `subseg` and `between` copy no
    samples, `materialize` joins them into one array when first asked to, and `write` copies what others still see.

    Parameters
    ----------
    timebase : Timebase
        The grid that the samples lie on.
    first : int
        Index of the first sample on that grid.
    samples : array_like
        One-dimensional, or two-dimensional with a column per channel. An array is not copied: do not change it
        afterwards.

    Raises
    ------
    SignalTypeError
        When the samples have more than two dimensions, or are objects or text.

    Notes
    -----
    Building up a long segment by `append` takes constant time per call on average, however many pieces it has. Two
    segments are equal when timebase, first index, type and samples are; NaN equals nothing, as in NumPy.

    Examples
    --------
    >>> grid = Timebase.every("20ms")
    >>> seg = SigSeg(grid, 0, [1.0, 2.0, 3.0]).append(SigSeg(grid, 3, [4.0, 5.0]))
    >>> seg
    SigSeg(5 x float64 every 20ms, indices 0 to 5, from 1970-01-01T00:00:00.000000000)
    >>> seg.subseg(1, 3).to_numpy()
    array([2., 3., 4.])
    """

    __slots__ = ("_chain", "_first", "_kind", "_length", "_lo")

    __hash__ = None  # type: ignore[assignment]  # It can be written.

    def __init__(self, timebase: Timebase, first: int, samples: ArrayLike) -> None:
        array = np.asarray(samples)
        if array.ndim not in (1, 2):
            raise SignalTypeError(f"SigSeg: samples must have 1 or 2 dimensions, got {array.ndim}")
        if array.dtype.kind in "OSUT":
            raise SignalTypeError(f"SigSeg: samples must be numbers, got dtype {array.dtype}")
        self._kind = _Kind(timebase, array.dtype, array.shape[1] if array.ndim == 2 else None)
        self._first, self._length = operator.index(first), len(array)
        self._hold(Chain([BufferSlice(Buffer(array, lent=True), 0, len(array))] if len(array) else []), 0)

    def __del__(self) -> None:
        self._release()

    # --- what it covers ---------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def timebase(self) -> Timebase:
        """The grid that the samples lie on."""
        return self._kind.timebase

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a sample."""
        return self._kind.dtype

    @property
    def channels(self) -> int | None:
        """Number of columns, or None when the samples are one-dimensional."""
        return self._kind.channels

    @property
    def first(self) -> int:
        """Index of the first sample."""
        return self._first

    @property
    def next(self) -> int:
        """Index after the last sample, where an adjacent segment starts.

        Examples
        --------
        >>> SigSeg(Timebase.every("20ms"), 100, [1, 2, 3]).next
        103
        """
        return self.first + self._length

    @property
    def start(self) -> int:
        """Instant of the first sample.

        Examples
        --------
        >>> SigSeg(Timebase.every("20ms"), 100, [1, 2, 3]).start
        2000000000
        """
        return self.timebase.instant(self.first)

    @property
    def end(self) -> int:
        """Instant at which the next sample would lie.

        Examples
        --------
        >>> SigSeg(Timebase.every("20ms"), 100, [1, 2, 3]).end
        2060000000
        """
        return self.timebase.instant(self.next)

    # --- copy-free --------------------------------------------------------------------------------------------

    def append(self, other: SigSeg) -> SigSeg:
        """Return this segment followed by an adjacent one; nothing is copied.

        Raises
        ------
        DataError
            When there is a gap between the two, or they overlap.
        SignalTypeError
            When timebase, dtype or channels differ.

        Examples
        --------
        >>> grid = Timebase.every("20ms")
        >>> len(SigSeg(grid, 0, [1, 2]).append(SigSeg(grid, 2, [3])))
        3
        """
        self._check_adjacent(other)
        with LOCK:
            chain, lo = self._chain, self._lo
            # The shared list may grow only at its end, which no other segment sees.
            if lo + self._length < len(chain) or len(chain.pieces) <= _SHORT:
                chain, lo = Chain(self._pieces()), 0
            chain.push(list(other._pieces()))
            return self._over(chain, lo, self.first, self._length + other._length)

    def subseg(self, start: int, length: int) -> SigSeg:
        """Return `length` samples from position `start` of this segment on; nothing is copied.

        Raises
        ------
        ParameterError
            When the range does not lie within the segment.

        Examples
        --------
        >>> SigSeg(Timebase.every("20ms"), 100, [1, 2, 3, 4]).subseg(1, 2)
        SigSeg(2 x int64 every 20ms, indices 101 to 103, from 1970-01-01T00:00:02.020000000)
        """
        if start < 0 or length < 0 or start + length > self._length:
            raise ParameterError(f"subseg: {length} samples from position {start} on, of a segment of {self._length}")
        with LOCK:
            chain, lo, hi = self._chain, self._lo + start, self._lo + start + length
            # A small part gets its own list, so that it does not keep much else alive.
            if 2 * length < len(chain) or 2 * len(chain.numbers(lo, hi)) < len(chain.pieces):
                chain, lo = Chain(chain.cut(lo, hi)), 0
            return self._over(chain, lo, self.first + start, length)

    def between(self, t0: int, t1: int) -> SigSeg:
        """Return the samples with instants in ``[t0, t1)``, as far as the segment reaches; nothing is copied.

        Examples
        --------
        >>> seg = SigSeg(Timebase.every("20ms"), 0, [1, 2, 3, 4])
        >>> seg.between(10_000_000, 60_000_000).to_numpy()
        array([2, 3])
        """
        low, high = (min(max(self.timebase.index_from(t), self.first), self.next) for t in (t0, t1))
        return self.subseg(low - self.first, max(high - low, 0))

    # --- reading ----------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, i: slice) -> SigSeg: ...
    @overload
    def __getitem__(self, i: int) -> Any: ...
    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            start, stop, step = i.indices(self._length)
            if step != 1:
                raise ParameterError(f"SigSeg: a slice must have step 1, got {step}")
            return self.subseg(start, max(stop - start, 0))
        position = operator.index(i) + (self._length if i < 0 else 0)
        if not 0 <= position < self._length:
            raise IndexError(f"SigSeg: position {i} of a segment of {self._length} samples")
        sample = self._lo + position
        n = bisect_right(self._chain.ends, sample)
        piece = self._chain.pieces[n]
        return piece.buffer.array[piece.stop - (self._chain.ends[n] - sample)].copy()

    def at(self, t: int) -> Any:
        """Return the sample that holds at an instant: the last one that does not lie after it.

        Raises
        ------
        ParameterError
            When the instant is not in ``[start, end)``.

        Examples
        --------
        >>> SigSeg(Timebase.every("20ms"), 0, [1, 2, 3]).at(25_000_000)
        np.int64(2)
        """
        position = self.timebase.index_from(add_time(t, 1)) - 1 - self.first
        if not 0 <= position < self._length:
            span = f"{format_instant(self.start)} to {format_instant(self.end)}"
            raise ParameterError(f"at: {format_instant(t)} is outside the segment, {span}")
        return self[position]

    def pieces(self) -> Iterator[Values]:
        """Yield the samples block by block as they lie in memory, as read-only views, without joining them.

        Examples
        --------
        >>> grid = Timebase.every("20ms")
        >>> [len(block) for block in SigSeg(grid, 0, [1, 2]).append(SigSeg(grid, 2, [3])).pieces()]
        [2, 1]
        """
        return (piece.lend() for piece in list(self._pieces()))

    def __iter__(self) -> Iterator[Any]:
        for block in self.pieces():
            yield from block

    def materialize(self) -> Values:
        """Return all samples as one contiguous read-only array, which is made at most once.

        Examples
        --------
        >>> seg = SigSeg(Timebase.every("20ms"), 0, [1, 2, 3])
        >>> np.shares_memory(seg.materialize(), seg.materialize())
        True
        """
        pieces = list(self._pieces())
        if len(pieces) != 1 or not pieces[0].read().flags.c_contiguous:
            pieces = [BufferSlice(Buffer(self.to_numpy(), lent=False), 0, self._length)]
            self._hold_instead(Chain(pieces))
        return pieces[0].lend()

    def to_numpy(self) -> Values:
        """Return all samples as a new array that belongs to the caller.

        Examples
        --------
        >>> SigSeg(Timebase.every("20ms"), 0, [1, 2, 3]).to_numpy()
        array([1, 2, 3])
        """
        blocks = [piece.read() for piece in self._pieces()]
        return np.concatenate([np.empty((0, *self._kind.sample_shape), self.dtype), *blocks])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Values:
        return np.array(self.materialize(), dtype=dtype, copy=copy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SigSeg):
            return NotImplemented
        mine, its = ((s._kind, s._first, s._length) for s in (self, other))
        return mine == its and all(np.array_equal(a, b) for a, b in _blocks_of_both(self, other))

    def __reduce__(self) -> tuple[type[SigSeg], tuple[Timebase, int, Values]]:
        return SigSeg, (self.timebase, self.first, self.materialize())

    def __repr__(self) -> str:
        span = f"indices {self.first} to {self.next}, from {format_instant(self.start)}"
        return f"SigSeg({self._length} x {self._kind} every {format_duration(self.timebase.period)}, {span})"

    # --- writing ----------------------------------------------------------------------------------------------

    def write(self, i: int, values: ArrayLike) -> None:
        """Replace the samples from position `i` on; what other segments and arrays show stays as it was.

        Memory that something else still sees is copied first, and only the pieces that are written.

        Parameters
        ----------
        i : int
            Position of the first sample to replace.
        values : array_like
            As many samples as to replace; a single number is one sample.

        Raises
        ------
        ParameterError
            When the range does not lie within the segment.
        SignalTypeError
            When the values do not fit the dtype or the channels.

        Examples
        --------
        >>> seg = SigSeg(Timebase.every("20ms"), 0, [1, 2, 3, 4])
        >>> part = seg.subseg(1, 2)
        >>> part.write(0, [20, 30])
        >>> part.to_numpy(), seg.to_numpy()
        (array([20, 30]), array([1, 2, 3, 4]))
        """
        new = self._fitting(values)
        if i < 0 or i + len(new) > self._length:
            raise ParameterError(f"write: {len(new)} samples at position {i} of a segment of {self._length}")
        with LOCK:
            if self._chain.holders > 1:
                self._hold_instead(Chain(self._pieces()))
            self._write(self._lo + i, new)

    def _write(self, lo: int, new: Values) -> None:
        chain, done = self._chain, 0
        for n in chain.numbers(lo, lo + len(new)):
            piece = chain.own(n)
            into = piece.read()[max(len(piece.read()) - (chain.ends[n] - lo), 0) :]
            count = min(len(into), len(new) - done)
            into[:count] = new[done : done + count]
            done += count

    def _fitting(self, values: ArrayLike) -> Values:
        new = np.asarray(values)
        new = new[np.newaxis] if new.shape == self._kind.sample_shape else new
        if new.shape[1:] != self._kind.sample_shape:
            raise SignalTypeError(f"write: values of shape {np.shape(values)} into {self._kind}")
        if not np.can_cast(new.dtype, self.dtype, "same_kind"):
            raise SignalTypeError(f"write: values of dtype {new.dtype} into {self._kind}")
        return new

    # --- holders ----------------------------------------------------------------------------------------------

    def _hold(self, chain: Chain, lo: int) -> None:
        with LOCK:
            chain.holders += 1
        self._chain, self._lo = chain, lo

    def _release(self) -> None:
        chain: Chain | None = getattr(self, "_chain", None)  # None after a constructor that raised.
        if chain is not None:
            with LOCK:
                chain.holders -= 1

    def _hold_instead(self, chain: Chain) -> None:
        """Show the same samples from the start of another chain."""
        with LOCK:
            self._release()
            self._hold(chain, 0)

    def _over(self, chain: Chain, lo: int, first: int, length: int) -> SigSeg:
        """Make a segment of the same signal over a range of a chain."""
        seg = object.__new__(SigSeg)
        seg._kind, seg._first, seg._length = self._kind, first, length
        seg._hold(chain, lo)
        return seg

    def _pieces(self) -> Iterator[BufferSlice]:
        return self._chain.cut(self._lo, self._lo + self._length)

    def _check_adjacent(self, other: SigSeg) -> None:
        if not isinstance(other, SigSeg):
            raise SignalTypeError(f"append: expected a SigSeg, got {type(other).__name__}")
        if other.timebase != self.timebase:
            raise SignalTypeError(f"append: the timebases differ: {self.timebase} and {other.timebase}")
        if other._kind != self._kind:
            raise SignalTypeError(f"append: the samples differ: {self._kind} and {other._kind}")
        if other.first != self.next:
            distance = other.first - self.next
            what = f"a gap of {distance} samples" if distance > 0 else f"an overlap of {-distance} samples"
            ends = f"this segment ends before index {self.next} ({format_instant(self.end)})"
            starts = f"the other starts at index {other.first} ({format_instant(other.start)})"
            raise DataError(f"append: {what}: {ends}, {starts}")


def _blocks_of_both(a: SigSeg, b: SigSeg) -> Iterator[tuple[Values, Values]]:
    """Yield the samples of two equally long segments side by side, cut where either has a border."""
    cuts = {0, len(a)}
    for seg in (a, b):
        borders = (end - seg._lo for end in seg._chain.ends)
        cuts.update(border for border in borders if 0 < border < len(seg))
    for lo, hi in pairwise(sorted(cuts)):
        (left,), (right,) = (seg._chain.cut(seg._lo + lo, seg._lo + hi) for seg in (a, b))
        yield left.read(), right.read()
