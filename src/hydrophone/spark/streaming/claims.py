"""What belongs to one query alone: small files that only the first can make, the folders of results, and a running checkpoint."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydrophone.errors import DataError, ParameterError
from hydrophone.spark.streaming.outlets import Outlet, on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# --- small files ------------------------------------------------------------------------------------------------------


def read_text(spark: SparkSession, path: str) -> str | None:
    """The text of a small file, wherever Spark can read; None where there is none."""
    here = on_this_machine(spark, path)
    if here is None:
        lines = _lines(spark, path)
        return None if lines is None else "\n".join(lines)
    try:
        # A session elsewhere may have written it, as a folder with a part.
        parts = sorted(here.rglob("part-*")) if here.is_dir() else [here]
        return "".join(p.read_text(errors="replace") for p in parts)
    except FileNotFoundError:
        return None


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a small file whole, in place of what was there."""
    here = on_this_machine(spark, path)
    if here is None:
        _frame(spark, text).write.mode("overwrite").text(path)
        return
    with _draft(here, text) as draft:
        draft.replace(here)


def create_once(spark: SparkSession, path: str, text: str) -> str:
    """Make a small file unless there is one; the text that it has then, which is ours only if we were the first.

    On this machine the file appears with its text in one step, by a link that fails where there is a name already. Elsewhere
    Spark writes a folder in which everyone has a folder of its own: of two that write at the same time, who is the last finds
    the texts of both, and takes its own back, so that the first still has its own alone at the next start.
    """
    here = on_this_machine(spark, path)
    if here is not None:
        with _draft(here, text) as draft, contextlib.suppress(FileExistsError):
            _link(draft, here)
    elif not read_text(spark, path):
        own, ours = f"{path}/by-{uuid.uuid4().hex}", _frame(spark, text)
        ours.write.text(own)
        found = read_text(spark, path) or ""
        if found.strip() != text.strip():
            ours.where("false").write.mode("overwrite").text(own)
        return found
    return read_text(spark, path) or ""


@contextlib.contextmanager
def _draft(path: Path, text: str) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A disk without hard links: the name is made in one step, its text is not.
        with path.open("x") as file:
            file.write(draft.read_text())


def _frame(spark: SparkSession, text: str):  # type: ignore[no-untyped-def]
    return spark.sql("select :text as value", args={"text": text}).coalesce(1)


def _lines(spark: SparkSession, path: str) -> list[str] | None:
    rows = _rows(lambda: spark.read.option("recursiveFileLookup", True).text(path))
    return None if rows is None else [str(row.value) for row in rows]


_READS = 10
"""How often files are listed and read again that someone replaces at the same time."""


def _rows(read: Callable[[], DataFrame]) -> list[Row] | None:
    """The rows of files that others may replace; None where there are none.

    Spark lists files first and reads them later: one that was replaced in between is gone, and the new one is in the next list.
    """
    from pyspark.errors import AnalysisException

    for left in reversed(range(_READS)):
        try:
            return read().collect()
        except AnalysisException:
            return None
        except Exception as error:  # of Py4J's or of PySpark's classes, by the way of the session
            if left == 0 or "FAILED_READ_FILE.FILE_NOT_EXIST" not in str(error):
                raise
            time.sleep(0.1)
    return None


def log_entries(spark: SparkSession, folder: str) -> Mapping[int, str]:
    """The entries of a log of Spark's, by number."""
    here = on_this_machine(spark, folder)
    if here is not None:
        found = here.iterdir() if here.is_dir() else ()
        return {int(p.name): p.read_text() for p in found if p.name.isdecimal()}
    named = ("_metadata.file_name as name", "value")
    rows = _rows(lambda: spark.read.option("wholetext", True).text(folder).selectExpr(*named))
    return {int(r.name): r.value for r in rows or () if r.name.isdecimal()}


# --- folders of results -----------------------------------------------------------------------------------------------

CLAIM = "_query"


@dataclass(frozen=True)
class Claims:
    """The outlets that belong to a query: in each folder a file with the id of the query, and in the checkpoint where they are.

    Attributes
    ----------
    checkpoint : the folder
    query : the id that its manifest has
    outlets : what is written
    what : who asks, for messages
    """

    checkpoint: str
    query: str
    outlets: tuple[Outlet, ...]
    what: str = "start"

    @classmethod
    def take(
        cls, spark: SparkSession, checkpoint: str, query: str, outlets: Iterable[Outlet], what: str = "start"
    ) -> Claims:
        """Refuse what another query writes to, and what was there at an earlier start and is gone."""
        claims = cls(checkpoint, query, tuple(outlets), what)
        for outlet in claims.outlets:
            known = read_text(spark, claims._note(outlet)) == outlet.path
            folder = outlet.sink.folder
            if folder is not None:
                claims._claim(spark, outlet, folder, known)
            elif known and not outlet.sink.exists(spark):
                raise claims.gone(outlet)
            if not known:
                write_text(spark, claims._note(outlet), outlet.path)
        return claims

    def check(self, spark: SparkSession) -> None:
        """Refuse to write on where a folder of this machine has gone: Spark would make it anew, without what it had."""
        for outlet in self.outlets:
            folder = outlet.sink.folder
            here = None if folder is None else on_this_machine(spark, f"{folder}/{CLAIM}")
            if here is not None and not here.exists():
                raise self.gone(outlet)

    def _claim(self, spark: SparkSession, outlet: Outlet, folder: str, known: bool) -> None:
        path = f"{folder}/{CLAIM}"
        found = read_text(spark, path)
        if found is None and known:
            raise self.gone(outlet)
        here = on_this_machine(spark, path)
        if found is None and here is not None:
            _check_folder(here.parent, outlet)
        foreign = found is None and here is not None and any(here.parent.glob("batch=*"))
        if foreign or (found or create_once(spark, path, self.query)).strip() != self.query:
            raise ParameterError(
                f"{self.what}: {outlet.path} holds results of another query, or of this one with another checkpoint",
                hint="choose another folder, or start with the checkpoint that belongs to it; "
                f"a folder whose query is no longer wanted is free when {path} and its results are removed",
            )

    def gone(self, outlet: Outlet) -> DataError:
        """The error of results that were written and are not there any more."""
        folder, rows = outlet.sink.folder, "results" if outlet.source is None else "late rows"
        again = "" if folder is None else f"; to go on without them: echo {self.query} > {folder}/{CLAIM}"
        return DataError(
            f"{self.what}: the {outlet.sink.noun} {outlet.path} is gone or was emptied, "
            f"and the checkpoint {self.checkpoint} has written {rows} to it",
            hint=f"bring it back, or start with a new checkpoint, which reads all input again{again}",
        )

    def _note(self, outlet: Outlet) -> str:
        name = "results" if outlet.source is None else f"late-{outlet.source}"
        return f"{self.checkpoint}/hydrophone-{name}"


def _check_folder(folder: Path, outlet: Outlet) -> None:
    above = next(p for p in (folder, *folder.parents) if p.exists())
    if not above.is_dir():
        raise ParameterError(f"start: {outlet.path} is no folder", hint="name a folder that the stream may fill")


# --- a checkpoint that is in use --------------------------------------------------------------------------------------

_LOCK = "_lock"
_PATIENCE = 3.0
"""Seconds for which a start waits for a query of the same process that has just ended."""


class Lock:
    """Holds a checkpoint on this machine while its query runs; the system frees it when the process dies.

    Parameters
    ----------
    folder : the checkpoint; None where it is not on this machine, and nothing is held: Spark finds out when both write
    """

    def __init__(self, folder: Path | None) -> None:
        self._file: int | None = None
        self._guard = threading.Lock()
        if folder is None:
            return
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(file, 32, 0).decode(errors="replace").strip()
                if holder != str(os.getpid()) or time.monotonic() > deadline:
                    os.close(file)
                    raise checkpoint_in_use(str(folder), f" in the process {holder}" if holder else "") from None
                time.sleep(0.02)
            except OSError:  # a disk that knows no locks
                os.close(file)
                return
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, error: object, *rest: object) -> None:
        """A query that did not start needs no lock."""
        if error is not None:
            self.release()

    def release(self) -> None:
        """Free the checkpoint; again does nothing."""
        with self._guard:
            if self._file is not None:
                os.close(self._file)
            self._file = None


def checkpoint_in_use(checkpoint: str, where: str = "") -> ParameterError:
    """Two streams on one checkpoint."""
    return ParameterError(
        f"start: another stream runs with the checkpoint {checkpoint}{where}",
        hint="stop it first; a second query needs a checkpoint and a folder of its own",
    )
