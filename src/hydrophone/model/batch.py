"""What flows between operators: Events, Segments and Windows, all keys of a batch at once.

A batch never holds keys, only *slots*: dense integers that the key table of its scope hands out. One call of a kernel
therefore handles every key with
plain array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.errors import DataError
from hydrophone.model.sigseg import SigSeg
from hydrophone.model.sorted_rows import concat_ranges, gather_ranges, scatter_ranges
from hydrophone.model.take_rows import take_table, take_values
from hydrophone.model.time import MAX_TIME, MIN_TIME, extremes
from hydrophone.model.timebase import Timebases, check_indices

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]
Joint = tuple[int, int]
"""Joint progress of pairs (a, b): no pair will come that starts before a and has its other time before b."""

SLOTS_PER_BLOCK = 1024
"""Slots per block: the unit in which state is written."""
COLUMNS_AT_ONCE = 1 << 20
"""Values per output batch, where a kernel can choose: 8 MB of doubles, which hold whole large pages at any alignment."""


@dataclass(frozen=True)
class Progress:
    """A promise about one input: no event that starts before `mark` will come.

    Attributes
    ----------
    mark : int
        The low-water mark in nanoseconds; ``MAX_TIME`` says that the data has truly ended.
    joint : (int, int), optional
        For pairs with two times (a, b): no pair will come that starts before a and has its other time before b.
    ends : int
        No event will come that ends before this, whatever its start.
    by_key : int64 array, optional
        Marks per key: one for every slot, then one for all keys without a slot.

    Examples
    --------
    >>> Progress(mark=5).final, Progress.end().final
    (False, True)
    """

    mark: int
    joint: Joint | None = None
    ends: int = MIN_TIME
    by_key: Ints | None = field(default=None, compare=False)

    @classmethod
    def end(cls) -> Progress:
        """The promise that no more rows will come."""
        return cls(MAX_TIME)

    @property
    def final(self) -> bool:
        """Whether the data has ended (never true at the end of a slice)."""
        return self.mark >= MAX_TIME


@dataclass(frozen=True, eq=False)
class Events:
    """Rows with a lifetime ``[start, end)``, in any order that progress allows.

    Attributes
    ----------
    slot, start : int64 arrays, one element per row
    end : int64 array, or None where every event is a point ``[start, start + 1)``
    columns : payload, an Arrow table without key and time
    """

    slot: Ints
    start: Ints
    end: Ints | None
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def stop(self) -> Ints:
        """End of every lifetime, also of points."""
        return self.start + 1 if self.end is None else self.end

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the rows; of shared buffers only the bytes that these rows use."""
        times = self.slot.nbytes + self.start.nbytes + (0 if self.end is None else self.end.nbytes)
        return times + (self.columns.nbytes if self.columns.num_columns else 0)

    def select(self, rows: Ints | Mask) -> Self:
        """The rows at these positions, or where the mask is true."""
        chosen: Ints = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        end = None if self.end is None else take_values(self.end, chosen)
        columns = take_table(self.columns, chosen) if self.columns.num_columns else table_without_columns(len(chosen))
        return replace(
            self, slot=take_values(self.slot, chosen), start=take_values(self.start, chosen), end=end, columns=columns
        )

    def with_columns(self, columns: pa.Table) -> Self:
        """The same events with another payload."""
        return replace(self, columns=columns)

    def shares(self, cuts: Ints) -> list[Events]:
        """The batch in parts that know it: part i has the rows ``cuts[i]`` to ``cuts[i + 1]``; nothing is copied.

        Examples
        --------
        >>> whole = Events(np.array([0, 0, 1]), np.array([5, 6, 7]), None, pa.table({"v": [1, 2, 3]}))
        >>> first, second = whole.shares(np.array([0, 1, 3]))
        >>> second.start.tolist(), second.part_of == (whole, 1), whole.part_of
        ([6, 7], True, None)
        """
        slot, start, end, columns = self.slot, self.start, self.end, self.columns
        parts = []
        at: list[int] = cuts.tolist()
        for low, high in pairwise(at):
            stop = None if end is None else end[low:high]
            part = Events(slot[low:high], start[low:high], stop, columns.slice(low, high - low))
            vars(part)["_part_of"] = (self, low)
            parts.append(part)
        return parts

    @property
    def part_of(self) -> tuple[Events, int] | None:
        """The batch that this one is a part of, and at which row it begins there; None where it is no share."""
        found: tuple[Events, int] | None = vars(self).get("_part_of")
        return found

    @classmethod
    def concat(cls, parts: Sequence[Events]) -> Events:
        """All rows of several batches of one stream."""
        if len(parts) == 1:
            return parts[0]
        points = all(p.end is None for p in parts)
        return cls(
            np.concatenate([p.slot for p in parts]),
            np.concatenate([p.start for p in parts]),
            None if points else np.concatenate([p.stop for p in parts]),
            pa.concat_tables([p.columns for p in parts]).combine_chunks(),
        )

    def to_table(self) -> pa.Table:
        """One Arrow table, for state and exchange."""
        names = ["__slot", "__start"] if self.end is None else ["__slot", "__start", "__end"]
        if self.end is None and self.columns.column_names[:1] == ["__end"]:
            names[1] = _POINT
        arrays = [self.slot, self.start] + ([] if self.end is None else [self.end])
        return pa.table(
            [pa.array(a) for a in arrays] + self.columns.columns,
            schema=pa.schema([pa.field(n, pa.int64()) for n in names] + list(self.columns.schema)),
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> Events:
        """Undo `to_table`."""
        table = table.combine_chunks()
        # By position: a payload may have columns of any name.
        own = 3 if table.column_names[1:3] == ["__start", "__end"] else 2
        slot, start, *end = (table.column(i).to_numpy() for i in range(own))
        columns = (
            table.select(range(own, table.num_columns))
            if table.num_columns > own
            else table_without_columns(len(table))
        )
        return cls(slot, start, end[0] if end else None, columns)


_POINT = "__point"
"""Column name for the start of points, where the user has a column with the name of our end column."""


def table_without_columns(rows: int) -> pa.Table:
    """A table of no columns and `rows` rows (Arrow keeps the count only through a slice of a real column)."""
    return pa.table({"_": pa.nulls(rows)}).select([])


@dataclass(frozen=True, eq=False)
class Segments:
    """Contiguous runs of samples of many keys in one flat array, ordered by (slot, first).

    A slot may repeat; between two runs of a slot there is a hole.

    Attributes
    ----------
    slot, first : int64 arrays, one element per run; `first` is the grid index of the run's first sample
    offsets : int64 array, one element more: where each run lies in `values`
    values : flat array of samples, or two-dimensional with a column per channel
    base : the timebases of the slots
    """

    slot: Ints
    first: Ints
    offsets: Ints
    values: Values
    base: Timebases

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def nbytes(self) -> int:
        """Bytes of the runs and their samples."""
        return self.slot.nbytes + self.first.nbytes + self.offsets.nbytes + self.values.nbytes

    @cached_property
    def lengths(self) -> Ints:
        """Samples in every run."""
        return self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def next(self) -> Ints:
        """Index one past the last sample of every run."""
        return self.first + self.lengths

    @property
    def sample_slot(self) -> Ints:
        """The slot of every sample."""
        return np.repeat(self.slot, self.lengths)

    @property
    def sample_index(self) -> Ints:
        """The grid index of every sample."""
        return concat_ranges(self.first, self.lengths)

    def runs_of(self, at: Ints) -> Ints:
        """The runs of the samples at these places of `values`, which are in order."""
        return np.repeat(np.arange(len(self)), np.diff(np.searchsorted(at, self.offsets)))

    @property
    def sample_time(self) -> Ints:
        """The instant of every sample."""
        return self.base.times(self.sample_slot, self.sample_index)

    def checked(self) -> Self:
        """The same segments, or an error where their indices or instants do not fit 64 bits. For operators that move samples."""
        if len(self):
            check_indices(extremes(self.first)[0], extremes(self.next)[1])
            self.base.check_times(self.slot, self.first, self.next)
        return self

    def with_values(self, values: Values) -> Self:
        """The same runs with other samples."""
        return type(self)(self.slot, self.first, self.offsets, values, self.base)

    def sigseg(self, run: int) -> SigSeg:
        """One run as a segment of its own, which views the same memory.

        Examples
        --------
        >>> from hydrophone.model.timebase import Timebase
        >>> base = Timebases.shared(Timebase.every("1ms"))
        >>> x = Segments(np.array([0, 3]), np.array([5, 0]), np.array([0, 2, 5]), np.arange(5.0), base)
        >>> x.sigseg(1).to_numpy(), x.sigseg(0).start
        (array([2., 3., 4.]), 5000000)
        """
        samples = self.values[self.offsets[run] : self.offsets[run + 1]]
        return SigSeg(self.base[int(self.slot[run])], int(self.first[run]), samples)

    def select(self, runs: Ints | Mask) -> Segments:
        """The runs at these positions, or where the mask is true."""
        if runs.dtype == np.bool_ and runs.all():
            return self
        at: Ints = np.flatnonzero(runs) if runs.dtype == np.bool_ else runs.astype(np.int64, copy=False)
        return self.cut(at, self.first[at], self.next[at])

    def cut(self, runs: Ints, start: Ints, stop: Ints) -> Segments:
        """Pieces of runs: piece i is samples ``start[i]`` to ``stop[i]`` (grid indices) of run ``runs[i]``; empty ones vanish."""
        same = len(runs) == len(self) and np.array_equal(stop, self.next) and np.array_equal(start, self.first)
        if same and (runs[1:] > runs[:-1]).all():
            return self
        lengths = stop - start
        if not (lengths > 0).all():
            keep = lengths > 0
            runs, start, lengths = runs[keep], start[keep], lengths[keep]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return Segments(self.slot[runs], start, offsets, self.stretches(runs, start, lengths), self.base)

    def stretches(self, runs: Ints, start: Ints, lengths: Ints) -> Values:
        """The samples of some runs from a grid index on, so many of each, one after the other."""
        return gather_ranges(self.values, self.offsets[runs] + (start - self.first[runs]), lengths)

    def split(self, index: Ints) -> tuple[Segments, Segments]:
        """Cut every run at the grid index given for it: (what lies before, the rest)."""
        if (index >= self.next).all():  # the usual case: the mark is after everything held
            return self, self._none()
        at = np.minimum(np.maximum(index, self.first), self.next)
        runs = np.arange(len(self))
        return self.cut(runs, self.first, at), self.cut(runs, at, self.next)

    def _none(self) -> Segments:
        none = np.zeros(0, np.int64)
        return Segments(none, none, np.zeros(1, np.int64), self.values[:0], self.base)

    @classmethod
    def of_samples(cls, slot: Ints, index: Ints, values: Values, base: Timebases) -> Segments:
        """Runs from single samples that are sorted by (slot, index)."""
        if not len(slot):
            return cls(slot, index, np.zeros(1, np.int64), values, base)
        start = np.flatnonzero(np.concatenate([[True], (slot[1:] != slot[:-1]) | (index[1:] != index[:-1] + 1)]))
        return cls(slot[start], index[start], np.append(start, len(slot)), values, base)

    @classmethod
    def concat(cls, parts: Sequence[Segments]) -> Segments:
        """All runs of several batches, ordered by (slot, first), neighbours joined into one run."""
        if len(parts) == 1:
            return parts[0]
        slot = np.concatenate([p.slot for p in parts])
        first = np.concatenate([p.first for p in parts])
        lengths = np.concatenate([p.lengths for p in parts])
        order = np.lexsort((first, slot))
        slot, first, lengths = slot[order], first[order], lengths[order]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        if (order[1:] > order[:-1]).all():
            values = np.concatenate([p.values for p in parts])
        else:
            values = np.empty((offsets[-1], *parts[0].values.shape[1:]), np.result_type(*(p.values for p in parts)))
            to = np.empty_like(order)
            to[order] = offsets[:-1]
            ends = np.cumsum([len(p) for p in parts])
            for part, begin, end in zip(parts, ends - [len(p) for p in parts], ends, strict=True):
                scatter_ranges(part.values, part.offsets[:-1], part.lengths, to[begin:end], values)
        return cls(slot, first, offsets, values, merge_bases(parts)).joined()

    def joined(self) -> Segments:
        """Runs that touch become one: within a batch there is always a hole between two runs of a slot."""
        touch = (self.slot[1:] == self.slot[:-1]) & (self.first[1:] == self.next[:-1])
        start = np.flatnonzero(np.concatenate([[True], ~touch])) if len(self) else np.zeros(0, np.int64)
        return replace(
            self,
            slot=self.slot[start],
            first=self.first[start],
            offsets=np.append(self.offsets[start], self.offsets[-1]),
        )

    def to_table(self) -> pa.Table:
        """One Arrow table with a row per run, for state and exchange."""
        width, flat = self.values.shape[1:], np.ascontiguousarray(self.values).reshape(-1)
        scale = width[0] if width else 1
        if flat.dtype.kind == "c":
            flat, scale = flat.view(flat.real.dtype), 2 * scale
        lists = pa.LargeListArray.from_arrays(pa.array(self.offsets * scale), pa.array(flat))
        meta = {"dtype": self.values.dtype.str, "channels": str(width[0] if width else 0)}
        arrays = [self.slot, self.first, *self.base.rows(self.slot)]
        names = ["__slot", "first", "num", "den", "origin"]
        return pa.table([pa.array(a) for a in arrays] + [lists], names=[*names, "values"]).replace_schema_metadata(meta)

    @classmethod
    def from_table(cls, table: pa.Table) -> Segments:
        """Undo `to_table`."""
        meta = {k.decode(): v.decode() for k, v in table.schema.metadata.items()}
        dtype, channels = np.dtype(meta["dtype"]), int(meta["channels"])
        lists = table["values"].combine_chunks()
        if isinstance(lists, pa.ChunkedArray):
            lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
        offsets = lists.offsets.to_numpy()
        flat = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]] if len(lists) else np.zeros(0)
        flat = np.ascontiguousarray(flat).astype(dtype.type(0).real.dtype, copy=False).view(dtype)
        offsets = (offsets - offsets[0]) // ((2 if dtype.kind == "c" else 1) * max(channels, 1))
        slot = table["__slot"].to_numpy()
        base = Timebases.scatter(slot, table["num"].to_numpy(), table["den"].to_numpy(), table["origin"].to_numpy())
        return cls(slot, table["first"].to_numpy(), offsets, flat.reshape(-1, channels) if channels else flat, base)


@dataclass(frozen=True, eq=False)
class Windows:
    """Arrays of equal length, one row per window, ordered by (slot, last); only windows with labels may share both.

    Attributes
    ----------
    slot : int64 array, one element per window
    last : int64 array, grid index of the window's last sample: the window is known, and owned, at that instant
    values : one row per window, or with channels one per window and channel: windows x channels x length
    base : the timebases of the slots
    labels : columns that windows carry, a row for each
    """

    slot: Ints
    last: Ints
    values: Values
    base: Timebases
    labels: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def nbytes(self) -> int:
        """Bytes of the windows; windows that share samples count them each."""
        labels = self.labels
        return self.slot.nbytes + self.last.nbytes + self.values.nbytes + (0 if labels is None else labels.nbytes)

    @property
    def time(self) -> Ints:
        """The instant of every window's last sample."""
        return self.base.times(self.slot, self.last)

    def select(self, rows: Ints | Mask) -> Self:
        """The windows at these positions, or where the mask is true."""
        labels = self.labels
        if labels is not None:
            at = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
            labels = take_table(labels, at)
        return replace(self, slot=self.slot[rows], last=self.last[rows], values=self.values[rows], labels=labels)

    def with_values(self, values: Values) -> Self:
        """The same windows with other arrays."""
        return replace(self, values=values)

    @property
    def rows(self) -> Values:
        """All arrays, a row each; the channels of a window follow each other. Row-wise functions need not know about channels."""
        return self.values.reshape(-1, self.values.shape[-1])

    def with_rows(self, rows: Values) -> Self:
        """The same windows with other arrays, given as `rows` gives them."""
        return self.with_values(rows.reshape(*self.values.shape[:-1], rows.shape[1]))

    @classmethod
    def concat(cls, parts: Sequence[Windows]) -> Windows:
        """All windows of several batches, ordered by (slot, last)."""
        if len(parts) == 1:
            return parts[0]
        slot = np.concatenate([p.slot for p in parts])
        last = np.concatenate([p.last for p in parts])
        order = np.lexsort((last, slot))
        values = np.concatenate([p.values for p in parts])
        found = [p.labels for p in parts if p.labels is not None]
        labels = pa.concat_tables(found).combine_chunks() if found else None
        return cls(slot, last, values, merge_bases(parts), labels).select(order)


def merge_bases(parts: Sequence[Segments] | Sequence[Windows]) -> Timebases:
    """One table of timebases for the slots of several batches."""
    base = parts[0].base
    if all(p.base is base or (base.single is not None and p.base.single == base.single) for p in parts):
        return base
    slot = np.concatenate([p.slot for p in parts])
    num, den, origin = (np.concatenate(x) for x in zip(*(p.base.rows(p.slot) for p in parts), strict=True))
    return grid_per_slot(slot, num, den, origin)


def grid_per_slot(slot: Ints, num: Ints, den: Ints, origin: Ints) -> Timebases:
    """The timebases of some slots. A slot that is named twice must have the same grid both times."""
    base = Timebases.scatter(slot, num, den, origin)
    if not all((a == b).all() for a, b in zip(base.rows(slot), (num, den, origin), strict=True)):
        raise grid_changed()
    return base


def grid_changed() -> DataError:
    """The error for a key that changes its grid."""
    return DataError(
        "source: segments of one key lie on different grids",
        hint="the segments of one key share a period and a phase; give other rates a key of their own",
    )


Batch = Events | Segments | Windows
