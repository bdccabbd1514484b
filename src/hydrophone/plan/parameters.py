"""Numbers as users give them: one way to take whole numbers and reals, NumPy's scalars too."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.time import scalar


def whole(value: Any, what: str, kind: str = "a whole number") -> int:
    """A whole number: of Python or NumPy, or a float or fraction that is one, or an array of one such number and no dimension.

    Nothing is rounded.

    Examples
    --------
    >>> import numpy as np
    >>> whole(np.int64(3), "decimate: n"), whole(2.0, "decimate: n")
    (3, 2)
    >>> whole(2.5, "decimate: n")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: decimate: n must be a whole number, got 2.5
    """
    number = scalar(value)
    if not isinstance(number, bool | np.bool_ | np.timedelta64):
        try:
            return operator.index(number)
        except TypeError:
            if isinstance(number, float | np.floating | Fraction) and number == number and number not in _INFINITIES:
                count = int(number)
                if count == number:
                    return count
    raise ParameterError(f"{what} must be {kind}, got {value!r}")


LONGEST = 1 << 28
"""Samples that a window, a filter or what an operator remembers of one key may have: two gigabytes of doubles."""


def length(value: Any, what: str, kind: str = "a whole number", most: int = LONGEST) -> int:
    """How many samples something has: a whole number that is not above what one key may take of the memory.

    Examples
    --------
    >>> length(2**40, "window: size")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: window: size must be at most 268435456, got 1099511627776
      Hint: so many samples of one key would be held in memory at once: downsample first, or aggregate windows of time
    """
    number = whole(value, what, kind)
    if number > most:
        raise ParameterError(
            f"{what} must be at most {most}, got {_short(number)}",
            hint="so many samples of one key would be held in memory at once: downsample first, or aggregate windows of time",
        )
    return number


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**30 else f"{'-' if number < 0 else ''}10**{int(math.log10(abs(number)))}"


def _fits(value: Any, what: str) -> int:
    """A whole number as operators keep it."""
    number = whole(value, what)
    if not -(2**63) <= number < 2**63:
        raise ParameterError(f"{what} must be a whole number of at most 64 bits, got {_short(number)}")
    return number


def real(value: Any, what: str, kind: str = "a number") -> float:
    """A real number as a double.

    Examples
    --------
    >>> import numpy as np
    >>> real(np.float32(0.5), "ema: alpha"), real(Fraction(1, 4), "ema: alpha")
    (0.5, 0.25)
    >>> real("0.5", "ema: alpha")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: ema: alpha must be a number, got '0.5'
    """
    number = scalar(value)
    if isinstance(number, bool | np.bool_ | np.timedelta64) or not isinstance(
        number, int | float | Fraction | np.integer | np.floating
    ):
        raise ParameterError(f"{what} must be {kind}, got {value!r}")
    try:
        return float(number)
    except OverflowError:
        raise ParameterError(f"{what} must be {kind} that a double can hold, got {_short(int(number))}") from None


def truth(value: Any, what: str) -> bool:
    """True or False; numbers are neither.

    Examples
    --------
    >>> truth("no", "welch: scale")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: welch: scale must be True or False, got 'no'
    """
    if isinstance(scalar(value), bool | np.bool_):
        return bool(value)
    raise ParameterError(f"{what} must be True or False, got {value!r}")


_INFINITIES = (float("inf"), float("-inf"))
_TAKE: dict[str, Callable[[Any, str], Any]] = {"int": _fits, "float": real, "bool": truth}


def converted(value: Any, declared: str, what: str) -> Any:
    """A parameter of an operator as its declared type says: numbers become Python's own, all else stays.

    Examples
    --------
    >>> import numpy as np
    >>> converted(np.int64(3), "int | None", "top_k: k"), converted((np.int64(1), 2), "tuple[int, ...]", "select: positions")
    (3, (1, 2))
    """
    optional = declared.endswith(" | None")
    kind = declared.removesuffix(" | None")
    if value is None and optional:
        return None
    if kind in _TAKE:
        return _TAKE[kind](value, what)
    inner = kind.removeprefix("tuple[").removesuffix(", ...]")
    if kind == f"tuple[{inner}, ...]" and inner in _TAKE and isinstance(value, tuple):
        return tuple(_TAKE[inner](v, what) for v in value)
    number = scalar(value)
    if isinstance(number, Fraction) and "float" in declared:
        return float(number)
    return (
        number.item() if isinstance(number, np.number | np.bool_) and not isinstance(number, np.timedelta64) else value
    )


_BYTES = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def byte_count(value: int | str, what: str) -> int:
    """Bytes, as a number or as a text with a unit.

    Examples
    --------
    >>> byte_count("64 MB", "ring: size"), byte_count(4096, "ring: size")
    (67108864, 4096)
    """
    text = str(value).strip().lower() if isinstance(value, str) else ""
    unit = next((u for u in _BYTES if text.endswith(u)), None)
    if unit is not None:
        try:
            found = int(float(text.removesuffix(unit)) * _BYTES[unit])
        except (ValueError, OverflowError):
            found = 0
    else:
        found = 0 if isinstance(value, str) else whole(value, what, 'bytes, or a text such as "500 MB"')
    if found < 1:
        raise ParameterError(
            f"{what} must be a number of bytes above 0, got {value!r}", hint='such as "500 MB" or "2 GB"'
        )
    return found
