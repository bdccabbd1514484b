"""`sharing`: 1 to 200 queries in one graph, over rows, a signal and an FFT of 4,096, against a graph for each.

Batches of 32,768 samples of one sensor are pushed. Thresholds begin where one value of a thousand lies above, and end above almost all. The
bare NumPy loop has the same blocks as arrays, and no times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.api.query import Query
from hydrophone.bench.harness import Answer, Turns

BATCH, FFT = 32_768, 4_096
QUERIES = (1, 10, 50, 200)
READINGS = pa.schema([("ts", pa.int64()), ("value", pa.float64())])

Floats = npt.NDArray[np.float64]
Make = Callable[[hp.Stream, int], Sequence[Query]]
Block = Callable[[Floats, int], Sequence[float]]


def cases(quick: bool) -> Iterator[Turns]:
    """Thresholds over rows, a signal and a spectrum, and queries that differ behind one spectrum."""
    blocks = recording(4 if quick else 12)
    for count in QUERIES[::3] if quick else QUERIES:
        for name in WAYS:
            yield Turns(f"{count} {name}", partial(in_turn, name, count, blocks), "ms")
    for name in WAYS:
        yield Turns(f"200 against the first alone, {name}", partial(against_one, name, blocks), "ms")


def recording(batches: int) -> list[Floats]:
    """Noise with a tone now and then."""
    rng = np.random.default_rng(7)
    at = np.arange(batches * BATCH)
    x = rng.normal(size=len(at)) + (at % 50_000 < 5_000) * np.sin(at / 3)
    return list(x.reshape(-1, BATCH))


# --- what is asked ----------------------------------------------------------------------------------------------------


def levels(count: int, lowest: float, highest: float) -> list[float]:
    """So many thresholds; the first is the same for every count."""
    return [float(c) for c in np.linspace(lowest, highest, 200)[:: 200 // count][:count]]


def signal(readings: hp.Stream) -> hp.UniformSignal:
    """The readings as samples."""
    return readings.signal("value").sample("1us")


def rows(readings: hp.Stream, count: int) -> list[hp.Stream]:
    """Row filters."""
    return [readings.where(hp.col("value") > c) for c in levels(count, 3.1, 6.0)]


def rows_of_block(x: Floats, count: int) -> list[float]:
    """The same with arrays."""
    return [float(x[x > c].sum()) for c in levels(count, 3.1, 6.0)]


def intervals(readings: hp.Stream, count: int) -> list[hp.Stream]:
    """Intervals above thresholds; no interval of noise lasts a millisecond."""
    x = signal(readings)
    return [x.above(c, report="32768us") for c in levels(count, 3.1, 6.0)]


def intervals_of_block(x: Floats, count: int) -> list[float]:
    """The same with arrays; an interval ends with its block, as it does with `report`."""
    found = []
    for c in levels(count, 3.1, 6.0):
        inside = np.concatenate([[0], (x > c).astype(np.int8), [0]])
        begin = np.flatnonzero(np.diff(inside) > 0)
        found.append(float(np.maximum.reduceat(x, begin).sum()) if len(begin) else 0.0)
    return found


def spectrum(readings: hp.Stream) -> hp.Windowed:
    """The power in 4,096 frequencies, eight times a batch."""
    return signal(readings).window(FFT).fft().power()


def frequencies(readings: hp.Stream, count: int) -> list[hp.Stream]:
    """Thresholds over the spectrum as rows."""
    power = spectrum(readings).unwindow().events("power")
    return [power.where(hp.col("power") > c) for c in levels(count, 35_000.0, 600_000.0)]


def frequencies_of_block(x: Floats, count: int) -> list[float]:
    """The same with arrays."""
    power = _power(x).reshape(-1)
    return [float(power[power > c].sum()) for c in levels(count, 35_000.0, 600_000.0)]


def bands(readings: hp.Stream, count: int) -> list[hp.UniformSignal]:
    """Each query has a band of its own: no family, and one FFT."""
    power = spectrum(readings)
    return [power.select(slice(8 * i, 8 * i + 16)).mean() for i in range(count)]


def bands_of_block(x: Floats, count: int) -> list[float]:
    """The same with arrays."""
    power = _power(x)
    return [float(power[:, 8 * i : 8 * i + 16].mean(axis=1).sum()) for i in range(count)]


def _power(x: Floats) -> Floats:
    found = np.fft.fft(x.reshape(-1, FFT), axis=1)
    return found.real**2 + found.imag**2


WAYS: dict[str, tuple[Make, Block]] = {
    "thresholds over rows": (rows, rows_of_block),
    "thresholds over a signal": (intervals, intervals_of_block),
    "thresholds over an FFT of 4096": (frequencies, frequencies_of_block),
    "bands of an FFT of 4096": (bands, bands_of_block),
}
"""By name how queries are made, and what a loop over arrays does for them in a block."""


# --- how it is run ------------------------------------------------------------------------------------------------------


class Running:
    """A graph with some queries, whose sinks add up the last column of their results."""

    def __init__(self, make: Make, count: int, chosen: int | None = None) -> None:
        self.readings = hp.from_arrow(READINGS, time="ts", progress=hp.ordered(), name="readings")
        self.graph, self.sums, self.pushed = hp.Graph(), [0.0] * count, 0
        for number, query in enumerate(make(self.readings, count)):
            if chosen in (None, number):
                self.graph.subscribe(query, partial(self._add, number))

    def _add(self, number: int, table: pa.Table) -> None:
        name = "peak" if "peak" in table.column_names else table.column_names[-1]
        self.sums[number] += float(table[name].to_numpy().sum())

    def push(self, x: Floats) -> None:
        """One batch."""
        ts = np.arange(self.pushed, self.pushed + len(x)) * 1_000
        self.graph.push(self.readings, pa.table({"ts": ts, "value": x}))
        self.pushed += len(x)


def in_turn(name: str, count: int, blocks: Sequence[Floats]) -> dict[str, tuple[list[float], Answer]]:
    """Batches to one graph with all queries, to a graph for each, and to a loop over arrays; milliseconds of the processor for a batch."""
    make, block = WAYS[name]
    together, apart = Running(make, count), [Running(make, count, number) for number in range(count)]
    bare = np.zeros(count)

    def loop(x: Floats) -> None:
        bare[:] += block(x, count)

    ways: dict[str, list[Callable[[Floats], None]]] = {
        "ours": [together.push],
        "a graph for each": [one.push for one in apart],
        "numpy": [loop],
    }
    taken = timed(ways, blocks)
    together.graph.close()
    for one in apart:
        one.graph.close()
    answers: dict[str, Answer] = {
        "ours": together.sums,
        "a graph for each": [one.sums[number] for number, one in enumerate(apart)],
        "numpy": list(bare),
    }
    return {way: (taken[way], answers[way]) for way in ways}


def against_one(name: str, blocks: Sequence[Floats]) -> dict[str, tuple[list[float], Answer]]:
    """Batches to a graph of 200 queries and to one of the first alone, in turn; what the first gives in both."""
    make, _ = WAYS[name]
    ways = {"ours": Running(make, 200), "one query": Running(make, 200, 0)}
    taken = timed({way: [running.push] for way, running in ways.items()}, blocks)
    return {way: (taken[way], running.sums[:1]) for way, running in ways.items()}


def timed(ways: Mapping[str, Sequence[Callable[[Floats], None]]], blocks: Sequence[Floats]) -> dict[str, list[float]]:
    """The least time of the processor for a block, in milliseconds, ways in turn; the first two blocks do not count."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for x in blocks:
        for way, pushes in ways.items():
            begin = time.process_time()
            for push in pushes:
                push(x)
            taken[way].append(1e3 * (time.process_time() - begin))
    return {way: [min(times[2:])] for way, times in taken.items()}
