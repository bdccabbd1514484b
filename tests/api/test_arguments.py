"""Numbers, frequencies, durations and instants are taken one way by every public method, and what is none is a clear error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.api.walk import ARGUMENTS, OTHERS, Call, calls, public

import hydrophone as hp
from hydrophone.errors import HydrophoneError

CALLS = list(calls())

SAME: dict[str, list[Callable[[Any], Any]]] = {
    "whole": [np.int64, np.int8, np.uint16, np.float32, float, Fraction, np.array],
    "samples": [
        np.int64,
        np.int8,
        np.uint16,
        np.float32,
        float,
        Fraction,
        np.array,
        lambda v: f"{v}ms",
        lambda v: dt.timedelta(milliseconds=v),
        pd.Timedelta("1ms").__mul__,
        lambda v: np.timedelta64(v, "ms"),
    ],
    "bytes": [np.int64, np.int8, np.uint16, np.float32, float, Fraction, np.array],
    "real": [np.float64, Fraction, np.array],
    "hertz": [np.float64, int, np.int64, Fraction, np.array, lambda v: f"{v:g}Hz"],
    "duration": [np.int64, Fraction, np.array, pd.Timedelta, lambda v: f"{v}ns", lambda v: np.timedelta64(v, "ns")],
    "instant": [np.int64, np.array, lambda v: np.datetime64(v, "ns"), pd.Timestamp],
}
"""By kind: other ways to write the same number."""

NONE = [
    True, np.True_, "x", "", [3], (), {}, object(), 1j, np.array([1, 2]), b"3", pd.NaT, np.timedelta64("NaT"),
]  # fmt: skip
"""No number at all."""

EXTREME = [
    float("nan"), float("inf"), -float("inf"), 0, -1, -(2**40), 2.5, 10**9, 2**40, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, 1e308,
    -1e308, 1e-308, Decimal("2.5"), np.float16(2.5), None, "nan", "-5s", "1e400s", "99999999999999999d",
    np.datetime64("2020-01-01"), dt.timedelta(seconds=1),
]  # fmt: skip
"""Numbers that may be right, or wrong."""

COMPLEX = {("UniformSignal.continuous", "value")}


def test_every_public_method_is_called() -> None:
    """A new method with such a parameter needs a line in `tests/api/walk.py`."""
    assert {n.split(" ")[0] for n in ARGUMENTS} | OTHERS == {name for name, _ in public()}


def named(value: Any) -> str:
    return value.name if isinstance(value, Call) else str(value)


def identity(made: Any) -> Any:
    if isinstance(made, tuple):
        return [identity(m) for m in made]
    return made.node.digest if isinstance(made, hp.api.Query) else repr(made)


@pytest.mark.parametrize(("call", "name", "kind"), CALLS, ids=named)
def test_numbers_are_taken_however_they_are_written(call: Call, name: str, kind: str) -> None:
    if call.name in ("Stream.batches", "Stream.to_arrow"):
        return  # they run at once: see the next test
    right = identity(call())
    for make in SAME[kind]:
        given = call.arguments[name]
        if (make is np.int8 and not -128 <= given < 128) or (make is np.uint16 and not 0 <= given < 2**16):
            continue
        if make is Fraction and kind in ("real", "hertz") and Fraction(given) != Fraction(str(given)):
            continue
        assert identity(call(**{name: make(given)})) == right, make


@pytest.mark.parametrize(("call", "name", "kind"), CALLS, ids=named)
def test_what_is_no_number_is_refused_and_extreme_ones_are_taken_or_refused(call: Call, name: str, kind: str) -> None:
    with np.errstate(all="ignore"):
        for wrong in NONE:
            if (call.name, name) in COMPLEX and isinstance(wrong, complex):
                continue
            with pytest.raises(HydrophoneError):
                call(**{name: wrong})
        for extreme in EXTREME:
            try:
                call(**{name: extreme})
            except HydrophoneError as error:
                assert len(str(error)) < 1_000
