"""Lifetimes: when events are alive."""

from __future__ import annotations

from typing import Generic

from hydrophone.api.query import Query, StreamT
from hydrophone.model.time import Duration
from hydrophone.model.time import duration as nanoseconds
from hydrophone.ops.relational.lifetimes import Alter, Chop, Clip, Extend, PointAtEnd, Shift, Stitch


class Lifetimes(Query, Generic[StreamT]):
    """Methods of `Stream`."""

    def shift(self, by: Duration) -> StreamT:
        """Events so much later (earlier, if negative)."""
        return self._then(Shift, by=nanoseconds(by))

    def clip(self, most: Duration) -> StreamT:
        """Lifetimes of at most `most`: longer ones end earlier."""
        return self._then(Clip, most=nanoseconds(most))

    def extend(self, by: Duration) -> StreamT:
        """Lifetimes that end so much later; points become lifetimes."""
        return self._then(Extend, by=nanoseconds(by))

    def alter(self, duration: Duration) -> StreamT:
        """Lifetimes of this duration, whatever they were."""
        return self._then(Alter, duration=nanoseconds(duration))

    def point_at_end(self) -> StreamT:
        """A point at the end of every lifetime: the first instant at which it is over."""
        return self._then(PointAtEnd)

    def chop(self, every: Duration, *, offset: Duration = 0) -> StreamT:
        """Lifetimes cut at multiples of `every`, so that no event lasts longer."""
        return self._then(Chop, every=nanoseconds(every), offset=nanoseconds(offset))

    def stitch(self) -> StreamT:
        """Events with equal payload whose lifetimes touch or overlap, as one."""
        return self._then(Stitch)
