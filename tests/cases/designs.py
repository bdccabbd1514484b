"""Cases of Iir and of the filters that are designed for the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.signal
from tests import oracles
from tests import oracles_moving as moving
from tests.cases import data
from tests.cases.filters import _RINGING
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors
from tests.cases.segments import GRIDS, segmented, signals
from tests.cases.table import Case, Row, Source
from tests.cases.uniform import ROUNDING, uniform

from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.filters.iir import Iir
from hydrophone.ops.filters.shift import Shift
from hydrophone.ops.filters.sos import Sos

B, A = scipy.signal.cheby1(3, 1, 0.4)
PATTERN = [1.0, -2.0, 0.5, 3.0]
CHIRP = np.exp(1j * np.arange(5) ** 2 / 3)


def lfilter(b: Any, a: Any, missing: str = "zero") -> Any:
    """SciPy's, over a signal without anything but numbers."""
    return lambda x: oracles.filtered(x, lambda v: scipy.signal.lfilter(b, a, v, axis=0), missing)


def steady(b: Any, a: Any) -> Any:
    """SciPy's over every stretch, begun as if its first sample had been there for ever."""
    begin = scipy.signal.lfilter_zi(b, a)
    return lambda x: oracles.filtered(x, lambda v: scipy.signal.lfilter(b, a, v, zi=begin * v[0])[0], "reset")


def rung(b: Any, a: Any) -> int:
    """Samples for which one of them rings above 2**-60 of the peak."""
    response = np.abs(scipy.signal.lfilter(b, a, np.eye(1, 20_000)[0]))
    return int(np.flatnonzero(response > 2.0**-60 * response.max())[-1]) + 1


def patient(b: Any, a: Any) -> Any:
    """`lfilter`, which after a sample that is not finite is NaN while it would ring and then begins at rest."""

    def run(v: np.ndarray) -> np.ndarray:
        out, at, rings = np.full(len(v), np.nan), 0, rung(b, a)
        while at < len(v):
            bad = np.flatnonzero(~np.isfinite(v[at:]))
            stop = at + int(bad[0]) if len(bad) else len(v)
            out[at:stop] = scipy.signal.lfilter(b, a, v[at:stop])
            if len(bad):
                out[stop] = np.sign(b[0]) * v[stop]  # nothing but the bad sample decides
            at = stop + 1
            while at < len(v) and (~np.isfinite(v[max(at - rings, 0) : at])).any():
                at += 1
        return out

    return lambda x: oracles.filtered(x, run, "zero")


def dots(pattern: Any, missing: str = "zero") -> Any:
    """The last samples times the pattern, one dot product per sample."""
    weights = np.asarray(pattern).conj()

    def answer(x: oracles.Samples) -> oracles.Samples:
        spans = {k: range(k - len(weights) + 1, k + 1) for k in x}
        return {
            k: np.dot(weights, [x.get(i, 0) for i in span])
            for k, span in spans.items()
            if missing == "zero" or all(i in x for i in span)
        }

    return answer


def sosfilt(sections: Any) -> Any:
    return lambda x: oracles.sos(x, sections)


def designed(name: str, source: Source, query: Any, answer: Any, **options: Any) -> Case:
    return uniform(name, Sos, source, query, answer, why=_RINGING, **options)


def _iir_of_segments() -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        return [
            (k, GRIDS[k].instant(n), float(v))
            for k, x in signals(inputs["x"]).items()
            for n, v in lfilter(B, A, "reset")(x).items()
        ]

    return Case(
        "iir-segments",
        Iir,
        {"x": segmented(230)},
        lambda s: s["x"].iir(B, A, missing="reset"),
        expected,
        1e-12,
        ROUNDING,
    )


MHZ = 1e6
"""A grid of 10 ns has a rate of 100 MHz."""

CASES = [
    uniform("iir", Iir, data.beats(220), lambda x: x.iir(B, A), lfilter(B, A), why=_RINGING),
    uniform(
        "iir-steady",
        Iir,
        data.beats(220, value=data.complicated),
        lambda x: x.iir(2 * B, 2 * A, missing="reset", initial="steady"),
        steady(B, A),
        why=_RINGING,
    ),
    uniform("iir-scaled", Iir, data.beats(221), lambda x: x.iir(2 * B, 2 * A), lfilter(B, A), why=_RINGING),
    uniform("iir-no-feedback", Iir, data.beats(221), lambda x: x.iir([1, 2, 3], 1), lfilter([1, 2, 3], [1])),
    uniform(
        "iir-rough",
        Iir,
        data.beats(222, value=data.rough, rows=60),
        lambda x: x.iir([1.0, 0.5], [1.0, -0.01]),
        patient([1.0, 0.5], [1.0, -0.01]),
    ),
    uniform(
        "iir-complex",
        Iir,
        data.beats(223),
        lambda x: x.iir([1.0], [1.0, -0.5j], missing="reset"),
        lfilter([1.0], [1.0, -0.5j], "reset"),
    ),
    uniform(
        "iir-vectors", Iir, _vectors(), lambda x: x.iir(B, A), lfilter(B, A), period=1, columns=("v", "w"), why=_RINGING
    ),
    _iir_of_segments(),
    uniform("convolve", Fir, data.beats(224), lambda x: x.convolve(PATTERN), lfilter(PATTERN, [1])),
    uniform("correlate", Fir, data.beats(224), lambda x: x.correlate(PATTERN), dots(PATTERN)),
    uniform(
        "correlate-complex",
        Fir,
        data.beats(225, value=data.complicated),
        lambda x: x.correlate(CHIRP, missing="drop"),
        dots(CHIRP, "drop"),
    ),
    uniform(
        "matched-filter",
        Fir,
        data.beats(226),
        lambda x: x.matched_filter(PATTERN),
        dots(np.array(PATTERN) / np.linalg.norm(PATTERN)),
    ),
    designed("single-pole", data.beats(227), lambda x: x.single_pole(0.3), lfilter([0.3], [1, -0.7])),
    designed("dc-block", data.beats(227), lambda x: x.dc_block(0.9), lfilter([1, -1], [1, -0.9])),
    designed(
        "notch",
        _cd_audio(),
        lambda x: x.notch("5kHz", 2),
        lfilter(*scipy.signal.iirnotch(5000, 2, 44_100)),
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    designed(
        "lowpass",
        _cd_audio(),
        lambda x: x.lowpass(8000),
        sosfilt(scipy.signal.butter(4, 8000, fs=44_100, output="sos")),
        period=GRID_44K,
        spacing="44.1kHz",
    ),
    designed(
        "highpass-rough",
        data.beats(228, value=data.rough),
        lambda x: x.highpass(20 * MHZ, 2),
        sosfilt(scipy.signal.butter(2, 0.4, "highpass", output="sos")),
    ),
    designed(
        "bandpass",
        data.beats(229),
        lambda x: x.bandpass("10MHz", "30MHz", 2),
        sosfilt(scipy.signal.butter(2, [0.2, 0.6], "bandpass", output="sos")),
    ),
    uniform(
        "bandstop-taps",
        Fir,
        data.beats(229),
        lambda x: x.bandstop(10 * MHZ, 30 * MHZ, taps=9),
        lfilter(scipy.signal.firwin(9, [0.2, 0.6], pass_zero="bandstop"), [1]),
    ),
    uniform(
        "savgol",
        Shift,
        data.beats(231, lost=0.05),
        lambda x: x.savgol(5, 2),
        lambda x: moving.around(x, 5, lambda w: scipy.signal.savgol_filter(w, 5, 2, mode="nearest")[2]),
    ),
    uniform(
        "savgol-slope",
        Shift,
        data.beats(232, value=data.whole, lost=0.05),
        lambda x: x.savgol("70ns", 3, deriv=1, delta=0.5),
        lambda x: moving.around(x, 7, lambda w: scipy.signal.savgol_filter(w, 7, 3, 1, 0.5, mode="nearest")[3]),
    ),
]
