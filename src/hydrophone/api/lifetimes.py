"""Lifetimes: when events are alive."""

from __future__ import annotations

from typing import Generic

from hydrophone.api.query import Query, StreamT
from hydrophone.model.time import Duration
from hydrophone.model.time import duration as nanoseconds
from hydrophone.ops.relational.lifetimes import Alter, Chop, Clip, Extend, Lasting, PointAtEnd, Shift, Stitch


class Lifetimes(Query, Generic[StreamT]):
    """Methods of `Stream`."""

    def shift(self, by: Duration) -> StreamT:
        """Events so much later (earlier, if negative)."""
        return self._then(Shift, by=nanoseconds(by))

    def clip(self, most: Duration) -> StreamT:
        """Lifetimes of at most `most`: longer ones end earlier."""
        return self._then(Clip, most=nanoseconds(most))

    def extend(self, by: Duration) -> StreamT:
        """Lifetimes that end so much later; points become lifetimes.

        With a negative duration they end earlier, and those that have nothing left are gone.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> calls = hp.from_arrow(pa.table({"start": [0, 20], "stop": [15, 25]}), time="start", end="stop")
        >>> calls.extend(5).to_arrow()["stop"].to_pylist(), calls.extend(-5).to_arrow()["stop"].to_pylist()
        ([20, 30], [10])
        """
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

    def stitch(self, *, gap: Duration = 0) -> StreamT:
        """Events with equal payload whose lifetimes touch or overlap, or with `gap` lie at most so far apart, as one.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> calls = hp.from_arrow(pa.table({"start": [0, 20, 90], "stop": [15, 40, 95]}), time="start", end="stop")
        >>> calls.stitch(gap=10).to_pandas()
           start  stop
        0      0    40
        1     90    95
        """
        return self._then(Stitch, gap=nanoseconds(gap))

    def lasting(self, at_least: Duration, at_most: Duration | None = None) -> StreamT:
        """Events that are alive for at least, and at most, so long; a point lasts 0.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> calls = hp.from_arrow(pa.table({"start": [0, 20, 90], "stop": [15, 40, 95]}), time="start", end="stop")
        >>> calls.lasting(10, 15).to_pandas()
           start  stop
        0      0    15
        """
        return self._then(Lasting, at_least=nanoseconds(at_least), at_most=_optional(at_most))


def _optional(value: Duration | None) -> int | None:
    return None if value is None else nanoseconds(value)
