"""Taps of Savitzky-Golay filters: those of SciPy, each the double nearest to the exact fraction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.signal

from hydrophone.ops.filters.savgol_taps import savgol_taps


@pytest.mark.parametrize("size", [1, 3, 7, 51])
@pytest.mark.parametrize("polyorder", [0, 1, 2, 5])
@pytest.mark.parametrize(("deriv", "delta"), [(0, 1.0), (1, 0.5), (2, -3.0), (6, 1.0)])
def test_taps_are_those_of_scipy(size: int, polyorder: int, deriv: int, delta: float) -> None:
    if polyorder < size:
        wanted = scipy.signal.savgol_coeffs(size, polyorder, deriv, delta)
        np.testing.assert_allclose(savgol_taps(size, polyorder, deriv, delta), wanted, rtol=1e-9, atol=1e-12)


def test_taps_are_rounded_once() -> None:
    """From the table in the paper of Savitzky and Golay."""
    assert savgol_taps(5, 2, 0, 1.0) == [float(Fraction(n, 35)) for n in (-3, 12, 17, 12, -3)]
    assert savgol_taps(5, 2, 1, 1.0) == [float(Fraction(n, 10)) for n in (2, 1, 0, -1, -2)]


def test_what_no_double_holds_is_infinite() -> None:
    assert savgol_taps(3, 2, 2, 1e-200) == [float("inf"), float("-inf"), float("inf")]
