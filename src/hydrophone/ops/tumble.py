"""Tumbling windows: aggregates over stretches of time that do not overlap, closed by progress; events may come in any order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

import pyarrow as pa

from hydrophone.batch import Batch, Events, Ints, Mask
from hydrophone.kernel import Kernel
from hydrophone.marks import Mark, floored, of
from hydrophone.ops.aggregates import (
    aggregate_fields,
    check_aggregates,
    check_span,
    end_name,
    forget,
    parts_of,
)
from hydrophone.ops.flush import Flush, check_flush, longest_wait
from hydrophone.ops.panes import ClosingKernel
from hydrophone.ops.summaries import Aggregate
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType
from hydrophone.time import add_time


@dataclass(frozen=True, kw_only=True, eq=False)
class Tumble(Node):
    """Aggregates per key and window of time; windows begin at multiples of `size` after `offset`.

    An event belongs to the window in which it starts.
    A window with no event gives no row. A window is given when progress passes its end, or as `flush` says some time later.
    """

    size: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    offset: int = 0
    flush: Flush | None = None

    def check(self) -> None:
        """A positive size and at least one aggregate."""
        check_span(self.size, "tumble", "size")
        check_flush(self.flush, "tumble")
        check_aggregates(self.aggregates, "tumble")

    @property
    def step(self) -> int:
        """Windows end at multiples of `size` after `offset`."""
        return gcd(self.size, self.offset)

    def output_type(self, x: StreamType) -> StreamType:
        """One column per aggregate; the lifetime is the window."""
        end = end_name(x, "tumble")
        return StreamType(x.key, x.time, x.clock, pa.schema(aggregate_fields(self.aggregates, x, "tumble", end)), end)

    def reach(self, x: StreamType) -> Reach:
        """A window is owned by its start and needs all events until its end, and to leave progress until it may wait no longer."""
        return Reach(after=add_time(self.size, longest_wait(self.flush, self.size)))

    def kernel(self, x: StreamType) -> Kernel:
        """Aggregate."""
        kernel = TumbleKernel(self.size, self.offset, self.aggregates, x, self.type)
        kernel.smooth(self.flush, self.size)
        return kernel


class TumbleKernel(ClosingKernel):
    """A window is one pane."""

    def first_open(self, mark: Mark) -> Mark:
        """The start of the window in which the mark lies."""
        return floored(mark, self.pane, self.offset)

    def closed(self, mark: Mark) -> Iterable[Batch]:
        """The windows that ended at or before the mark."""
        if not any(self._over(part.slot, part.start, mark).any() for part in self.open.parts):
            return ()
        held = self._compact()
        assert held is not None
        cells = self.open.take(self._over(held.slot, held.start, mark))
        stop = add_time(cells.start, self.pane)
        columns = self.results(parts_of(cells), self.picks_between(cells.slot, cells.start, stop))
        for _, rows in self.rows():
            forget(rows, lambda r: self._over(r.slot, self._pane_of(r.start), mark))
        return (Events(cells.slot, cells.start, stop, columns),)

    def _over(self, slot: Ints, start: Ints, mark: Mark) -> Mask:
        """Which windows nothing can fall into any more."""
        over: Mask = add_time(start, self.pane) <= of(mark, slot)
        return over
