"""Parquet files as a source, a piece for every row group, and as a sink."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from hydrophone.connect.file_data import FileData
from hydrophone.connect.files import File, root_of
from hydrophone.connect.parquet_footer import check_statistics
from hydrophone.connect.schemas import Merged, as_found, conform, equal_to, merge
from hydrophone.connect.sink import FolderSink
from hydrophone.errors import DataError
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.data import NANOSECONDS, Piece, Times

# `pyarrow.dataset` is imported where it is used: it imports pandas, which takes longer than a query over a few rows.
if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame

ROWS_AT_ONCE = 1 << 20
"""Rows that are read from a file at once."""

_READERS = 8


@dataclass(frozen=True, eq=False)
class ParquetData(FileData):
    """Rows of Parquet files, a piece for every row group; ``name=value`` folders become columns."""

    kind = "parquet"
    suffixes = (".parquet",)
    takes_filters = True

    def merge(self) -> Merged:
        """The columns of the first file, those that folders give, then what other files have beside them."""
        paths = [f.path for f in self.files]
        with naming_file(paths[0]):
            first = pq.read_schema(paths[0])
        with ThreadPoolExecutor(_READERS) as pool:
            others = zip(paths[1:], pool.map(_columns, paths[1:]), strict=True)
            whole = merge([(paths[0], first), *others], what="read.parquet")
        if len(set(first.names)) < len(first.names):
            return whole
        # What a folder says is text: where files have the column too, it is read with their type.
        with naming_file(paths[0]):
            folders = _folder_columns(paths, self.root)
        fields = {f.name: f for f in (*first, *folders)} | {f.name: f for f in whole.schema}
        return replace(whole, schema=pa.schema(list(fields.values()), first.metadata))

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """The rows in record batches, or all at once; with `where` only those that pass, and no row group of which none can."""
        self.merged.check(columns)
        for file in self.files:
            file.check()
        if not self.files:
            return
        data = dataset([f.path for f in self.files], self.root, self.schema)

        def fits(fragment: ds.ParquetFileFragment) -> bool:
            return own_schema(fragment, data.schema, columns) is data.schema

        # Files in the types of the query are read side by side, others one by one, and all in their order.
        for together, some in groupby(data.get_fragments(), fits):
            if together:
                yield from _side_by_side(list(some), data, columns, rows, where)
            else:
                for fragment in some:
                    yield from read_fragment(fragment, data.schema, columns, where, rows or ROWS_AT_ONCE)

    def pieces_of(self, file: File, columns: Sequence[str], times: Times) -> Sequence[Piece]:
        """The row groups, as the footer describes them."""
        with naming_file(file.path):
            meta = pq.read_metadata(file.path)
            check_statistics(file.path)
            schema = meta.schema.to_arrow_schema()
            _ = schema.names  # which may be no text
        as_found(self.schema, schema, columns, file.path, what="read.parquet")
        with naming_file(file.path):
            return self._row_groups(file, meta, schema, set(columns), times)

    def _row_groups(self, file: File, meta: Any, schema: pa.Schema, wanted: set[str], times: Times) -> list[Piece]:
        place = {meta.schema.column(i).path: i for i in range(meta.num_columns)}
        read = [i for path, i in place.items() if path in wanted or path.split(".")[0] in wanted]
        self._constants[file.path] = _constant_columns(meta, read)
        found = []
        for number in range(meta.num_row_groups):
            group = meta.row_group(number)
            rows, size = group.num_rows, sum(group.column(i).total_uncompressed_size for i in read)
            start = _range(group, place, schema, times.time)
            end = _range(group, place, schema, times.end) if times.end else start
            if start is None or end is None:
                found.append(Piece(file, number, rows, size, known=rows == 0))
            else:
                high = times.ended(max(end[1], start[1]))
                found.append(Piece(file, number, rows, size, start[0], high, start[2], known=True))
        return found

    def constants(self, unit: File) -> Mapping[str, Any]:
        """What the folders of a file say about its rows, and what the statistics of all of its row groups agree on."""
        return self._constants.get(unit.path, {}) | dict(self._folders[unit.path])

    @cached_property
    def _constants(self) -> dict[str, dict[str, Any]]:
        """What `pieces_of` found in the statistics, by path: footers are read once."""
        return {}

    @cached_property
    def _folders(self) -> dict[str, Mapping[str, Any]]:
        """Of all files at once: one by one takes a millisecond each."""
        import pyarrow.dataset as ds

        fragments = dataset([f.path for f in self.files], self.root, self.schema).get_fragments()
        return {f.path: ds.get_partition_keys(f.partition_expression) for f in fragments}

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """Row groups in one table, or the whole file in batches; with pyarrow, so that nanoseconds stay."""
        (fragment,) = dataset([path], self.root, self.schema).get_fragments()
        if numbers is None:
            yield from read_fragment(fragment, self.schema, list(columns), where, ROWS_AT_ONCE)
            return
        with naming_file(path):
            chosen = fragment.subset(row_group_ids=list(numbers))
        yield from read_fragment(chosen, self.schema, list(columns), where)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need not know all files."""
        return {n: v for n, v in super().__getstate__().items() if n not in ("_folders", "_constants")}


_EXACT_STATISTICS = frozenset({"NONE", "INT", "STRING"})
"""Types of columns whose bounds are values of the column: equal ones say that there is no other."""


def _constant_columns(meta: Any, read: Sequence[int]) -> dict[str, Any]:
    """The columns that have one value in all row groups of a file."""
    found: dict[str, Any] = {}
    for column in (c for c in read if _has_exact_bounds(meta.schema.column(c))):
        values = {_only_value(meta.row_group(n).column(column).statistics) for n in range(meta.num_row_groups)}
        if len(values) == 1 and None not in values:
            found[meta.schema.column(column).path] = values.pop()
    return found


def _has_exact_bounds(column: Any) -> bool:
    # Those of arrays of a fixed length may be cut short, and Arrow reads beyond them.
    return column.logical_type.type in _EXACT_STATISTICS and column.physical_type != "FIXED_LEN_BYTE_ARRAY"


def _only_value(stats: Any) -> Any:
    """The value that all rows of a row group have, if its statistics say so; they leave NaN out, and nulls are counted."""
    if stats is None or not stats.has_min_max or not stats.has_null_count or stats.null_count:
        return None
    low, high = stats.min, stats.max
    return low if low == high and isinstance(low, int | str | bytes) else None


def _range(group: Any, place: dict[str, int], schema: pa.Schema, name: str) -> tuple[int, int, int] | None:
    """Least and largest time of a row group in nanoseconds and the number of nulls, if its statistics say all three."""
    if name not in place:
        return None
    chunk = group.column(place[name])
    stats = chunk.statistics
    if stats is None or not stats.has_null_count or chunk.physical_type not in ("INT64", "INT32"):
        return None
    if stats.null_count == group.num_rows:
        return MAX_TIME, MIN_TIME, group.num_rows
    kind = schema.field(name).type
    if not stats.has_min_max or pa.types.is_uint32(kind):
        return None
    scale = NANOSECONDS[kind.unit] if pa.types.is_timestamp(kind) else 1
    # Times that nanoseconds cannot hold are refused when their rows are read.
    low, high = (min(max(int(raw) * scale, MIN_TIME), MAX_TIME) for raw in (stats.min_raw, stats.max_raw))
    return low, high, stats.null_count


def _side_by_side(
    some: list[ds.ParquetFileFragment],
    whole: ds.FileSystemDataset,
    columns: list[str],
    rows: int | None,
    where: pc.Expression | None,
) -> Iterator[pa.Table]:
    import pyarrow.dataset as ds

    data = ds.FileSystemDataset(some, whole.schema, whole.format, whole.filesystem)
    if where is not None:
        _check_filtered(some)
    try:
        if rows is None:
            yield data.to_table(columns=columns, filter=where)
        else:
            for batch in data.to_batches(columns=columns, batch_size=rows, filter=where):
                yield pa.Table.from_batches([batch])
    except _DAMAGE:
        # Arrow does not say which file it was: one after the other they tell.
        for fragment in some:
            with naming_file(fragment.path):
                for _ in fragment.to_batches(schema=data.schema, columns=columns):
                    pass
        raise


def _check_filtered(some: Iterable[ds.ParquetFileFragment]) -> None:
    """Arrow looks at the statistics of files that it filters."""
    for fragment in some:
        with naming_file(fragment.path):
            check_statistics(fragment.path)


# --- the columns of all files -----------------------------------------------------------------------------------------


def _columns(path: str) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except _DAMAGE:
        return pa.schema([])  # told when the rows are read, if the file is still there


def _folder_columns(files: list[str], root: str) -> pa.Schema:
    """The columns that folders named ``column=value`` give, with the types that Arrow takes their values for."""
    import pyarrow.dataset as ds

    options = ds.FileSystemFactoryOptions(partition_base_dir=root_of(root))
    options.partitioning_factory = ds.HivePartitioning.discover()
    factory = ds.FileSystemDatasetFactory(pyarrow.fs.LocalFileSystem(), files, ds.ParquetFileFormat(), options)
    return factory.inspect_schemas()[-1]


def dataset(files: list[str], root: str, schema: pa.Schema) -> ds.FileSystemDataset:
    """The files as one dataset with these columns; folders named ``column=value`` give columns too."""
    import pyarrow.dataset as ds

    try:
        return ds.dataset(files, schema, format="parquet", partitioning="hive", partition_base_dir=root_of(root))
    except FileNotFoundError as error:
        raise DataError(f"read.parquet: {error} is gone", hint=_STAY) from None
    except pa.ArrowInvalid as error:
        told = _FOLDER.search(str(error))
        if told is None:
            raise
        raise DataError(
            f"read.parquet: {next(f for f in files if f'={told[1]}/' in f)}: the folder says {told[1]!r}, "
            f"and the query reads the column as {told[2]}",
            hint='rename the folder, or state the type when the query is built, with all columns: schema={"site": "string", ...}',
        ) from None


_FOLDER = re.compile(r"error parsing '(.*)' as scalar of type (\S+)")


# --- one file ---------------------------------------------------------------------------------------------------------


def own_schema(fragment: ds.ParquetFileFragment, schema: pa.Schema, columns: list[str]) -> pa.Schema:
    """The schema with which to read a file: that of the query where the types are the same.

    Arrow would cast others value by value, so that microseconds of one file became nanoseconds of another.
    """
    with naming_file(fragment.path):
        found = fragment.physical_schema
        there = [n for n in columns if n in found.names]
    _check_folder(fragment, there)
    return as_found(schema, found, columns, fragment.path, what="read.parquet")


def _check_folder(fragment: ds.ParquetFileFragment, columns: list[str]) -> None:
    """Refuse a file that holds other values of a column than its folder says: Arrow would take those of the folder."""
    import pyarrow.dataset as ds

    told = ds.get_partition_keys(fragment.partition_expression)
    for name in (n for n in columns if n in told):
        groups = [group.id for group in fragment.row_groups]
        bare = fragment.format.make_fragment(fragment.path, fragment.filesystem, row_groups=groups)
        with naming_file(fragment.path):
            column = bare.to_table(columns=[name], use_threads=False)[name]
        if not equal_to(column, told[name]):
            raise DataError(
                f"read.parquet: {fragment.path}: column {name!r} has other values than its folder, which says {told[name]!r}",
                hint="move the rows to the folder where they belong, or rename the column in the file",
            )


def read_fragment(
    fragment: ds.ParquetFileFragment,
    schema: pa.Schema,
    columns: list[str],
    where: pc.Expression | None = None,
    rows: int | None = None,
) -> Iterator[pa.Table]:
    """The rows of one file in the types of the query, as one table or so many at a time."""
    own = own_schema(fragment, schema, columns)
    wanted = pa.schema([schema.field(n) for n in columns])
    options = {"schema": own, "columns": columns, "filter": where if own is schema else None}
    if options["filter"] is not None:
        _check_filtered([fragment])
    with naming_file(fragment.path):
        if rows is None:
            # One core per task is what Spark reckons with.
            tables: Iterable[pa.Table] = [fragment.to_table(use_threads=False, **options)]
        else:
            tables = (pa.Table.from_batches([b]) for b in fragment.to_batches(batch_size=rows, **options))
        for table in tables:
            made = conform(table, wanted, fragment.path, what="read.parquet")
            yield made if own is schema or where is None else made.filter(where)


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Turn errors about a file's contents into ones that name it; Arrow has them of two classes, also for files that are damaged."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"read.parquet: {path} is gone", hint=_STAY) from None
    except MemoryError as error:
        raise DataError(
            f"read.parquet: {path}: there is no memory for it ({str(error).splitlines()[0]})",
            hint="it is damaged, or its row groups are too large for this machine: write it again with smaller ones",
        ) from error
    except _DAMAGE as error:
        # Arrow names the file as often as it has layers; the last of them says what is wrong.
        what = re.split(r"'[^']*': |\?: ", str(error))[-1].strip().splitlines()[0].rstrip(".")
        raise DataError(
            f"read.parquet: {path}: {what}", hint="remove the file, write it again, or name the files that are meant"
        ) from error


_DAMAGE = (pa.ArrowException, OSError, MemoryError, UnicodeError)
"""What Arrow raises for files that it cannot read."""
_STAY = "files must stay until they are read"


@dataclass(frozen=True)
class Parquet(FolderSink):
    """A folder of Parquet files, with a folder ``batch=<number>`` for every micro-batch."""

    suffix = ".parquet"
    what = "to_parquet"
    by_tasks = by_spark = True

    def open(self, path: Path, schema: pa.Schema) -> pq.ParquetWriter:
        """With dictionaries where they help."""
        return pq.ParquetWriter(path, schema, use_dictionary=dictionary_columns(schema))

    def write_frame(self, frame: DataFrame, path: str, mode: str) -> None:
        """Spark's own Parquet."""
        frame.write.mode(mode).parquet(path)


def dictionary_columns(schema: pa.Schema) -> list[str]:
    """The columns whose values may repeat, for Parquet's dictionaries: samples do not, and trying makes files larger and slower."""
    return [f.name for f in schema if not (pa.types.is_floating(f.type) or pa.types.is_nested(f.type))]
