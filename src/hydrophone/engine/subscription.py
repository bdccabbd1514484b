"""A subscription: an interval of event time in which a sink gets the results of a query that runs in a graph."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from hydrophone.engine.emit import Shape, owned_rows, owner_instants
from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.time import MAX_TIME, MIN_TIME, Instant, format_instant, instant
from hydrophone.plan.node import Node

Span = tuple[int, int]
"""An interval of event time in nanoseconds, without its end."""


class Receiver(Protocol):
    """What results are given to."""

    def process(self, table: pa.Table, mark: int) -> None:
        """Take results; no later one is owned by an instant before `mark`."""

    def advance(self, mark: int) -> None:
        """The mark has moved, and no results came with it."""

    def done(self, error: BaseException | None) -> None:
        """Nothing more comes; `error` says why, if the subscription failed."""


class Subscription:
    """The results of one query in a running graph, from `start` to `end` in event time; `Graph.subscribe` makes it.

    In this interval, without the pauses, the sink gets exactly what the query would give if it ran alone over all rows that the
    graph has had since its beginning. A result belongs to the instant at which it starts; a window to its last instant.

    Attributes
    ----------
    error : why it failed: what the sink, a function of the user's or an operator raised; None while all is well
    rows : how many rows it has given
    tolerance : the largest share of its rows that may be shed
    skipped : how many rows were left out for this query alone, where its own part of the graph begins
    seconds : how long its sink has taken

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
    >>> graph, found = hp.Graph(), []
    >>> subscription = graph.subscribe(rows, found.append)
    >>> graph.push(rows, {"ts": [1], "value": [1.0]})
    >>> subscription.pause()
    >>> graph.push(rows, {"ts": [2], "value": [2.0]})
    >>> subscription.resume()
    >>> graph.push(rows, {"ts": [3], "value": [3.0]})
    >>> subscription.unsubscribe(at=5)
    >>> graph.push(rows, {"ts": [4, 5], "value": [4.0, 5.0]})
    >>> [table["value"].to_pylist() for table in found], subscription.interval, subscription.done
    ([[1.0], [3.0], [4.0]], (None, 5), True)
    """

    def __init__(
        self,
        root: Node,
        sink: Receiver,
        shape: Shape,
        warm: bool,
        start: int,
        change: Callable[[Callable[[], None]], None],
        latest_end: Callable[[], int],
    ) -> None:
        self.root, self.sink, self.shape, self.warm = root, sink, shape, warm
        self.error: BaseException | None = None
        self.rows = 0
        self.tolerance, self.skipped, self.seconds = 1.0, 0, 0.0
        self._change, self._latest_end = change, latest_end
        self._start, self._end = start, MAX_TIME
        self._pauses: list[Span] = []
        self._paused: int | None = None
        self._mark, self._made = MIN_TIME, MIN_TIME
        self._given = MIN_TIME
        self._finished = threading.Event()

    def __repr__(self) -> str:
        state = f"failed: {self.error}" if self.error else "done" if self.done else "paused" if self.paused else "open"
        return f"<subscription to {self.root.name()}, {state}>"

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def interval(self) -> tuple[int | None, int | None]:
        """First instant and end in nanoseconds; None where there is no bound."""
        return (None if self._start == MIN_TIME else self._start, None if self._end == MAX_TIME else self._end)

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self._paused is not None

    @property
    def done(self) -> bool:
        """Whether nothing more will come: its sources or its interval have ended, or it has failed."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, at most so many seconds; return whether it is."""
        return self._finished.wait(timeout)

    # --- what the user does -------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Pause: results of the pause are never given, while the operators go on.

        The pause begins after all results that have been made so far, and after the mark of the results. What belongs to instants
        before it and is made later is still given.
        """
        self._change(self._pause)

    def resume(self) -> None:
        """End a pause: it ends as it begins, after all results that have been made so far, and after their mark."""
        self._change(self._resume)

    def unsubscribe(self, at: Instant | None = None, now: bool = False) -> None:
        """End the interval. A subscription that is done stays as it is.

        Parameters
        ----------
        at : instant, optional
            The end; results before it are given when they are final. By default the largest end of all rows that have come.
        now : bool
            Whether to stop at once: results that are not made yet are not waited for, and the interval ends at the mark of the results.
        """
        end = None if at is None else instant(at)
        if end is not None and now:
            raise ParameterError("unsubscribe: give either at or now")
        if end is not None and end < self.frontier and not self.done:
            raise ParameterError(
                f"unsubscribe: results up to {format_instant(self.frontier)} have been made, and at is {format_instant(end)}",
                hint="an end that lies before them would take results back; now=True stops at once",
            )
        self._change(lambda: self.close(end, now))

    # --- what the graph does, between turns ---------------------------------------------------------------------------

    @property
    def frontier(self) -> int:
        """The first instant after all results that have been made so far, or the mark of the results, if that is later."""
        return max(self._start, self._mark, self._made)

    def _pause(self) -> None:
        if self._paused is None and not self.done:
            self._paused = self.frontier

    def _resume(self) -> None:
        if self._paused is not None:
            if self.frontier > self._paused:
                self._pauses.append((self._paused, self.frontier))
            self._paused = None

    def close(self, end: int | None, now: bool) -> None:
        """Set the end of the interval."""
        if self.done:
            return
        if now:
            self._end = min(self._end, max(self._start, self._mark))
            self.finish(None)
        else:
            self._end = max(self.frontier, self._latest_end() if end is None else end)

    @property
    def open(self) -> bool:
        """Whether all results that come now are in the interval: none of them lies before the mark of the results."""
        return self._start <= self._mark and self._end == MAX_TIME and self._paused is None and not self._pauses

    def spans(self) -> list[Span]:
        """The interval without the pauses, as far as results may still come."""
        self._pauses = [p for p in self._pauses if p[1] > self._mark]
        open_at, found = self._start, []
        for low, high in [*self._pauses, *([] if self._paused is None else [(self._paused, MAX_TIME)])]:
            if low > open_at:
                found.append((open_at, low))
            open_at = high
        found.append((open_at, MAX_TIME))
        return [(low, min(high, self._end)) for low, high in found if low < min(high, self._end)]

    def see(self, made: int, mark: int) -> None:
        """Results up to `made` were made, and their mark is this."""
        self._made, self._mark = max(self._made, made), max(self._mark, mark)

    def give(self, tables: Iterable[pa.Table], mark: int) -> None:
        """Give results to the sink. What it raises fails this subscription."""
        begun = time.perf_counter()
        try:
            some = [table for table in tables if len(table)]
            for table in some:
                self.rows += len(table)
                # The mark comes with the last table: rows of the others may lie before it.
                self._given = mark if table is some[-1] else self._given
                self.sink.process(table, self._given)
            if mark > self._given:
                self._given = mark
                self.sink.advance(mark)
        except Exception as error:
            self.finish(error)
        self.seconds += time.perf_counter() - begun

    @property
    def over(self) -> bool:
        """Whether the mark has passed the end of the interval."""
        return self._mark >= self._end

    def finish(self, error: BaseException | None) -> None:
        """Nothing more comes."""
        if self.done:
            return
        self.error = error
        try:
            self.sink.done(error)
        except Exception as raised:
            self.error = self.error or raised
        self._finished.set()


def last_owner(batch: Batch) -> int:
    """The largest owner instant of a batch."""
    if isinstance(batch, Segments):
        return int(batch.base.times(batch.slot, batch.next - 1).max())
    return int(owner_instants(batch).max())


def first_owner(batch: Batch) -> int:
    """The smallest owner instant of a batch."""
    if isinstance(batch, Segments):
        return int(batch.base.times(batch.slot, batch.first).min())
    return int(owner_instants(batch).min())


def gated_by(batches: list[Batch], spans: Sequence[Span]) -> list[Batch]:
    """The rows of some batches that spans own; the same list where they own all."""
    mine = [part for batch in batches for part in gated(batch, spans)]
    same = len(mine) == len(batches) and all(a is b for a, b in zip(mine, batches, strict=True))
    return batches if same else mine


def gated(batch: Batch, spans: Iterable[Span]) -> list[Batch]:
    """The rows of a batch that some spans own."""
    low, high = first_owner(batch), last_owner(batch)
    found = []
    for start, end in spans:
        if start <= low and high < end:
            return [batch]
        if start <= high and low < end:
            mine = owned_rows(batch, start, end)
            if len(mine):
                found.append(mine)
    return found
