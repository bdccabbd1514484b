"""One side of `hydrophone.bench.compare`: runs a case of this checkout each time it is told to.

It runs with the package of another checkout too, so it uses only what benchmarks have had from the beginning.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hydrophone.bench.harness import Answer, Case, Unchecked, digest, settle
from hydrophone.bench.jobs import processor_seconds
from hydrophone.bench.registry import load

Way = Callable[[], Answer | Unchecked]


def ways(name: str, pattern: str) -> Iterator[tuple[str, Way]]:
    """Our ways in the cases of a benchmark that match, one after the other: the data of a case is gone when the next one is asked for."""
    if name == "grouped_streaming":
        yield from micro_batches()
        return
    for case in load(name)(True):
        if isinstance(case, Case):
            for title, way in {case.name: case.ours, **case.also}.items():
                if re.search(pattern, title):
                    yield title, way


def micro_batches(rows: int = 200_000, keys: int = 10_000, batches: int = 60) -> Iterator[tuple[str, Way]]:
    """A stream that runs on; each call is one micro-batch."""
    from hydrophone.bench import grouped_streaming as bench
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench", conf=bench.CONF)
    with tempfile.TemporaryDirectory() as folder:
        home, number = Path(folder), iter(range(batches))
        draft = bench.drafted(home / "in", bench.table(rows, keys, 0, batches).slice(0, 0), 999)
        draft.rename(draft.with_name("part-999.parquet"))
        way = bench.ours(spark, home, os.cpu_count() or 1)
        way.query.processAllAvailable()

        def one() -> Sequence[float]:
            batch = next(number)
            way.take(bench.table(rows, keys, batch, batches), batch + 1)
            return [batch]

        yield f"a micro-batch of {rows} rows, {keys} keys", one
        way.query.stop()


def main() -> None:
    """Say the name of a case, run it at every line that says so, go on to the next."""
    pattern, *names = sys.argv[1:]
    for name in names:
        # The clock of this process alone is the finer one; Spark's work is in others.
        clock = (
            time.process_time
            if name.startswith(("local_engine", "catalogue", "trill", "long_fir"))
            else processor_seconds
        )
        for title, way in ways(name, pattern):
            print(json.dumps({"case": f"{name}: {title}"}), flush=True)
            while sys.stdin.readline().strip() == "run":
                settle(100)
                busy = clock()
                found = way()
                took = clock() - busy
                answer = found.answer() if isinstance(found, Unchecked) else found
                print(json.dumps({"seconds": took, "answer": digest(answer)}), flush=True)
    print(json.dumps({"case": None}), flush=True)


if __name__ == "__main__":
    main()
