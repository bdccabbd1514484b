"""The exception tree: format, pickling, bases, and the user's line."""

import copy
import functools
import pickle
import types

import pytest

from hydrophone import errors
from hydrophone.errors import (
    DataError,
    HydrophoneError,
    LateEventError,
    ParameterError,
    PlanError,
    SignalTypeError,
    StateVersionError,
    UnsupportedError,
    user_line,
)

TREE = {
    HydrophoneError: Exception,
    ParameterError: ValueError,
    SignalTypeError: TypeError,
    PlanError: Exception,
    UnsupportedError: NotImplementedError,
    LateEventError: Exception,
    StateVersionError: Exception,
    DataError: Exception,
}


@pytest.mark.parametrize(("error", "builtin"), TREE.items())
def test_the_tree(error: type[HydrophoneError], builtin: type[Exception]) -> None:
    assert issubclass(error, HydrophoneError)
    assert issubclass(error, builtin)
    assert error.__name__ in errors.__all__


@pytest.mark.parametrize(
    ("hint", "where", "text"),
    [
        (None, None, "op: rule"),
        ("do this", None, "op: rule\n  Hint: do this"),
        (None, "a.py:3", "op: rule\n  at a.py:3"),
        ("do this", "a.py:3", "op: rule\n  at a.py:3\n  Hint: do this"),
    ],
)
def test_the_text(hint: str | None, where: str | None, text: str) -> None:
    assert str(HydrophoneError("op: rule", hint=hint, where=where)) == text


@pytest.mark.parametrize("error", TREE)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_all_parts(error: type[HydrophoneError], protocol: int) -> None:
    before = error("op: rule", hint="do this", where="a.py:3")
    for after in (pickle.loads(pickle.dumps(before, protocol)), copy.copy(before), copy.deepcopy(before)):
        assert type(after) is error
        assert (after.message, after.hint, after.where) == ("op: rule", "do this", "a.py:3")
        assert str(after) == str(before)


def test_a_layer_may_add_the_line() -> None:
    error = ParameterError("op: rule")
    error.where = "a.py:3"
    assert str(error) == "op: rule\n  at a.py:3"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_user_line_is_the_callers() -> None:
    assert user_line() == f"test_errors.py:{test_user_line_is_the_callers.__code__.co_firstlineno + 1}"


def _call_from(module: str, filename: str, **names: object) -> str | None:
    """Run ``line = call()`` as if it stood on line 3 of a module."""
    scope: dict[str, object] = {"__name__": module, **names}
    types.FunctionType(compile("\n\nline = call()", filename, "exec"), scope)()
    return scope["line"]  # type: ignore[return-value]


@pytest.mark.parametrize("inside", ["hydrophone", "hydrophone.ops.filters", "functools"])
def test_user_line_skips_the_package(inside: str) -> None:
    def through_the_package() -> str | None:
        return _call_from(inside, "<string>", call=user_line)

    line = _call_from("user", "/home/u/pipeline.py", call=through_the_package)
    # The innermost frame outside is `_call_from` of this file, which called the package.
    assert line is not None
    assert line.startswith("test_errors.py:")


def test_user_line_skips_functools() -> None:
    assert _call_from("user", "/home/u/pipeline.py", call=functools.lru_cache(user_line)) == "pipeline.py:3"


def test_a_module_that_only_starts_with_the_name_is_outside() -> None:
    assert _call_from("hydrophone_extras.x", "/site/extras.py", call=user_line) == "extras.py:3"


def test_user_line_without_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_is_inside", lambda module: True)
    assert user_line() is None
