"""A hub in a process of its own, for tests that kill it: ``python -m tests.spark.hub_job HOME SOURCE``.

What users ask for is a script by micro-batch, so that an undisturbed run gets the same.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydrophone as hp
from hydrophone.spark.hub import stream, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARDS = 2


def queries(source: Path) -> dict[str, Any]:
    """Some that share operators, one of two stages, one that fails."""
    readings = hp.read.parquet(str(source), key="k", time="t", progress=hp.delayed("1us"))
    smooth = readings.signal("v").sample("10ns", fill=hp.linear(max_gap="100ns")).fir([0.5, 0.25, 0.125])
    return {
        "counts": readings.tumble("200ns").agg(n=hp.count(), v=hp.sum("v")),
        "total": smooth.events().key_by().tumble("200ns").agg(n=hp.count(), level=hp.sum("value")),
        "loud": smooth.above(0.3, report="100ns"),
        "high": readings.where(hp.col("v") > 0.5),
        "": readings,
    }


SCRIPT = {
    1: [("subscribe", "total"), ("subscribe", "loud")],
    2: [("unsubscribe", "counts")],
    3: [("subscribe", "high")],
}
"""What is asked for while a micro-batch runs: it is part of the next one."""


class Scripted(writer.HubWriter):
    """Asks what the script says before the next micro-batch is pinned, and stops for ever at the place that the file ``pause`` names."""

    def _pin(self, spark: SparkSession, pin: Any, *rest: Any) -> Any:
        hub, home, source = RUNNING[0]
        hold(home, pin.batch, "pin")
        for number, (what, name) in enumerate(SCRIPT.get(pin.batch, ())):
            if max(self.folder.requests.numbers(), default=-1) < done_before(pin.batch) + number:
                ask(hub, home, source, what, name)
        return super()._pin(spark, pin, *rest)

    def __call__(self, chunks: Any, batch: int) -> None:
        super().__call__(chunks, batch)
        hold(RUNNING[0][1], batch, "commit")


RUNNING: list[tuple[hp.Hub, Path, Path]] = []


def done_before(batch: int) -> int:
    """Requests that the script has made before a micro-batch, beside that of the first query."""
    return 1 + sum(len(asked) for at, asked in SCRIPT.items() if at < batch)


def hold(home: Path, batch: int, place: str) -> None:
    if (home / "pause").exists() and json.loads((home / "pause").read_text()) == [batch, place]:
        (home / "paused").touch()
        time.sleep(3600)


def ask(hub: hp.Hub, home: Path, source: Path, what: str, name: str) -> None:
    if what == "subscribe":
        hub.subscribe(queries(source)[name], to=hp.write.parquet(str(home / "out" / name)), name=name)
    else:
        hub.unsubscribe(name)


def run(spark: SparkSession, home: Path, source: Path) -> hp.Hub:
    """Take what is there, a file in every micro-batch, and stop."""
    stream.HubWriter = Scripted  # type: ignore[misc]
    hub = hp.Hub(
        spark,
        hp.read.parquet(str(source), key="k", time="t", progress=hp.delayed("1us")),
        checkpoint=str(home / "hub"),
        late=hp.late.side(str(home / "late")),
        shards=SHARDS,
        files_per_batch=1,
        trigger="available",
        running=False,
    )
    RUNNING[:] = [(hub, home, source)]
    if not hub.queries():
        ask(hub, home, source, "subscribe", "counts")
    hub.start()
    hub.wait()
    return hub


def main() -> None:
    from hydrophone.spark.session import session

    conf = {
        # A task that loses its Python worker is tried again.
        "spark.master": "local[2,4]",
        "spark.sql.shuffle.partitions": SHARDS,
        # It will not live long enough for more than the quick compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    run(session("hub-job", conf=conf), Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
