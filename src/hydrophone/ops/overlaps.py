"""Relations of lifetimes: what overlaps, and what does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from hydrophone.batch import Batch, Events, Ints, Mask
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark, lowest, of
from hydrophone.ops.joins import free_name
from hydrophone.ops.memory import Memory
from hydrophone.ops.payload import codes
from hydrophone.ops.sets import same_columns, same_key
from hydrophone.ops.sliding import joined_starts
from hydrophone.ops.slot_rows import SlotRows, at_end
from hydrophone.ops.sweep_area import FORMS, SweepArea, by_time, without
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType
from hydrophone.runs import ranges, search
from hydrophone.time import MAX_TIME, MIN_TIME

HOW = ("inner", "left", "full")


# --- lifetimes in order -------------------------------------------------------------------------------------------------


def covers(events: Events) -> Events:
    """The stretches in which at least one event of a slot is alive, in order of (slot, start)."""
    events = by_time(events)
    first = joined_starts(events.slot, events.start, events.stop)
    stop = np.maximum.reduceat(events.stop, first) if len(first) else events.stop
    return Events(events.slot[first], events.start[first], stop, pa.table({}))


def met(events: Events, cover: Events) -> tuple[Ints, Ints]:
    """For every event the stretches ``low .. high - 1`` of a cover that it overlaps."""
    low = search(cover.slot, cover.stop, events.slot, events.start, "right")
    return low, np.maximum(search(cover.slot, cover.start, events.slot, events.stop, "left"), low)


def uncovered(events: Events, cover: Events) -> tuple[Ints, Ints, Ints]:
    """(row, start, stop) of the parts of lifetimes that lie in no stretch of a cover."""
    low, high = met(events, cover)
    counts = high - low
    row = np.repeat(np.arange(len(events)), counts + 1)
    # The part before each stretch, and the one after the last.
    first = np.cumsum(counts + 1) - (counts + 1)
    at, stretch = ranges(first, counts), ranges(low, counts)
    start, stop = events.start[row], events.stop[row]
    start[at + 1] = np.maximum(cover.stop[stretch], events.start[row[at]])
    stop[at] = np.minimum(cover.start[stretch], events.stop[row[at]])
    there = start < stop
    return row[there], start[there], stop[there]


# --- joins --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Join(Node):
    """Pairs of events of one key whose lifetimes overlap, alive while both are.

    With ``how="left"`` also the parts of left lifetimes in which no right event is alive, with nulls on the right; with
    ``how="full"`` those of the right too. Reference: all pairs with ``max(starts) < min(ends)``. Lifetimes that only touch do not
    overlap. Where one side is points, an inner join gives points.
    """

    how: str = "inner"
    area: str | tuple[str, str] = "auto"
    limit: int | None = None
    overflow: str = "spill"

    @property
    def memory(self) -> Memory:
        """What each side may keep."""
        return Memory(self.limit, self.overflow)

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
        self.memory.check("join")
        if self.limit is not None and self.how != "inner":
            raise ParameterError(
                f"join: how={self.how!r} cannot have a limit: it must wait for the end of lifetimes",
                hint='how="inner", or chop the lifetimes first',
            )
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

    def reach(self, left: StreamType, right: StreamType) -> Reach:
        """A pair begins when both are alive; what was not met is known at its end."""
        waits = {"inner": (), "left": (left,), "full": (left, right)}[self.how]
        if any(x.end for x in waits):
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
        self.left_open, self.right_open = SlotRows(at_end), SlotRows(at_end)
        self.told = (MIN_TIME, MIN_TIME)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Match new events of one side with the remembered ones of the other."""
        assert isinstance(batch, Events)
        mine, other = (self.right, self.left) if port else (self.left, self.right)
        if (found := other.query(batch, batch.start, batch.stop - 1)) is not None:
            yield self._pairs(*reversed(found)) if port else self._pairs(*found)
        if self.how == "full" or (self.how == "left" and port == 0):
            (self.right_open if port else self.left_open).put(batch, due=batch.stop)
        # What waits on the other side asks for this one too, however far progress is.
        asked = self.how == "full" or (self.how == "left" and port == 1)
        mine.insert(batch if asked else without(batch, batch.stop <= of(self.told[1 - port], batch.slot)))

    def _pairs(self, a: Events, b: Events) -> Events:
        columns = pa.table([*a.columns.columns, *b.columns.columns], schema=self.out.columns)
        stop = np.minimum(a.stop, b.stop) if self.out.end else None
        return Events(a.slot, np.maximum(a.start, b.start), stop, columns)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give what was not met, and forget what the other side has passed."""
        self.told = marks
        out = [
            *self._rest(0, self.left_open, self.right, marks[1]),
            *self._rest(1, self.right_open, self.left, marks[0]),
        ]
        self.left.expire(partial(over, mark=marks[1], waiting=self.right_open))
        self.right.expire(partial(over, mark=marks[0], waiting=self.left_open))
        return out, self.right_open.held_back(self.left_open.held_back(lowest(marks)))

    def _rest(self, port: int, open_: SlotRows, other: SweepArea, mark: Mark) -> Iterable[Events]:
        """The parts of one side's lifetimes that ended before the other's mark and met nothing."""
        events = take_ended(open_, mark)
        if events is None:
            return
        found = other.query(events, events.start, events.stop - 1)
        row, start, stop = uncovered(events, covers(events.select(row_none()) if found is None else found[1]))
        alone = events.select(row)
        own = list(alone.columns.columns)
        at = len(self.kinds[0].columns)
        kinds = self.out.columns.types
        blank = [pa.nulls(len(row), t) for t in (kinds[:at] if port else kinds[at:])]
        columns = pa.table([*blank, *own] if port else [*own, *blank], schema=self.out.columns)
        yield Events(alone.slot, start, stop if self.out.end else None, columns)


def row_none() -> Ints:
    """No rows."""
    return np.zeros(0, np.int64)


def take_ended(waiting: SlotRows, mark: Mark) -> Events | None:
    """Take the events that wait and have ended by a mark, or None."""
    held = waiting.take_due(mark)
    if held is None:
        return None
    done = held.stop <= of(mark, held.slot)
    rest = held.select(~done)
    waiting.put(rest, due=rest.stop)
    return held.select(done) if done.any() else None


def over(events: Events, mark: Mark, waiting: SlotRows) -> Mask:
    """Which events ended before all that may still ask for them: new ones, and those that wait."""
    asked = of(mark, events.slot)
    return np.less_equal(events.stop, asked if waiting.empty else np.minimum(asked, waiting.since(events.slot)))


# --- what is met, and what is not ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Met(Node):
    """Common to operators that keep left events, or parts of them, by what is alive on the right. They wait for the end of lifetimes."""

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """As the left."""
        same_key(left, right, self.name())
        return StreamType(left.key, left.time, left.clock, left.columns, left.end)

    def reach(self, left: StreamType, right: StreamType) -> Reach:
        """Until the left lifetime ends."""
        if left.end:
            return Reach.unbounded(f"{self.name()}: lifetimes may be of any length")
        return Reach()


@dataclass(frozen=True, kw_only=True, eq=False)
class SemiJoin(Met):
    """Left events that overlap at least one right event of their key, whole and once."""

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Keep those that met."""
        return MetKernel("met", False)


@dataclass(frozen=True, kw_only=True, eq=False)
class AntiJoin(Met):
    """Left events that overlap no right event of their key, whole."""

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Keep those that met nothing."""
        return MetKernel("not met", False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Without(Met):
    """The parts of left lifetimes in which no right event of their key is alive."""

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Cut out."""
        return MetKernel("parts", False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference(Met):
    """The parts of left lifetimes in which no right event with the same key and equal payload is alive.

    Both sides have the same columns. Null equals null and NaN equals NaN; -0.0 and 0.0 are two values.
    """

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """As the left."""
        same_columns(left, right, "difference")
        return super().output_type(left, right)

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Cut out what is equal."""
        return MetKernel("parts", True)


class MetKernel(Kernel):
    """Holds left events until the right mark has passed their end, and right ones as long as those may ask for them."""

    keyed = True

    def __init__(self, keep: str, equal: bool) -> None:
        self.keep, self.equal = keep, equal
        self.left, self.right = SlotRows(at_end), SlotRows(at_end)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold; of right events only what is compared."""
        assert isinstance(batch, Events)
        if port:
            columns = batch.columns if self.equal else batch.columns.select([])
            batch = replace(batch, end=batch.stop, columns=columns)
        (self.right if port else self.left).put(batch, due=batch.stop)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Answer for the lifetimes that the right mark has passed; the others hold the output mark."""
        out: list[Batch] = []
        events = take_ended(self.left, marks[1])
        if events is not None:
            right = self.right.take_of(events.slot)
            out.append(self._answer(events, right))
            self._keep(right, marks[0])
        self._keep(self.right.take_due(marks[0]), marks[0])
        return out, self.left.held_back(lowest(marks))

    def _keep(self, right: Events | None, mark: Mark) -> None:
        """Put right events back that may be asked for; those that wait for left ones only are looked at when these have ended."""
        if right is not None:
            rest = without(right, over(right, mark, self.left))
            self.right.put(rest, due=np.where(rest.stop <= of(mark, rest.slot), MAX_TIME, rest.stop))

    def _answer(self, events: Events, right: Events | None) -> Events:
        asked = events
        if right is None:
            return events.select(row_none()) if self.keep == "met" else events
        if self.equal:
            ordered = replace(right, columns=right.columns.select(events.columns.column_names))
            code, code_right = codes([events, ordered])
            asked, right = replace(events, slot=code), replace(right, slot=code_right)
        cover = covers(right)
        if self.keep == "parts":
            row, start, stop = uncovered(asked, cover)
            return replace(events.select(row), start=start, end=None if events.end is None else stop)
        low, high = met(asked, cover)
        return events.select(high > low if self.keep == "met" else high == low)
