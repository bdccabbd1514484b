"""A user's operator that keeps something on itself would give other answers in the next run: it is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import DataError


def signal() -> hp.UniformSignal:
    return hp.from_arrow(pa.table({"t": [0, 10, 20, 30], "v": [1.0, 2.0, 4.0, 8.0]}), time="t").signal("v").sample(10)


class Rebinding:
    """A new number under an old name."""

    def __init__(self) -> None:
        self.seen = 0

    def remember(self, x: Any) -> None:
        self.seen += 1


class Adding:
    """An attribute that was not there."""

    def remember(self, x: Any) -> None:
        self.last = x


class Listing:
    """A list that grows."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def remember(self, x: Any) -> None:
        self.seen.append(1.0)


class Writing:
    """An array that is written in place."""

    def __init__(self) -> None:
        self.total = np.zeros(1)

    def remember(self, x: Any) -> None:
        self.total += 1


class OnTheClass:
    """A number that all instances share."""

    seen = 0

    def remember(self, x: Any) -> None:
        type(self).seen += 1


class SharedList:
    """A list that all instances share."""

    seen: ClassVar[list[float]] = []

    def remember(self, x: Any) -> None:
        self.seen.append(1.0)


class Slotted:
    """An attribute that is in no dictionary."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def remember(self, x: Any) -> None:
        self.seen += 1


class Nested:
    """A list in a tuple."""

    def __init__(self) -> None:
        self.seen: tuple[list[float], ...] = ([],)

    def remember(self, x: Any) -> None:
        self.seen[0].append(1.0)


class NestedArray:
    """An array in a dictionary."""

    def __init__(self) -> None:
        self.seen = {"total": np.zeros(1)}

    def remember(self, x: Any) -> None:
        self.seen["total"] += 1


@dataclass
class Record:
    """Something that may change."""

    count: int = 0


class Recorded:
    """A record that is changed."""

    def __init__(self) -> None:
        self.seen = Record()

    def remember(self, x: Any) -> None:
        self.seen.count += 1


KEEPERS = [
    Rebinding, Adding, Listing, Writing, OnTheClass, SharedList, Slotted, Nested, NestedArray, Recorded,
]  # fmt: skip


def filtered(keeper: type) -> Any:
    class Mine(keeper, hp.DigitalFilter):  # type: ignore[misc]
        forward, backward, missing, compiled = 1, 0, "reset", False

        def compute(self, x: Any, y: Any) -> Any:
            self.remember(x)
            return x[-1]

    return signal().filter(Mine())


def applied(keeper: type) -> Any:
    class Mine(keeper, hp.WindowOperator):  # type: ignore[misc]
        def output_size(self, size: int) -> int:
            return 1

        def recompute(self, x: Any) -> Any:
            self.remember(x)
            return x.all.sum(axis=1, keepdims=True)

    return signal().window(2).apply(Mine())


def iterated(keeper: type) -> Any:
    class Mine(keeper, hp.StatefulOperator):  # type: ignore[misc]
        block = 2

        def start(self) -> dict[str, float]:
            return {"top": 0.0}

        def step(self, x: Any, state: Any) -> Any:
            self.remember(x)
            return x.max(axis=1)

    return signal().iterate(Mine())


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("use", [filtered, applied, iterated])
def test_what_an_operator_keeps_on_itself_is_an_error(use: Any, keeper: type) -> None:
    names = {Adding: "'last'", Writing: "read-only"}
    with pytest.raises(DataError, match=names.get(keeper, "'seen'")):
        use(keeper).to_arrow()


# --- functions ----------------------------------------------------------------------------------------------------------

logged: list[int] = []


def closed_number() -> Any:
    seen = 0

    def function(*arrays: Any) -> Any:
        nonlocal seen
        seen += 1
        return arrays[0]

    return function


def closed_list() -> Any:
    seen: list[int] = []

    def function(*arrays: Any) -> Any:
        seen.append(1)
        return arrays[0]

    return function


def closed_array() -> Any:
    seen = np.zeros(2)

    def function(*arrays: Any) -> Any:
        seen[0] += 1
        return arrays[0]

    return function


def closed_record() -> Any:
    seen = Record()

    def function(*arrays: Any) -> Any:
        seen.count += 1
        return arrays[0]

    return function


class Held:
    def __init__(self) -> None:
        self.count = 0
        self.table = np.zeros(100_000)  # too large to be looked at: the others are all the same


class HeldInSlots:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Holding:
    def __init__(self) -> None:
        self.inner = [Held(), Held()]

    def __call__(self, *arrays: Any) -> Any:
        self.inner[1].count += 1
        return arrays[0]


def closed_object(held: type[Any] = Held) -> Any:
    first, second = held(), held()

    def function(*arrays: Any) -> Any:
        second.count += 1
        return arrays[0] + 0 * first.count

    return function


def closed_slots() -> Any:
    return closed_object(HeldInSlots)


def object_in_an_object() -> Any:
    holding = Holding()
    return lambda *arrays: holding(*arrays)


def helper() -> Any:
    remember = closed_list()
    return lambda *arrays: remember(*arrays)


def own_attribute() -> Any:
    def function(*arrays: Any) -> Any:
        function.seen += 1  # type: ignore[attr-defined]
        return arrays[0]

    function.seen = 0  # type: ignore[attr-defined]
    return function


def default_value() -> Any:
    def function(*arrays: Any, seen: list[int] = []) -> Any:  # noqa: B006
        seen.append(1)
        return arrays[0]

    return function


def given_argument() -> Any:
    def function(seen: list[int], *arrays: Any) -> Any:
        seen.append(1)
        return arrays[0]

    return partial(function, [])


class Calling:
    """An object that is called as a function."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, *arrays: Any) -> Any:
        self.seen += 1
        return arrays[0]

    def method(self, *arrays: Any) -> Any:
        return self(*arrays)


MEMORIES = [
    closed_number, closed_list, closed_array, closed_record, helper, own_attribute, default_value,
    given_argument, Calling, lambda: Calling().method, closed_object, closed_slots, object_in_an_object,
]  # fmt: skip


def numbers() -> hp.Stream:
    return hp.from_arrow(pa.table({"t": [0, 10, 20, 30], "v": [1.0, 2.0, 4.0, 8.0]}), time="t")


def aggregated(f: Any) -> Any:
    own = hp.aggregate("v", create=np.zeros, add=lambda s, v: f(s + v), merge=np.add, result=np.asarray)
    return numbers().tumble(100).agg(n=own)


def filled(f: Any) -> Any:
    fill = hp.fill_with(lambda at, v: f(v[:, 0]), points=2, max_gap=20)
    return numbers().signal("v").sample(5, fill=fill)


USES: dict[str, Callable[[Any], Any]] = {
    "samples": lambda f: signal().map(f),
    "two signals": lambda f: signal().combine(signal(), f),
    "windows": lambda f: signal().window(2).map(f),
    "two windows": lambda f: signal().window(2).combine(signal().window(2), f),
    "added windows": lambda f: (
        signal().window(2).aggregate(lambda s, x: f(s + x.sum(axis=1, keepdims=True)), initial=0.0)
    ),
    "reduced windows": lambda f: signal().window(2).reduce(lambda x: f(x)[:, 0]),
    "of time": lambda f: signal() * hp.function(f),
    "fill": filled,
    "aggregate": aggregated,
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("use", USES)
def test_what_a_function_keeps_outside_of_itself_is_an_error(use: str, memory: Any) -> None:
    with pytest.raises(DataError, match=r"changed .* while it ran, so another run would give another answer"):
        USES[use](memory()).to_arrow()


def test_a_compiled_filter_cannot_write_its_arrays() -> None:
    class Writer(hp.DigitalFilter):
        forward, backward, missing = 1, 0, "reset"

        def __init__(self) -> None:
            self.total = np.zeros(1)

        def compute(self, x: Any, y: Any) -> Any:
            if x[-1] > 3:  # not when it is tried
                self.total[0] += x[-1]
            return self.total[0]

    with pytest.raises(DataError, match=r"cannot be compiled: .*[Rr]ead-?only|Cannot modify"):
        signal().filter(Writer()).to_arrow()


def test_what_is_cached_or_only_read_is_no_memory() -> None:
    table, offsets = np.arange(10.0), {"a": 1.0}

    @cache
    def weight(n: int) -> float:
        return float(table[n])

    def function(x: Any) -> Any:
        return x * weight(2) + offsets["a"]

    query = signal().map(function)
    assert query.to_arrow()["value"].to_pylist() == query.to_arrow()["value"].to_pylist() == [3.0, 5.0, 9.0, 17.0]


def test_a_log_beside_the_code_is_nobodys_state() -> None:
    def function(x: Any) -> Any:
        logged.append(len(x))
        return x

    assert signal().map(function).to_arrow()["value"].to_pylist() == [1.0, 2.0, 4.0, 8.0]
    assert sum(logged) >= 4


def test_what_follows_from_the_parameters_may_be_kept() -> None:
    computed = []

    class Gain(hp.DigitalFilter):
        forward, backward, missing, compiled = 1, 0, "reset", False

        def __init__(self, decibels: float) -> None:
            self.decibels = decibels

        @cached_property
        def factor(self) -> float:
            computed.append(self.decibels)
            return 10 ** (self.decibels / 20)

        def compute(self, x: Any, y: Any) -> Any:
            return x[-1] * self.factor

    query = signal().filter(Gain(20.0))
    assert query.to_arrow()["value"].to_pylist() == query.to_arrow()["value"].to_pylist() == [10.0, 20.0, 40.0, 80.0]
    assert computed == [20.0]


# --- large arrays, which are not compared ---------------------------------------------------------------------------------------


class Tables:
    """An object that holds a large array."""

    def __init__(self) -> None:
        self.inner = {"table": [np.zeros(100_000)]}


def large(place: str) -> tuple[Any, np.ndarray]:
    """A function that writes into a large array, and the array."""
    table, tables = np.zeros(100_000), Tables()

    def closed(*arrays: Any) -> Any:
        table[70_000] += 1
        return arrays[0]

    def through(*arrays: Any) -> Any:
        np.add(table, 1, out=table)
        return arrays[0]

    def inside(*arrays: Any) -> Any:
        tables.inner["table"][0][-1] += 1
        return arrays[0]

    found = {"closed": closed, "out=": through, "in an object": inside}
    return found[place], tables.inner["table"][0] if place == "in an object" else table


@pytest.mark.parametrize("place", ["closed", "out=", "in an object"])
@pytest.mark.parametrize("use", ["samples", "two signals", "windows"])
def test_a_large_array_cannot_be_written_while_a_function_runs(use: str, place: str) -> None:
    function, table = large(place)
    with pytest.raises(DataError, match=r"changed the array that it gets or the variable 'tables?' while it ran"):
        USES[use](function).to_arrow()
    assert not table.any() and table.flags.writeable


def test_a_large_array_may_be_read_and_is_the_users_again_afterwards() -> None:
    table = np.arange(100_000.0)
    found = signal().map(lambda x: x + table[70_000]).to_arrow()["value"].to_pylist()
    assert found == [70_001.0, 70_002.0, 70_004.0, 70_008.0]
    table[0] = 1
