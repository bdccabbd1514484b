"""Calls of users' functions: they see arrays that they cannot change, and what they raise names them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError
from hydrophone.ops.coefficients import at_most_double
from hydrophone.plan.surroundings import changed, locked, room_left, surroundings

Array = npt.NDArray[Any]
T = TypeVar("T")


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


def at_least_single(values: Array) -> Array:
    """What a user's code gave; half precision becomes single and extended precision double, in which all engines compute.

    Examples
    --------
    >>> at_least_single(np.float16([0.5])).dtype, at_least_single(np.longdouble([0.5])).dtype
    (dtype('float32'), dtype('float64'))
    """
    return at_most_double(values.astype(np.float32) if values.dtype == np.float16 else values)


def read_only(values: Array) -> Array:
    """A view that cannot be written: the same memory may be another operator's input, or state."""
    view = values.view()
    view.flags.writeable = False
    return view


@contextmanager
def frozen_operator(what: str, operator: T) -> Iterator[T]:
    """A user's operator for one call. What it keeps on ``self`` would not survive a restart, nor be the same in every task.

    It is a copy whose arrays cannot be written, and an attribute that the call has changed is an error. Only a `cached_property` may be
    filled: it follows from the others.

    Examples
    --------
    >>> class Last:
    ...     def step(self, x):
    ...         self.x = x
    >>> with frozen_operator("iterate", Last()) as operator:
    ...     operator.step(3)
    Traceback (most recent call last):
    hydrophone.errors.DataError: iterate: Last changed its attribute 'x' while it ran, so another run would give another answer
      Hint: what an operator remembers between calls belongs into the state that the engine keeps of every key: see hp.StatefulOperator
    """
    given = vars(operator)
    own = copy.copy(operator)
    vars(own).update({n: _own(value) for n, value in given.items()})
    with remembering_nothing(what, own, type(own).__qualname__):
        yield own
    for name, value in vars(own).items():
        if isinstance(getattr(type(own), name, None), functools.cached_property):
            given.setdefault(name, value)


def _own(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return read_only(value)
    own = isinstance(value, list | dict | set | bytearray) and room_left(value) >= 0
    return copy.deepcopy(value) if own else value


@contextmanager
def remembering_nothing(what: str, code: Any, name: str = "") -> Iterator[None]:
    """Around a call of a user's code: a variable or attribute outside of it that the call has changed is an error.

    Examples
    --------
    >>> def counter():
    ...     seen = [0]
    ...     def count(x):
    ...         seen[0] += 1
    ...     return count
    >>> count = counter()
    >>> with remembering_nothing("map", count, "count"):
    ...     count(3)
    Traceback (most recent call last):
    hydrophone.errors.DataError: map: count changed the variable 'seen' while it ran, so another run would give another answer
      Hint: what an operator remembers between calls belongs into the state that the engine keeps of every key: see hp.StatefulOperator
    """
    before = surroundings(code)
    with locked(before) as large:
        try:
            yield
        except Exception as error:
            if large and "read-only" in str(error):
                found = " or ".join(("the array that it gets", *dict.fromkeys(large)))
                raise _remembers(what, name or name_of(code), found) from error
            raise
    if changes := changed(before, surroundings(code)):
        raise _remembers(what, name or name_of(code), changes)


def _remembers(what: str, name: str, found: str) -> DataError:
    return DataError(
        f"{what}: {name} changed {found} while it ran, so another run would give another answer",
        hint="what an operator remembers between calls belongs into the state that the engine keeps of every key: "
        "see hp.StatefulOperator",
    )


_LONGEST = 400
"""Characters of a user's message that an error repeats; all of it is in the cause."""


@contextmanager
def naming_operator(what: str, name: str, hint: str, *, inside: bool = False) -> Iterator[None]:
    """Around a call of a user's code: what it raises becomes an error that names the operator and the code, and is its cause.

    Examples
    --------
    >>> with naming_operator("iterate", "Mine.step", "x has a row per key"):
    ...     raise KeyError("level")
    Traceback (most recent call last):
    hydrophone.errors.DataError: iterate: Mine.step raised KeyError: 'level'
      Hint: x has a row per key
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except Exception as error:
        raise user_error(what, name, hint, error, inside=inside) from error


def user_error(what: str, name: str, hint: str, error: Exception, *, inside: bool = False) -> DataError:
    """The error for what a user's code raised; on one line, because Spark brings home no more than that of a message."""
    said = " ".join(str(error).split())
    said = said if len(said) <= _LONGEST else said[:_LONGEST] + " …"
    kind = type(error).__name__
    return DataError(f"{what}: {name} raised {kind}{': ' if said else ''}{said}", hint=hint, inside=inside)


def call_guarded(
    what: str, hint: str, function: Callable[..., Any], *arrays: Array, name: str = "", code: Any = None, **options: Any
) -> Array:
    """What a function makes of arrays; an exception becomes an error that names the operator and the function.

    `code` is what the user wrote, where the function only calls it; it must remember nothing.

    Examples
    --------
    >>> call_guarded("map", "it gets an array", np.negative, np.array([1, 2]))
    array([-1, -2])
    """
    refuse_no_function(what, function)
    with remembering_nothing(what, function if code is None else code, name):
        try:
            with np.errstate(all="ignore"):
                return at_least_single(np.asarray(function(*(read_only(a) for a in arrays), **options)))
        except Exception as error:
            if isinstance(error, ValueError) and "read-only" in str(error):
                hint = "it must not change the array that it gets; make a new one"
            raise user_error(what, name or name_of(function), hint, error) from error


def as_declared(what: str, function: Callable[..., Any], values: Array, dtype: np.dtype[Any], channels: int) -> Array:
    """Samples that a function gave, in the type that it had when the query was built; another type or shape is an error."""
    found = values.shape[1] if values.ndim == 2 else 0
    if found != channels or not np.can_cast(values.dtype, dtype, "same_kind"):
        raise DataError(
            f"{what}: {name_of(function)} gave {values.dtype} of shape {values.shape}, "
            f"and {dtype} with {channels} channels when it was tried",
            hint="type and channels must not depend on the data; end with .astype(...)",
        )
    return values.astype(dtype, copy=False)
