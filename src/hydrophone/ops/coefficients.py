"""Taps, weights and other coefficients that a user gives: checked when the query is built."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.errors import ParameterError, user_line


def check_coefficients(values: Any, what: str, *, real: bool = False) -> np.ndarray[Any, Any]:
    """A sequence of at least one finite number, real or complex; `what` names it for errors, as in ``"fir: taps"``.

    Examples
    --------
    >>> check_coefficients([1, 2.5], "fir: taps")
    array([1. , 2.5])
    """
    try:
        found = np.asarray(values)
    except ValueError:  # rows of unequal length
        found = np.empty(0, object)
    if found.dtype.kind not in "iufc" or found.ndim != 1 or not len(found):
        raise ParameterError(
            f"{what} must be a sequence of at least one number, got {found.dtype} of shape {found.shape}",
            hint="give one list of numbers, in one dimension",
            where=user_line(),
        )
    found = at_most_double(found)
    refuse_not_finite(found, what)
    if real and found.dtype.kind == "c":
        raise ParameterError(f"{what} must be real, got {found.dtype}", hint="take the real part", where=user_line())
    return found


def at_most_double(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers of extended precision, which only some machines have, and neither Arrow nor Spark, as doubles.

    Examples
    --------
    >>> at_most_double(np.clongdouble([0.5])).dtype
    dtype('complex128')
    """
    doubles = {np.dtype(np.longdouble): np.float64, np.dtype(np.clongdouble): np.complex128}
    return values.astype(doubles[values.dtype]) if values.dtype in doubles else values


def refuse_not_finite(values: np.ndarray[Any, Any], what: str) -> None:
    """An error where one of many numbers is NaN or infinite."""
    wrong = values[~np.isfinite(values)]
    if wrong.size:
        raise ParameterError(f"{what} must be finite, got {wrong.flat[0]}", where=user_line())


def is_window_name(window: Any) -> bool:
    """Whether a window is given by its name (``"hann"``, ``("kaiser", 8.0)``) and not by its weights."""
    return isinstance(window, str) or (isinstance(window, tuple) and bool(window) and isinstance(window[0], str))
