"""What a user can get wrong with filters and moving aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import HydrophoneError, ParameterError, SignalTypeError


def signal(spacing: str = "10ms", **columns: Any) -> hp.UniformSignal:
    table = pa.table({"k": ["a", "a", "b"], "t": [0, 10, 20], "v": [1.0, 2.0, 3.0], **columns})
    return hp.from_arrow(table, key="k", time="t").signal("v").sample(spacing)


def complex_signal() -> hp.UniformSignal:
    parts = [pa.array([1.0, 2.0, 3.0])] * 2
    return signal(v=pa.StructArray.from_arrays(parts, ["re", "im"]))


def segments() -> hp.UniformSignal:
    table = pa.table({"k": ["a"], "t": [0], "values": [[1.0, 2.0]], "period": [10.0]})
    return hp.from_segments(table, key="k", time="t")


Bad = tuple[type[HydrophoneError], Callable[[], Any], str]

BAD: dict[str, Bad] = {
    "iir-empty": (ParameterError, lambda: signal().iir([], [1]), "iir: b must be a sequence of at least one number"),
    "iir-nan": (ParameterError, lambda: signal().iir([float("nan")], [1]), "iir: b must be finite, got nan"),
    "iir-a0": (ParameterError, lambda: signal().iir([1], [0, 1]), "iir: a[0] must not be zero"),
    "iir-integrator": (
        ParameterError,
        lambda: signal().iir([1], [1, -1]),
        "Hint: it adds up samples for ever: integrate()",
    ),
    "sos-integrator": (
        ParameterError,
        lambda: signal().sos([[1, 0, 0, 1, -1, 0]]),
        "Hint: it adds up samples for ever",
    ),
    "sos-unstable": (
        ParameterError,
        lambda: signal().sos([[1, 0, 0, 1, -1.5, 0]]),
        "Hint: poles must lie inside the unit circle",
    ),
    "zscore-complex": (SignalTypeError, lambda: complex_signal().zscore(3), "zscore: the values are complex"),
    "normalise-complex": (SignalTypeError, lambda: complex_signal().normalise(3), "normalise: the values are complex"),
    "cfar-complex": (SignalTypeError, lambda: complex_signal().cfar(3.0), "cfar: the values are complex"),
    "cfar-average-complex": (
        SignalTypeError,
        lambda: complex_signal().cfar(3.0, noise="average"),
        "cfar: the values are complex",
    ),
    "iir-unstable": (
        ParameterError,
        lambda: signal().iir([1], [1, -1.5]),
        "iir: the filter is unstable (pole radius 1.5)",
    ),
    "iir-missing": (ParameterError, lambda: signal().iir([1], [1], missing="drop"), "'zero', 'reset', got 'drop'"),
    "fir-matrix": (
        ParameterError,
        lambda: signal().fir(np.ones((2, 2))),
        "fir: taps must be a sequence of at least one number, got float64 of shape (2, 2)",
    ),
    "fir-text": (
        ParameterError,
        lambda: signal().fir(["x"]),
        "fir: taps must be a sequence of at least one number, got <U1",
    ),
    "window-fraction": (ParameterError, lambda: signal().window(2.5), "window: size must be a whole number of samples"),
    "rms-fraction": (ParameterError, lambda: signal().rms(4, hop=1.5), "rms: hop must be a whole number of samples"),
    "lowpass-text": (ParameterError, lambda: signal().lowpass("fast"), "lowpass: cutoff must be a number of Hz"),
    "convolve-empty": (
        ParameterError,
        lambda: signal().convolve([]),
        "convolve: taps must be a sequence of at least one",
    ),
    "convolve-text": (
        ParameterError,
        lambda: signal().convolve(["x"]),
        "convolve: taps must be a sequence of at least one number, got <U1",
    ),
    "correlate-empty": (ParameterError, lambda: signal().correlate([]), "correlate: pattern must be a sequence"),
    "correlate-inf": (ParameterError, lambda: signal().correlate([float("inf")]), "correlate: pattern must be finite"),
    "matched-zero": (
        ParameterError,
        lambda: signal().matched_filter([0.0, 0.0]),
        "matched_filter: template is all zero",
    ),
    "single-pole": (ParameterError, lambda: signal().single_pole(0), "single_pole: alpha must be above 0"),
    "dc-block": (ParameterError, lambda: signal().dc_block(1.0), "dc_block: r must be at least 0 and below 1"),
    "notch-fast": (
        ParameterError,
        lambda: signal().notch(50),
        "notch: freq must be above 0 and below half the rate (50 Hz)",
    ),
    "notch-q": (ParameterError, lambda: signal().notch(20, 0), "notch: q must be positive"),
    "lowpass-fast": (
        ParameterError,
        lambda: signal().lowpass("1kHz"),
        "lowpass: cutoff must be above 0 and below half",
    ),
    "lowpass-list": (ParameterError, lambda: signal().lowpass([1, 2]), "lowpass: cutoff must be a number of Hz"),  # type: ignore[arg-type]
    "lowpass-order": (
        ParameterError,
        lambda: signal().lowpass(5, 0),
        "lowpass: order must be at least 1 and at most 1000, got 0",
    ),
    "highpass-taps": (
        ParameterError,
        lambda: signal().highpass(5, taps=10),
        "highpass: taps must be at least 1 (and odd",
    ),
    "bandpass-edges": (ParameterError, lambda: signal().bandpass(9, 4), "bandpass: low must be below high"),
    "lowpass-periods": (SignalTypeError, lambda: segments().lowpass(5), "lowpass: cutoff needs one rate for all keys"),
    "notch-periods": (SignalTypeError, lambda: segments().notch(5), "every key has a period of its own"),
    "sos-initial": (
        ParameterError,
        lambda: signal().sos([[1, 0, 0, 1, -0.5, 0]], initial="first"),
        "initial must be one of 'rest', 'steady', got 'first'",
    ),
    "iir-initial": (ParameterError, lambda: signal().iir([1], [1, -0.5], initial=None), "'rest', 'steady', got None"),
    "lowpass-taps-initial": (
        ParameterError,
        lambda: signal().lowpass(10, taps=9, initial="steady"),
        "lowpass: initial='steady' is for the recursive filter",
    ),
    "differentiate-periods": (SignalTypeError, lambda: segments().differentiate(), "differentiate needs one rate"),
    "savgol-even": (ParameterError, lambda: signal().savgol(4, 2), "savgol: window must be odd"),
    "savgol-order": (ParameterError, lambda: signal().savgol(5, 5), "savgol: polyorder must be at least 0 and below"),
    "savgol-deriv": (ParameterError, lambda: signal().savgol(5, 2, deriv=-1), "savgol: deriv must be at least 0"),
    "moving-size": (
        ParameterError,
        lambda: signal().moving_sum(0),
        "sum: size must be at least 1 sample, got 0",
    ),
    "moving-half": (ParameterError, lambda: signal().moving_sum(2.5), "moving_sum: size must be a whole number"),  # type: ignore[arg-type]
    "moving-duration": (ParameterError, lambda: signal().moving_max("15ms"), "'15ms' is not a whole number of samples"),
    "moving-how": (ParameterError, lambda: signal().moving("mode", 3), "no aggregate 'mode'; there are: sum, mean"),
    "moving-missing": (
        ParameterError,
        lambda: signal().moving_min(3, missing="zero"),
        "one of 'drop', 'skip', got 'zero'",
    ),
    "moving-ddof": (ParameterError, lambda: signal().moving_std(3, ddof=3), "std: ddof must be at least 0"),
    "moving-ddof-of-a-sum": (ParameterError, lambda: signal().moving("sum", 3, ddof=1), "sum: ddof is for std alone"),
    "moving-periods": (SignalTypeError, lambda: segments().moving_sum("1s"), "moving_sum: size must be in samples"),
    "moving-complex": (
        SignalTypeError,
        lambda: complex_signal().moving_median(3),
        "median: the values are complex",
    ),
    "hampel-even": (ParameterError, lambda: signal().hampel(4), "hampel: size must be odd"),
    "hampel-sigmas": (ParameterError, lambda: signal().hampel(5, -1), "hampel: sigmas must be at least 0"),
    "hampel-complex": (SignalTypeError, lambda: complex_signal().hampel(5), "has no order"),
    "difference-lag": (ParameterError, lambda: signal().difference(0), "difference: lag must be at least 1 sample"),
    "difference-missing": (ParameterError, lambda: signal().difference(missing="reset"), "'drop', 'zero', got 'reset'"),
    "shift": (ParameterError, lambda: signal().shift("7ms"), "shift: by '7ms' is not a whole number of samples"),
    "part": (ParameterError, lambda: signal().part("phase"), "part: no part 'phase'; there are: magnitude, angle"),
    "trigger": (
        ParameterError,
        lambda: signal().trigger(1, 2),
        "trigger: off must not be above on, got on=1.0 and off=2.0",
    ),
    "trigger-nan": (ParameterError, lambda: signal().trigger(float("nan"), 0), "trigger: off must not be above on"),
    "trigger-report": (ParameterError, lambda: signal().trigger(2, 1, report=0), "trigger: report must be positive"),
    "trigger-complex": (SignalTypeError, lambda: complex_signal().trigger(2, 1), "trigger: UniformSignal(complex128"),
    "crossings-complex": (SignalTypeError, lambda: complex_signal().zero_crossings(), "zero_crossings: UniformSignal"),
    "crossings-name": (ParameterError, lambda: keyed("rising").zero_crossings(), "they have a column 'rising'"),
    "peaks-distance": (
        ParameterError,
        lambda: signal().find_peaks(distance=0),
        "find_peaks: distance must be at least 1",
    ),
    "peaks-within": (
        ParameterError,
        lambda: signal().find_peaks(prominence=1),
        "prominence and within (at least 1 sample)",
    ),
    "peaks-nan": (ParameterError, lambda: signal().find_peaks(float("nan")), "height and prominence must be numbers"),
    "peaks-name": (ParameterError, lambda: keyed("height").find_peaks(), "peaks have a column 'height'"),
    "peaks-complex": (SignalTypeError, lambda: complex_signal().find_peaks(), "find_peaks: UniformSignal(complex128"),
    "integrate-rule": (ParameterError, lambda: signal().integrate(rule="simpson"), "one of trapezoid, rectangle"),
    "integrate-reset": (
        ParameterError,
        lambda: signal().integrate(reset=0),
        "integrate: reset must be 'gap' or a positive",
    ),
    "ahead": (
        ParameterError,
        lambda: signal().fir_ahead([]),
        "fir_ahead: taps must be a sequence of at least one number",
    ),
    "filtfilt-unstable": (ParameterError, lambda: signal().filtfilt([[1, 0, 0, 1, -1.5, 0]]), "the filter is unstable"),
    "filtfilt-tolerance": (
        ParameterError,
        lambda: signal().filtfilt(CALM, tolerance=0),
        "filtfilt: tolerance must be above 0",
    ),
    "filtfilt-long": (
        ParameterError,
        lambda: signal().filtfilt(LONG),
        "filtfilt: the filter rings for more than 32,768",
    ),
    "hilbert-even": (
        ParameterError,
        lambda: signal().hilbert(64),
        "hilbert: size must be odd and at least 3 samples, got 64",
    ),
    "hilbert-complex": (SignalTypeError, lambda: complex_signal().hilbert(), "hilbert: the signal is complex already"),
    "frequency-periods": (
        SignalTypeError,
        lambda: segments().instantaneous_frequency(5),
        "needs one rate for all keys",
    ),
    "detrend-trend": (ParameterError, lambda: signal().detrend(5, kind="cubic"), "one of 'linear', 'constant'"),
    "detrend-size": (ParameterError, lambda: signal().detrend(1), "detrend: size must be at least 2 samples"),
    "sta-lta": (
        ParameterError,
        lambda: signal().sta_lta(10, 5),
        "sta_lta: short must be at least 1 sample and below long",
    ),
    "coincidence": (
        ParameterError,
        lambda: signal().above(1).coincidence(0),
        "coincidence: k must be a whole number, at least 1, got 0",
    ),
    "coincidence-by": (ParameterError, lambda: signal().above(1).coincidence(2, "site"), "no column 'site'"),
    "cfar-cells": (ParameterError, lambda: signal().cfar(3, cells=0), "cfar: cells must be at least 1 sample"),
    "cfar-noise": (ParameterError, lambda: signal().cfar(3, noise="pink"), "one of 'gaussian', 'average', got 'pink'"),
}

CALM, LONG = [[1, 0, 0, 1, -0.5, 0]], [[1, 0, 0, 1, -0.9999, 0]]


def keyed(name: str) -> hp.UniformSignal:
    return hp.from_arrow(pa.table({name: ["a"], "t": [0], "v": [1.0]}), key=name, time="t").signal("v").sample(10)


@pytest.mark.parametrize(("kind", "does", "says"), BAD.values(), ids=BAD)
def test_a_wrong_filter_is_refused_when_it_is_built(kind: Any, does: Any, says: str) -> None:
    with pytest.raises(kind) as caught:
        does()
    assert type(caught.value) is kind
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("handle", "name", "says"),
    [
        (
            keyed("k").events(),
            "fir",
            "a Stream has no 'fir', a UniformSignal has: signal(column).sample(period).fir(...)",
        ),
        (
            keyed("k").events().signal("value"),
            "rfft",
            "a Signal has no 'rfft', a Windowed has: sample(period).window(size).rfft(...)",
        ),
        (keyed("k").window(2), "fir", "a Windowed has no 'fir', a UniformSignal has: overlap_add().fir(...)"),
        (keyed("k"), "tumble", "a UniformSignal has no 'tumble', a Stream has: events().tumble(...)"),
        (keyed("k"), "fit", "'UniformSignal' object has no attribute 'fit'"),
    ],
)
def test_a_method_of_another_handle_says_how_to_get_there(handle: Any, name: str, says: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(handle, name)
    assert str(caught.value) == says
    assert not hasattr(handle, name)


def test_a_signal_has_a_sign() -> None:
    assert (-signal()).to_arrow()["value"].to_pylist() == [-v for v in signal().to_arrow()["value"].to_pylist()]
