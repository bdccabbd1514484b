"""Sliding windows over frames: what each status has had of the last minute, of the last hour and of all time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges, stable_order
from hydrophone.model.time import MAX_TIME, add_time, time_apart
from hydrophone.ops.aggregates.aggregates import check_span
from hydrophone.ops.aggregates.summaries import Aggregate, Count, Mean, Sum
from hydrophone.ops.frames.frames import check_number
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType


@dataclass(frozen=True)
class TimeSpent(Aggregate):
    """The time that events take of a window, in nanoseconds. For windows over frames alone."""

    def output_type(self, x: StreamType) -> pa.DataType:
        """Other windows do not weigh events by time."""
        raise ParameterError(
            "duration: only trailing windows over frames weigh by time",
            hint='frames(...).trailing("1min").agg(time=hp.duration())',
        )


def duration() -> TimeSpent:
    """The time that frames take of a `trailing` window, in nanoseconds: frames that begin before it count in part.

    Examples
    --------
    >>> import hydrophone as hp, pyarrow as pa
    >>> table = pa.table({"t": [0, 40], "end": [40, 60], "status": ["on", "off"]})
    >>> frames = hp.from_arrow(table, time="t", end="end")
    >>> frames.trailing(30).agg(time=hp.duration(), by="status").to_arrow().to_pylist()[-1]
    {'t': 60, 'window': 30, 'status': 'on', 'time': 10}
    """
    return TimeSpent()


@dataclass(frozen=True, kw_only=True, eq=False)
class Trailing(Node):
    """Aggregates over the time before the end of every frame. See the method for the rules; reference: `tests.oracles_frames.trailing`."""

    stable_name = "trailing"

    lengths: tuple[int | None, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    by: str | None = None
    changed: bool = False

    needs = Order.INDEX

    def check(self) -> None:
        """Different lengths, and aggregates that can be weighed by time."""
        if not self.lengths or len(set(self.lengths)) < len(self.lengths):
            raise ParameterError("trailing: needs windows of different lengths", hint='trailing("1min", "1h", None)')
        for length in self.lengths:
            if length is not None:
                check_span(length, "trailing", "a window")
        if not self.aggregates:
            raise ParameterError("trailing: agg needs an aggregate", hint="agg(time=hp.duration())")
        for name, aggregate in self.aggregates:
            if not isinstance(aggregate, TimeSpent | Sum | Mean | Count) or (
                isinstance(aggregate, Count) and aggregate.column
            ):
                raise ParameterError(
                    f"trailing: {name!r} cannot be weighed by time",
                    hint="hp.duration(), hp.sum(column), hp.mean(column) and hp.count() can",
                )

    def output_type(self, x: StreamType) -> StreamType:
        """The window, the status, and a column for each aggregate."""
        if x.end is None:
            raise ParameterError(
                "trailing: these events are points, and take no time", hint="frames(...).trailing(...)"
            )
        fields = [pa.field("window", pa.int64())]
        if self.by is not None:
            kind = x.column(self.by, "trailing: by").type
            if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind)):
                raise ParameterError(
                    f"trailing: by needs text, a whole number or true and false, {self.by!r} is {kind}"
                )
            fields.append(pa.field(self.by, kind))
        for name, aggregate in self.aggregates:
            if aggregate.column:
                check_number(x, aggregate.column, f"trailing: {name}")
            whole = isinstance(aggregate, TimeSpent | Count)
            fields.append(pa.field(name, pa.int64() if whole else pa.float64()))
        names = [f.name for f in fields] + [*x.key.names, x.time]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise ParameterError(f"trailing: two columns would have the name {twice!r}", hint="rename one of them")
        return StreamType(x.key, x.time, x.clock, pa.schema(fields), None)

    def reach(self, x: StreamType) -> Reach:
        """Frames may begin any time ago."""
        return Reach.unbounded("trailing: frames in a window may begin any time before it")

    def kernel(self, x: StreamType) -> Kernel:
        """Weigh."""
        return TrailingKernel(self, self.type)


class TrailingKernel(Kernel):
    """Frames of every key in its longest window, once for all windows; and totals where one has no end."""

    keyed = True

    def __init__(self, node: Trailing, out: StreamType) -> None:
        self.node, self.out = node, out
        self.changed = node.changed
        self.lengths = np.array([-1 if n is None else n for n in node.lengths], np.int64)
        self.longest = int(self.lengths.max(initial=0))
        # What is summed: for a mean the value times its time, and the time in which there is one.
        self.parts = [(a.column, isinstance(a, Mean)) for _, a in node.aggregates if a.column]
        self.width = sum(2 if mean else 1 for _, mean in self.parts)
        self.recent = KeyedBuffer(self._due)
        self.totals = KeyedBuffer(_never)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Results at the end of every frame of a batch, which come in order."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        slots = np.unique(batch.slot)
        held, totals = (_sorted(b.take_of(slots)) for b in (self.recent, self.totals))
        new = Events(batch.slot, batch.start, batch.stop, self._columns(batch))
        rows = new if held is None else Events.concat([held, new])
        fresh = np.arange(len(rows)) >= len(rows) - len(new)
        order = stable_order(rows.slot, rows.start)
        if order is not None:
            rows, fresh = rows.select(order), fresh[order]
        known = [] if totals is None else [totals.columns["status"]]
        words = pa.chunked_array([c for p in (rows.columns["status"], *known) for c in p.chunks]).combine_chunks()
        words = words.dictionary_encode(null_encoding="encode")
        codes = words.indices.to_numpy().astype(np.int64)
        return self._weighed(rows, fresh, codes, totals, slots, words.dictionary)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Forget frames that no window can see any more."""
        held = self.recent.take_due(marks[0])
        if held is not None:
            kept = held.select(self._due(held) > marks_of_slots(marks[0], held.slot))
            self.recent.put(kept, self._due(kept))
        return (), marks[0]

    def _due(self, rows: Events) -> Ints:
        """A frame is not needed when no frame can touch it, and it is before all windows."""
        return add_time(add_time(rows.stop, self.longest), 1)

    def _columns(self, batch: Events) -> pa.Table:
        """The status, and what is summed."""
        by = self.node.by
        status = pa.chunked_array([pa.nulls(len(batch), pa.bool_())]) if by is None else batch.columns[by]
        columns: dict[str, Any] = {"status": status, "frames": np.ones(len(batch), np.int64)}
        time = time_apart(batch.stop, batch.start)
        for column, mean in self.parts:
            value = batch.columns[column].cast(pa.float64(), safe=False)
            there = value.is_valid().to_numpy()
            amount = pc.fill_null(value, 0.0).to_numpy()
            parts = [amount * time * there, time * there] if mean else [amount]
            for part in parts:
                columns[f"part {len(columns)}"] = part
        return pa.table(columns)

    def _weighed(
        self, rows: Events, fresh: Any, codes: Ints, totals: Events | None, slots: Ints, words: pa.Array
    ) -> Iterable[Batch]:
        """Run the compiled loop, and once more where there are more results than there was room for; keep what later windows need."""
        frames = _Work(rows, self.width)
        whole = _Work(totals, self.width)
        first, last = (np.searchsorted(rows.slot, slots, side=s) for s in ("left", "right"))
        low, high = (np.searchsorted(whole.slot, slots, side=s) for s in ("left", "right"))
        size, room = 4 * int(np.count_nonzero(fresh)) * len(self.lengths), -1
        while room < size:
            room = size
            out, parts = np.empty((room, 6), np.int64), np.empty((room, self.width))
            kept, kept_totals = frames.copy(), whole.room(len(rows))
            size, lengths, count = _trail(
                first, last, fresh, codes[: len(rows)], kept.ints, kept.parts,
                low, high, codes[len(rows) :], whole.ints, whole.parts, kept_totals.ints, kept_totals.parts,
                self.lengths, len(words), out, parts, self.changed,
            )  # fmt: skip
            if size == OVERLAP:
                raise DataError("trailing: events of a key overlap", hint="stitch() joins them, frames() never overlap")
            if size == NO_ROOM:
                raise DataError("trailing: a status has lasted longer than 64 bits of nanoseconds hold (292 years)")
        self._keep(rows, slots, first, lengths, kept, kept_totals, count, words)
        out, parts = out[:size], parts[:size]
        start = out[:, 1].copy()
        return (Events(slots[out[:, 0]], start, None, self._results(out, parts, words)),) if size else ()

    def _keep(
        self,
        rows: Events,
        slots: Ints,
        first: Ints,
        lengths: Any,
        kept: _Work,
        totals: _Work,
        count: int,
        words: pa.Array,
    ) -> None:
        """Hold the frames that lie in the longest window, and the totals where they are asked for."""
        at = concat_ranges(first + lengths[:, 0], lengths[:, 1] - lengths[:, 0])
        status = words.take(pa.array(kept.ints[at, 2]))
        frames = kept.events(rows.slot[at], at, status)
        self.recent.put(frames, self._due(frames))
        if (self.lengths < 0).any():
            ints = totals.ints[:count]
            held = totals.events(slots[ints[:, 4]], np.arange(count), words.take(pa.array(ints[:, 2])))
            self.totals.put(held, _never(held))

    def _results(self, out: Any, parts: Any, words: pa.Array) -> pa.Table:
        """A column for each aggregate."""
        window = self.lengths[out[:, 2]]
        columns: list[Any] = [pa.array(window, mask=window < 0)]
        if self.node.by is not None:
            columns.append(words.take(pa.array(out[:, 3])))
        at = 0
        for _, aggregate in self.node.aggregates:
            if isinstance(aggregate, TimeSpent | Count):
                columns.append(pa.array(out[:, 4 if isinstance(aggregate, TimeSpent) else 5].copy()))
            elif isinstance(aggregate, Sum):
                columns.append(pa.array(parts[:, at].copy()))
                at += 1
            else:
                with np.errstate(all="ignore"):
                    mean = parts[:, at] / parts[:, at + 1]
                columns.append(pa.array(mean, mask=parts[:, at + 1] == 0))
                at += 2
        return pa.table(columns, schema=self.out.columns)


class _Work:
    """Frames (or totals) as arrays that the compiled loop changes: integers are start, end, status, count and key."""

    def __init__(self, rows: Events | None, width: int) -> None:
        count = 0 if rows is None else len(rows)
        self.slot = np.zeros(0, np.int64) if rows is None else rows.slot
        self.ints, self.parts = np.zeros((count, 5), np.int64), np.zeros((count, width))
        if rows is not None:
            self.ints[:, 0], self.ints[:, 1], self.ints[:, 3] = rows.start, rows.stop, rows.columns["frames"].to_numpy()
            for i in range(width):
                self.parts[:, i] = rows.columns.column(2 + i).to_numpy()

    def copy(self) -> _Work:
        """The same arrays again."""
        made = _Work(None, 0)
        made.slot, made.ints, made.parts = self.slot, self.ints.copy(), self.parts.copy()
        return made

    def room(self, more: int) -> _Work:
        """Arrays for so many more rows."""
        made = _Work(None, 0)
        made.ints = np.zeros((len(self.ints) + more, 5), np.int64)
        made.parts = np.zeros((len(self.ints) + more, self.parts.shape[1]))
        return made

    def events(self, slot: Ints, at: Any, status: pa.Array) -> Events:
        """Some of the rows as events to hold."""
        columns = {"status": status, "frames": self.ints[at, 3]}
        columns |= {f"part {2 + i}": self.parts[at, i] for i in range(self.parts.shape[1])}
        start, end = self.ints[at, 0], self.ints[at, 1]
        return Events(slot, start, end, pa.table(columns))


def _never(rows: Events) -> Ints:
    """Totals are kept for ever."""
    return np.full(len(rows), MAX_TIME)


def _sorted(rows: Events | None) -> Events | None:
    """In the order of key and time."""
    if rows is None:
        return None
    order = stable_order(rows.slot, rows.start)
    return rows if order is None else rows.select(order)


OVERLAP, NO_ROOM = -1, -2
"""Instead of a number of results: frames of a key overlap; the time that a status has had in all does not fit 64 bits."""


@compiled
def _trail(
    first: Any, last: Any, fresh: Any, code: Any, frames: Any, parts: Any,
    low: Any, high: Any, total_code: Any, totals: Any, total_parts: Any, kept: Any, kept_parts: Any,
    lengths: Any, codes: int, out: Any, out_parts: Any, changed: bool,
) -> Any:  # fmt: skip
    """For every new frame and every length what each status has of the window that ends with the frame, or only what has changed.

    Frames that touch and have one status become one. Gives how many results there are (or `OVERLAP`, `NO_ROOM`), which frames of each
    key to keep (from, to), and how many totals. Results beyond the room in `out` are counted alone.
    """
    longest = lengths.max()
    endless = lengths.min() < 0
    time, count = np.zeros(codes, np.int64), np.zeros(codes, np.int64)
    amount = np.zeros((codes, parts.shape[1]))
    all_time, all_count = np.zeros(codes, np.int64), np.zeros(codes, np.int64)
    all_amount = np.zeros((codes, parts.shape[1]))
    seen, ever = np.empty(codes, np.int64), np.empty(codes, np.int64)
    differs = np.full(codes, not changed)
    keep = np.zeros((len(first), 2), np.int64)
    found, kept_count = 0, 0
    for k in range(len(first)):
        base, size, oldest, known = first[k], 0, 0, 0
        for i in range(low[k], high[k]):
            c = total_code[i]
            ever[known] = c
            known += 1
            all_time[c], all_count[c] = totals[i, 1] - totals[i, 0], totals[i, 3]
            all_amount[c] = total_parts[i]
        for i in range(base, last[k]):
            c, end = code[i], frames[i, 1]
            tail = base + size - 1
            if size and frames[i, 0] < frames[tail, 1]:
                return OVERLAP, keep, 0
            joins = size > 0 and frames[i, 0] == frames[tail, 1] and c == frames[tail, 2]
            before = frames[tail, 1] if size else frames[i, 0]
            if fresh[i] and endless:
                if not all_count[c]:
                    ever[known] = c
                    known += 1
                all_time[c] += frames[i, 1] - frames[i, 0]
                if all_time[c] < 0:
                    return NO_ROOM, keep, 0
                all_count[c] += 0 if joins else 1
                all_amount[c] += parts[i]
            if joins:
                frames[tail, 1] = end
                parts[tail] += parts[i]
            else:
                tail += 1
                size += 1
                frames[tail] = frames[i]
                frames[tail, 2] = c
                parts[tail] = parts[i]
            if not fresh[i]:
                continue
            held = base + oldest
            for n in range(len(lengths)):
                if lengths[n] < 0:
                    for j in range(known):
                        s = ever[j]
                        if changed and s != c:
                            continue
                        if found < len(out):
                            out[found, 0], out[found, 1], out[found, 2], out[found, 3] = k, end, n, s
                            out[found, 4], out[found, 5] = all_time[s], all_count[s]
                            out_parts[found] = all_amount[s]
                        found += 1
                    continue
                distinct = 0
                for j in range(tail, held - 1, -1):
                    # Unsigned: the distance of two instants may not fit a signed number.
                    ago = np.uint64(end) - np.uint64(frames[j, 1])
                    if ago >= np.uint64(lengths[n]):
                        if lengths[n] == longest:
                            oldest = j + 1 - base
                        break
                    s, whole = frames[j, 2], np.uint64(frames[j, 1]) - np.uint64(frames[j, 0])
                    part = min(whole, np.uint64(lengths[n]) - ago)
                    if not count[s]:
                        seen[distinct] = s
                        distinct += 1
                    time[s] += np.int64(part)
                    count[s] += 1
                    if part == whole:
                        amount[s] += parts[j]
                    else:
                        amount[s] += parts[j] * (part / whole)
                if changed:
                    differs[c] = True
                    for j in range(tail - 1, held - 1, -1):
                        s, ago = frames[j, 2], np.uint64(frames[i, 0]) - np.uint64(frames[j, 1])
                        # Frames that may have been forgotten say nothing.
                        if ago > np.uint64(longest) or np.uint64(before) - np.uint64(frames[j, 1]) >= np.uint64(
                            lengths[n]
                        ):
                            break
                        if np.uint64(end) - np.uint64(frames[j, 0]) > np.uint64(lengths[n]):
                            if not count[s] and not differs[s]:
                                seen[distinct] = s
                                distinct += 1
                            differs[s] = True
                for j in range(distinct):
                    s = seen[j]
                    if differs[s]:
                        if found < len(out):
                            out[found, 0], out[found, 1], out[found, 2], out[found, 3] = k, end, n, s
                            out[found, 4], out[found, 5] = time[s], count[s]
                            out_parts[found] = amount[s]
                        found += 1
                    differs[s] = not changed
                    time[s] = count[s] = 0
                    amount[s] = 0
        keep[k, 0], keep[k, 1] = (size - 1 if longest < 0 else oldest), size
        for j in range(known):
            s = ever[j]
            kept[kept_count, 1], kept[kept_count, 2], kept[kept_count, 3] = all_time[s], s, all_count[s]
            kept[kept_count, 4] = k
            kept_parts[kept_count] = all_amount[s]
            kept_count += 1
            all_time[s] = all_count[s] = 0
            all_amount[s] = 0
    return found, keep, kept_count
