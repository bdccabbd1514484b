"""Arithmetic, calculus, other rates and detectors of the catalogue: from samples to samples or events."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.integrate
import scipy.interpolate
import scipy.signal

from hydrophone.bench.catalogue_entry import PERIOD, Entry

Array = npt.NDArray[Any]
SECONDS = PERIOD / 1e9
SHIFT = 12.37
"""Hertz."""


def _turned(x: Array) -> Array:
    n = np.arange(x.shape[1])
    return np.asarray(x * np.exp(2j * np.pi * SHIFT * SECONDS * n))


def _crossings(x: Array) -> Array:
    """Times of all keys, one after the other."""
    below = x < 0
    return np.flatnonzero(below[:, 1:] != below[:, :-1]) % (x.shape[1] - 1) + 1


def _rises(x: Array, threshold: float) -> Array:
    """Where the signal comes to lie above a threshold."""
    above = np.zeros((x.shape[0], x.shape[1] + 1), np.bool_)
    np.greater(x, threshold, out=above[:, 1:])
    return np.flatnonzero(above[:, 1:] & ~above[:, :-1]) % x.shape[1]


def _peaks(x: Array, distance: int) -> Array:
    _, at = scipy.signal.argrelmax(x, order=distance, axis=1)
    return np.asarray(at[(at >= distance) & (at < x.shape[1] - distance)])


def _interpolated(x: Array, times: int) -> Array:
    """Lines between neighbours, so many steps on each."""
    old = np.arange(x.shape[1])
    new = np.arange((x.shape[1] - 1) * times + 1) / times
    return np.stack([np.interp(new, old, row) for row in x])


def _decimated(x: Array, n: int) -> Array:
    half = 10 * n
    taps = scipy.signal.firwin(2 * half + 1, 1 / n, window="hamming")
    return np.asarray(scipy.signal.resample_poly(x, 1, n, axis=1, window=taps))


SAMPLES = (
    Entry("scale", lambda x: x.scale(2.5), {"NumPy": lambda x: x * 2.5}),
    Entry("plus", lambda x, y: x.plus(y), {"NumPy": np.add}, inputs=2, methods=("minus", "times", "over")),
    Entry("combine", lambda x, y: x.combine(y, np.hypot), {"NumPy": np.hypot}, inputs=2),
    Entry("clip", lambda x: x.clip(0, 1), {"NumPy clip": lambda x: np.clip(x, 0, 1)}),
    Entry("abs", lambda x: x.abs(), {"NumPy abs": np.abs}, methods=("magnitude", "part")),
    Entry("map", lambda x: x.map(np.exp), {"NumPy": np.exp}),
    Entry("shift_frequency", lambda x: x.shift_frequency(SHIFT), {"NumPy": _turned}, loose=1e-6),
    Entry(
        "shift_frequency and angle",
        lambda x: x.shift_frequency(SHIFT).angle(),
        {"NumPy": lambda x: np.angle(_turned(x))},
        loose=1e-3,
    ),
    Entry(
        "shift_frequency and imag",
        lambda x: x.shift_frequency(SHIFT).imag(),
        {"NumPy": lambda x: _turned(x).imag},
        loose=1e-6,
        methods=("real", "conjugate"),
    ),
    Entry("difference", lambda x: x.difference(), {"NumPy diff": lambda x: np.diff(x, axis=1)}),
    Entry("differentiate", lambda x: x.differentiate(), {"NumPy diff": lambda x: np.diff(x, axis=1) / SECONDS}),
    Entry(
        "integrate",
        lambda x: x.integrate(),
        {
            "SciPy cumulative_trapezoid": lambda x: scipy.integrate.cumulative_trapezoid(
                x, dx=SECONDS, axis=1, initial=0
            )
        },
        loose=1e-6,
    ),
    Entry("teager", lambda x: x.teager(), {"NumPy": lambda x: x[:, 1:-1] ** 2 - x[:, :-2] * x[:, 2:]}),
    Entry("downsample, 4", lambda x: x.downsample(4), {"NumPy": lambda x: x[:, ::4].copy()}),
    Entry("upsample, 4", lambda x: x.upsample(4, "hold"), {"NumPy repeat": lambda x: np.repeat(x, 4, axis=1)}),
    Entry(
        "decimate, 4",
        lambda x: x.decimate(4),
        {
            "SciPy decimate": lambda x: scipy.signal.decimate(x, 4, ftype="fir", axis=1),
            "SciPy resample_poly": lambda x: _decimated(x, 4),
        },
        edges=20,
        loose=1e-3,
    ),
    Entry(
        "resample_poly, 3 / 2",
        lambda x: x.resample_poly(up=3, down=2),
        {"SciPy resample_poly": lambda x: scipy.signal.resample_poly(x, 3, 2, axis=1)},
        edges=40,
    ),
    Entry(
        "resample_poly, 147 / 160",
        lambda x: x.resample_poly(up=147, down=160),
        {"SciPy resample_poly": lambda x: scipy.signal.resample_poly(x, 147, 160, axis=1)},
        edges=200,
    ),
    Entry("resample, 4", lambda x: x.resample(PERIOD // 4), {"NumPy interp": lambda x: _interpolated(x, 4)}),
    Entry("zero_crossings", lambda x: x.zero_crossings(), {"NumPy": _crossings}),
    Entry("above", lambda x: x.above(1.5), {"NumPy": lambda x: _rises(x, 1.5)}),
    Entry("find_peaks, 20 samples", lambda x: x.find_peaks(distance=20), {"SciPy argrelmax": lambda x: _peaks(x, 20)}),
)
