"""Calls of users' functions: they see arrays that they cannot change, and what they raise names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError

Array = npt.NDArray[Any]


def name_of(function: Callable[..., Any]) -> str:
    """What a user calls a function."""
    return getattr(function, "__qualname__", type(function).__name__)


def refuse_no_function(what: str, function: object) -> None:
    """Expressions, names and arrays where a function is expected.

    Examples
    --------
    >>> refuse_no_function("where", "v > 1")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: where: a function is expected here, got str
      Hint: a function of arrays, such as lambda v: v > 1; expressions (hp.col("v") > 1) are for columns of events, before sample
    """
    if not callable(function):
        raise ParameterError(
            f"{what}: a function is expected here, got {type(function).__name__}",
            hint='a function of arrays, such as lambda v: v > 1; expressions (hp.col("v") > 1) are for columns of events, before sample',
        )


def frozen(values: Array) -> Array:
    """A view that cannot be written: the same memory may be another operator's input, or state."""
    view = values.view()
    view.flags.writeable = False
    return view


_LONGEST = 400
"""Characters of a user's message that an error repeats; all of it is in the cause."""


@contextmanager
def naming(what: str, name: str, hint: str, *, inside: bool = False) -> Iterator[None]:
    """Around a call of a user's code: what it raises becomes an error that names the operator and the code, and is its cause.

    Examples
    --------
    >>> with naming("iterate", "Mine.step", "x has a row per key"):
    ...     raise KeyError("level")
    Traceback (most recent call last):
    hydrophone.errors.DataError: iterate: Mine.step raised KeyError: 'level'
      Hint: x has a row per key
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except Exception as error:
        raise raised(what, name, hint, error, inside=inside) from error


def raised(what: str, name: str, hint: str, error: Exception, *, inside: bool = False) -> DataError:
    """The error for what a user's code raised; on one line, because Spark brings home no more than that of a message."""
    said = " ".join(str(error).split())
    said = said if len(said) <= _LONGEST else said[:_LONGEST] + " …"
    kind = type(error).__name__
    return DataError(f"{what}: {name} raised {kind}{': ' if said else ''}{said}", hint=hint, inside=inside)


def guarded(
    what: str, hint: str, function: Callable[..., Any], *arrays: Array, name: str = "", **options: Any
) -> Array:
    """What a function makes of arrays; an exception becomes an error that names the operator and the function.

    Examples
    --------
    >>> guarded("map", "it gets an array", np.negative, np.array([1, 2]))
    array([-1, -2])
    """
    refuse_no_function(what, function)
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(frozen(a) for a in arrays), **options))
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            hint = "it must not change the array that it gets; make a new one"
        raise raised(what, name or name_of(function), hint, error) from error


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
