"""What a user's code carries with it and could change: closure variables, attributes and defaults.

Globals do not count: a log, a counter or a cache beside the code is nobody's state.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.plan.function_identity import LIBRARIES, is_library, is_ours, slots_of, text_of

LARGEST = 1 << 16
"""Bytes up to which a content is looked at: this happens around every call. Of larger lists and dicts the length is."""


def room_left(value: Any, room: int = LARGEST) -> int:
    """How many of these bytes a value leaves, about; below zero where it is larger.

    Examples
    --------
    >>> room_left([1.0, "text"], 100) > 0 > room_left({"taps": np.zeros(100)}, 100)
    True
    """
    if isinstance(value, np.ndarray):
        return room - value.nbytes
    if isinstance(value, str | bytes | bytearray):
        return room - len(value)
    if not isinstance(value, list | tuple | set | dict):
        return room - 16
    room -= 16 * len(value)
    for inner in value.values() if isinstance(value, dict) else value:
        if room < 0:
            break
        room = room_left(inner, room)
    return room


Surroundings = dict[str, tuple[Any, str | None]]
"""By the words for it: a value, and its content where that can change in place."""


def surroundings(code: Any) -> Surroundings:
    """What a function, or an object with methods, could remember from one call to the next.

    Examples
    --------
    >>> def counter():
    ...     seen = []
    ...     return lambda x: seen.append(x)
    >>> function = counter()
    >>> before = surroundings(function)
    >>> function(3)
    >>> changed(before, surroundings(function))
    "the variable 'seen'"
    """
    found: Surroundings = {}
    for name, value in _outside(code):
        found.setdefault(name, (value, _content(value)))  # an attribute hides that of a class further away
    return found


def changed(before: Surroundings, after: Surroundings) -> str | None:
    """The first thing that differs, in words; None: nothing does."""
    for name, (value, content) in after.items():
        was, had = before.get(name, (_NOTHING, None))
        if content != had or (value is not was and not _equal(value, was)):
            return name
    return None


@contextmanager
def locked(around: Surroundings) -> Iterator[list[str]]:
    """Around a call: arrays that are too large to be looked at cannot be written. Gives the words for them.

    Examples
    --------
    >>> table = np.zeros(100_000)
    >>> with locked({"the variable 'table'": (table, None)}) as names:
    ...     names, table.flags.writeable
    (["the variable 'table'"], False)
    >>> table.flags.writeable
    True
    """
    found = [(name, array) for name, (value, _) in around.items() for array in _large_arrays(value)]
    for _, array in found:
        array.flags.writeable = False
    try:
        yield [name for name, _ in found]
    finally:
        for _, array in found:
            array.flags.writeable = True


def _large_arrays(value: Any, depth: int = 0) -> Iterator[np.ndarray[Any, Any]]:
    """Arrays above `LARGEST` that have memory of their own and can be written, in a value or in what it holds."""
    if isinstance(value, np.ndarray):
        if value.nbytes > LARGEST and value.flags.owndata and value.flags.writeable:
            yield value
    elif isinstance(value, list | tuple | dict):
        if len(value) <= _MOST_HELD and depth <= _DEEPEST:
            for inner in value.values() if isinstance(value, dict) else value:
                yield from _large_arrays(inner, depth + 1)
    elif not isinstance(value, _PLAIN) and depth <= _DEEPEST and _is_data(value) and _is_users_object(value):
        for _, inner in (*_attributes(value), *slots_of(value).items()):
            yield from _large_arrays(inner, depth + 1)


_MOST_HELD = 64
"""Containers of more things are not searched for arrays: this happens around every call."""

_NOTHING = object()


def _equal(a: Any, b: Any) -> bool:
    """Whether two objects are one value. What has a content was compared by it."""
    return type(a) is type(b) and (_content(a) is not None or (isinstance(a, _PLAIN) and bool(a == b)))


def _outside(code: Any, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Names and values that code can change, its own and those of functions that it closes over."""
    seen = set() if seen is None else seen
    code = getattr(code, "py_func", code)  # compiled by Numba
    if id(code) in seen or not _is_users(code):
        return
    seen.add(id(code))
    if isinstance(code, functools.partial):
        arguments = enumerate((*code.args, *code.keywords.values()))
        found = [("", code.func), *((f"argument {i}", value) for i, value in arguments)]
    elif isinstance(code, types.MethodType):
        found = [("", code.__func__), ("", code.__self__)]
    elif isinstance(code, types.FunctionType):
        found = list(_of_function(code))
    else:
        own = list(_attributes(code))
        yield from own  # also what is no data, where it is new
        found = [*own, *_class_attributes(code)]
    for name, value in found:
        if name and _is_data(value):
            yield name, value
        elif callable(value) or not name:
            yield from _outside(value, seen)


def _is_users(code: Any) -> bool:
    """Whether a function, or what a callable object does, was written by the user and not by a library."""
    if isinstance(code, functools.partial | types.MethodType):
        return True
    if isinstance(code, type | types.ModuleType):
        return False
    own = code if isinstance(code, types.FunctionType) else type(code).__call__ if callable(code) else None
    if isinstance(own, types.FunctionType):
        return not own.__code__.co_filename.startswith(LIBRARIES)
    return not callable(code) and hasattr(code, "__dict__")


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if (value := _inside(cell)) is not _NOTHING:
            yield f"the variable {name!r}", value
    for name, value in vars(function).items():
        yield f"its attribute {name!r}", value
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "a default value", value


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Of an object; what a `cached_property` keeps follows from the others."""
    for name, value in getattr(owner, "__dict__", {}).items():
        if not isinstance(getattr(type(owner), name, None), functools.cached_property):
            yield f"its attribute {name!r}", value


def _class_attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Methods, what all objects share, and what has a slot, the nearest class first."""
    for base in type(owner).__mro__:
        if base is object or is_ours(base):
            continue
        for name, value in vars(base).items():
            if not name.startswith(("__", "_abc_")) or name == "__call__":
                slot = isinstance(value, types.MemberDescriptorType)
                yield f"its attribute {name!r}", getattr(owner, name, None) if slot else value


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _NOTHING


_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
_CHANGING = (list, dict, set, bytearray)


def _is_data(value: Any) -> bool:
    """Numbers, texts and what holds them; functions, classes and modules are code."""
    if isinstance(value, (*_PLAIN, *_CHANGING, tuple, np.ndarray)):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not is_ours(type(value)):
        return True
    return _is_users_object(value)


def _is_users_object(value: Any) -> bool:
    return not callable(value) and not is_library(type(value)) and not isinstance(value, types.ModuleType)


_DEEPEST = 4
"""How many objects within objects are looked into."""


def _content(value: Any, depth: int = 0) -> str | None:
    """Text that changes when the value is changed in place; None where it cannot be, or is not looked at."""
    if isinstance(value, _PLAIN) or not _is_data(value) or depth > _DEEPEST:
        return None
    if _is_users_object(value) and not isinstance(value, (*_CHANGING, tuple, np.ndarray)):
        held = {name: v for name, v in (*_attributes(value), *slots_of(value).items()) if not callable(v)}
        return str([(n, repr(v) if isinstance(v, _PLAIN) else _content(v, depth + 1)) for n, v in held.items()])
    if room_left(value) < 0:
        return None if isinstance(value, np.ndarray) else str(len(value))
    try:
        return bytes(value).hex() if isinstance(value, bytearray) else text_of(value)
    except (ParameterError, RecursionError):  # what holds other things: at least how many
        return str(len(value)) if hasattr(value, "__len__") else ""
