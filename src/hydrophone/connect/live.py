"""Rows that come while a query runs: pushed by the user, or read from a source of the user's."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.arrow import ArrowData, frame_table
from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.model.halves import without_halves
from hydrophone.plan.data import Data

_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class PushedData(Data):
    """Rows that the user pushes: only their columns are known."""

    pushed = True

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


class ReadOnce(Data):
    """Rows of an iterator or reader. As they come they are read once; who wants the whole gets it collected, again and again."""

    def __init__(self, tables: Iterator[Any], schema: pa.Schema | None = None) -> None:
        self._number, self._begun = next(_numbers), False
        self._whole: ArrowData | None = None
        if schema is None:
            first = next(tables, None)
            if first is None:
                raise ParameterError("from_arrow: the iterator gives nothing, so that its columns are unknown")
            tables = itertools.chain([first], tables)
            schema = _as_table(first, pa.schema([]), "from_arrow").schema
        self._tables, self._schema = tables, without_halves(schema.empty_table()).schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row: those of the first table."""
        return self._schema

    @property
    def identity(self) -> str:
        """Every iterator is data of its own."""
        return f"reader-{self._number}"

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """The rows: as they come if a number of them is asked for, else collected first."""
        if rows is None or self._whole is not None:
            yield from self._collected().tables(columns, rows)
            return
        for table in self._next_tables():
            for start in range(0, len(table), rows):
                yield table.slice(start, rows).select(columns)

    def _next_tables(self) -> Iterator[pa.Table]:
        if self._begun:
            raise DataError(
                f"{self.identity} has been read, and what it gave is gone",
                hint="make a new reader, or collect it first: pa.table(...) of a reader, pa.concat_tables of tables",
            )
        self._begun = True
        for found in self._tables:
            yield conform(found, self._schema, self.identity)

    def _collected(self) -> ArrowData:
        if self._whole is None:
            self._whole = ArrowData(pa.concat_tables([self._schema.empty_table(), *self._next_tables()]))
        return self._whole

    def check_batch(self, title: str) -> None:
        """What was collected travels with the plan."""

    def for_tasks(self, columns: Sequence[str]) -> Data:
        """A table with the columns that are needed."""
        return self._collected().for_tasks(columns)

    def read(
        self, unit: Any, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """All rows."""
        return self._collected().read(unit, numbers, columns)


class End:
    """What `Source.read` returns when there will be no more rows."""

    def __repr__(self) -> str:
        return "END"


END = End()


class Source:
    """Rows that come while a query runs. Subclass it, and hand it to `hydrophone.read.data`.

    A graph reads it in a thread of its own, with a bounded queue: a source that waits holds up nobody, and one that is too fast is
    held up. What a method raises fails the subscriptions that read the source, and no others.

    Attributes
    ----------
    schema : the columns of a row; rows with others are an error

    Examples
    --------
    >>> import hydrophone as hp
    >>> class Countdown(hp.Source):
    ...     schema = pa.schema([("ts", pa.int64()), ("left", pa.int64())])
    ...     def open(self):
    ...         self.left = 3
    ...     def read(self, limit):
    ...         self.left -= 1
    ...         return self.END if self.left < 0 else pa.table({"ts": [10 - self.left], "left": [self.left]})
    >>> hp.read.data(Countdown(), time="ts").to_arrow()["left"].to_pylist()
    [2, 1, 0]
    """

    END = END
    schema: pa.Schema = pa.schema([])

    def open(self) -> None:
        """Begin; called once before the first `read`, in the thread that reads."""

    def close(self) -> None:
        """End; called after the last `read`, also when that has raised.

        When a graph closes while `read` hangs, this is called from another thread, to wake it, and then again.
        """

    def read(self, limit: int) -> Any:
        """Up to `limit` rows as a table or a dictionary of columns, None where there is nothing at the moment, or `END`."""
        raise NotImplementedError


class SourceData(Data):
    """The rows of a `Source`."""

    live = True

    def __init__(self, source: Source) -> None:
        self.source = source
        # Who hands over the same source twice means the same rows.
        self._number = vars(source).setdefault("_hydrophone_number", next(_numbers))

    @property
    def schema(self) -> pa.Schema:
        """The columns that the source says."""
        return self.source.schema

    @property
    def identity(self) -> str:
        """Every object is a source of its own."""
        return f"{type(self.source).__name__}-{self._number}"

    def wake(self) -> None:
        """Close it under a read that hangs."""
        self.source.close()

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """All rows, as they come."""
        return self.tables_until(threading.Event(), columns, rows or MOST_ROWS)

    def tables_until(self, stop: threading.Event, columns: list[str], rows: int) -> Generator[pa.Table, None, None]:
        """The rows, as they come, until `stop` is set."""
        idle = 0
        try:
            self.source.open()
            while not stop.is_set():
                found = self.source.read(rows)
                if found is END:
                    return
                idle = idle + 1 if found is None else 0
                if found is None:
                    stop.wait(min(IDLE * idle, LONGEST_IDLE))
                else:
                    yield conform(found, self.schema, self.identity).select(columns)
        finally:
            self.source.close()


MOST_ROWS = 65_536
"""Rows that a source is asked for at a time, where nobody says otherwise."""
IDLE, LONGEST_IDLE = 0.001, 0.05
"""Seconds after which a source that had nothing is asked again: longer each time, up to a bound."""


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
