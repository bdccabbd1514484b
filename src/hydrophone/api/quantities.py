"""What users say about extents and rates, in samples and Hz of the signal at hand."""

from __future__ import annotations

import datetime as dt
from typing import TypeAlias

import numpy as np

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.time import duration, period, scalar
from hydrophone.plan.parameters import LONGEST, length, real
from hydrophone.plan.types import UniformType

Extent: TypeAlias = int | str | dt.timedelta | np.timedelta64
"""A number of samples, or a duration that is a whole multiple of the period."""


def sample_count(value: Extent, kind: UniformType, what: str, most: int = LONGEST) -> int:
    """How many samples an extent has in a signal."""
    if not isinstance(scalar(value), str | dt.timedelta | np.timedelta64):
        return length(value, what, "a whole number of samples or a duration", most=most)
    if kind.timebase is None:
        raise SignalTypeError(f"{what} must be in samples where every key has a period of its own")
    count = duration(value) / kind.timebase.period
    if count.denominator != 1:
        raise ParameterError(f"{what} {value!r} is not a whole number of samples", hint="give it in samples")
    return length(int(count), what, most=most)


def sample_rate(kind: UniformType, what: str) -> float:
    """Samples per second, the double that is nearest to the exact rate."""
    if kind.timebase is None:
        raise SignalTypeError(
            f"{what} needs one rate for all keys, and every key has a period of its own",
            hint="resample(period, fill=hp.linear()) gives all keys one; or design the filter in cycles per sample and use sos or fir",
        )
    return float(10**9 / kind.timebase.period)


def frequency(value: float | str, what: str) -> float:
    """A frequency in Hz, from a number of Hz or a text such as ``"1kHz"``."""
    if not isinstance(value, str):
        return real(value, what, 'a number of Hz or a text such as "1kHz"')
    try:
        return float(10**9 / period(value))
    except ParameterError:
        raise ParameterError(f'{what} must be a number of Hz or a text such as "1kHz", got {value!r}') from None


def hertz(value: float | str, kind: UniformType, what: str) -> float:
    """A frequency between zero and half the rate."""
    fs, found = sample_rate(kind, what), frequency(value, what)
    if not 0 < found < fs / 2:
        raise ParameterError(f"{what} must be above 0 and below half the rate ({fs / 2:g} Hz), got {value!r}")
    return found
