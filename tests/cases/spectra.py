"""Cases of spectra: compositions over windows, averages, bands, and pairs of signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.signal
from tests import oracles, oracles_spectra
from tests.cases import data
from tests.cases.sampling import sampled
from tests.cases.table import Case, Source, grid, sample_rows, window_rows

from hydrophone.ops.spectra.bands import MelBands, OctaveBands
from hydrophone.ops.spectra.shift_frequency import ShiftFrequency
from hydrophone.ops.spectra.sliding_dft import SlidingDft
from hydrophone.ops.windows.averages import Average, EmaWindows
from hydrophone.ops.windows.combine_windows import CombineWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.reduce import Reduce
from hydrophone.ops.windows.transforms import Rfft

_FFT = "another FFT than SciPy's, or another length of its batches"
SECOND = 10**9


def beats(seed: int, **more: Any) -> Source:
    """One sample a second, with few holes: densities per hertz are then numbers near one."""
    return data.beats(seed, **{"lost": 0.03, "rows": 60, "period": SECOND, **more})


def case(
    name: str,
    node: Any,
    then: Callable[..., Any],
    expected: Callable[..., oracles.Arrays],
    *sources: Source,
    tolerance: float = 1e-11,
    why: str = _FFT,
) -> Case:
    inputs = dict(zip("xy", sources, strict=False))

    def query(s: Mapping[str, Any]) -> Any:
        return then(*(s[n].signal("v").sample(SECOND) for n in inputs))

    def rows(i: Mapping[str, Source]) -> Any:
        return window_rows(oracles.each(expected, *(sampled(i[n], SECOND) for n in inputs)), grid(SECOND))

    return Case(name, node, inputs, query, rows, tolerance, why)


def _spectrogram(**how: Any) -> Callable[[oracles.Samples], oracles.Arrays]:
    def one(x: np.ndarray) -> np.ndarray:
        return scipy.signal.spectrogram(x, 1.0, "hann", len(x), 0, **how)[2][:, 0]

    return lambda x: oracles_spectra.groups(x, 8, 3, 1, one)


def _stft(x: oracles.Samples) -> oracles.Arrays:
    found: oracles.Arrays = {}
    for first, values in oracles.runs(x):
        found |= oracles_spectra.short_time(values, first, 8, 2, "hann") if len(values) >= 8 else {}
    return found


def _round_trip(name: str, source: Source, size: int, hop: int, taper: Any, missing: str) -> Case:
    """A sample comes back times the share of its windows that are there."""
    weights = scipy.signal.get_window(taper, size)
    share = weights * scipy.signal.ShortTimeFFT(weights, hop, 1.0).dual_win

    def expected(i: Mapping[str, Source]) -> Any:
        x = sampled(i["x"], 10)
        w = {k: oracles.windows(v, size, hop, missing) for k, v in x.items()}
        covered = {k: oracles.overlap_add({e: share for e in v}) for k, v in w.items()}
        return sample_rows({k: {n: c * x[k].get(n, 0) for n, c in v.items()} for k, v in covered.items()}, grid(10))

    return Case(
        name,
        OverlapAdd,
        {"x": source},
        lambda s: s["x"].signal("v").sample(10).stft(size, hop=hop, window=taper, missing=missing).istft(taper),
        expected,
        1e-12,
        _FFT,
    )


def _welch(x: np.ndarray) -> np.ndarray:
    return scipy.signal.welch(x, 1.0, "hann", 8, 4)[1]


def _band_power(i: Mapping[str, Source]) -> Any:
    """Lines at 0.25 and 0.375 Hz."""
    return [
        (*k, grid(SECOND).instant(end), float(a[2:4].sum() / 8))
        for k, v in sampled(i["x"], SECOND).items()
        for end, a in oracles_spectra.groups(v, 8, 4, 2, _welch).items()
    ]


def _two_mels(power: np.ndarray) -> np.ndarray:
    """Two triangles from 0 to 0.5 Hz, whose corners are equally far apart in mel."""
    corners = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 0.5 / 700), 4) / 2595) - 1)
    lines = np.arange(5) / 8
    return np.array([power @ np.interp(lines, corners[b : b + 3], [0, 1, 0], left=0, right=0) for b in (0, 1)])


def _csd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return scipy.signal.csd(x, y, 1.0, "hann", 8, 4, scaling="spectrum")[1]


def _coherence(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return scipy.signal.coherence(x, y, 1.0, "hann", 8, 4)[1]


def _rffts(x: oracles.Samples, size: int, hop: int) -> oracles.Arrays:
    with np.errstate(all="ignore"):
        return {end: np.fft.rfft(a) for end, a in oracles.windows(x, size, hop).items()}


def _goertzel(name: str, source: Source, size: int, hop: int) -> Case:
    frequency = 0.123

    def expected(i: Mapping[str, Source]) -> Any:
        line = np.exp(-2j * np.pi * frequency * np.arange(size))
        at = grid(SECOND)
        return [
            (*k, at.instant(end), complex(a @ line))
            for k, v in sampled(i["x"], SECOND).items()
            for end, a in oracles.windows(v, size, hop).items()
        ]

    return Case(
        name,
        ShiftFrequency,
        {"x": source},
        lambda s: s["x"].signal("v").sample(SECOND).goertzel(frequency, size, hop=hop),
        expected,
        1e-11,
        "phases turned from the origin of the grid, and sums in another order",
    )


def _modulate() -> Case:
    def expected(i: Mapping[str, Source]) -> Any:
        return sample_rows(
            {
                k: {n: v * np.exp(2j * np.pi * 0.25 * n) for n, v in x.items()}
                for k, x in sampled(i["x"], SECOND).items()
            },
            grid(SECOND),
        )

    return Case(
        "shift-frequency",
        ShiftFrequency,
        {"x": beats(240, value=data.complicated)},
        lambda s: s["x"].signal("v").sample(SECOND).shift_frequency("250mHz"),
        expected,
        1e-11,
        "the phase of the reference is a rounded product",
    )


def _mel(power: np.ndarray) -> np.ndarray:
    """Triangles by interpolation."""
    points = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 0.5 / 700), 5) / 2595) - 1)
    lines = np.arange(9) / 16
    return np.array([np.interp(lines, points[i : i + 3], [0, 1, 0], 0, 0) @ power for i in range(3)])


def _thirds(power: np.ndarray) -> np.ndarray:
    """Every line looked up by itself; 16 samples of 1 Hz have lines at n / 16."""
    bands: dict[int, float] = {}
    for n, p in enumerate(power):
        if n:
            band = int(np.floor(3 * np.log2(n / 16 / 1000) + 0.5))
            bands[band] = bands.get(band, 0.0) + p
    return np.array([v for b, v in sorted(bands.items()) if 1000 * 2 ** ((b + 0.5) / 3) <= 0.5])


def _power(a: np.ndarray) -> np.ndarray:
    return np.abs(np.fft.rfft(a)) ** 2


def _delayed(by: int) -> tuple[Source, Source]:
    """Noise, and the same noise later; both with holes of their own."""
    rng = np.random.default_rng(250)
    keys = {k: rng.normal(size=120) for k in "ab"}
    sides = []
    for lag, seed in ((by, 1), (0, 2)):
        lost = np.random.default_rng(seed)
        rows = [
            (k, n * SECOND, noise[n - lag + 10])
            for k, noise in keys.items()
            for n in range(100)
            if lost.random() > 0.01
        ]
        sides.append(Source(data.table(**{c: [r[j] for r in rows] for j, c in enumerate("ktv")}), key="k"))
    return sides[0], sides[1]


def _gcc() -> list[Case]:
    a, b = _delayed(3)
    lags = case(
        "gcc-phat-windows",
        CombineWindows,
        lambda x, y: x.window(12, hop=6).gcc_phat(y.window(12, hop=6)),
        lambda x, y: oracles_spectra.groups(x, 12, 6, 1, _whitened, y),
        a,
        b,
        tolerance=1e-9,
        why="lines of little power are made as large as all others, with their rounding",
    )

    def expected(i: Mapping[str, Source]) -> Any:
        x, y = (sampled(i[n], SECOND) for n in "xy")
        found = oracles.each(lambda p, q: oracles_spectra.groups(p, 24, 12, 1, _lag, q), x, y)
        return [(*k, grid(SECOND).instant(e), float(v[0])) for k, w in found.items() for e, v in w.items()]

    delay = Case(
        "gcc-phat-delay",
        Reduce,
        {"x": a, "y": b},
        lambda s: (
            s["x"].signal("v").sample(SECOND).gcc_phat(s["y"].signal("v").sample(SECOND), 24, hop=12, max_delay="8s")
        ),
        expected,
    )
    return [lags, delay]


def _whitened(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """With the padding of the operator, through the full complex spectrum."""
    n = len(a)
    room = scipy.fft.next_fast_len(2 * n - 1, real=True)
    cross = np.fft.fft(a, room) * np.conj(np.fft.fft(b, room))
    full = np.fft.ifft(cross / np.abs(cross)).real
    return np.array([full[lag % room] for lag in range(1 - n, n)])


def _lag(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    full = _whitened(a, b)
    middle = len(a) - 1
    return np.array([float(np.argmax(full[middle - 8 : middle + 9]) - 8)])


CASES = [
    case("stft", Rfft, lambda s: s.stft(8, hop=2), _stft, beats(230)),
    _round_trip("istft", data.beats(231, lost=0.03), 8, 4, "hann", "drop"),
    _round_trip("istft-zero", data.beats(232), 9, 3, ("kaiser", 5.0), "zero"),
    case("spectrogram", Rfft, lambda s: s.spectrogram(8, hop=3), _spectrogram(), beats(233)),
    case(
        "spectrogram-linear",
        Rfft,
        lambda s: s.spectrogram(8, hop=3, scaling="spectrum", detrend="linear"),
        _spectrogram(scaling="spectrum", detrend="linear"),
        beats(233),
    ),
    case(
        "spectrogram-complex",
        Average,
        lambda s: s.spectrogram(8, hop=3, detrend=None).average(1),
        _spectrogram(detrend=False, return_onesided=False),
        beats(233, value=data.complicated),
    ),
    case(
        "welch",
        Average,
        lambda s: s.welch(8, average=3),
        lambda x: oracles_spectra.groups(x, 8, 4, 3, _welch),
        beats(234, rows=90),
    ),
    case(
        "welch-whole",
        Average,
        lambda s: s.welch(8),
        lambda x: oracles_spectra.whole(oracles_spectra.groups(x, 8, 4, 1, _welch)),
        beats(234, rows=90),
    ),
    case(
        "average-whole-rough",
        Average,
        lambda s: s.window(3, hop=2).average(),
        lambda x: oracles_spectra.whole(oracles_spectra.groups(x, 3, 2, 1, lambda a: a)),
        beats(236, value=data.rough),
        tolerance=1e-12,
        why="NumPy adds up in another order",
    ),
    case(
        "csd-whole",
        Average,
        lambda x, y: x.csd(y, 8, scaling="spectrum"),
        lambda x, y: oracles_spectra.whole(oracles_spectra.groups(x, 8, 4, 1, _csd, y)),
        beats(237, rows=90),
        beats(238, rows=90),
    ),
    Case(
        "band-power",
        Reduce,
        {"x": beats(239, rows=90)},
        lambda s: s["x"].signal("v").sample(SECOND).welch(8, average=2).band_power(0.2, 0.4),
        _band_power,
        1e-11,
        _FFT,
    ),
    case(
        "mel-bands-of-average",
        MelBands,
        lambda s: s.welch(8, average=2).mel_bands(2),
        lambda x: oracles_spectra.groups(x, 8, 4, 2, lambda a: _two_mels(_welch(a))),
        beats(240, rows=90),
    ),
    case(
        "welch-exponential",
        EmaWindows,
        lambda s: s.welch(8, hop=3, alpha=0.9),
        lambda x: oracles_spectra.ema(_spectrogram()(x), 0.9, 3),
        beats(235),
    ),
    case(
        "average-rough",
        Average,
        lambda s: s.window(3, hop=2).average(2),
        lambda x: oracles_spectra.groups(x, 3, 2, 2, lambda a: (a[:3] + a[2:]) / 2),
        beats(236, value=data.rough),
    ),
    case(
        "csd",
        Average,
        lambda x, y: x.csd(y, 8, average=2, scaling="spectrum"),
        lambda x, y: oracles_spectra.groups(x, 8, 4, 2, _csd, y),
        beats(237),
        beats(238),
    ),
    case(
        "coherence",
        CombineWindows,
        lambda x, y: x.coherence(y, 8, average=3),
        lambda x, y: oracles_spectra.groups(x, 8, 4, 3, _coherence, y),
        beats(237, rows=90),
        beats(238, rows=90),
        tolerance=1e-9,
        why="quotients of spectra, of which some lines are weak",
    ),
    case("sliding-dft", SlidingDft, lambda s: s.sliding_dft(8), lambda x: _rffts(x, 8, 1), beats(242)),
    case(
        "sliding-dft-hop",
        SlidingDft,
        lambda s: s.sliding_dft(7, hop=3),
        lambda x: _rffts(x, 7, 3),
        beats(242, rows=130, lost=0.01),
    ),
    case(
        "sliding-dft-rough",
        SlidingDft,
        lambda s: s.sliding_dft(6, hop=2),
        lambda x: _rffts(x, 6, 2),
        beats(243, value=data.rough),
    ),
    _goertzel("goertzel", beats(239), 7, 2),
    _goertzel("goertzel-tumbling", beats(239, value=data.whole), 5, 5),
    _modulate(),
    case(
        "mel-bands",
        MelBands,
        lambda s: s.window(16, hop=8).rfft().power().mel_bands(3),
        lambda x: oracles_spectra.groups(x, 16, 8, 1, lambda a: _mel(_power(a))),
        beats(241),
    ),
    case(
        "octave-bands",
        OctaveBands,
        lambda s: s.window(16, hop=8).rfft().power().octave_bands(3),
        lambda x: oracles_spectra.groups(x, 16, 8, 1, lambda a: _thirds(_power(a))),
        beats(241),
    ),
    *_gcc(),
]
