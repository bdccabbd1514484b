"""Orders: which region of those that are ready runs next, and how long."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hydrophone.engine.buffers import Region


class Order(Protocol):
    """Regions that are ready, and which of them is next."""

    def add(self, region: Region) -> None:
        """A region is ready."""

    def next(self) -> Region | None:
        """Take the region that runs next."""


class Least:
    """The region with the least key first; between equal keys, the one that has been ready longer.

    A region has the key that it had when it became ready.
    """

    def __init__(self, key: Callable[[Region], float]) -> None:
        self._key, self._ready, self._count = key, list[tuple[float, int, Region]](), 0

    def add(self, region: Region) -> None:
        """A region is ready."""
        self._count += 1
        heapq.heappush(self._ready, (self._key(region), self._count, region))

    def next(self) -> Region | None:
        """Take the region that runs next."""
        return heapq.heappop(self._ready)[2] if self._ready else None


def by_age(region: Region) -> float:
    """Whose first batch or mark has waited longest."""
    if len(region.buffers) == 1:
        return region.buffers[0].items[0].number
    return min(buffer.items[0].number for buffer in region.buffers if buffer.items)


def by_turns(region: Region) -> float:
    """Who ran least recently."""
    return region.served


class Successors:
    """After a region, one that reads it, if that is ready; else the one that has been ready longest."""

    def __init__(self) -> None:
        self._ready: dict[Region, None] = {}
        self._last: Region | None = None

    def add(self, region: Region) -> None:
        """A region is ready."""
        self._ready[region] = None

    def next(self) -> Region | None:
        """Take the region that runs next."""
        if not self._ready:
            return None
        after = () if self._last is None else self._last.outputs
        found = next((b.region for b in after if b.region in self._ready), None) or next(iter(self._ready))
        del self._ready[found]
        self._last = found
        return found


class Shares(Least):
    """The region that has had least time for its weight. One that had nothing to do gets no credit for it."""

    def __init__(self) -> None:
        super().__init__(lambda region: region.share)
        self._floor = 0.0

    def add(self, region: Region) -> None:
        """A region is ready."""
        region.share = max(region.share, self._floor)
        super().add(region)

    def next(self) -> Region | None:
        """Take the region that runs next."""
        found = super().next()
        if found is not None:
            self._floor = max(self._floor, found.share)
        return found


def chain_priority(region: Region) -> float:
    """How fast a region and those behind it make what waits smaller: bytes that go, for each byte and second of work, at best.

    As far as the regions form a chain; what has not run yet comes first.
    """
    best, left, cost, at = 0.0, 1.0, 0.0, region
    for _ in range(_CHAIN):
        taken = sum(buffer.bytes_in - buffer.nbytes for buffer in at.buffers)
        if not taken:
            break
        cost += left * at.seconds / taken
        left *= sum(buffer.bytes_in for buffer in at.outputs) / taken
        best = max(best, (1 - left) / max(cost, 1e-12))
        readers = {buffer.region for buffer in at.outputs}
        if len(readers) != 1:
            break
        (at,) = readers
    else:
        return best
    return best if region.seconds else float("inf")


_CHAIN = 32
"""Regions that `chain_priority` looks at."""
_RATED_EVERY = 1_000
"""Runs of regions after which a priority is computed again."""


def by_chain(region: Region) -> float:
    """The steepest first; how steep is looked at now and then."""
    if region.priority == float("inf") or region.served - region.rated > _RATED_EVERY:
        region.priority, region.rated = chain_priority(region), region.served
    return -region.priority


@dataclass(frozen=True)
class Crew:
    """Who runs some regions: threads, or with none whoever brings rows.

    Attributes
    ----------
    regions : what they run
    order : which of them next
    threads : how many run them
    budget : seconds that a region runs at a time while something waits; 0: one batch or mark; None: all that waits
    """

    regions: Sequence[Region]
    order: Order
    threads: int = 0
    budget: float | None = 0.0
