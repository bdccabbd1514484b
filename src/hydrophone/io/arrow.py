"""Tables in memory as a source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class ArrowData:
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

    def tables(self, columns: list[str], rows: int | None = None) -> Iterator[pa.Table]:
        """The rows, all at once or so many at a time."""
        table = self.table.select(columns)
        if rows is None:
            yield table
            return
        for start in range(0, len(table), rows):
            yield table.slice(start, rows)
