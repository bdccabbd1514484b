"""Parquet files as a source: a frozen list of files, read with pyarrow in whichever process needs them; and as a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hydrophone.errors import DataError
from hydrophone.io.files import File, check_output, list_files, root_of, writing

__all__ = ["File", "ParquetData", "dataset", "list_files", "write_parquet"]

_READERS = 8


@dataclass(frozen=True, eq=False)
class ParquetData:
    """Rows of Parquet files under a path, nested folders included; ``name=value`` folders become columns."""

    path: str

    @cached_property
    def root(self) -> str:
        """The path in full: a Spark task may work in another folder than the one in which the query was written."""
        return os.path.abspath(self.path)

    @cached_property
    def files(self) -> tuple[File, ...]:
        """The files, frozen at the first look."""
        return tuple(File.of(os.path.abspath(p)) for p in list_files(self.path))

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a row: those of the first file, then what others have beside them."""
        return dataset([f.path for f in self.files], self.root).schema

    @property
    def identity(self) -> str:
        """The path as the user wrote it."""
        return f"parquet:{self.path}"

    def tables(self, columns: list[str], rows: int | None = None) -> Iterator[pa.Table]:
        """The rows in record batches, or all at once."""
        for file in self.files:
            file.check()
        data = dataset([f.path for f in self.files], self.root, self.schema)
        for fragment in data.get_fragments():
            check_fragment(fragment, data.schema, columns)
        with named(self.path):
            if rows is None:
                yield data.to_table(columns=columns)
            else:
                for batch in data.to_batches(columns=columns, batch_size=rows):
                    yield pa.Table.from_batches([batch])


def dataset(files: list[str], root: str, schema: pa.Schema | None = None) -> ds.Dataset:
    """The files as one dataset with the columns of all of them; folders named ``column=value`` give columns too."""
    with named(files[0]):
        # Arrow takes the columns of the first file for those of all.
        first = ds.dataset(files, schema, format="parquet", partitioning="hive", partition_base_dir=root_of(root))
    if schema is not None or len(files) == 1:
        return first
    return first.replace_schema(_together(first.schema, files[1:]))


def _together(first: pa.Schema, others: list[str]) -> pa.Schema:
    """Every column once, as it is in the first file that has it with a type."""
    fields = {f.name: f for f in first}
    if len(fields) < len(first):
        return first  # two columns of one name, which whoever reads them is told
    with ThreadPoolExecutor(_READERS) as pool:
        for schema in pool.map(_columns, others):
            for field in schema:
                if field.name not in fields or pa.types.is_null(fields[field.name].type):
                    fields[field.name] = field
    return first if list(fields.values()) == list(first) else pa.schema(list(fields.values()), first.metadata)


def _columns(path: str) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError):
        return pa.schema([])  # told when the rows are read, if the file is still there


def check_fragment(fragment: ds.ParquetFileFragment, wanted: pa.Schema, columns: Iterable[str]) -> None:
    """As `check_schema`, for a file that Arrow is about to read."""
    with named(fragment.path):
        found = fragment.physical_schema
    check_schema(fragment.path, found, wanted, columns)


def check_schema(path: str, found: pa.Schema, wanted: pa.Schema, columns: Iterable[str]) -> None:
    """Refuse a file whose columns are of another kind than those of the first file that has them.

    Arrow would cast them value by value, so that microseconds of one file became the nanoseconds of another.
    """
    for name in columns:
        if name not in found.names or name not in wanted.names:
            continue  # a column that a file lacks is null there; folders have columns of their own
        here, first = found.field(name).type, wanted.field(name).type
        if not pa.types.is_null(here) and _family(here) != _family(first):
            raise DataError(
                f"read.parquet: {path}: column {name!r} is {here}, and {first} in the first file that has it",
                hint="write the column with one type in all files, or read them apart and put them together with union",
            )


def _family(kind: pa.DataType) -> str:
    """Types within which a cast keeps what values mean."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        return "instants"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "texts"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    return "lists" if pa.types.is_nested(kind) else str(kind)


@contextmanager
def named(path: str) -> Iterator[None]:
    """Turn Arrow's errors about a file's contents into ones that name it."""
    try:
        yield
    except pa.ArrowInvalid as error:
        # Arrow names the file as often as it has layers; the last of them says what is wrong.
        what = re.split(r"'[^']*': |\?: ", str(error))[-1].strip().rstrip(".")
        raise DataError(
            f"read.parquet: {path}: {what}", hint="remove the file, write it again, or name the files that are meant"
        ) from error


def write_parquet(answer: Callable[[], pa.Table], path: str, *, overwrite: bool = False) -> None:
    """Write an answer: one file if the name ends in ``.parquet``, else a folder with one part, as Spark would.

    The path is looked at before the answer is asked for: a query that has nowhere to go need not run.
    """
    check_output(path, what="to_parquet", overwrite=overwrite)
    table = answer()
    with writing(path, what="to_parquet", overwrite=overwrite) as draft:
        if Path(path).suffix == ".parquet":
            pq.write_table(table, draft, use_dictionary=repeated(table.schema))
        else:
            draft.mkdir()
            pq.write_table(table, draft / "part-00000.parquet", use_dictionary=repeated(table.schema))


def repeated(schema: pa.Schema) -> list[str]:
    """The columns whose values may repeat, for Parquet's dictionaries: samples do not, and trying makes files larger and slower."""
    return [f.name for f in schema if not (pa.types.is_floating(f.type) or pa.types.is_nested(f.type))]
