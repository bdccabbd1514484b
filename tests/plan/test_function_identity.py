"""Identity of users' functions: whatever a function carries with it counts, or is refused."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from scipy.interpolate import CubicSpline

import hydrophone as hp
from hydrophone.plan.function_identity import identity

Function = Callable[..., Any]


def times(held: Any) -> Function:
    return lambda x: x * held


def plain_object(g: int) -> Function:
    class Gain:
        pass

    gain = Gain()
    gain.factor = g  # type: ignore[attr-defined]
    return times(gain)


def object_in_itself(g: int) -> Function:
    class Gain:
        pass

    gain = Gain()
    gain.factor, gain.me = g, [gain]  # type: ignore[attr-defined]
    return times(gain)


def callable_object(g: int) -> Function:
    class Gain:
        def __call__(self, x: Any) -> Any:
            return x * g

    return Gain()


def method_of_an_ancestor(g: int) -> Function:
    class Base:
        def factor(self) -> int:
            return g

    class Gain(Base):
        def __call__(self, x: Any) -> Any:
            return x * super().factor()

    return Gain()


def property_of_an_object(g: int) -> Function:
    class Gain:
        @property
        def factor(self) -> int:
            return g

    return times(Gain())


def bound_method(g: int) -> Function:
    class Gain:
        def __init__(self) -> None:
            self.factor = g

        def times(self, x: Any) -> Any:
            return x * self.factor

    return Gain().times


def slots(g: int) -> Function:
    class Gain:
        __slots__ = ("factor",)

    gain = Gain()
    gain.factor = g  # type: ignore[attr-defined]
    return times(gain)


def a_class(g: int) -> Function:
    class Gain:
        factor = g

    return times(Gain)


def a_class_with_init(g: int) -> Function:
    class Gain:
        def __init__(self) -> None:
            self.factor = g

    return times(Gain)


def method_of_a_dataclass(g: int) -> Function:
    @dataclasses.dataclass
    class Gain:
        unit: str = "V"

        def factor(self) -> int:
            return g

    return times(Gain())


def attribute_beside_the_fields(g: int) -> Function:
    @dataclasses.dataclass
    class Gain:
        unit: str = "V"

    gain = Gain()
    gain.factor = g  # type: ignore[attr-defined]
    return times(gain)


def cached_function(g: int) -> Function:
    return functools.lru_cache(lambda x: x * g)


def attribute_of_a_container(g: int) -> Function:
    class Table(dict[str, int]):
        pass

    table = Table(a=1)
    table.factor = g  # type: ignore[attr-defined]
    return times(table)


def attribute_of_a_number(g: int) -> Function:
    class Volt(float):
        pass

    volt = Volt(1.0)
    volt.factor = g  # type: ignore[attr-defined]
    return times(volt)


def functions_that_call_each_other(g: int) -> Function:
    def even(n: int) -> bool:
        return n == 0 or odd(n - g)

    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    return even


def list_in_itself(g: int) -> Function:
    held: list[Any] = [g]
    held.append(held)
    return times(held)


DIFFER: dict[str, Callable[[int], Function]] = {
    **{
        f.__name__: f
        for f in (
            plain_object,
            object_in_itself,
            callable_object,
            method_of_an_ancestor,
            property_of_an_object,
            bound_method,
            slots,
            a_class,
            a_class_with_init,
            method_of_a_dataclass,
            attribute_beside_the_fields,
            cached_function,
            attribute_of_a_container,
            attribute_of_a_number,
            functions_that_call_each_other,
            list_in_itself,
        )
    },
    "method of a dict": lambda g: {1: g}.get,
    "method of a list, closed over": lambda g: times([g].count),
    "masked array": lambda g: times(np.ma.array([1.0, 2.0], mask=[g == 2, g == 3])),
    "array of objects": lambda g: times(np.array([g, "a"], object)),
    "records": lambda g: times(np.rec.array([(g, 1.0)], dtype=[("a", int), ("b", float)])),
    "default of a dict": lambda g: times(collections.defaultdict(lambda: g)),
    "named tuple": lambda g: times(collections.namedtuple("Pair", "a b")(1, g)),  # type: ignore[call-arg]
    "enum": lambda g: times(enum.Enum("Gain", {"HIGH": g})),  # type: ignore[misc]
    "member of an enum": lambda g: times(next(iter(enum.IntEnum("Gain", {"HIGH": g})))),  # type: ignore[misc]
    "vectorize": lambda g: np.vectorize(lambda x: x * g),
    "spline": lambda g: CubicSpline([0, 1, 2.0], [g, 1, 2.0]),
    "partial": lambda g: functools.partial(np.clip, a_min=0, a_max=g),
    "ufunc": lambda g: functools.partial(np.add, g),
}
REFUSED: dict[str, Function] = {
    "pattern": re.compile("a").sub,
    "getter": operator.itemgetter(1),
    "generator": times(np.random.default_rng(1)),
    "ufunc of a function": np.frompyfunc(lambda x: 2 * x, 1, 1),
    "subclass of what is written in C": times(type("Mine", (functools.partial,), {})(min, 1)),
    "file": times(sys.stdout),
}


@pytest.mark.parametrize("name", DIFFER)
def test_what_a_function_carries_counts(name: str) -> None:
    two, three, again = (identity(DIFFER[name](g)) for g in (2, 3, 2))
    assert two == again != three


@pytest.mark.parametrize("name", ["callable_object", "plain_object", "a_class", "method_of_a_dataclass", "slots"])
def test_it_is_the_same_in_a_task(name: str) -> None:
    function = DIFFER[name](2)
    program = (
        "import sys; from pyspark import cloudpickle; from hydrophone.plan.function_identity import identity\n"
        "print(identity(cloudpickle.load(sys.stdin.buffer)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        input=cloudpickle.dumps(function),
        capture_output=True,
        check=True,
    )
    assert there.stdout.decode().strip() == identity(function)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_apart_is_refused(name: str) -> None:
    with pytest.raises(hp.ParameterError, match="cannot be identified"):
        identity(REFUSED[name])


def test_a_variable_that_is_not_set_yet_is_no_error() -> None:
    def late() -> int:
        return value

    before = identity(late)
    value = 2
    assert identity(late) != before and late() == value


def test_functions_with_unlike_objects_are_not_shared() -> None:
    table = pa.table({"t": [0, 10, 20], "v": [1.0, 2.0, 4.0]})
    x = hp.from_arrow(table, time="t").signal("v").sample(10)
    both = x.map(callable_object(2)) + x.map(callable_object(3))
    assert both.to_arrow()["value"].to_pylist() == [5.0, 10.0, 20.0]
