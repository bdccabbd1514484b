"""Structs that are no payload, and functions of two signals that give the wrong thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import DataError, HydrophoneError, ParameterError, SignalTypeError


def source() -> Any:
    at = pa.array([{"x": 1.0, "y": 2.0}] * 3)
    named = pa.array([{"x": 1.0, "name": "a"}] * 3)
    lists = {"any": pa.array([[1.0, 2.0]] * 3), "none": pa.array([[]] * 3, pa.list_(pa.float64(), 0))}
    table = pa.table({"k": ["a"] * 3, "t": [0, 10, 20], "at": at, "named": named, "v": [1.0, 2.0, 3.0], **lists})
    return hp.from_arrow(table, key="k", time="t")


def pair() -> Any:
    return source().signal("at").sample(10)


def fickle(a: Any, b: Any) -> Any:
    return a[:, 0] if (b != 1).any() else a


BAD: list[tuple[str, type[HydrophoneError], Callable[[], Any], str]] = [
    ("text-field", SignalTypeError, lambda: source().signal("named"), "column 'named.name' is string"),
    (
        "list-of-any-size",
        SignalTypeError,
        lambda: source().signal("any"),
        "column 'any' is list<(?s:.*)a list of a fixed size",
    ),
    ("list-of-none", SignalTypeError, lambda: source().signal("none"), "column 'none' is fixed_size_list"),
    ("fields", ParameterError, lambda: pair().events(fields=["x"]), "events: fields 'x' for 2 channels"),
    ("same-fields", ParameterError, lambda: pair().events(fields=["x", "x"]), "events: fields"),
    ("twice", ParameterError, lambda: source().signal("at", "at"), "two channels have one name"),
    ("raises", DataError, lambda: pair().combine(pair(), lambda a, b: a @ b), "combine: .* raised ValueError"),
    ("shape", DataError, lambda: pair().combine(pair(), lambda a, b: a.sum()), "one row of numbers per sample"),
    ("text", DataError, lambda: pair().combine(pair(), lambda a, b: a.astype(str)), "one row of numbers"),
    ("keys", SignalTypeError, lambda: pair().combine(source().key_by().signal("v").sample(10), np.add), "keys"),
    ("realign", ParameterError, lambda: pair().combine(pair(), np.add, realign="no"), "combine: realign must be"),
    (
        "later",
        DataError,
        lambda: pair().combine(source().signal("v").sample(10), fickle).to_arrow(),
        "when it was tried",
    ),
]


@pytest.mark.parametrize(("kind", "make", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_refused(kind: type[HydrophoneError], make: Callable[[], Any], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert caught.value.where is not None and "test_bad_payloads.py" in caught.value.where
