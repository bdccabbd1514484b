"""Cases of Window, the transforms, MapWindows and OverlapAdd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, sampled
from tests.cases.table import Case, Source, grid, sample_rows, window_rows

from hydrophone.ops.windows.map_windows import MapWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.transforms import Fft, Ifft, Irfft, Rfft
from hydrophone.ops.windows.window import Window

_FFT = "another FFT than NumPy's, or another length of its batches"
_SUMS = "transforms round"


def keep_top(windows: np.ndarray) -> np.ndarray:
    """Zero all but the two strongest lines of every row."""
    order = np.argsort(-np.abs(windows), axis=1, kind="stable")
    out = np.zeros_like(windows)
    rows = np.arange(len(windows))[:, None]
    out[rows, order[:, :2]] = windows[rows, order[:, :2]]
    return out


def halve(windows: np.ndarray) -> np.ndarray:
    return windows * 0.5


def peak(windows: np.ndarray) -> np.ndarray:
    """One value per window, given flat."""
    return np.abs(windows).max(axis=1)


def newest_three(windows: np.ndarray) -> np.ndarray:
    return windows[:, -3:]


def only_newest_three(windows: np.ndarray) -> np.ndarray:
    return np.where(np.arange(windows.shape[1]) < windows.shape[1] - 3, 0, windows)


def window(
    name: str,
    source: Source,
    size: int,
    hop: int | None = None,
    missing: str = "drop",
    *,
    node: Any = Window,
    then: Callable[[Any], Any] = lambda w: w,
    array: Callable[[np.ndarray], np.ndarray] = lambda a: a,
    samples: bool = False,
    period: Any = 10,
    spacing: Any = None,
    tolerance: float = 0.0,
) -> Case:
    def query(s: Mapping[str, Any]) -> Any:
        return then(s["x"].signal("v").sample(spacing or period).window(size, hop=hop, missing=missing))

    def expected(inputs: Mapping[str, Source]) -> Any:
        x = sampled(inputs["x"], period)
        arrays = {k: oracles.windows(v, size, hop or size, missing) for k, v in x.items()}
        if inputs["x"].table.schema.field("v").type == "float":
            arrays = {k: {e: a.astype(np.float32) for e, a in w.items()} for k, w in arrays.items()}
        arrays = {k: {e: array(a) for e, a in w.items()} for k, w in arrays.items()}
        if samples:
            return sample_rows(oracles.each(oracles.overlap_add, arrays), grid(period))
        return window_rows(arrays, grid(period))

    return Case(name, node, {"x": source}, query, expected, tolerance, _FFT if tolerance else "")


def _rows(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A function over many windows as one of a single window."""
    return lambda a: np.atleast_1d(function(a[None])[0])


def _ola(name: str, source: Source, size: int, hop: int, missing: str = "drop", **more: Any) -> Case:
    return window(
        name, source, size, hop, missing, node=OverlapAdd, then=lambda w: w.overlap_add(), samples=True, **more
    )


def _whole_numbers_stay(a: np.ndarray) -> np.ndarray:
    return a


CASES = [
    window("window-tumbling", data.beats(40), 8),
    window("window-overlapping", data.beats(40), 8, 3),
    window("window-hop-above-size", data.beats(41, lost=0.02), 3, 7),
    window("window-one-sample", data.beats(41), 1),
    window("window-one-sample-zero", data.beats(41), 1, 3, "zero"),
    window("window-larger-than-data", data.beats(41, rows=9), 64),
    window("window-larger-than-data-zero", data.beats(41, rows=9), 64, 16, "zero"),
    window("window-zero", data.beats(42), 8, 8, "zero"),
    window("window-zero-overlapping", data.beats(42), 8, 3, "zero"),
    window("window-zero-hop-above-size", data.beats(42), 3, 7, "zero"),
    window("window-zero-sparse", data.beats(42, lost=0.8), 5, 2, "zero"),
    window("window-rough", data.beats(43, value=data.rough), 4, 2),
    window("window-rough-zero", data.beats(43, value=data.rough), 4, 2, "zero"),
    window("window-integers", data.beats(44, [5, 6], value=data.whole), 4, 1),
    window("window-complex", data.beats(44, value=data.complicated), 4, 2, "zero"),
    window("window-44khz", _cd_audio(), 8, 4, period=GRID_44K, spacing="44.1kHz"),
    window("window-44khz-zero", _cd_audio(), 8, 4, "zero", period=GRID_44K, spacing="44.1kHz"),
    window("window-epoch-2026", data.beats(45, base=data.EPOCH_2026), 6, 2, "zero"),
    window("window-empty", data.empty(data.beats(40)), 4),
    window("window-one-row", data.one_row(data.beats(40)), 4, 2, "zero"),
    window("window-keys-once", data.beats(46, list(range(30)), 1, lost=0), 4, 3, "zero"),
    window("fft", data.beats(50), 8, 4, node=Fft, then=lambda w: w.fft(), array=np.fft.fft, tolerance=1e-12),
    window(
        "fft-complex",
        data.beats(50, value=data.complicated),
        7,
        3,
        node=Fft,
        then=lambda w: w.fft(),
        array=np.fft.fft,
        tolerance=1e-12,
    ),
    window(
        "fft-int16",
        data.beats(50, value=data.small_whole),
        6,
        node=Fft,
        then=lambda w: w.fft(),
        array=np.fft.fft,
        tolerance=1e-12,
    ),
    window(
        "fft-rough",
        data.beats(50, value=data.rough),
        4,
        node=Fft,
        then=lambda w: w.fft(),
        array=np.fft.fft,
        tolerance=1e-12,
    ),
    window("ifft", data.beats(51), 8, 4, node=Ifft, then=lambda w: w.ifft(), array=np.fft.ifft, tolerance=1e-12),
    window(
        "ifft-of-fft-int16",
        data.beats(51, value=data.small_whole),
        6,
        node=Ifft,
        then=lambda w: w.fft().ifft(),
        array=lambda a: np.fft.ifft(np.fft.fft(a)),
        tolerance=1e-12,
    ),
    window(
        "rfft", data.beats(52), 8, 4, "zero", node=Rfft, then=lambda w: w.rfft(), array=np.fft.rfft, tolerance=1e-12
    ),
    window("rfft-odd", data.beats(52), 7, 4, node=Rfft, then=lambda w: w.rfft(), array=np.fft.rfft, tolerance=1e-12),
    window(
        "rfft-single",
        data.beats(52, value=data.single),
        8,
        node=Rfft,
        then=lambda w: w.rfft(),
        array=np.fft.rfft,
        tolerance=1e-5,
    ),
    window(
        "rfft-int16",
        data.beats(52, value=data.small_whole),
        8,
        node=Rfft,
        then=lambda w: w.rfft(),
        array=np.fft.rfft,
        tolerance=1e-12,
    ),
    window(
        "irfft",
        data.beats(53),
        8,
        4,
        node=Irfft,
        then=lambda w: w.rfft().irfft(),
        array=lambda a: np.fft.irfft(np.fft.rfft(a), 8),
        tolerance=1e-12,
    ),
    window(
        "irfft-odd",
        data.beats(53),
        7,
        4,
        node=Irfft,
        then=lambda w: w.rfft().irfft(),
        array=lambda a: np.fft.irfft(np.fft.rfft(a), 7),
        tolerance=1e-12,
    ),
    window("map", data.beats(54), 8, 4, node=MapWindows, then=lambda w: w.map(halve), array=_rows(halve)),
    window("map-to-one-value", data.beats(54), 8, 4, node=MapWindows, then=lambda w: w.map(peak), array=_rows(peak)),
    window(
        "map-shorter",
        data.beats(54),
        8,
        4,
        node=MapWindows,
        then=lambda w: w.map(newest_three),
        array=_rows(newest_three),
    ),
    window(
        "map-spectrum",
        data.beats(55),
        8,
        4,
        node=MapWindows,
        then=lambda w: w.rfft().map(keep_top),
        array=lambda a: _rows(keep_top)(np.fft.rfft(a)),
        tolerance=1e-12,
    ),
    _ola("overlap-add", data.beats(60), 8, 4, tolerance=1e-12),
    _ola("overlap-add-odd", data.beats(60), 7, 3, tolerance=1e-12),
    _ola("overlap-add-tumbling", data.beats(60), 5, 5, tolerance=1e-12),
    _ola("overlap-add-hop-above-size", data.beats(61, lost=0.02), 3, 5, tolerance=1e-12),
    _ola("overlap-add-every-sample", data.beats(61), 4, 1, tolerance=1e-12),
    _ola("overlap-add-zero", data.beats(62), 8, 3, "zero", tolerance=1e-12),
    _ola("overlap-add-zero-hop-above-size", data.beats(62), 3, 7, "zero", tolerance=1e-12),
    _ola("overlap-add-rough", data.beats(63, value=data.rough), 6, 2, tolerance=1e-12),
    _ola("overlap-add-integers", data.beats(64, value=data.whole), 6, 2),
    _ola("overlap-add-44khz", _cd_audio(), 8, 4, "zero", period=GRID_44K, spacing="44.1kHz", tolerance=1e-12),
    _ola("overlap-add-one-sample", data.beats(64), 1, 1, tolerance=1e-12),
    _ola("overlap-add-empty", data.empty(data.beats(64)), 6, 2, tolerance=1e-12),
    window(
        "overlap-add-zeros",
        data.beats(65),
        8,
        2,
        node=OverlapAdd,
        then=lambda w: w.map(only_newest_three).overlap_add(),
        array=_rows(only_newest_three),
        samples=True,
        tolerance=1e-12,
    ),
    window(
        "overlap-add-spectrum",
        data.beats(66, rows=60),
        16,
        4,
        node=OverlapAdd,
        then=lambda w: w.rfft().map(keep_top).irfft().overlap_add(),
        array=lambda a: np.fft.irfft(_rows(keep_top)(np.fft.rfft(a)), 16),
        samples=True,
        tolerance=1e-12,
    ),
]
