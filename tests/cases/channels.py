"""Cases of windows with channels: every channel must give what it gives alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.signal
from tests import oracles, oracles_spectra, oracles_windows
from tests.cases import data
from tests.cases.arrays import RunningEnergy, middle, spread
from tests.cases.sampling import sampled
from tests.cases.table import Case, Source, grid
from tests.cases.windows import keep_top

import hydrophone as hp
from hydrophone.ops.filters.rolling import Statistic
from hydrophone.ops.user.window_operator import Apply
from hydrophone.ops.windows.averages import Average, EmaWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.reduce import Reduce
from hydrophone.ops.windows.transforms import Rfft
from hydrophone.ops.windows.unwindow import Unwindow
from hydrophone.ops.windows.window import Window
from hydrophone.ops.windows.window_channel import WindowChannel
from hydrophone.plan.node import Node

SECOND = 10**9


def pair(seed: int, rows: int = 40, period: int = 10, value: Any = data.rough, other: Any = None) -> Source:
    """Two columns on one grid, by default one of them with NaN, infinities and huge numbers."""
    base = data.beats(seed, rows=rows, period=period, value=other)
    w = value(len(base.table), np.random.default_rng(seed + 2))
    return replace(base, table=base.table.append_column("w", w if isinstance(w, pa.Array) else pa.array(w)))


def case(
    name: str,
    node: type[Node],
    source: Source,
    query: Callable[[hp.UniformSignal], Any],
    channel: Callable[[oracles.Samples], Mapping[int, Any]],
    *,
    period: int = 10,
    at: oracles.Grid | None = None,
    tolerance: float = 0.0,
) -> Case:
    """`channel` is the answer for one channel of one key, by index on the grid `at`: arrays or numbers."""

    def expected(inputs: Mapping[str, Source]) -> Any:
        rows = []
        for key, x in sampled(inputs["x"], period, columns=("v", "w")).items():
            with np.errstate(all="ignore"):
                v, w = (channel({k: np.asarray(s)[i] for k, s in x.items()}) for i in (0, 1))
            assert v.keys() == w.keys()
            rows += [(*key, (at or grid(period)).instant(k), _plain(v[k]), _plain(w[k])) for k in v]
        return rows

    why = "sums and transforms in another order than NumPy's" if tolerance else ""
    return Case(
        name,
        node,
        {"x": source},
        lambda s: query(s["x"].signal("v", "w").sample(period)),
        expected,
        tolerance,
        why,
    )


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    return tuple(array.tolist()) if array.ndim else array.item()


def _each(function: Callable[[np.ndarray], Any], size: int, hop: int, missing: str = "drop") -> Any:
    return lambda x: {end: function(a) for end, a in oracles.windows(x, size, hop, missing).items()}


def _filtered(a: np.ndarray) -> np.ndarray:
    return np.fft.ifft(keep_top(np.fft.fft(a)[None])[0])


def _lines(a: np.ndarray) -> np.ndarray:
    """A column of ``scipy.signal.spectrogram`` at 1 Hz."""
    return scipy.signal.spectrogram(a, 1.0, "hann", 8, 4)[2][:, 0]


def _labels(x: oracles.Samples) -> dict[int, Any]:
    """By the number of the hop in which a window of 6 samples every 2 begins."""
    return {(end - 5) // 2: float(np.ptp(a)) for end, a in oracles.windows(x, 6, 2).items()}


CASES = [
    case(
        "channels-window-zero",
        Window,
        pair(901),
        lambda s: s.window(8, hop=3, missing="zero"),
        _each(np.array, 8, 3, "zero"),
    ),
    case(
        "channels-rfft", Rfft, pair(902), lambda s: s.window(7, hop=2).rfft(), _each(np.fft.rfft, 7, 2), tolerance=1e-12
    ),
    case(
        "channels-overlap-add",
        OverlapAdd,
        pair(903, value=data.complicated, other=data.complicated),
        lambda s: s.window(8, hop=3, missing="zero").fft().map(keep_top).ifft().overlap_add(),
        lambda x: oracles.overlap_add(_each(_filtered, 8, 3, "zero")(x)),
        tolerance=1e-12,
    ),
    case(
        "channels-unwindow",
        Unwindow,
        pair(904),
        lambda s: s.window(6, hop=2).multiply(np.arange(6) + 1.0).unwindow(middle),
        lambda x: oracles_windows.unwindow(
            _each(lambda a: a * (np.arange(6) + 1.0), 6, 2)(x), lambda v: (np.fmin.reduce(v) + np.fmax.reduce(v)) / 2
        ),
    ),
    case(
        "channels-welch",
        Average,
        pair(905, 90, SECOND, data.single, data.single),
        lambda s: s.welch(8, average=3),
        lambda x: oracles_spectra.groups(x, 8, 4, 3, lambda a: scipy.signal.welch(a, 1.0, "hann", 8, 4)[1]),
        period=SECOND,
        tolerance=1e-5,
    ),
    case(
        "channels-welch-exponential",
        EmaWindows,
        pair(906, 40, SECOND, data.single),
        lambda s: s.welch(8, alpha=0.9),
        lambda x: oracles_spectra.ema(_each(_lines, 8, 4)(x), 0.9, 4),
        period=SECOND,
        tolerance=1e-12,
    ),
    case(
        "channels-reduce",
        Reduce,
        pair(907),
        lambda s: s.window(6, hop=2).reduce(spread, at="start"),
        _labels,
        at=grid(20),
    ),
    case(
        "channels-rms-zero",
        Statistic,
        pair(908, value=data.whole, other=data.whole),
        lambda s: s.rms(5, missing="zero"),
        lambda x: {
            (end - 4) // 5: oracles_windows.AGGREGATES["rms"](a) for end, a in oracles.windows(x, 5, 5, "zero").items()
        },
        at=grid(50, 40),
        tolerance=1e-12,
    ),
    case(
        "channels-apply",
        Apply,
        pair(909, value=data.whole, other=data.whole),
        lambda s: s.window(6, hop=1).apply(RunningEnergy()),
        _each(lambda a: np.array([(a**2).sum()]), 6, 1),
    ),
]


def _one_of_them() -> Case:
    both = case(
        "",
        Rfft,
        pair(910),
        lambda s: s.stft(8),
        _each(lambda a: np.fft.rfft(a * scipy.signal.get_window("hann", 8)), 8, 4),
    )
    return replace(
        both,
        name="channels-one-of-them",
        node=WindowChannel,
        query=lambda s: both.query(s).channel(1),
        expected=lambda i: [(*row[:2], row[3]) for row in both.expected(i)],
        tolerance=1e-12,
        why="another FFT than NumPy's",
    )


CASES.append(_one_of_them())
