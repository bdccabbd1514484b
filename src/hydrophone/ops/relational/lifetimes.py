"""Lifetimes: operators that change when events are alive, and leave their payload alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Kernel, Marks, Stateless
from hydrophone.model.key_table import KeyTable
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time, exact_sum, step_number
from hydrophone.ops.aggregates.aggregates import check_span, end_name
from hydrophone.ops.aggregates.sliding import chain_starts
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer
from hydrophone.ops.relational.payload_codes import payload_codes
from hydrophone.ops.room import room_for
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType


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

    stable_name = "shift_lifetimes"

    by: int

    gives = None

    def check(self) -> None:
        """A duration that ends."""
        if self.by in (MIN_TIME, MAX_TIME):
            raise ParameterError(f"shift: by has no end, got {self.by} ns", hint='a duration, such as "-5min"')

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
        end = None if batch.end is None else exact_sum(batch.end, self.by)
        return replace(batch, start=exact_sum(batch.start, self.by), end=end)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Marks move too."""
        return (), add_time(marks[0], self.by)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip(Node):
    """Lifetimes of at most `most`; reference: ``end = min(end, start + most)``."""

    stable_name = "clip_lifetimes"

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
    """Lifetimes that end so much later; reference: ``end = end + by``; a point becomes ``[start, start + by)``.

    With a negative duration they end earlier, and what has no lifetime left is gone: points, and lifetimes of at most that length.
    """

    stable_name = "extend"

    by: int

    def check(self) -> None:
        """A duration that ends."""
        if self.by == 0:
            raise ParameterError("extend: by must not be 0", hint='"5s" makes lifetimes longer, "-5s" shorter')
        check_span(abs(self.by), "extend", "by")

    def output_type(self, x: StreamType) -> StreamType:
        """Points become lifetimes."""
        return lived_stream(x, "extend")

    def reach(self, x: StreamType) -> Reach:
        """What is alive now may have ended so much before."""
        return Reach(before=max(self.by, 0))

    def kernel(self, x: StreamType) -> Kernel:
        """Lengthen or shorten."""
        return ExtendKernel(self.by)


class ExtendKernel(Stateless):
    """Moves ends."""

    def __init__(self, by: int) -> None:
        self.by = by

    def map(self, batch: Batch) -> Batch:
        """Move the ends of one batch."""
        assert isinstance(batch, Events)
        end = batch.start if batch.end is None else batch.end
        if self.by > 0:
            return replace(batch, end=exact_sum(end, self.by))
        kept = replace(batch, end=add_time(end, self.by))
        return kept.select(kept.stop > kept.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lasting(Node):
    """Events whose lifetime is not shorter than `at_least` and not longer than `at_most`; a point lasts 0.

    Reference: ``at_least <= end - start <= at_most``.
    """

    stable_name = "lasting"

    at_least: int
    at_most: int | None = None

    gives = None

    def check(self) -> None:
        """Durations that some lifetime may have."""
        if not 0 <= self.at_least < MAX_TIME:
            raise ParameterError(
                f"lasting: at_least must not be negative and have an end, got {self.at_least}", hint='such as "200ms"'
            )
        if self.at_most is not None and self.at_most < self.at_least:
            raise ParameterError(
                f"lasting: at_most must not be below at_least, got {self.at_most} below {self.at_least}",
                hint="without at_most there is no longest lifetime",
            )

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return x

    def kernel(self, x: StreamType) -> Kernel:
        """Choose."""
        return LastingKernel(self.at_least, 2**64 - 1 if self.at_most is None else self.at_most)


class LastingKernel(Stateless):
    """Chooses by lifetime."""

    def __init__(self, at_least: int, at_most: int) -> None:
        self.at_least, self.at_most = at_least, at_most

    def map(self, batch: Batch) -> Batch:
        """Choose in one batch."""
        assert isinstance(batch, Events)
        end = batch.start if batch.end is None else batch.end
        length = end.view(np.uint64) - batch.start.view(np.uint64)  # exact, however far apart
        return batch.select((length >= np.uint64(self.at_least)) & (length <= np.uint64(self.at_most)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Alter(Node):
    """Lifetimes of the same duration for all; reference: ``end = start + duration``."""

    stable_name = "alter"

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
        return replace(batch, end=exact_sum(batch.start, self.duration))


@dataclass(frozen=True, kw_only=True, eq=False)
class PointAtEnd(Node):
    """A point at the end of every lifetime: the first instant at which the event is no longer alive; reference: ``start = end``.

    Points stay where they are. Progress is that of ends where the source promises some, and else that of starts.
    """

    stable_name = "point_at_end"

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
        return (), np.maximum(mark, marks.ends) if isinstance(mark, np.ndarray) else max(mark, marks.ends)

    def map(self, batch: Batch) -> Batch:
        """The ends of one batch."""
        assert isinstance(batch, Events)
        return batch if batch.end is None else replace(batch, start=batch.end, end=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chop(Node):
    """Lifetimes cut at multiples of `every` after `offset`; every piece is an event with the same payload.

    Reference: for each k that it meets ``[max(start, k * every), min(end, (k + 1) * every))``. A point stays a point.
    """

    stable_name = "chop"

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
        return chopped(batch, self.every, self.offset, "chop", self.keys)


def chopped(events: Events, every: int, offset: int, what: str, keys: KeyTable) -> Events:
    """Lifetimes cut at multiples of `every` after `offset`; of too many pieces an error names the key."""
    if events.end is None or not len(events):
        return events
    offset %= every
    first, last = (step_number(t, every, offset) for t in (events.start, events.end - 1))
    counts = last - first + 1
    if (counts == 1).all():
        return events
    hint = "cut less often, or shorten lifetimes first: clip(...)"
    pieces = last.astype(np.float64) - first + 1  # as floats: whole numbers could wrap
    with room_for(what, keys, events.slot, events.start, events.end, pieces, "pieces of lifetimes", hint):
        rows, number = np.repeat(np.arange(len(events)), counts), concat_ranges(first, counts)
        out = events.select(rows)
    low = number * every + offset  # the first may wrap, and so may the end of the last: neither is a cut
    start = np.where(number == first[rows], out.start, low)
    return replace(out, start=start, end=np.where(number == last[rows], out.stop, low + every))


@dataclass(frozen=True, kw_only=True, eq=False)
class Stitch(Node):
    """Events of a key with equal payload whose lifetimes touch or overlap become one, from the first start to the last end.

    With `gap` they may lie so far apart. Null equals null and NaN equals NaN. An event is given when progress has passed its end by
    the gap.
    """

    stable_name = "stitch"

    gap: int = 0

    def check(self) -> None:
        """No gap, or a duration."""
        if self.gap:
            check_span(self.gap, "stitch", "gap")

    def output_type(self, x: StreamType) -> StreamType:
        """Two points in a row are a lifetime."""
        return lived_stream(x, "stitch")

    @property
    def stalls(self) -> str | None:
        """A long chain of lifetimes does."""
        return "lifetimes that go on to touch hold back the progress of all keys"

    def reach(self, x: StreamType) -> Reach:
        """As far as lifetimes touch."""
        return Reach.unbounded("stitch: lifetimes may touch for ever")

    def kernel(self, x: StreamType) -> Kernel:
        """Join."""
        return StitchKernel(self.gap)


class StitchKernel(Kernel):
    """Holds what may go on."""

    keyed = True

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.open = KeyedBuffer(self._due)

    def _due(self, rows: Events) -> Ints:
        """The first mark at which nothing more can join."""
        return add_time(add_time(rows.stop, self.gap), 1)

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
        code = payload_codes([held])[0]
        order = np.lexsort((held.start, code))
        held, code = held.select(order), code[order]
        first = chain_starts(code, held.start, add_time(held.stop, self.gap))
        whole = replace(held.select(first), end=np.maximum.reduceat(held.stop, first))
        ended = whole.stop < marks_of_slots(add_time(mark, -self.gap), whole.slot)  # the sum might not fit
        rest = whole.select(~ended)
        self.open.put(rest, due=self._due(rest))
        return ((whole.select(ended),) if ended.any() else ()), self.open.held_back(mark)
