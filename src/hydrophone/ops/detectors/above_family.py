"""Intervals above many thresholds of one signal: what lies above a high one lies in an interval above every lower one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.model.batch import Batch, Events, Ints, Mask, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.family import Family, Given, given_in_shares, in_shares
from hydrophone.model.marks import Mark, Marks, hold_back_mark, marks_of_slots
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.ops.signals.grids import KeyGrids
from hydrophone.plan.types import StreamType


@dataclass(frozen=True)
class _Intervals:
    """Intervals of grid indices with the number of their member, ordered by (member, slot, start)."""

    member: Ints
    slot: Ints
    start: Ints
    stop: Ints
    samples: Ints
    peak: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.member)

    def select(self, rows: Ints | Mask) -> Self:
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    @classmethod
    def concat(cls, parts: Sequence[_Intervals]) -> _Intervals:
        whole = cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))
        return whole.select(np.lexsort((whole.start, whole.slot, whole.member)))


class AboveFamily(Family):
    """Finds the intervals above all thresholds in one pass over the samples; the open ones of all members are held together.

    Parameters
    ----------
    thresholds, states : of the members, in their order
    report : where intervals are cut
    grids : of the signal
    out : the type of the results
    """

    advances = True

    def __init__(
        self,
        thresholds: Sequence[float],
        states: Sequence[HeldBatches[Events]],
        report: int | None,
        grids: KeyGrids,
        out: StreamType,
    ) -> None:
        self.states, self.report, self.grids, self.out = states, report, grids, out
        self.order: Ints = np.argsort(np.array(thresholds), kind="stable")
        peaks = out.columns.field("peak").type.to_pandas_dtype()
        self.levels = np.array(thresholds, peaks)[self.order]
        none = np.zeros(0, np.int64)
        self._none = _Intervals(none, none, none, none, none, np.zeros(0, peaks))
        self._open = self._none
        self._changed: list[Ints] = []

    # --- state ----------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Take the open intervals of the members."""
        found = []
        for number, member in enumerate(self.order.tolist()):
            held = self.states[member].all()
            if held is not None:
                samples, peak = (held.columns[name].to_numpy() for name in ("samples", "peak"))
                found.append(_Intervals(np.full(len(held), number), held.slot, held.start, held.stop, samples, peak))
                self.states[member].replace(None, self._none.slot)
        self._open = _Intervals.concat(found) if found else self._none
        self._changed = []

    def part(self) -> None:
        """Give the members their open intervals, and say which slots have changed."""
        held = self._open
        changed = np.unique(np.concatenate(self._changed)) if self._changed else self._none.slot
        cuts = np.searchsorted(held.member, np.arange(len(self.order) + 1))
        for number, member in enumerate(self.order.tolist()):
            mine = held.select(np.arange(cuts[number], cuts[number + 1]))
            self.states[member].replace(Events(mine.slot, mine.start, mine.stop, self._columns(mine)), changed)
        self._open, self._changed = self._none, []

    def forgettable(self) -> Mask:
        """Slots without an open interval."""
        free = super().forgettable()
        free[self._open.slot] = False
        return free

    # --- running --------------------------------------------------------------------------------------------------------

    def take(self, batch: Batch) -> Given:
        """Join the pieces of this batch with the open ones, and give those that have ended."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return []
        pieces = self._pieces(batch)
        if len(self._open):
            pieces = self._joined(_Intervals.concat([self._open, pieces]))
        seen = np.full(len(self.keys), MIN_TIME)
        np.maximum.at(seen, batch.slot, batch.next)
        closed = (seen[pieces.slot] != MIN_TIME) & (pieces.stop < seen[pieces.slot])
        closed[:-1] |= (pieces.member[1:] == pieces.member[:-1]) & (pieces.slot[1:] == pieces.slot[:-1])
        given = self._given(pieces.select(closed))
        self._open = pieces.select(~closed)
        self._changed = [np.unique(np.concatenate([*self._changed, batch.slot]))]
        return given

    def advance(self, marks: Marks) -> tuple[Given, Sequence[Mark]]:
        """Intervals whose next sample did not come before the mark have ended; the others hold the marks of their members."""
        held, mark, base = self._open, marks[0], self.grids.base
        given: Given = []
        if len(held):
            ended = base.instant(held.slot, held.stop) < marks_of_slots(mark, held.slot)
            if ended.any():
                given = self._given(held.select(ended))
                self._changed.append(np.unique(held.slot[ended]))
                self._open = held = held.select(~ended)
        return given, self._held_back(mark, held)

    def _held_back(self, mark: Mark, held: _Intervals) -> Sequence[Mark]:
        """The output mark of every member."""
        found: list[Mark] = [mark] * len(self.order)
        starts = self.grids.base.instant(held.slot, held.start) if len(held) else held.start
        first = np.flatnonzero(np.diff(held.member, prepend=-1))
        if isinstance(mark, np.ndarray):
            for low, high in zip(first, [*first[1:], len(held)], strict=True):
                member = self.order[held.member[low]]
                found[member] = hold_back_mark(mark, held.slot[low:high], starts[low:high])
        elif mark < MAX_TIME and len(first):
            lowest = np.minimum(mark, np.minimum.reduceat(starts, first))
            for member, low in zip(self.order[held.member[first]].tolist(), lowest.tolist(), strict=True):
                found[member] = low
        return found

    def _pieces(self, x: Segments) -> _Intervals:
        """Stretches of samples above every threshold within runs (and report intervals)."""
        values, cuts, run = np.ascontiguousarray(x.values), x.offsets, np.arange(len(x))
        if self.report is not None:
            cuts, run = _report_cuts(x, self.report)
        counts = _count(values, cuts, self.levels)
        part, begin, lengths, peak = _nested(values, cuts, self.levels, counts)
        run = run[part]
        start = begin + (x.first - x.offsets[:-1])[run]
        # Adding zero makes -0.0 plain, as `AboveKernel` does.
        return _Intervals(
            np.repeat(np.arange(len(counts)), counts),
            x.slot[run],
            start,
            start + lengths,
            lengths,
            peak + peak.dtype.type(0),
        )

    def _joined(self, pieces: _Intervals) -> _Intervals:
        """One piece where an open one goes on."""
        same = (pieces.member[1:] == pieces.member[:-1]) & (pieces.slot[1:] == pieces.slot[:-1])
        goes_on = same & (pieces.start[1:] == pieces.stop[:-1])
        if self.report is not None:
            share = self.grids.base.instant(pieces.slot, pieces.start) // self.report
            goes_on &= share[1:] == share[:-1]
        first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
        last = np.append(first[1:], len(pieces)) - 1
        return _Intervals(
            pieces.member[first],
            pieces.slot[first],
            pieces.start[first],
            pieces.stop[last],
            np.add.reduceat(pieces.samples, first),
            np.maximum.reduceat(pieces.peak, first),
        )

    def _given(self, ended: _Intervals) -> Given:
        """Intervals that have ended, as results of their members."""
        counts = np.bincount(ended.member, minlength=len(self.order))
        ends = np.concatenate([[0], np.cumsum(counts)])
        found: Given = []
        for low, high in in_shares(counts):
            found += given_in_shares(
                self._events(ended.select(np.arange(ends[low], ends[high]))), low, counts[low:high], self.order
            )
        return found

    def _events(self, ended: _Intervals) -> Events:
        """From indices to instants."""
        base = self.grids.base
        start, stop = base.times(ended.slot, ended.start), base.times(ended.slot, ended.stop)
        return Events(ended.slot, start, stop, self._columns(ended))

    def _columns(self, found: _Intervals) -> pa.Table:
        return pa.table({"peak": found.peak, "samples": found.samples}, schema=self.out.columns)


def _report_cuts(x: Segments, report: int) -> tuple[Ints, Ints]:
    """Where a batch is cut, at runs and at report intervals, and the run of every piece."""
    run = np.repeat(np.arange(len(x)), x.lengths)
    share = x.base.instant(x.slot[run], x.sample_index) // report
    fresh = np.ones(len(run), np.bool_)
    fresh[1:] = (share[1:] != share[:-1]) | (run[1:] != run[:-1])
    first = np.flatnonzero(fresh)
    return np.append(first, len(run)), run[first]


@compiled
def _count(x, cuts, levels):  # type: ignore[no-untyped-def]
    """How many stretches of samples lie above each level (in rising order)."""
    counts = np.zeros(len(levels), np.int64)
    for part in range(len(cuts) - 1):
        above = 0  # so many levels are below the sample
        for i in range(cuts[part], cuts[part + 1]):
            while above > 0 and not x[i] > levels[above - 1]:
                above -= 1
            while above < len(levels) and x[i] > levels[above]:
                counts[above] += 1
                above += 1
    return counts


@compiled
def _nested(x, cuts, levels, counts):  # type: ignore[no-untyped-def]
    """The stretches, one level after the other: their part of the batch, begin, length and largest sample.

    Stretches above a level lie within those above lower levels, so they end like brackets, the highest first.
    """
    at = np.zeros(len(levels) + 1, np.int64)
    for level in range(len(levels)):
        at[level + 1] = at[level] + counts[level]
    in_part, begin, lengths = np.empty(at[-1], np.int64), np.empty(at[-1], np.int64), np.empty(at[-1], np.int64)
    peak = np.empty(at[-1], x.dtype)
    for part in range(len(cuts) - 1):
        above = 0
        for i in range(cuts[part], cuts[part + 1] + 1):
            over = i == cuts[part + 1]
            while above > 0 and (over or not x[i] > levels[above - 1]):
                above -= 1
                n = at[above]
                lengths[n] = i - begin[n]
                if above > 0:
                    peak[at[above - 1]] = max(peak[at[above - 1]], peak[n])
                at[above] += 1
            if over:
                break
            if above > 0:
                peak[at[above - 1]] = max(peak[at[above - 1]], x[i])
            while above < len(levels) and x[i] > levels[above]:
                in_part[at[above]], begin[at[above]], peak[at[above]] = part, i, x[i]
                above += 1
    return in_part, begin, lengths, peak
