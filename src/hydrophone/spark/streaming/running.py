"""The handle to a stream that runs in Spark: waiting, stopping, metrics, and its errors as they were raised."""

from __future__ import annotations

import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hydrophone import errors
from hydrophone.errors import ParameterError
from hydrophone.model.time import MIN_TIME, format_instant
from hydrophone.spark.streaming.claims import Lock, checkpoint_in_use
from hydrophone.spark.streaming.logs import state_damage
from hydrophone.spark.streaming.sinks import OBSERVATION, Metrics, reported_metrics

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger("hydrophone")


@dataclass(eq=False)
class RunningQuery:
    """A query that runs in Spark; made by `start`.

    Attributes
    ----------
    query : Spark's own handle
    late_path : where late rows go
    lock : what holds the checkpoint while the query runs
    zoned : whether times of the results have a zone
    ends : whether the query ends by itself when it has taken what is there
    checkpoint : the folder
    """

    query: StreamingQuery
    late_path: str | None
    lock: Lock
    zoned: bool = False
    ends: bool = False
    checkpoint: str = ""

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(Exception):  # whoever waits for the query is told
            self.query.awaitTermination()
        self.lock.release()
        with suppress(Exception):  # a session that has stopped has nothing to report
            if self.ends and self.query.exception() is None and (left := self.left_open) is not None:
                _log.warning("%s", left)
        self._ended.set()

    def stop(self) -> None:
        """Stop after the running task; the checkpoint lets `start` go on from here."""
        self.query.stop()
        self.lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends (or for so many seconds) and say whether it has; an error of the query is raised here.

        Ctrl-C stops the query; it goes on from its checkpoint at the next `start`.
        """
        ended = self._wait_for(self._ended, timeout)
        if ended:
            with _own_errors(self.checkpoint):
                self.query.awaitTermination()
        return ended

    @property
    def left_open(self) -> str | None:
        """What the results still lack of rows that were taken, and up to when they are complete; None where nothing is open."""
        latest = self.progress[-1:]
        if not latest or not latest[0]["waiting"]:
            return None
        return (
            f"{self.query.name}: {latest[0]['waiting']} open windows or held rows are not in the results yet, which are complete "
            f"up to {self._complete(latest[0])}: they wait for later rows, or for a promise of less delay (progress=)"
        )

    def _complete(self, latest: Metrics) -> str:
        return format_instant(MIN_TIME if latest["passed"] is None else latest["passed"], self.zoned)

    await_termination = wait

    def _wait_for(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Wait in Python, where Ctrl-C is heard at once; it stops the query."""
        try:
            with _plain_interrupt():
                return event.wait(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise _one_line(KeyboardInterrupt("the stream is stopped; start goes on from its checkpoint")) from None

    def process_all_available(self) -> None:
        """Wait until everything that has arrived so far is in the results. Ctrl-C stops the query, as in `wait`."""
        done, errors = threading.Event(), list[BaseException]()

        def process() -> None:
            try:
                self.query.processAllAvailable()
            except BaseException as error:
                errors.append(error)
            finally:
                done.set()

        threading.Thread(target=process, daemon=True).start()
        self._wait_for(done)
        with _own_errors(self.checkpoint):
            for error in errors:
                raise error

    @property
    def progress(self) -> list[Metrics]:
        """What the latest micro-batches did, oldest first.

        Each is a dict: ``batch`` (its number), ``rows`` taken, how many of them were ``merged`` before the exchange,
        ``results`` given, ``late`` rows by source, ``keys`` and ``state_bytes`` held, ``shed``: rows that joins have
        forgotten since the query began to keep to their limits, ``waiting``: open windows, and rows and runs of samples
        that are held until progress passes them, ``rows_per_second``, ``marks`` by source in
        nanoseconds, ``passed``: the mark that results have reached, and ``mark_ms``: the milliseconds that marks took
        through all operators, in the slowest shard of every stage. Sources are numbered as the query names them.
        Spark's own report has the same numbers (``observedMetrics``, under ``hydrophone``, and ``durationMs``), and
        so have its listeners.
        """
        found = ((p, p.observedMetrics.get(OBSERVATION)) for p in self.query.recentProgress)
        return [
            reported_metrics(p.batchId, _row_by_name(row.asDict()), _batch_seconds(p))
            for p, row in found
            if row is not None
        ]

    @property
    def status(self) -> dict[str, Any]:
        """Whether the query runs, what Spark says it does, the metrics of the latest micro-batch, and up to when results are complete."""
        latest = self.progress[-1:]
        told = {**latest[0], "complete_until": self._complete(latest[0])} if latest else {}
        return {"active": self.query.isActive, "message": self.query.status["message"], **told}


def _batch_seconds(progress: StreamingQueryProgress) -> float:
    """How long a micro-batch took, from looking for new rows to its last note."""
    return max(progress.durationMs.get("triggerExecution", progress.batchDuration), 1) / 1000


def _row_by_name(row: dict[str, Any]) -> dict[str, Any]:
    """A reported row by names; Spark 4.3 hands it through Connect as its values and their schema."""
    if row.keys() != {"values", "schema"}:
        return row
    return dict(zip((f["name"] for f in row["schema"]["fields"]), row["values"], strict=True))


@contextmanager
def _plain_interrupt() -> Iterator[None]:
    """Ctrl-C as Python has it: PySpark's own handler cancels all jobs, so that the stream would fail instead of stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _one_line(error: KeyboardInterrupt) -> KeyboardInterrupt:
    """The error, which Python shows as one line if nobody catches it."""
    show = sys.excepthook

    def hook(kind: type[BaseException], found: BaseException, trace: TracebackType | None) -> None:
        if found is error:
            print(f"KeyboardInterrupt: {error}", file=sys.stderr)
        else:
            show(kind, found, trace)

    sys.excepthook = hook
    return error


_OWN = re.compile(r"^hydrophone\.errors\.(\w+): (.*)(?:\n  at (.*))?(?:\n  Hint: (.*))?", re.MULTILINE)


@contextmanager
def _own_errors(checkpoint: str) -> Iterator[None]:
    """An error of ours that Spark brings from a task as text, raised as what it was, and one about the checkpoint; Spark's is its cause."""
    from pyspark.errors import StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        if "CONCURRENT_STREAM_LOG_UPDATE" in str(error):
            raise checkpoint_in_use("of this query") from error
        found = _OWN.search(str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found is None or kind is None:
            damage = state_damage(str(error), checkpoint)
            if damage is None:
                raise
            raise damage from error
        raise kind(found[2], where=found[3], hint=found[4]) from error


@contextmanager
def start_errors(checkpoint: str) -> Iterator[None]:
    """What Spark says of queries that are in each other's way."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = str(error)
        if named := re.search(r"Cannot start query with name (.*?) as a query with that name is already active", text):
            raise ParameterError(
                f"start: a query with the name {named[1]!r} runs in this session already", hint="choose another name="
            ) from None
        if "CONCURRENT_QUERY" in text or "same id is already active" in text:
            raise checkpoint_in_use(checkpoint) from None
        raise
