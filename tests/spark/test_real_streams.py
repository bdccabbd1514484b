"""Cases as real Spark streams: files arrive, micro-batches run, the stream stops in the middle and goes on from its checkpoint.

The answer must be the case's own, whole: the last file carries a mark after which nothing comes. Before it goes on,
all Python workers are killed, so that no shard lives on in memory and its state comes from the checkpoint alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
import pytest
from tests.cases import Case, Source
from tests.choice import asked, for_a_stream
from tests.spark.test_streaming import arrive

import hydrophone as hp
from hydrophone.api import Query
from hydrophone.model.time import LAST_DATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hydrophone.spark.streaming.running import RunningQuery

pytestmark = pytest.mark.spark

MARK = "arrival mark"
"""The column of marks, which the query does not see."""
FILES = 3
"""Of every source, and so micro-batches."""
BEFORE = 2
"""Micro-batches before the stream stops: the second finds live shards, the third only what the checkpoint has."""
TOGETHER = 3
"""Streams that run at once: most of their time they wait for each other's tasks, logs and processes."""
GROUP = 40
"""Cases whose workers are killed at once, and then must import all again; their answers are there before the next group begins."""

ATTEMPTS = 5
"""Where the machine is so busy that ten seconds are too few, a stream goes on from its checkpoint, alone and after a pause."""


def over_files(case: Case, home: Path) -> Query:
    """The query over folders that files arrive in; the first of them are there."""
    streams = {}
    for name, source in case.inputs.items():
        folder = home / name
        arrive(folder, parts(source)[:BEFORE])
        options = {**source.options, "progress": hp.punctuated(MARK)}
        columns = [n for n in source.table.column_names if n not in (*source.keys, source.time, source.end)]
        streams[name] = hp.read.parquet(folder, **options).select(*columns)
    return case.build(streams)


def parts(source: Source) -> list[pa.Table]:
    """The rows in any order, in a few files, each ending in a row without time that says what no later file will hold."""
    order = np.random.default_rng(len(source.table)).permutation(len(source.table))
    starts, cuts = source.starts(), np.array_split(order, FILES)
    found = []
    for number, rows in enumerate(cuts, 1):
        rest = order[sum(map(len, cuts[:number])) :]
        mark = int(starts[rest].min()) if number < FILES and len(rest) else LAST_DATE
        silent = pa.table({MARK: pa.array([mark], pa.int64())})
        table = source.table.take(pa.array(rows, pa.int64())).append_column(MARK, pa.nulls(len(rows), pa.int64()))
        found.append(pa.concat_tables([table, silent], promote_options="default").select(table.column_names))
    return found


def kill_workers(spark: SparkSession) -> None:
    """End all Python workers; the daemon that forks them stays."""
    java = psutil.Process(spark.sparkContext._gateway.proc.pid)
    workers = [w for p in java.children(recursive=True) if is_daemon(p) for w in p.children()]
    for worker in workers:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()
    psutil.wait_procs(workers, timeout=30)


def is_daemon(process: psutil.Process) -> bool:
    """Whether it forks Python workers; the process that a stream was started with may have just ended."""
    try:
        return "pyspark.daemon" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


class Streams:
    """The answers of cases, each as a stream of its own; a part of the input, then a kill, then the rest."""

    def __init__(self, spark: SparkSession, home: Path, cases: list[Case]) -> None:
        self.spark, self.home, self.cases = spark, home, cases
        self.failed: dict[str, Exception] = {}
        self.queries: dict[str, Query] = {}
        self.sinks = {c.name: hp.write.memory() for c in cases}
        self.alone = Lock()

    def of(self, case: Case) -> pa.Table:
        """The answer, or why there is none."""
        if case.name not in self.queries:
            at = self.cases.index(case) // GROUP * GROUP
            self._answer(self.cases[at : at + GROUP])
        if case.name in self.failed:
            raise self.failed[case.name]
        return self.sinks[case.name].to_arrow()

    def _answer(self, cases: list[Case]) -> None:
        self.queries |= {c.name: over_files(c, self._folder(c)) for c in cases}
        self._run(cases, BEFORE)
        kill_workers(self.spark)
        for case in cases:
            for name, source in case.inputs.items():
                arrive(self._folder(case) / name, parts(source)[BEFORE:], BEFORE)
        self._run(cases, FILES)

    def _run(self, cases: list[Case], batches: int) -> None:
        names = [c.name for c in cases]
        with ThreadPoolExecutor(TOGETHER) as threads:
            for name, error in zip(names, threads.map(lambda name: self._one(name, batches), names), strict=True):
                if error is not None:
                    self.failed.setdefault(name, error)

    def _one(self, name: str, batches: int) -> Exception | None:
        """Start a stream, from its checkpoint if there is one, and wait until it has taken what is there."""
        for attempt in range(ATTEMPTS):
            try:
                with self.alone if attempt else contextlib.nullcontext():
                    sleep(2**attempt if attempt else 0)
                    self._start(name).wait()
            except Exception as error:  # of one stream; the others go on
                failed = error
                if not any(busy in str(error) for busy in ("CANNOT_OPEN_SOCKET", "failed to connect back")):
                    return error
            else:
                assert sorted(self.sinks[name].batches) == list(range(batches))
                return None
        return failed

    def _start(self, name: str) -> RunningQuery:
        return self.queries[name].start(
            self.spark,
            to=self.sinks[name],
            checkpoint=str(self.home / "checkpoints" / name.replace("/", "_")),
            late=hp.late.error(),
            shards=2,
            files_per_batch=1,
            trigger="available",
        )

    def _folder(self, case: Case) -> Path:
        return self.home / case.name.replace("/", "_")


@pytest.fixture(scope="module")
def streams(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Streams:
    """All cases that this run of pytest asks for."""
    return Streams(spark, tmp_path_factory.mktemp("streams"), asked(request, "test_stopped_and_started_again"))


@pytest.mark.timeout(3600)
@for_a_stream()
def test_stopped_and_started_again(case: Case, streams: Streams, golden: Callable[..., None]) -> None:
    answer = streams.of(case)
    case.check(answer)
    golden("streams", case, answer)
