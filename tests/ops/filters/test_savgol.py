"""Taps of Savitzky-Golay filters."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.signal

import hydrophone as hp
from hydrophone.errors import ParameterError
from hydrophone.ops.filters.savgol import savgol_taps


@pytest.mark.parametrize(
    ("size", "polyorder", "deriv", "delta"),
    [
        (1, 0, 0, 1.0),
        (5, 2, 0, 1.0),
        (7, 3, 1, 0.5),
        (11, 6, 4, 1e-3),
        (31, 5, 2, 7.0),
        (301, 3, 0, 1.0),
        (9, 2, 3, 1.0),
    ],
)
def test_taps_are_those_of_scipy(size: int, polyorder: int, deriv: int, delta: float) -> None:
    expected = scipy.signal.savgol_coeffs(size, polyorder, deriv, delta)
    tolerance = 1e-9 * np.abs(expected).max()
    assert np.allclose(savgol_taps(size, polyorder, deriv, delta), expected, rtol=0, atol=tolerance)


def test_every_tap_is_rounded_once() -> None:
    """The taps of five samples and order 2 are these over 35, in every textbook."""
    exact = [Fraction(n, 35) for n in (-3, 12, 17, 12, -3)]
    assert savgol_taps(5, 2, 0, 1.0) == tuple(map(float, exact))


def test_taps_beyond_doubles_are_refused() -> None:
    signal = hp.from_numpy(np.arange(9.0), rate="1Hz")
    with pytest.raises(ParameterError, match="finite"):
        signal.savgol(5, 3, deriv=3, delta=1e-200)
