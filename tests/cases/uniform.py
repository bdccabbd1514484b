"""How a case of an operator on one uniform signal is written: a query over the samples, and a reference per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tests import oracles
from tests.cases.sampling import sampled
from tests.cases.table import Case, Row, Source, grid, sample_rows

ROUNDING = "sums of products in another order than the reference's"


def uniform(
    name: str,
    node: Any,
    source: Source,
    query: Callable[[Any], Any],
    answer: Callable[[oracles.Samples], Mapping[int, Any]],
    *,
    tolerance: float = 1e-12,
    why: str = ROUNDING,
    period: Any = 10,
    spacing: Any = None,
    columns: tuple[str, ...] = ("v",),
) -> Case:
    """From samples to samples."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        x = sampled(inputs["x"], period, columns=columns)
        with np.errstate(all="ignore"):
            return sample_rows(oracles.each(answer, x), grid(period))

    def ask(s: Mapping[str, Any]) -> Any:
        return query(s["x"].signal(*columns).sample(spacing or period))

    return Case(name, node, {"x": source}, ask, expected, tolerance, why if tolerance else "")


def found(
    name: str,
    node: Any,
    source: Source,
    query: Callable[[Any], Any],
    answer: Callable[[oracles.Samples, oracles.Grid], list[tuple[Any, ...]]],
    *,
    tolerance: float = 0.0,
    why: str = ROUNDING,
    period: Any = 10,
    spacing: Any = None,
) -> Case:
    """From samples to events: the answer gives rows of (start, [end], columns)."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        with np.errstate(all="ignore"):
            signals = sampled(inputs["x"], period)
            return [(*k, *row) for k, x in signals.items() for row in answer(x, grid(period))]

    def ask(s: Mapping[str, Any]) -> Any:
        return query(s["x"].signal("v").sample(spacing or period))

    return Case(name, node, {"x": source}, ask, expected, tolerance, why if tolerance else "")
