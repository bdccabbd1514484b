"""What lies in a table in memory, for threads to share out: blocks of rows, or of arrays of samples stretches of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.engine.ingest import instants
from hydrophone.engine.pieces import Ints, SourcePieces, survey_pieces
from hydrophone.engine.scan import ReadRange, Scan
from hydrophone.errors import DataError
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.plan.node import Node
from hydrophone.plan.source import Layout, Source

BLOCK_ROWS = 1 << 15
"""Rows or samples of a piece: small beside a slice, so that slices read little beyond their reach."""


def survey_here(source: Source) -> SourcePieces | None:
    """The pieces of a source for a run in this process; None where everything must be read at once."""
    table = source.data.held(source.layout.columns)
    if table is None:
        return survey_pieces(source)
    if source.layout.samples is None:
        return _blocks(table, source.layout)
    segments = HeldSegments.of(table, source.layout)
    return None if segments is None else segments.cells()


def scan_here(root: Node, source: Source) -> Scan:
    """How a run in this process reads the pieces of a source."""
    table = source.data.held(source.layout.columns)
    if table is None:
        return Scan.of(root, source)
    if source.layout.samples is None:
        return HeldRowsScan(source.data, source.layout, None, table)
    segments = HeldSegments.of(table, source.layout)
    assert segments is not None
    return HeldSegmentsScan(source.data, source.layout, None, segments)


# --- rows -------------------------------------------------------------------------------------------------------------


def _blocks(table: pa.Table, layout: Layout) -> SourcePieces | None:
    """Consecutive rows; None where a time is missing or too far away, which reading them says."""
    if not len(table):
        return None
    try:
        start = instants(table[layout.time], layout.time)
        stop = start if layout.end is None else instants(table[layout.end], layout.end)
    except DataError:
        return None
    first = np.arange(0, len(table), BLOCK_ROWS)
    rows = np.diff(np.append(first, len(table)))
    low, last = np.minimum.reduceat(start, first), np.maximum.reduceat(np.maximum(start, stop), first)
    return _pieces(rows, rows * (table.nbytes // len(table)), low, last + (layout.lasts if layout.end is None else 1))


def _pieces(rows: Ints, size: Ints, low: Ints, high: Ints) -> SourcePieces:
    """Pieces of the only unit, numbered in their order."""
    number, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    return SourcePieces((None,), none, number, rows, size, low, high, none, np.ones(len(rows), np.bool_))


@dataclass(frozen=True)
class HeldRowsScan(Scan):
    """Reads blocks of rows of a table in memory, without a copy where all their rows are wanted."""

    table: pa.Table

    def tables(self, ranges: Iterable[ReadRange], start: int = MIN_TIME, stop: int = MAX_TIME) -> Iterator[pa.Table]:
        """The rows of some ranges that start before `stop` and end after `start`."""
        for given in ranges:
            assert given.numbers is not None
            table = self.table.slice(given.numbers[0] * BLOCK_ROWS, len(given.numbers) * BLOCK_ROWS)
            yield self._within(table, start, stop) if given.edge else table


# --- arrays of samples ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldSegments:
    """Segments in memory that share a grid.

    Attributes
    ----------
    table : a row per segment
    first, lengths : the grid index of the first sample of each, and how many samples it has
    chunk, begin : where its samples lie: in which chunk of the column, and from where on
    edges : grid indices between stretches of time with about equally many samples
    """

    table: pa.Table
    layout: Layout
    timebase: Timebase
    first: Ints
    lengths: Ints
    chunk: Ints
    begin: Ints
    edges: Ints

    @classmethod
    def of(cls, table: pa.Table, layout: Layout) -> HeldSegments | None:
        """None where segments have grids of their own, or are not as they should be, which reading them says."""
        assert layout.samples is not None
        grid, chunks = layout.timebase, [c for c in table[layout.samples].chunks if len(c)]
        if grid is None or not chunks:
            return None
        cuts = [found for chunk in chunks if (found := _cuts(chunk)) is not None]
        try:
            first, on_grid = grid.index_at(instants(table[layout.time], layout.time))
        except DataError:
            return None
        if not on_grid.all() or len(cuts) < len(chunks):
            return None
        lengths = np.concatenate([np.diff(c) for c in cuts])
        lasts = grid.instant(first + lengths) - grid.instant(first)
        if not lengths.any() or (layout.longest is not None and (lasts > layout.longest).any()):
            return None
        chunk = np.repeat(np.arange(len(cuts)), [len(c) for c in chunks])
        begin = np.concatenate([c[:-1] for c in cuts])
        return cls(table, layout, grid, first, lengths, chunk, begin, _edges(first, lengths))

    def cells(self) -> SourcePieces:
        """Stretches of time as pieces."""
        rows = np.diff(_before(self.edges, self.first, self.lengths))
        times = self.timebase.instant(self.edges)
        size = (rows * (self.table.nbytes / int(self.lengths.sum()))).astype(np.int64)
        return _Cells(**vars(_pieces(rows, size, times[:-1], times[1:])))

    def between(self, start: int, stop: int) -> pa.Table:
        """The samples with a grid index in ``[start, stop)``, as rows like those of the table."""
        a = np.clip(start - self.first, 0, self.lengths)
        b = np.clip(stop - self.first, 0, self.lengths)
        rows = np.flatnonzero(b > a)
        a, b, first = a[rows], b[rows], self.first[rows]
        time, samples = self.layout.time, self.layout.samples
        chosen = self.table.select([n for n in self.table.column_names if n not in (time, samples)]).take(rows)
        columns = {name: chosen[name] for name in chosen.column_names}
        columns[time] = self._stamps(first + a)
        columns[samples or time] = self._samples(rows, self.begin[rows] + a, self.begin[rows] + b)
        return pa.table([columns[n] for n in self.table.column_names], names=self.table.column_names)

    def _samples(self, rows: Ints, begin: Ints, end: Ints) -> pa.Array:
        """Samples from and to these places, where the rows have theirs."""
        chunks = [c for c in self.table[self.layout.samples].chunks if len(c)]
        # Neighbours in memory are one stretch.
        apart = np.flatnonzero((begin[1:] != end[:-1]) | np.diff(self.chunk[rows]).astype(np.bool_)) + 1
        bounds = list(pairwise([0, *apart.tolist(), len(rows)])) if len(rows) else []
        stretches = [(int(self.chunk[rows[i]]), int(begin[i]), int(end[j - 1])) for i, j in bounds]
        return _arrays(chunks, stretches, np.concatenate([[0], np.cumsum(end - begin)]))

    def _stamps(self, index: Ints) -> pa.Array:
        """Instants in nanoseconds: the user's unit may be too coarse for them."""
        kind, times = self.table.schema.field(self.layout.time).type, pa.array(self.timebase.instant(index))
        return times.view(pa.timestamp("ns", kind.tz)) if pa.types.is_timestamp(kind) else times


def _edges(first: Ints, lengths: Ints) -> Ints:
    """Indices that cut the samples into stretches of time with about `BLOCK_ROWS` of them each."""
    ends = np.unique(np.concatenate([first, first + lengths]))
    mass = _before(ends, first, lengths)
    goals = np.linspace(0, mass[-1], -(-int(mass[-1]) // BLOCK_ROWS) + 1)
    inner = np.interp(goals, mass, (ends - ends[0]).astype(np.float64)).astype(np.int64) + ends[0]
    return np.unique(np.concatenate([ends[:1], inner[1:-1], ends[-1:]]))


def _before(index: Ints, first: Ints, lengths: Ints) -> Ints:
    """How many samples lie before each index."""
    low = first.min()

    def endless(starts: Ints) -> Ints:
        # As if segments never ended.
        starts = np.sort(starts - low)
        count = np.searchsorted(starts, index - low)
        return count * (index - low) - np.concatenate([[0], np.cumsum(starts)])[count]

    found: Ints = endless(first) - endless(first + lengths)
    return found


class _Cells(SourcePieces):
    """Stretches of time: a range is read with a cut at its ends, so that no rows of it lie beyond them."""

    def ranges(
        self, chosen: npt.NDArray[np.bool_], start: int = MIN_TIME, stop: int = MAX_TIME, rows: int | None = None
    ) -> tuple[ReadRange, ...]:
        """The chosen stretches in ranges of about equally many samples, of about `rows` each."""
        total = int(self.rows[chosen].sum())
        turns = max(1, round(total / rows)) if rows else 1
        return super().ranges(chosen, rows=-(-total // turns) + BLOCK_ROWS // 2)


@dataclass(frozen=True)
class HeldSegmentsScan(Scan):
    """Cuts segments in memory at the bounds of what is read, without a copy where there is one segment."""

    segments: HeldSegments

    def tables(self, ranges: Iterable[ReadRange], start: int = MIN_TIME, stop: int = MAX_TIME) -> Iterator[pa.Table]:
        """The samples of some ranges between `start` and `stop`."""
        found = self.segments
        # One sample more: the one before the first lasts until it.
        least = found.timebase.index_from(start) - 1 if start > MIN_TIME else None
        most = found.timebase.index_from(stop) if stop < MAX_TIME else None
        for given in ranges:
            assert given.numbers is not None
            low, high = int(found.edges[given.numbers[0]]), int(found.edges[given.numbers[-1] + 1])
            table = found.between(low if least is None else max(low, least), high if most is None else min(high, most))
            if len(table):
                yield table


def _cuts(chunk: pa.Array) -> Ints | None:
    """Where the arrays of a chunk begin and end in its samples; None for forms of arrays that are not cut."""
    if pa.types.is_struct(chunk.type):
        first, *others = [_cuts(chunk.field(n)) for n in range(chunk.type.num_fields)]
        if first is None or chunk.null_count:
            return None
        return first if all(o is not None and np.array_equal(o, first) for o in others) else None
    known = pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type)
    return chunk.offsets.to_numpy().astype(np.int64) if known and not chunk.null_count else None


def _arrays(chunks: list[pa.Array], stretches: list[tuple[int, int, int]], cuts: Ints) -> pa.Array:
    """Stretches of the samples of some chunks, from and to, one after the other and cut into arrays."""
    kind = chunks[0].type
    if pa.types.is_struct(kind):
        fields = [_arrays([c.field(n) for c in chunks], stretches, cuts) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, [f.name for f in kind])
    flat = [chunks[n].values.slice(begin, end - begin) for n, begin, end in stretches]
    values = flat[0] if len(flat) == 1 else pa.concat_arrays(flat or [chunks[0].values.slice(0, 0)])
    form = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
    return form.from_arrays(pa.array(cuts, pa.int32() if pa.types.is_list(kind) else pa.int64()), values)
