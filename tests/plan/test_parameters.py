"""Numbers are taken one way everywhere: whole ones are never rounded, NumPy's scalars are as good as Python's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES

import hydrophone as hp
from hydrophone.errors import ParameterError
from hydrophone.plan.node import Node, build

NUMBERS = {"int": (np.int64, np.int16), "float": (np.float64,), "bool": (np.bool_,)}


def declared(kind: str) -> list[tuple[Node, str]]:
    """A node of every operator that has a parameter of this type, with its name."""
    found: dict[tuple[type[Node], str], Node] = {}
    for case in ALL_CASES:
        for node in case.plan.topological():
            for f in node.parameters():
                if str(f.type).removesuffix(" | None") == kind and getattr(node, f.name) is not None:
                    found.setdefault((type(node), f.name), node)
    return [(node, name) for (_, name), node in found.items()]


def named(value: Any) -> str:
    return f"{value.name()}" if isinstance(value, Node) else str(value)


@pytest.mark.parametrize(("node", "name"), declared("int"), ids=named)
def test_whole_numbers_are_not_rounded(node: Node, name: str) -> None:
    value = getattr(node, name)
    for wrong in (value + 0.5, float("nan"), float("inf"), str(value), True, None if value is None else [value]):
        with pytest.raises(ParameterError, match="must be a whole number"):
            build(dataclasses.replace(node, **{name: wrong}))


@pytest.mark.parametrize("kind", NUMBERS)
def test_numpys_scalars_are_the_same_numbers(kind: str) -> None:
    for node, name in declared(kind):
        value = getattr(node, name)
        for scalar in NUMBERS[kind]:
            if scalar is np.int16 and abs(value) > 2**15:
                continue
            made = build(dataclasses.replace(node, **{name: scalar(value)}))
            assert type(getattr(made, name)) is type(value)
            assert made.digest == node.digest, (node.name(), name)


@pytest.mark.parametrize(("node", "name"), declared("float"), ids=named)
def test_reals_are_numbers(node: Node, name: str) -> None:
    for wrong in ("0.5", True, [0.5], 1j):
        with pytest.raises(ParameterError, match="must be a number"):
            build(dataclasses.replace(node, **{name: wrong}))


def signal() -> hp.UniformSignal:
    rows = pa.table({"t": np.arange(0, 64 * 10**6, 10**6), "v": np.arange(64.0)})
    return hp.from_arrow(rows, time="t").signal("v").sample("1ms")


WHOLE: dict[str, Callable[[Any], Any]] = {
    "decimate": lambda n: signal().decimate(n),
    "downsample": lambda n: signal().downsample(n),
    "upsample": lambda n: signal().upsample(n),
    "resample_poly": lambda n: signal().resample_poly(up=n, down=1),
    "window": lambda n: signal().window(n),
    "average": lambda n: signal().window(4).average(n),
    "welch": lambda n: signal().welch(16, average=n),
    "top_k": lambda n: signal().window(4).top_k(n),
    "lowpass order": lambda n: signal().lowpass(100, order=n),
    "lowpass taps": lambda n: signal().lowpass(100, taps=n),
    "coincidence": lambda n: signal().events("v").alter(duration=5).coincidence(n),
    "lazy": lambda n: hp.lazy(late=n),
}


@pytest.mark.parametrize("name", WHOLE)
def test_methods_take_whole_numbers(name: str) -> None:
    with pytest.raises(ParameterError, match="whole number"):
        WHOLE[name](2.5)
    expected, found = WHOLE[name](2), [WHOLE[name](two) for two in (np.int64(2), np.uint8(2), 2.0, Fraction(2))]
    if isinstance(expected, hp.api.Query):
        # Each call has a source of its own; the operators above it are compared.
        assert {f.node.describe() for f in found} == {expected.node.describe()}
    else:
        assert set(found) == {expected}


@pytest.mark.parametrize("hz", [100, 100.0, np.int64(100), np.float32(100), Fraction(100), "100Hz"])
def test_frequencies(hz: Any) -> None:
    x = signal()
    assert x.lowpass(hz).node.digest == x.lowpass(100).node.digest


@pytest.mark.parametrize("wrong", [True, [100], 1j, "fast"])
def test_what_is_no_frequency(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="a number of Hz"):
        signal().lowpass(wrong)
