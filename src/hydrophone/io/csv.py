"""CSV files as a source and as a sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.csv as pc

from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.io.files import File, check_output, list_files, writing

_SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
_ROW = re.compile(r"Row #(\d+): ")
_COLUMN = re.compile(r"In CSV column #(\d+): ")


@dataclass(frozen=True)
class Dialect:
    """How the text of a file is read.

    Attributes
    ----------
    delimiter : between two cells
    null_values : cells that hold no value; in a column of text only where they are not quoted
    time_format : how timestamps are written (``strptime``); None: ISO 8601
    """

    delimiter: str = ","
    null_values: tuple[str, ...] = ("",)
    time_format: str | None = None

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii():
            raise ParameterError(f"read.csv: delimiter must be one ASCII character, got {self.delimiter!r}")


@dataclass(frozen=True, eq=False)
class CsvData:
    """Rows of CSV files under a path, each with a header; columns are found by name.

    The types are those of the first file's beginning, unless stated; every file is then read with these. Columns in
    `times` that hold timestamps are read to the nanosecond, whatever the first of them shows.
    """

    path: str
    key: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    types: tuple[tuple[str, pa.DataType], ...] = ()
    dialect: Dialect = Dialect()

    @cached_property
    def files(self) -> tuple[File, ...]:
        """The files, frozen at the first look."""
        return tuple(File.of(p) for p in list_files(self.path, what="read.csv", suffixes=_SUFFIXES))

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        # The first file that has rows: a header alone tells no types.
        for file in self.files:
            with _named(file.path, self.dialect), _open(file.path, dict(self.types), self.dialect) as reader:
                found = reader.schema
            if any(kind != pa.null() for kind in found.types):
                break
        unknown = [name for name, _ in self.types if name not in found.names]
        if unknown:
            raise ParameterError(
                f"read.csv: types: no column {unknown[0]!r}; {file.path} has: {', '.join(found.names)}"
            )
        for field in found:
            if pa.types.is_binary(field.type) and field.name not in dict(self.types):
                raise DataError(
                    f"read.csv: {file.path}: column {field.name!r} holds text that is not UTF-8",
                    hint=f'convert the file (iconv -f latin1 -t utf-8), or take it as it is: types={{"{field.name}": "binary"}}',
                )
        return pa.schema([pa.field(f.name, self._kind(f)) for f in found])

    def _kind(self, field: pa.Field) -> pa.DataType:
        if field.name in dict(self.types):
            return field.type
        if field.name in self.times and (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)):
            return pa.timestamp("ns", getattr(field.type, "tz", None))
        if field.type != pa.null():
            return field.type
        # Nothing is known of a column without any value: it gets a type with which its place in the query makes sense.
        if field.name in self.times:
            return pa.timestamp("ns")
        return pa.string() if field.name in self.key else pa.float64()

    @property
    def identity(self) -> str:
        """The path as the user wrote it."""
        return f"csv:{self.path}"

    def tables(self, columns: list[str], rows: int | None = None) -> Iterator[pa.Table]:
        """The rows, file by file in blocks, or so many at a time."""
        for file in self.files:
            file.check()
            for table in self._blocks(file.path, columns):
                yield from _cut(table, rows)

    def _blocks(self, path: str, columns: list[str]) -> Iterator[pa.Table]:
        kinds = dict(zip(self.schema.names, self.schema.types, strict=True))
        with _named(path, self.dialect), _open(path, kinds, self.dialect, columns) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


def _open(
    path: str, types: dict[str, pa.DataType], dialect: Dialect, columns: list[str] | None = None
) -> pc.CSVStreamingReader:
    return pc.open_csv(
        path,
        # In one thread: only so do Arrow's messages say which row is wrong.
        read_options=pc.ReadOptions(use_threads=False),
        parse_options=pc.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=pc.ConvertOptions(
            column_types=types,
            include_columns=columns,
            null_values=list(dialect.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            timestamp_parsers=[dialect.time_format] if dialect.time_format else [pc.ISO8601],
        ),
    )


def _cut(table: pa.Table, rows: int | None) -> Iterator[pa.Table]:
    if rows is None:
        yield table
        return
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)


@contextmanager
def _named(path: str, dialect: Dialect) -> Iterator[None]:
    """Turn Arrow's errors into ones that name the file, the row (the header is row 1) and the column."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        text = str(error.args[0] if error.args else error)
        row, column = _ROW.search(text), _COLUMN.search(text)
        place = path + (f", row {row[1]}" if row else "") + (_header(path, dialect, int(column[1])) if column else "")
        raise DataError(f"read.csv: {place}: {_COLUMN.sub('', _ROW.sub('', text))}", hint=_hint(text)) from error


def _header(path: str, dialect: Dialect, number: int) -> str:
    """The name of a column, for an error; as text every beginning of a file can be read."""
    with pa.input_stream(path) as file:
        line = file.read(65_536).splitlines()[0]
    header = pc.read_csv(pa.py_buffer(line + b"\n"), parse_options=pc.ParseOptions(delimiter=dialect.delimiter))
    return f", column {header.column_names[number]!r}"


def _hint(text: str) -> str | None:
    if "zone offset" in text:
        return "a time column has a zone in all its rows or in none"
    if "timestamp" in text:
        return 'other than ISO 8601 needs time_format="%d.%m.%Y %H:%M:%S" or the like; integers are nanoseconds'
    if "conversion error" in text:
        return 'state the type of the column, types={"value": "float64"}, or what stands for no value, null_values=("", "NA")'
    if "Expected" in text:
        return 'is it another delimiter? delimiter=";"'
    return None


def write_csv(answer: Callable[[], pa.Table], schema: pa.Schema, path: str, *, overwrite: bool = False) -> None:
    """Write an answer as one file; complex numbers become the columns ``name.re`` and ``name.im``.

    Path and types are looked at before the answer is asked for: a query that has nowhere to go need not run.
    """
    for field in schema.empty_table().flatten().schema:
        if pa.types.is_nested(field.type):
            raise UnsupportedError(
                f"to_csv: column {field.name!r} holds {field.type}, which has no place in a cell",
                hint="write Parquet: to_parquet(...)",
            )
    check_output(path, what="to_csv", overwrite=overwrite)
    table = answer().flatten()
    with writing(path, what="to_csv", overwrite=overwrite) as draft:
        pc.write_csv(table, draft)
