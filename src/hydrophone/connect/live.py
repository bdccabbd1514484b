"""Rows that come while a query runs: pushed by the user, or read from a source of the user's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.arrow import frame_table
from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.model.halves import without_halves
from hydrophone.plan.data import Data

_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class PushedData(Data):
    """Rows that the user pushes: only their columns are known."""

    columns: pa.Schema
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.columns

    @property
    def identity(self) -> str:
        """Every schema that is handed over is a source of its own."""
        return f"pushed-{self.number}"

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """There is nothing to read."""
        raise UnsupportedError(
            f"{self.identity} has no rows of its own: they are pushed",
            hint="query.live() takes rows of one query, hp.Graph of several",
        )


def conform(rows: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Rows as a table with the columns that a source has said; others are an error that names them.

    Examples
    --------
    >>> conform({"v": [1, 2], "t": [0, 1]}, pa.schema([("t", pa.int64()), ("v", pa.float32())]), "push").schema.names
    ['t', 'v']
    >>> conform({"t": [0]}, pa.schema([("t", pa.int64()), ("v", pa.float32())]), "push")
    Traceback (most recent call last):
    hydrophone.errors.DataError: push: the rows have other columns than the source: without v
      Hint: the source has: t, v
    """
    table = without_halves(_as_table(rows, schema, what))
    if table.schema.equals(schema):
        return table
    lacking = [n for n in schema.names if n not in table.column_names]
    strange = [n for n in table.column_names if n not in schema.names]
    if lacking or strange or len(table.column_names) > len(schema.names):
        said = [f"without {', '.join(lacking)}"] * bool(lacking) + [f"with {', '.join(strange)}"] * bool(strange)
        raise DataError(
            f"{what}: the rows have other columns than the source: {' and '.join(said) or 'some of them twice'}",
            hint=f"the source has: {', '.join(schema.names)}",
        )
    table = table.select(schema.names)
    for field_ in schema:
        if table.schema.field(field_.name).type != field_.type:
            try:
                cast = table[field_.name].cast(field_.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise DataError(
                    f"{what}: column {field_.name!r} is {table.schema.field(field_.name).type}, and the source has {field_.type}",
                    hint="cast it first",
                ) from error
            table = table.set_column(table.column_names.index(field_.name), field_, cast)
    return table


def _as_table(rows: Any, schema: pa.Schema, what: str) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, Mapping):
        kinds = {f.name: f.type for f in schema}
        try:
            return pa.table({name: pa.array(values, kinds.get(name)) for name, values in rows.items()})
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise DataError(f"{what}: the columns make no table with the types of the source: {error}") from error
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if type(rows).__module__.partition(".")[0] == "pandas":
        return frame_table(rows, what)
    raise ParameterError(
        f"{what}: rows must be a table, got {type(rows).__name__}",
        hint="a table or batch of Arrow's, a frame, or a dictionary of columns: {'ts': [...], 'value': [...]}",
    )
