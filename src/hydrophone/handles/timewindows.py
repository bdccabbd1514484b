"""Windows of time over events: what falls into each, and what to compute from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydrophone.handles.query import Query
from hydrophone.ops.aggregates import Tumble
from hydrophone.ops.sliding import Session, Sliding
from hydrophone.ops.summaries import Aggregate
from hydrophone.plan.node import Node
from hydrophone.time import Duration, duration

if TYPE_CHECKING:
    from hydrophone.handles.stream import Stream


class TimeWindows(Query):
    """Methods of `Stream`."""

    def tumble(self, size: Duration, *, offset: Duration = 0) -> Grouped:
        """Windows of time that do not overlap; `agg` says what to compute in each."""
        return Grouped(self, Tumble, {"size": duration(size), "offset": duration(offset)})

    def sliding(self, size: Duration, *, every: Duration, offset: Duration = 0) -> Grouped:
        """Windows of time that begin `every` so often and may overlap; `agg` says what to compute in each."""
        return Grouped(self, Sliding, {"size": duration(size), "every": duration(every), "offset": duration(offset)})

    def session(self, gap: Duration) -> Grouped:
        """Windows that end where nothing happens for `gap`; `agg` says what to compute in each."""
        return Grouped(self, Session, {"gap": duration(gap)})


@dataclass(frozen=True, eq=False)
class Grouped:
    """A stream whose events were put together, waiting for `agg`."""

    stream: Query
    kind: type[Node]
    parameters: dict[str, Any]

    def agg(self, **aggregates: Aggregate) -> Stream:
        """Compute aggregates per key and window: ``agg(n=hp.count(), level=hp.mean("value"))``."""
        return self.stream._then(self.kind, **self.parameters, aggregates=tuple(aggregates.items()))
