"""Functions of time that do not do what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import DataError, HydrophoneError, ParameterError

NOTES = pa.table({"t": [0, 50], "end": [30, 90], "v": [1.0, 2.0], "kind": ["up", "down"]})


def notes() -> hp.Stream:
    return hp.from_arrow(NOTES, time="t", end="end")


def steady() -> hp.UniformSignal:
    return notes().signal("v").sample(10)


def raises(t: Any, e: Any = None) -> Any:
    raise ZeroDivisionError("no")


def short(t: Any, e: Any = None) -> Any:
    return t[:1]


def turning(t: Any, e: Any = None) -> Any:
    return t * 1j


def flat(t: Any, e: Any = None) -> Any:
    return 1.0


@pytest.mark.parametrize(
    ("query", "kind", "says"),
    [
        (lambda: steady() * hp.function(raises), DataError, "raises raised ZeroDivisionError: no"),
        (lambda: steady() * hp.function(short), DataError, r"short gave an array of shape \(1,\) for 7 instants"),
        (lambda: steady() * hp.function(turning), DataError, "turning gave complex128, which is no float64"),
        (lambda: steady() * hp.function(3), ParameterError, "expected a function of time, got int"),
        (lambda: steady() * hp.function(flat, unit="parsec"), ParameterError, "parsec"),
        (lambda: notes().signal(raises).sample(10), DataError, "raises raised"),
        (lambda: notes().signal(short).sample(10), DataError, "short gave an array"),
        (lambda: notes().signal({"up": flat}, by="kind").sample(10), DataError, "no function for kind = 'down'"),
        (lambda: notes().signal({"up": flat}, by="kinds").sample(10), ParameterError, "no column 'kinds'"),
        (lambda: notes().signal({"up": flat}), ParameterError, "need by="),
        (lambda: notes().signal(flat, by="kind"), ParameterError, "need by="),
        (lambda: notes().signal({"up": 3}, by="kind").sample(10), ParameterError, "expected a function"),
    ],
)
def test_refused(query: Any, kind: type[HydrophoneError], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        query().to_arrow()
    assert caught.value.where is not None


def test_one_value_stands_for_all() -> None:
    assert notes().signal(flat).sample(10).to_pandas()["value"].tolist() == [1.0] * 7


def test_a_function_stays_one_until_it_meets_a_grid() -> None:
    carrier = 3 - hp.function(np.cos) / 2
    assert carrier(np.array([0])).tolist() == [2.5]
    with pytest.raises(TypeError):
        carrier + "x"


def test_a_function_of_two_signals_is_not_called_with_nothing() -> None:
    def signal(*times: int) -> hp.UniformSignal:
        rows = pa.table({"t": times, "v": np.arange(len(times))})
        return hp.from_arrow(rows, time="t").signal("v").sample(10)

    both = np.vectorize(lambda a, b: a & b)  # refuses arrays without elements
    assert signal(0, 10, 20).combine(signal(200, 210), both).to_arrow().num_rows == 0
    assert signal(0, 10, 20).combine(signal(10, 20), both).to_arrow()["value"].to_pylist() == [0, 0]


def test_only_signals_are_combined() -> None:
    rows = pa.table({"t": [0, 10, 20], "v": [1.0, 2.0, 3.0]})
    points = hp.from_arrow(rows, time="t").signal("v")
    samples = points.sample(10)
    assert samples.combine(points, np.add).to_arrow()["value"].to_pylist() == [2.0, 4.0, 6.0]
    for wrong in (lambda: samples.combine(3, np.add), lambda: samples + samples.window(2)):
        with pytest.raises(hp.SignalTypeError, match="must be a signal"):
            wrong()
    with pytest.raises(hp.SignalTypeError, match="no period"):
        samples.shift_to(points)
