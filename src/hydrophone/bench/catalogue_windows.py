"""Windows, spectra and wavelets of the catalogue. SciPy's FFT is given one worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pywt
import scipy.fft
import scipy.signal
import scipy.stats

from hydrophone.bench.catalogue_entry import PERIOD, Entry, sliding

Array = npt.NDArray[Any]
RATE = 1e9 / PERIOD
SIZE = 256
HANN = scipy.signal.get_window("hann", SIZE)
SHORT = scipy.signal.ShortTimeFFT(HANN, SIZE // 2, RATE)
TONE = 50.0
AVERAGE = 3


def _cut(x: Array, size: int = SIZE) -> Array:
    """Windows side by side, without a copy where nothing is left over."""
    whole = x.shape[1] // size
    return x[:, : whole * size].reshape(len(x), whole, size)


def _spectra(x: Array, detrend: bool) -> Array:
    windows = sliding(x, SIZE, SIZE // 2)
    windows = windows - windows.mean(axis=2, keepdims=True) if detrend else windows
    return np.asarray(scipy.fft.rfft(windows * HANN, axis=2))


def _back(z: Array) -> Array:
    """Overlap and add of the windows of spectra that are weighed with the dual window."""
    windows = scipy.fft.irfft(z, SIZE, axis=2) * SHORT.dual_win
    keys, count, _ = windows.shape
    out = np.zeros((keys, count + 1, SIZE // 2))
    out[:, :-1] += windows[:, :, : SIZE // 2]
    out[:, 1:] += windows[:, :, SIZE // 2 :]
    return out.reshape(keys, -1)


def _power(x: Array) -> Array:
    return np.asarray(scipy.signal.spectrogram(x, RATE, "hann", SIZE, SIZE // 2, axis=1)[2].swapaxes(1, 2))


def _groups(x: Array) -> Array:
    """The samples under every so many windows that are averaged, on the grid of the windows."""
    hop = SIZE // 2
    return sliding(x, SIZE + (AVERAGE - 1) * hop, AVERAGE * hop)


def _welch(x: Array) -> Array:
    return np.asarray(scipy.signal.welch(_groups(x), RATE, "hann", SIZE, SIZE // 2, axis=2)[1])


def _csd(x: Array, y: Array) -> Array:
    return np.asarray(scipy.signal.csd(_groups(x), _groups(y), RATE, "hann", SIZE, SIZE // 2, axis=2)[1])


def _coherence(x: Array, y: Array) -> Array:
    return np.asarray(scipy.signal.coherence(_groups(x), _groups(y), RATE, "hann", SIZE, SIZE // 2, axis=2)[1])


def _correlated(x: Array, y: Array) -> Array:
    """At all lags, by FFT; as ``scipy.signal.correlate`` row by row."""
    size = scipy.fft.next_fast_len(2 * SIZE - 1, real=True)
    a, b = scipy.fft.rfft(_cut(x), size, axis=2), scipy.fft.rfft(_cut(y), size, axis=2)
    both = scipy.fft.irfft(a * b.conj(), size, axis=2)
    return np.concatenate([both[..., size - SIZE + 1 :], both[..., :SIZE]], axis=2)


def _phat(x: Array, y: Array) -> Array:
    size = 2 * SIZE
    a, b = scipy.fft.rfft(_cut(x), size, axis=2), scipy.fft.rfft(_cut(y), size, axis=2)
    cross = a * b.conj()
    both = scipy.fft.irfft(cross / np.abs(cross), size, axis=2)
    return np.concatenate([both[..., size - SIZE + 1 :], both[..., :SIZE]], axis=2)


def _line(x: Array) -> Array:
    """A product with one line of the transform's matrix."""
    return np.asarray(_cut(x) @ np.exp(-2j * np.pi * TONE / RATE * np.arange(SIZE)))


def _wavelets(x: Array) -> Array:
    return np.concatenate(pywt.wavedec(_cut(x), "db4", "periodization", 3, axis=2), axis=2)


def _from_wavelets(x: Array) -> Array:
    parts = np.split(_cut(x), [SIZE // 8, SIZE // 4, SIZE // 2], axis=2)
    return np.asarray(pywt.waverec(parts, "db4", "periodization", axis=2))


def _largest(x: Array, count: int) -> Array:
    windows = _cut(x)
    out = np.zeros_like(windows)
    at = np.argpartition(np.abs(windows), SIZE - count, axis=2)[..., SIZE - count :]
    np.put_along_axis(out, at, np.take_along_axis(windows, at, axis=2), axis=2)
    return out


def _whole(x: Array, level: int) -> Array:
    """The finest details, as far as they need no sample after the last one."""
    return np.asarray(pywt.wavedec(x, "db4", "zero", level=level, axis=1)[level][:, : x.shape[1] // 2])


WINDOWS = (
    *(
        Entry(
            f"window and rfft, {size} samples",
            lambda x, size=size: x.window(size).rfft(),
            {"SciPy rfft": lambda x, size=size: scipy.fft.rfft(_cut(x, size), axis=2)},
        )
        for size in (16, SIZE, 1000)
    ),
    Entry(
        "window and rfft, half overlapping",
        lambda x: x.window(SIZE, hop=SIZE // 2).rfft(),
        {"SciPy rfft": lambda x: scipy.fft.rfft(sliding(x, SIZE, SIZE // 2), axis=2)},
    ),
    Entry(
        "window and fft, 256 samples",
        lambda x: x.window(SIZE).fft(),
        {"SciPy fft": lambda x: scipy.fft.fft(_cut(x), axis=2)},
        methods=("ifft",),
    ),
    Entry(
        "rfft and irfft, 256 samples",
        lambda x: x.window(SIZE).rfft().irfft(),
        {"SciPy rfft and irfft": lambda x: scipy.fft.irfft(scipy.fft.rfft(_cut(x), axis=2), SIZE, axis=2)},
    ),
    Entry("stft, 256 samples", lambda x: x.stft(SIZE), {"SciPy rfft": lambda x: _spectra(x, detrend=False)}),
    Entry(
        "stft and istft, 256 samples",
        lambda x: x.stft(SIZE).istft(),
        {"SciPy rfft and irfft": lambda x: _back(_spectra(x, detrend=False))},
        methods=("overlap_add", "unwindow"),
    ),
    Entry(
        "spectrogram, 256 samples",
        lambda x: x.spectrogram(SIZE),
        {
            "SciPy spectrogram": _power,
        },
    ),
    Entry(
        f"welch, {AVERAGE} windows",
        lambda x: x.welch(SIZE, average=AVERAGE),
        {"SciPy welch": _welch},
        methods=("average",),
    ),
    Entry(f"csd, {AVERAGE} windows", lambda x, y: x.csd(y, SIZE, average=AVERAGE), {"SciPy csd": _csd}, inputs=2),
    Entry(
        f"coherence, {AVERAGE} windows",
        lambda x, y: x.coherence(y, SIZE, average=AVERAGE),
        {"SciPy coherence": _coherence},
        inputs=2,
    ),
    Entry(
        "sliding_dft, 64 samples, hop 4",
        lambda x: x.sliding_dft(64, hop=4),
        {"SciPy rfft": lambda x: scipy.fft.rfft(sliding(x, 64, 4), axis=2)},
    ),
    Entry("goertzel, 256 samples", lambda x: x.goertzel(TONE, SIZE), {"NumPy matmul": _line}, loose=1e-6),
    Entry(
        "window and taper, 256 samples",
        lambda x: x.window(SIZE).taper("hann"),
        {"NumPy": lambda x: _cut(x) * HANN},
        methods=("multiply",),
    ),
    Entry(
        "window and detrend, 256 samples",
        lambda x: x.window(SIZE).detrend("linear"),
        {"SciPy detrend": lambda x: scipy.signal.detrend(_cut(x), axis=2)},
    ),
    Entry(
        "window and power, 256 samples",
        lambda x: x.window(SIZE).rfft().power(),
        {"SciPy rfft": lambda x: np.abs(scipy.fft.rfft(_cut(x), axis=2)) ** 2},
        methods=("magnitude", "phase"),
    ),
    Entry(
        "window and autocorrelate, 256 samples",
        lambda x: x.window(SIZE).autocorrelate(),
        {"SciPy rfft and irfft": lambda x: _correlated(x, x)},
    ),
    Entry(
        "window and cross_correlate, 256 samples",
        lambda x, y: x.window(SIZE).cross_correlate(y.window(SIZE)),
        {"SciPy rfft and irfft": _correlated},
        inputs=2,
    ),
    Entry(
        "window and gcc_phat, 256 samples",
        lambda x, y: x.window(SIZE).gcc_phat(y.window(SIZE)),
        {"SciPy rfft and irfft": _phat},
        inputs=2,
        loose=1e-3,
    ),
    Entry(
        "window and top_k, 10 of 256",
        lambda x: x.window(SIZE).top_k(10),
        {"NumPy argpartition": lambda x: _largest(x, 10)},
    ),
    *(
        Entry(
            f"{how}, tumbling windows of 256",
            lambda x, how=how: getattr(x, how)(SIZE),
            {name: lambda x, call=call: call(_cut(x))},
            methods=("reduce",),
        )
        for how, name, call in (
            ("mean", "NumPy mean", lambda w: w.mean(axis=2)),
            ("max", "NumPy max", lambda w: w.max(axis=2)),
            ("std", "NumPy std", lambda w: w.std(axis=2)),
            ("energy", "NumPy einsum", lambda w: np.einsum("kwi,kwi->kw", w, w)),
            ("rms", "NumPy einsum", lambda w: np.sqrt(np.einsum("kwi,kwi->kw", w, w) / SIZE)),
            ("kurtosis", "SciPy kurtosis", lambda w: scipy.stats.kurtosis(w, axis=2)),
            ("crest", "NumPy", lambda w: np.abs(w).max(axis=2) / np.sqrt(np.einsum("kwi,kwi->kw", w, w) / SIZE)),
        )
    ),
    Entry(
        "mean, windows of 256, hop 32",
        lambda x: x.mean(SIZE, hop=32),
        {"NumPy mean": lambda x: sliding(x, SIZE, 32).mean(axis=2)},
    ),
    Entry(
        "window and statistic, median of 255 samples",
        lambda x: x.window(255).statistic("median"),
        {"NumPy median": lambda x: np.median(_cut(x, 255), axis=2)},
    ),
    Entry(
        "window and dwt, 256 samples, 3 levels",
        lambda x: x.window(SIZE).dwt("db4", 3),
        {"PyWavelets wavedec": _wavelets},
        methods=("wavelet_energy",),
    ),
    Entry(
        "window and idwt, 256 samples, 3 levels",
        lambda x: x.window(SIZE).idwt("db4", 3),
        {"PyWavelets waverec": _from_wavelets},
    ),
    Entry(
        "dwt, finest of 1 level",
        lambda x: x.dwt("db4", 1)[1],
        {"PyWavelets wavedec": lambda x: _whole(x, 1)},
    ),
)
