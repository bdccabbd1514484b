"""Aggregates from which events can be taken away: what a window shares with the one before it is not merged again.

To take away what a user's `remove` can undo is to merge its inverse: for every event the state that `remove` makes of a fresh one.
So inverses are gathered in panes as events are, and a window is the last one, merged with what came and the inverse of what went.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from hydrophone.batch import Ints, Mask
from hydrophone.ops.folding import gathered, layered, put
from hydrophone.ops.summaries import Aggregate, Custom, Parts, Values

FEWEST = 64
"""Windows between two that are made afresh, at least."""
FADED = 64
"""A state that has shrunk by more than this since it was made afresh is made afresh: what it has lost, it keeps as rounding errors."""


@dataclass(frozen=True)
class Inverse(Custom):
    """What takes events away where it is merged; its counts are below zero."""

    adds: ClassVar[str] = "remove"

    def parts(self, values: Values, valid: Mask) -> Parts:
        """By the user's `remove`."""
        *states, count = super().parts(values, valid)
        return [*states, -count]


def inverse(aggregate: Aggregate) -> Inverse | None:
    """What takes events of an aggregate away; None where nothing can."""
    if not isinstance(aggregate, Custom) or aggregate.remove is None:
        return None
    own = {f.name: getattr(aggregate, f.name) for f in fields(Custom)}
    return Inverse(**{**own, "add": aggregate.remove, "remove": None})


@dataclass(frozen=True)
class Moves:
    """What comes to, or goes from, some of the windows: their numbers, each once, and the parts to merge."""

    window: Ints
    parts: Parts

    @classmethod
    def of(cls, aggregate: Aggregate, parts: Parts, window: Ints, first: Ints, stop: Ints) -> Moves:
        """The rows ``first[i] .. stop[i] - 1`` for each of the windows, where there are any."""
        some = first < stop
        return cls(window[some], gathered(aggregate, parts, first[some], stop[some]))


@dataclass(frozen=True)
class Run:
    """States of windows, and how large each of their numbers has been since it was made afresh."""

    parts: Parts
    peak: Parts

    @classmethod
    def fresh(cls, parts: Parts) -> Run:
        """States that were just made."""
        return cls(parts, [np.abs(p) for p in parts])

    def at(self, rows: Ints) -> Run:
        """Some of them."""
        return Run([p[rows] for p in self.parts], [p[rows] for p in self.peak])

    def merged(self, aggregate: Aggregate, moves: Moves, where: Ints) -> Run:
        """With the moves of each, by their place among them; -1 where there are none."""
        rows = np.flatnonzero(where >= 0)
        if not len(rows):
            return self
        moved = aggregate.merged([p[rows] for p in self.parts], [p[where[rows]] for p in moves.parts])
        parts = [put(p.copy(), rows, m) for p, m in zip(self.parts, moved, strict=True)]
        return Run(parts, [np.fmax(q, np.abs(p)) for q, p in zip(self.peak, parts, strict=True)])

    @property
    def spent(self) -> Mask:
        """Those that are worth nothing any more: not finite, or small against what they have been."""
        gone = np.zeros(len(self.parts[0]), np.bool_)
        for part, peak in zip(self.parts, self.peak, strict=True):
            if part.dtype.kind == "f":
                gone |= ~np.isfinite(part) | (peak > FADED * np.abs(part))
        return gone


def running(
    begin: Mask, made: Run, exact: Callable[[Ints], Parts], aggregate: Aggregate, moves: Sequence[Moves]
) -> Run:
    """The states of windows in order: `made` where they begin, elsewhere the one before with its moves.

    Window after window, all stretches between two beginnings at once. What is spent is made afresh by `exact`.
    """
    count, first = len(begin), np.flatnonzero(begin)
    parts = [put(np.zeros(count, p.dtype), first, p) for p in made.parts]
    peak = [put(np.zeros(count, p.dtype), first, p) for p in made.peak]
    places = [put(np.full(count, -1), m.window, np.arange(len(m.window))) for m in moves]
    rank = np.arange(count) - np.repeat(first, np.diff(np.append(first, count)))
    order, ends = np.argsort(rank, kind="stable"), np.cumsum(np.bincount(rank))
    with np.errstate(all="ignore"):
        for low, high in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            rows = order[low:high]
            now = Run([p[rows - 1] for p in parts], [p[rows - 1] for p in peak])
            for move, place in zip(moves, places, strict=True):
                now = now.merged(aggregate, move, place[rows])
            parts = [put(p, rows, n) for p, n in zip(parts, now.parts, strict=True)]
            peak = [put(p, rows, n) for p, n in zip(peak, now.peak, strict=True)]
        spent = np.flatnonzero(Run(parts, peak).spent & (rank > 0))
        again = Run.fresh(exact(spent)) if len(spent) else Run([], [])
    for into, new in ((parts, again.parts), (peak, again.peak)):
        for p, values in zip(into, new, strict=False):
            p[spent] = values
    return Run(parts, peak)


@dataclass(frozen=True)
class Chain:
    """Windows in order of key and start, each over the panes ``low .. high - 1``, and what joins them to earlier and later ones.

    Attributes
    ----------
    kind : 0 for a window that is known from before, 1 for one that is asked for, 2 for one to be known the next time
    begin : which are not made out of the one before
    known : parts and peaks of the first kind, aggregate by aggregate
    """

    kind: Ints
    slot: Ints
    start: Ints
    low: Ints
    high: Ints
    begin: Mask
    known: Parts

    @property
    def window(self) -> Ints:
        """The places of those that are asked for."""
        return np.flatnonzero(self.kind == 1)

    @property
    def tail(self) -> Ints:
        """The places of those to be known the next time."""
        return np.flatnonzero(self.kind == 2)

    def run(self, aggregate: Aggregate, own: Parts, inverses: Parts, known: Parts) -> Run:
        """The states of all, from the parts of the panes and of their inverses, and parts and peaks of what is known."""

        def exact(rows: Ints) -> Parts:
            return gathered(aggregate, own, self.low[rows], self.high[rows])

        first = np.flatnonzero(self.begin)
        new = self.kind[first] > 0
        made = Run.fresh(exact(first[new]))
        if known:
            half = len(known) // 2
            made = Run(
                [_mixed(new, n, k) for n, k in zip(made.parts, known[:half], strict=True)],
                [_mixed(new, n, k) for n, k in zip(made.peak, known[half:], strict=True)],
            )
        later = np.flatnonzero(~self.begin)
        came = Moves.of(aggregate, own, later, self.high[later - 1], self.high[later])
        went = Moves.of(aggregate, inverses, later, self.low[later - 1], self.low[later])
        return running(self.begin, made, exact, aggregate, (came, went))


def afresh(shared: int) -> int:
    """Windows between two that are made afresh, where one has `shared` rows: so that this costs about a merge for each."""
    return 1 << max(FEWEST, shared).bit_length() - 1


def covering(
    aggregate: Aggregate, undo: Inverse, parts: Parts, inverses: Parts, first: Ints, stop: Ints, alive: Mask
) -> Parts:
    """As `layered`, for the places that are `alive` only, of which each is made out of the one before."""
    rows = np.flatnonzero(first < stop)
    parts, inverses = ([p[rows] for p in own] for own in (parts, inverses))
    first, stop = first[rows], stop[rows]
    place = np.flatnonzero(alive)
    number = np.cumsum(alive) - 1

    def exact(windows: Ints) -> Parts:
        low, high = np.searchsorted(place[windows], first), np.searchsorted(place[windows], stop)
        some = np.flatnonzero(low < high)
        return layered(aggregate, [p[some] for p in parts], low[some], high[some], len(windows))[0]

    every = afresh(int((stop - first).sum()) // len(place))
    begin = np.concatenate([[True], np.diff(place) > 1]) | (place % every == 0)
    stays = np.flatnonzero(stop < len(alive))
    stays = stays[alive[stop[stays]]]
    moves = (
        _at(aggregate, parts, number[first]),
        _at(undo, [p[stays] for p in inverses], number[stop[stays]]),
    )
    return running(begin, Run.fresh(exact(np.flatnonzero(begin))), exact, aggregate, moves).parts


def _at(aggregate: Aggregate, parts: Parts, window: Ints) -> Moves:
    """Rows merged by the window that they come to or go from."""
    order = np.argsort(window, kind="stable")
    found, begin = np.unique(window[order], return_index=True)
    return Moves.of(aggregate, [p[order] for p in parts], found, begin, np.append(begin[1:], len(order)))


def _mixed(mask: Mask, yes: Values, no: Values) -> Values:
    """The values of `yes` where the mask is true, in their order, and of `no` elsewhere."""
    out = put(np.empty(len(mask), np.result_type(yes, no)), np.flatnonzero(mask), yes)
    return put(out, np.flatnonzero(~mask), no)
