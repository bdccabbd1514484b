"""Output: batches become tables of rows or segments. Slots become keys, and nanoseconds the user's type of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError, located
from hydrophone.model.batch import Batch, Events, Ints, Segments, Windows
from hydrophone.model.key_table import KeyTable
from hydrophone.model.take_rows import number_column
from hydrophone.ops.relational.rows import array_column, sample_columns
from hydrophone.plan.types import (
    DataType,
    StreamType,
    UniformType,
    WindowedType,
    array_names,
    arrays_type,
    arrow_type,
    sample_names,
)

MERGE_BELOW_ROWS = 4_096
"""Smaller tables are merged: below this, the cost of a table does not depend on its rows."""

Shape = Literal["rows", "segments"]
"""The output shape of a uniform signal: a row per sample, or a row per segment with an array."""


def result_schema(kind: DataType, shape: Shape = "rows") -> pa.Schema:
    """The columns of a result."""
    head = [*kind.key, pa.field(kind.time, kind.stamp)]
    if isinstance(kind, StreamType):
        return pa.schema([*head, *([pa.field(kind.end, kind.stamp)] if kind.end else []), *kind.columns])
    if isinstance(kind, WindowedType):
        arrays = arrays_type(kind.dtype)
        return pa.schema([*head, *(kind.labels or ()), *(pa.field(n, arrays) for n in array_names(kind))])
    assert isinstance(kind, UniformType)
    if shape == "segments":
        arrays = arrays_type(kind.dtype, depth=2 if kind.channels else 1)
        return pa.schema([*head, pa.field("period", pa.float64()), pa.field("values", arrays)])
    item = arrow_type(kind.dtype)
    return pa.schema([*head, *(pa.field(n, item) for n in sample_names(kind))])


def _schemas(kind: DataType) -> dict[Shape, pa.Schema]:
    """The columns of a result in all shapes, made once for a type: every piece of a stream needs them."""
    found: dict[Shape, pa.Schema] | None = vars(kind).get("_result_schemas")
    if found is None:
        found = {"rows": result_schema(kind), "segments": result_schema(kind, "segments")}
        object.__setattr__(kind, "_result_schemas", found)
    return found


@located
def check_shape(kind: DataType, shape: str) -> Shape:
    """Check the user's `shape`."""
    if shape not in ("rows", "segments"):
        raise ParameterError(f"shape must be 'rows' or 'segments', got {shape!r}")
    if shape == "segments" and not isinstance(kind, UniformType):
        raise ParameterError(f"only a uniform signal leaves as segments; this is {kind.describe()}")
    form: Shape = "segments" if shape == "segments" else "rows"
    _check_names(kind, form)
    return form


def _check_names(kind: DataType, shape: Shape) -> None:
    """Refuse a key or time column with the name of the sample column."""
    names = result_schema(kind, shape).names
    for name in (*kind.key.names, kind.time):
        if names.count(name) > 1:
            raise ParameterError(
                f"the result would have two columns {name!r}: this key or time, and the one that holds "
                f"{'periods' if name == 'period' else 'samples'}",
                hint="give the column of the data another name"
                + (', or name the samples: events("sample")' if isinstance(kind, UniformType) else ""),
            )


def owner_instants(batch: Batch) -> Ints:
    """The instant that owns each row: the start of an event, the last instant of a window. Samples own themselves (see `owned_rows`)."""
    if isinstance(batch, Events):
        return batch.start
    return batch.time if isinstance(batch, Windows) else batch.sample_time


def owned_rows(batch: Batch, start: int, stop: int) -> Batch:
    """The rows of a batch whose owner instants lie in ``[start, stop)``."""
    if isinstance(batch, Segments):
        low, high = (batch.base.index_from_mark(batch.slot, t) for t in (start, stop))
        return batch.split(high)[0].split(_aligned_low(batch, low, high))[1] if len(batch) else batch
    at = owner_instants(batch)
    keep = (at >= start) & (at < stop)
    return batch if keep.all() else batch.select(keep)


def _aligned_low(batch: Segments, low: Ints, high: Ints) -> Ints:
    """`low` of the segments that remain after a cut at `high`."""
    return low[np.clip(high, batch.first, batch.next) > batch.first]


def result_tables(
    batches: Iterable[Batch], kind: DataType, keys: KeyTable, shape: Shape = "rows"
) -> Iterator[pa.Table]:
    """Batches as tables for the user, in order; consecutive small batches of events are merged."""
    few: list[Events] = []
    for batch in batches:
        small = batch if isinstance(batch, Events) and len(batch) < MERGE_BELOW_ROWS else None
        if few and not (
            small and small.columns.schema == few[0].columns.schema and sum(map(len, few)) < MERGE_BELOW_ROWS
        ):
            yield result_table(Events.concat(few), kind, keys, shape)
            few = []
        if small:
            few.append(small)
        else:
            yield result_table(batch, kind, keys, shape)
    if few:
        yield result_table(Events.concat(few), kind, keys, shape)


def result_table(batch: Batch, kind: DataType, keys: KeyTable, shape: Shape = "rows") -> pa.Table:
    """A batch as the user sees it."""
    out = _schemas(kind)[shape]
    stamp = out.field(kind.time).type

    def when(times: Ints) -> pa.Array:
        return number_column(times).view(stamp)

    if isinstance(batch, Events):
        assert isinstance(kind, StreamType)
        ends = [when(batch.stop)] if kind.end else []
        return pa.table([*keys.columns(batch.slot), when(batch.start), *ends, *batch.columns.columns], schema=out)
    if isinstance(batch, Windows):
        cuts = np.arange(len(batch) + 1) * batch.values.shape[-1]
        channels = batch.values.swapaxes(0, 1) if batch.values.ndim == 3 else [batch.values]
        arrays = [array_column(values.reshape(-1), cuts) for values in channels]
        labels = [] if batch.labels is None else batch.labels.columns
        return pa.table([*keys.columns(batch.slot), when(batch.time), *labels, *arrays], schema=out)
    if shape == "rows":
        slot = batch.sample_slot
        return pa.table([*keys.columns(slot), when(batch.sample_time), *sample_columns(batch.values)], schema=out)
    assert isinstance(kind, UniformType)
    period = _periods(batch)
    vectors = [np.arange(len(batch.values) + 1) * kind.channels] if kind.channels else []
    arrays = array_column(batch.values.reshape(-1), *vectors, batch.offsets)
    start = when(batch.base.times(batch.slot, batch.first))
    return pa.table([*keys.columns(batch.slot), start, number_column(period), arrays], schema=out)


def _periods(batch: Segments) -> np.ndarray[Any, Any]:
    """The period of every run in nanoseconds."""
    base = batch.base
    if len(base.num) == 1:
        return np.full(len(batch), base.num[0] / base.den[0])
    num, den, _ = base.rows(batch.slot)
    return num / den


def without_lifetimes(kind: StreamType) -> StreamType:
    """The same stream without lifetimes."""
    return replace(kind, end=None)
