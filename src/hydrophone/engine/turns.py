"""Turns: rows of sources go into a pipeline, and marks follow the promises of the sources. `Live` and the graph are built on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from hydrophone.engine.kept import KeptRows
from hydrophone.engine.late import Late, LateRows
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.shedding import Shed, SourceShedding
from hydrophone.engine.watch import NOTHING, UNMARKED_LIMIT, MarkWatch, UnmarkedSources
from hydrophone.model.batch import Batch, Events, Progress, Segments
from hydrophone.model.progress import Tracker, seen_times
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.source import Source

MARKS_PER_SWEEP = 16
"""Unneeded keys are released at least once per this many marks."""
SWEEP_ALWAYS_BELOW = 1024
"""With fewer keys, unneeded ones are released after every mark."""


def _nothing_waits() -> bool:
    """A pipeline without buffers."""
    return True


class Feed:
    """A source of a running pipeline: its promise, its late rows, and how far it has come.

    Attributes
    ----------
    source : where rows come from
    number : of its port
    tracker : its marks; None where it promises nothing
    late : what happens to its late rows
    ended : whether it has no more rows
    pushed : whether the user pushes its rows, so that nobody reads it
    rows : how many rows it has given, late ones and those that were shed too
    latest_end : the largest end of all rows that were not late; ``MIN_TIME`` before the first one
    kept : rows for queries that come later, where somebody asked for it
    shedding : what is left out of its rows
    load : how congested it is: 1 is what its shedding aims at; None where nobody knows
    """

    def __init__(self, source: Source, number: int, late: Late, shed: Shed | None = None) -> None:
        self.source, self.number = source, number
        self.tracker = Tracker(source.progress) if source.progress else None
        self.late = LateRows(late, source.layout.time, source.layout.end, source.title)
        self.ended = self.pushed = False
        self.rows = 0
        self.latest_end = MIN_TIME
        self.kept: KeptRows | None = None
        self.shedding = SourceShedding(source, shed)
        self.load: float | None = None

    def admit(self, pipeline: Pipeline, table: pa.Table) -> Batch | None:
        """The rows that are neither late nor shed, as a batch; the marks of the source advance. Bad rows are an error, and move no mark."""
        tracker = self.tracker
        if tracker is None:
            return self._batch(pipeline, table)
        # Late rows still advance the mark.
        layout = self.source.layout
        seen = seen_times(table, layout.time, tracker.policy, layout.key)
        ends = tracker.ends
        last = {} if ends is None else seen_times(table, layout.end or "", ends.policy)
        limit = tracker.limit(seen)
        table = pipeline.split_late(self.number, table, tracker.mark, self.late, tracker.ended, limit)
        batch = self._batch(pipeline, table)
        tracker.see(seen, limit)
        if ends is not None:
            ends.see(last, ends.limit(last))
        if self.kept is not None:
            self.kept.forget(tracker.mark)
        return batch

    def _batch(self, pipeline: Pipeline, table: pa.Table) -> Batch | None:
        table = self.shedding.split(table)
        batch = pipeline.batch(self.number, table) if len(table) else None
        if batch is not None and len(batch):
            self.latest_end = max(self.latest_end, latest_end(batch))
            if self.kept is not None:
                self.kept.add(table, first_end(batch), latest_end(batch))
        return batch

    def keep(self, span: int | None) -> None:
        """Keep rows for queries that come later."""
        if self.kept is None:
            self.kept = KeptRows(span, self.latest_end)
        else:
            self.kept.widen(span)

    @property
    def progress(self) -> Progress:
        """What the source promises now."""
        if self.ended:
            return Progress.end()
        return Progress(self.tracker.mark, ends=self.tracker.ended) if self.tracker else Progress(MIN_TIME)


def latest_end(batch: Batch) -> int:
    """The largest end of the rows of a batch: a sample ends where the next one would begin."""
    if isinstance(batch, Events):
        return int(batch.start.max()) + 1 if batch.end is None else int(batch.end.max())
    if isinstance(batch, Segments):
        return int(batch.base.times(batch.slot, batch.next).max())
    return int(batch.time.max()) + 1


def first_end(batch: Batch) -> int:
    """The smallest end of the rows of a batch; of signals that of their first sample, or less."""
    if isinstance(batch, Events):
        return int(batch.stop.min())
    if isinstance(batch, Segments):
        return int(batch.base.times(batch.slot, batch.first).min())
    return int(batch.time.min()) + 1


class Turns:
    """A pipeline whose rows come from sources.

    A turn is rows of some sources, one `advance`, and what the host does with the results.

    Attributes
    ----------
    pipeline : what runs the queries
    feeds : the sources, by the number of their port
    work : runs what waits in buffers, where there are any; it says whether nothing waits any more
    """

    def __init__(self, pipeline: Pipeline, late: Late, unmarked: int | None = UNMARKED_LIMIT, zoned: bool = False):
        self.pipeline, self._late = pipeline, late
        self.work: Callable[[], bool] = _nothing_waits
        self.feeds: list[Feed] = []
        self._named: list[tuple[str, str]] = []
        self._counted: dict[int, int] = {}
        self._unswept = self._needed = 0  # rows since the last sweep, and keys that it kept
        self._watch = MarkWatch(self._named, zoned=zoned)
        self._unmarked = UnmarkedSources(self._named, unmarked)

    def follow(self, source: Source, shed: Shed | None = None) -> Feed:
        """Take one more source."""
        feed = Feed(source, len(self.feeds), self._late, shed)
        self.feeds.append(feed)
        self._named.append((source.title, NOTHING))
        return feed

    def waits(self, port: int, operator: str) -> None:
        """Name the operator that waits for the progress of a source, for messages."""
        self._named[port] = (self._named[port][0], operator)

    def rows(self, port: int, table: pa.Table) -> None:
        """Take rows of a source."""
        feed = self.feeds[port]
        for piece in feed.shedding.pieces(table, feed.rows):
            self._rows(feed, port, piece)

    def _rows(self, feed: Feed, port: int, table: pa.Table) -> None:
        count = len(table)
        self._unswept += count
        batch = feed.admit(self.pipeline, table)
        feed.rows += count
        if feed.tracker is None or self.pipeline.slowest_mark(port, feed.tracker.mark) == MIN_TIME:
            self._unmarked.see(port, count)
        if batch is not None:
            self.pipeline.step(port, batch)

    def end(self, port: int) -> None:
        """A source has no more rows."""
        self.feeds[port].ended = True

    def advance(self) -> None:
        """Pass the progress of the sources through all operators, and release unneeded keys."""
        marks = [feed.progress for feed in self.feeds]
        self.pipeline.advance(marks)
        if self.work():
            self.sweep()
        # A source without a promise is reported by `UnmarkedSources`.
        seen = zip(self.feeds, marks, strict=True)
        slowest = self.pipeline.slowest_mark
        self._watch.see({f.number: MAX_TIME if f.tracker is None else slowest(f.number, p.mark) for f, p in seen})

    @property
    def unswept(self) -> bool:
        """Whether many keys have come since unneeded ones were released last."""
        live = sum(table.live for table in self.pipeline.scopes.values())
        return live > 2 * self._needed + SWEEP_ALWAYS_BELOW

    def sweep(self) -> None:
        """Release unneeded keys. As this looks at every key, it waits for as many rows as the last sweep kept keys, or for some marks."""
        self._unswept += max(SWEEP_ALWAYS_BELOW, -(-self._needed // MARKS_PER_SWEEP))
        if self._unswept >= self._needed or all(feed.ended for feed in self.feeds):
            self.pipeline.sweep()
            self._unswept, self._needed = 0, sum(table.live for table in self.pipeline.scopes.values())

    def metrics(self) -> dict[str, Any]:
        """State sizes, late rows since the last call, and the marks of sources."""
        late = {port: feed.late.count - self._counted.get(port, 0) for port, feed in enumerate(self.feeds)}
        self._counted = {port: feed.late.count for port, feed in enumerate(self.feeds)}
        pipeline = self.pipeline
        return {
            "keys": sum(table.live for table in pipeline.scopes.values()),
            "state_bytes": pipeline.state_bytes,
            "shed": sum(pipeline.shed.values()),
            "waiting": pipeline.waiting,
            "late": {port: rows for port, rows in late.items() if rows},
            "marks": {feed.number: pipeline.slowest_mark(feed.number, feed.progress.mark) for feed in self.feeds},
        }

    def close(self) -> None:
        """Say how many rows were late."""
        for feed in self.feeds:
            feed.late.close(feed.source.title)
