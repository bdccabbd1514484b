"""The exception tree: what Hydrophone raises, and the user's line that an error points at."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = [
    "DataError",
    "HydrophoneError",
    "LateEventError",
    "ParameterError",
    "PlanError",
    "SignalTypeError",
    "StateVersionError",
    "UnsupportedError",
    "located",
    "user_line",
]

_PACKAGE = __name__.partition(".")[0]

# Standard modules that call back into the package between the user's frame and ours.
_GO_BETWEENS = frozenset({"functools", "contextlib", "dataclasses"})


class HydrophoneError(Exception):
    """Base of everything that Hydrophone raises on purpose.

    Parameters
    ----------
    message : str
        The operator, the rule and the value: ``"window: hop must be at least 1 sample, got 0"``.
    hint : str, optional
        One sentence on what to write instead.
    where : str, optional
        The user's line, as :func:`user_line` gives it.
    inside : bool
        Whether the message begins with a part of an operator (an aggregate, say), so that `locate` must put the operator before it.

    Notes
    -----
    The three parts are attributes and survive pickling, because Spark sends exceptions between processes.
    A layer that knows more than the one that raised (the user's line, say) may set `where` and raise again.

    Examples
    --------
    >>> print(HydrophoneError("window: hop must be at least 1 sample, got 0",
    ...                       hint="hop=size makes windows that do not overlap", where="pipeline.py:14"))
    window: hop must be at least 1 sample, got 0
      at pipeline.py:14
      Hint: hop=size makes windows that do not overlap
    """

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, inside: bool = False
    ) -> None:
        # BaseException pickles as cls(*args) followed by __dict__, so one positional argument and plain
        # attributes are all that a round trip needs.
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.inside = inside

    def locate(self, operator: str, where: str | None) -> None:
        """Say the operator and the user's line, as far as the one who raised did not know them.

        Examples
        --------
        >>> error = DataError("aggregate: add raised KeyError", inside=True)
        >>> error.locate("tumble", "pipeline.py:14")
        >>> print(error)
        tumble: aggregate: add raised KeyError
          at pipeline.py:14
        """
        if self.inside:
            self.message, self.inside = f"{operator}: {self.message}", False
            self.args = (self.message,)
        self.where = self.where or where

    def __str__(self) -> str:
        place = "" if self.where is None else f"\n  at {self.where}"
        advice = "" if self.hint is None else f"\n  Hint: {self.hint}"
        return f"{self.message}{place}{advice}"


class ParameterError(HydrophoneError, ValueError):
    """A parameter has a value that the operator cannot take.

    Examples
    --------
    >>> issubclass(ParameterError, ValueError)
    True
    """


class SignalTypeError(HydrophoneError, TypeError):
    """An operator met a stream, signal or value of a type that it does not work on.

    Examples
    --------
    >>> issubclass(SignalTypeError, TypeError)
    True
    """


class PlanError(HydrophoneError):
    """The query as a whole makes no sense, though each operator does.

    Examples
    --------
    >>> print(PlanError("union: the inputs have different columns: x, y and x, z"))
    union: the inputs have different columns: x, y and x, z
    """


class UnsupportedError(HydrophoneError, NotImplementedError):
    """The query is meaningful, but this engine or version does not run it.

    Examples
    --------
    >>> issubclass(UnsupportedError, NotImplementedError)
    True
    """


class LateEventError(HydrophoneError):
    """An event came after progress had passed its start, and the late policy is ``error``.

    Examples
    --------
    >>> print(LateEventError("readings: an event at 10:00:00 is behind progress 10:00:05"))
    readings: an event at 10:00:00 is behind progress 10:00:05
    """


class StateVersionError(HydrophoneError):
    """Stored state was written by a version that this one cannot read.

    Examples
    --------
    >>> print(StateVersionError("fir: state has version 3, this release reads 1 to 2"))
    fir: state has version 3, this release reads 1 to 2
    """


class DataError(HydrophoneError):
    """The data break a rule that the query states, such as overlap within one signal.

    Examples
    --------
    >>> print(DataError("append: a gap of 2 samples, from index 10 to index 12"))
    append: a gap of 2 samples, from index 10 to index 12
    """


_P = ParamSpec("_P")
_R = TypeVar("_R")


def located(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function whose errors say the user's line."""

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except HydrophoneError as error:
            error.where = error.where or user_line()
            raise

    return wrapper


def path_text(path: object, what: str) -> str:
    """A path that a user gives, as text; `what` names it for errors.

    Examples
    --------
    >>> try:
    ...     path_text(None, "write.csv: path")
    ... except ParameterError as error:
    ...     print(error.message)
    write.csv: path must be a text or a path, got None
    """
    found = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(found, str) or not found.strip():
        raise ParameterError(f"{what} must be a text or a path, got {path!r}", where=user_line())
    return found


def user_line() -> str | None:
    """Return the line of the innermost caller outside this package.

    Called while a query is being built, so that an operator can say where it came from.

    Returns
    -------
    str or None
        ``"pipeline.py:14"`` (the file without its folders), or None when every frame is the package's own.
    """
    frame = sys._getframe(1)
    while frame is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_inside(module: str) -> bool:
    # By module name and not by path: the __init__ of a dataclass has no file.
    return module.partition(".")[0] == _PACKAGE or module in _GO_BETWEENS
