"""A checkpoint that is not what it was, or not for this query: what is said, and how a stream that ends leaves its results."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from tests.spark.test_streaming import arrive, readings

import hydrophone as hp
from hydrophone.spark.streaming.running import RunningQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def query(home: Path, *, size: int = 3_000, progress: Any = None, schema: Any = None, column: str = "v") -> Any:
    promise = progress or hp.delayed("10ns")
    stream = hp.read.parquet(str(home / "in"), key="k", time="t", progress=promise, schema=schema)
    return stream.tumble(size).agg(n=hp.count(), top=hp.max(column))


@pytest.fixture(scope="module")
def ran(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, RunningQuery, list[str]]]:
    """A stream that has taken three files, one in each micro-batch; the tests work on its checkpoint, and put it back."""
    home = tmp_path_factory.mktemp("checkpoints")
    arrive(home / "in", [readings(n) for n in range(3)])
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hydrophone").addHandler(handler)
    running = start(spark, home, query(home))
    running.wait()
    logging.getLogger("hydrophone").removeHandler(handler)
    yield home, running, said
    shutil.rmtree(home)


def start(spark: SparkSession, home: Path, given: Any) -> Any:
    to, checkpoint = hp.write.parquet(str(home / "out")), str(home / "c")
    return given.start(spark, to=to, checkpoint=checkpoint, trigger="available", files_per_batch=1)


# --- the end of what is there -----------------------------------------------------------------------------------------


def test_windows_that_are_still_open_are_told(ran: tuple[Path, RunningQuery, list[str]]) -> None:
    _, running, said = ran
    status = running.status
    assert status["waiting"] == 5 and status["passed"] == 3_000  # a window of each key, and the last row is at 5990
    assert status["complete_until"] == "1970-01-01T00:00:00.000003000"
    (line,) = [line for line in said if "open windows" in line]
    assert "5 open windows" in line and "complete up to 1970-01-01T00:00:00.000003000:" in line


# --- Spark's logs -----------------------------------------------------------------------------------------------------

DAMAGES: dict[str, tuple[Callable[[bytes], bytes | None], str]] = {
    "empty": (lambda data: b"", "is damaged: it is empty"),
    "cut off": (lambda data: data[: len(data) // 2], "is damaged: it"),
    "other bytes": (lambda data: bytes(range(128, 256)), "is damaged: it holds no text"),
    "other text": (lambda data: b"To be, or not to be", "is damaged: it"),
    "missing": (lambda data: None, "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["metadata", "offsets/1", "offsets/2", "commits/1", "sources/0/0", "sources/0/2"])
def test_damaged_logs_of_spark_are_named(
    spark: SparkSession, ran: tuple[Path, RunningQuery, list[str]], name: str, damage: str
) -> None:
    home = ran[0]
    file, (spoil, says) = home / "c" / name, DAMAGES[damage]
    good = file.read_bytes()
    try:
        file.unlink()
        if (bad := spoil(good)) is not None:
            file.write_bytes(bad)
        with pytest.raises(hp.DataError, match=rf"start: {re.escape(str(file))} {says}") as told:
            start(spark, home, query(home))
        assert "new checkpoint" in str(told.value.hint)
    finally:
        file.write_bytes(good)


def test_damaged_state_is_named(spark: SparkSession, ran: tuple[Path, RunningQuery, list[str]], tmp_path: Path) -> None:
    """The state is read by tasks, when the query runs."""
    for name in ("in", "out", "c"):
        shutil.copytree(ran[0] / name, tmp_path / name)
    shutil.copytree(ran[0] / "c", tmp_path / "good")
    arrive(ran[0] / "in", [readings(3)], first=3)
    try:
        for file in (ran[0] / "c" / "state").rglob("3.changelog"):
            file.write_bytes(file.read_bytes()[:20])
        with pytest.raises(hp.DataError, match=r"start: \S*/state/\S+ is damaged or missing") as told:
            start(spark, ran[0], query(ran[0])).wait()
        assert "new checkpoint" in str(told.value.hint)
    finally:
        (ran[0] / "in" / "part-0003.parquet").unlink()
        shutil.rmtree(ran[0] / "c")
        shutil.copytree(tmp_path / "good", ran[0] / "c")


# --- another query ----------------------------------------------------------------------------------------------------


def test_what_changed_in_a_query_is_told(spark: SparkSession, ran: tuple[Path, RunningQuery, list[str]]) -> None:
    home = ran[0]
    narrow = {"k": "int64", "t": "int64", "v": "float32"}
    changes: dict[str, tuple[Any, list[str]]] = {
        "promise": (
            query(home, progress=hp.delayed("2s")),
            [r"then: .*promises delay=10ns", r"now: .*promises delay=2s"],
        ),
        "size": (query(home, size=4_000), [r"then: stage 0: tumble\(size=3000", r"now: +stage 0: tumble\(size=4000"]),
        "type": (query(home, schema=narrow), ["then: .*column v is double", "now: .*column v is float"]),
    }
    for changed, says in changes.values():
        with pytest.raises(hp.StateVersionError, match="was made by another query:") as told:
            start(spark, home, changed)
        for text in says:
            assert re.search(text, str(told.value)), told.value
        assert "time t" not in str(told.value) and "new checkpoint" in str(
            told.value.hint
        )  # what is the same is not said


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, hydrophone as hp
from hydrophone.spark.session import session
rows = hp.read.parquet(sys.argv[1] + "/in", key="k", time="t", progress=hp.delayed("1h"))
running = rows.start(session(), to=hp.write.parquet(sys.argv[1] + "/out"), checkpoint=sys.argv[1] + "/c")
running.process_all_available()
print("waiting", flush=True)
print("waiting", file=sys.stderr, flush=True)
running.wait()
print("not reached")
"""


def test_an_interrupt_stops_the_stream_and_is_one_line(tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "waiting\n"
        time.sleep(1)
        os.killpg(script.pid, signal.SIGINT)  # as a terminal does: to all processes
        out, log = script.communicate(timeout=120)
    after = log.partition("waiting\n")[2]
    assert script.returncode in (130, -signal.SIGINT) and out == ""
    assert "KeyboardInterrupt: the stream is stopped; start goes on from its checkpoint" in after
    assert "Traceback" not in after and "ERROR" not in after and len(after.splitlines()) <= 5, after
    assert len(ds.dataset(str(tmp_path / "out"), format="parquet").to_table()) == 200
