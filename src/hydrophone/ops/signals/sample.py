"""Sampling: from signals at any times to samples on an exact grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.arguments import public
from hydrophone.errors import ParameterError, PlanError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints, Mask, Segments, Values
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME, Duration, add_time, duration, time_apart
from hydrophone.model.timebase import Timebase, Timebases
from hydrophone.ops.relational.rows import signal_values
from hydrophone.ops.room import room_for
from hydrophone.ops.signals.grid_checks import StrayReadings
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import SignalType, UniformType


@dataclass(frozen=True)
class Fill:
    """How a beat between two events gets a value.

    Attributes
    ----------
    max_gap : longest distance in nanoseconds that is bridged; None: any distance
    """

    max_gap: int | None = None

    waits = True
    """Whether a beat can only be known when the event after it has come."""
    points = 2
    """Reference points that a value is made of: the event after the beat, and so many less one before it."""
    by_share = True
    """Whether values come from `between`, which knows how far along the beat lies, or from `through`, which knows all distances."""

    def dtype(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        """The type of filled values."""
        return kind

    def between(
        self, share: np.ndarray[Any, Any], left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """The values at `share` (0 to 1) of the way from `left` to `right`: fills of two points."""
        raise NotImplementedError

    def through(self, offsets: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The values at beats, from all points (a column each, the oldest first) and how many nanoseconds each lies after the beat.

        Points that are missing have the offset NaN.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Hold(Fill):
    """The value of the event before the beat."""

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """With a maximum gap the value is known at once; without one, only the next event says that the signal went on."""
        return self.max_gap is None


@dataclass(frozen=True)
class Linear(Fill):
    """The straight line between the events around the beat."""

    def dtype(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        """Integers become floats."""
        return kind if kind.kind in "fc" else np.dtype(np.float64)


@public
def hold(max_gap: Duration | None = None) -> Hold:
    """Fill with the last value, for at most `max_gap` after it.

    Without `max_gap` the last value is held until the next event, however late, and nothing follows the last event of a key.

    Examples
    --------
    >>> hold("5s")
    Hold(max_gap=5000000000)
    """
    return Hold(_check_max_gap(max_gap))


@public
def linear(max_gap: Duration | None = None) -> Linear:
    """Fill on the straight line between neighbours that are at most `max_gap` apart.

    Examples
    --------
    >>> linear(max_gap="5s")
    Linear(max_gap=5000000000)
    """
    return Linear(_check_max_gap(max_gap))


def _check_max_gap(value: Duration | None) -> int | None:
    if value is None:
        return None
    ns = duration(value)
    if ns <= 0:
        raise ParameterError(f"fill: max_gap must be positive, got {value!r}")
    return ns


def check_fill(what: str, fill: object) -> None:
    """A fill is a fill."""
    if fill is not None and not isinstance(fill, Fill):
        raise ParameterError(
            f"{what}: fill must be a fill, got {fill!r}", hint='hp.hold("5s") or hp.linear(max_gap="5s")'
        )


def refuse_endless(node: Node, fill: Fill | None) -> None:
    """Refuse a fill that may wait for ever, for streams."""
    if fill is not None and fill.max_gap is None:
        raise PlanError(
            f"{node.name()}: without max_gap a sensor that falls silent would hold back progress for ever",
            hint='say how long a gap may be: fill=hp.linear(max_gap="5s")',
            where=node.where,
        )


def fill_reach(what: str, fill: Fill) -> Reach:
    """What a filled beat needs around it: the neighbours within the maximum gap."""
    if fill.max_gap is None:
        return Reach.unbounded(f"{what}: the fill has no max_gap")
    return Reach(fill.max_gap * (fill.points - 1), fill.max_gap if fill.waits else 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample(Node):
    """Samples at the beats of a grid: inside an event its value, between events what the fill says.

    Without a fill an event that no beat meets is left out, and so is a point event that is a nanosecond off; many of them are
    told in the log.

    Start: nothing before a key's first event. Gap: where neighbours are further apart than `max_gap`, no samples.
    End: `hold` goes on for `max_gap` after the
    last event; the other fills end with it.

    An event with a lifetime is at its value up to its last nanosecond, ``end - 1``: from there a line is drawn to the next start, and from
    there `max_gap` counts.
    """

    stable_name = "sample"

    timebase: Timebase
    fill: Fill | None = None

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A fill is a fill."""
        check_fill("sample", self.fill)

    def check_stream(self, waiting: str | None) -> None:
        """A gap must end."""
        refuse_endless(self, self.fill)

    def output_type(self, x: SignalType) -> UniformType:
        """A grid for all keys."""
        if self.fill and self.fill.points > 2 and x.end is not None:
            raise SignalTypeError(
                "sample: a fill of more than two points needs point events, and these have lifetimes",
                hint="hp.hold or hp.linear",
            )
        dtype = self.fill.dtype(x.dtype) if self.fill else x.dtype
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, self.timebase)

    def reach(self, x: SignalType) -> Reach:
        """The neighbours within the maximum gap."""
        return Reach() if self.fill is None else fill_reach("sample", self.fill)

    def kernel(self, x: SignalType) -> Kernel:
        """Sample."""
        return SampleKernel(self.timebase, self.fill, x, self.type)


@dataclass(frozen=True)
class Beats:
    """The beats that some events give.

    Attributes
    ----------
    events, value : the events and their samples
    inside, after : the first beat inside each event, and the first after it
    owed, before : the first beat that is owed before each event, and how many follow it that the fill gives
    ref, left : the last instant and the value of the event before
    """

    events: Events
    value: Values
    inside: Ints
    after: Ints
    owed: Ints
    before: Ints
    ref: Ints
    left: Values

    @property
    def counts(self) -> Ints:
        """The beats of every event."""
        return self.before + self.after - self.inside


class SampleKernel(Kernel):
    """Remembers every key's last reference point (the last instant of its last event) and the next beat that it owes."""

    keyed = True
    what = "sample"

    def __init__(self, timebase: Timebase, fill: Fill | None, kind: SignalType | UniformType, out: UniformType) -> None:
        self.base, self.fill, self.kind, self.out = Timebases.shared(timebase), fill, kind, out
        self.timebase = timebase
        self.gap = MAX_TIME if fill is None or fill.max_gap is None else fill.max_gap
        self.strays = StrayReadings()
        shape = (kind.channels,) if kind.channels else ()
        self.past = SlotArrays(
            time=Field(np.int64, MIN_TIME), value=Field(out.dtype, 0, shape), due=Field(np.int64, MIN_TIME)
        )
        # Reference points before the last one, the newest first.
        older = fill.points - 2 if fill else 0
        self.older = SlotArrays(time=Field(np.int64, MIN_TIME, (older,)), value=Field(out.dtype, 0, (older, *shape)))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Every beat inside an event, and every beat between it and the one before."""
        assert isinstance(batch, Events)
        assert isinstance(self.kind, SignalType)
        if len(batch):
            self.timebase.check_holds(int(batch.start.min()), int(batch.stop.max()))
        value = signal_values(batch, self.kind).astype(self.out.dtype, copy=False)
        return (self._inside(batch, value) if self.fill is None else self._filled(batch, value, self.fill),)

    def _inside(self, x: Events, value: Values) -> Segments:
        """The beats inside events alone."""
        inside, on = self.base.index_at(x.slot, x.start)
        if x.end is None:
            self.strays.count(len(x), len(x) - int(np.count_nonzero(on)))
            return Segments.of_samples(x.slot[on], inside[on], value[on], self.base)
        counts = self.base.index_from(x.slot, x.stop) - inside
        self.strays.count(len(x), len(x) - int(np.count_nonzero(counts)))
        with room_for(self.what, self.keys, x.slot, x.start, x.stop, counts):
            which = np.repeat(np.arange(len(x)), counts)
            return Segments.of_samples(x.slot[which], concat_ranges(inside, counts), value[which], self.base)

    def _filled(self, x: Events, value: Values, fill: Fill) -> Segments:
        """The beats inside events, and before each those that the fill gives."""
        inside, after = self.base.index_from(x.slot, x.start), self.base.index_from(x.slot, x.stop)
        ref, left, owed = self._before(x, value)
        before = self._owed_before(x.slot, x.start, ref, owed, inside, fill)
        beats = Beats(x, value, inside, after, owed, before, ref, left)
        low, high = np.where(before > 0, ref, x.start), np.where(before > 0, x.start, x.stop)
        with room_for(self.what, self.keys, x.slot, low, high, beats.counts):
            out = self._laid(beats, fill) if isinstance(fill, Hold | Linear) else self._computed(beats, fill)
        self._remember(x, value, after)
        return out

    def _owed_before(self, slot: Ints, start: Ints, ref: Ints, owed: Ints, inside: Ints, fill: Fill) -> Ints:
        """How many beats, from `owed` on, the fill gives between a reference point and what starts after it."""
        if fill.waits:
            until = np.where(_can_bridge(start, ref, self.gap), inside, owed)
        else:
            until = np.minimum(inside, self.base.index_from(slot, add_time(add_time(ref, self.gap), 1)))
        return np.where(ref > MIN_TIME, np.maximum(until - owed, 0), 0)

    def _laid(self, b: Beats, fill: Hold | Linear) -> Segments:
        """The value of the event before the beat, or the line to the one after it: compiled, because most queries begin so."""
        room, width = int(b.counts.sum()), max(self.kind.channels, 1)
        slot, index = np.empty(room, np.int64), np.empty(room, np.int64)
        out = np.empty((room, width), b.value.dtype)
        grid = int(self.base.num[0]), int(self.base.den[0]), int(self.base.origin[0])
        pair = b.left.reshape(-1, width), b.value.reshape(-1, width)
        given = b.events.slot, b.events.start, b.ref, b.inside, b.after, b.owed, b.before, *pair
        _lay_samples(*given, isinstance(fill, Linear), *grid, slot, index, out)
        return Segments.of_samples(slot, index, out if self.kind.channels else out[:, 0], self.base)

    def _computed(self, b: Beats, fill: Fill) -> Segments:
        """The fill's own function, all beats at once."""
        x, counts = b.events, b.counts
        which, position = np.repeat(np.arange(len(x)), counts), concat_ranges(np.zeros(len(counts), np.int64), counts)
        between = position < b.before[which]
        index = np.where(between, b.owed[which] + position, b.inside[which] + position - b.before[which])
        out, at = b.value[which], which[between]
        when = self.base.instant(x.slot[at], index[between])
        if not fill.by_share:
            times, values = self._points(x, b.ref, b.left)
            if len(at):
                out[between] = self._through(fill, when, x.start[at], b.value[at], times[at], values[at])
            self._remember_older(x, times, values)
        elif len(at):
            share = time_apart(when, b.ref[at]) / time_apart(x.start[at], b.ref[at])
            out[between] = fill.between(share[:, None] if out.ndim == 2 else share, b.left[at], b.value[at])
        return Segments.of_samples(x.slot[which], index, out, self.base)

    def _before(self, x: Events, value: Values) -> tuple[Ints, Values, Ints]:
        """For every event the reference point before it, its value, and the first beat after it that is owed."""
        self.past.reserve(len(self.keys))
        new = np.concatenate([[True], x.slot[1:] != x.slot[:-1]])
        slot = x.slot[new]
        ref = np.concatenate([[MIN_TIME], x.stop[:-1] - 1])
        left = np.concatenate([value[:1], value[:-1]])
        ref[new], left[new] = self.past["time"][slot], self.past["value"][slot]
        owed = self.base.index_from(x.slot, add_time(ref, 1))
        owed[new] = np.maximum(owed[new], self.past["due"][slot])
        return ref, left, owed

    def _points(self, x: Events, ref: Ints, left: Values) -> tuple[Ints, Values]:
        """For every event the reference points before it, the newest first; those of earlier batches come from the state."""
        self.older.reserve(len(self.keys))
        rows, depth = np.arange(len(x)), self.older["time"].shape[1] + 1
        new = np.concatenate([[True], x.slot[1:] != x.slot[:-1]])
        since = rows - np.maximum.accumulate(np.where(new, rows, 0))
        times = np.empty((len(x), depth), np.int64)
        values = np.empty((len(x), depth, *left.shape[1:]), left.dtype)
        for j in range(depth):
            here = np.maximum(rows - j, 0)
            times[:, j], values[:, j] = ref[here], left[here]
            kept = np.flatnonzero(since < j)
            slot, place = x.slot[kept], j - since[kept] - 1
            times[kept, j], values[kept, j] = self.older["time"][slot, place], self.older["value"][slot, place]
        return times, values

    def _through(self, fill: Fill, when: Ints, start: Ints, value: Values, times: Ints, values: Values) -> Values:
        """The fill at beats; a point counts if no gap lies between it and the beat."""
        later = np.concatenate([start[:, None], times[:, :-1]], axis=1)
        there = np.logical_and.accumulate(_can_bridge(later, times, self.gap), axis=1)
        offsets = np.where(there, time_apart(np.where(there, times, when[:, None]), when[:, None]), np.nan)
        both = np.concatenate([offsets[:, ::-1], time_apart(start, when)[:, None]], axis=1)
        with np.errstate(all="ignore"):
            return fill.through(both, np.concatenate([values[:, ::-1], value[:, None]], axis=1))

    def _remember_older(self, x: Events, times: Ints, values: Values) -> None:
        last = np.concatenate([x.slot[1:] != x.slot[:-1], [True]])
        slot, depth = x.slot[last], self.older["time"].shape[1]
        self.older["time"][slot], self.older["value"][slot] = times[last, :depth], values[last, :depth]
        self.older.touch(slot)

    def _remember(self, x: Events, value: Values, after: Ints) -> None:
        """The last event of every key is its reference point from now on."""
        last = np.concatenate([x.slot[1:] != x.slot[:-1], [True]])
        slot = x.slot[last]
        self.past["time"][slot], self.past["value"][slot] = x.stop[last] - 1, value[last]
        self.past["due"][slot] = after[last]
        self.past.touch(slot)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """A last value goes on up to the mark; other fills wait for the next event."""
        mark = marks[0]
        if self.fill is None or not len(self.past):
            return (), mark
        open_ = np.flatnonzero(self.past.used)
        ref, own = self.past["time"][open_], marks_of_slots(mark, open_)
        if self.fill.waits:
            waiting = _can_bridge(own, ref, self.gap)
            return (), hold_back_mark(mark, open_[waiting], ref[waiting] + 1)
        first = self.past["due"][open_]
        until = np.minimum(own, add_time(add_time(ref, self.gap), 1))
        stop = self.base.index_from(open_, until)
        counts = np.maximum(stop - first, 0)
        ripe = counts > 0
        slot, first, counts = open_[ripe], first[ripe], counts[ripe]
        if not len(slot):
            return (), mark
        self.past["due"][slot] = first + counts
        self.past.touch(slot)
        with room_for(self.what, self.keys, slot, ref[ripe], until[ripe], counts):
            values = np.repeat(self.past["value"][slot], counts, axis=0)
        return (Segments(slot, first, np.concatenate([[0], np.cumsum(counts)]), values, self.base),), mark

    def idle(self, marks: Marks) -> Mask:
        """A reference point matters as long as an event near enough can follow."""
        self.past.reserve(len(self.keys))
        ref = self.past["time"][: len(self.keys)]
        return (
            np.full(len(ref), True) if self.fill is None else ~_can_bridge(np.full(len(ref), marks[0]), ref, self.gap)
        )


@compiled
def fraction_between(time: int, low: int, high: int) -> float:
    """How far a time is on the way from `low` to `high`. Unsigned: two times may be further apart than a signed number says."""
    start = np.uint64(np.int64(low))
    share: float = (np.uint64(np.int64(time)) - start) / (np.uint64(np.int64(high)) - start)
    return share


@compiled
def _lay_samples(
    slot: Any,
    start: Any,
    ref: Any,
    inside: Any,
    after: Any,
    owed: Any,
    before: Any,
    left: Any,
    value: Any,
    line: bool,
    num: int,
    den: int,
    origin: int,
    out_slot: Any,
    out_index: Any,
    out: Any,
) -> None:
    """The beats before every event, held or on the line from the one before, and those inside it."""
    n = 0
    for e in range(len(slot)):
        for k in range(owed[e], owed[e] + before[e]):
            out_slot[n], out_index[n] = slot[e], k
            if line:
                whole = k // den
                instant = whole * num + (k - whole * den) * num // den + origin
                share = fraction_between(instant, ref[e], start[e])
                for c in range(out.shape[1]):
                    out[n, c] = left[e, c] + (value[e, c] - left[e, c]) * share
            else:
                for c in range(out.shape[1]):
                    out[n, c] = left[e, c]
            n += 1
        for k in range(inside[e], after[e]):
            out_slot[n], out_index[n] = slot[e], k
            for c in range(out.shape[1]):
                out[n, c] = value[e, c]
            n += 1


def _can_bridge(time: Mark, ref: Ints, gap: int) -> Mask:
    """Whether an event at `time` (or later) could be bridged from `ref`."""
    return (ref > MIN_TIME) & (add_time(ref, gap) >= time)
