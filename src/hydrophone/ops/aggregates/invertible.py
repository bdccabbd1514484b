"""Aggregates from which events can be taken away: what a window shares with the one before it is not merged again.

To take away what a user's `remove` can undo is to merge its inverse: for every event the state that `remove` makes of a fresh one.
So inverses are gathered in panes as events are, and a window is the last one, merged with what came and the inverse of what went.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from hydrophone.model.batch import Ints, Mask
from hydrophone.ops.aggregates.folding import fold_layers, fold_short, put_rows
from hydrophone.ops.aggregates.summaries import Aggregate, Custom, Partials, Values

MIN_RECOMPUTE_INTERVAL = 64
"""Windows between two that are made afresh, at least."""
MAX_SHRINKAGE = 64
"""A state that has shrunk by more than this since it was made afresh is made afresh: what it has lost, it keeps as rounding errors."""


@dataclass(frozen=True)
class Inverse(Custom):
    """What takes events away where it is merged; its counts are below zero."""

    adds: ClassVar[str] = "remove"

    def partials(self, values: Values, valid: Mask) -> Partials:
        """By the user's `remove`."""
        *states, count = super().partials(values, valid)
        return [*states, -count]


def inverse(aggregate: Aggregate) -> Inverse | None:
    """What takes events of an aggregate away; None where nothing can."""
    if not isinstance(aggregate, Custom) or aggregate.remove is None:
        return None
    own = {f.name: getattr(aggregate, f.name) for f in fields(Custom)}
    return Inverse(**{**own, "add": aggregate.remove, "remove": None})


@dataclass(frozen=True)
class WindowChanges:
    """What comes to, or goes from, some of the windows: their numbers, each once, and the parts to merge."""

    window: Ints
    partials: Partials

    @classmethod
    def of(cls, aggregate: Aggregate, partials: Partials, window: Ints, first: Ints, stop: Ints) -> WindowChanges:
        """The rows ``first[i] .. stop[i] - 1`` for each of the windows, where there are any."""
        some = first < stop
        return cls(window[some], fold_short(aggregate, partials, first[some], stop[some]))


@dataclass(frozen=True)
class WindowStates:
    """States of windows, and how large each of their numbers has been since it was made afresh."""

    partials: Partials
    peak: Partials

    @classmethod
    def fresh(cls, partials: Partials) -> WindowStates:
        """States that were just made."""
        return cls(partials, [np.abs(p) for p in partials])

    def at(self, rows: Ints) -> WindowStates:
        """Some of them."""
        return WindowStates([p[rows] for p in self.partials], [p[rows] for p in self.peak])

    def merged(self, aggregate: Aggregate, moves: WindowChanges, where: Ints) -> WindowStates:
        """With the moves of each, by their place among them; -1 where there are none."""
        rows = np.flatnonzero(where >= 0)
        if not len(rows):
            return self
        moved = aggregate.merged([p[rows] for p in self.partials], [p[where[rows]] for p in moves.partials])
        partials = [put_rows(p.copy(), rows, m) for p, m in zip(self.partials, moved, strict=True)]
        return WindowStates(partials, [np.fmax(q, np.abs(p)) for q, p in zip(self.peak, partials, strict=True)])

    @property
    def spent(self) -> Mask:
        """Those that are worth nothing any more: not finite, or small against what they have been."""
        gone = np.zeros(len(self.partials[0]), np.bool_)
        for part, peak in zip(self.partials, self.peak, strict=True):
            if part.dtype.kind == "f":
                gone |= ~np.isfinite(part) | (peak > MAX_SHRINKAGE * np.abs(part))
        return gone


def running_states(
    begin: Mask,
    made: WindowStates,
    exact: Callable[[Ints], Partials],
    aggregate: Aggregate,
    moves: Sequence[WindowChanges],
) -> WindowStates:
    """The states of windows in order: `made` where they begin, elsewhere the one before with its moves.

    Window after window, all stretches between two beginnings at once. What is spent is made afresh by `exact`.
    """
    count, first = len(begin), np.flatnonzero(begin)
    partials = [put_rows(np.zeros(count, p.dtype), first, p) for p in made.partials]
    peak = [put_rows(np.zeros(count, p.dtype), first, p) for p in made.peak]
    places = [put_rows(np.full(count, -1), m.window, np.arange(len(m.window))) for m in moves]
    rank = np.arange(count) - np.repeat(first, np.diff(np.append(first, count)))
    order, ends = np.argsort(rank, kind="stable"), np.cumsum(np.bincount(rank))
    with np.errstate(all="ignore"):
        for low, high in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            rows = order[low:high]
            now = WindowStates([p[rows - 1] for p in partials], [p[rows - 1] for p in peak])
            for move, place in zip(moves, places, strict=True):
                now = now.merged(aggregate, move, place[rows])
            partials = [put_rows(p, rows, n) for p, n in zip(partials, now.partials, strict=True)]
            peak = [put_rows(p, rows, n) for p, n in zip(peak, now.peak, strict=True)]
        spent = np.flatnonzero(WindowStates(partials, peak).spent & (rank > 0))
        again = WindowStates.fresh(exact(spent)) if len(spent) else WindowStates([], [])
    for into, new in ((partials, again.partials), (peak, again.peak)):
        for p, values in zip(into, new, strict=False):
            p[spent] = values
    return WindowStates(partials, peak)


@dataclass(frozen=True)
class WindowChain:
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
    known: Partials

    @property
    def window(self) -> Ints:
        """The places of those that are asked for."""
        return np.flatnonzero(self.kind == 1)

    @property
    def tail(self) -> Ints:
        """The places of those to be known the next time."""
        return np.flatnonzero(self.kind == 2)

    def run(self, aggregate: Aggregate, own: Partials, inverses: Partials, known: Partials) -> WindowStates:
        """The states of all, from the parts of the panes and of their inverses, and parts and peaks of what is known."""

        def exact(rows: Ints) -> Partials:
            return fold_short(aggregate, own, self.low[rows], self.high[rows])

        first = np.flatnonzero(self.begin)
        new = self.kind[first] > 0
        made = WindowStates.fresh(exact(first[new]))
        if known:
            half = len(known) // 2
            made = WindowStates(
                [_interleaved(new, n, k) for n, k in zip(made.partials, known[:half], strict=True)],
                [_interleaved(new, n, k) for n, k in zip(made.peak, known[half:], strict=True)],
            )
        later = np.flatnonzero(~self.begin)
        came = WindowChanges.of(aggregate, own, later, self.high[later - 1], self.high[later])
        went = WindowChanges.of(aggregate, inverses, later, self.low[later - 1], self.low[later])
        return running_states(self.begin, made, exact, aggregate, (came, went))


def recompute_interval(shared: int) -> int:
    """Windows between two that are made afresh, where one has `shared` rows: so that this costs about a merge for each."""
    return 1 << max(MIN_RECOMPUTE_INTERVAL, shared).bit_length() - 1


def invertible_layers(
    aggregate: Aggregate, undo: Inverse, partials: Partials, inverses: Partials, first: Ints, stop: Ints, alive: Mask
) -> Partials:
    """As `fold_layers`, for the places that are `alive` only, of which each is made out of the one before."""
    rows = np.flatnonzero(first < stop)
    partials, inverses = ([p[rows] for p in own] for own in (partials, inverses))
    first, stop = first[rows], stop[rows]
    place = np.flatnonzero(alive)
    number = np.cumsum(alive) - 1

    def exact(windows: Ints) -> Partials:
        low, high = np.searchsorted(place[windows], first), np.searchsorted(place[windows], stop)
        some = np.flatnonzero(low < high)
        return fold_layers(aggregate, [p[some] for p in partials], low[some], high[some], len(windows))[0]

    every = recompute_interval(int((stop - first).sum()) // len(place))
    begin = np.concatenate([[True], np.diff(place) > 1]) | (place % every == 0)
    stays = np.flatnonzero(stop < len(alive))
    stays = stays[alive[stop[stays]]]
    moves = (
        _merged_by_window(aggregate, partials, number[first]),
        _merged_by_window(undo, [p[stays] for p in inverses], number[stop[stays]]),
    )
    return running_states(begin, WindowStates.fresh(exact(np.flatnonzero(begin))), exact, aggregate, moves).partials


def _merged_by_window(aggregate: Aggregate, partials: Partials, window: Ints) -> WindowChanges:
    """Rows merged by the window that they come to or go from."""
    order = np.argsort(window, kind="stable")
    found, begin = np.unique(window[order], return_index=True)
    return WindowChanges.of(aggregate, [p[order] for p in partials], found, begin, np.append(begin[1:], len(order)))


def _interleaved(mask: Mask, yes: Values, no: Values) -> Values:
    """The values of `yes` where the mask is true, in their order, and of `no` elsewhere."""
    out = put_rows(np.empty(len(mask), np.result_type(yes, no)), np.flatnonzero(mask), yes)
    return put_rows(out, np.flatnonzero(~mask), no)
