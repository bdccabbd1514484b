"""`long_fir`: filters of 128 to 16,384 taps over one signal, whole and in pieces, against SciPy's overlap-add."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.signal

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case, summary
from hydrophone.bench.local_engine import PERIOD, ours, signal
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress, Segments
from hydrophone.model.timebase import Timebase, Timebases

PIECE = 65_536


def cases(quick: bool) -> Iterator[Case]:
    """The whole signal at once, then in pieces of 65,536 samples."""
    samples = np.random.default_rng(1).random(1_000_000 if quick else 4_000_000)
    for count in (256, 1024, 4096) if quick else (128, 192, 256, 512, 1024, 4096, 16384):
        taps = scipy.signal.firwin(count, 0.2)
        query = signal().fir(taps)
        name = f"{count} taps, {len(samples)} samples"
        yield Case(
            name,
            partial(ours, query, samples, keys=1),
            {"oaconvolve": partial(overlap_add, samples, taps)},
            also={f"{name} in pieces of {PIECE}": partial(in_pieces, query, samples)},
        )


def overlap_add(samples: npt.NDArray[np.float64], taps: npt.NDArray[np.float64]) -> Answer:
    """What an expert calls."""
    return summary(scipy.signal.oaconvolve(samples, taps)[: len(samples)])


def in_pieces(query: hp.UniformSignal, samples: npt.NDArray[np.float64]) -> Answer:
    """Push the samples piece by piece, and take results as they come."""
    pipeline = Pipeline(lower([query.node]).roots)
    slot = pipeline.keys(pipeline.ports[0]).slots([pa.array([0])])
    base = Timebases.shared(Timebase.every(PERIOD))
    found: list[Answer] = []
    for start in range(0, len(samples), PIECE):
        piece = samples[start : start + PIECE]
        pipeline.step(0, Segments(slot, np.array([start]), np.array([0, len(piece)]), piece, base))
        found += [summary(batch.values) for batch in pipeline.drain() if isinstance(batch, Segments)]
    pipeline.advance([Progress.end()])
    found += [summary(batch.values) for batch in pipeline.drain() if isinstance(batch, Segments)]
    return [sum(numbers) for numbers in zip(*found, strict=True)]
