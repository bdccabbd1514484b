"""Lifetimes: operators that change when events are alive, and leave their payload alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.batch import Batch, Events, Ints
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks, Stateless
from hydrophone.marks import Mark, of
from hydrophone.ops.aggregates import check_span, end_name
from hydrophone.ops.payload import codes
from hydrophone.ops.sliding import joined_starts
from hydrophone.ops.slot_rows import SlotRows
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType
from hydrophone.runs import ranges
from hydrophone.time import add_time


def plain_stream(x: StreamType, end: str | None) -> StreamType:
    """The same columns as a stream, whose lifetimes may overlap; `end` names the column that ends them."""
    return StreamType(x.key, x.time, x.clock, x.columns, end)


def lived_stream(x: StreamType, what: str) -> StreamType:
    """The same columns as a stream of lifetimes."""
    end = end_name(x, what)
    if x.end is None and end in x.columns.names:
        raise ParameterError(
            f"{what}: lifetimes end in a column {end!r}, and this stream has a column of that name",
            hint=f"rename it: with_columns(stop=hp.col({end!r})), then select",
        )
    return plain_stream(x, end)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shift(Node):
    """Events so much later, or earlier with a negative duration; reference: ``start + by, end + by``."""

    by: int

    gives = None

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return x

    def reach(self, x: StreamType) -> Reach:
        """What is alive now was alive so much before."""
        return Reach(max(self.by, 0), max(-self.by, 0))

    def kernel(self, x: StreamType) -> Kernel:
        """Move."""
        return ShiftKernel(self.by)


class ShiftKernel(Stateless):
    """Moves rows and marks."""

    keyed = True

    def __init__(self, by: int) -> None:
        self.by = by

    def map(self, batch: Batch) -> Batch:
        """Move one batch."""
        assert isinstance(batch, Events)
        end = None if batch.end is None else add_time(batch.end, self.by)
        return replace(batch, start=add_time(batch.start, self.by), end=end)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Marks move too."""
        return (), add_time(marks[0], self.by)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip(Node):
    """Lifetimes of at most `most`; reference: ``end = min(end, start + most)``."""

    most: int

    def check(self) -> None:
        """A positive duration."""
        check_span(self.most, "clip", "the longest lifetime")

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return x

    def kernel(self, x: StreamType) -> Kernel:
        """Shorten."""
        return ClipKernel(self.most)


class ClipKernel(Stateless):
    """Moves ends."""

    def __init__(self, most: int) -> None:
        self.most = most

    def map(self, batch: Batch) -> Batch:
        """Shorten in one batch."""
        assert isinstance(batch, Events)
        if batch.end is None:
            return batch
        return replace(batch, end=np.minimum(batch.end, add_time(batch.start, self.most)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Extend(Node):
    """Lifetimes that end so much later; reference: ``end = end + by``; a point becomes ``[start, start + by)``."""

    by: int

    def check(self) -> None:
        """A positive duration."""
        check_span(self.by, "extend", "by")

    def output_type(self, x: StreamType) -> StreamType:
        """Points become lifetimes."""
        return lived_stream(x, "extend")

    def reach(self, x: StreamType) -> Reach:
        """What is alive now may have ended so much before."""
        return Reach(before=self.by)

    def kernel(self, x: StreamType) -> Kernel:
        """Lengthen."""
        return ExtendKernel(self.by)


class ExtendKernel(Stateless):
    """Moves ends."""

    def __init__(self, by: int) -> None:
        self.by = by

    def map(self, batch: Batch) -> Batch:
        """Lengthen in one batch."""
        assert isinstance(batch, Events)
        return replace(batch, end=add_time(batch.start if batch.end is None else batch.end, self.by))


@dataclass(frozen=True, kw_only=True, eq=False)
class Alter(Node):
    """Lifetimes of the same duration for all; reference: ``end = start + duration``."""

    duration: int

    def check(self) -> None:
        """A positive duration."""
        check_span(self.duration, "alter", "duration")

    def output_type(self, x: StreamType) -> StreamType:
        """Points become lifetimes."""
        return lived_stream(x, "alter")

    def reach(self, x: StreamType) -> Reach:
        """What is alive now started at most so long ago."""
        return Reach(before=self.duration)

    def kernel(self, x: StreamType) -> Kernel:
        """Set."""
        return AlterKernel(self.duration)


class AlterKernel(Stateless):
    """Sets ends."""

    def __init__(self, duration: int) -> None:
        self.duration = duration

    def map(self, batch: Batch) -> Batch:
        """Set the ends of one batch."""
        assert isinstance(batch, Events)
        return replace(batch, end=add_time(batch.start, self.duration))


@dataclass(frozen=True, kw_only=True, eq=False)
class PointAtEnd(Node):
    """A point at the end of every lifetime: the first instant at which the event is no longer alive; reference: ``start = end``.

    Points stay where they are. Progress is that of ends where the source promises some, and else that of starts.
    """

    def output_type(self, x: StreamType) -> StreamType:
        """Points."""
        return plain_stream(x, None)

    def reach(self, x: StreamType) -> Reach:
        """What was alive the instant before."""
        return Reach(before=1)

    def kernel(self, x: StreamType) -> Kernel:
        """Move."""
        return PointAtEndKernel()


class PointAtEndKernel(Stateless):
    """Moves starts."""

    keyed = True

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """What starts at or after a mark ends after it; and nothing will end before the mark of ends."""
        mark = marks[0]
        return (), np.maximum(mark, self.ends) if isinstance(mark, np.ndarray) else max(mark, self.ends)

    def map(self, batch: Batch) -> Batch:
        """The ends of one batch."""
        assert isinstance(batch, Events)
        return batch if batch.end is None else replace(batch, start=batch.end, end=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chop(Node):
    """Lifetimes cut at multiples of `every` after `offset`; every piece is an event with the same payload.

    Reference: for each k that it meets ``[max(start, k * every), min(end, (k + 1) * every))``. A point stays a point.
    """

    every: int
    offset: int = 0

    def check(self) -> None:
        """A positive duration."""
        check_span(self.every, "chop", "every")

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return plain_stream(x, x.end)

    def kernel(self, x: StreamType) -> Kernel:
        """Cut."""
        return ChopKernel(self.every, self.offset)


class ChopKernel(Stateless):
    """Repeats rows."""

    def __init__(self, every: int, offset: int) -> None:
        self.every, self.offset = every, offset

    def map(self, batch: Batch) -> Batch:
        """Cut the lifetimes of one batch."""
        assert isinstance(batch, Events)
        return chopped(batch, self.every, self.offset)


def chopped(events: Events, every: int, offset: int = 0) -> Events:
    """Lifetimes cut at multiples of `every` after `offset`."""
    if events.end is None or not len(events):
        return events
    first, last = ((t - offset) // every for t in (events.start, events.end - 1))
    counts = last - first + 1
    if (counts == 1).all():
        return events
    rows, number = np.repeat(np.arange(len(events)), counts), ranges(first, counts)
    out = events.select(rows)
    low = number * every + offset
    return replace(out, start=np.maximum(out.start, low), end=np.minimum(out.stop, low + every))


@dataclass(frozen=True, kw_only=True, eq=False)
class Stitch(Node):
    """Events of a key with equal payload whose lifetimes touch or overlap become one, from the first start to the last end.

    Null equals null and NaN equals NaN. An event is given when progress has passed its end.
    """

    def output_type(self, x: StreamType) -> StreamType:
        """Two points in a row are a lifetime."""
        return lived_stream(x, "stitch")

    def reach(self, x: StreamType) -> Reach:
        """As far as lifetimes touch."""
        return Reach.unbounded("stitch: lifetimes may touch for ever")

    def kernel(self, x: StreamType) -> Kernel:
        """Join."""
        return StitchKernel()


class StitchKernel(Kernel):
    """Holds what may go on."""

    keyed = True

    def __init__(self) -> None:
        self.open = SlotRows(lambda rows: add_time(rows.stop, 1))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Events)
        self.open.add(replace(batch, end=batch.stop))
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give what ended before the mark; the others hold the output mark."""
        mark = marks[0]
        held = self.open.take_due(mark)
        if held is None:
            return (), self.open.held_back(mark)
        code = codes([held])[0]
        order = np.lexsort((held.start, code))
        held, code = held.select(order), code[order]
        first = joined_starts(code, held.start, held.stop)
        stop: Ints = np.maximum.reduceat(held.stop, first)
        whole = replace(held.select(first), end=stop)
        ended = stop < of(mark, whole.slot)
        rest = whole.select(~ended)
        self.open.put(rest, due=add_time(rest.stop, 1))
        return ((whole.select(ended),) if ended.any() else ()), self.open.held_back(mark)
