"""Cases of wavelets: PyWavelets over whole signals and over single windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pywt
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, sampled
from tests.cases.table import Case, Source, grid, sample_rows
from tests.cases.windows import window

from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.resampling.downsample import Downsample
from hydrophone.ops.spectra.wavelets import Dwt, Idwt, WaveletEnergy

_SUMS = "sums of products in another order than PyWavelets'"


def _level(x: oracles.Samples, wavelet: str, band: int, whole: bool) -> oracles.Samples:
    """One level of PyWavelets over the signal with zeros in its holes, where the sample that a coefficient lies at is there."""
    if not x:
        return {}
    start, taps = min(x) // 2 * 2, pywt.Wavelet(wavelet).dec_len
    dense = np.array([x.get(k, 0.0) for k in range(start, max(x) + 1)])
    found = pywt.dwt(dense, wavelet, "zero")[band]
    there = {start // 2 + i: v for i, v in enumerate(found) if start + 2 * i + 1 in x}
    if not whole:
        return there
    return {m: v for m, v in there.items() if all(2 * m + 1 - i in x for i in range(taps))}


def stream(
    name: str,
    source: Source,
    wavelet: str,
    levels: int,
    which: int,
    *,
    missing: str = "zero",
    period: Any = 10,
    spacing: Any = None,
) -> Case:
    """`which` is the place of the band in the answer; 0 is the approximation."""
    depth = levels if which == 0 else levels - which + 1

    def one(x: oracles.Samples) -> oracles.Samples:
        for _ in range(depth - 1):
            x = _level(x, wavelet, 0, missing == "drop")
        return _level(x, wavelet, 0 if which == 0 else 1, missing == "drop")

    origin, at = 0, grid(period)
    for level in range(depth):
        origin = grid(period * 2**level, origin).instant(1)
        at = grid(period * 2 ** (level + 1), origin)
    return Case(
        name,
        Downsample if which else Fir,
        {"x": source},
        lambda s: s["x"].signal("v").sample(spacing or period).dwt(wavelet, levels, missing=missing)[which],
        lambda i: sample_rows(oracles.each(one, sampled(i["x"], period)), at),
        1e-12,
        _SUMS,
    )


def _wavedec() -> Case:
    """Without holes and from index 0 on: the begin of what ``pywt.wavedec`` gives at every level, here the second of three."""
    x = np.random.default_rng(301).normal(size=64)
    table = data.table(k=["a"] * 64, t=np.arange(64) * 10, v=x)
    found = pywt.wavedec(x, "db2", "zero", level=3)[2][:16]
    return Case(
        "dwt-wavedec",
        Downsample,
        {"x": Source(table, key="k")},
        lambda s: s["x"].signal("v").sample(10).dwt("db2", 3)[2],
        lambda _: [("a", 40 * m + 30, v) for m, v in enumerate(found)],
        1e-12,
        _SUMS,
    )


def _end_to_end(wavelet: str, levels: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: np.concatenate(pywt.wavedec(a, wavelet, "periodization", level=levels))


def _haar_energy(a: np.ndarray) -> np.ndarray:
    """Sums and differences of halves, by hand."""
    out: list[float] = []
    rest = np.asarray(a, float)
    with np.errstate(all="ignore"):
        for _ in range(2):
            out.insert(0, float((((rest[0::2] - rest[1::2]) ** 2) / 2).sum()))
            rest = (rest[0::2] + rest[1::2]) / np.sqrt(2)
        return np.array([float((rest**2).sum()), *out])


CASES = [
    stream("dwt-haar-details", data.beats(302), "haar", 1, 1),
    stream("dwt-approximation", data.beats(303, value=data.whole), "db2", 2, 0),
    stream("dwt-drop", data.beats(304, lost=0.05, value=data.complicated), "sym2", 2, 1, missing="drop"),
    stream("dwt-44khz", _cd_audio(), "bior2.2", 2, 2, period=GRID_44K, spacing="44.1kHz"),
    stream("dwt-empty", data.empty(data.beats(302)), "haar", 2, 0),
    _wavedec(),
    window(
        "dwt-windows",
        data.beats(305, lost=0.03),
        16,
        4,
        node=Dwt,
        then=lambda w: w.dwt("db2", 2),
        array=_end_to_end("db2", 2),
        tolerance=1e-12,
    ),
    window(
        "dwt-windows-single",
        data.beats(305, value=data.single),
        4,
        node=Dwt,
        then=lambda w: w.dwt("haar", 2),
        array=_end_to_end("haar", 2),
        tolerance=1e-5,
    ),
    window(
        "idwt",
        data.beats(306, lost=0.03, value=data.complicated),
        8,
        node=Idwt,
        then=lambda w: w.dwt("haar", 3).idwt("haar", 3),
        tolerance=1e-12,
    ),
    window(
        "wavelet-energy",
        data.beats(307, value=data.rough),
        8,
        2,
        node=WaveletEnergy,
        then=lambda w: w.wavelet_energy(2),
        array=_haar_energy,
        tolerance=1e-12,
    ),
]
