"""Tables in memory as a source."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError, PlanError
from hydrophone.plan.data import Data

LARGEST_TABLE = 64 << 20
"""Bytes of a table in memory that may travel with a plan."""

_numbers = itertools.count()


def frame_table(frame: Any, what: str) -> pa.Table:
    """The columns of a pandas DataFrame; its index is none of them."""
    strange = [name for name in frame.columns if not isinstance(name, str)]
    if strange:
        raise ParameterError(
            f"{what}: columns are named by texts in Arrow, and this frame has a column {strange[0]!r}",
            hint='rename them: frame.rename(columns=str) makes "0" of 0',
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        # Arrow's errors name what is wrong first, and the column after it.
        text = "; ".join(str(part) for part in error.args)
        raise ParameterError(f"{what}: Arrow cannot hold this frame: {text}", hint=_ARROW_TYPES) from error


def polars_table(frame: Any, what: str) -> pa.Table:
    """The columns of a Polars DataFrame; what it holds of Python would come as addresses."""
    objects = [name for name, kind in frame.schema.items() if str(kind) == "Object"]
    if objects:
        raise ParameterError(f"{what}: column {objects[0]!r} holds Python objects", hint=_ARROW_TYPES)
    try:
        return frame.to_arrow()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise ParameterError(f"{what}: Arrow cannot hold this frame: {error}", hint=_ARROW_TYPES) from error


_ARROW_TYPES = (
    "columns hold integers of up to 64 bits, floats, texts, times, booleans, or lists and structs of them; "
    "complex numbers are structs of re and im"
)


@dataclass(frozen=True, eq=False)
class ArrowData(Data):
    """Rows of an Arrow table."""

    table: pa.Table
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.table.schema

    @property
    def identity(self) -> str:
        """Every table that is handed over is data of its own."""
        return f"arrow-{self.number}"

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """The rows, all at once or so many at a time; `where` would save nothing here."""
        table = self.table.select(columns)
        if rows is None:
            yield table
            return
        for start in range(0, len(table), rows):
            yield table.slice(start, rows)

    def held(self, columns: list[str]) -> pa.Table:
        """The rows."""
        return self.table.select(columns)

    @property
    def size(self) -> int:
        """Bytes of the table."""
        return int(self.table.nbytes)

    def check_batch(self, title: str) -> None:
        """The table travels with the plan."""

    def for_tasks(self, columns: Sequence[str]) -> ArrowData:
        """With the columns that are needed."""
        table = self.table.select(columns)
        if table.nbytes > LARGEST_TABLE:
            raise PlanError(
                f"to_spark: the table {self.identity} has {table.nbytes >> 20} MB, too much to travel with the plan",
                hint="write it to Parquet files and use hp.read.parquet",
            )
        return ArrowData(table, self.number)

    def read(
        self, unit: Any, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """All rows."""
        yield self.table.select(columns)

    def __reduce__(self) -> tuple[Callable[..., ArrowData], tuple[bytes, int]]:
        """As a stream of Arrow's: a part of a table travels without the rest of its buffers."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return _unpacked, (sink.getvalue().to_pybytes(), self.number)


def _unpacked(data: bytes, number: int) -> ArrowData:
    return ArrowData(pa.ipc.open_stream(data).read_all(), number)
