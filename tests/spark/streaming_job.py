"""A streaming query in a process of its own, for tests that kill it: ``python -m tests.spark.streaming_job HOME``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydrophone as hp
from hydrophone.spark.streaming import query as streaming
from hydrophone.spark.streaming import sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hydrophone.spark.streaming.running import RunningQuery

SHARDS = 2


def start(spark: SparkSession, home: Path, source: Path) -> RunningQuery:
    """Two stages with state, and late rows."""
    readings = hp.read.parquet(str(source), key="k", time="t", progress=hp.delayed("1us"))
    smooth = readings.signal("v").sample("10ns", fill=hp.linear(max_gap="100ns")).fir([0.5, 0.25, 0.125])
    total = smooth.events().key_by().tumble("200ns").agg(n=hp.count(), level=hp.sum("value"))
    return total.start(
        spark,
        to=hp.write.parquet(str(home / "out")),
        checkpoint=str(home / "checkpoint"),
        late=hp.late.side(str(home / "late")),
        shards=SHARDS,
        files_per_batch=1,
        trigger="available",
    )


class Pausing(sinks.MicroBatchWriter):
    """Stops for ever when the results of the micro-batch named in the file ``pause`` are written and not yet committed."""

    def __call__(self, chunks: Any, batch: int) -> None:
        super().__call__(chunks, batch)
        home = Path(sys.argv[1])
        if (home / "pause").exists() and (home / "pause").read_text() == str(batch):
            (home / "paused").touch()
            time.sleep(3600)


def main() -> None:
    from hydrophone.spark.session import session

    streaming.MicroBatchWriter = Pausing  # type: ignore[misc]
    conf = {
        # A task that loses its Python worker is tried again.
        "spark.master": "local[2,4]",
        "spark.sql.shuffle.partitions": SHARDS,
        # It will not live long enough for more than the quick compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    spark = session("streaming-job", conf=conf)
    start(spark, Path(sys.argv[1]), Path(sys.argv[2])).wait()


if __name__ == "__main__":
    main()
