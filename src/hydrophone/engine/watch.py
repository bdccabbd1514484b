"""Marks as a failure detector: a source whose progress stands still is reported, with the operator that waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hydrophone.plan.node import Node
from hydrophone.plan.source import Source
from hydrophone.time import MAX_TIME, MIN_TIME, format_instant

_log = logging.getLogger("hydrophone")

PATIENCE = 60.0
"""Seconds by the clock that a source may go without a new mark before it is reported."""


@dataclass
class Watch:
    """Looks at the marks of the sources of a running query.

    Attributes
    ----------
    sources : for every source its name and what waits for it
    patience : seconds without a new mark after which a source is reported, once for every standstill

    Examples
    --------
    >>> watch = Watch((("main1", "tumble"), ("main2", "tumble")), patience=10)
    >>> watch.see({0: 5, 1: 5}, now=0.0), watch.see({0: 6}, now=9.0)
    ([], [])
    >>> watch.see({0: 7, 1: 5}, now=11.0)
    ['main2 has sent no mark for 11 s, the last was 1970-01-01T00:00:00.000000005Z; tumble waits for it']
    >>> watch.see({0: 8, 1: 5}, now=12.0)
    []
    """

    sources: Sequence[tuple[str, str]]
    patience: float = PATIENCE
    _marks: dict[int, int] = field(default_factory=dict)
    _moved: dict[int, float] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)

    def see(self, marks: Mapping[int, int], now: float | None = None) -> list[str]:
        """Take the marks of sources by number (``MAX_TIME``: it has ended) and warn of those that stand still. Gives what was said."""
        now = time.monotonic() if now is None else now
        said = []
        for number, (name, waiting) in enumerate(self.sources):
            mark = marks.get(number, self._marks.get(number, MIN_TIME))
            if number not in self._moved or mark > self._marks[number]:
                self._marks[number], self._moved[number] = mark, now
                self._told.discard(number)
            since = now - self._moved[number]
            if since > self.patience and number not in self._told and mark < MAX_TIME:
                self._told.add(number)
                last = "it never sent one" if mark <= MIN_TIME else f"the last was {format_instant(mark)}"
                said.append(f"{name} has sent no mark for {since:.0f} s, {last}; {waiting} waits for it")
        for line in said:
            _log.warning("%s", line)
        return said


def waiting_for(root: Node, source: Source) -> str:
    """The first operator above a source that may wait for its progress, as the user knows it.

    Row by row operators hand rows on at once.
    """
    above: dict[Node, Node] = {}
    for node in root.topological():
        for child in node.inputs:
            above.setdefault(child, node)
    at: Node | None = next(
        (n for n in root.topological() if isinstance(n, Source) and n.data is source.data and n in above), None
    )
    while at is not None and (isinstance(at, Source) or at.rowwise):
        at = above.get(at)
    if at is None:
        return "the result"
    return f"{at.name()} at {at.where}" if at.where else at.name()
