"""Identity of functions and classes: module, qualified name, code and closure values; never an address."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError


def identity(function: Callable[..., Any]) -> str:
    """Text that is the same for the same function in every process.

    Examples
    --------
    >>> def gain(factor):
    ...     return lambda x: factor * x
    >>> identity(gain(2)) == identity(gain(2)), identity(gain(2)) == identity(gain(3))
    (True, False)
    """
    digest = hashlib.sha256(text_of(function).encode()).hexdigest()[:16]
    return f"{_module(function)}.{getattr(function, '__qualname__', type(function).__name__)}#{digest}"


def class_identity(cls: type, base: type) -> str:
    """Text that is the same for a user's class in every process, even if a task creates the class again: module, name and code.

    Examples
    --------
    >>> def gain(factor):
    ...     return type("Gain", (), {"__module__": "mine", "factor": factor})
    >>> class_identity(gain(2), object) == class_identity(gain(2), object)
    True
    >>> class_identity(gain(2), object) == class_identity(gain(3), object)
    False
    """
    digest = hashlib.sha256(_class_text(cls, base).encode()).hexdigest()[:32]
    # Classes that cloudpickle recreates lose their qualified name; their methods keep theirs, which are part of the code.
    return f"{_module(cls)}.{cls.__name__}#{digest}"


def is_ours(value: object) -> bool:
    """Whether a class or function belongs to this package."""
    return (getattr(value, "__module__", None) or "").split(".")[0] == __name__.split(".")[0]


def _module(value: object) -> str:
    """The module of a function or class. Our modules may move, so all of them count as the package."""
    return __name__.split(".")[0] if is_ours(value) else getattr(value, "__module__", None) or ""


def operator_identity(operator: object, base: type) -> str:
    """Text that is the same for a user-defined operator in every process: the code of its methods, and its attributes."""
    text = f"{class_identity(type(operator), base)}|{text_of(vars(operator))}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _class_text(cls: type, base: type) -> str:
    """The methods (code) and attributes (values) that a class defines, with its ancestors up to a base."""
    mine = [c for c in reversed(cls.__mro__) if c not in base.__mro__ and not is_ours(c)]
    parts = {n: v for c in mine for n, v in vars(c).items() if not (n.startswith(("__", "_abc_")) and n != "__call__")}
    ours = [f"{c.__qualname__}" for c in cls.__mro__ if is_ours(c) and c not in base.__mro__]
    return f"{','.join(ours)}|{text_of({n: _plain_function(v) for n, v in parts.items()})}"


def _plain_function(member: Any) -> Any:
    """The function behind a property, a cached property, a class method or a static method."""
    for name in ("fget", "func", "__func__"):
        if not isinstance(member, types.FunctionType | functools.partial) and hasattr(member, name):
            return getattr(member, name)
    return member


def text_of(value: Any) -> str:
    """Text that is the same for equal values in every process; what cannot be told apart by one is an error."""
    if isinstance(value, functools.partial):
        return f"partial({text_of(value.func)},{text_of(value.args)},{text_of(value.keywords)})"
    if isinstance(value, types.FunctionType):
        return _function(value)
    if isinstance(value, types.MethodType):
        return f"method({text_of(value.__func__)},{text_of(value.__self__)})"
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(getattr(value, "py_func", None), types.FunctionType):  # compiled by Numba
        return f"compiled({_function(value.py_func)})"
    if isinstance(value, np.ndarray):
        return f"array({value.dtype.str},{value.shape},{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({','.join(text_of(v) for v in value)})"
    if isinstance(value, set | frozenset):
        return f"set({','.join(sorted(text_of(v) for v in value))})"
    if isinstance(value, dict):
        return (
            f"dict({','.join(f'{text_of(k)}:{text_of(v)}' for k, v in sorted(value.items(), key=lambda p: str(p[0])))})"
        )
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc) or hasattr(
        value, "__wrapped__"
    ):
        return f"{_module(value)}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
    if isinstance(value, Enum):
        return f"{_module(type(value))}.{type(value).__qualname__}.{value.name}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return f"{_module(type(value))}.{type(value).__qualname__}{text_of(fields)}"
    if value is None or isinstance(
        value, np.dtype | Fraction | bool | int | float | complex | str | bytes | np.generic | type(Ellipsis)
    ):
        return f"{type(value).__name__}:{value!r}"
    if callable(value) and hasattr(value, "__dict__"):
        return f"{_module(type(value))}.{type(value).__qualname__}({text_of(vars(value))})"
    raise ParameterError(
        f"a function that closes over a {type(value).__name__} cannot be identified",
        hint="close over numbers, texts, arrays, tuples and functions only, or pass them as parameters",
    )


def _function(function: types.FunctionType) -> str:
    cells = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        inner = cell.cell_contents
        cells.append(f"{name}={'<itself>' if inner is function else text_of(inner)}")
    used = {n: function.__globals__[n] for n in function.__code__.co_names if n in function.__globals__}
    plain = {n: v for n, v in used.items() if isinstance(v, bool | int | float | complex | str | np.ndarray | tuple)}
    defaults = text_of(function.__defaults__) + text_of(function.__kwdefaults__)
    return f"{_module(function)}.{function.__qualname__}({_code(function.__code__)};{','.join(cells)};{text_of(plain)};{defaults})"


def _code(code: types.CodeType) -> str:
    """Byte code, names and constants, without file names and line numbers."""
    constants = ",".join(text_of(c) for c in code.co_consts)
    return f"{code.co_code.hex()}|{code.co_names}|{code.co_varnames}|{constants}"
