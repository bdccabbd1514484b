"""Filters of the catalogue, and moving aggregates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import scipy.ndimage
import scipy.signal

from hydrophone.bench.catalogue_entry import PERIOD, Entry, flat_convolution

Array = npt.NDArray[Any]
RATE = 1e9 / PERIOD
SECTIONS = scipy.signal.butter(4, 0.2, output="sos")
POLES = scipy.signal.butter(3, 0.2)
BAND = scipy.signal.butter(4, (50, 150), "band", fs=RATE, output="sos")
NOTCH = scipy.signal.iirnotch(50, 30, RATE)
PATTERN = np.random.default_rng(1).normal(size=64)
SIZE = 50
LONG = 1000
POLARS = f"Polars, {pl.thread_pool_size()} threads"


def _taps(count: int) -> Array:
    return np.asarray(scipy.signal.firwin(count, 0.2))


def _overlap_add(x: Array, taps: Array) -> Array:
    return np.asarray(scipy.signal.oaconvolve(x, taps[None], axes=1)[:, : x.shape[1]])


def _fir(count: int) -> Entry:
    taps = _taps(count)
    return Entry(
        f"fir, {count} taps",
        lambda x: x.fir(taps),
        {
            "SciPy oaconvolve": lambda x: _overlap_add(x, taps),
            **(
                {
                    "NumPy convolve": lambda x: flat_convolution(x, taps),
                    "SciPy lfilter": lambda x: scipy.signal.lfilter(taps, 1, x, axis=1),
                }
                if count < 256
                else {}
            ),
        },
    )


def _ahead(x: Array, taps: Array) -> Array:
    return flat_convolution(x[:, ::-1], taps)[:, ::-1]


def _hilbert_taps(size: int = 65) -> Array:
    n = np.arange(-(size // 2), size // 2 + 1)
    with np.errstate(divide="ignore"):
        return np.asarray((n == 0) + 1j * np.where(n % 2 == 1, 2 / (np.pi * n), 0) * np.kaiser(size, 6))


def _analytic(x: Array) -> Array:
    """The middle tap is a one: the real part is the signal, and the imaginary part a filter without it."""
    half = scipy.signal.oaconvolve(x, _hilbert_taps().imag[None], "valid", axes=1)
    out = np.empty(half.shape, np.complex128)
    out.real, out.imag = x[:, 32:-32], half
    return out


def _envelope(x: Array) -> Array:
    half = scipy.signal.oaconvolve(x, _hilbert_taps().imag[None], "valid", axes=1)
    return np.asarray(np.hypot(x[:, 32:-32], half))


def _turning(x: Array) -> Array:
    z = _analytic(x)
    return np.asarray(np.angle(z[:, 1:] * z[:, :-1].conj()) * (RATE / (2 * np.pi)))


def _ewm(x: Array, alpha: float) -> Array:
    start = (1 - alpha) * x[:, :1]
    return np.asarray(scipy.signal.lfilter([alpha], [1, alpha - 1], x, axis=1, zi=start)[0])


def _trimmed(x: Array, size: int, flat: Array) -> Array:
    """What a flat call over all keys gives, without what reaches into the key before."""
    return flat.reshape(x.shape)[:, size - 1 :]


def _rolling(how: str, size: int, **options: Any) -> dict[str, Any]:
    """Polars and pandas over all keys end to end."""
    return {
        "pandas rolling": lambda x: _trimmed(
            x, size, getattr(pd.Series(x.reshape(-1)).rolling(size), how)(**options).to_numpy()
        ),
        POLARS: lambda x: _trimmed(
            x, size, getattr(pl.Series(x.reshape(-1)), f"rolling_{how}")(size, **options).to_numpy()
        ),
    }


def _filter1d(function: Any, x: Array, size: int, **options: Any) -> Array:
    """SciPy's filters stand in the middle of their window; those with a whole window are kept."""
    left = size // 2
    return np.asarray(function(x, size, axis=1, **options)[:, left : left + x.shape[1] - size + 1])


def _mean(x: Array, size: int) -> Array:
    return _filter1d(scipy.ndimage.uniform_filter1d, x, size, output=np.float64)


def _summed(x: Array, size: int) -> Array:
    return _mean(x, size) * size


def _energy(x: Array, size: int) -> Array:
    return _summed(np.square(x, dtype=np.float64), size)


def _median(x: Array, size: int) -> Array:
    return np.asarray(scipy.ndimage.median_filter(x, (1, size))[:, size // 2 : size // 2 + x.shape[1] - size + 1])


def _zscore(x: Array, size: int) -> Array:
    rolling = pd.Series(x.reshape(-1)).rolling(size)
    mean, std = (_trimmed(x, size, found.to_numpy()) for found in (rolling.mean(), rolling.std(ddof=0)))
    return (x[:, size - 1 :] - mean) / std


def _normalised(x: Array, size: int) -> Array:
    low = _filter1d(scipy.ndimage.minimum_filter1d, x, size)
    return np.asarray((x[:, size - 1 :] - low) / (_filter1d(scipy.ndimage.maximum_filter1d, x, size) - low))


def _line(size: int) -> Array:
    age = np.arange(size) - (size - 1) / 2
    return np.asarray((np.arange(size) == 0) - (1 / size + age * age[0] / (age @ age)))


def _sta_lta(x: Array, short: int, long: int) -> Array:
    few, many = _energy(x, short), _energy(x, long)
    return np.asarray(few[:, long - short :] / many * (long / short))


FILTERS = (
    _fir(4),
    _fir(32),
    _fir(128),
    _fir(256),
    _fir(1024),
    Entry(
        "correlate, 64 samples",
        lambda x: x.correlate(PATTERN),
        {
            "SciPy oaconvolve": lambda x: _overlap_add(x, PATTERN[::-1]),
            "NumPy convolve": lambda x: flat_convolution(x, PATTERN[::-1]),
        },
        methods=("convolve", "matched_filter"),
    ),
    Entry(
        "correlate, 1024 samples",
        lambda x: x.correlate(np.tile(PATTERN, 16)),
        {"SciPy oaconvolve": lambda x: _overlap_add(x, np.tile(PATTERN, 16)[::-1])},
    ),
    Entry("fir_ahead, 32 taps", lambda x: x.fir_ahead(_taps(32)), {"NumPy convolve": lambda x: _ahead(x, _taps(32))}),
    Entry("sos, order 4", lambda x: x.sos(SECTIONS), {"SciPy sosfilt": lambda x: scipy.signal.sosfilt(SECTIONS, x)}),
    Entry(
        "bandpass, order 8",
        lambda x: x.bandpass(50, 150),
        {"SciPy sosfilt": lambda x: scipy.signal.sosfilt(BAND, x)},
        methods=("lowpass", "highpass", "bandstop"),
    ),
    Entry("iir, order 3", lambda x: x.iir(*POLES), {"SciPy lfilter": lambda x: scipy.signal.lfilter(*POLES, x)}),
    Entry("notch", lambda x: x.notch(50), {"SciPy lfilter": lambda x: scipy.signal.lfilter(*NOTCH, x)}),
    Entry(
        "dc_block", lambda x: x.dc_block(), {"SciPy lfilter": lambda x: scipy.signal.lfilter([1, -1], [1, -0.995], x)}
    ),
    Entry(
        "single_pole",
        lambda x: x.single_pole(0.1),
        {"SciPy lfilter": lambda x: scipy.signal.lfilter([0.1], [1, -0.9], x)},
    ),
    Entry("ema", lambda x: x.ema(0.1), {"SciPy lfilter": lambda x: _ewm(x, 0.1)}),
    Entry(
        "filtfilt, order 4",
        lambda x: x.filtfilt(SECTIONS),
        {"SciPy sosfiltfilt": lambda x: scipy.signal.sosfiltfilt(SECTIONS, x)},
        edges=200,
        loose=1e-6,
    ),
    Entry(
        "savgol, 11 samples",
        lambda x: x.savgol(11, 3),
        {
            "SciPy savgol_filter": lambda x: scipy.signal.savgol_filter(x, 11, 3)[:, 5:-5],
            "NumPy convolve": lambda x: flat_convolution(x, scipy.signal.savgol_coeffs(11, 3))[:, 10:],
        },
    ),
    Entry("hilbert, 65 taps", lambda x: x.hilbert(), {"SciPy oaconvolve": _analytic}),
    Entry("envelope, 65 taps", lambda x: x.envelope(), {"SciPy oaconvolve": _envelope}),
    Entry(
        "instantaneous_frequency, 65 taps",
        lambda x: x.instantaneous_frequency(),
        {"SciPy oaconvolve": _turning},
        loose=1e-3,
    ),
    Entry(
        f"detrend, {SIZE} samples",
        lambda x: x.detrend(SIZE),
        {"NumPy convolve": lambda x: flat_convolution(x, _line(SIZE))[:, SIZE - 1 :]},
    ),
    *(
        Entry(
            f"moving_{how}, {size} samples",
            lambda x, how=how, size=size: getattr(x, f"moving_{how}")(size),
            {"SciPy ndimage": lambda x, call=call, size=size: call(x, size), **_rolling(how, size)},
            methods=("moving", "rolling", "min", "sum"),
        )
        for how, call in (
            ("mean", _mean),
            ("sum", _summed),
            ("min", lambda x, size: _filter1d(scipy.ndimage.minimum_filter1d, x, size)),
            ("max", lambda x, size: _filter1d(scipy.ndimage.maximum_filter1d, x, size)),
        )
        for size in (SIZE, LONG)
    ),
    Entry(f"moving_std, {SIZE} samples", lambda x: x.moving_std(SIZE), _rolling("std", SIZE, ddof=0)),
    Entry(
        "moving_median, 51 samples",
        lambda x: x.moving_median(51),
        {**_rolling("median", 51), "SciPy median_filter": lambda x: _median(x, 51)},
    ),
    Entry(f"moving_median, {LONG} samples", lambda x: x.moving_median(LONG), _rolling("median", LONG)),
    Entry(
        f"moving_energy, {SIZE} samples", lambda x: x.moving_energy(SIZE), {"SciPy ndimage": lambda x: _energy(x, SIZE)}
    ),
    Entry(
        f"moving_rms, {SIZE} samples",
        lambda x: x.moving_rms(SIZE),
        {"SciPy ndimage": lambda x: np.sqrt(_energy(x, SIZE) / SIZE)},
    ),
    Entry(f"zscore, {SIZE} samples", lambda x: x.zscore(SIZE), {"pandas rolling": lambda x: _zscore(x, SIZE)}),
    Entry(f"normalise, {SIZE} samples", lambda x: x.normalise(SIZE), {"SciPy ndimage": lambda x: _normalised(x, SIZE)}),
    Entry(
        "sta_lta, 20 and 400 samples",
        lambda x: x.sta_lta(20, 400),
        {"SciPy ndimage": lambda x: _sta_lta(x, 20, 400)},
    ),
)
