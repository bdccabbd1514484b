"""A ring as a source: the rows that another process of this machine writes, with its marks."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.ring.memory import ring_path
from hydrophone.connect.ring.reader import End, RingReader, open_memory
from hydrophone.errors import DataError
from hydrophone.model.key_table import shard_of_keys
from hydrophone.plan.data import Data

MARK = "ring_mark"
"""The column with the marks of the writer: in the last row of a message, null in the others."""
SHORTEST_NAP, LONGEST_NAP = 0.0001, 0.002
"""Seconds between two looks at a ring that has nothing new: longer each time."""

Lost = Literal["error", "wait"]


@dataclass(frozen=True, eq=False)
class RingData(Data):
    """Rows of a ring.

    Attributes
    ----------
    path : of the ring
    columns : of the rows, as the ring says them
    time : the column of times, whose kind the marks have
    key : the key columns
    share : ``(i, n)``: the rows of the i-th of n shares of the keys; None: all rows
    patience : seconds to wait for a writer
    lost : what to do when the writer dies
    """

    live = True

    path: str
    columns: pa.Schema
    time: str
    key: tuple[str, ...]
    share: tuple[int, int] | None
    patience: float | None
    lost: Lost

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row, and the mark."""
        return self.columns.append(pa.field(MARK, mark_type(self.columns.field(self.time).type)))

    @property
    def identity(self) -> str:
        """The path, and the share."""
        return f"ring {self.path}" + ("" if self.share is None else f", share {self.share[0]} of {self.share[1]}")

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """All rows, as they come."""
        return self.tables_until(threading.Event(), columns, rows)

    def tables_until(
        self, stop: threading.Event, columns: list[str], rows: int | None
    ) -> Generator[pa.Table, None, None]:
        """The rows, as they come, until `stop` is set."""
        with closing(RingReader(ring_path(self.path), self.patience, self.lost, stop.is_set)) as reader:
            self._check_columns(reader)
            nap = SHORTEST_NAP
            while not stop.is_set():
                found = reader.use(self._mine)
                if isinstance(found, End):
                    return
                if found is None:
                    stop.wait(nap)
                    nap = min(2 * nap, LONGEST_NAP)
                    continue
                nap = SHORTEST_NAP
                table = self._with_mark(found.rows, found.mark)
                for start in range(0, len(table), rows or len(table) or 1):
                    yield table.slice(start, rows).select(columns)

    def _mine(self, table: pa.Table) -> pa.Table:
        if self.share is None:
            return table
        number, count = self.share
        shard = shard_of_keys([table[k] for k in self.key], count, len(table))
        return table.filter(pa.array(shard == number))

    def _with_mark(self, table: pa.Table | None, mark: int | None) -> pa.Table:
        """The rows with the mark in the last one; where there is no row, one that has nothing else."""
        kind = self.schema.field(MARK).type
        said = pa.array([mark], pa.int64()).cast(kind)
        if table is None or not len(table):
            count = 0 if mark is None else 1
            empty: list[Any] = [pa.nulls(count, f.type) for f in self.columns]
            return pa.table([*empty, said.slice(0, count)], schema=self.schema)
        column = pa.chunked_array([pa.nulls(len(table) - 1, kind), said])
        return pa.table([*table.columns, column], schema=self.schema)

    def _check_columns(self, reader: RingReader) -> None:
        if not reader.memory.schema.equals(self.columns):
            raise DataError(
                f"read.ring: {self.path} has other columns than when the query was built: "
                f"{', '.join(reader.memory.schema.names)}",
                hint="build the query again",
            )


def mark_type(time: pa.DataType) -> pa.DataType:
    """The type of marks beside times of this type."""
    return pa.timestamp("ns", time.tz) if pa.types.is_timestamp(time) else pa.int64()


def ring_schema(path: str, patience: float | None) -> pa.Schema:
    """The columns of a ring, once it has a writer."""
    memory = open_memory(ring_path(path), patience)
    with closing(memory):
        return memory.schema
