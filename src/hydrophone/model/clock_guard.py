"""Clock guard: finds rows whose time is far ahead of the rest of their source.

The rule and its reason: `docs/decisions/0008-clocks-that-are-ahead.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hydrophone.model.time import MAX_TIME, MIN_TIME, Ints, add_time, extremes

Cluster = tuple[int, int, int]
"""A cluster of close times: first, last, and count."""

DEFAULT_AHEAD = 366 * 86_400 * 10**9
"""Default limit for how far a row may be ahead of the rest: a year."""
MAX_CLUSTERS = 16
"""Clusters kept per batch. With more, all times count as one cluster: the source is too sparse to be guarded."""
ROWS_TO_BELIEVE = 16
"""Minimum rows beyond a gap before the whole source counts as having jumped."""
SHARE_TO_BELIEVE = 9
"""Rows beyond a gap per row before it, from which the source counts as having jumped."""
RECENT_ROWS = 256
"""About how many recent rows are counted for this comparison."""


def time_clusters(times: Ints, ahead: int) -> list[Cluster]:
    """The times of a batch, split at gaps of more than `ahead`.

    Examples
    --------
    >>> time_clusters(np.array([3, 1, 90, 2]), 10)
    [(1, 3, 3), (90, 90, 1)]
    """
    if not len(times):
        return []
    low, high = extremes(times)
    if high - low <= ahead:
        return [(low, high, len(times))]
    ordered = np.sort(times)
    # Unsigned: the difference of two times may not fit a signed number.
    gaps = np.flatnonzero(np.diff(ordered.view(np.uint64)) > np.uint64(ahead))
    first, stop = np.append(0, gaps + 1), np.append(gaps + 1, len(ordered))
    found = zip(ordered[first].tolist(), ordered[stop - 1].tolist(), (stop - first).tolist(), strict=True)
    return _merge_nearest(list(found))


def merge_clusters(found: Iterable[Cluster], ahead: int) -> list[Cluster]:
    """Merge the clusters of several batches.

    Examples
    --------
    >>> merge_clusters([(1, 3, 3), (90, 90, 1), (4, 8, 2)], 10)
    [(1, 8, 5), (90, 90, 1)]
    """
    out: list[Cluster] = []
    for low, high, count in sorted(tuple(c) for c in found):
        if out and low - out[-1][1] <= ahead:
            out[-1] = out[-1][0], max(out[-1][1], high), out[-1][2] + count
        else:
            out.append((low, high, count))
    return _merge_nearest(out)


def _merge_nearest(found: list[Cluster]) -> list[Cluster]:
    return found if len(found) <= MAX_CLUSTERS else [(found[0][0], found[-1][1], sum(c[2] for c in found))]


@dataclass
class ClockGuard:
    """The latest time of a source that is believed.

    Attributes
    ----------
    ahead : how far ahead of the rest a time may be
    frontier : the latest time that was believed
    near, beyond : about how many of the last `RECENT_ROWS` times were believed, and how many were not

    Examples
    --------
    >>> guard = ClockGuard(ahead=10)
    >>> guard.limit([(1, 5, 30), (99, 99, 1)])  # one row is far ahead of 30
    5
    >>> guard.limit([(99, 120, 300)])  # now the source has jumped
    120
    """

    ahead: int
    frontier: int = MIN_TIME
    near: int = 0
    beyond: int = 0

    def limit(self, found: list[Cluster], mark: int = MIN_TIME) -> int:
        """Take the clusters of a batch in order; return the latest time that is believed. `mark` is the current mark of the source."""
        frontier = max(self.frontier, MIN_TIME if mark == MAX_TIME else mark)
        left = sum(count for _, _, count in found)
        for low, high, count in found:
            if frontier > MIN_TIME and low > add_time(frontier, self.ahead) and not self._jumps(left + self.beyond):
                break
            if low > add_time(frontier, self.ahead):
                self.beyond = 0
            frontier, left = max(frontier, high), left - count
            self.near += count
        self.beyond += left
        self.frontier = frontier
        while self.near + self.beyond > RECENT_ROWS:
            self.near, self.beyond = self.near // 2, self.beyond // 2
        return frontier

    def _jumps(self, rows: int) -> bool:
        return rows >= ROWS_TO_BELIEVE and rows >= SHARE_TO_BELIEVE * self.near
