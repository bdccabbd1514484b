"""Input: rows become batches. Times become nanoseconds, keys become slots, and invalid rows are refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError
from hydrophone.model.batch import Events, Ints, Segments, grid_per_slot
from hydrophone.model.key_table import KeyTable
from hydrophone.model.take_rows import one_chunk
from hydrophone.model.time import FIRST_DATE, LAST_DATE, MAX_TIME, MIN_TIME, extremes, format_duration
from hydrophone.model.timebase import Timebases
from hydrophone.ops.relational.rows import column_values
from hydrophone.plan.source import Layout, plain_type
from hydrophone.plan.types import arrays_channels, rate

_FINITE = (MIN_TIME + 1, MAX_TIME - 1)
_DATES = (FIRST_DATE, LAST_DATE - 1)
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_FINEST_DENOMINATOR = 1_000_000
"""A period stored as a float is read as the simplest fraction near it."""


def ingest(table: pa.Table, layout: Layout, keys: KeyTable) -> Events | Segments:
    """Read rows as events, or as segments where the layout says so."""
    start = instants(table[layout.time], layout.time, _DATES)
    slot = key_slots(table, layout, keys)
    if layout.samples:
        return _ingest_segments(table, layout, slot, start, len(keys))
    end = None
    if layout.end:
        end = instants(table[layout.end], layout.end, _DATES)
        wrong = np.flatnonzero(end <= start)
        if len(wrong):
            row = table.slice(int(wrong[0]), 1).to_pylist()[0]
            raise DataError(
                f"source: {len(wrong)} events end at or before their start, for example {row}",
                hint="a lifetime is [start, end); points need no end column",
            )
    columns = table.select(list(layout.payload))
    if not layout.payload:
        return Events(slot, start, end, columns)
    arrays = [c if c.type == plain_type(c.type) else c.cast(plain_type(c.type)) for c in columns.columns]
    return Events(slot, start, end, pa.table(arrays, names=list(layout.payload)))


def key_slots(table: pa.Table, layout: Layout, keys: KeyTable) -> Ints:
    """The slots of the keys of rows."""
    return keys.slots([table[k] for k in layout.key]) if layout.key else keys.zeros(len(table))


def instants(column: pa.ChunkedArray, name: str, within: tuple[int, int] = _FINITE) -> Ints:
    """A time column as int64 nanoseconds, from the first to the last of `within`."""
    if column.null_count:
        raise DataError(
            f"source: {column.null_count} rows have no time in {name!r}",
            hint="drop them first, or say when they happened",
        )
    column = one_chunk(column)
    if not pa.types.is_timestamp(column.type):
        times: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        scale = 1
    else:
        times, scale = column.cast(pa.int64()).to_numpy(zero_copy_only=False), _NANOSECONDS[column.type.unit]
    if len(times):
        low, high = (end * scale for end in extremes(times))
        if low < within[0] or high > within[1]:
            raise DataError(
                f"source: times in {name!r} do not fit into nanoseconds since 1970 (years 1682 to 2257)",
                hint="an end that stands for 'never' may be any instant up to 2257",
            )
    return times if scale == 1 else times * scale


def _ingest_segments(table: pa.Table, layout: Layout, slot: Ints, start: Ints, slots: int) -> Segments:
    assert layout.samples is not None
    lengths, values = array_samples(one_chunk(table[layout.samples]), layout.samples, layout.sample_dtype)
    base = _timebases(table, layout, slot, start)
    first, on_grid = base.index_at(slot, start)
    if not (on_grid[0] if len(on_grid) == 1 else on_grid.all()):
        row = int(np.flatnonzero(~on_grid)[0])
        raise _off_the_grid(int(start[row]), layout)
    if layout.longest is not None:
        _check_segment_length(base.instant(slot, first + lengths) - start, layout.longest)
    if len(slot) == 1 and len(values):
        return Segments(slot, first, np.array([0, len(values)]), values, base).checked()
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    raw = Segments(slot, first, offsets, values, base)
    order = np.lexsort((first, slot))
    keep = order[lengths[order] > 0]
    return raw.cut(keep, first[keep], raw.next[keep]).joined().checked()


def _off_the_grid(start: int, layout: Layout) -> DataError:
    grid = layout.timebase
    if grid is None:
        return DataError(
            f"source: a segment starts at {start} ns, which is not on the grid of its key",
            hint="the segments of one key share a period and a phase",
        )
    return DataError(
        f"source: a segment starts at {start} ns, which is not on the grid of {rate(grid)} from {grid.origin} ns on",
        hint=f"offset={int(start % grid.period)} puts it there; where segments have several phases, name a column of periods",
    )


def array_samples(arrays: pa.Array, name: str, dtype: np.dtype[Any]) -> tuple[Ints, np.ndarray[Any, Any]]:
    """The lengths of the arrays in a column, and all samples in one array; see `arrays_type`."""
    if arrays.null_count:
        raise DataError(f"source: null arrays in {name!r}", hint="leave out segments that are not there")
    if pa.types.is_struct(arrays.type):
        (lengths, real), (others, imaginary) = (
            array_samples(arrays.field(part), f"{name}.{part}", np.empty(0, dtype).real.dtype) for part in ("re", "im")
        )
        if (lengths != others).any():
            raise DataError(f"source: a segment in {name!r} has more real parts than imaginary ones, or fewer")
        values = np.empty(len(real), dtype)
        values.real, values.imag = real, imaginary
        return lengths, values
    (lengths, flat), channels = _opened(arrays), arrays_channels(arrays.type)
    if flat.null_count or (channels and flat.flatten().null_count):
        raise DataError(f"source: null samples in {name!r}", hint="split a segment at its holes")
    if channels:
        return lengths, column_values(flat.flatten(), dtype).reshape(-1, channels)
    return lengths, column_values(flat, dtype)


def _opened(arrays: pa.Array) -> tuple[Ints, pa.Array]:
    """The lengths of arrays, none of which is null, and all their values."""
    if len(arrays) and (pa.types.is_list(arrays.type) or pa.types.is_large_list(arrays.type)):
        offsets = arrays.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        return np.subtract(offsets[1:], offsets[:-1], dtype=np.int64), arrays.values.slice(first, last - first)
    return pc.list_value_length(arrays).to_numpy(zero_copy_only=False).astype(np.int64), arrays.flatten()


def _check_segment_length(lasts: Ints, longest: int) -> None:
    if len(lasts) and lasts.max() > longest:
        raise DataError(
            f"source: a segment lasts {format_duration(int(lasts.max()))}, and longest says {format_duration(longest)}",
            hint="promise as much as the longest segment lasts, or nothing",
        )


def _timebases(table: pa.Table, layout: Layout, slot: Ints, start: Ints) -> Timebases:
    """One grid for all keys, or per key the grid with its period through the start of its first segment, with an origin near the epoch."""
    if layout.timebase is not None:
        return layout.timebases
    column = table[layout.period]
    if pa.types.is_struct(column.type):
        told = one_chunk(column)
        num, den, origin = (told.field(n).to_numpy(zero_copy_only=False) for n in ("num", "den", "origin"))
        return grid_per_slot(slot, num, den, origin)
    periods = column.to_numpy()
    unique, which = np.unique(periods, return_inverse=True)
    if not (np.isfinite(unique) & (unique > 0)).all():
        raise DataError(
            f"source: a period in {layout.period!r} is not positive", hint="periods are nanoseconds between samples"
        )
    exact = [Fraction(float(p)).limit_denominator(_FINEST_DENOMINATOR) for p in unique]
    num = np.array([p.numerator for p in exact], np.int64)[which]
    den = np.array([p.denominator for p in exact], np.int64)[which]
    return grid_per_slot(slot, num, den, np.where(den == 1, start % num, 0))
