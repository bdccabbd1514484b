"""Where an operator cannot equal SciPy's on the whole signal, it keeps the bound that its documentation states."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal

import hydrophone as hp

RATE = 1000


def answer(values: np.ndarray, query: object) -> dict[int, complex]:
    """Sample number to value, a few samples at a time."""
    table = pa.table({"t": np.arange(len(values)) * 1_000_000, "v": values})
    x = hp.from_arrow(table, time="t", progress=hp.ordered()).signal("v").sample("1ms")
    found = {}
    for piece in query(x).batches(37):  # type: ignore[operator]
        for row in piece.to_pylist():
            value = row["value"]
            found[row["t"] // 1_000_000] = complex(value["re"], value["im"]) if isinstance(value, dict) else value
    return found


@pytest.mark.parametrize("size", [33, 65, 129])
def test_hilbert_is_within_a_thousandth_of_scipys(size: int) -> None:
    """Tones of whole periods, for which SciPy's has no edges."""
    n = np.arange(1000)
    for cycles in np.linspace(3 / size, 0.5 - 3 / size, 7):
        tone = np.cos(2 * np.pi * np.round(cycles * 1000) / 1000 * n + 1)
        wanted = scipy.signal.hilbert(tone)
        found = answer(tone, lambda x: x.hilbert(size))
        assert len(found) == len(tone) - size + 1
        # The tones are rounded to whole periods, which may lie a little outside of the band.
        assert max(abs(v - wanted[k]) for k, v in found.items()) < 1.5e-3


def test_the_frequency_of_a_chirp() -> None:
    n = np.arange(2000) / RATE
    chirp = 3 * np.cos(2 * np.pi * (100 * n + 50 * n**2))
    found = answer(chirp, lambda x: x.instantaneous_frequency(65))
    truth = {k: 100 + 100 * (k - 0.5) / RATE for k in found}
    assert max(abs(found[k] - truth[k]) for k in found) < 0.5
    loud = answer(chirp, lambda x: x.envelope(65))
    assert max(abs(v - 3) for v in loud.values()) < 0.01


def test_filtfilt_keeps_its_bound_and_is_scipys_away_from_the_edges() -> None:
    rng = np.random.default_rng(3)
    x, sections = rng.normal(size=1500), scipy.signal.butter(4, 0.05, output="sos")
    forward = scipy.signal.sosfilt(sections, x)
    exact = scipy.signal.sosfilt(sections, forward[::-1])[::-1]
    weight = np.abs(scipy.signal.sosfilt(sections, np.eye(1, 5000)[0])).sum()
    for tolerance in (1e-3, 1e-9):
        found = answer(x, lambda s, t=tolerance: s.filtfilt(sections, tolerance=t))
        assert len(found) == len(x)
        error = max(abs(v - exact[k]) for k, v in found.items())
        assert error <= tolerance * weight * np.abs(forward).max() + 1e-12
    usual = scipy.signal.sosfiltfilt(sections, x)
    assert max(abs(found[k] - usual[k]) for k in range(500, 1000)) < 1e-8


def test_an_integral_does_not_drift() -> None:
    """A million times a tenth, to the last bit but one."""
    found = answer(np.full(100_000, 0.1), lambda x: x.integrate(rule="rectangle"))
    assert found[99_999] == pytest.approx(0.1 * 100_000 / RATE, rel=3e-16)


def test_find_peaks_equals_scipys_where_there_are_no_plateaus() -> None:
    x = np.random.default_rng(4).normal(size=500)
    table = pa.table({"t": np.arange(len(x)) * 1_000_000, "v": x})
    peaks = hp.from_arrow(table, time="t").signal("v").sample("1ms").find_peaks(0.5).to_arrow()
    assert sorted(t // 1_000_000 for t in peaks["t"].to_pylist()) == scipy.signal.find_peaks(x, 0.5)[0].tolist()


def test_peaks_differ_from_scipys_as_their_help_says() -> None:
    """The first sample of a plateau; and a higher neighbour hides a peak though it is hidden itself."""
    assert "plateau" in (hp.UniformSignal.find_peaks.__doc__ or "") and "fade" in (hp.UniformSignal.ema.__doc__ or "")
    x = np.array([0.0, 1, 1, 1, 0, 0, 0, 1, 0, 2, 0, 3, 0, 0, 0])
    table = pa.table({"t": np.arange(len(x)) * 1_000_000, "v": x})
    signal = hp.from_arrow(table, time="t").signal("v").sample("1ms")

    def peaks(distance: int) -> list[int]:
        return sorted(t // 1_000_000 for t in signal.find_peaks(distance=distance).to_arrow()["t"].to_pylist())

    assert peaks(1) == [1, 7, 9, 11] and scipy.signal.find_peaks(x)[0].tolist() == [2, 7, 9, 11]
    assert peaks(3) == [11] and scipy.signal.find_peaks(x, distance=3)[0].tolist() == [2, 7, 11]
