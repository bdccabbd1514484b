"""Aggregates over windows of time, closed by progress: events may come in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.batch import Batch, Events, Ints, Mask
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark, moved, of
from hydrophone.ops.flush import Flush, Pending, check_flush, longest_wait
from hydrophone.ops.folding import fold
from hydrophone.ops.picks import Pick, flat, picked
from hydrophone.ops.place import in_order
from hydrophone.ops.removing import Inverse, inverse
from hydrophone.ops.summaries import Aggregate, Count, Parts
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType
from hydrophone.runs import ranges, search, stable_order
from hydrophone.state import Held
from hydrophone.time import MAX_TIME, add_time

Aggregates = Sequence[tuple[str, Aggregate]]


def check_aggregates(aggregates: Aggregates, what: str) -> None:
    """At least one, and each of them an aggregate."""
    if not aggregates:
        raise ParameterError(f"{what}: agg needs at least one aggregate", hint="agg(n=hp.count())")
    for name, a in aggregates:
        if not isinstance(a, Aggregate):
            raise ParameterError(
                f"{what}: {name!r} must be an aggregate, got {a!r}",
                hint="agg(n=hp.count())",
            )


def check_span(value: int, what: str, name: str) -> None:
    """A positive duration that ends: what never ends could never be given, and its state never purged."""
    if value <= 0:
        raise ParameterError(f"{what}: {name} must be positive, got {value}", hint='a duration, such as "5min"')
    if value >= MAX_TIME:
        raise ParameterError(
            f"{what}: {name} has no end, so that nothing could ever be given or forgotten",
            hint='a duration, such as "1d"',
        )


def aggregate_fields(aggregates: Aggregates, x: StreamType, what: str, *taken: str | None) -> list[pa.Field]:
    """The columns of results, whose names must be free."""
    fields = [pa.field(name, a.output_type(x)) for name, a in aggregates]
    for f in fields:
        if f.name in (*x.key.names, x.time, *taken):
            raise ParameterError(
                f"{what}: the name {f.name!r} is taken by the key or time of this stream", hint="choose another name"
            )
    return fields


def end_name(x: StreamType, what: str) -> str:
    """The name of the column in which results end: that of the input, or ``end``."""
    end = x.end or "end"
    if end in (*x.key.names, x.time):
        raise ParameterError(
            f"{what}: results end in a column {end!r}, and the key or time of this stream has that name",
            hint=f"rename the key: stream.key_by(name={end!r})",
        )
    return end


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


class Aggregating(Kernel):
    """Common to kernels that aggregate: what they keep of events, and results from it.

    The parts of open windows are held as events whose columns are the parts. The rows that picks need are held beside them.
    """

    removes = False
    """Whether windows are made out of others by taking events away, where aggregates can."""

    def __init__(self, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        self.kind, self.out = kind, out
        self.aggregates = [a for _, a in aggregates]
        # A window is there because of its parts, so there is always one.
        self.summaries = [a for a in self.aggregates if not isinstance(a, Pick)] or [Count()]
        undo = [inverse(a) for a in self.summaries] if self.removes else []
        self.own, self.inverses = len(self.summaries), [i for i in undo if i is not None]
        self.summaries += self.inverses
        self.picks = [a for a in self.aggregates if isinstance(a, Pick)]
        self.open: Held[Events] = Held(Events)
        for i in range(len(self.picks)):
            setattr(self, f"rows{i}", Held(Events))

    def rows(self) -> Iterator[tuple[Pick, Held[Events]]]:
        """The picks and what is held for them."""
        for i, pick in enumerate(self.picks):
            yield pick, getattr(self, f"rows{i}")

    def parts(self, batch: Events) -> Parts:
        """The parts of every single event."""
        return [p for a in self.summaries for p in a.parts(*numbers(batch, a.column))]

    def folded(self, parts: Parts, first: Ints, stop: Ints) -> Parts:
        """The parts of stretches of rows."""
        return [m for a, own in split(self.summaries, parts) for m in fold(a, own, first, stop)]

    def with_inverses(self, parts: Parts) -> Iterator[tuple[Aggregate, Parts, Inverse | None, Parts]]:
        """Every aggregate that is no inverse, its parts, and the inverse and its parts where there is one."""
        found = split(self.summaries, parts)
        rest = iter(zip(self.inverses, found[self.own :], strict=True))
        for a, own in found[: self.own]:
            if self.inverses and inverse(a) is not None:
                undo, (_, its) = next(rest)
                yield a, own, undo, its
            else:
                yield a, own, None, []

    def pick_rows(self, batch: Events, start: Ints) -> None:
        """Hold what the picks need of a batch; `start` stands for the time where they do not look at it."""
        for pick, held in self.rows():
            there = pc.is_valid(batch.columns[pick.column]).to_numpy(zero_copy_only=False)
            at = batch.start if pick.timed else start
            column = pa.table({"value": batch.columns[pick.column]})
            rows = Events(batch.slot, at, None, column)
            held.add(rows if there.all() else rows.select(there))

    def results(self, parts: Parts, picks: Sequence[pa.Array]) -> pa.Table:
        """The result columns."""
        summaries = iter(split(self.summaries, parts))
        others = iter(picks)
        made = []
        for a in self.aggregates:
            if isinstance(a, Pick):
                made.append(next(others))
            else:
                made.append(a.result(next(summaries)[1]))
        return pa.table([m.cast(f.type) for m, f in zip(made, self.out.columns, strict=True)], schema=self.out.columns)

    def picks_between(self, slot: Ints, start: Ints, stop: Ints) -> list[pa.Array]:
        """The answers of the picks over the held rows that start in ``[start, stop)``."""
        found = []
        for pick, held in self.rows():
            rows = held.all()
            if rows is None:
                rows = Events(slot[:0], slot[:0], None, self._nothing(pick))
            order = stable_order(rows.slot, rows.start)
            if order is not None:
                rows = rows.select(order)
                held.replace(rows, order[:0])
            low = search(rows.slot, rows.start, slot, start, "left")
            counts = search(rows.slot, rows.start, slot, stop, "left") - low
            group = np.repeat(np.arange(len(slot)), counts)
            found.append(picked(pick, rows.select(ranges(low, counts)), group, len(slot)))
        return found

    def _nothing(self, pick: Pick) -> pa.Table:
        return pa.table({"value": pa.array([], self.kind.column(pick.column, "").type)})


def split(aggregates: Sequence[Aggregate], parts: Parts) -> list[tuple[Aggregate, Parts]]:
    """The parts of each aggregate."""
    found, at = [], 0
    for a in aggregates:
        found.append((a, parts[at : at + a.width]))
        at += a.width
    return found


def numbers(batch: Events, name: str) -> tuple[npt.NDArray[Any], Mask]:
    """A column as numbers (times as they are counted), and where it is not null."""
    if not name:
        return np.broadcast_to(0.0, len(batch)), np.broadcast_to(np.True_, len(batch))
    column = batch.columns[name].combine_chunks()
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not numeric:
        return np.zeros(len(batch)), valid
    filled = pc.fill_null(column, 0) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False)), valid


def part_table(parts: Parts) -> pa.Table:
    """Parts as columns."""
    return pa.table(parts, names=[f"p{i}" for i in range(len(parts))])


def parts_of(cells: Events) -> Parts:
    """Undo `part_table`."""
    return [c.to_numpy() for c in cells.columns.columns]


class PaneKernel(Aggregating):
    """Events gathered in panes: stretches of `pane` nanoseconds from multiples of it after `offset`."""

    MANY = 64
    """Batches of open windows that are held before they are merged, at most."""
    CROWD = 2
    """Rows of open windows that are not merged yet are at most one to so many that are: a merge touches them all."""
    ROOMY = 4
    """Cells of a full table per event up to which the table is cheaper than sorting."""

    def __init__(self, pane: int, offset: int, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        super().__init__(aggregates, kind, out)
        self.pane, self.offset = pane, offset
        self.merges = [m for a in self.summaries for m in a.merge]
        self.plain = all(a.merge for a in self.summaries)
        self._added = self._fresh = 0
        self._settled: int | None = None  # not known after a restore

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add events to their panes."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        if self.picks:
            self.pick_rows(batch, self._pane_of(batch.start))
        self.absorb(self.cells(batch), len(batch) if self.picks else 0)
        return ()

    def cells(self, batch: Events) -> Events:
        """The parts of a batch, one row per slot and pane: all that is kept of it but for picks, so that it can be made elsewhere."""
        return self._merged(batch.slot, batch.start, self.parts(batch))

    def absorb(self, cells: Events, picked: int = 0) -> None:
        """Hold cells, and merge them with others once there are enough; `picked` rows are held beside them."""
        if self._settled is None:
            self._settled = sum(len(part) for part in self.open.parts)
        self.open.add(cells)
        self._added += 1
        self._fresh += picked or len(cells)
        if self._added >= self.MANY or self.CROWD * self._fresh >= self._settled:
            self._compact()

    def compact(self) -> None:
        """Merge what came since the last time."""
        self._compact()

    def _pane_of(self, start: Any) -> Any:
        return (start - self.offset) // self.pane * self.pane + self.offset

    def _compact(self) -> Events | None:
        held, added = self.open.all(), self._added
        self._added = self._fresh = 0
        if added:
            self._compact_rows()
        if held is not None and (added > 1 or not self._is_merged(held)):
            held = self._merged(held.slot, held.start, parts_of(held))
            self.open.replace(held, np.zeros(0, np.int64))
        self._settled = 0 if held is None else len(held)
        return held

    def _compact_rows(self) -> None:
        """Leave away the rows that no answer can need."""
        for pick, held in self.rows():
            rows = held.all()
            if rows is None:
                continue
            rows = in_order(rows)
            fresh = _changes(rows.slot, self._pane_of(rows.start))
            keep = pick.keep(flat(rows), fresh, np.append(fresh[1:], len(rows)))
            held.replace(rows if keep is None or keep.all() else rows.select(keep), np.zeros(0, np.int64))

    @staticmethod
    def _is_merged(held: Events) -> bool:
        later = (held.slot[1:] > held.slot[:-1]) | (
            (held.slot[1:] == held.slot[:-1]) & (held.start[1:] > held.start[:-1])
        )
        return bool(later.all())

    def _merged(self, slot: Ints, start: Ints, parts: Parts) -> Events:
        """One row per slot and pane, ordered by both."""
        if self.plain and all(_counts(m, p) for m, p in zip(self.merges, parts, strict=True)):
            counted = self._counted(slot, start, parts)
            if counted is not None:
                return counted
        low, width, cells = self._table(slot, start)
        if self.plain and cells <= self.ROOMY * len(slot):
            where, counts = np.empty(len(slot), np.int64), np.zeros(cells, np.int64)
            _cells(slot, start, self.offset, self.pane, low, width, where, counts)
            found, slot, number = _filled(counts, low, width)
            merged = [_scattered(m, where, p, counts)[found] for m, p in zip(self.merges, parts, strict=True)]
        else:
            number = (start - self.offset) // self.pane
            order = stable_order(slot, number)
            if order is not None:
                slot, number, parts = slot[order], number[order], [p[order] for p in parts]
            first = _changes(slot, number)
            merged = self.folded(parts, first, np.append(first[1:], len(slot)))
            slot, number = slot[first], number[first]
        return Events(slot, number * self.pane + self.offset, None, part_table(merged))

    def _table(self, slot: Ints, start: Ints) -> tuple[int, int, int]:
        """The first pane of a table of all slots and panes, how many panes there are, and how many cells."""
        first, last, most = _extent(slot, start)
        low, high = ((int(t) - self.offset) // self.pane for t in (first, last))
        return low, high - low + 1, (int(most) + 1) * (high - low + 1)

    def _counted(self, slot: Ints, start: Ints, parts: Parts) -> Events | None:
        """As `_merged` where nothing but events is counted, without a place for every event; None where a table would be too large."""
        low, width, cells = self._table(slot, start)
        if cells > self.ROOMY * len(slot):
            return None
        counts = np.zeros(cells, np.int64)
        _count(slot, start, self.offset, self.pane, low, width, counts)
        found, slot, number = _filled(counts, low, width)
        merged = [counts[found] * p[0] for p in parts]
        return Events(slot, number * self.pane + self.offset, None, part_table(merged))


class ClosingKernel(PaneKernel):
    """Windows over panes, which marks close; their results leave at once, or as `flush` says."""

    keyed = True
    pending: Pending | None = None

    def smooth(self, flush: Flush | None, every: int) -> None:
        """Let results leave as `flush` says; windows follow each other `every` so often."""
        if flush is not None:
            self.pending = Pending(longest_wait(flush, every), flush.every)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Add events to their panes; old results that they want leave."""
        super().step(port, batch)
        return () if self.pending is None else self.pending.wanted(batch.slot)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Give the windows that ended at or before the mark, or those of them that should leave now."""
        results, bound = self.closed(marks[0])
        return (results, bound) if self.pending is None else self.pending.later(results, bound, marks[0])

    def closed(self, mark: Mark) -> tuple[Iterable[Batch], Mark]:
        """The results that a mark makes final, and the start of the first window that is not."""
        raise NotImplementedError

    def compact(self) -> None:
        """Merge what came since the last time."""
        super().compact()
        if self.pending is not None:
            self.pending.compact()


class TumbleKernel(ClosingKernel):
    """A window is one pane."""

    def closed(self, mark: Mark) -> tuple[Iterable[Batch], Mark]:
        """The windows that ended at or before the mark."""
        bound = moved(mark, self._pane_of)
        if not any(self._over(part.slot, part.start, mark).any() for part in self.open.parts):
            return (), bound
        held = self._compact()
        assert held is not None
        cells = self.open.take(self._over(held.slot, held.start, mark))
        stop = add_time(cells.start, self.pane)
        columns = self.results(parts_of(cells), self.picks_between(cells.slot, cells.start, stop))
        for _, rows in self.rows():
            forget(rows, lambda r: self._over(r.slot, self._pane_of(r.start), mark))
        return (Events(cells.slot, cells.start, stop, columns),), bound

    def _over(self, slot: Ints, start: Ints, mark: Mark) -> Mask:
        """Which windows nothing can fall into any more."""
        over: Mask = add_time(start, self.pane) <= of(mark, slot)
        return over


def forget(held: Held[Events], gone: Any) -> None:
    """Drop the held rows for which a function of them is true."""
    rows = held.all()
    if rows is not None and (mask := gone(rows)).any():
        held.take(mask)


@numba.njit(cache=True, nogil=True)
def _cells(slot: Any, start: Any, offset: int, pane: int, low: int, width: int, where: Any, counts: Any) -> None:
    """The cell of every event in a table of all slots and panes, and the events of every cell."""
    here = (start[0] - offset) // pane
    begin = here * pane + offset
    for i in range(len(slot)):
        if not 0 <= start[i] - begin < pane:  # neighbours are often in one pane, which saves a division
            here = (start[i] - offset) // pane
            begin = here * pane + offset
        cell = slot[i] * width + here - low
        where[i] = cell
        counts[cell] += 1


@numba.njit(cache=True, nogil=True)
def _filled(counts: Any, low: int, width: int) -> tuple[Any, Any, Any]:
    """The cells that have events, and their slots and panes, without a division for each."""
    size = 0
    for cell in range(len(counts)):
        size += counts[cell] != 0
    found, slot, number = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    n, cell = 0, 0
    for s in range(len(counts) // width):
        for w in range(width):
            if counts[cell] != 0:
                found[n], slot[n], number[n] = cell, s, low + w
                n += 1
            cell += 1
    return found, slot, number


@numba.njit(cache=True, nogil=True)
def _extent(slot: Any, start: Any) -> tuple[int, int, int]:
    """The first and the last start, and the largest slot."""
    first, last, most = start[0], start[0], slot[0]
    for i in range(len(start)):
        first, last, most = min(first, start[i]), max(last, start[i]), max(most, slot[i])
    return first, last, most


@numba.njit(cache=True, nogil=True)
def _count(slot: Any, start: Any, offset: int, pane: int, low: int, width: int, counts: Any) -> None:
    """The events of every cell of a table of all slots and panes."""
    here = (start[0] - offset) // pane
    begin = here * pane + offset
    for i in range(len(start)):
        if not 0 <= start[i] - begin < pane:
            here = (start[i] - offset) // pane
            begin = here * pane + offset
        counts[slot[i] * width + here - low] += 1


def _counts(merge: np.ufunc, part: npt.NDArray[Any]) -> bool:
    """Whether a part is the same number for every event, to be added up."""
    return merge is np.add and part.strides == (0,) and part.dtype == np.int64


def _changes(slot: Ints, number: Ints) -> Ints:
    """Where rows differ from the one before."""
    fresh = np.concatenate([[True], (slot[1:] != slot[:-1]) | (number[1:] != number[:-1])])[: len(slot)]
    return np.flatnonzero(fresh)


def _scattered(merge: np.ufunc, where: Ints, part: npt.NDArray[Any], counts: Ints) -> npt.NDArray[Any]:
    """Merge the parts that belong to the same cell of a full table, in the order in which they came."""
    if _counts(merge, part):
        return counts * part[0]
    out = np.zeros(len(counts), part.dtype)
    if merge.identity is None:
        out[where] = part
    with np.errstate(all="ignore"):
        merge.at(out, where, part)
    return out
