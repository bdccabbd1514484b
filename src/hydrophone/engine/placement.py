"""Placement: where a hybrid scheduler puts buffers, as the user says or as measurements show."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hydrophone.engine.buffers import Edge
from hydrophone.engine.meter import Meter
from hydrophone.engine.schedulers import Hybrid, Scheduler
from hydrophone.engine.stations import Station
from hydrophone.plan.node import Node

PERIOD = 0.5
"""Seconds over which rates are measured."""
BUSY = 0.7
"""Share of the time that operators must take before a buffer can help."""
HEAVY = 0.25
"""Share of that time from which an operator is worth a region of its own."""
SLOW = 1e-3
"""Seconds for a batch from which it is."""
GAIN = 1.05
"""What the rate must rise to, or the buffers go again."""


@dataclass
class _Look:
    """What the meters said at a moment."""

    at: float
    rows: int
    seconds: dict[Node, float]
    batches: dict[Node, int]


class Placement:
    """Finds the edges that a hybrid scheduler cuts.

    By itself it begins without buffers. When operators are busy nearly all the time, it cuts around those that take much of it,
    once for each choice, and takes the buffers away again if the rate of rows does not rise.

    Attributes
    ----------
    heavy : the operators that stand apart now
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler if isinstance(scheduler, Hybrid) else None
        self._measures = self._scheduler is not None and self._scheduler.before is None
        self.heavy: frozenset[Node] = frozenset()
        self._tried: set[frozenset[Node]] = set()
        self._last: _Look | None = None
        self._before: float | None = None  # rows a second before the last attempt

    def cuts(self, stations: Mapping[Node, Station], lowered: Callable[[Node], Node | None]) -> set[Edge]:
        """The edges to cut now; `lowered` gives the operator that a query ends with, as it runs."""
        if self._scheduler is None:
            return set()
        if self._scheduler.before is not None:
            wanted = [lowered(query.node) for query in self._scheduler.before]
            return {
                (n, port) for n in wanted if n is not None and n in stations for port in range(len(stations[n].inputs))
            }
        return {
            (node, port)
            for node, station in stations.items()
            for port, source in enumerate(station.inputs)
            if node in self.heavy or source.node in self.heavy
        }

    @property
    def is_due(self) -> bool:
        """Whether it is time to look at the rates."""
        return self._measures and (self._last is None or time.perf_counter() - self._last.at >= PERIOD)

    def look(self, rows: int, meters: Mapping[Node, Meter]) -> bool:
        """Look at the rates, after so many rows; return whether buffers should come or go."""
        now = _Look(
            time.perf_counter(),
            rows,
            {node: meter.seconds for node, meter in meters.items()},
            {node: meter.batches for node, meter in meters.items()},
        )
        last, self._last = self._last, now
        if last is None or now.rows == last.rows:
            return False
        rate = (now.rows - last.rows) / (now.at - last.at)
        if self._before is not None:
            worth, self._before = rate >= GAIN * self._before, None
            if not worth:
                self.heavy = frozenset()
                return True
            return False
        heavy = self._find(last, now) | self.heavy
        if heavy == self.heavy or heavy in self._tried:
            return False
        self._tried.add(heavy)
        self._before, self.heavy = rate, heavy
        return True

    def _find(self, last: _Look, now: _Look) -> frozenset[Node]:
        """The operators that should stand apart."""
        spent = {node: s - last.seconds.get(node, 0.0) for node, s in now.seconds.items()}
        total = sum(spent.values())
        if total < BUSY * (now.at - last.at):
            return frozenset()
        found = set()
        for node, seconds in spent.items():
            batches = now.batches[node] - last.batches.get(node, 0)
            if batches and seconds / batches > SLOW and seconds > HEAVY * total and len(spent) > 1:
                found.add(node)
        return frozenset(found)
