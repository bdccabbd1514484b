"""Identity of a user's function: module, qualified name, code and closure values; never its address."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable
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
    digest = hashlib.sha256(_text(function).encode()).hexdigest()[:16]
    return (
        f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}#{digest}"
    )


def operator_identity(operator: object, base: type) -> str:
    """Text that is the same for an operator of the user's in every process: the code of its methods, and its attributes."""
    mine = [c for c in reversed(type(operator).__mro__) if c not in base.__mro__]
    parts = {n: v for c in mine for n, v in vars(c).items() if not (n.startswith("__") and n.endswith("__"))}
    code = {n: v.fget if isinstance(v, property) else v for n, v in parts.items()}
    text = f"{type(operator).__module__}.{type(operator).__qualname__}|{_text(code)}|{_text(vars(operator))}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _text(value: Any) -> str:
    if isinstance(value, functools.partial):
        return f"partial({_text(value.func)},{_text(value.args)},{_text(value.keywords)})"
    if isinstance(value, types.FunctionType):
        return _function(value)
    if isinstance(value, types.MethodType):
        return f"method({_text(value.__func__)},{_text(value.__self__)})"
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, np.ndarray):
        return f"array({value.dtype.str},{value.shape},{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({','.join(_text(v) for v in value)})"
    if isinstance(value, set | frozenset):
        return f"set({','.join(sorted(_text(v) for v in value))})"
    if isinstance(value, dict):
        return f"dict({','.join(f'{_text(k)}:{_text(v)}' for k, v in sorted(value.items(), key=lambda p: str(p[0])))})"
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc) or hasattr(
        value, "__wrapped__"
    ):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | type(Ellipsis)):
        return f"{type(value).__name__}:{value!r}"
    if callable(value) and hasattr(value, "__dict__"):
        return f"{type(value).__module__}.{type(value).__qualname__}({_text(vars(value))})"
    raise ParameterError(
        f"a function that closes over a {type(value).__name__} cannot be identified",
        hint="close over numbers, texts, arrays, tuples and functions only, or pass them as parameters",
    )


def _function(function: types.FunctionType) -> str:
    cells = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        inner = cell.cell_contents
        cells.append(f"{name}={'<itself>' if inner is function else _text(inner)}")
    used = {n: function.__globals__[n] for n in function.__code__.co_names if n in function.__globals__}
    plain = {n: v for n, v in used.items() if isinstance(v, bool | int | float | complex | str | np.ndarray | tuple)}
    defaults = _text(function.__defaults__) + _text(function.__kwdefaults__)
    return f"{function.__module__}.{function.__qualname__}({_code(function.__code__)};{','.join(cells)};{_text(plain)};{defaults})"


def _code(code: types.CodeType) -> str:
    """Byte code, names and constants, without file names and line numbers."""
    constants = ",".join(_text(c) for c in code.co_consts)
    return f"{code.co_code.hex()}|{code.co_names}|{code.co_varnames}|{constants}"
