"""Finds a query by name in a user's Python file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from hydrophone.api import Query
from hydrophone.errors import HydrophoneError


class Terminated(BaseException):
    """SIGTERM as an exception; like an interrupt it is not an error, nor an exit of the user's file."""


class UsageError(HydrophoneError):
    """A wrong command: no such file, no such query."""


def load(reference: str) -> tuple[Query, ModuleType]:
    """The query ``FILE.py:NAME``, and the file as a module; the name may be left out if the file has one query.

    Examples
    --------
    >>> load("pipeline")
    Traceback (most recent call last):
    hydrophone.cli.query_file.UsageError: 'pipeline' is no query
      Hint: name a Python file and a query in it: pipeline.py:loud
    """
    file, colon, name = reference.rpartition(":")
    if not colon:
        file, name = reference, ""
    if not file.endswith(".py"):
        raise UsageError(f"{reference!r} is no query", hint="name a Python file and a query in it: pipeline.py:loud")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"there is no file {file}")
    module = _import(path)
    return _named(module, name, file), module


def _named(module: ModuleType, name: str, file: str) -> Query:
    queries = {n: q for n, q in vars(module).items() if isinstance(q, Query) and not n.startswith("_")}
    choices = f"queries in {file}: {', '.join(queries)}" if queries else f"{file} has no query at its top level"
    if not name:
        if len(queries) != 1:
            raise UsageError(f"which query of {file}?", hint=choices)
        return next(iter(queries.values()))
    found = getattr(module, name, None)
    if isinstance(found, Query):
        return found
    what = (
        f"there is no {name!r} in {file}"
        if found is None
        else f"{name!r} in {file} is a {type(found).__name__}, not a query"
    )
    raise UsageError(what, hint=choices)


def _import(path: Path) -> ModuleType:
    """Run a file as a module. Its folder can be imported from, as when Python runs the file itself."""
    # A user's signal.py must not replace that of the standard library.
    name = path.stem if path.stem not in sys.modules else f"query_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except HydrophoneError:
        raise
    except SyntaxError as error:
        where = f"{error.filename or path}:{error.lineno}" if error.lineno else str(path)
        raise HydrophoneError(f"{where}: {error.msg}") from error
    except SystemExit as error:
        raise HydrophoneError(f"{path} ends the program while it is imported (exit code {error.code})") from error
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # the user's file may raise anything
        raise HydrophoneError(f"{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, path: Path) -> str:
    """The file's line that an error came through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.absolute()]
    return f"{path}:{lines[-1]}" if lines else str(path)
