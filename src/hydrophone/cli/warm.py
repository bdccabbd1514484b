"""Compile all loops beforehand, by queries over made-up data that use them in the ways that are common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.api.query import Query
from hydrophone.model import compiled, compiled_cache
from hydrophone.model.key_table import shard_of_keys

ROWS = 5_000
"""Enough for all loops, those for long signals too."""
SIGNALS: dict[str, Callable[[Any], Query]] = {
    "arithmetic": lambda x: x.fir([0.5, 0.5]) + x.resample("15ms"),
    "fir": lambda x: x.fir([0.25, 0.5, 0.25]),
    "long fir": lambda x: x.fir(np.hanning(600)),
    "savgol": lambda x: x.savgol(5, 2),
    "iir": lambda x: x.iir([0.1], [1.0, -0.9]),
    "sos": lambda x: x.bandpass(5, 20),
    "ema": lambda x: x.ema(0.1),
    "fir_ahead": lambda x: x.fir_ahead([0.5, 0.5]),
    "hilbert": lambda x: x.hilbert(31).abs(),
    "hampel": lambda x: x.hampel(5),
    "mean": lambda x: x.mean(8),
    "max": lambda x: x.max(8),
    "std": lambda x: x.std(8),
    "kurtosis": lambda x: x.kurtosis(8),
    "integrate": lambda x: x.integrate(),
    "decimate": lambda x: x.decimate(4),
    "resample": lambda x: x.resample("7ms"),
    "resample_poly": lambda x: x.resample_poly(up=3, down=2),
    "find_peaks": lambda x: x.find_peaks(),
    "trigger": lambda x: x.trigger(1.0, 0.5),
    "sliding_dft": lambda x: x.sliding_dft(16, hop=1),
    "spectra": lambda x: x.window(16, hop=8).rfft().irfft().overlap_add(),
    "unwindow": lambda x: x.window(16, hop=8).unwindow(_largest),
    "welch": lambda x: x.welch(16, average=2),
    "dwt": lambda x: x.dwt("db2", levels=2)[0],
}
EVENTS: dict[str, Callable[[Any], Query]] = {
    "tumble": lambda s: s.tumble("100ms").agg(n=hp.count(), mean=hp.mean("value"), median=hp.quantile("value", 0.5)),
    "sliding": lambda s: s.sliding("100ms", every="50ms").agg(n=hp.count(), largest=hp.max("value")),
    "session": lambda s: s.session("15ms").agg(n=hp.count()),
    "snapshot": lambda s: s.extend("30ms").snapshot().agg(n=hp.count()),
    "count_window": lambda s: s.count_window(4, by="nth").agg(n=hp.count()),
    "top_k": lambda s: s.top_k(2, by="value", size="100ms"),
    "distinct": lambda s: s.extend("30ms").distinct(),
    "join": lambda s: s.extend("30ms").join(s.extend("20ms")),
    "asof_join": lambda s: s.asof_join(s.select("value"), tolerance="1s"),
    "band_join": lambda s: s.band_join(s.select("value"), before="20ms", after="5ms"),
    "anti_join": lambda s: s.extend("30ms").anti_join(s.shift("1s").extend("20ms")),
    "pairs": lambda s: s.pairs(),
    "key_by": lambda s: s.key_by().tumble("100ms").agg(n=hp.count()),
}


def _largest(met: Any) -> Any:
    return np.nanmax(met, axis=1)


def report() -> int:
    """Compile whatever is not compiled yet, and say what takes how long."""
    began, small = time.perf_counter(), compiled.SMALL
    compiled.SMALL = -1
    try:
        for count in (1, 2):
            shard_of_keys([pa.array(["a", "b"]), pa.array([1, 2])][:count], 8, 2)
        for name, query in tour():
            start = time.perf_counter()
            query.to_arrow()
            print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    finally:
        compiled.SMALL = small
    kept = sum(path.suffix == ".nbc" for path in compiled_cache.files())
    print(f"{kept} compiled loops are in {compiled_cache.folder()} ({time.perf_counter() - began:.1f} s)")
    return 0


def tour() -> Iterator[tuple[str, Query]]:
    """Queries that together use all compiled loops, each with its name.

    Examples
    --------
    >>> names = [name for name, _ in tour()]
    >>> names[0], len(names) > 40
    ('arithmetic of float64 by name', True)
    """
    for key in ("name", "number"):
        for dtype in (np.float64, np.float32):
            stream = made_up(key, dtype)
            signal = stream.signal("value").sample("10ms", fill=hp.linear(max_gap="1s"))
            for name, make in SIGNALS.items() if key == "name" else ():
                yield f"{name} of {np.dtype(dtype)} by {key}", make(signal)
            for name, make in EVENTS.items() if dtype == np.float64 else ():
                yield f"{name} of {np.dtype(dtype)} by {key}", make(stream)


def made_up(key: str, dtype: Any) -> Any:
    """Readings of two sensors, out of order and with a hole."""
    rows = ROWS
    rng = np.random.default_rng(0)
    milliseconds = np.arange(rows) * 10 + 500 * (np.arange(rows) > rows // 2)
    order = rng.permutation(rows)
    table = pa.table(
        {
            "name": pa.array([f"sensor {i % 2}" for i in order]),
            "number": pa.array(order % 2),
            "nth": pa.array(order),
            "ts": pa.array(milliseconds[order] * 1_000_000),
            "value": pa.array(rng.normal(size=rows).astype(dtype)),
        }
    )
    return hp.from_arrow(table, key=key, time="ts")
