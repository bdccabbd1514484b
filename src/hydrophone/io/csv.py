"""CSV files as a source and as a sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from hydrophone.errors import DataError, ParameterError, SignalTypeError, UnsupportedError
from hydrophone.io.files import File, check_output, list_files, writing

_SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
_ROW = re.compile(r"Row #(\d+): ")
_COLUMN = re.compile(r"In CSV column #(\d+): ")
_ZONE = re.compile(r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True)
class Dialect:
    """How the text of a file is read.

    Attributes
    ----------
    delimiter : between two cells
    null_values : cells that hold no value; in a column of text only where they are not quoted
    time_format : how timestamps are written (``strptime``); None: ISO 8601
    time_unit : what times that are numbers count, "s", "ms", "us" or "ns"; None: integers are nanoseconds
    """

    delimiter: str = ","
    null_values: tuple[str, ...] = ("",)
    time_format: str | None = None
    time_unit: str | None = None

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii():
            raise ParameterError(f"read.csv: delimiter must be one ASCII character, got {self.delimiter!r}")
        if self.time_unit is not None and self.time_unit not in _UNITS:
            raise ParameterError(f"read.csv: time_unit must be one of {', '.join(_UNITS)}, got {self.time_unit!r}")
        if self.time_unit is not None and self.time_format is not None:
            raise ParameterError(
                "read.csv: time_format is for times that are text, time_unit for numbers", hint="leave one of them out"
            )
        if "%f" in (self.time_format or ""):
            raise ParameterError(
                f"read.csv: time_format {self.time_format!r}: fractions of a second (%f) are read in ISO 8601 only",
                hint="ISO 8601 needs no time_format; else read the files with pandas, and take hp.from_pandas",
            )

    def __str__(self) -> str:
        """What is not as usual."""
        unusual = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join(unusual)


@dataclass(frozen=True, eq=False)
class CsvData:
    """Rows of CSV files under a path, each with a header; columns are found by name.

    The types are those of the first file's beginning, unless stated; every file is then read with these. Columns in
    `times` that hold timestamps are read to the nanosecond, whatever the first of them shows; those that hold numbers
    become integer nanoseconds, counted in the dialect's unit.
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
        return pa.schema([pa.field(f.name, pa.int64()) if self._counts(f) else f for f in self.cells])

    def _counts(self, field: pa.Field) -> bool:
        """Whether a column holds numbers that count the dialect's unit of time."""
        return field.name in self.times and self.dialect.time_unit is not None

    @cached_property
    def cells(self) -> pa.Schema:
        """The columns as they are read from the text."""
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
        return pa.schema([pa.field(f.name, self._kind(f, file.path)) for f in found])

    def _kind(self, field: pa.Field, path: str) -> pa.DataType:
        if field.name in self.times and field.type != pa.null():
            self._check_times(field, path)
        if field.name in dict(self.types):
            return field.type
        if field.name in self.times and (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)):
            return pa.timestamp("ns", getattr(field.type, "tz", None))
        if field.type != pa.null():
            return field.type
        # Nothing is known of a column without any value: it gets a type with which its place in the query makes sense.
        if field.name in self.times:
            return pa.timestamp("ns") if self.dialect.time_unit is None else pa.int64()
        return pa.string() if field.name in self.key else pa.float64()

    def _check_times(self, field: pa.Field, path: str) -> None:
        """Refuse a column that cannot be read as times, and say why; a column of other types is told by the layout."""
        kind, unit = field.type, self.dialect.time_unit
        if unit is not None and not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise SignalTypeError(
                f"read.csv: time_unit={unit!r} is for times that are numbers, and column {field.name!r} is {kind}",
                hint="leave it out" if pa.types.is_timestamp(kind) else None,
            )
        if unit is None and pa.types.is_floating(kind):
            raise SignalTypeError(
                f"read.csv: column {field.name!r} is {kind}, which is no time yet",
                hint='say what its numbers count: time_unit="s" (or "ms", "us", "ns")',
            )
        if pa.types.is_string(kind) and field.name not in dict(self.types):
            # Arrow took it for text because some cell is no time: read as times, it says which one.
            zone = "UTC" if _ZONE.search(_first_cell(path, field.name, self.dialect)) else None
            with _named(path, self.dialect), _open(path, {field.name: pa.timestamp("ns", zone)}, self.dialect) as rows:
                for _ in rows:
                    pass

    @property
    def identity(self) -> str:
        """The path as the user wrote it, and how its text is read, which makes other data of it."""
        dialect = str(self.dialect)
        return f"csv:{self.path}" + (f" ({dialect})" if dialect else "")

    def tables(self, columns: list[str], rows: int | None = None) -> Iterator[pa.Table]:
        """The rows, file by file in blocks, or so many at a time."""
        for file in self.files:
            file.check()
            for table in self._blocks(file.path, columns):
                yield from _cut(table, rows)

    def _blocks(self, path: str, columns: list[str]) -> Iterator[pa.Table]:
        kinds = dict(zip(self.cells.names, self.cells.types, strict=True))
        with _named(path, self.dialect), _open(path, kinds, self.dialect, columns) as reader:
            for batch in reader:
                yield self._in_nanoseconds(pa.Table.from_batches([batch]), path)

    def _in_nanoseconds(self, table: pa.Table, path: str) -> pa.Table:
        for number, field in enumerate(table.schema):
            if self._counts(field):
                assert self.dialect.time_unit is not None
                times = _nanoseconds(
                    table[field.name], self.dialect.time_unit, f"read.csv: {path}: column {field.name!r}"
                )
                table = table.set_column(number, field.name, times)
        return table


def _nanoseconds(numbers: pa.ChunkedArray, unit: str, what: str) -> pa.Array:
    """Numbers that count a unit, in nanoseconds: exact for integers; floats, which have 53 bits, to the nearest one."""
    scale = _UNITS[unit]
    empty = np.asarray(numbers.is_null())
    counted = numbers.fill_null(0).to_numpy()
    good = np.abs(counted.astype(np.float64)) < (2.0**63 - 1024) / scale
    if not good.all():
        raise DataError(
            f"{what}: {counted[~good][0]} {unit} is no instant that 64 bits of nanoseconds hold",
            hint='do the numbers count something finer? time_unit="ms", "us" or "ns"',
        )
    if counted.dtype.kind == "f":
        # The whole part by itself: all of it times a power of ten would round twice.
        counted = counted.astype(np.float64)
        whole = np.floor(counted)
        found = whole.astype(np.int64) * scale + np.rint((counted - whole) * scale).astype(np.int64)
    else:
        found = counted.astype(np.int64) * scale
    return pa.array(found, mask=empty)


def _first_cell(path: str, column: str, dialect: Dialect) -> str:
    with _named(path, dialect), _open(path, {column: pa.string()}, dialect, [column]) as rows:
        cells = next(rows)[column].drop_null()
    return str(cells[0]) if len(cells) else ""


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
        return "a time column has a zone (such as Z) in all its rows or in none"
    if "timestamp" in text:
        return (
            'other than ISO 8601 needs time_format="%d.%m.%Y %H:%M:%S" or the like, without fractions of a second; '
            'numbers need time_unit="s" or the like'
        )
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
