"""Signals that cannot be brought to one grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import HydrophoneError, ParameterError, SignalTypeError


def source() -> Any:
    return hp.from_arrow(pa.table({"k": ["a"], "t": [0], "v": [1.0]}), key="k", time="t")


def signal(period: int = 10, offset: int = 0) -> Any:
    return source().signal("v").sample(period, offset=offset)


def own_period() -> Any:
    table = pa.table({"k": ["a"], "t": [0], "values": [[1.0]], "period": [10.0]})
    return hp.from_segments(table, key="k", time="t", samples="values", period="period")


BAD: list[tuple[str, type[HydrophoneError], Callable[[], Any], str]] = [
    ("realign", ParameterError, lambda: signal().plus(signal(), realign="stretch"), "realign must be"),
    ("shift-slower", ParameterError, lambda: signal().plus(signal(5), realign="shift"), "signals of one period, got"),
    ("shift-faster", ParameterError, lambda: signal(5).over(signal(), realign="shift"), "signals of one period, got"),
    ("shift-combine", ParameterError, lambda: signal().combine(signal(5), np.add, realign="shift"), "combine: realign"),
    ("fill", ParameterError, lambda: signal().plus(signal(5), fill="linear"), "resample: fill must be a fill"),
    ("resample-fill", ParameterError, lambda: signal().resample(5, fill=3), "resample: fill must be a fill"),
    ("own-period", SignalTypeError, lambda: signal() + own_period(), "different grids"),
    ("own-period-and-any-times", SignalTypeError, lambda: own_period() + source().signal("v"), "needs one period"),
    ("shift-to-other-period", SignalTypeError, lambda: signal().shift_to(signal(5)), "shift_to: the periods differ"),
    ("shift-to-own-period", SignalTypeError, lambda: signal().shift_to(own_period()), "no period for all keys"),
    ("shift-own-period", SignalTypeError, lambda: own_period().shift_to(signal()), "a period of its own"),
    ("words", ParameterError, lambda: signal() + "louder", "expected a signal or a number"),
]


@pytest.mark.parametrize(("kind", "make", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_refused(kind: type[HydrophoneError], make: Callable[[], Any], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert caught.value.where is not None and "test_bad_alignment.py" in caught.value.where
