"""Resampling: from one exact grid to another, by a fill."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hydrophone.errors import SignalTypeError
from hydrophone.model.batch import Batch, Events, Segments, Values, table_without_columns
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel
from hydrophone.model.take_rows import empty_array
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.ops.room import room_for
from hydrophone.ops.signals.fills import Constant, ZeroOrder
from hydrophone.ops.signals.sample import (
    Fill,
    Hold,
    Linear,
    SampleKernel,
    check_fill,
    fill_reach,
    fraction_between,
    linear,
    refuse_endless,
)
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType

_LEFT, _LINE, _NUMBER = 0, 1, 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Resample(Node):
    """Samples at the beats of another grid, between the old ones as the fill says; by default on straight lines.

    Reference: `Sample` over the old samples as point events (with straight lines ``numpy.interp`` of every run). A beat on an old sample
    has its value. Start: nothing before the first sample. Gap: samples further apart than the fill's `max_gap` are not joined; the
    default joins neighbours alone, so that holes stay holes. End: `hold` goes on for `max_gap`, the other fills end with the last sample.
    NaN shows at the beats between it and its neighbours.
    """

    stable_name = "resample"

    timebase: Timebase
    fill: Fill | None = None

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A fill is a fill."""
        check_fill("resample", self.fill)

    def check_stream(self, waiting: str | None) -> None:
        """A gap must end."""
        refuse_endless(self, self.fill)

    def output_type(self, x: UniformType) -> UniformType:
        """The new grid for all keys."""
        return replace(x, dtype=self.policy(x).dtype(x.dtype), timebase=self.timebase)

    def policy(self, x: UniformType) -> Fill:
        """The fill; without one, lines between neighbours."""
        if self.fill is not None:
            return self.fill
        if x.timebase is None:
            raise SignalTypeError(
                "resample: needs a fill where every key has a period of its own", hint='fill=hp.linear(max_gap="1s")'
            )
        return linear(max_gap=math.ceil(x.timebase.period))

    def reach(self, x: UniformType) -> Reach:
        """The neighbours within the maximum gap."""
        return fill_reach("resample", self.policy(x))

    def kernel(self, x: UniformType) -> Kernel:
        """Resample."""
        return ResampleKernel(self.timebase, self.policy(x), x, self.type)


class ResampleKernel(SampleKernel):
    """As `SampleKernel`, with samples instead of events: a compiled walk along both grids, which divides once for every run."""

    what = "resample"

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Every beat between the samples, and between them and the ones before."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        assert self.fill is not None
        first, last = batch.base.times(batch.slot, batch.first), batch.base.times(batch.slot, batch.next - 1)
        self.timebase.check_holds(int(first.min()), int(last.max()))
        value = batch.values.astype(self.out.dtype, copy=False)
        direct = isinstance(self.fill, Hold | ZeroOrder | Linear | Constant)
        # Where neighbours are never too far apart, a run of samples gives one run of beats.
        if direct and (-(-batch.base.num // batch.base.den) <= self.gap).all():
            return (self._walked(batch, value, self.fill),)
        points = Events(batch.sample_slot, batch.sample_time, None, table_without_columns(len(value)))
        return (self._filled(points, value, self.fill),)

    def _walked(self, x: Segments, value: Values, fill: Fill) -> Segments:
        self.past.reserve(len(self.keys))
        width = value.shape[1] if value.ndim > 1 else 1
        samples = np.ascontiguousarray(value).reshape(-1, width)
        past = self.past["time"], self.past["due"], self.past["value"].reshape(-1, width)
        old = x.base.num, x.base.den, x.base.origin
        new = int(self.base.num[0]), int(self.base.den[0]), int(self.base.origin[0])
        spans = _output_spans(x.slot, x.first, x.offsets, samples, *old, *past, self.gap, fill.waits, *new)
        self.past.touch(x.slot)
        slot, first, offsets, *places = spans
        counts = np.diff(offsets)
        low, high = self.base.instant(slot, first), self.base.instant(slot, first + counts - 1)
        with room_for(self.what, self.keys, slot, low, high, counts):
            out = empty_array(int(offsets[-1]) * width, self.out.dtype).reshape(-1, *value.shape[1:])
        number = np.full(1, fill.value if isinstance(fill, Constant) else 0).astype(self.out.dtype)
        mode = _LINE if isinstance(fill, Linear) else _NUMBER if isinstance(fill, Constant) else _LEFT
        most = int((x.base.num // x.base.den // (new[0] // new[1])).max())
        given = samples, x.slot, x.first, x.offsets, *old, *places, *new
        _walk_grids(*(*given, mode, number, most, out.reshape(-1, width)))
        return Segments(slot, first, offsets, out, self.base)


@compiled
def _instant(k: int, num: int, den: int, origin: int) -> int:
    """The instant of a sample, and (below) the first sample at or after an instant: as `Timebase`, with few divisions."""
    if den == 1:
        return k * num + origin
    whole = k // den
    return whole * num + (k - whole * den) * num // den + origin


@compiled
def _index_from(t: int, num: int, den: int, origin: int) -> int:
    elapsed = t - origin
    if den == 1:
        return -(-elapsed // num)
    whole = elapsed // num
    return whole * den - (-((elapsed - whole * num) * den) // num)


@compiled
def _segment_bounds(
    first: int, length: int, num: int, den: int, origin: int, beat_num: int, beat_den: int, beat_origin: int
) -> tuple[int, int, int, int]:
    """The instants of the first and last sample of a run, its first beat, and the first one after it."""
    start, last = _instant(first, num, den, origin), _instant(first + length - 1, num, den, origin)
    inside = _index_from(start, beat_num, beat_den, beat_origin)
    return start, last, inside, _index_from(last + 1, beat_num, beat_den, beat_origin)


@compiled
def _output_spans(
    slot: Any,
    first: Any,
    offsets: Any,
    x: Any,
    num: Any,
    den: Any,
    origin: Any,
    past_time: Any,
    past_due: Any,
    past_value: Any,
    gap: int,
    waits: bool,
    beat_num: int,
    beat_den: int,
    beat_origin: int,
) -> Any:
    """The runs of beats that come out; and for every run of samples how many beats lie before it, after which reference point.

    The last sample of every run is the reference point of what follows. The point before a run, and the beat that it owes, are told
    only where beats lie between them: memory that is not touched costs nothing.
    """
    runs, width = len(slot), x.shape[1]
    out_slot, out_first = np.empty(2 * runs, np.int64), np.empty(2 * runs, np.int64)
    out_offsets = np.empty(2 * runs + 1, np.int64)
    ref, left = np.empty(runs, np.int64), np.empty((runs, width), x.dtype)
    owed, before = np.empty(runs, np.int64), np.empty(runs, np.int64)
    made, beats, row, length, start, last, inside, after = 0, 0, -1, 0, 0, 0, 0, 0
    for run in range(runs):
        s, grid, count = slot[run], 0 if len(num) == 1 else slot[run], offsets[run + 1] - offsets[run]
        if grid != row or count != length or first[run] != first[run - 1]:  # many keys have runs of one stretch of time
            row, length = grid, count
            at = first[run], length, num[row], den[row], origin[row]
            start, last, inside, after = _segment_bounds(*at, beat_num, beat_den, beat_origin)
        point, due, before[run] = past_time[s], past_due[s], 0
        if point > MIN_TIME:
            due = max(due, _index_from(point + 1, beat_num, beat_den, beat_origin))
            end = point + gap if point < MAX_TIME - gap else MAX_TIME
            until = inside
            if end < start:  # too far from the run: a fill that waits gives nothing, others go on for the gap
                until = due if waits else min(until, _index_from(end + 1, beat_num, beat_den, beat_origin))
            if until > due:
                before[run], ref[run], owed[run] = until - due, point, due
                for c in range(width):
                    left[run, c] = past_value[s, c]
        for f, more in ((due, before[run]), (inside, after - inside)):
            if more > 0:
                if made == 0 or out_slot[made - 1] != s or out_first[made - 1] + beats - out_offsets[made - 1] != f:
                    out_slot[made], out_first[made], out_offsets[made] = s, f, beats
                    made += 1
                beats += more
        past_time[s], past_due[s] = last, after
        for c in range(width):
            past_value[s, c] = x[offsets[run + 1] - 1, c]
    out_offsets[made] = beats
    out = out_slot[:made], out_first[:made], out_offsets[: made + 1]
    return (*out, left, ref, owed, before)


@compiled
def _walk_grids(
    x: Any,
    slot: Any,
    first: Any,
    offsets: Any,
    num: Any,
    den: Any,
    origin: Any,
    left: Any,
    ref: Any,
    owed: Any,
    before: Any,
    beat_num: int,
    beat_den: int,
    beat_origin: int,
    mode: int,
    number: Any,
    most: int,
    out: Any,
) -> None:
    """For every run the beats before it, from `left` at `ref` on, and then those from its first to its last sample."""
    n, width = 0, out.shape[1]
    step, carry = beat_num // beat_den, beat_num % beat_den
    shares, phase = np.empty(most), -1
    row, length, hop, more, modulo, each = -1, 0, 0, 0, 1, 0
    start, inside, after = 0, 0, 0
    for run in range(len(slot)):
        begin, end = offsets[run], offsets[run + 1]
        grid = 0 if len(num) == 1 else slot[run]
        if grid != row:
            phase = -1
            hop, more, modulo = num[grid] // den[grid], num[grid] % den[grid], den[grid]
            each = hop // step if carry == 0 and more == 0 and hop % step == 0 else 0
        if grid != row or end - begin != length or first[run] != first[run - 1]:
            row, length = grid, end - begin
            at = first[run], length, num[row], den[row], origin[row]
            start, _, inside, after = _segment_bounds(*at, beat_num, beat_den, beat_origin)
        if before[run]:
            beat = _instant(owed[run], beat_num, beat_den, beat_origin)
            part = owed[run] % beat_den * beat_num % beat_den
            for _ in range(before[run]):
                share = fraction_between(beat, ref[run], start)
                for c in range(width):
                    _put_value(out, n, c, left[run, c], x[begin, c], share, mode, number[0])
                n, beat, part = n + 1, beat + step, part + carry
                if part >= beat_den:
                    beat, part = beat + 1, part - beat_den
        here, beat, stop = start, _instant(inside, beat_num, beat_den, beat_origin), n + after - inside
        part, old = 0, 0
        if each:
            # Equally many beats for every sample, at the same places: divide once.
            if beat - here != phase:
                phase = beat - here
                for i in range(each):
                    shares[i] = (phase + i * step) / hop
            n = _repeat(x, begin, end, shares[:each], mode, number[0], out, n)
            begin = end
        else:
            part = inside % beat_den * beat_num % beat_den
            old = first[run] % modulo * num[row] % modulo
        for j in range(begin, end - 1):
            next_, old = here + hop, old + more
            if old >= modulo:
                next_, old = next_ + 1, old - modulo
            if beat == here:
                for c in range(width):
                    out[n, c] = x[j, c]
                n, beat, part = n + 1, beat + step, part + carry
                if part >= beat_den:
                    beat, part = beat + 1, part - beat_den
            while beat < next_:
                share = (beat - here) / (next_ - here)
                for c in range(width):
                    _put_value(out, n, c, x[j, c], x[j + 1, c], share, mode, number[0])
                n, beat, part = n + 1, beat + step, part + carry
                if part >= beat_den:
                    beat, part = beat + 1, part - beat_den
            here = next_
        if n < stop:  # a beat on the last sample
            for c in range(width):
                out[n, c] = x[end - 1, c]
            n += 1


@compiled
def _repeat(x: Any, begin: int, end: int, shares: Any, mode: int, number: Any, out: Any, n: int) -> int:
    """The beats between the samples of a run, where each is followed by equally many."""
    count = len(shares)
    exact = 1 if shares[0] == 0 else 0
    for c in range(out.shape[1]):
        at = n
        for j in range(begin, end - 1):
            left, right = x[j, c], x[j + 1, c]
            if exact:
                out[at, c] = left
            for i in range(exact, count):
                _put_value(out, at + i, c, left, right, shares[i], mode, number)
            at += count
    return n + count * (end - 1 - begin)


@compiled
def _put_value(out: Any, n: int, c: int, left: Any, right: Any, share: float, mode: int, number: Any) -> None:
    # One assignment each: whole numbers that are held stay exact.
    if mode == _LINE:
        out[n, c] = left + (right - left) * share
    elif mode == _NUMBER:
        out[n, c] = number
    else:
        out[n, c] = left
