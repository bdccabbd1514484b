"""Loops for Numba: interpreted while they have little to do, compiled once that pays, and kept on disk."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, overload

import numpy as np

from hydrophone.model import compiled_cache

Function = Callable[..., Any]

SMALL = 1024
"""Elements in all arrays of a call up to which the call may be interpreted."""
PATIENCE = 0.1
"""Seconds that a function is interpreted before it is compiled, which takes 0.1 s to 1 s."""
SLOW = 1.0
"""Seconds of compiling in this process after which a line on stderr says so."""

# With these alone Numba and NumPy's scalars widen alike, so that the same bits come out of both.
_SAME_BITS = frozenset("?lqLQdD") if np.dtype(np.int64).char == "l" else frozenset("?qQdD")
_NUMPY_WIDENS_AS_NUMBA = int(np.__version__.split(".")[0]) >= 2


class _Within(threading.local):
    interpreted = False


_within = _Within()
_making = threading.RLock()


@overload
def compiled(function: Function) -> Function: ...
@overload
def compiled(*, interpret: bool = True, keep: bool = True, **options: Any) -> Callable[[Function], Function]: ...
def compiled(function: Any = None, *, interpret: bool = True, keep: bool = True, **options: Any) -> Any:
    """Mark a function of arrays and numbers for Numba; it may call others that are marked so.

    A call with few elements is interpreted, until the calls of the function have taken `PATIENCE` together: a query over
    a handful of rows compiles nothing and need not even import Numba. Answers are the same bits either way
    (``tests/model/test_compiled.py`` compares call by call over the cases), so nothing depends on which one ran.
    Compiled code is kept on disk: see `hydrophone.model.compiled_cache`.

    Parameters
    ----------
    interpret : bool
        False for functions whose bits would differ: sums that NumPy takes pairwise, or functions like `exp` of arrays.
    keep : bool
        False for functions that depend on a user's: nothing compiled is kept on disk.
    **options
        For `numba.njit`, where ``nogil`` is True.

    Examples
    --------
    >>> @compiled
    ... def largest(x):
    ...     most = x[0]
    ...     for value in x:
    ...         most = max(most, value)
    ...     return most
    >>> largest(np.array([3, 5, 4]))
    5
    """

    def mark(function: Function) -> Compiled:
        return Compiled(function, interpret, keep, options)

    return mark if function is None else mark(function)


class Compiled:
    """A function that Numba can compile; see `compiled`. `spent` are the seconds for which it was interpreted."""

    def __init__(self, function: Function, interpret: bool, keep: bool, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.interpret = interpret and _NUMPY_WIDENS_AS_NUMBA
        self.options = {"nogil": True} | options
        self._keep = keep
        self.spent = 0.0
        self._dispatcher: Any = None

    def __call__(self, *args: Any) -> Any:
        """Run it, by whichever way is sooner done."""
        if _within.interpreted:
            return self.py_func(*args)
        if self._dispatcher is not None:
            return self._dispatcher(*args)
        if self.interpret and self.spent < PATIENCE and _is_small(args):
            return self.interpreted(*args)
        return self.dispatcher(*args)

    def interpreted(self, *args: Any) -> Any:
        """Run it in Python, with whatever arguments it takes there."""
        began = perf_counter()
        _within.interpreted = True
        try:
            with np.errstate(all="ignore"):
                return _plain(self.py_func(*args))
        finally:
            _within.interpreted = False
            self.spent += perf_counter() - began

    @property
    def dispatcher(self) -> Any:
        """What Numba makes of the function; once it is there, all calls go to it."""
        with _making:
            if self._dispatcher is None:
                import numba

                _watch_compiling()
                dispatcher = numba.njit(**self.options)(self.py_func)
                if self._keep and not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
                    compiled_cache.keep(dispatcher)
                self._dispatcher = dispatcher
            return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """Numba looks for this where a compiled function calls another."""
        return self.dispatcher._numba_type_

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


def _is_small(args: tuple[Any, ...]) -> bool:
    elements = 0
    for arg in args:
        if isinstance(arg, np.ndarray):
            elements += arg.size
            if arg.dtype.char not in _SAME_BITS or elements > SMALL:
                return False
        elif isinstance(arg, np.generic):
            if arg.dtype.char not in _SAME_BITS:
                return False
        elif not isinstance(arg, int | float | complex):
            return False
    return True


def _plain(result: Any) -> Any:
    """Numbers as Numba gives them back: Python's."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        return tuple(_plain(part) for part in result)
    return result


@functools.cache
def _watch_compiling() -> None:
    """Say once on stderr that compiling takes long, and what helps."""
    from numba.core import event

    class Watch(event.Listener):
        def __init__(self) -> None:
            self.depth, self.began, self.total, self.told = 0, 0.0, 0.0, False

        def on_start(self, event: Any) -> None:
            if self.depth == 0:
                self.began = perf_counter()
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.total += perf_counter() - self.began
                if self.total > SLOW and not self.told:
                    self.told = True
                    print(
                        f"hydrophone: compiled loops for {self.total:.1f} s; they are kept for later runs, "
                        "and `hydrophone warm` makes all of them beforehand",
                        file=sys.stderr,
                    )

    event.register("numba:compile", Watch())  # type: ignore[no-untyped-call]
