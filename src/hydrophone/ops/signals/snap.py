"""Snap: readings with jittered stamps onto the beats that they were meant for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.arguments import public
from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints, Mask, Segments, Values
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME, add_time, format_duration
from hydrophone.model.timebase import Timebase, Timebases
from hydrophone.ops.relational.rows import signal_values
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import SignalType, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Snap(Node):
    """Every event at the beat that is nearest to it, if it is no further than `tolerance` away; other events are left out.

    Reference: ``pandas.merge_asof(beats, events, direction="nearest", tolerance=tolerance)``. Of several events near one beat the nearest
    counts, of equally near ones the earlier. Start, gap and end: a beat without an event is a hole.
    """

    stable_name = "snap"

    timebase: Timebase
    tolerance: int

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """Less than half a period, so that an event has one beat at most."""
        if not 0 <= 2 * self.tolerance < self.timebase.period:
            raise ParameterError(
                f"snap: tolerance must be less than half the period, got {format_duration(self.tolerance)}",
                hint="a reading must belong to one beat only",
            )

    def output_type(self, x: SignalType) -> UniformType:
        """Samples."""
        if x.end is not None:
            raise SignalTypeError("snap: these events have lifetimes", hint="sample takes them as they are")
        return UniformType(x.key, x.time, x.clock, x.dtype, x.channels, self.timebase)

    def reach(self, x: SignalType) -> Reach:
        """The events around a beat."""
        return Reach(self.tolerance, self.tolerance)

    def kernel(self, x: SignalType) -> Kernel:
        """Snap."""
        return SnapKernel(self.timebase, self.tolerance, x)


class SnapKernel(Kernel):
    """The nearest event so far of every key's last beat, until nothing nearer can come."""

    keyed = True

    def __init__(self, timebase: Timebase, tolerance: int, kind: SignalType) -> None:
        self.base, self.tolerance, self.kind = Timebases.shared(timebase), tolerance, kind
        self.timebase = timebase
        shape = (kind.channels,) if kind.channels else ()
        self.open = SlotArrays(index=Field(np.int64, MIN_TIME), away=Field(np.int64), value=Field(kind.dtype, 0, shape))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """All beats that an event of a later beat has closed."""
        assert isinstance(batch, Events)
        self.open.reserve(len(self.keys))
        if len(batch):
            self.timebase.check_holds(int(batch.start.min()), int(batch.start.max()))
        index = self.base.index_from(batch.slot, add_time(batch.start, -self.tolerance))
        beat = self.base.instant(batch.slot, index)
        # Unsigned: exact, however far apart.
        away = (np.maximum(beat, batch.start).view(np.uint64) - np.minimum(beat, batch.start).view(np.uint64)).view(
            np.int64
        )
        near = (away >= 0) & (away <= self.tolerance)
        if not near.any():
            return ()
        slot, index, away = batch.slot[near], index[near], away[near]
        value = signal_values(batch, self.kind)[near]
        slot, index, away, value = self._with_open(slot, index, away, value)
        # The first of the nearest of every beat; rows of a beat stand together.
        order = np.lexsort((away, index, slot))
        slot, index, away, value = slot[order], index[order], away[order], value[order]
        best = np.concatenate([[True], (slot[1:] != slot[:-1]) | (index[1:] != index[:-1])])
        slot, index, away, value = slot[best], index[best], away[best], value[best]
        last = np.concatenate([slot[1:] != slot[:-1], [True]])
        self.open["index"][slot[last]], self.open["away"][slot[last]] = index[last], away[last]
        self.open["value"][slot[last]] = value[last]
        self.open.touch(slot[last])
        done = ~last
        return (Segments.of_samples(slot[done], index[done], value[done], self.base),)

    def _with_open(self, slot: Ints, index: Ints, away: Ints, value: Values) -> tuple[Ints, Ints, Ints, Values]:
        """What was open comes first, so that of equals it wins."""
        old = np.unique(slot)
        old = old[self.open["index"][old] > MIN_TIME]
        return (
            np.concatenate([old, slot]),
            np.concatenate([self.open["index"][old], index]),
            np.concatenate([self.open["away"][old], away]),
            np.concatenate([self.open["value"][old], value]),
        )

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Beats that no event can be near to any more."""
        mark = marks[0]
        slot = np.flatnonzero(self.open["index"] > MIN_TIME) if len(self.open) else np.zeros(0, np.int64)
        index = self.open["index"][slot]
        closed = add_time(self.base.instant(slot, index), self.tolerance) < marks_of_slots(mark, slot)
        waits = slot[~closed]
        bound = hold_back_mark(add_time(mark, -self.tolerance), waits, self.base.instant(waits, index[~closed]))
        if not closed.any():
            return (), bound
        done = slot[closed]
        out = Segments.of_samples(done, self.open["index"][done], self.open["value"][done], self.base)
        self.open.release(done)
        return (out,), bound

    def idle(self, marks: Marks) -> Mask:
        """Keys without an open beat."""
        self.open.reserve(len(self.keys))
        out: Mask = self.open["index"][: len(self.keys)] == MIN_TIME
        return out


@public
def estimate_period(times: npt.ArrayLike) -> Fraction:
    """The period in nanoseconds that jittered instants were meant to have, for `Signal.snap` and `Signal.sample`.

    Definition: the median distance counts the beats from one instant to the next (lost ones too), and the slope of the straight line
    through (beat, instant) is the period, as the nearest fraction of thousandths and coarser.

    Examples
    --------
    >>> estimate_period([0, 101, 199, 402, 500])
    Fraction(8611, 86)
    """
    at = np.unique(np.asarray(times).astype(np.int64))
    if len(at) < 2:
        raise DataError("estimate_period: needs at least two different instants")
    step = float(np.median(np.diff(at)))
    beat = np.concatenate([[0.0], np.cumsum(np.maximum(np.rint(np.diff(at) / step), 1))])
    middle: Any = beat - beat.mean()
    slope = float((middle * (at - at[0])).sum() / (middle**2).sum())
    return Fraction(slope).limit_denominator(1000)
