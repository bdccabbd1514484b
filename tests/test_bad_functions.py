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
