"""What a source offers: its schema, pieces with statistics, rows of a piece, what arrives. Hosts ask for these and for no class."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import UnsupportedError
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Of the units in which Arrow counts timestamps."""


@dataclass(frozen=True)
class Times:
    """The columns that say when rows begin and end; without `end` a row lasts no longer than `lasts` nanoseconds."""

    time: str
    end: str | None = None
    lasts: int = 1

    def ended(self, last: int) -> int:
        """When all rows have ended, from the last end or, where there is none, the last start."""
        return last if self.end else add_time(last, self.lasts)


@dataclass(frozen=True)
class Piece:
    """Rows that a task can read by themselves: a row group, a file, a block of samples.

    Attributes
    ----------
    unit, number : what they lie in, a value that can be hashed and pickled (mostly a `File`), and which piece of it
    rows, size : how many rows, and bytes of the columns that are read; rows may be 0 where nobody has counted
    low, high : the first start and the last end, in nanoseconds; where no row has a time, an interval that touches nothing
    nulls : rows without a time
    known : whether `low`, `high` and `nulls` are known; else a pass over the time columns measures them when they are needed
    """

    unit: Any
    number: int
    rows: int
    size: int
    low: int = MAX_TIME
    high: int = MIN_TIME
    nulls: int = 0
    known: bool = False


@dataclass(frozen=True)
class Place:
    """What is read of this machine's disk: a file, a folder or a pattern; `files` are those that are there now.

    In a folder the files with one of the suffixes count.
    """

    path: str
    suffixes: tuple[str, ...] = ("",)
    files: tuple[str, ...] = ()


class Data:
    """Where rows come from. A connector overrides what it offers; what it does not offer is refused with a reason.

    A plan needs `schema`, `identity` and `location`; a run in this process `tables`; tasks of a batch `pieces`, `for_tasks` and
    `read`; a stream the `folder` into which files arrive, each of which is a unit for `read`. Data that Spark itself reads gives a
    `dataframe` instead. Files of one more format need less: see `hydrophone.connect.file_data`.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        raise NotImplementedError

    @property
    def identity(self) -> str:
        """Kind and place, for messages; it tells this data from other data in one process."""
        raise NotImplementedError

    @property
    def location(self) -> str:
        """Kind and place in full, the same in every process that means the same data; in memory, the object."""
        return self.identity

    @property
    def places(self) -> Sequence[Place]:
        """What it reads of this machine's disk: results must not go there."""
        return ()

    # --- in this process ----------------------------------------------------------------------------------------------

    def tables(
        self, columns: list[str], rows: int | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """All rows, at most so many at a time. `where` may leave out rows of which it is false, and need not."""
        raise UnsupportedError(
            f"the local engine cannot read {self.identity}", hint="run this query on Spark, or collect the data first"
        )

    def held(self, columns: list[str]) -> pa.Table | None:
        """All rows, where they lie in memory: threads then share them out as they do with pieces. None: they must be read."""
        return None

    live: ClassVar[bool] = False
    """Whether reading may wait for rows that are still to come: a graph then reads it in a thread (`tables_until`)."""
    pushed: ClassVar[bool] = False
    """Whether there is nothing to read, because rows are pushed."""

    def tables_until(self, stop: threading.Event, columns: list[str], rows: int) -> Generator[pa.Table, None, None]:
        """The rows of live data, until `stop` is set."""
        raise NotImplementedError

    def wake(self) -> None:
        """Called from another thread while a read hangs that is not wanted any more."""

    # --- tasks of a batch ---------------------------------------------------------------------------------------------

    def check_batch(self, title: str) -> None:
        """Refuse data that the tasks of a batch cannot read."""
        raise UnsupportedError(
            f"to_spark: tasks cannot read {title}",
            hint="let Spark read it and hand over the DataFrame: hp.from_spark(spark.read..., ...)",
        )

    def dataframe(self, columns: Sequence[str]) -> DataFrame | None:
        """These columns as a DataFrame, where Spark reads the data, as a batch or as a stream; None: tasks read it."""
        return None

    takes_filters: ClassVar[bool] = False
    """Whether `where` saves it work."""
    measurable: ClassVar[bool] = True
    """Whether a pass over the time columns costs less than to read everything; else only a user's wish makes slices of unknown pieces."""

    @property
    def size(self) -> int | None:
        """Bytes at rest, or in memory, known without a look at any piece; None where there are no pieces and nothing is held."""
        return None

    def pieces(self, columns: Sequence[str], times: Times) -> Sequence[Piece] | None:
        """All pieces with what is known of them, so that tasks can share them out; None: one task reads everything."""
        return None

    def constants(self, unit: Any) -> Mapping[str, Any]:
        """Columns that have one value in the whole unit, which its place tells: folders named ``column=value``."""
        return {}

    def for_tasks(self, columns: Sequence[str]) -> Data:
        """The data as it travels to tasks, which call nothing but `read`: pickled, so without what they need not have."""
        return self

    def read(
        self, unit: Any, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """The rows of some pieces of a unit, or of all of it (None), whole or an error. `where` is as in `tables`.

        Data without pieces has one unit, None.
        """
        raise NotImplementedError

    # --- a stream -----------------------------------------------------------------------------------------------------

    def check_stream(self, title: str, where: str | None) -> None:
        """Refuse data that nothing is added to, with the user's line."""
        raise UnsupportedError(
            f"start: {title} is not a stream",
            hint="hp.read.parquet and hp.read.csv follow a folder into which files arrive, hp.from_spark takes a streaming DataFrame",
            where=where,
        )

    @property
    def folder(self) -> Place | None:
        """The folder (or pattern) into which files arrive. A row is then known by its file and its number there."""
        return None
