"""Reading inside tasks: pieces of sources straight into Arrow, with only the columns and rows that the plan needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.compiler.filter_pushdown import filters_on_sources
from hydrophone.engine.ingest import instants
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.data import NANOSECONDS, Data
from hydrophone.plan.node import Node
from hydrophone.plan.source import Layout, Source
from hydrophone.plan.source_filters import row_filter

ROWS_AT_ONCE = 1 << 20
"""Rows that a task takes at a time, if it can: arrays beyond 32 MB go back to the system and come anew with every operation,
which cost more than the work itself."""


@dataclass(frozen=True)
class ReadRange:
    """Pieces of one unit that a task reads, all of it where `numbers` is None.

    No row starts before `low`, and with `edge` some lie beyond the bounds. `size` is in bytes.
    """

    unit: Any
    numbers: tuple[int, ...] | None
    low: int
    edge: bool = False
    size: int = 0


WHOLE = ReadRange(None, None, MIN_TIME)
"""All of a source that has no pieces."""


@dataclass(frozen=True)
class Scan:
    """How tasks read one source."""

    data: Data
    layout: Layout
    condition: pc.Expression | None

    @classmethod
    def of(cls, root: Node, source: Source) -> Scan:
        """For a source of a plan, with the filters that have reached it."""
        return cls(source.data.for_tasks(source.layout.columns), source.layout, condition_of(root, source))

    def tables(self, ranges: Iterable[ReadRange], start: int = MIN_TIME, stop: int = MAX_TIME) -> Iterator[pa.Table]:
        """The rows of some ranges that start before `stop` and end after `start`."""
        for given in ranges:
            for table in self.data.read(given.unit, given.numbers, self.layout.columns, self.condition):
                yield self._within(table, start, stop) if given.edge else table

    def _within(self, table: pa.Table, start: int, stop: int) -> pa.Table:
        begin, nulls = _time_columns(table[self.layout.time])
        if self.layout.end is None:
            end = np.minimum(begin, MAX_TIME - self.layout.lasts) + self.layout.lasts
        else:
            end = np.maximum(_time_columns(table[self.layout.end])[0], begin + 1)
        # A null time belongs to the slice that begins at minus infinity, where it is refused.
        keep = (begin < stop) & (end > start)
        if nulls is not None:
            keep = np.where(nulls, start == MIN_TIME, keep)
        rows = np.flatnonzero(keep)
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            return table.slice(int(rows[0]), len(rows))
        return table.filter(pa.array(keep))


@dataclass(frozen=True)
class WholeScan(Scan):
    """Reads all of a source at once, in this process."""

    @classmethod
    def of(cls, root: Node, source: Source) -> WholeScan:
        """For a source of a plan, with the filters that have reached it."""
        return cls(source.data, source.layout, row_filter(source.layout, filters_on_sources(root)[source]))

    def tables(self, ranges: Iterable[ReadRange], start: int = MIN_TIME, stop: int = MAX_TIME) -> Iterator[pa.Table]:
        """All rows."""
        for _ in ranges:
            yield from self.data.tables(self.layout.columns, None, self.condition)


def _time_columns(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    if not column.null_count:
        return instants(column, ""), None
    nulls = pc.is_null(column).to_numpy()
    return instants(pc.fill_null(column, pa.scalar(0, pa.int64()).cast(column.type)), ""), nulls


def earliest_start(table: pa.Table, layout: Layout) -> int:
    """No row starts before this instant."""
    return scalar_nanoseconds(pc.min(table[layout.time]))


def scalar_nanoseconds(value: pa.Scalar) -> int:
    """A time as nanoseconds; null is before all others."""
    if not value.is_valid:
        return MIN_TIME
    return int(value.value) * NANOSECONDS[value.type.unit] if pa.types.is_timestamp(value.type) else int(value.as_py())


def condition_of(root: Node, source: Source) -> pc.Expression | None:
    """What a source may check while it reads; None where that saves it nothing."""
    if not source.data.takes_filters:
        return None
    return row_filter(source.layout, filters_on_sources(root)[source])
