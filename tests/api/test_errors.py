"""The exception tree: format, pickling, bases, and the user's line."""

import copy
import functools
import pickle
import types

import pyarrow as pa
import pytest

import hydrophone as hp
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


@pytest.mark.parametrize("inside", ["hydrophone", "hydrophone.ops.filters.fir", "functools"])
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


@pytest.mark.parametrize(
    "line",
    [
        'readings.tumble("5 parsecs")',
        'readings.signal("v").sample("10ns", fill=hp.linear(max_gap="never"))',
        'readings.signal("v").sample(10).fir([1.0], missing="perhaps")',
        'hp.from_arrow(rows, key="k", time="t", progress=hp.delayed("-5s"))',
        'hp.from_arrow(rows, key="nothing", time="t")',
    ],
)
def test_every_error_of_a_query_points_at_its_line(line: str) -> None:
    rows = pa.table({"k": [1], "t": [0], "v": [1.0]})
    readings = hp.from_arrow(rows, key="k", time="t")
    with pytest.raises(errors.HydrophoneError) as caught:
        exec(compile(f"\n\n{line}", "pipeline.py", "exec"), {"hp": hp, "readings": readings, "rows": rows})
    assert caught.value.where == "pipeline.py:3"


def test_rows_that_are_refused_point_at_their_source() -> None:
    rows = pa.table({"k": [1, None], "t": [0, 1], "v": [1.0, 2.0]})
    scope = {"hp": hp, "rows": rows}
    exec(compile('\nreadings = hp.from_arrow(rows, key="k", time="t")', "pipeline.py", "exec"), scope)
    with pytest.raises(errors.DataError) as caught:
        scope["readings"].to_arrow()  # type: ignore[attr-defined]
    assert caught.value.where == "pipeline.py:2"
