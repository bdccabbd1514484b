"""Relations of lifetimes: what overlaps, and what does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, lowest_marks, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges, search_rows
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.aggregates.sliding import chain_starts
from hydrophone.ops.relational.band_join import free_name
from hydrophone.ops.relational.memory_limit import Limited
from hydrophone.ops.relational.payload_codes import payload_codes
from hydrophone.ops.relational.sets import same_columns, same_key
from hydrophone.ops.relational.stored_rows import sort_by_time
from hydrophone.ops.relational.sweep_area import FORMS, SweepArea, without_rows
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType

HOW = ("inner", "left", "full")
LIVED = "an event that lives long holds back the progress of all keys until its end, clip() shortens lifetimes"
"""What may stall where the end of lifetimes is waited for."""


# --- lifetimes in order -------------------------------------------------------------------------------------------------


def covered_stretches(events: Events) -> Events:
    """The stretches in which at least one event of a slot is alive, in order of (slot, start)."""
    events = sort_by_time(events)
    first = chain_starts(events.slot, events.start, events.stop)
    stop = np.maximum.reduceat(events.stop, first) if len(first) else events.stop
    return Events(events.slot[first], events.start[first], stop, pa.table({}))


def overlapped_stretches(events: Events, cover: Events) -> tuple[Ints, Ints]:
    """For every event the stretches ``low .. high - 1`` of a cover that it overlaps."""
    low = search_rows(cover.slot, cover.stop, events.slot, events.start, "right")
    return low, np.maximum(search_rows(cover.slot, cover.start, events.slot, events.stop, "left"), low)


def uncovered(events: Events, cover: Events) -> tuple[Ints, Ints, Ints]:
    """(row, start, stop) of the parts of lifetimes that lie in no stretch of a cover."""
    low, high = overlapped_stretches(events, cover)
    counts = high - low
    row = np.repeat(np.arange(len(events)), counts + 1)
    # The part before each stretch, and the one after the last.
    first = np.cumsum(counts + 1) - (counts + 1)
    at, stretch = concat_ranges(first, counts), concat_ranges(low, counts)
    start, stop = events.start[row], events.stop[row]
    start[at + 1] = np.maximum(cover.stop[stretch], events.start[row[at]])
    stop[at] = np.minimum(cover.start[stretch], events.stop[row[at]])
    there = start < stop
    return row[there], start[there], stop[there]


# --- joins --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Limited):
    """Pairs of events of one key whose lifetimes overlap, alive while both are.

    With ``how="left"`` also the parts of left lifetimes in which no right event is alive, with nulls on the right; with
    ``how="full"`` those of the right too. Reference: all pairs with ``max(starts) < min(ends)``. Lifetimes that only touch do not
    overlap. Where one side is points, an inner join gives points.
    """

    stable_name = "join"

    how: str = "inner"
    area: str | tuple[str, str] = "auto"

    def areas(self, left: StreamType) -> tuple[str, str]:
        """The forms of the state of both sides: by the key where there is one, by time where all events have the same."""
        if self.area == "auto":
            return ("hash", "hash") if left.key.names else ("sorted", "sorted")
        return self.area if isinstance(self.area, tuple) else (self.area, self.area)

    def describe(self) -> str:
        """With the form of the state."""
        left, right = self.areas(self.inputs[0].type)
        forms = f"{left} areas" if left == right else f"left {left} area, right {right} area"
        chosen = ", sorted where keys have many rows" if self.area == "auto" and left == "hash" else ""
        return f"how={self.how}; state: {forms}{chosen}{self.memory.describe()}"

    def check(self) -> None:
        """Words that are known."""
        super().check()
        named = self.area if isinstance(self.area, tuple) else (self.area,)
        if self.area != "auto" and (len(named) not in (1, 2) or not set(named) <= set(FORMS)):
            raise ParameterError(
                f"join: area must be auto or one of {', '.join(FORMS)}, or one for each side, got {self.area!r}",
                hint='area="hash"',
            )
        if self.how not in HOW:
            raise ParameterError(
                f"join: how must be one of {', '.join(HOW)}, got {self.how!r}",
                hint="swap the sides for a right join",
            )

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """Both payloads; names of the right that clash get ``_right``."""
        same_key(left, right, "join")
        end = {"inner": left.end if right.end else None, "left": left.end, "full": left.end or right.end}[self.how]
        taken = {*left.key.names, left.time, end, *left.columns.names}
        if end is not None and end in (*left.key.names, left.time, *left.columns.names):
            raise ParameterError(
                f"join: results end in {end!r}, and the left side has another column of that name",
                hint="rename it, or swap the sides",
            )
        fields = [f.with_name(free_name(f.name, taken)) for f in right.columns]
        return StreamType(left.key, left.time, left.clock, pa.schema([*left.columns, *fields]), end)

    @property
    def stalls(self) -> str | None:
        """Those that are waited for do."""
        return LIVED if self._waits(*(i.type for i in self.inputs)) else None

    def _waits(self, left: StreamType, right: StreamType) -> bool:
        """Whether the end of lifetimes must be known."""
        return any(x.end for x in {"inner": (), "left": (left,), "full": (left, right)}[self.how])

    def reach(self, left: StreamType, right: StreamType) -> Reach:
        """A pair begins when both are alive; what was not met is known at its end."""
        if self._waits(left, right):
            return Reach.unbounded(f"join: how={self.how!r} waits for the end of lifetimes")
        return Reach()

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Match."""
        return JoinKernel(self, left, right)


class JoinKernel(Kernel):
    """Remembers the events of either side that the other may still meet, and those whose end must be awaited."""

    keyed = True

    def __init__(self, node: Join, left: StreamType, right: StreamType) -> None:
        self.how, self.out = node.how, node.type
        self.kinds = (left, right)
        forms, adaptive = node.areas(left), node.area == "auto"
        self.left = SweepArea(forms[0], node.memory, adaptive=adaptive, name="join, left")
        self.right = SweepArea(forms[1], node.memory, adaptive=adaptive, name="join, right")
        self.left_open = SweepArea("list", node.memory, name="join, left that waits")
        self.right_open = SweepArea("list", node.memory, name="join, right that waits")
        self.announced = (MIN_TIME, MIN_TIME)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Match new events of one side with the remembered ones of the other."""
        assert isinstance(batch, Events)
        mine, other = (self.right, self.left) if port else (self.left, self.right)
        if (found := other.query(batch, batch.start, batch.stop - 1)) is not None:
            yield self._pairs(*reversed(found)) if port else self._pairs(*found)
        if self.how == "full" or (self.how == "left" and port == 0):
            (self.right_open if port else self.left_open).insert(batch)
        # What waits on the other side asks for this one too, however far progress is.
        asked = self.how == "full" or (self.how == "left" and port == 1)
        mine.insert(
            batch if asked else without_rows(batch, batch.stop <= marks_of_slots(self.announced[1 - port], batch.slot))
        )

    def _pairs(self, a: Events, b: Events) -> Events:
        columns = pa.table([*a.columns.columns, *b.columns.columns], schema=self.out.columns)
        stop = np.minimum(a.stop, b.stop) if self.out.end else None
        return Events(a.slot, np.maximum(a.start, b.start), stop, columns)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give what was not met, and forget what the other side has passed."""
        self.announced = marks.starts
        ended = self.left_open.take(marks[1]), self.right_open.take(marks[0])
        return self._rest(ended, marks), self.right_open.held_back(self.left_open.held_back(lowest_marks(marks)))

    def _rest(self, ended: Sequence[Iterable[Events]], marks: Marks) -> Iterator[Events]:
        for port, other in enumerate((self.right, self.left)):
            for events in ended[port]:
                yield self._alone(port, events, other)
        self.left.expire(self.right_open.oldest_pending(marks[1]))
        self.right.expire(self.left_open.oldest_pending(marks[0]))

    def _alone(self, port: int, events: Events, other: SweepArea) -> Events:
        """The parts of one side's lifetimes that met nothing of the other."""
        found = other.query(events, events.start, events.stop - 1)
        row, start, stop = uncovered(events, covered_stretches(events.select(no_rows()) if found is None else found[1]))
        alone = events.select(row)
        own = list(alone.columns.columns)
        at = len(self.kinds[0].columns)
        kinds = self.out.columns.types
        blank = [pa.nulls(len(row), t) for t in (kinds[:at] if port else kinds[at:])]
        columns = pa.table([*blank, *own] if port else [*own, *blank], schema=self.out.columns)
        return Events(alone.slot, start, stop if self.out.end else None, columns)


def no_rows() -> Ints:
    """No rows."""
    return np.zeros(0, np.int64)


# --- what is met, and what is not ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LifetimeFilter(Limited):
    """Common to operators that keep left events, or parts of them, by what is alive on the right. They wait for the end of lifetimes."""

    stable_name = "met"

    def describe(self) -> str:
        """With the form of the state."""
        return f"state: list areas{self.memory.describe()}"

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """As the left."""
        same_key(left, right, self.name())
        return StreamType(left.key, left.time, left.clock, left.columns, left.end)

    @property
    def stalls(self) -> str | None:
        """Long lifetimes do."""
        return LIVED if self.inputs[0].type.end else None

    def reach(self, left: StreamType, right: StreamType) -> Reach:
        """Until the left lifetime ends."""
        if left.end:
            return Reach.unbounded(f"{self.name()}: lifetimes may be of any length")
        return Reach()


@dataclass(frozen=True, kw_only=True, eq=False)
class SemiJoin(LifetimeFilter):
    """Left events that overlap at least one right event of their key, whole and once."""

    stable_name = "semi_join"

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Keep those that met."""
        return LifetimeFilterKernel(self, "met")


@dataclass(frozen=True, kw_only=True, eq=False)
class AntiJoin(LifetimeFilter):
    """Left events that overlap no right event of their key, whole."""

    stable_name = "anti_join"

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Keep those that met nothing."""
        return LifetimeFilterKernel(self, "not met")


@dataclass(frozen=True, kw_only=True, eq=False)
class Without(LifetimeFilter):
    """The parts of left lifetimes in which no right event of their key is alive."""

    stable_name = "without"

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Cut out."""
        return LifetimeFilterKernel(self, "parts")


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference(LifetimeFilter):
    """The parts of left lifetimes in which no right event with the same key and equal payload is alive.

    Both sides have the same columns. Null equals null and NaN equals NaN; -0.0 and 0.0 are two values.
    """

    stable_name = "difference_streams"

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """As the left."""
        same_columns(left, right, "difference")
        return super().output_type(left, right)

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Cut out what is equal."""
        return LifetimeFilterKernel(self, "parts", equal=True)


class LifetimeFilterKernel(Kernel):
    """Holds left events until the right mark has passed their end, and right ones as long as those may ask for them."""

    keyed = True

    def __init__(self, node: LifetimeFilter, keep: str, *, equal: bool = False) -> None:
        self.keep, self.equal = keep, equal
        self.left = SweepArea("list", node.memory, name=f"{node.name()}, left")
        self.right = SweepArea("list", node.memory, name=f"{node.name()}, right")
        self.announced = (MIN_TIME,)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold; of right events only what is compared, and none that nobody can ask for."""
        assert isinstance(batch, Events)
        if port:
            columns = batch.columns if self.equal else batch.columns.select([])
            batch = replace(batch, end=batch.stop, columns=columns)
            if self.left.empty:
                batch = without_rows(batch, batch.stop <= marks_of_slots(self.announced[0], batch.slot))
        (self.right if port else self.left).insert(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Answer for the lifetimes that the right mark has passed; the others hold the output mark."""
        self.announced = (marks[0],)
        return self._answers(self.left.take(marks[1]), marks[0]), self.left.held_back(lowest_marks(marks))

    def _answers(self, ended: Iterable[Events], mark: Mark) -> Iterator[Events]:
        for events in ended:
            yield self._answer(events, self.right.meet(events.slot, events.start, events.stop - 1))
        self.right.expire(self.left.oldest_pending(mark))

    def _answer(self, events: Events, right: Events | None) -> Events:
        asked = events
        if right is None:
            return events.select(no_rows()) if self.keep == "met" else events
        if self.equal:
            ordered = replace(right, columns=right.columns.select(events.columns.column_names))
            code, code_right = payload_codes([events, ordered])
            asked, right = replace(events, slot=code), replace(right, slot=code_right)
        cover = covered_stretches(right)
        if self.keep == "parts":
            row, start, stop = uncovered(asked, cover)
            return replace(events.select(row), start=start, end=None if events.end is None else stop)
        low, high = overlapped_stretches(asked, cover)
        return events.select(high > low if self.keep == "met" else high == low)
