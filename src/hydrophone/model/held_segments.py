"""Samples that are held in the batches in which they came: an append copies nothing, and only what is cut out is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hydrophone.model.batch import Ints, Mask, Segments, Values
from hydrophone.model.sorted_rows import expand_ranges, scatter_ranges, search_rows
from hydrophone.model.state import KeptRows


@dataclass(frozen=True, eq=False)
class _Index:
    """All held segments in the order of (slot, first): in which batch each lies, and where its samples begin there."""

    slot: Ints
    first: Ints
    next: Ints
    batch: Ints
    at: Ints

    @classmethod
    def of(cls, batches: Sequence[Segments]) -> _Index:
        none = np.zeros(0, np.int64)
        slot, first, after, at = (
            np.concatenate([none, *columns])
            for columns in zip(*((b.slot, b.first, b.next, b.offsets[:-1]) for b in batches), strict=True)
        )
        batch = np.repeat(np.arange(len(batches)), [len(b) for b in batches])
        order = np.lexsort((first, slot))
        return cls(slot[order], first[order], after[order], batch[order], at[order])


class HeldSegments(KeptRows[Segments]):
    """Samples of many keys from which stretches are cut.

    `HeldBatches` joins what it holds into one batch whenever somebody looks: with n batches, n copies of everything. Here a look makes
    an index of the segments, and samples are copied when a stretch of them leaves.

    Parameters
    ----------
    empty : no samples, of the type and with the channels of those to come

    Examples
    --------
    >>> from hydrophone.model.timebase import Timebase, Timebases
    >>> base, zero = Timebases.shared(Timebase.every("1ms")), np.zeros(1, np.int64)
    >>> held = HeldSegments(np.zeros(0))
    >>> held.add(Segments(zero, np.array([5]), np.array([0, 3]), np.array([1.0, 2.0, 3.0]), base))
    >>> held.add(Segments(zero, np.array([8]), np.array([0, 2]), np.array([4.0, 5.0]), base))
    >>> held.whole(np.array([0, 0]), np.array([6, 3]), np.array([10, 7]))
    array([ True, False])
    >>> held.cut(np.array([0]), np.array([6]), np.array([10]))
    array([2., 3., 4., 5.])
    """

    def __init__(self, empty: Values) -> None:
        super().__init__(Segments)
        self._empty = empty
        self._batches: list[Segments] = []
        self._index: _Index | None = None

    @property
    def batches(self) -> Sequence[Segments]:
        """What is held, in the batches in which it came."""
        return self._batches

    def add(self, batch: Segments) -> None:
        """Hold these samples too."""
        if len(batch):
            self._hold(batch)
            self._mark(batch.slot)

    def _hold(self, batch: Segments) -> None:
        self._batches.append(batch)
        self._index = None

    def whole(self, slot: Ints, low: Ints, high: Ints) -> Mask:
        """Which stretches ``[low, high)`` of grid indices are held without a hole; a stretch of no samples is not held."""
        if not self._batches:
            return np.zeros(len(slot), np.bool_)
        stretch, _, start, stop = self._pieces(slot, low, high)
        found = np.zeros(len(slot), np.int64)
        np.add.at(found, stretch, stop - start)
        return (found == high - low) & (found > 0)

    def cut(self, slot: Ints, low: Ints, high: Ints) -> Values:
        """The samples of stretches that are held whole, one after the other. Each is copied once."""
        if not len(slot):
            return self._empty
        return self._copied(slot, low, high, np.empty)

    def padded(self, slot: Ints, low: Ints, high: Ints) -> Values:
        """The samples of stretches, one after the other, and zeros where none is held.

        Examples
        --------
        >>> from hydrophone.model.timebase import Timebase, Timebases
        >>> base, zero = Timebases.shared(Timebase.every("1ms")), np.zeros(1, np.int64)
        >>> held = HeldSegments(np.zeros(0))
        >>> held.add(Segments(zero, np.array([5]), np.array([0, 2]), np.array([1.0, 2.0]), base))
        >>> held.padded(np.array([0, 1]), np.array([4, 5]), np.array([8, 6]))
        array([0., 1., 2., 0., 0.])
        """
        return self._copied(slot, low, high, np.zeros)

    def _copied(self, slot: Ints, low: Ints, high: Ints, room: Callable[..., Values]) -> Values:
        """What is held of each stretch, each in its place."""
        place = np.cumsum(high - low) - (high - low)
        out = room((int((high - low).sum()), *self._empty.shape[1:]), self._empty.dtype)
        if not self._batches:
            return out
        index = self._made_index()
        stretch, found, start, stop = self._pieces(slot, low, high)
        lengths = stop - start
        to, at = place[stretch] + start - low[stretch], index.at[found] + start - index.first[found]
        source = index.batch[found]
        for number in np.unique(source):
            mine = source == number
            scatter_ranges(self._batches[number].values, at[mine], lengths[mine], to[mine], out)
        return out

    def _made_index(self) -> _Index:
        self._index = self._index or _Index.of(self._batches)
        return self._index

    def _pieces(self, slot: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """What is held of each stretch, in order: (stretch, row of the index, first grid index, the one after the last)."""
        index = self._made_index()
        begin = search_rows(index.slot, index.next, slot, low, "right")
        end = np.maximum(search_rows(index.slot, index.first, slot, high, "left"), begin)
        stretch, found = expand_ranges(begin, end - begin)
        return (
            stretch,
            found,
            np.maximum(index.first[found], low[stretch]),
            np.minimum(index.next[found], high[stretch]),
        )

    def forget(self, needed: Ints) -> None:
        """Let go of segments that end at or before the grid index given for each slot. A segment goes as a whole."""
        kept = []
        for batch in self._batches:
            alive = batch.next > needed[batch.slot]
            if alive.all():
                kept.append(batch)
                continue
            self._mark(batch.slot[~alive])
            self._index = None
            if alive.any():
                kept.append(batch.select(alive))
        self._batches = kept

    def living(self) -> Iterable[tuple[Segments, Mask | None]]:
        """All samples."""
        return [(batch, None) for batch in self._batches]

    def _put_back(self, rows: Segments) -> None:
        self._hold(rows)
