"""What a script does without Spark: read all files into one process, sort, one NumPy call over a matrix with a row per sensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import scipy.signal

from hydrophone.bench.harness import Answer
from hydrophone.bench.peers.one_signal import cleaned

Floats = npt.NDArray[np.float64]


def fir(folder: Path, taps: Floats, samples: int | None = None) -> Answer:
    """A FIR filter over every sensor; of the result the first samples, or all."""
    return _summary(scipy.signal.lfilter(taps, 1.0, matrix(folder), axis=1)[:, :samples])


def clean(folder: Path, size: int, top: int) -> Answer:
    """Spectral cleaning of every sensor."""
    return _summary(cleaned(matrix(folder), size, top))


def stft(folder: Path, size: int) -> Answer:
    """The spectra of windows that overlap by half: their count of values, and the sum of real parts and of powers."""
    windows = np.lib.stride_tricks.sliding_window_view(matrix(folder), size, axis=1)[:, :: size // 2]
    spectra = np.fft.rfft(windows, axis=2)
    return spectra.size, float(spectra.real.sum()), float((spectra.real**2 + spectra.imag**2).sum())


def matrix(folder: Path) -> Floats:
    """The samples with a row per sensor in order of time; every sensor has equally many, which a script may know."""
    table = pq.read_table(folder)
    sensor = table["sensor"].to_numpy()
    order = np.lexsort((table["time"].to_numpy(), sensor))
    return table["value"].to_numpy()[order].reshape(int(sensor.max()) + 1, -1)


def _summary(out: Floats) -> Answer:
    return out.size, float(out.sum()), float((out * out).sum())
