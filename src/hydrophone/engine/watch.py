"""Marks as a failure detector: a source whose progress stands still is reported, with the operator that waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hydrophone.errors import DataError
from hydrophone.model.time import MAX_TIME, MIN_TIME, format_instant
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source, sources

_log = logging.getLogger("hydrophone")

PATIENCE = 60.0
"""Seconds by the clock that a source may go without a new mark before it is reported."""


UNMARKED_ROWS = 1_000_000
"""Rows that a source may send without any progress before it is reported."""

UNMARKED_LIMIT = 10_000_000
"""Rows that a source may send without any progress before the query ends, unless the user says otherwise."""


@dataclass
class MarkWatch:
    """Looks at the marks of the sources of a running query.

    Attributes
    ----------
    sources : for every source its name and what waits for it
    patience : seconds without a new mark after which a source is reported, once for every standstill
    zoned : whether times of the query have a zone

    Examples
    --------
    >>> watch = MarkWatch((("main1", "tumble"), ("main2", "tumble")), patience=10)
    >>> watch.see({0: 5, 1: 5}, now=0.0), watch.see({0: 6}, now=9.0)
    ([], [])
    >>> watch.see({0: 7, 1: 5}, now=11.0)
    ['main2 has sent no mark for 11 s, the last was 1970-01-01T00:00:00.000000005; tumble waits for it']
    >>> watch.see({0: 8, 1: 5}, now=12.0)
    []
    """

    sources: Sequence[tuple[str, str]]
    patience: float = PATIENCE
    zoned: bool = False
    _marks: dict[int, int] = field(default_factory=dict)
    _moved: dict[int, float] = field(default_factory=dict)
    _reported: set[int] = field(default_factory=set)

    def see(self, marks: Mapping[int, int], now: float | None = None) -> list[str]:
        """Take the marks of sources by number (``MAX_TIME``: it has ended) and warn of those that stand still. Gives what was said."""
        now = time.monotonic() if now is None else now
        said = []
        for number, (name, waiting) in enumerate(self.sources):
            mark = marks.get(number, self._marks.get(number, MIN_TIME))
            if number not in self._moved or mark > self._marks[number]:
                self._marks[number], self._moved[number] = mark, now
                self._reported.discard(number)
            since = now - self._moved[number]
            if since > self.patience and number not in self._reported and mark < MAX_TIME:
                self._reported.add(number)
                last = "it never sent one" if mark <= MIN_TIME else f"the last was {format_instant(mark, self.zoned)}"
                said.append(f"{name} has sent no mark for {since:.0f} s, {last}; {waiting} waits for it")
        for line in said:
            _log.warning("%s", line)
        return said


@dataclass
class UnmarkedSources:
    """Counts the rows of sources that have never sent progress: what waits for it keeps all that it needs of them.

    Attributes
    ----------
    sources : for every source its name and what waits for it
    limit : rows after which the query ends; None: never

    Examples
    --------
    >>> unmarked = UnmarkedSources([("readings", "tumble at pipeline.py:14")], limit=5)
    >>> unmarked.see(0, 5)
    >>> unmarked.see(0, 1)
    Traceback (most recent call last):
    hydrophone.errors.DataError: readings has sent 6 rows and no progress, and tumble at pipeline.py:14 waits for it; the limit is 5
      Hint: promise progress, such as progress=hp.delayed("5s"), or see that the marks it promises come; another limit: unmarked=...
    """

    sources: Sequence[tuple[str, str]]
    limit: int | None = UNMARKED_LIMIT
    _rows: dict[int, int] = field(default_factory=dict)

    def see(self, number: int, rows: int) -> None:
        """Take the count of new rows of a source that has no mark yet."""
        before = self._rows.get(number, 0)
        self._rows[number] = found = before + rows
        name, waiting = self.sources[number]
        if waiting == NOTHING:
            return
        if before < UNMARKED_ROWS <= found:
            _log.warning(
                "%s has sent %d rows and no progress: %s keeps what it needs of them until the end of the source; "
                "promise progress (progress=hp.delayed(...)), or read it whole",
                name,
                found,
                waiting,
            )
        if self.limit is not None and found > self.limit:
            raise DataError(
                f"{name} has sent {found} rows and no progress, and {waiting} waits for it; the limit is {self.limit}",
                hint='promise progress, such as progress=hp.delayed("5s"), or see that the marks it promises come; '
                "another limit: unmarked=...",
            )


NOTHING = "the result"
"""What waits for a source where every row is handed on at once."""


def first_waiting_operator(root: Node, source: Source) -> str:
    """The first operator above a source that may wait for its progress, as the user knows it."""
    waits = waiting(root)
    return next((w for s in sources(root) if s.data is source.data and (w := waits[s]) is not None), NOTHING)


def waiting(root: Node) -> dict[Node, str | None]:
    """For every node of a plan the first operator above it that may wait for its progress, as the user knows it; None: none does.

    Row by row operators and unions hand rows on at once.
    """
    found: dict[Node, str | None] = {root: None}
    for node in reversed(root.topological()):
        hands_on = node.rowwise or node.unites or isinstance(node, Source)
        here = found[node] if hands_on else f"{node.name()} at {node.where}" if node.where else node.name()
        for child in node.inputs:
            found[child] = found.get(child) or here
    return found


def check_stream(root: Node) -> None:
    """Refuse what a key that falls silent would hold back for ever, and warn of what holds back progress while the data goes on so."""
    for node, waits in waiting(root).items():
        node.check_stream(waits)
        if waits is not None and node.stalls is not None:
            at = f" ({node.where})" if node.where else ""
            _log.warning("%s%s: %s; %s waits for it", node.name(), at, node.stalls, waits)
