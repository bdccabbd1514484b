"""Epochs: the samples around events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints, Segments, Windows
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, low_water_mark, lowest_marks, marks_of_slots
from hydrophone.model.sorted_rows import search_rows
from hydrophone.model.state import HeldBatches
from hydrophone.model.take_rows import take_table
from hydrophone.model.time import MAX_TIME, add_time
from hydrophone.ops.signals.grids import KeyGrids
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import StreamType, UniformType, WindowedType, array_names, same_clock


@dataclass(frozen=True, kw_only=True, eq=False)
class Epochs(Node):
    """For every event of the key a window: `before` samples, the first sample at or after the event's start, and `after` samples.

    Reference: ``x[k - before : k + after + 1]`` with ``k = searchsorted(times, start)``. A window that lacks a sample is left out, at the
    start, the end and beside holes. Events between the same two samples share one window; with `columns`, which name what a window
    carries of its event, each has one of its own.
    """

    stable_name = "epochs"

    before: int
    after: int
    columns: tuple[str, ...] = ()

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """Away from the event."""
        if min(self.before, self.after) < 0:
            raise ParameterError(f"epochs: before and after must not be negative, got {self.before} and {self.after}")

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """What windows carry."""
        return frozenset(self.columns)

    def output_type(self, x: UniformType, events: StreamType) -> WindowedType:
        """Windows that may end at any sample."""
        if x.scope != events.scope:
            raise SignalTypeError(
                f"epochs: the keys differ: {list(x.key.names)} and {list(events.key.names)}",
                hint="bring both to one key with key_by",
            )
        same_clock(x, events, "epochs")
        if x.timebase is None:
            raise SignalTypeError(
                "epochs: needs one period for all keys", hint="resample(period, fill=hp.linear()) gives all keys one"
            )
        size = self.before + self.after + 1
        out = WindowedType(x.key, x.time, x.clock, x.dtype, size, size, 1, x.timebase, x.channels)
        return replace(out, labels=self._labels(out, events)) if self.columns else out

    def _labels(self, out: WindowedType, events: StreamType) -> pa.Schema:
        """The columns that windows carry, each once and none of them named as another column of the result."""
        own = {"time": (out.time,), "key": out.key.names, "samples": array_names(out)}
        for name in self.columns:
            whose = [what for what, names in own.items() if name in names]
            if whose or self.columns.count(name) > 1:
                raise ParameterError(
                    f"epochs: the result would have two columns {name!r}" + (f": its {whose[0]} too" if whose else ""),
                    hint="give it another name first: events.with_columns(cue=hp.col(...))",
                )
        return pa.schema([events.column(name, "epochs") for name in self.columns])

    def reach(self, x: UniformType, events: StreamType) -> tuple[Reach, Reach]:
        """A window is owned by its last sample."""
        own = Reach.samples(x.timebase, before=self.before + self.after)
        return own, Reach.samples(x.timebase, before=self.after + 1)

    def kernel(self, x: UniformType, events: StreamType) -> Kernel:
        """Cut."""
        return EpochsKernel(self.before, self.after, self.columns, x)


class EpochsKernel(Kernel):
    """Events that wait for their samples, and the samples that an event may still need."""

    keyed = True

    def __init__(self, before: int, after: int, columns: tuple[str, ...], kind: UniformType) -> None:
        self.before, self.after, self.columns = before, after, list(columns)
        self.grids = KeyGrids(kind.timebase)
        self.samples: HeldBatches[Segments] = HeldBatches(Segments)
        self.events: HeldBatches[Events] = HeldBatches(Events)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        if port:
            assert isinstance(batch, Events)
            if self.grids.base.single is not None and len(batch):
                self.grids.base.single.check_holds(int(batch.start.min()), int(batch.start.max()))
            self.events.add(Events(batch.slot, batch.start, None, batch.columns.select(self.columns)))
        else:
            assert isinstance(batch, Segments)
            self.samples.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """All windows whose samples and events are known; then forget what no event can need."""
        mark, base = lowest_marks(marks), self.grids.base
        out: tuple[Batch, ...] = ()
        events = self.events.all()
        if events is not None:
            last = add_time(base.index_from(events.slot, events.start), self.after)
            # Ready when its last sample lies before the mark, and so nothing under it can come any more.
            ripe = base.instant(events.slot, last) < marks_of_slots(mark, events.slot)
            if ripe.any():
                taken = self.events.take(ripe)
                last = base.index_from(taken.slot, taken.start) + self.after
                out = self._cut(taken, last)
        self._forget(mark)
        return out, mark

    def _cut(self, events: Events, last: Ints) -> tuple[Batch, ...]:
        held = self.samples.all()
        if held is None:
            return ()
        order = np.lexsort((last, events.slot))
        slot, last = events.slot[order], last[order]
        if not self.columns:
            once = np.concatenate([[True], (slot[1:] != slot[:-1]) | (last[1:] != last[:-1])])
            order, slot, last = order[once], slot[once], last[once]
        first = last - self.after - self.before
        run = search_rows(held.slot, held.first, slot, first, "right") - 1
        whole = (run >= 0) & (held.slot[run] == slot) & (first >= held.first[run]) & (last < held.next[run])
        if not whole.any():
            return ()
        order, slot, last, first, run = order[whole], slot[whole], last[whole], first[whole], run[whole]
        size = self.before + self.after + 1
        at = held.offsets[run] + first - held.first[run]
        view = np.lib.stride_tricks.sliding_window_view(held.values, size, axis=0)
        labels = take_table(events.columns, order) if self.columns else None
        return (Windows(slot, last, view[at], held.base, labels),)

    def _forget(self, mark: Mark) -> None:
        """Events that wait, or that may still come, reach back so far."""
        held = self.samples.all()
        if held is None:
            return
        if low_water_mark(mark) == MAX_TIME:
            self.samples.replace(None, held.slot)
            return
        # An event that is not taken yet ends at or after the mark; before any mark that is below all numbers.
        known = np.maximum(held.base.index_from_mark(held.slot, marks_of_slots(mark, held.slot)), held.first)
        need = add_time(known, -self.before - self.after)
        self.samples.replace(held.split(need)[1], held.slot[held.first < need])
