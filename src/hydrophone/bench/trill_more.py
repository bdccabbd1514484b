"""What the appendices of the TrillDSP paper ask: where the time goes, how large a batch should be, and what a second core gives."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case, summary
from hydrophone.bench.local_engine import PERIOD, ours, signal
from hydrophone.bench.trill import PATTERN, identity
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Events, Progress, Segments
from hydrophone.model.timebase import Timebase, Timebases

Samples = npt.NDArray[np.float64]


def costs(quick: bool) -> Iterator[Case]:
    """`trill_costs`: appendix A, queries 1 and 5 there and back: the whole against the same without transforms (the ratio is its share)."""
    samples = np.random.default_rng(1).random(1 << (20 if quick else 22))
    for size in (16, 256, 4096) if quick else (16, 64, 256, 1024, 4096, 65_536):
        yield Case(
            f"window {size}, 1 key",
            partial(ours, signal().window(size).rfft().irfft().overlap_add(), samples, keys=1),
            {"without FFT": partial(ours, signal().window(size).overlap_add(), samples, keys=1)},
        )
    for hop in (16, 256) if quick else (1, 4, 16, 64, 256):
        samples = np.random.default_rng(hop).random(100 * (2_560 if hop < 16 else 25_600))
        windows = signal().window(256, hop=hop)
        yield Case(
            f"hop {hop}, windows of 256, 100 keys",
            partial(ours, windows.rfft().map(identity).irfft().overlap_add(), samples, keys=100),
            {"without FFT": partial(ours, windows.overlap_add(), samples, keys=100)},
            runs=3,
        )


def batches(quick: bool) -> Iterator[Case]:
    """`trill_batches`: appendix B, FFT of tumbling windows and FIR with the samples in batches of 1,000 to 1,000,000, against one batch."""
    samples = np.random.default_rng(2).random(1_000_000 if quick else 4_000_000)
    for name, query in (("fft of 256", signal().window(256).rfft()), ("fir of 32", signal().fir(PATTERN))):
        for size in (1_000, 10_000, 100_000) if quick else (100, 1_000, 10_000, 80_000, 1_000_000):
            yield Case(
                f"{name}, batches of {size}",
                partial(in_batches, query, samples, size),
                {"one batch": partial(in_batches, query, samples, len(samples))},
                runs=3,
            )


def threads(quick: bool) -> Iterator[Case]:
    """`trill_threads`: queries 3 and 5 with the keys shared by two threads, against one; kernels and FFTs run side by side."""
    for keys in (100, 10_000):
        samples = np.random.default_rng(keys).random(2_000_000 if quick else 10_000_000)
        query = signal().correlate(PATTERN)
        yield Case(
            f"correlation, {keys} keys",
            partial(in_threads, query, samples, keys, 2),
            {"one thread": partial(in_threads, query, samples, keys, 1)},
        )
    samples = np.random.default_rng(5).random(100 * 25_600)
    query = signal().window(256, hop=16).rfft().map(identity).irfft().overlap_add()
    yield Case(
        "overlap-add, hop 16, 100 keys",
        partial(in_threads, query, samples, 100, 2),
        {"one thread": partial(in_threads, query, samples, 100, 1)},
        runs=3,
    )


def in_batches(query: hp.UniformSignal | hp.Windowed, samples: Samples, size: int) -> Answer:
    """One key, so many samples at a time; progress follows every batch."""
    pipeline = Pipeline(lower([query.node]).roots)
    slot = pipeline.keys(pipeline.ports[0]).slots([pa.array([0])])
    base, parts = Timebases.shared(Timebase.every(PERIOD)), []
    for first in range(0, len(samples), size):
        some = samples[first : first + size]
        pipeline.step(0, Segments(slot, np.array([first]), np.array([0, len(some)]), some, base))
        last = first + size >= len(samples)
        pipeline.advance([Progress.end() if last else Progress((first + size) * PERIOD)])
        parts += [summary(b.values) for b in pipeline.drain() if not isinstance(b, Events)]
    return [sum(column) for column in zip(*parts, strict=True)]


def in_threads(query: hp.UniformSignal | hp.Windowed, samples: Samples, keys: int, count: int) -> Answer:
    """A share of the keys for every thread, each with a pipeline of its own."""
    shares = np.split(samples, count)
    if count == 1:
        return ours(query, samples, keys=keys)
    with ThreadPoolExecutor(count) as pool:
        parts = list(pool.map(lambda share: ours(query, share, keys=keys // count), shares))
    return [sum(column) for column in zip(*parts, strict=True)]
