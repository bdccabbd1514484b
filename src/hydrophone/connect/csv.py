"""CSV files as a source and as a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as pc

from hydrophone.connect.file_data import FileData
from hydrophone.connect.files import check_output, write_then_rename
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.connect.schemas import Merged, merge
from hydrophone.connect.sink import Answer, FolderSink
from hydrophone.errors import DataError, ParameterError, SignalTypeError, UnsupportedError
from hydrophone.plan.data import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROW = re.compile(r"Row #(\d+): ")
_COLUMN = re.compile(r"In CSV column #(\d+): ")
_READERS = 8
_ONE_TYPE = 'state the type of the column for all files: types={"value": "float64"}'
_ZONE = re.compile(r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")


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
        if self.time_unit is not None and self.time_unit not in NANOSECONDS:
            raise ParameterError(f"read.csv: time_unit must be one of {', '.join(NANOSECONDS)}, got {self.time_unit!r}")
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
class CsvData(FileData):
    """Rows of CSV files, each with a header; columns are found by name.

    The types are those that the beginnings of all files suggest, unless stated: one for every column that holds the values
    of all, with which every file is then read. Columns in `times` that hold timestamps are read to the nanosecond, whatever
    the first of them shows; those that hold numbers become integer nanoseconds, counted in the dialect's unit.
    """

    kind = "csv"
    suffixes = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
    measurable = False  # the text is read whole, whichever columns are wanted

    key: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    types: tuple[tuple[str, pa.DataType], ...] = ()
    dialect: Dialect = Dialect()

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
        if self.stated is not None:
            return self.stated
        for name, _ in self.types:
            if name not in self.merged.files:
                names = ", ".join(self.merged.schema.names)
                raise ParameterError(f"read.csv: types: no column {name!r}; {self.files[0].path} has: {names}")
        return pa.schema([pa.field(f.name, self._kind(f)) for f in self.merged.schema])

    def merge(self) -> Merged:
        """What the beginnings of all files suggest, put together."""
        # Text like 2024-01-01 is midnight where other files have the hour too.
        hours = {f.name for schema in self.suggested.values() for f in schema if pa.types.is_timestamp(f.type)}
        found = [(path, _with_hours(schema, hours)) for path, schema in self.suggested.items()]
        return merge(found, what="read.csv", hint=_ONE_TYPE)

    @cached_property
    def suggested(self) -> dict[str, pa.Schema]:
        """By file what its beginning suggests."""
        paths = [f.path for f in self.files]
        with ThreadPoolExecutor(_READERS) as pool:
            return dict(zip(paths, pool.map(self.schema_of, paths), strict=True))

    def schema_of(self, path: str) -> pa.Schema:
        """What the beginning of a file suggests."""
        with _naming_file(path, self.dialect), _open(path, dict(self.types), self.dialect) as reader:
            found = reader.schema
        for field in found:
            if pa.types.is_binary(field.type) and field.name not in dict(self.types):
                raise DataError(
                    f"read.csv: {path}: column {field.name!r} holds text that is not UTF-8",
                    hint=f'convert the file (iconv -f latin1 -t utf-8), or take it as it is: types={{"{field.name}": "binary"}}',
                )
            if field.name in self.times and field.type != pa.null():
                self._check_times(field, path)
        return found

    def _kind(self, field: pa.Field) -> pa.DataType:
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
            with (
                _naming_file(path, self.dialect),
                _open(path, {field.name: pa.timestamp("ns", zone)}, self.dialect) as rows,
            ):
                for _ in rows:
                    pass

    @property
    def options(self) -> str:
        """How the text is read, which makes other data of it."""
        return str(self.dialect)

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: compute.Expression | None
    ) -> Iterator[pa.Table]:
        """The rows in blocks; `where` would save nothing, as all text is read."""
        kinds = dict(zip(self.cells.names, self.cells.types, strict=True))
        found = self.schema_of(path)
        self._check_header(path, found)
        with _naming_file(path, self.dialect), _open(path, kinds, self.dialect, list(columns)) as reader:
            for batch in reader:
                self._check_integers(batch, path, found)
                self._check_long_integers(batch, path, found)
                yield self._in_nanoseconds(pa.Table.from_batches([batch]), path)

    def _check_header(self, path: str, found: pa.Schema) -> None:
        """A file may lack columns, which are null then, but not those without which rows are no events."""
        for name in (*self.key, *self.times):
            if name not in found.names:
                raise DataError(
                    f"read.csv: {path}: no column {name!r}; the file has: {', '.join(found.names)}",
                    hint='is it another delimiter? delimiter=";"',
                )

    def _check_integers(self, batch: pa.RecordBatch, path: str, found: pa.Schema) -> None:
        """Refuse integers where other files have floats, if these do not hold them: text is read as the type of the column."""
        for field in batch.schema:
            stated = field.name in dict(self.types) or self.stated is not None
            whole = field.name in found.names and pa.types.is_integer(found.field(field.name).type)
            if stated or not (whole and pa.types.is_floating(field.type)):
                continue
            largest = compute.max(compute.abs(batch[field.name])).as_py()
            if largest is not None and largest >= 2.0**53:
                other = self.merged.files.get(field.name, "other files")
                raise DataError(
                    f"read.csv: {path}: column {field.name!r} holds integers of {largest:.0f} and more, and numbers with a point "
                    f"in {other}: as doubles the integers would be rounded",
                    hint=_ONE_TYPE,
                )

    def _check_long_integers(self, batch: pa.RecordBatch, path: str, found: pa.Schema) -> None:
        """Refuse integers that 64 bits do not hold: Arrow takes their column for doubles, which round them."""
        for field in batch.schema:
            stated = field.name in dict(self.types) or self.stated is not None
            guessed = field.name in found.names and pa.types.is_floating(found.field(field.name).type)
            if stated or not guessed or not _largest(batch[field.name]) >= 2.0**63:
                continue
            with _open(path, {field.name: pa.string()}, self.dialect, [field.name]) as cells:
                for text in cells:
                    long = text[field.name].filter(
                        compute.match_substring_regex(text[field.name], r"^\s*[+-]?\d{19,}\s*$")
                    )
                    odd = next((v for v in long.to_pylist() if int(float(v)) != int(v)), None)
                    if odd is not None:
                        raise DataError(
                            f"read.csv: {path}: column {field.name!r} holds the integer {odd.strip()}, "
                            "which 64 bits do not hold and doubles would round",
                            hint=f'state the type of the column: types={{"{field.name}": "string"}}, or "uint64", or "float64" to round',
                        )

    def _in_nanoseconds(self, table: pa.Table, path: str) -> pa.Table:
        for number, field in enumerate(table.schema):
            if self._counts(field):
                assert self.dialect.time_unit is not None
                times = _nanoseconds(
                    table[field.name], self.dialect.time_unit, f"read.csv: {path}: column {field.name!r}"
                )
                table = table.set_column(number, field.name, times)
        return table


def _largest(numbers: pa.Array) -> float:
    """The largest finite number of a column without its sign; 0 where there is none."""
    finite = numbers.filter(compute.is_finite(numbers))
    return float(compute.max(compute.abs(finite)).as_py() or 0)


def _nanoseconds(numbers: pa.ChunkedArray, unit: str, what: str) -> pa.Array:
    """Numbers that count a unit, in nanoseconds: exact for integers; floats, which have 53 bits, to the nearest one."""
    scale = NANOSECONDS[unit]
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
    with _naming_file(path, dialect), _open(path, {column: pa.string()}, dialect, [column]) as rows:
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
            include_missing_columns=columns is not None,
            null_values=list(dialect.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            timestamp_parsers=[dialect.time_format] if dialect.time_format else [pc.ISO8601],
        ),
    )


@contextmanager
def _naming_file(path: str, dialect: Dialect) -> Iterator[None]:
    """Turn Arrow's errors into ones that name the file, the row (the header is row 1) and the column."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
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


def _with_hours(schema: pa.Schema, names: set[str]) -> pa.Schema:
    return pa.schema(
        [f.with_type(pa.timestamp("s")) if f.name in names and pa.types.is_date(f.type) else f for f in schema]
    )


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


@dataclass(frozen=True)
class Csv(FolderSink):
    """A folder of CSV files with headers, with a folder ``batch=<number>`` for every micro-batch.

    A whole answer of this process is one file. Complex numbers become the columns ``name.re`` and ``name.im``.
    """

    suffix = ".csv"
    what = "to_csv"
    by_spark = True

    def check(self, schema: pa.Schema) -> None:
        """Refuse what has no cell."""
        _check_cells(schema, "write.csv", "hp.write.parquet(...)")

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """One file."""
        if answer.shape != "rows":
            raise ParameterError("save: a CSV file holds rows, not segments", hint='shape="rows"')
        check_output_apart(answer.inputs, self.path, what=self.what, writes=os.path.basename(self.path))
        _check_cells(answer.schema, self.what, "to_parquet(...)")
        check_output(self.path, what=self.what, overwrite=overwrite)
        flat_schema = answer.schema.empty_table().flatten().schema
        with (
            write_then_rename(self.path, what=self.what, overwrite=overwrite) as draft,
            pc.CSVWriter(draft, flat_schema) as writer,
        ):
            for table in answer.tables():
                writer.write_table(table.flatten())

    def write_frame(self, frame: DataFrame, path: str, mode: str) -> None:
        """Spark's own CSV."""
        flat(frame).write.mode(mode).csv(path, header=True)


def _check_cells(schema: pa.Schema, what: str, instead: str) -> None:
    for field in schema.empty_table().flatten().schema:
        if pa.types.is_nested(field.type):
            raise UnsupportedError(
                f"{what}: column {field.name!r} holds {field.type}, which has no place in a cell",
                hint=f"write Parquet: {instead}",
            )


def flat(frame: DataFrame) -> DataFrame:
    """Complex values as two columns."""
    parts: list[str] = []
    for field in frame.schema.fields:
        quoted = f"`{field.name}`"
        inner = field.dataType.fieldNames() if field.dataType.typeName() == "struct" else None  # type: ignore[attr-defined]
        parts += [quoted] if inner is None else [f"{quoted}.{n} as `{field.name}.{n}`" for n in inner]
    return frame.selectExpr(*parts)
