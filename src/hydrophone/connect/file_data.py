"""Files as a source on every host. A format says what one file holds, in one class; the rest is the same for all formats."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.files import File, list_files, root_of
from hydrophone.connect.schemas import Merged, conform, merge
from hydrophone.errors import UnsupportedError
from hydrophone.plan.data import Data, Piece, Place, Times

_READERS = 8
_DRIVERS = ("files", "suggested")
"""What only the driver needs to know."""


@dataclass(frozen=True, eq=False)
class FileData(Data):
    """Rows of the files of one format under a path: a file, a folder, a pattern, or several of these.

    A format is a subclass with a `kind`, the `suffixes` of its files, `schema_of` and `read_file`; one that knows the times of a
    file, or of pieces of it, says them in `pieces_of`. It travels to tasks: its parameters can be pickled.
    """

    path: str | tuple[str, ...]
    stated: pa.Schema | None = field(default=None, kw_only=True)
    """The columns as the user states them; then there may be no file yet."""

    kind: ClassVar[str]
    """The name of the format; errors begin with ``read.<kind>``."""
    suffixes: ClassVar[tuple[str, ...]]
    """The names of files in a folder end so."""

    # --- what a format says -------------------------------------------------------------------------------------------

    def schema_of(self, path: str) -> pa.Schema:
        """The columns of one file."""
        raise NotImplementedError

    def pieces_of(self, file: File, columns: Sequence[str], times: Times) -> Sequence[Piece]:
        """The pieces of one file, with their times as far as they are known without reading it."""
        return [Piece(file, 0, 0, file.size)]

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """The rows of some pieces of a file, or of all (None), in the types of the file or those of `schema`.

        A file that ends too early or is damaged is a `DataError`, never fewer rows. Rows come in the same order every time.
        """
        raise NotImplementedError

    @property
    def options(self) -> str:
        """Parameters that make other data of the same files, as a text; empty where they are as usual."""
        return ""

    # --- what all formats have ----------------------------------------------------------------------------------------

    @cached_property
    def root(self) -> str:
        """The path in full: a Spark task may work in another folder than the one in which the query was written.

        Of several paths it is the folder that holds them all.
        """
        if isinstance(self.path, str):
            return os.path.abspath(self.path)
        return os.path.commonpath([os.path.abspath(root_of(path)) for path in self.path])

    @property
    def paths(self) -> tuple[str, ...]:
        """The path, or all of them."""
        return (self.path,) if isinstance(self.path, str) else self.path

    def _listed(self, path: str) -> list[str]:
        found = list_files(path, what=f"read.{self.kind}", suffixes=self.suffixes, none_yet=self.none_yet)
        return [os.path.abspath(p) for p in found]

    @cached_property
    def files(self) -> tuple[File, ...]:
        """The files, frozen at the first look."""
        found = dict.fromkeys(file for path in self.paths for file in self._listed(path))
        return tuple(File.of(p) for p in found)

    @property
    def none_yet(self) -> bool:
        """Whether there may be no file yet."""
        return self.stated is not None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a row: those that the user states, or those of the first file, then what others have beside them."""
        return self.merged.schema

    @cached_property
    def merged(self) -> Merged:
        """The columns of all files, each with one type for all of them."""
        return Merged(self.stated) if self.stated is not None else self.merge()

    def merge(self) -> Merged:
        """Look at all files."""
        paths = [f.path for f in self.files]
        with ThreadPoolExecutor(_READERS) as pool:
            return merge(zip(paths, pool.map(self.schema_of, paths), strict=True), what=f"read.{self.kind}")

    @property
    def identity(self) -> str:
        """The path as the user wrote it, and the options."""
        return self._named(", ".join(self.paths))

    @property
    def location(self) -> str:
        """The path in full, and the options."""
        return self._named(", ".join(os.path.abspath(path) for path in self.paths))

    def _named(self, path: str) -> str:
        return f"{self.kind}:{path}" + (f" ({self.options})" if self.options else "")

    @property
    def places(self) -> Sequence[Place]:
        """The path and its files."""
        there = tuple(f.path for f in self.files)
        return tuple(Place(path, self.suffixes, there) for path in self.paths)

    @property
    def folder(self) -> Place:
        """The path: files arrive below it. A list of paths is no stream: see `check_stream`."""
        return Place(self.root, self.suffixes)

    def check_batch(self, title: str) -> None:
        """Tasks read pieces."""

    def check_stream(self, title: str, where: str | None) -> None:
        """Tasks read the files that arrive, in one folder."""
        if not isinstance(self.path, str):
            raise UnsupportedError(
                f"start: {title} is a list of paths, and a stream follows one folder or pattern",
                hint='name what they share ("mics/*.wav"), or read each and put them together: a.union(b)',
                where=where,
            )

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """File by file, as the format reads them, or so many rows at a time."""
        self.merged.check(columns)
        for file in self.files:
            for table in self.read(file, None, columns, where):
                if rows is None:
                    yield table
                else:
                    yield from (table.slice(start, rows) for start in range(0, len(table), rows))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def pieces(self, columns: Sequence[str], times: Times) -> Sequence[Piece]:
        """Those of all files, in their order."""
        self.merged.check(columns)

        def look(file: File) -> Sequence[Piece]:
            file.check()
            return self.pieces_of(file, columns, times)

        with ThreadPoolExecutor(_READERS) as pool:
            return [piece for pieces in pool.map(look, self.files) for piece in pieces]

    def read(
        self, unit: Any, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Rows of one file, if it is still the one that was planned with, in the types of the query."""
        unit.check()
        planned = pa.schema([self.schema.field(n) for n in columns])
        for table in self.read_file(unit.path, numbers, columns, where):
            yield conform(table, planned, unit.path, what=f"read.{self.kind}")

    def for_tasks(self, columns: Sequence[str]) -> Data:
        """The data itself, if these columns can be read."""
        self.merged.check(columns)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For tasks: with the schema, which no task must find again, and without the list of all files."""
        _ = self.schema
        return {name: value for name, value in self.__dict__.items() if name not in _DRIVERS}
