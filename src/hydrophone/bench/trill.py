"""The queries of the TrillDSP paper, in this process against flat NumPy and SciPy calls and the loop over keys that people write."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from hydrophone.bench import trill_spark
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.local_engine import ours, signal
from hydrophone.bench.peers import expert_numpy, outside, scipy_loop

PATTERN = np.hanning(34)[1:-1]
LOW, HIGH = 0.01, 1.99
"""The paper's thresholds keep nothing at this size; these keep a few of a hundred thousand samples."""


def q1(quick: bool) -> Iterator[Case]:
    """`trill_q1`: FFT over tumbling windows of 2^4 to 2^16 samples of one signal, against one flat SciPy call."""
    samples = _samples(1 << (20 if quick else 22))
    for power in (4, 8, 12, 16) if quick else range(4, 17, 2):
        size = 1 << power
        yield Case(
            f"fft of {size}, {len(samples)} samples",
            partial(ours, signal().window(size).rfft(), samples, keys=1),
            {
                "one SciPy call": partial(expert_numpy.tumbling_fft, samples, size),
                **outside.tumbling_fft(samples, size),
            },
        )


def q2(quick: bool) -> Iterator[Case]:
    """`trill_q2`: FIR filters of 4 to 1,024 taps over one signal, against one flat call."""
    samples = _samples(1_000_000 if quick else 4_000_000)
    for count in (4, 32, 256, 1024):
        taps = np.hanning(count + 2)[1:-1]
        yield Case(
            f"{count} taps, {len(samples)} samples",
            partial(ours, signal().fir(taps), samples, keys=1),
            {
                "one NumPy call": partial(expert_numpy.fir, samples, taps),
                "one SciPy call": partial(expert_numpy.fir_by_scipy, samples, taps),
                **outside.fir(samples, taps),
            },
        )


def q3(quick: bool) -> Iterator[Case]:
    """`trill_q3`: correlation with a pattern of 32 samples, for 10 to 1,000,000 keys, and on Spark."""
    for keys in (100, 10_000) if quick else (10, 100, 1_000, 10_000, 100_000, 1_000_000):
        samples = _samples(max(1_000_000 if quick else 4_000_000, keys * 100))
        yield Case(
            f"{keys} keys, {len(samples)} samples",
            partial(ours, signal().correlate(PATTERN), samples, keys=keys),
            {
                "expert NumPy": partial(expert_numpy.correlate, samples, keys, PATTERN),
                "SciPy per key": partial(scipy_loop.correlate, samples, keys, PATTERN),
                **outside.correlate(samples, keys, PATTERN),
                **_polars_correlate(samples, keys),
            },
            runs=5 if keys < 100_000 else 3,
        )
    yield from trill_spark.correlation(quick, PATTERN)


def q4(quick: bool) -> Iterator[Case]:
    """`trill_q4`: two grouped signals with periods of 20 and 5 ms, the slow one interpolated, their sum filtered by value; and on Spark."""
    slow, fast = signal(20_000_000), signal(5_000_000)
    query = (slow.resample("5ms") + fast).where(extreme)
    for keys in (100, 10_000) if quick else (10, 100, 1_000, 10_000, 100_000, 1_000_000):
        length = max(1_000_000 // keys, 6)
        rng = np.random.default_rng(keys)
        few, many = rng.random(keys * length), rng.random(keys * (4 * (length - 1) + 1))
        yield Case(
            f"{keys} keys, {len(few) + len(many)} samples",
            partial(ours, query, few, many, keys=keys, periods=(20_000_000, 5_000_000)),
            {
                "expert NumPy": partial(expert_numpy.interpolate_add_filter, few, many, keys, extreme),
                **(_loops(few, many, keys) if keys <= 100_000 else {}),  # a minute and more each
                **outside.interpolate_add_filter(few, many, keys, LOW, HIGH),
                **_polars_interpolate(few, many, keys),
            },
            runs=3,
        )
    yield from trill_spark.interpolation(quick, extreme, (LOW, HIGH))


def extreme(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Sums beyond the limits."""
    return (values < LOW) | (values > HIGH)


def q5(quick: bool) -> Iterator[Case]:
    """`trill_q5`: overlap-add of windows of 256 samples, 100 keys, hops from 1 to 256."""
    keys, size = 100, 256
    for hop in (16, 64, 256) if quick else (1, 4, 16, 64, 128, 256):
        samples = _samples(keys * (2_560 if hop < 16 else 25_600))
        query = signal().window(size, hop=hop).rfft().map(identity).irfft().overlap_add()
        yield Case(
            f"hop {hop}, {keys} keys, {len(samples)} samples",
            partial(ours, query, samples, keys=keys),
            {
                "expert NumPy": partial(expert_numpy.overlap_add, samples, keys, size, hop),
                "NumPy per window": partial(scipy_loop.overlap_add, samples, keys, size, hop),
                **outside.overlap_add(samples, keys, size, hop),
            },
            runs=3,
        )


def identity(spectra: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    """What the paper's query does to the spectrum."""
    return spectra


def _samples(count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(count).random(count)


def _loops(few: npt.NDArray[np.float64], many: npt.NDArray[np.float64], keys: int) -> dict[str, Callable[[], Answer]]:
    return {
        "SciPy per key": partial(scipy_loop.interpolate_add_filter, few, many, keys, extreme),
        "NumPy per key": partial(scipy_loop.interpolate_by_numpy_add_filter, few, many, keys, extreme),
    }


def _polars_correlate(samples: npt.NDArray[np.float64], keys: int) -> dict[str, Callable[[], Answer]]:
    if not _has_polars():
        return {}
    from hydrophone.bench.peers import polars_frames

    return {"Polars": partial(polars_frames.correlate, polars_frames.frame(samples, keys, 1), PATTERN)}


def _polars_interpolate(
    few: npt.NDArray[np.float64], many: npt.NDArray[np.float64], keys: int
) -> dict[str, Callable[[], Answer]]:
    if not _has_polars():
        return {}
    from hydrophone.bench.peers import polars_frames

    slow, fast = polars_frames.frame(few, keys, 20), polars_frames.frame(many, keys, 5)
    return {"Polars": partial(polars_frames.interpolate_add_filter, slow, fast, extreme, 20)}


def _has_polars() -> bool:
    found = importlib.util.find_spec("polars") is not None
    if not found:
        outside.say_absent("Polars", "it is not installed")
    return found
