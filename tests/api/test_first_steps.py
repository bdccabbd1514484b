"""What people write at first, out of habits from other libraries, and what they are told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import hydrophone as hp

STREAM = hp.from_arrow(pa.table({"k": [0, 1, 2], "t": [0, 1, 2], "x": [1.0, 2.0, 3.0]}), key="k", time="t")
FRAME = pd.DataFrame({"k": [0, 1], "t": [0, 1], "x": [1.0, 2.0], "place": ["north", "south"]})

JOINS: list[tuple[str, Callable[[Any], Any]]] = [
    ("join", lambda other: STREAM.join(other)),
    ("join", lambda other: STREAM.join(other, on="k")),
    ("asof_join", lambda other: STREAM.asof_join(other)),
    ("band_join", lambda other: STREAM.band_join(other, before=1, after=1, on="k")),
    ("semi_join", lambda other: STREAM.semi_join(other)),
    ("anti_join", lambda other: STREAM.anti_join(other)),
    ("without", lambda other: STREAM.without(other)),
    ("difference", lambda other: STREAM.difference(other)),
    ("union", lambda other: STREAM.union(other)),
    ("union", lambda other: hp.union(other, STREAM)),
]


@pytest.mark.parametrize(("name", "joined"), JOINS)
def test_only_streams_are_joined(name: str, joined: Callable[[Any], Any]) -> None:
    with pytest.raises(hp.SignalTypeError, match=rf"^{name}: expected a stream .*, got int\n  at test_first_steps"):
        joined(5)
    with pytest.raises(hp.SignalTypeError, match=rf"^{name}: .*, got pandas.DataFrame\n[\s\S]*from_pandas\(.*lookup\("):
        joined(FRAME)
    with pytest.raises(hp.SignalTypeError, match=rf"^{name}: .*, got pyarrow.Table\n[\s\S]*from_arrow"):
        joined(pa.table({"k": [0]}))


@pytest.mark.parametrize("handle", [STREAM, STREAM.signal("x")])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("filter", "where(hp.col("),
        ("agg", 'tumble("1s").agg(n=hp.count())'),
        ("groupby", 'key_by("site").tumble("1s").agg('),
        ("group_by", 'key_by("site").tumble("1s").agg('),
        ("assign", "with_columns("),
    ],
)
def test_a_word_of_another_library_is_translated(handle: Any, name: str, says: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(handle, name)
    assert str(caught.value).startswith(f"a {type(handle).__name__} has no {name!r}: ") and says in str(caught.value)


def test_aggregates_need_names() -> None:
    for windows in (STREAM.tumble(10), STREAM.snapshot(), STREAM.session(5)):
        with pytest.raises(
            hp.ParameterError, match=r"agg: every aggregate needs a name[\s\S]*at test_first_steps[\s\S]*level="
        ):
            windows.agg(hp.mean("x"))


def test_windows_without_aggregates_are_no_query() -> None:
    windows: Any = STREAM.tumble(10)
    with pytest.raises(
        AttributeError, match=r"^tumble has no 'to_pandas' before agg .*: agg\(n=hp.count\(\)\).to_pandas"
    ):
        windows.to_pandas()
    with pytest.raises(AttributeError, match=r"^tumble has no 'mean'; it has agg"):
        windows.mean("x")


def test_a_coincidence_is_a_signal_and_stitches_into_one_event() -> None:
    table = pa.table({"station": ["A", "B", "C"], "t": [0, 10, 20], "end": [30, 40, 35]})
    seen = hp.from_arrow(table, key="station", time="t", end="end")
    found = seen.coincidence(2)
    assert isinstance(found, hp.Signal)
    assert found.to_arrow().sort_by("t").to_pydict() == {"t": [10, 20, 30], "end": [20, 30, 35], "n": [2, 3, 2]}
    assert found.select().stitch().to_arrow().to_pydict() == {"t": [10], "end": [35]}


def test_a_lookup_is_by_the_key_unless_said_otherwise() -> None:
    found = STREAM.lookup(FRAME, columns=["place"]).to_arrow().sort_by("k")
    assert found["place"].to_pylist() == ["north", "south"]
    with pytest.raises(hp.ParameterError, match=r"needs on=.*no key[\s\S]*on=\"sensor\""):
        STREAM.key_by().lookup(FRAME)
    with pytest.raises(hp.ParameterError, match=r"no column 'k'; it has: place[\s\S]*on=\{\"ours\": \"theirs\"\}"):
        STREAM.lookup(FRAME[["place"]])


@pytest.mark.parametrize("name", ["sum", "mean", "min", "max", "energy", "power", "rms", "std", "kurtosis", "crest"])
def test_options_of_rolling_aggregates_are_named(name: str) -> None:
    uniform = STREAM.key_by().signal("x").sample(1)
    method = getattr(uniform, name)
    assert list(inspect.signature(method).parameters) == ["size", "hop", "missing", "at"]
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'att'"):
        method(2, att="end")
    short, whole = (
        method(2, hop=1, missing="skip", at="start"),
        uniform.rolling(name, 2, hop=1, missing="skip", at="start"),
    )
    assert short.node.digest == whole.node.digest


def test_names_that_can_be_gone_through_only_once_are_refused() -> None:
    """The look at them would use them up, and the query would have no key."""
    table = pa.table({"a": ["x", "y"], "t": [0, 1]})
    with pytest.raises(hp.ParameterError, match="key"):
        hp.from_arrow(table, key=(name for name in ["a"]), time="t")  # type: ignore[arg-type]
