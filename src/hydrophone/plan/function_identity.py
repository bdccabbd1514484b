"""Identity of functions and classes: module, qualified name, code and closure values; never an address.

Functions of this package are known by their name alone, so that they may be made faster without a change of identity. One that does
something else gets another name, as an operator gets another version.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
import sysconfig
import types
from collections import defaultdict, namedtuple
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

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
    if isinstance(function, types.FunctionType) and (known := _known_name(function)) is not None:
        return known
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
    return _text(value, ())


_Outer: TypeAlias = tuple[Any, ...]
"""What is being described, the outermost first: what holds itself is named by how far out it is."""


def _text(value: Any, outer: _Outer) -> str:
    plain = _plain_text(value)
    if plain is not None:
        return plain
    for distance, held in enumerate(reversed(outer)):
        if held is value:
            return f"<outer {distance}>"
    outer = (*outer, value)
    if isinstance(value, types.FunctionType):
        return _known_name(value) or _function(value, outer)
    if isinstance(value, types.CodeType):
        return _code(value, outer)
    if type(value) is functools.partial:
        return f"partial({_text(value.func, outer)},{_text(value.args, outer)},{_text(value.keywords, outer)})"
    if isinstance(value, types.MethodType):
        return f"method({_text(value.__func__, outer)},{_text(value.__self__, outer)})"
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(
        value.__self__, types.ModuleType | type | types.NoneType
    ):
        return f"method({value.__qualname__},{_text(value.__self__, outer)})"
    if isinstance(getattr(value, "py_func", None), types.FunctionType):  # compiled by Numba
        return f"compiled({_known_name(value.py_func) or _function(value.py_func, outer)})"
    if is_library(type(value)) and (content := _content(value, outer)) is not None:
        return content
    named = f"{_module(value)}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
    if isinstance(value, type):
        return named if is_library(value) else f"{value.__module__}.{value.__name__}{_users_class(value, outer)}"
    if isinstance(value, types.BuiltinFunctionType | types.ModuleType) or _is_known_ufunc(value):
        return named
    if hasattr(value, "__wrapped__"):
        return named if is_library(value) else f"{named}({_text(value.__wrapped__, outer)})"
    if isinstance(value, Enum):
        told = f"{_module(type(value))}.{type(value).__qualname__}.{value.name}"
        return told if is_ours(type(value)) else f"{told}={_text(value.value, outer)}"
    if dataclasses.is_dataclass(value) and is_ours(type(value)):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return f"{_module(type(value))}.{type(value).__qualname__}{_text(fields, outer)}"
    return _object(value, outer)


def _plain_text(value: Any) -> str | None:
    """Of numbers, texts and the like, which hold nothing else."""
    kind = type(value)
    if kind in _PLAIN or (isinstance(value, np.generic | np.dtype) and kind.__module__.startswith("numpy")):
        return f"{kind.__name__}:{value!r}"
    return None


_PLAIN = frozenset({types.NoneType, types.EllipsisType, Fraction, bool, int, float, complex, str, bytes})


def _content(value: Any, outer: _Outer) -> str | None:
    """What arrays and containers hold; None where a value is neither."""
    if isinstance(value, np.ma.MaskedArray):
        return f"masked({_text(value.filled(), outer)},{_text(np.ma.getmaskarray(value), outer)})"
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return f"array({value.dtype.str},{value.shape},{_text(value.tolist(), outer)})"
        return f"array({value.dtype.str},{value.shape},{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({','.join(_text(v, outer) for v in value)})"
    if isinstance(value, set | frozenset):
        return f"set({','.join(sorted(_text(v, outer) for v in value))})"
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda p: str(p[0]))
        made = f";{_text(value.default_factory, outer)}" if isinstance(value, defaultdict) else ""
        return f"dict({','.join(f'{_text(k, outer)}:{_text(v, outer)}' for k, v in pairs)}{made})"
    return None


_CONTENTS = (list, tuple, set, frozenset, dict, np.ndarray, bool, int, float, complex, str, bytes)
_IMMUTABLE_TYPE = (
    1 << 8
)  # in the flags of classes that are written in C, whose objects may hold what Python does not see


def _object(value: Any, outer: _Outer) -> str:
    """An object of a class that a user wrote, or one of a library that is called: its class, and all that it holds."""
    kind = type(value)
    hidden = [c for c in kind.__mro__ if c is not object and c.__flags__ & _IMMUTABLE_TYPE and c not in _CONTENTS]
    described = hasattr(value, "__dict__") and (callable(value) or dataclasses.is_dataclass(value))
    if hidden or not (described or not is_library(kind)):
        raise ParameterError(
            f"a function that closes over a {kind.__name__} cannot be identified",
            hint="close over numbers, texts, arrays, tuples, functions and plain objects of them only, or pass them as parameters",
        )
    base = next((c for c in kind.__mro__ if c in _CONTENTS), None)
    held = None if base is None else _content(value, outer) or f"{base.__name__}:{base.__repr__(value)}"
    state = {n: v for n, v in {**slots_of(value), **getattr(value, "__dict__", {})}.items() if not _is_cached(kind, n)}
    told = "" if is_library(kind) else _users_class(kind, outer)
    return f"{_module(kind)}.{kind.__name__}{told}({held or ''}{_text(state, outer)})"


def _is_cached(kind: type, name: str) -> bool:
    """Whether an attribute is what a `cached_property` keeps: it follows from the others."""
    return isinstance(getattr(kind, name, None), functools.cached_property)


def slots_of(value: Any) -> dict[str, Any]:
    """What an object holds in slots, by their names."""
    members = [(n, m) for c in type(value).__mro__ for n, m in vars(c).items()]
    slots = [n for n, m in members if isinstance(m, types.MemberDescriptorType)]
    return {n: getattr(value, n) for n in slots if hasattr(value, n)}


def _users_class(cls: type, outer: _Outer) -> str:
    """The code and the attributes of a class, with its ancestors up to those of libraries."""
    if issubclass(cls, Enum):
        return _text({name: member.value for name, member in cls.__members__.items()}, outer)
    mine = [c for c in reversed(cls.__mro__) if not is_library(c)]
    members = {n: _plain_function(v) for c in mine for n, v in vars(c).items() if _tells(n, v)}
    theirs = ",".join(f"{_module(c)}.{c.__qualname__}" for c in cls.__mro__ if is_library(c))
    return f"[{theirs}|{_text(members, (*outer, cls))}]"


def _tells(name: str, member: Any) -> bool:
    """Whether a member of a class says what its objects do: not what Python, `dataclass`, `namedtuple` and `abc` add to it."""
    if isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType | _NAMED_FIELD):
        return False
    function = _plain_function(member)
    if isinstance(function, types.FunctionType):
        return not function.__code__.co_filename.startswith(("<string", *LIBRARIES))
    return not name.startswith(("__", "_abc_"))


_NAMED_FIELD = type(namedtuple("_", "field").field)  # type: ignore[attr-defined]


def is_library(value: Any) -> bool:
    """Whether a class or function comes with Python or an installed package, and so is known by its name."""
    if is_ours(value):
        return True
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or "<locals>" in getattr(value, "__qualname__", ""):
        return False
    file = getattr(module, "__file__", None)
    return module.__name__ in sys.builtin_module_names if file is None else file.startswith(LIBRARIES)


LIBRARIES = (
    str(Path(__file__).parents[1]),
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
)
"""Folders of what comes with Python, of installed packages and of this one."""


def _is_known_ufunc(value: Any) -> bool:
    """Whether a universal function is one of NumPy or SciPy: one that was made of a Python function has no name to know it by."""
    homes = (sys.modules.get(name) for name in ("numpy", "numpy.strings", "scipy.special"))
    return isinstance(value, np.ufunc) and any(getattr(home, value.__name__, None) is value for home in homes)


def _known_name(function: types.FunctionType) -> str | None:
    """The name of a function of this package that closes over nothing; functions of applications are users' functions."""
    home = getattr(function, "__module__", None) or ""
    if not is_ours(function) or home.startswith(_APPLICATIONS) or function.__closure__ or "<" in function.__qualname__:
        return None
    return f"{_module(function)}.{function.__qualname__}"


_APPLICATIONS = tuple(f"{__name__.split('.')[0]}.{room}" for room in ("apps", "bench"))


def _function(function: types.FunctionType, outer: _Outer) -> str:
    cells = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        cells.append(f"{name}={_cell(cell, name, function, outer)}")
    used = {n: function.__globals__[n] for n in function.__code__.co_names if n in function.__globals__}
    plain = {n: v for n, v in used.items() if isinstance(v, bool | int | float | complex | str | np.ndarray | tuple)}
    defaults = _text(function.__defaults__, outer) + _text(function.__kwdefaults__, outer)
    code = _code(function.__code__, outer)
    return f"{_module(function)}.{function.__qualname__}({code};{','.join(cells)};{_text(plain, outer)};{defaults})"


def _cell(cell: types.CellType, name: str, function: types.FunctionType, outer: _Outer) -> str:
    try:
        inner = cell.cell_contents
    except ValueError:
        return "<not set>"
    if inner is function:
        return "<itself>"
    if name == "__class__" and isinstance(inner, type):  # of `super`: the class whose method this is
        return f"{_module(inner)}.{inner.__qualname__}"
    return _text(inner, outer)


def _code(code: types.CodeType, outer: _Outer) -> str:
    """Byte code, names and constants, without file names and line numbers."""
    constants = ",".join(_text(c, outer) for c in code.co_consts)
    return f"{code.co_code.hex()}|{code.co_names}|{code.co_varnames}|{constants}"
