"""The group delay that a signal reports is SciPy's, and what the tone itself shows."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal

import hydrophone as hp

RATE = 1000


def tone(frequency: float, count: int = 3000) -> hp.UniformSignal:
    n = np.arange(count)
    rows = pa.table({"t": n * 1_000_000, "v": np.cos(2 * np.pi * frequency / RATE * n)})
    return hp.from_arrow(rows, time="t").signal("v").sample("1ms")


SECTIONS = scipy.signal.butter(4, [60, 140], "bandpass", output="sos", fs=RATE)


def test_it_is_scipys() -> None:
    x = tone(100, 1)
    b, a = scipy.signal.butter(3, 0.3)
    taps = np.random.default_rng(0).normal(size=9)
    for filtered, parts in (
        (x.fir(taps), [(taps, [1])]),
        (x.iir(b, a), [(b, a)]),
        (x.sos(SECTIONS), [(s[:3], s[3:]) for s in SECTIONS]),
        (2 * x.fir(taps).iir(b, a).shift_time("3ms"), [(taps, [1]), (b, a), ([0, 0, 0, 1], [1])]),
    ):
        wanted = sum(scipy.signal.group_delay(p, w=[100], fs=RATE)[1][0] for p in parts) / RATE
        assert (filtered * 1).group_delay(100) == pytest.approx(wanted, abs=1e-9)


def test_what_has_no_delay() -> None:
    x = tone(100, 1)
    assert x.savgol(11, 2).group_delay(100) == 0
    assert x.filtfilt(SECTIONS).group_delay("100Hz") == pytest.approx(0, abs=1e-6)
    assert x.decimate(2).group_delay(100) == 0
    assert x.map(np.abs).group_delay(100) == 0  # no filter: nothing is known to delay it


def test_a_frequency_that_is_taken_away() -> None:
    assert math.isnan(tone(100, 1).fir([1, 0, 0, 0, 0, -1]).group_delay(200))
    with pytest.raises(hp.ParameterError, match="group_delay"):
        tone(100, 1).group_delay(600)


def test_the_envelope_of_a_burst_comes_so_much_later() -> None:
    """And a shift by the delay brings it back."""
    n = np.arange(4000)
    burst = np.exp(-(((n - 2000) / 250) ** 2)) * np.cos(2 * np.pi * 0.1 * n)
    x = hp.from_arrow(pa.table({"t": n * 1_000_000, "v": burst}), time="t").signal("v").sample("1ms")

    def middle(signal: hp.UniformSignal) -> float:
        ((_, run),) = signal.segments()
        power = run.to_numpy() ** 2
        return float((power * (run.first + np.arange(len(power)))).sum() / power.sum())

    late = x.sos(SECTIONS)
    delay = late.group_delay(100)
    assert delay * RATE > 5
    assert middle(late) - middle(x) == pytest.approx(delay * RATE, abs=0.2)
    back = late.shift(-round(delay * RATE))
    assert abs(middle(back) - middle(x)) < 0.7
