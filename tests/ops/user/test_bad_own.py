"""What can go wrong in filters and operators of the user's own: every error names the class and the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import DataError, ParameterError


def signal(*values: float) -> hp.UniformSignal:
    v = values or (1.0, 2.0, 3.0)
    table = pa.table({"k": ["a"] * len(v), "t": np.arange(len(v)) * 10, "v": list(v)})
    return hp.from_arrow(table, key="k", time="t").signal("v").sample(10)


class Rows(hp.DigitalFilter):
    compiled = False

    def __init__(self, function: Any) -> None:
        self.function = function

    def compute(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


class Fails(hp.DigitalFilter):
    def compute(self, x: Any, y: Any) -> Any:
        raise KeyError("level")


class Wide(hp.DigitalFilter):
    forward = 3

    def compute(self, x: Any, y: Any) -> Any:
        return x


class Odd(hp.DigitalFilter):
    """Python that cannot be compiled."""

    def compute(self, x: Any, y: Any) -> Any:
        return float(str(abs(x[-1])).split(".")[0] + f"{x[-1]:>5}".count(" ") * "0")


class Unsettled(Rows):
    backward, missing = 1, "zero"


class Nothing(Rows):
    forward = 0


class Strange(Rows):
    missing = "skip"


def late_failure(x: Any, y: Any) -> Any:
    """Behaves when it is tried on ones."""
    if (x[-1] > 1).any():
        raise ValueError("too loud")
    return x[-1]


def late_shape(x: Any, y: Any) -> Any:
    return x[-1] if (x[-1] <= 1).all() else x


def late_type(x: Any, y: Any) -> Any:
    return x[-1] if (x[-1] <= 1).all() else 1j * x[-1]


class Step(hp.StatefulOperator):
    def __init__(self, step: Any, start: Any = None) -> None:
        self.with_step, self.with_start = step, start

    def start(self) -> Any:
        return {"n": 0.0} if self.with_start is None else self.with_start()

    def step(self, x: Any, state: Any) -> Any:
        return self.with_step(x, state)


class Empty(Step):
    size = 0


def grows(x: Any, state: Any) -> Any:
    state["n"] = np.ones((len(x), 2))
    return x


def forgets(x: Any, state: Any) -> Any:
    del state["n"]
    return x


def flat(x: Any, state: Any) -> Any:
    return np.zeros(len(x) + 1)


def raises(x: Any, state: Any) -> Any:
    raise ZeroDivisionError("no level")


def texts() -> Any:
    return {"name": "x"}


def no_start() -> Any:
    raise RuntimeError("not today")


def longer(x: Any, state: Any) -> Any:
    return np.repeat(x, 2, axis=1)


def longer_later(x: Any, state: Any) -> Any:
    return x if (x <= 1).all() else longer(x, state)


BAD: dict[str, tuple[Any, Any, str]] = {
    "no-filter": (
        ParameterError,
        lambda: signal().filter(abs),
        "filter: expected a DigitalFilter, got builtin_function",
    ),
    "forward": (ParameterError, lambda: signal().filter(Nothing(late_type)), "filter: forward must be at least 1"),
    "missing": (ParameterError, lambda: signal().filter(Strange(late_type)), "filter: missing must be one of"),
    "settle": (
        ParameterError,
        lambda: signal().filter(Unsettled(late_type)),
        "after how many zeros it has come to rest",
    ),
    "raises": (DataError, lambda: signal().filter(Fails()), "filter: Fails.compute raised KeyError: 'level'"),
    "shape": (DataError, lambda: signal().filter(Wide()), "filter: Wide.compute gave an array of shape (3,)"),
    "not-compiled": (DataError, lambda: signal().filter(Odd()), "filter: Odd.compute cannot be compiled"),
    "raises-later": (DataError, lambda: signal().filter(Rows(late_failure)).to_arrow(), "raised ValueError: too loud"),
    "shape-later": (DataError, lambda: signal().filter(Rows(late_shape)).to_arrow(), "gave an array of shape (1, 1)"),
    "type-later": (
        DataError,
        lambda: signal().filter(Rows(late_type)).to_arrow(),
        "complex128, and float64 when it was tried",
    ),
    "no-operator": (ParameterError, lambda: signal().iterate(abs), "iterate: expected a StatefulOperator, got builtin"),
    "size": (ParameterError, lambda: signal().iterate(Empty(grows)), "iterate: size must be at least 1 sample, got 0"),
    "step-raises": (DataError, lambda: signal().iterate(Step(raises)), "iterate: Step.step raised ZeroDivisionError"),
    "step-shape": (DataError, lambda: signal().iterate(Step(flat)), "Step.step gave an array of shape (3,) for 2 keys"),
    "state-shape": (DataError, lambda: signal().iterate(Step(grows)), "left float64 of shape (2, 2) in state['n']"),
    "state-gone": (DataError, lambda: signal().iterate(Step(forgets)), "in state['n']"),
    "state-text": (DataError, lambda: signal().iterate(Step(grows, texts)), "Step.start gives 'name'"),
    "start-raises": (
        DataError,
        lambda: signal().iterate(Step(grows, no_start)),
        "Step.start raised RuntimeError: not today",
    ),
    "nothing": (
        ParameterError,
        lambda: signal().iterate(Step(lambda x, s: x[:, :0])),
        "iterate: Step.step gives no values",
    ),
    "no-dict": (
        DataError,
        lambda: signal().iterate(Step(flat, lambda: 5)),
        "it gives a dictionary of numbers and arrays",
    ),
    "longer-later": (
        DataError,
        lambda: signal().iterate(Step(longer_later)).to_arrow(),
        "gave 2 values of float64 per key",
    ),
}


@pytest.mark.parametrize(("kind", "does", "says"), BAD.values(), ids=BAD)
def test_what_goes_wrong_is_named(kind: Any, does: Any, says: str) -> None:
    with pytest.raises(kind) as caught:
        does()
    assert type(caught.value) is kind
    assert says in str(caught.value)


def test_one_bad_reading_does_not_stay() -> None:
    class Leaky(hp.DigitalFilter):
        backward = 1

        def compute(self, x: Any, y: Any) -> Any:
            return 0.5 * x[-1] + 0.5 * y[-1]

    found = signal(1.0, float("nan"), 4.0, 4.0).filter(Leaky()).to_arrow()["value"].to_pylist()
    assert found[0] == 0.5 and np.isnan(found[1]) and found[2:] == [2.0, 3.0]


def test_filters_differ_by_their_attributes_and_code() -> None:
    class Gain(hp.DigitalFilter):
        def __init__(self, gain: float) -> None:
            self.gain = gain

        def compute(self, x: Any, y: Any) -> Any:
            return self.gain * x[-1]

    x = signal()
    assert x.filter(Gain(2.0)).node.digest == x.filter(Gain(2.0)).node.digest != x.filter(Gain(3.0)).node.digest
