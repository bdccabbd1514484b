"""The same answers through Spark Connect, and on executors that are processes of their own and got the package from us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark import scale_out_job
from tests.spark.test_streaming import arrive

import hydrophone as hp

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]


def run(kind: str, home: Path, *, installed: bool) -> dict[str, Any]:
    """What a job of another kind of session finds, over readings of three keys in two files."""
    t = np.arange(300)
    table = pa.table({"k": t % 3, "t": t // 3 * 10, "v": np.sin(t)})
    arrive(home / "in", [table.slice(0, 150), table.slice(150)])
    package, environment = str(Path(hp.__file__).parents[1]), dict(os.environ)
    # Only the driver finds the package by this path: whatever the executors run, they were sent.
    driver = f"import sys, runpy; sys.path[:0] = {[str(REPOSITORY), package]!r}; "
    driver += (
        f"sys.argv[1:] = {[kind, str(home)]!r}; runpy.run_module('tests.spark.scale_out_job', run_name='__main__')"
    )
    environment.pop("PYTHONPATH", None)
    if installed:
        environment["PYTHONPATH"] = package
    with (home / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-c", driver], cwd=home, env=environment, stdout=-1, stderr=log, text=True, timeout=240
        )
    assert done.returncode == 0, (home / "log").read_text()[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    check(found, home)
    return found


def check(found: dict[str, Any], home: Path) -> None:
    readings = hp.read.parquet(str(home / "in"), key="k", time="t")
    wanted = scale_out_job.seen(scale_out_job.smooth(readings).to_arrow())
    assert len(wanted) == 300
    assert found["slices"] == wanted
    assert found["shards"] == wanted
    assert found["frame"] == [row for row in wanted if row[0] == 1]
    assert found["stream"] == [row for row in wanted if row[:2] in [r[:2] for r in found["stream"]]] != []
    assert all(sent(file) for file in found["files"])
    assert found["described"] == "one row"
    (progress,) = found["progress"]
    assert progress["rows"] == 300 and progress["results"] == len(found["stream"]) and progress["keys"] == 3


def sent(file: str) -> bool:
    return file.endswith(".zip/hydrophone/__init__.py")


def test_through_spark_connect(tmp_path: Path) -> None:
    # What a session sends does not reach the stateful tasks of its streams, so the server has the package too.
    found = run("connect", tmp_path, installed=True)
    assert found["session"] == "pyspark.sql.connect.session"
    assert "cannot stay in this process" in found["memory"]


def test_on_executors_of_their_own(tmp_path: Path) -> None:
    found = run("cluster", tmp_path, installed=False)
    assert all(sent(file) for file in found["stream files"]) and found["stream files"]
    assert found["session"] == "pyspark.sql.session"
