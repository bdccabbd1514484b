"""One query in every way on a session of another kind, in a process of its own: ``python -m tests.spark.scale_out_job KIND HOME``.

A process holds one kind of Spark session, and that of the other tests is classic and local. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.spark.ship import ship
from hydrophone.spark.titles import described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connect() -> SparkSession:
    """A Spark Connect server at a free port, and a session of it."""
    from pyspark.sql import SparkSession

    from hydrophone.spark.java import use_java

    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_TESTING"] = "1"  # Spark takes any free port then, and the client asks for it
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {"host": "127.0.0.1", "bindAddress": "127.0.0.1"}.items():
        builder = builder.config(f"spark.driver.{name}", value)
    return builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()


def cluster() -> SparkSession:
    """A master, and two workers with an executor each, which are processes of their own."""
    import pyspark

    from hydrophone.spark.session import session

    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    conf = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"}
    return session("scale-out", cores=2, conf=conf)


KINDS: dict[str, Callable[[], SparkSession]] = {"connect": connect, "cluster": cluster}


def smooth(readings: hp.Stream) -> hp.UniformSignal:
    return readings.signal("v").sample(10, fill=hp.linear(max_gap=100)).fir([0.5, 0.25, 0.125])


def seen(table: pa.Table) -> list[list[Any]]:
    return sorted(map(list, zip(*(table[n].to_pylist() for n in ("k", "t", "value")), strict=True)))


def noted(signal: hp.UniformSignal, folder: str) -> hp.UniformSignal:
    """The same signal; tasks write down where they found the package."""
    driver = os.getpid()

    def note(windows: Any) -> Any:
        if os.getpid() != driver:
            Path(folder, str(os.getpid())).write_text(hp.__file__)
        return windows

    return signal.window(1).map(note).overlap_add()


def whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a worker found the package, and which process it belongs to."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [hp.__file__], "parent": [os.getppid()]})


def description(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the job of this task says that it does."""
    from pyspark import TaskContext

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"text": [TaskContext.get().getLocalProperty("spark.job.description")]})


def main(kind: str, home: Path) -> dict[str, Any]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have the tests
    spark = KINDS[kind]()
    found: dict[str, Any] = {"session": type(spark).__module__}
    # Through Connect a session of its own is sent the package: the other runs the compiled kernels that are there.
    sent = spark.newSession() if kind == "connect" else spark
    ship(sent)
    ship(sent)
    workers = sent.range(0, 4, 1, 4).mapInArrow(whereabouts, "file string, parent long").collect()
    found["files"] = sorted({w.file for w in workers})
    (home / "seen").mkdir()
    readings = hp.read.parquet(str(home / "in"), key="k", time="t", progress=hp.delayed("100ns"))
    found["slices"] = seen(smooth(readings).to_spark(spark, plan="slices", slices=2).toArrow())
    found["shards"] = seen(smooth(readings).to_spark(spark, plan="shards", shards=2).toArrow())
    frame = hp.from_spark(spark.read.parquet(str(home / "in")), key="k", time="t")
    found["frame"] = seen(smooth(frame).to_spark(spark).where("k = 1").toArrow())
    query = noted(smooth(readings), str(home / "seen")).start(
        spark,
        to=hp.write.parquet(str(home / "out")),
        checkpoint=str(home / "checkpoint"),
        shards=2,
        trigger="available",
    )
    query.wait()
    found["stream"] = seen(pq.read_table(home / "out"))
    found["progress"] = query.progress
    found["stream files"] = sorted({p.read_text() for p in (home / "seen").iterdir()})
    with described(spark, "one row"):
        found["described"] = spark.range(1).mapInArrow(description, "text string").first().text
    if kind == "connect":
        try:
            smooth(readings).start(spark, to=hp.write.memory(), checkpoint=str(home / "memory"))
        except hp.UnsupportedError as error:
            found["memory"] = str(error)
    spark.stop()
    return found


if __name__ == "__main__":
    sys.modules["tests.spark.scale_out_job"] = sys.modules["__main__"]
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
