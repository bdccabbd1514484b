"""A hub on real Spark: queries join, pause, fail and leave, the stream stops and goes on, and each gives the answer of its interval."""

from __future__ import annotations

import shutil
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases.table import assert_same, rows
from tests.spark.test_streaming import arrive, result

import hydrophone as hp
from hydrophone.cli.commands import main

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
        for left in reversed(range(8)):
            try:
                self.hub.process_all_available()
            except Exception as error:
                if not left or not any(busy in str(error) for busy in ("CANNOT_OPEN_SOCKET", "failed to connect back")):
                    raise
                sleep(2 ** (8 - left) / 4)
                memory = self.hub._memory
                self.hub.stop()
                self.hub = hp.Hub.resume(self.spark, self.home)
                self.hub._memory |= memory
            else:
                return


@pytest.mark.timeout(1200)
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
    patient.take()  # so that the interval ends before the rows that come now
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


QUERIES = """
import hydrophone as hp

readings = hp.read.parquet("{folder}", key="k", time="t", progress=hp.delayed(100))
loud = readings.where(hp.col("v") > 0.5)
double = readings.select("v")
others = hp.read.parquet("{folder}", key="k", time="t", progress=hp.delayed(1), name="others")
"""


def test_the_shell_asks_through_files(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, home, file = tmp_path / "in", tmp_path / "hub", tmp_path / "pipeline.py"
    arrive(folder, [readings(0)])
    file.write_text(QUERIES.format(folder=folder))
    source = hp.read.parquet(str(folder), key="k", time="t", progress=hp.delayed(100))
    hub = hp.Hub(spark, source, checkpoint=home, running=False, shards=1)

    def shell(*words: str) -> tuple[int, str]:
        code = main(["hub", words[0], str(home), *words[1:]])
        said = capsys.readouterr()
        return code, said.out + said.err

    def subscribe(query: str, name: str) -> tuple[int, str]:
        return shell("subscribe", f"{file}:{query}", "--name", name, "--to", str(tmp_path / name), "--wait", "0")

    assert subscribe("loud", "loud") == (0, "loud: waiting\n")
    assert hub.query("loud").state == "waiting"
    code, said = subscribe("double", "loud")
    assert code == 1 and "a query named 'loud' runs in this hub already" in said
    code, said = subscribe("others", "others")
    assert code == 1 and "the hub has no source others" in said
    code, said = shell("list")
    assert code == 0 and "loud" in said and "waiting" in said
    assert shell("unsubscribe", "loud", "--now")[0] == 0
    code, said = shell("unsubscribe", "nobody")
    assert code == 2 and "no query 'nobody'" in said
    assert shell("stop")[0] == 0
    asked = [said["ask"] for _, said in hub._folder.requests.after(-1) if isinstance(said, dict)]
    assert asked == ["subscribe", "unsubscribe", "stop"]
    with pytest.raises(hp.ParameterError, match="another stream runs with the checkpoint"):
        hp.Hub(spark, source, checkpoint=home, running=False)
    hub.stop()
    with pytest.raises(hp.StateVersionError, match="was made by another query"):
        hp.Hub(spark, source, checkpoint=home, stages=1, running=False)


def test_what_cannot_be_a_hub_or_join_one(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    source = hp.read.parquet(str(tmp_path / "in"), key="k", time="t", progress=hp.delayed(100))
    made = {"checkpoint": tmp_path / "hub", "running": False}
    with pytest.raises(hp.PlanError, match="where is a query, and a hub is made over sources"):
        hp.Hub(spark, source.where(hp.col("v") > 0), **made)
    with pytest.raises(hp.ParameterError, match="is given twice"):
        hp.Hub(spark, source, source, **made)
    with pytest.raises(hp.ParameterError, match="stages must be at least 1"):
        hp.Hub(spark, source, stages=0, **made)
    with pytest.raises(hp.PlanError, match="promises no progress"):
        hp.Hub(spark, hp.read.parquet(str(tmp_path / "in"), key="k", time="t"), **made)
    with pytest.raises(hp.ParameterError, match="a hub needs a source"):
        hp.Hub(spark, **made)
    with pytest.raises(hp.ParameterError, match="it holds no hub"):
        hp.Hub.resume(spark, tmp_path / "nothing")
    hub = hp.Hub(spark, source, **made)
    with pytest.raises(hp.UnsupportedError, match="the tasks of a hub cannot write"):
        hub.subscribe(source, to=hp.write.csv(str(tmp_path / "out")), name="a")
    with pytest.raises(hp.ParameterError, match="overlap"):
        hub.subscribe(source, to=hp.write.parquet(str(tmp_path / "hub" / "out")), name="a")
    with pytest.raises(hp.UnsupportedError, match="keeps no rows"):
        hub.subscribe(source, to=hp.write.memory(), name="a", start="history")
    assert hub.queries() == {} and hub.explain() == "no query runs"
    hub.stop()
