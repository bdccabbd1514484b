"""A hub that is killed, again and again, while queries join and leave: its files are those of a hub that never was."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark import hub_job
from tests.spark.test_kill import Job, write_input

from hydrophone.spark.hub import stream, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILES = 6


class HubJob(Job):
    def __init__(self, home: Path, source: Path) -> None:
        super().__init__(home, source, "tests.spark.hub_job")

    def done(self) -> int:
        return len(list((self.home / "hub" / "commits").glob("[0-9]*")))


@contextmanager
def undisturbed(spark: SparkSession, home: Path, source: Path) -> Iterator[None]:
    try:
        hub_job.run(spark, home, source)
        yield
    finally:
        stream.HubWriter = writer.HubWriter  # type: ignore[misc]


def files(home: Path) -> dict[str, bytes]:
    """All results and late rows, bit by bit."""
    found = [p for folder in ("out", "late") for p in (home / folder).rglob("*") if p.is_file()]
    return {
        str(p.relative_to(home)): p.read_bytes()
        for p in found
        if p.name.startswith(("part", "_SUCCESS")) and "_drafts" not in str(p)
    }


def pins(home: Path) -> list[dict[str, object]]:
    """What micro-batches ran, but for the tokens of sinks, which are drawn at random, and plans, whose pickles may differ."""
    found = [
        json.loads(p.read_text()) for p in sorted((home / "hub" / "pins").glob("*.json"), key=lambda p: int(p.stem))
    ]
    for pin in found:
        for query in (*pin["queries"], *pin["ended"]):
            del query["token"], query["plan"]
    return found


def assert_never_killed(home: Path, whole: Path) -> None:
    assert pins(home) == pins(whole)
    found, wanted = files(home), files(whole)
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == []
    assert len(wanted) > 30 and {name.split("/")[1] for name in wanted} >= {"counts", "total", "loud", "high"}


def hold(home: Path, batch: int, place: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "paused").unlink(missing_ok=True)
    (home / "pause").write_text(json.dumps([batch, place]))


@pytest.mark.timeout(900)
def test_killed_between_sink_and_pin_and_between_pin_and_commit(spark: SparkSession, tmp_path: Path) -> None:
    source, home = tmp_path / "in", tmp_path / "killed"
    write_input(source, FILES)
    hold(home, 1, "pin")
    with HubJob(home, source) as job, undisturbed(spark, tmp_path / "whole", source):
        job.until((home / "paused").exists)
        assert (home / "out" / "counts" / "batch=1").exists() and not (home / "hub" / "pins" / "2.json").exists()
        job.kill()
    hold(home, 3, "commit")
    with HubJob(home, source) as job:
        job.until((home / "paused").exists)
        assert (home / "hub" / "pins" / "4.json").exists() and not (home / "hub" / "commits" / "3").exists()
        job.kill()
    (home / "pause").unlink()
    with HubJob(home, source) as job:
        job.finish()
    assert_never_killed(home, tmp_path / "whole")


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_killed_fifty_times_at_random(spark: SparkSession, tmp_path: Path) -> None:
    """Driver and workers, at any moment; of every third kill the moment between sink and pin, or between pin and commit."""
    source, home = tmp_path / "in", tmp_path / "killed"
    write_input(source, 40)
    with undisturbed(spark, tmp_path / "whole", source):
        pass
    rng = random.Random(13)
    home.mkdir()
    for kill in range(50):
        held = kill % 3 == 0
        before = len(list((home / "hub" / "commits").glob("[0-9]*")))
        if held:
            hold(home, before + rng.choice([0, 1]), rng.choice(["pin", "commit"]))
        else:
            (home / "pause").unlink(missing_ok=True)
        with HubJob(home, source) as job:
            if held:
                job.until(lambda job=job: (home / "paused").exists() or job.process.poll() is not None)
            else:
                job.until_done(before + rng.choice([0, 0, 1]))
                time.sleep(rng.uniform(0, 12) if job.done() == before else rng.uniform(0, 2))
                if rng.random() < 0.3:
                    job.kill_worker()
                    time.sleep(rng.uniform(0, 2))
            job.kill()
    (home / "pause").unlink(missing_ok=True)
    with HubJob(home, source) as job:
        job.finish(1200)
    assert_never_killed(home, tmp_path / "whole")
