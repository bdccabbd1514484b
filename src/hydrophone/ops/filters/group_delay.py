"""Group delay of polynomials, of which filters are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.plan.types import UniformType


def rate_hz(x: UniformType) -> float:
    """The double that is nearest to the exact rate of a grid."""
    assert x.timebase is not None, "group delay is asked of signals with one rate for all keys"
    return float(10**9 / x.timebase.period)


def radians_per_sample(frequency: float, x: UniformType) -> float:
    """How far a tone of so many Hz turns from one sample to the next."""
    return float(2 * np.pi * frequency / rate_hz(x))


def polynomial_delay(polynomial: Any, w: float) -> float:
    """In samples: minus the derivative of the phase of ``sum(c[k] * exp(-1j * w * k))``; NaN where the sum vanishes."""
    k = np.arange(len(polynomial))
    terms = np.asarray(polynomial) * np.exp(-1j * w * k)
    whole = terms.sum()
    if abs(whole) <= len(k) * np.finfo(np.float64).eps * np.abs(terms).sum():
        return float("nan")
    return float(((k * terms).sum() / whole).real)
