"""Where compiled loops are kept, and how they are known: by what they do, not by where and when their file was written."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

SHIPPED = "compiled_loops"
"""The folder in a zip file of the package that holds compiled loops; see `hydrophone.spark.ship`."""


def keep(dispatcher: Any) -> None:
    """Let Numba keep what it compiles of this function in `folder`."""
    from numba.core.caching import IndexDataCacheFile

    dispatcher.enable_caching()
    function = dispatcher.py_func
    name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}"
    file = IndexDataCacheFile(str(folder()), name, stamp(function))  # type: ignore[no-untyped-call]
    dispatcher._cache._cache_file = file


@cache
def folder() -> Path:
    """Where compiled loops are kept: ``NUMBA_CACHE_DIR``, else beside the package, else with the user's other caches.

    Examples
    --------
    >>> folder().is_dir()
    True
    """
    home = Path(__file__).parents[1]
    name = f"hydrophone{_edition(home)}"
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        places = [Path(named) / name]
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        places = [caches / name, Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"]
        if home.is_dir():
            places.insert(0, home / "__pycache__" / "compiled")
    for place in places:
        if is_ours(place):
            unpack(home, place)
            return place
    return Path(tempfile.mkdtemp(prefix="hydrophone-"))


def files() -> list[Path]:
    """All files with compiled loops that there are, in a fixed order."""
    return sorted([*folder().glob("*.nbi"), *folder().glob("*.nbc")])


def stamp(function: Callable[..., Any]) -> str:
    """A digest of a function, of the marked functions that it calls and of the constants that it names.

    Numba itself looks at the file of a function alone: it would go on with a function whose callee in another file has changed.
    """
    digest = hashlib.sha256()
    seen: set[int] = set()

    def add(function: Callable[..., Any]) -> None:
        if id(function) in seen:
            return
        seen.add(id(function))
        names = _add_code(digest, function.__code__)
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            if callable(inner := getattr(value, "py_func", None)):
                digest.update(repr(getattr(value, "options", "")).encode())
                add(inner)
            elif isinstance(value, int | float | complex | str | tuple | np.generic):
                digest.update(f"{name}={value!r};".encode())

    add(function)
    return digest.hexdigest()


def unpack(home: Path, place: Path) -> None:
    """Put the compiled loops that came with a zip file of the package where they are looked for, unless they are there."""
    if not home.parent.is_file():
        return
    with zipfile.ZipFile(home.parent) as file:
        for entry in file.infolist():
            name = Path(entry.filename)
            target = place / name.name
            if name.parts[:2] == (home.name, SHIPPED) and name.suffix in (".nbi", ".nbc") and not target.exists():
                whole = place / f"{name.name}.{os.getpid()}"
                whole.write_bytes(file.read(entry))
                whole.replace(target)  # at once: other workers look at the same time


def _edition(home: Path) -> str:
    """What tells a package in a zip file from others: each has a folder of its own, with the loops that came with it."""
    if not home.parent.is_file():
        return ""
    with zipfile.ZipFile(home.parent) as file:
        entries = repr([(entry.filename, entry.CRC) for entry in file.infolist()])
    return f"-{hashlib.sha256(entries.encode()).hexdigest()[:16]}"


def _add_code(digest: Any, code: CodeType) -> set[str]:
    """Add all of a code object but its place in a file; gives the names that it looks up."""
    digest.update(code.co_code)
    names = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            names |= _add_code(digest, part)
        else:
            digest.update(repr(part).encode())
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    return names


def is_ours(place: Path) -> bool:
    """Whether a folder, which is made if it is not there, is this user's to write and nobody else's: what lies in it is run as code.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> open_to_all = folder / "open"
    >>> open_to_all.mkdir(); open_to_all.chmod(0o777)
    >>> is_ours(folder / "new"), is_ours(open_to_all)
    (True, False)
    """
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o022 or not stat.S_ISDIR(found.st_mode):
            return False
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False
