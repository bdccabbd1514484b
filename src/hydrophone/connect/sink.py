"""What a sink promises: to refuse what it cannot hold, to write a whole answer, and to write every micro-batch of a stream once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import pyarrow as pa

from hydrophone.connect.files import check_output, write_then_rename
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.errors import ParameterError, UnsupportedError
from hydrophone.plan.data import Place
from hydrophone.plan.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class FileWriter(Protocol):
    """Writes one file, table by table; it is whole when closed."""

    def write_table(self, table: pa.Table) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what is held."""


BYTES_PER_WRITE = 64 << 20
"""Results are gathered until they have so many bytes: small tables would make small row groups."""


@dataclass(frozen=True)
class Answer:
    """An answer that is made when it is asked for: a query that has nowhere to go need not run.

    Attributes
    ----------
    run : runs the query in this process, and gives its results in tables as they are made
    schema, shape : of the answer
    inputs : what the query reads of this machine's disk
    """

    run: Callable[[], Generator[pa.Table, None, None]]
    schema: pa.Schema
    shape: str
    inputs: Sequence[Place]

    def tables(self) -> Iterator[pa.Table]:
        """The answer in large tables, each made while those before it may be written."""
        held: list[pa.Table] = []
        size, empty = 0, True
        with closing(self.run()) as results:
            for table in results:
                held.append(table)
                size += table.nbytes
                if size >= BYTES_PER_WRITE:
                    yield pa.concat_tables(held)
                    held, size, empty = [], 0, False
        if held or empty:
            yield pa.concat_tables(held) if held else self.schema.empty_table()

    def table(self) -> pa.Table:
        """The whole answer at once."""
        return pa.concat_tables(self.tables())


class Sink:
    """Where results go. A connector overrides what it offers; files of one more format are a `FolderSink`.

    A subscription of a graph in this process needs `process`, and `subscribed`, `advance` and `done` where it has to know more; they run in
    the thread that subscribes or drives the graph. What they raise fails the subscription, and no other:

    >>> import hydrophone as hp
    >>> class Latest(hp.Sink):
    ...     def process(self, table, mark):
    ...         self.row = table.slice(len(table) - 1).to_pylist()
    >>> latest, graph = Latest(), hp.Graph()
    >>> subscription = graph.subscribe(hp.read.synthetic("1ms", rows=5).select("value"), latest)
    >>> graph.run()
    >>> latest.row[0]["ts"]
    4000000

    A stream calls `check`, claims the `folder` (or sees that what is no folder `exists`) and calls `prepare` when it starts. It then
    calls `write` (or `keep`) for every micro-batch, in order. After a crash it may call it again with the number of the last one and
    the same rows: these take the place of what was written.
    """

    noun: ClassVar[str] = "sink"
    """What it is called in messages: "folder", "table"."""
    adds: ClassVar[tuple[str, ...]] = ("batch",)
    """Columns that a stream adds to results."""
    in_process: ClassVar[bool] = False
    """Whether results stay in the process of the query, in their own types; else they have those of Spark."""
    by_tasks: ClassVar[bool] = False
    """Whether tasks of a stream can write files into the folder (`open`); they do where it lies on this machine."""
    by_spark: ClassVar[bool] = False
    """Whether Spark can write (`write`, `save_frame`)."""
    shape: ClassVar[str | None] = None
    """The shape of answers that it takes, where there is but one: recordings take segments."""
    suffix: ClassVar[str] = ""
    """The names of files that it writes end so; empty where there are none."""

    @property
    def place(self) -> str:
        """A path or a name."""
        return type(self).__name__

    @property
    def folder(self) -> str | None:
        """The folder that it fills, with a folder ``batch=<number>`` for every micro-batch; None where it fills none."""
        return None

    def moved(self, path: str) -> Self:
        """The same sink with another folder."""
        return self

    def check(self, schema: pa.Schema) -> None:
        """Refuse results that it cannot hold."""

    # --- a subscription in this process -------------------------------------------------------------------------------

    def process(self, table: pa.Table, mark: int) -> None:
        """Take results of a subscription; later ones belong to no instant before `mark` (nanoseconds)."""
        raise UnsupportedError(
            f"subscribe: {self.place} takes no results of a graph",
            hint="subscribe a function, hp.write.memory(), or a class of your own with process(self, table, mark)",
        )

    def subscribed(self, schema: pa.Schema, kind: DataType) -> None:
        """Hear of the columns and the type of the results of a subscription, before it begins."""

    def advance(self, mark: int) -> None:
        """Hear that no later result belongs to an instant before `mark`, where no results say so."""

    def done(self, error: BaseException | None) -> None:
        """Hear that nothing more comes; `error` says why, if the subscription failed."""

    # --- a whole answer -----------------------------------------------------------------------------------------------

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """Write an answer of this process, all of it or nothing."""
        raise UnsupportedError(
            f"save: {self.place} takes no results of this process", hint="give a session: save(to, spark)"
        )

    def save_frame(self, frame: DataFrame, *, overwrite: bool) -> None:
        """Let Spark write an answer; where there is something already, and no `overwrite`, Spark's own error is raised."""
        raise NotImplementedError

    def check_spark(self, what: str) -> None:
        """Refuse a sink that Spark cannot write to."""
        if not self.by_spark:
            raise UnsupportedError(
                f"{what}: Spark cannot write to {self.place} ({type(self).__name__})",
                hint="write Parquet, or start a stream in local mode into a folder of this machine: tasks write it",
            )

    # --- a stream -----------------------------------------------------------------------------------------------------

    def exists(self, spark: SparkSession) -> bool:
        """Whether what is no folder is still there."""
        return True

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make what results go to, or see that what is there fits."""

    def open(self, path: Path, schema: pa.Schema) -> FileWriter:
        """Begin one file of a micro-batch, in a task (with `by_tasks`), or of an answer of this process."""
        raise NotImplementedError

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """Let Spark write a micro-batch of the query with this id, in place of what it had written of it."""
        raise NotImplementedError

    def keep(self, batch: int, results: pa.Table) -> None:
        """Take a micro-batch in this process, in place of what it had taken of it."""
        raise NotImplementedError


@dataclass(frozen=True)
class CallbackSink(Sink):
    """Calls a function with each table of results."""

    noun = "function"

    call: Callable[[pa.Table], object]

    def process(self, table: pa.Table, mark: int) -> None:
        """Call it."""
        self.call(table)


def as_sink(given: object, what: str) -> Sink:
    """A sink, or a function that takes tables as one."""
    if isinstance(given, Sink):
        return given
    if callable(given):
        return CallbackSink(given)
    raise ParameterError(
        f"{what}: sink must be a hydrophone.Sink or a function, got {given!r}",
        hint="a list takes tables by its method: subscribe(query, found.append)",
    )


@dataclass(frozen=True)
class FolderSink(Sink):
    """Files of one format in a folder. A format says `suffix`, and how to `open` one file or how Spark writes, or both.

    A micro-batch is written beside its place and moved there whole, so that readers see all of it or nothing.
    """

    noun = "folder"
    what: ClassVar[str] = "save"
    """Who writes, for errors of `save`."""

    path: str

    @property
    def place(self) -> str:
        """The path."""
        return self.path

    @property
    def folder(self) -> str:
        """The path."""
        return self.path

    def moved(self, path: str) -> Self:
        """At another path."""
        return replace(self, path=path)

    def write_frame(self, frame: DataFrame, path: str, mode: str) -> None:
        """Let Spark write a folder (with `by_spark`), with a mode of its own."""
        raise NotImplementedError

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """One file if the path ends in the suffix, else a folder with one, as Spark would write it."""
        check_output_apart(answer.inputs, self.path, what=self.what, writes=self.suffix)
        self.check(answer.schema)
        check_output(self.path, what=self.what, overwrite=overwrite)
        with write_then_rename(self.path, what=self.what, overwrite=overwrite) as draft:
            if not Path(self.path).name.endswith(self.suffix):
                draft.mkdir()
                draft = draft / f"part-00000{self.suffix}"
            write_tables(self.open(draft, answer.schema), answer)

    def save_frame(self, frame: DataFrame, *, overwrite: bool) -> None:
        """Spark writes the path."""
        self.write_frame(frame, self.path, "overwrite" if overwrite else "errorifexists")

    def write(self, rows: DataFrame, query: str, batch: int) -> None:
        """The folder of a micro-batch is written whole, and replaced whole."""
        self.write_frame(rows, f"{self.path}/batch={batch}", "overwrite")


def write_tables(writer: FileWriter, answer: Answer) -> None:
    """Write an answer as it comes, and close the file, also where the query fails."""
    with closing(writer):
        for table in answer.tables():
            writer.write_table(table)
