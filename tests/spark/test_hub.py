"""A hub on real Spark: queries join, pause, fail and leave, the stream stops and goes on, and each gives the answer of its interval."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases.table import assert_same, rows
from tests.spark.test_streaming import arrive, result

import hydrophone as hp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def readings(number: int, count: int = 300) -> pa.Table:
    """Five keys, each with a reading every 50 ns, in disorder."""
    index = np.random.default_rng(number).permutation(np.arange(number * count, (number + 1) * count))
    return pa.table({"k": index % 5, "t": index // 5 * 50, "v": np.sin(index / 7)})


def broken(values: np.ndarray) -> np.ndarray:
    if values.shape[1:] == (3,) and np.any(values):
        raise ZeroDivisionError("broken by the user")
    return values


def in_interval(query: Any, found: Any, spans: list[tuple[int | None, int | None]], last: int, owner: int) -> None:
    """The rows of an in-process run that lie in some intervals and are final, and the same rows of the hub."""
    low_high = [(-(2**62) if a is None else a, min(last, last if b is None else b)) for a, b in spans]
    wanted = [r for r in rows(query.to_arrow()) if any(a <= r[owner] < b for a, b in low_high)]
    assert wanted
    assert_same([r for r in rows(found) if r[owner] < last], wanted, 1e-9)


class Patient:
    """A hub whose stream is started again where the machine was too busy for Spark, which gives a Python process ten seconds."""

    def __init__(self, spark: SparkSession, home: Path, hub: hp.Hub) -> None:
        self.spark, self.home, self.hub = spark, home, hub

    def take(self) -> None:
        for left in reversed(range(6)):
            try:
                self.hub.process_all_available()
            except Exception as error:
                if not left or not any(busy in str(error) for busy in ("CANNOT_OPEN_SOCKET", "failed to connect back")):
                    raise
                memory = self.hub._memory
                self.hub.stop()
                self.hub = hp.Hub.resume(self.spark, self.home)
                self.hub._memory |= memory
            else:
                return


@pytest.mark.timeout(900)
def test_queries_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    folder, home = tmp_path / "in", tmp_path / "hub"
    arrive(folder, [readings(0), readings(1)])

    def source() -> hp.Stream:
        return hp.read.parquet(str(folder), key="k", time="t", progress=hp.delayed(100))

    def queries() -> dict[str, Any]:
        readings = source()
        smooth = readings.signal("v").sample(50).fir((0.5, 0.25, 0.25))
        return {
            "counts": readings.tumble(1000).agg(n=hp.count(), s=hp.sum("v")),
            "total": smooth.events().key_by().tumble("1us").agg(level=hp.sum("value"), n=hp.count()),
            "windows": smooth.window(4),
            "broken": smooth.window(3).map(broken),
            "gone": readings.where(hp.col("v") > 0),
        }

    def to(name: str) -> Any:
        return hp.write.parquet(str(tmp_path / name))

    made, options = queries(), {"checkpoint": str(home), "files_per_batch": 1, "shards": 2}
    hub = hp.Hub(spark, source(), running=False, **options)
    counts = hub.subscribe(made["counts"], to=to("counts"), name="counts")
    assert counts.state == "waiting"
    hub.start()
    patient = Patient(spark, home, hub)
    patient.take()
    hub = patient.hub
    assert counts.state == "running" and counts.interval == (None, None) and counts.mark is not None

    # An idle stream hears of requests; the sink of another query, and a name that is used, are refused.
    memory = hp.write.memory()
    total = hub.subscribe(made["total"], to=to("total"), name="total")
    windows = hub.subscribe(made["windows"], to=memory, name="windows")
    failing = hub.subscribe(made["broken"], to=to("broken"), name="broken")
    gone = hub.subscribe(made["gone"], to=to("gone"), name="gone")
    with pytest.raises(hp.ParameterError, match="holds results of another query"):
        hub.subscribe(made["gone"], to=to("counts"), name="other")
    with pytest.raises(hp.ParameterError, match="a query named 'total' runs in this hub already"):
        hub.subscribe(made["gone"], to=to("other"), name="total")
    patient.take()
    assert total.wait_until_runs(0)
    shutil.rmtree(tmp_path / "gone")  # the sink fails
    arrive(folder, [readings(2)], first=2)
    patient.take()
    assert failing.state == "failed" and "broken by the user" in str(failing.error)
    assert gone.state == "failed" and "is gone or was emptied" in str(gone.error)
    assert [q.state for q in (counts, total, windows)] == ["running"] * 3
    windows.pause()
    patient.take()
    assert windows.state == "paused"
    assert sum(p["late"].get(0, 0) for p in patient.hub.progress) == 0
    patient.hub.stop()

    # The memory of a process that goes on with a hub is another one's.
    patient = Patient(spark, home, hp.Hub.resume(spark, str(home)))
    arrive(folder, [readings(3)], first=3)
    patient.take()
    assert {n: q.state for n, q in patient.hub.queries().items()} == {
        "counts": "running",
        "total": "running",
        "windows": "failed",
        "broken": "failed",
        "gone": "failed",
    }
    patient.hub.unsubscribe("counts")
    arrive(folder, [readings(4)], first=4)
    patient.take()
    patient.hub.stop()
    made = queries()
    counts, total = hub.query("counts"), hub.query("total")
    assert (
        counts.state == "done" and total.state == "running" and total.mark is not None and total.interval[0] is not None
    )
    assert counts.interval[1] is not None
    in_interval(made["counts"], result(tmp_path / "counts"), [counts.interval], counts.interval[1], 1)
    in_interval(made["total"], result(tmp_path / "total"), [total.interval], total.mark, 0)
    start, _ = windows.interval
    assert start is not None and windows.rows == len(memory.to_arrow())
