"""Windows that overlap: aggregates and spectra that carry over what windows share, against windows that are cut one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from hydrophone.bench.harness import Case
from hydrophone.bench.local_engine import ours, signal
from hydrophone.bench.trill_more import in_batches


def rolling(quick: bool) -> Iterator[Case]:
    """`rolling`: mean and kurtosis of overlapping windows, against cut windows."""
    for size, hop in ((64, 1), (1024, 1), (4800, 480)) if quick else ((64, 1), (1024, 1), (4096, 1), (4800, 480)):
        samples = np.random.default_rng(size).random(1_000_000 if hop > 1 else 50_000 if quick else 100_000)
        name = f"size {size}, hop {hop}, {len(samples)} samples"
        cut = partial(ours, signal().window(size, hop=hop).reduce(mean), samples, keys=1)
        yield Case(f"mean, {name}", partial(ours, signal().mean(size, hop=hop), samples, keys=1), {"cut": cut})
        few = samples if hop > 1 else samples[:20_000]
        yield Case(
            f"kurtosis, size {size}, hop {hop}, {len(few)} samples",
            partial(ours, signal().kurtosis(size, hop=hop), few, keys=1),
            {"cut": partial(ours, signal().window(size, hop=hop).reduce(kurtosis), few, keys=1)},
            runs=3,
        )


def sliding_dft(quick: bool) -> Iterator[Case]:
    """`sliding_dft`: spectra of windows that move by 1 to 4 samples, updated, against an FFT of each; in batches of 10,000 samples."""
    samples = np.random.default_rng(3).random(20_000 if quick else 100_000)
    for size in (64, 256) if quick else (64, 256, 1024):
        for hop in (1, 2, 4):
            yield Case(
                f"size {size}, hop {hop}, {len(samples)} samples",
                partial(in_batches, signal().sliding_dft(size, hop=hop), samples, 10_000),
                {"FFT": partial(in_batches, signal().window(size, hop=hop).rfft(), samples, 10_000)},
                runs=3,
            )


def mean(windows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Window by window."""
    out: npt.NDArray[np.float64] = windows.mean(axis=1)
    return out


def kurtosis(windows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Window by window: the excess over that of a normal distribution."""
    away = windows - windows.mean(axis=1, keepdims=True)
    out: npt.NDArray[np.float64] = (away**4).mean(axis=1) / (away**2).mean(axis=1) ** 2 - 3
    return out
