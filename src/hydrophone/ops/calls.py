"""Calls of users' functions: they see arrays that they cannot change, and what they raise names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError

Array = npt.NDArray[Any]


def name_of(function: Callable[..., Any]) -> str:
    """What a user calls a function."""
    return getattr(function, "__qualname__", type(function).__name__)


def frozen(values: Array) -> Array:
    """A view that cannot be written: the same memory may be another operator's input, or state."""
    view = values.view()
    view.flags.writeable = False
    return view


def guarded(
    what: str, hint: str, function: Callable[..., Any], *arrays: Array, name: str = "", **options: Any
) -> Array:
    """What a function makes of arrays; an exception becomes an error that names the operator and the function.

    Examples
    --------
    >>> guarded("map", "it gets an array", np.negative, np.array([1, 2]))
    array([-1, -2])
    """
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(frozen(a) for a in arrays), **options))
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            hint = "it must not change the array that it gets; make a new one"
        raise DataError(
            f"{what}: {name or name_of(function)} raised {type(error).__name__}: {error}", hint=hint
        ) from error


def as_tried(what: str, function: Callable[..., Any], values: Array, dtype: np.dtype[Any], channels: int) -> Array:
    """Samples that a function gave, in the type that it had when the query was built; another type or shape is an error."""
    found = values.shape[1] if values.ndim == 2 else 0
    if found != channels or not np.can_cast(values.dtype, dtype, "same_kind"):
        raise DataError(
            f"{what}: {name_of(function)} gave {values.dtype} of shape {values.shape}, "
            f"and {dtype} with {channels} channels when it was tried",
            hint="type and channels must not depend on the data; end with .astype(...)",
        )
    return values.astype(dtype, copy=False)
