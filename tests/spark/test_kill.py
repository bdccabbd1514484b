"""A streaming query that is killed, again and again: its output is that of a run that never was."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases.table import assert_same, rows
from tests.spark import streaming_job
from tests.spark.test_streaming import arrive, contents, folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]


class Job:
    """The query in a process group of its own: driver, JVM and (in groups that die with it) Python workers."""

    def __init__(self, home: Path, source: Path, module: str = "tests.spark.streaming_job") -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.log = (home / "log").open("ab")
        command = [sys.executable, "-m", module, str(home), str(source)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])}
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def until(self, happened: Callable[[], bool], seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert self.process.poll() is None, f"the job ended with {self.process.returncode}, see {self.home}/log"
            assert time.monotonic() < deadline, f"the job hangs, see {self.home}/log"
            time.sleep(0.02)

    def until_done(self, count: int) -> None:
        self.until(lambda: self.done() >= count)

    def done(self) -> int:
        """Micro-batches whose results are written."""
        return len(list((self.home / "out").glob("batch=*/_SUCCESS")))

    def kill(self) -> None:
        """Driver and JVM at once; and no worker may outlive them for long."""
        workers = self.workers()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        psutil.wait_procs(workers, timeout=30)

    def kill_worker(self) -> None:
        for worker in self.workers()[-1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()

    def workers(self) -> list[psutil.Process]:
        """Python workers, the daemon that forks them first."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "pyspark.daemon" in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def finish(self, seconds: float = 400) -> None:
        assert self.process.wait(seconds) == 0, (self.home / "log").read_text()[-5000:]

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self.log.close()


def write_input(folder: Path, files: int) -> None:
    rng = np.random.default_rng(3)
    for number in range(files):
        t = rng.permutation(np.arange(number * 300, (number + 1) * 300))
        if number % 3 == 2:
            t = np.append(t, np.arange(5) + (number - 2) * 300)  # late ones
        arrive(folder, [pa.table({"k": t % 7, "t": t * 10, "v": np.sin(t)})], first=number)


def answers(home: Path) -> tuple[list[int], list[list[str]], list[tuple[int, ...]]]:
    """Folders, the rows of each in their order, and the late rows."""
    written = folders(home / "out")
    late = sorted(zip(*(c.to_pylist() for c in pq.read_table(home / "late").columns), strict=True))
    return written, [contents(home / "out" / f"batch={b}") for b in written], late


def ends(home: Path) -> list[int]:
    """The last file of every micro-batch, by number.

    Spark notes new files before it notes the micro-batch that takes them; killed in between, it puts the next file with them.
    """
    logs = sorted((home / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name))
    return [json.loads(p.read_text().splitlines()[-1])["logOffset"] for p in logs]


def assert_never_killed(home: Path, whole: Path) -> None:
    """The same rows, each once; and the same files, bit by bit, where every micro-batch took the same input."""
    assert folders(home / "out") == list(range(len(ends(home))))
    if ends(home) == ends(whole):
        assert answers(home) == answers(whole)
        return
    for folder in ("out", "late"):
        found, expected = (pq.read_table(place / folder).drop_columns("batch") for place in (home, whole))
        assert_same(rows(found), rows(expected), 1e-12)  # a sum of floats has its last bits from the order of rows


def uninterrupted(spark: SparkSession, home: Path, source: Path) -> None:
    streaming_job.start(spark, home, source).wait()


@pytest.mark.timeout(900)
def test_killed_at_the_worst_moments(spark: SparkSession, tmp_path: Path) -> None:
    source, home = tmp_path / "in", tmp_path / "killed"
    write_input(source, 6)
    home.mkdir()
    (home / "pause").write_text("1")
    with Job(home, source) as job:
        uninterrupted(spark, tmp_path / "whole", source)
        job.until((home / "paused").exists)
        commits = {p.name for p in (home / "checkpoint" / "commits").iterdir()}
        assert "0" in commits and "1" not in commits, "this kill is meant for the moment between sink and commit log"
        job.kill()
    (home / "pause").unlink()
    with Job(home, source) as job:
        job.until_done(3)
        job.kill_worker()
        job.until_done(4)
        job.kill()
    with Job(home, source) as job:
        job.finish()
    assert_never_killed(home, tmp_path / "whole")
    assert folders(home / "out") == list(range(6))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_twenty_times_at_random(spark: SparkSession, tmp_path: Path) -> None:
    source, home = tmp_path / "in", tmp_path / "killed"
    write_input(source, 60)
    uninterrupted(spark, tmp_path / "whole", source)
    rng = random.Random(11)
    kills = 0
    while kills < 20:
        with Job(home, source) as job:
            before = job.done()
            # Often before the first micro-batch of this run is through, at times after one or two.
            job.until_done(before + rng.choice([0, 1, 1, 2]))
            time.sleep(rng.uniform(0, 12) if job.done() == before else rng.uniform(0, 2))
            if rng.random() < 0.3:
                job.kill_worker()
                time.sleep(rng.uniform(0, 2))
            job.kill()
        kills += 1
    with Job(home, source) as job:
        job.finish(1200)
    assert_never_killed(home, tmp_path / "whole")
    assert ends(home)[-1] == 59
