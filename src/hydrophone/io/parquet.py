"""Parquet files as a source: a frozen list of files, read with pyarrow in whichever process needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from hydrophone.errors import DataError, ParameterError


@dataclass(frozen=True)
class File:
    """One file as it was when the plan was made; a file that changed since is an error."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: str) -> File:
        """Look at a file now."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is not the one that was planned with."""
        try:
            now = File.of(self.path)
        except FileNotFoundError:
            raise DataError(
                f"the file {self.path} is gone since the query was planned",
                hint="run the query again: it lists the files anew",
            ) from None
        if now != self:
            raise DataError(
                f"the file {self.path} has changed since the query was planned",
                hint="run the query again: it lists the files anew",
            )


@dataclass(frozen=True, eq=False)
class ParquetData:
    """Rows of Parquet files under a path, nested folders included; ``name=value`` folders become columns."""

    path: str

    @cached_property
    def files(self) -> tuple[File, ...]:
        """The files, frozen at the first look."""
        return tuple(File.of(p) for p in list_files(self.path))

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return dataset([f.path for f in self.files], self.path).schema

    @property
    def identity(self) -> str:
        """The path as the user wrote it."""
        return f"parquet:{self.path}"

    def tables(self, columns: list[str], rows: int | None = None) -> Iterator[pa.Table]:
        """The rows in record batches, or all at once."""
        for file in self.files:
            file.check()
        data = dataset([f.path for f in self.files], self.path)
        if rows is None:
            yield data.to_table(columns=columns)
        else:
            for batch in data.to_batches(columns=columns, batch_size=rows):
                yield pa.Table.from_batches([batch])


def list_files(path: str) -> list[str]:
    """The data files under a path, in the order of their names."""
    root = Path(path)
    if root.is_file():
        return [str(root)]
    if not root.exists():
        raise ParameterError(f"read.parquet: there is no file or folder {path!r}")
    hidden = ("_", ".")
    found = [
        p
        for p in sorted(root.rglob("*.parquet"))
        if not any(part.startswith(hidden) for part in p.relative_to(root).parts)
    ]
    if not found:
        raise ParameterError(f"read.parquet: no *.parquet files under {path!r}")
    return [str(p) for p in found]


def dataset(files: list[str], root: str) -> ds.Dataset:
    """The files as one dataset; folders named ``column=value`` give columns."""
    base = root if os.path.isdir(root) else os.path.dirname(root) or "."
    return ds.dataset(files, format="parquet", partitioning="hive", partition_base_dir=base)
