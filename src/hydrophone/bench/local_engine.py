"""`local_engine`: kernels in this process against one flat NumPy or SciPy call over the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.signal

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case, summary
from hydrophone.bench.peers import flat_numpy
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Events, Progress, Segments
from hydrophone.model.timebase import Timebase, Timebases

PERIOD = 1_000_000
TAPS = np.random.default_rng(1).random(32)
SECTIONS = scipy.signal.butter(4, 0.2, output="sos")


def cases(quick: bool) -> Iterator[Case]:
    """FIR, SOS and STFT from segments to segments, tumbling counts from rows; 4M samples of 1 to 100,000 keys."""
    total = 1_000_000 if quick else 4_000_000
    for keys in (1, 100, 10_000, 100_000):
        length = 10 if keys == 100_000 else total // keys
        samples = np.random.default_rng(keys).random(keys * length)
        source = signal()
        name = f"{keys} keys of {length} samples"
        yield Case(
            f"fir, {name}",
            partial(ours, source.fir(TAPS), samples, keys=keys),
            {"flat NumPy": partial(flat_numpy.fir, samples, keys, TAPS)},
        )
        yield Case(
            f"sos, {name}",
            partial(ours, source.sos(SECTIONS), samples, keys=keys),
            {"flat SciPy": partial(flat_numpy.sos, samples, keys, SECTIONS)},
        )
        if length >= 256:
            query = source.window(256, hop=128).rfft()
            yield Case(
                f"stft, {name}",
                partial(ours, query, samples, keys=keys),
                {"flat NumPy": partial(flat_numpy.stft, samples, keys, 256, 128)},
            )
        rows = _rows(keys, length)
        count = hp.from_arrow(rows, key="key", time="time").tumble("100ms").agg(n=hp.count())
        yield Case(
            f"tumbling count, {name}",
            partial(ours_count, count),
            {"flat NumPy": partial(flat_numpy.count, rows, 100 * PERIOD)},
        )


def signal(period: int = PERIOD) -> hp.UniformSignal:
    """A source of segments; its one row only says the type, the samples are pushed into the pipeline directly."""
    row = pa.table({"key": [0], "start": [0], "values": [[0.0]]})
    return hp.from_segments(row, key="key", time="start", samples="values", period=period)


def _rows(keys: int, length: int) -> pa.Table:
    return pa.table({"key": np.tile(np.arange(keys), length), "time": np.repeat(np.arange(length) * PERIOD, keys)})


def ours(
    query: hp.UniformSignal | hp.Windowed,
    *signals: npt.NDArray[np.float64],
    keys: int,
    periods: Sequence[int] = (PERIOD,),
) -> Answer:
    """Push the samples of all keys through the pipeline, one batch for each signal (and its period)."""
    plan = lower([query.node])
    pipeline = Pipeline(plan.roots)
    slot = pipeline.keys(pipeline.ports[0]).slots([pa.array(np.arange(keys))])
    for port, (samples, period) in enumerate(zip(signals, periods, strict=True)):
        offsets = np.arange(keys + 1) * (len(samples) // keys)
        base = Timebases.shared(Timebase.every(period))
        pipeline.step(port, Segments(slot, np.zeros(keys, np.int64), offsets, samples, base))
    pipeline.advance([Progress.end()] * len(signals))
    parts = [summary(b.values) for b in pipeline.drain() if not isinstance(b, Events)]
    return [sum(column) for column in zip(*parts, strict=True)]


def ours_count(query: hp.Stream) -> Answer:
    """Run the query over the table of rows."""
    return summary(query.to_arrow()["n"].to_numpy().astype(float))
