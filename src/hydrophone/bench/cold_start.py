"""`cold_start`: from the start of Python to the first answer with nothing compiled, against the same with all compiled.

Few rows are what somebody tries first: nothing need be compiled for them. Many rows need compiled loops.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hydrophone.bench.harness import Answer, Turns

QUERIES: dict[str, Callable[[Any], Any]] = {
    "fir": lambda x: x.fir([0.5, 0.5]),
    "sos": lambda x: x.bandpass("5Hz", "20Hz"),
    "moving_mean": lambda x: x.moving_mean(8),
    "hampel": lambda x: x.hampel(5),
    "resample": lambda x: x.resample("7ms"),
    "find_peaks": lambda x: x.find_peaks(),
    "spectra": lambda x: x.window(16, hop=8).rfft().irfft().overlap_add(),
    "welch": lambda x: x.welch(16, average=2),
    "tumble": lambda x: x.events("v").tumble("100ms").agg(v=_mean()),
}
FIRST = "fir"


def cases(quick: bool) -> Iterator[Turns]:
    """The first query of the README, and others; with five rows, and with many."""
    for rows in (5,) if quick else (5, 100_000):
        for name in (FIRST,) if quick else QUERIES:
            yield Turns(f"{name}, {rows} rows", partial(compare, name, rows))


def compare(name: str, rows: int, runs: int = 3) -> Mapping[str, tuple[Sequence[float], Answer]]:
    """In fresh processes: each time with an empty folder of compiled code, then once more with what the first has left there."""
    cold, warm = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="hydrophone-cold-") as folder:
            cold.append(fresh(name, rows, folder))
            warm.append(fresh(name, rows, folder))
    return {
        "ours": ([seconds for seconds, _ in cold], cold[0][1]),
        "compiled before": ([seconds for seconds, _ in warm], warm[0][1]),
    }


def fresh(name: str, rows: int, folder: str) -> tuple[float, Answer]:
    """Seconds of a Python of its own, from its start to its answer."""
    command = [sys.executable, "-m", "hydrophone.bench.cold_start", name, str(rows)]
    start = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | {"NUMBA_CACHE_DIR": folder}, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - start, json.loads(done.stdout)


def answer(name: str, rows: int) -> Answer:
    """Run a query over two sensors, out of order and with a reading missing."""
    import numpy as np
    import pyarrow as pa

    import hydrophone as hp

    rng = np.random.default_rng(0)
    order = rng.permutation(rows)
    table = pa.table(
        {
            "sensor": pa.array(np.array(["a", "b"])[order % 2]),
            "ts": pa.array((order + (order > rows // 2)) * 10_000_000),
            "value": pa.array(rng.normal(size=rows)),
        }
    )
    stream = hp.from_arrow(table, key="sensor", time="ts")
    signal = stream.signal("value").sample("10ms", fill=hp.linear(max_gap="1s"))
    found = QUERIES[name](signal).to_arrow()
    return (len(found),)


def _mean() -> Any:
    import hydrophone as hp

    return hp.mean("v")


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], int(sys.argv[2]))))
