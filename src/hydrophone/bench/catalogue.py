"""`catalogue`: every operator that SciPy, NumPy, PyWavelets, pandas or Polars has, against the fastest call there.

One key and 1,000 keys, float64 and float32, our engine with one thread and (where there are keys to share) with two. Peers use one thread,
unless their name says otherwise; they get the samples of all keys as a matrix, without keys, time, gaps or state. Answers are
compared value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.catalogue_entry import PERIOD, Entry, RowEntry
from hydrophone.bench.catalogue_filters import FILTERS
from hydrophone.bench.catalogue_rows import ROWS, rows_of_keys
from hydrophone.bench.catalogue_samples import SAMPLES
from hydrophone.bench.catalogue_windows import WINDOWS
from hydrophone.bench.harness import Answer, Case, Unchecked
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Batch, Events, Progress, Segments, Windows
from hydrophone.model.timebase import Timebase, Timebases

Array = npt.NDArray[Any]

ENTRIES: tuple[Entry, ...] = (*FILTERS, *SAMPLES, *WINDOWS)
KEYS = (1, 1000)
TYPES = (np.float64, np.float32)
ROUNDING = {"float64": 1e-9, "float32": 1e-3}
"""By how much answers may differ, relative to the largest value: single precision loses digits in other places than double."""

_RUNS = "batches describe explain head live plot save segments start to_arrow to_csv to_pandas to_parquet to_spark group_delay frequencies"
NO_OPERATORS = frozenset(_RUNS.split())
"""Methods that run or describe a query."""

WITHOUT_PEER = {
    method: why
    for why, methods in {
        "user-defined": "apply aggregate feedback filter iterate",
        "names or views, no work": "key_by select channel events shift shift_time shift_to union interleave deinterleave",
        "episodes of one status": "frames trailing",
        "other names of window and unwindow": "rewindow dewindow",
        "lifetimes": "alter chop coincidence dead_time extend lasting point_at_end stitch snapshot",
        "joins of lifetimes": "join anti_join semi_join without distinct",
        "a band of time, a pattern, a sample at random": "band_join pattern reservoir",
        "no such filter or band there": "hampel cfar cfar_score trigger trim_peak band_power mel_bands octave_bands",
        "rows to a grid, holes and windows around events": "snap continuous epochs count_window",
        "channels": "norm",
    }.items()
    for method in methods.split()
}
"""Operators that no call of these libraries stands beside, and why."""


def measured() -> set[str]:
    """The methods that the entries stand for."""
    entries: list[Entry | RowEntry] = [*ENTRIES, *ROWS]
    names = (entry.name.partition(",")[0].split(" and ") for entry in entries)
    words = {word for name in names for word in name}
    return words | {method for entry in entries for method in entry.methods}


def cases(quick: bool) -> Iterator[Case]:
    """All operators, 1M samples (``--quick``: 200,000)."""
    total = 200_000 if quick else 1_000_000
    for entry in ENTRIES:
        for keys in KEYS:
            for dtype in TYPES:
                yield case(entry, keys, np.dtype(dtype), total, runs=5 if quick else 9)
    for row_entry in ROWS:
        for keys in KEYS:
            yield row_case(row_entry, keys, total, runs=5 if quick else 9)


def case(entry: Entry, keys: int, dtype: np.dtype[Any], total: int, runs: int) -> Case:
    """One operator over signals of so many samples in all."""
    signals = made_signals(entry.inputs, keys, dtype, total)
    query = entry.ours(*(signal(dtype) for _ in signals))
    expected = cache(lambda: next(iter(entry.peers.values()))(*signals))
    name = f"{entry.name}, {keys} {'key' if keys == 1 else 'keys'}, {dtype}"

    def ours(threads: int) -> Unchecked:
        found = run(query, signals, threads)
        return Unchecked(lambda: agreement(entry.cut(values(found, keys)), entry.cut(expected()), dtype, entry.loose))

    def theirs(call: Callable[..., Array]) -> Unchecked:
        found = call(*signals)
        return Unchecked(lambda: agreement(entry.cut(found), entry.cut(expected()), dtype, entry.loose))

    return Case(
        f"{name}, 1 thread",
        partial(ours, 1),
        {peer: partial(theirs, call) for peer, call in entry.peers.items()},
        runs=runs,
        also={f"{name}, 2 threads": partial(ours, 2)} if keys > 1 else {},
        pick=min,
        settled=False,
    )


def row_case(entry: RowEntry, keys: int, total: int, runs: int) -> Case:
    """One operator over rows of a table in the order of time."""
    table = rows_of_keys(keys, total)
    query = entry.ours(hp.from_arrow(table, key="key", time="time"), table)
    expected = cache(lambda: entry.answer(next(iter(entry.peers.values()))(table)))
    dtype = np.dtype(np.float64)

    def ours() -> Unchecked:
        found = query.to_arrow(threads=1)
        return Unchecked(lambda: agreement(entry.answer(found), expected(), dtype))

    def theirs(call: Callable[[pa.Table], Any]) -> Unchecked:
        found = call(table)
        return Unchecked(lambda: agreement(entry.answer(found), expected(), dtype))

    name = f"{entry.name}, {keys} {'key' if keys == 1 else 'keys'}, rows, 1 thread"
    return Case(
        name,
        ours,
        {peer: partial(theirs, call) for peer, call in entry.peers.items()},
        runs=runs,
        pick=min,
        settled=False,
    )


def made_signals(count: int, keys: int, dtype: np.dtype[Any], total: int) -> list[Array]:
    """Noise around a level, a row per key."""
    return [
        np.random.default_rng(n).normal(1, 1, (keys, total // keys)).astype(dtype, copy=False) for n in range(count)
    ]


def signal(dtype: np.dtype[Any]) -> hp.UniformSignal:
    """A source of segments; its one row only says the type, the samples are pushed into the pipeline directly."""
    row = pa.table({"key": [0], "start": [0], "values": pa.array([[0.0]], pa.list_(pa.from_numpy_dtype(dtype)))})
    return hp.from_segments(row, key="key", time="start", samples="values", period=PERIOD)


def run(query: Any, signals: Sequence[Array], threads: int) -> list[list[Batch]]:
    """Push all samples through a pipeline for every thread, each with its share of the keys; a list of batches from each."""
    if threads == 1:
        return [_run(query, signals)]
    shares = zip(*(np.array_split(x, threads) for x in signals), strict=True)
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(partial(_run, query), shares))


def _run(query: Any, signals: Sequence[Array]) -> list[Batch]:
    pipeline = Pipeline(lower([query.node]).roots)
    keys, length = signals[0].shape
    slot = pipeline.keys(pipeline.ports[0]).slots([pa.array(np.arange(keys))])
    base = Timebases.shared(Timebase.every(PERIOD))
    for port, samples in enumerate(signals):
        offsets = np.arange(keys + 1) * length
        pipeline.step(port, Segments(slot, np.zeros(keys, np.int64), offsets, samples.reshape(-1), base))
    pipeline.advance([Progress.end()] * len(signals))
    return list(pipeline.drain())


def values(found: list[list[Batch]], keys: int) -> Array:
    """The values of all keys: a row per key of samples, or of windows; of events their times, one after the other."""
    parts = [_values(batches) for batches in found]
    events = any(isinstance(batch, Events) for batches in found for batch in batches)
    return np.concatenate(parts).reshape(1 if events else keys, -1)


def _values(batches: Sequence[Batch]) -> Array:
    events = [b for b in batches if isinstance(b, Events)]
    if events:
        both = Events.concat(events)
        return np.asarray(both.start[np.lexsort((both.start, both.slot))] // PERIOD)
    windows = [b for b in batches if isinstance(b, Windows)]
    if windows:
        return Windows.concat(windows).values
    return Segments.concat([b for b in batches if isinstance(b, Segments)]).values


def agreement(found: Array, expected: Array, dtype: np.dtype[Any], loose: float = 0.0) -> Answer:
    """How many values there are, and whether all are as expected: 1, or else 0."""
    if np.size(found) != np.size(expected):
        return np.size(found), 0.0
    x, y = np.ravel(found), np.ravel(expected)
    scale = float(np.nanmax(np.abs(y), initial=0)) or 1.0
    return x.size, float(np.allclose(x, y, rtol=0, atol=max(loose, ROUNDING[dtype.name]) * scale, equal_nan=True))
