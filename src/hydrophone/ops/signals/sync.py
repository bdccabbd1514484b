"""Sync: for every range of time the samples of several signals in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.batch import COLUMNS_AT_ONCE, Batch, Events, Ints, Mask, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.held_segments import HeldSegments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, lowest_marks, marks_by_slot, marks_of_slots
from hydrophone.model.state import Field, HeldBatches, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME, format_duration, format_instant
from hydrophone.ops.relational.rows import array_column
from hydrophone.ops.signals.grids import KeyGrids
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import DataType, StreamType, UniformType, arrays_type, same_clock

MISSING = ("drop", "null")
LONG = "a range that lasts long holds back the progress of all keys until its end, longest= bounds it"
"""What may stall where ranges have any length."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sync(Node):
    """For every range ``[start, end)`` of the key the samples that every signal has in it, as arrays beside the columns of the range.

    Reference: ``x[searchsorted(times, start) : searchsorted(times, end)]`` of each signal. A range in which a signal has no sample, or
    lacks one, is left out (`missing` ``"drop"``), or has null there (``"null"``). With `delete` a sample leaves once: a range begins where
    the last one that started before it ended, and one of which nothing is left is left out.
    """

    stable_name = "sync"

    names: tuple[str, ...]
    missing: str = "drop"
    delete: bool = False
    longest: int | None = None

    needs = Order.INDEX

    def check(self) -> None:
        """Words that are known."""
        if self.missing not in MISSING:
            raise ParameterError(f"sync: missing must be one of {', '.join(MISSING)}, got {self.missing!r}")
        if self.longest is not None and self.longest <= 0:
            raise ParameterError(f"sync: longest must be positive, got {self.longest}")

    def output_type(self, ranges: StreamType, *signals: UniformType) -> StreamType:
        """The ranges, and a column of arrays per signal."""
        if not isinstance(ranges, StreamType) or ranges.end is None:
            raise SignalTypeError(
                f"sync: ranges need a start and an end; this is {ranges.describe()}",
                hint="above(), trigger() and cfar() give ranges; extend(duration) makes them of points",
            )
        for x in signals:
            self._check_signal(ranges, x)
        taken = {*ranges.key.names, ranges.time, ranges.end, *ranges.columns.names}
        for name in self.names:
            if name in taken:
                raise ParameterError(
                    f"sync: the result would have two columns {name!r}", hint='name the arrays: names=["sound"]'
                )
            taken.add(name)
        arrays = [
            pa.field(n, arrays_type(x.dtype, 2 if x.channels else 1)) for n, x in zip(self.names, signals, strict=True)
        ]
        return StreamType(ranges.key, ranges.time, ranges.clock, pa.schema([*ranges.columns, *arrays]), ranges.end)

    def _check_signal(self, ranges: StreamType, x: DataType) -> None:
        if not isinstance(x, UniformType):
            raise SignalTypeError(
                f"sync: needs uniform signals; this is {x.describe()}", hint="sample(period) makes one"
            )
        if x.scope != ranges.scope:
            raise SignalTypeError(
                f"sync: the keys differ: {list(ranges.key.names)} and {list(x.key.names)}",
                hint="bring all to one key with key_by",
            )
        same_clock(ranges, x, "sync")

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """Those that leave. With `delete`, ranges that tie are told apart by all."""
        return None if port or self.delete or needed is None else needed - set(self.names)

    @property
    def stalls(self) -> str | None:
        """A long range does, unless there is none."""
        return None if self.longest is not None else LONG

    def reach(self, ranges: StreamType, *signals: UniformType) -> tuple[Reach, ...]:
        """A range is owned by its start."""
        if self.longest is None:
            return (Reach.unbounded("sync: a range may last for ever without longest="),) * (1 + len(signals))
        return (Reach(before=self.longest if self.delete else 0), *(Reach(after=self.longest) for _ in signals))

    def kernel(self, ranges: StreamType, *signals: UniformType) -> Kernel:
        """Cut."""
        return SyncKernel(self, signals)


class SyncKernel(Kernel):
    """Ranges that wait for their samples, and the samples that a range may still need, never joined."""

    keyed = True

    def __init__(self, node: Sync, signals: tuple[UniformType, ...]) -> None:
        self.node, self.signals = node, signals
        self.ranges: HeldBatches[Events] = HeldBatches(Events)
        self.taken = SlotArrays(until=Field(np.int64, MIN_TIME))
        for i, x in enumerate(signals):  # states are found as attributes
            setattr(self, f"samples_{i}", HeldSegments(np.zeros((0, x.channels) if x.channels else 0, x.dtype)))
            setattr(self, f"grids_{i}", KeyGrids(x.timebase))

    def _samples(self, i: int) -> HeldSegments:
        held: HeldSegments = getattr(self, f"samples_{i}")
        return held

    def _grids(self, i: int) -> KeyGrids:
        """The grids of a signal; of a key that has no samples yet any, as it has none to give."""
        grids: KeyGrids = getattr(self, f"grids_{i}")
        if self.signals[i].timebase is None:
            grids.reserve(len(self.keys))
        return grids

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        if not len(batch):
            return ()
        if port:
            assert isinstance(batch, Segments)
            self._grids(port - 1).learn(batch, len(self.keys))
            self._samples(port - 1).add(batch)
        else:
            assert isinstance(batch, Events)
            self._check_length(batch)
            self.ranges.add(batch)
        return ()

    def _check_length(self, ranges: Events) -> None:
        longest = self.node.longest
        # Unsigned: a range may be longer than a signed number holds.
        length = (ranges.stop - ranges.start).view(np.uint64)
        if longest is not None and (length > np.uint64(longest)).any():
            at = int(length.argmax())
            raise DataError(
                f"sync: a range from {format_instant(int(ranges.start[at]))} lasts {format_duration(int(length[at]))}, "
                f"longer than longest={format_duration(longest)}",
                hint="allow longer ones, or cut them before: report= of detectors, chop()",
            )

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """All ranges whose samples are known; then forget samples that no range can need."""
        complete = lowest_marks(marks.starts[1:])
        out: list[Batch] = []
        waiting = self.ranges.all()
        if waiting is not None:
            ripe = np.less_equal(waiting.stop, marks_of_slots(complete, waiting.slot))
            if self.node.delete:
                ripe = _without_later(waiting, ripe)
            if ripe.any():
                out = list(self._results(self.ranges.take(ripe)))
                waiting = self.ranges.all()
        self._forget(marks[0], waiting)
        if waiting is None:
            return out, marks[0]
        return out, hold_back_mark(marks[0], waiting.slot, waiting.start, ended=complete)

    def _results(self, ranges: Events) -> Iterator[Events]:
        if self.node.delete:
            ranges = self._without_taken(ranges)
        low, high = (
            [self._grids(i).base.index_from(ranges.slot, t) for i in range(len(self.signals))]
            for t in (ranges.start, ranges.stop)
        )
        whole = [self._samples(i).whole(ranges.slot, low[i], high[i]) for i in range(len(self.signals))]
        kept = np.logical_and.reduce(whole) if self.node.missing == "drop" else np.ones(len(ranges), np.bool_)
        rows = np.flatnonzero(kept)
        lengths = np.stack([np.where(w, b - a, 0) for w, a, b in zip(whole, low, high, strict=True)])[:, rows]
        for some in _portions(lengths.sum(axis=0)):
            at = rows[some]
            part = ranges.select(at)
            arrays = [self._arrays(i, part.slot, low[i][at], high[i][at], whole[i][at]) for i in range(len(whole))]
            columns = pa.table([*part.columns.columns, *arrays], schema=self.node.type.columns)
            yield part.with_columns(columns)

    def _arrays(self, i: int, slot: Ints, low: Ints, high: Ints, whole: Mask) -> pa.Array:
        """The column of one signal."""
        values = self._samples(i).cut(slot[whole], low[whole], high[whole])
        offsets = np.concatenate([[0], np.cumsum(np.where(whole, high - low, 0))])
        channels = self.signals[i].channels
        vectors = [np.arange(len(values) + 1) * channels] if channels else []
        return array_column(values.reshape(-1), *vectors, offsets, lacking=None if whole.all() else ~whole)

    def _without_taken(self, ranges: Events) -> Events:
        """Ranges that begin where those before them ended."""
        self.taken.reserve(len(self.keys))
        order = np.lexsort((ranges.start, ranges.slot))
        ranges = ranges.select(order)
        start = ranges.start.copy()
        _begin_after_earlier(ranges.slot, start, ranges.stop, self.taken["until"])
        self.taken.touch(ranges.slot)
        left = start < ranges.stop
        return Events(ranges.slot, start, ranges.stop, ranges.columns).select(left)

    def _forget(self, mark: Mark, waiting: Events | None) -> None:
        """Ranges that wait, and those that may still come, start no earlier than this."""
        needed = marks_by_slot(mark, len(self.keys)).copy()
        if waiting is not None:
            np.minimum.at(needed, waiting.slot, waiting.start)
        slots, ended = np.arange(len(needed)), needed == MAX_TIME
        for i in range(len(self.signals)):
            if self._samples(i).empty:
                continue
            index = self._grids(i).base.index_from(slots, np.where(ended, 0, needed))
            self._samples(i).forget(np.where(ended, MAX_TIME, np.where(needed == MIN_TIME, MIN_TIME, index)))

    def idle(self, marks: Marks) -> Mask:
        """Keys whose next range begins after all that has left."""
        self.taken.reserve(len(self.keys))
        return self.taken["until"][: len(self.keys)] <= marks_by_slot(marks[0], len(self.keys))


def _without_later(ranges: Events, ripe: Mask) -> Mask:
    """What is ripe, without ranges that started after one of their key that is not."""
    held = np.full(int(ranges.slot.max()) + 1, MAX_TIME)
    np.minimum.at(held, ranges.slot[~ripe], ranges.start[~ripe])
    return ripe & (ranges.start < held[ranges.slot])


def _portions(lengths: Ints) -> Iterator[slice]:
    """Ranges in portions of about as many samples as a batch should have."""
    until = np.cumsum(lengths)
    at = 0
    while at < len(lengths):
        before = int(until[at - 1]) if at else 0
        stop = max(int(np.searchsorted(until, before + COLUMNS_AT_ONCE, "right")), at + 1)
        yield slice(at, stop)
        at = stop


@compiled
def _begin_after_earlier(slot: Any, start: Any, stop: Any, until: Any) -> None:
    """Move starts to the end of what came before, and remember the ends."""
    for i in range(len(slot)):
        begin = max(start[i], until[slot[i]])
        until[slot[i]] = max(until[slot[i]], stop[i])
        start[i] = begin
