"""Joins of streams, purged by progress: either side may come in any order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events
from hydrophone.model.kernel import Joint, Kernel, Marks
from hydrophone.model.marks import Mark, lowest_marks, marks_of_slots
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.ops.relational.memory_limit import Limited, Memory
from hydrophone.ops.relational.sets import same_key
from hydrophone.ops.relational.stored_rows import sort_by_time
from hydrophone.ops.relational.sweep_area import SweepArea, without_rows
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType

BY = ("left", "right", "both", "min", "max")
"""Whose time a pair has; with ``both`` it is that of the left event, and pairs progress on both times together."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BandJoin(Limited):
    """Pairs of events of one key where the right one starts between `before` before and `after` after the left one, both ends included.

    A pair has the lifetime of its left event, or with `by` that of its right one, or is a point at the earlier (``min``) or
    later (``max``) of both starts; results follow the progress of that time. With ``both`` a pair has the lifetime of its left
    event, and results also follow joint progress: what starts before the left side's mark and whose right event starts before
    the right side's will not come, however wide the band is. Its columns are those of both sides (names of
    the right that clash get ``_right``) and the right event's start; where the time is not that of the left event, also its
    start, with ``_left``.
    """

    stable_name = "band_join"

    before: int
    after: int
    by: str = "left"

    @property
    def leads(self) -> bool:
        """Whether a pair has the time of its left event."""
        return self.by in ("left", "both")

    @cached_property
    def paired(self) -> str | None:
        """The start of the right event."""
        return self.type.columns.names[len(self.inputs[0].type.columns)] if self.by == "both" else None

    def describe(self) -> str:
        """With the form of the state."""
        return f"{super().describe()}; state: band areas{self.memory.describe()}"

    def check(self) -> None:
        """A band that is not empty, and a time that is known."""
        super().check()
        if self.by not in BY:
            raise ParameterError(
                f"band_join: by must be one of {', '.join(BY)}, got {self.by!r}", hint="whose time a pair has"
            )
        if max(self.before, self.after) >= MAX_TIME:
            raise ParameterError(
                "band_join: the band has no end, so that no event could ever be forgotten",
                hint='before="0s", after="1h"',
            )
        if self.before + self.after < 0:
            raise ParameterError(
                f"band_join: the band from {-self.before} to {self.after} ns is empty",
                hint="before and after count away from the left event",
            )

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """Both payloads."""
        same_key(left, right, "band_join")
        end = {"left": left.end, "both": left.end, "right": right.end}.get(self.by)
        taken = {*left.key.names, left.time, left.end, end, *left.columns.names}
        if not self.leads and end in (*left.key.names, left.time, *left.columns.names):
            raise ParameterError(
                f"band_join: results end in {end!r}, and the left side has another column of that name",
                hint="rename it",
            )
        fields = [f.with_name(free_name(f.name, taken)) for f in (pa.field(right.time, left.stamp), *right.columns)]
        if not self.leads:
            fields.append(pa.field(free_name(f"{left.time}_left", taken), left.stamp))
        return StreamType(left.key, left.time, left.clock, pa.schema([*left.columns, *fields]), end)

    def reach(self, left: StreamType, right: StreamType) -> tuple[Reach, Reach]:
        """A pair is owned by its time."""
        before, after = max(self.before, 0), max(self.after, 0)
        far = max(before, after)
        return {
            "left": (Reach(), Reach(before, after)),
            "both": (Reach(), Reach(before, after)),
            "right": (Reach(after, before), Reach()),
            "min": (Reach(after=far), Reach(after=far)),
            "max": (Reach(before=far), Reach(before=far)),
        }[self.by]

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Match."""
        return BandJoinKernel(self.before, self.after, self.by, self.type, self.memory)


def free_name(name: str, taken: set[str | None]) -> str:
    """The name, or one with ``_right`` that is not taken; it is taken then."""
    while name in taken:
        name += "_right"
    taken.add(name)
    return name


class BandJoinKernel(Kernel):
    """Remembers the events of either side that the other side may still answer."""

    keyed = True

    def __init__(self, before: int, after: int, by: str, out: StreamType, memory: Memory) -> None:
        self.before, self.after, self.by, self.out = before, after, by, out
        self.left = SweepArea("band", memory, name="band_join, left")
        self.right = SweepArea("band", memory, name="band_join, right")
        self.announced = (MIN_TIME, MIN_TIME)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Match new events of one side with the remembered ones of the other."""
        assert isinstance(batch, Events)
        mine, other = (self.right, self.left) if port else (self.left, self.right)
        low, high = (-self.after, self.before) if port else (-self.before, self.after)
        batch = sort_by_time(batch)  # once for both areas
        if (found := other.query(batch, add_time(batch.start, low), add_time(batch.start, high))) is not None:
            yield self._pairs(*reversed(found)) if port else self._pairs(*found)
        # Not what nothing can answer any more, by where the other side's band ends; after a restore that is not known at first.
        mine.insert(without_rows(batch, batch.start < marks_of_slots(self.announced[port], batch.slot)))

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Forget events whose band the other side has passed."""
        self.announced = add_time(marks[1], -self.after), add_time(marks[0], -self.before)
        self.left.expire(self.announced[0])
        self.right.expire(self.announced[1])
        # A pair to come has a new event on one side; the other may lie so far before it.
        left, right = add_time(marks[0], -max(self.before, 0)), add_time(marks[1], -max(self.after, 0))
        bounds = {
            "left": (marks[0], right),
            "both": (marks[0], right),
            "right": (left, marks[1]),
            "min": (left, right),
            "max": marks.starts,
        }
        return (), lowest_marks(bounds[self.by])

    def jointly(self, marks: Marks) -> Joint | None:
        """A pair to come has a new event on one side: its left one starts at the left mark or later, or its right one at the right mark."""
        return marks[0], marks[1]

    def _pairs(self, left: Events, right: Events) -> Events:
        n = left.columns.num_columns
        kind = self.out.columns.field(n).type
        columns = [*left.columns.columns, pa.array(right.start).cast(kind), *right.columns.columns]
        if self.by in ("left", "both"):
            return Events(left.slot, left.start, left.end, pa.table(columns, schema=self.out.columns))
        table = pa.table([*columns, pa.array(left.start).cast(kind)], schema=self.out.columns)
        if self.by == "right":
            return Events(left.slot, right.start, right.end, table)
        chosen = np.minimum if self.by == "min" else np.maximum
        return Events(left.slot, chosen(left.start, right.start), None, table)
