"""What users say about extents and rates, in samples and Hz of the signal at hand."""

from __future__ import annotations

import operator

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.plan.types import UniformType
from hydrophone.time import duration, period


def samples(value: int | str, kind: UniformType, what: str) -> int:
    """A number of samples, or a duration that is a whole multiple of the period."""
    if not isinstance(value, str):
        try:
            return operator.index(value)
        except TypeError:
            raise ParameterError(f"{what} must be a whole number of samples or a duration, got {value!r}") from None
    if kind.timebase is None:
        raise SignalTypeError(f"{what} must be in samples where every key has a period of its own")
    count = duration(value) / kind.timebase.period
    if count.denominator != 1:
        raise ParameterError(f"{what} {value!r} is not a whole number of samples", hint="give it in samples")
    return int(count)


def rate(kind: UniformType, what: str) -> float:
    """Samples per second, the double that is nearest to the exact rate."""
    if kind.timebase is None:
        raise SignalTypeError(
            f"{what} needs one rate for all keys, and every key has a period of its own",
            hint="sample to a common period first, or design the filter in cycles per sample and use sos or fir",
        )
    return float(10**9 / kind.timebase.period)


def hertz(value: float | str, kind: UniformType, what: str) -> float:
    """A frequency between zero and half the rate, in Hz or as text such as ``"1kHz"``."""
    fs = rate(kind, what)
    if isinstance(value, str):
        try:
            frequency = float(10**9 / period(value))
        except ParameterError:
            raise ParameterError(f'{what} must be a number of Hz or a text such as "1kHz", got {value!r}') from None
    elif isinstance(value, int | float):
        frequency = float(value)
    else:
        raise ParameterError(f'{what} must be a number of Hz or a text such as "1kHz", got {value!r}')
    if not 0 < frequency < fs / 2:
        raise ParameterError(f"{what} must be above 0 and below half the rate ({fs / 2:g} Hz), got {value!r}")
    return frequency
