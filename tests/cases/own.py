"""Cases of Filter and Iterate: digital filters and stateful operators of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from tests import oracles
from tests.cases import data
from tests.cases.sampling import _vectors, sampled
from tests.cases.segments import GRIDS, segmented, signals
from tests.cases.table import Case, Row, Source
from tests.cases.uniform import uniform

import hydrophone as hp
from hydrophone.ops.user.blocks import Blocks
from hydrophone.ops.user.digital_filter import Filter
from hydrophone.ops.user.iterate import Iterate


class Leaky(hp.DigitalFilter):
    """As the language page has it."""

    forward, backward, missing = 1, 1, "reset"

    def compute(self, x: Any, y: Any) -> Any:
        return 0.05 * x[-1] + 0.95 * y[-1]


class LeakyRows(Leaky):
    """The same in plain Python, for all keys at once."""

    compiled = False


class Ringing(hp.DigitalFilter):
    """With attributes, and holes that count as zeros until it has come to rest."""

    forward, backward, missing, settle = 2, 2, "zero", 5

    def __init__(self, gain: float) -> None:
        self.gain = gain

    def compute(self, x: Any, y: Any) -> Any:
        return self.gain * (x[-1] - x[-2]) + 0.01 * y[-1] - 0.02 * y[-2]


class RingingRows(Ringing):
    compiled = False


class Limited(hp.DigitalFilter):
    """Branches, which only a compiled filter can: a step may not be larger than one."""

    forward, backward = 1, 1

    def compute(self, x: Any, y: Any) -> Any:
        change = x[-1] - y[-1]
        if change > 1:
            return y[-1] + 1
        if change < -1:
            return y[-1] - 1
        return x[-1]


class Middle(hp.DigitalFilter):
    """No feedback: the median of three, as soon as there are three."""

    forward, missing = 3, "drop"

    def compute(self, x: Any, y: Any) -> Any:
        return max(min(x[-1], x[-2]), min(max(x[-1], x[-2]), x[-3]))


class Slewed(hp.DigitalFilter):
    """Waits for three inputs, and has no outputs from before it had them."""

    forward, backward, missing = 3, 2, "drop"

    def compute(self, x: Any, y: Any) -> Any:
        return 0.5 * x[-1] + 0.25 * x[-3] + 0.5 * y[-1] - 0.125 * y[-2]


class SlewedRows(Slewed):
    compiled = False


class Mixed(hp.DigitalFilter):
    """Complex from real, holes as zeros, without feedback."""

    forward, missing, compiled = 3, "zero", False

    def compute(self, x: Any, y: Any) -> Any:
        return x[-1] + 1j * x[-3]


class Record(hp.StatefulOperator):
    """How far a sample lies below the highest so far, and a count of samples."""

    size = 3

    def start(self) -> Mapping[str, Any]:
        return {"top": -1e9, "count": 0, "last": np.array([1.0, 2.0])}

    def step(self, x: Any, state: Any) -> Any:
        tops = np.maximum.accumulate(np.column_stack([state["top"], x]), axis=1)[:, 1:]
        state["top"][:] = tops[:, -1]
        state["count"] += x.shape[1]
        old = state["last"].sum(axis=1)
        state["last"][:] = x[:, -2:]
        return tops - x + state["count"][:, None] + old[:, None]


class Record1(Record):
    size = 2


class Rate(hp.StatefulOperator):
    """Another rate: of `size` samples `count` sums so far."""

    def __init__(self, size: int, count: int) -> None:
        self.size, self.count = size, count  # type: ignore[misc]

    def start(self) -> Mapping[str, Any]:
        return {"sum": 0.0}

    def step(self, x: Any, state: Any) -> Any:
        state["sum"] += x.sum(axis=1)
        return state["sum"][:, None] + np.arange(self.count) / 8


def looped(operator: Any, x: oracles.Samples, settle: int) -> oracles.Samples:
    """The filter in plain Python over one key: a hole of up to `settle` samples is zeros, a longer one a start."""
    x = {k: np.atleast_1d(v) for k, v in x.items()}
    columns = len(next(iter(x.values()))) if x else 0
    out: dict[int, list[Any]] = {k: [] for k in x}
    for c in range(columns):
        xs: list[Any] = []
        ys: list[Any] = []
        before, inputs = None, 0
        for k in sorted(x):
            gap = 0 if before is None else k - before - 1
            if gap > settle:
                xs, ys, gap, inputs = [], [], 0, 0
            for value in [*[0.0] * gap, x[k][c] * 1.0]:
                xs = ([0.0] * operator.forward + xs + [value])[-operator.forward :]
                inputs += 1
                if operator.missing == "drop" and inputs < operator.forward:
                    y = np.nan
                    continue
                pasts = ([0.0] * operator.backward + ys)[-operator.backward :] if operator.backward else []
                y = operator.compute(np.array(xs), np.array(pasts))
                ys.append(y)
                if operator.backward and not np.isfinite(y):
                    xs, ys = [], []
            out[k].append(y)
            before = k
    return {k: (v[0] if columns == 1 else np.array(v)) for k, v in out.items()}


def filtered(name: str, operator: Any, source: Source, settle: int = 0, **options: Any) -> Case:
    def answer(x: oracles.Samples) -> oracles.Samples:
        y = looped(operator, x, settle)
        needed = operator.forward if operator.missing == "drop" else 1
        return {k: v for k, v in y.items() if all(k - i in x for i in range(needed))}

    return uniform(name, Filter, source, lambda x: x.filter(operator), answer, **options)


def recorded(x: oracles.Samples, size: int) -> oracles.Samples:
    """Complete blocks of the absolute grid, one after the other."""
    out: oracles.Samples = {}
    before = None
    for block in sorted({k // size for k in x}):
        span = range(block * size, block * size + size)
        if not all(k in x for k in span):
            continue
        if before != block - 1:
            top, count, last = -1e9, 0, 3.0
        count += size
        for k in span:
            top = max(top, x[k])
            out[k] = top - x[k] + count + last
        last = sum(x[k] for k in span[-2:])
        before = block
    return out


def another_rate(name: str, size: int, count: int, period: int) -> Case:
    """The values of a block lie `size / count` samples apart, the first at its begin."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        rows: list[Row] = []
        for key, x in sampled(inputs["x"], period).items():
            total, before = 0.0, None
            for block in sorted({k // size for k in x}):
                if not all(block * size + i in x for i in range(size)):
                    continue
                total = sum(x[block * size + i] for i in range(size)) + (total if before == block - 1 else 0.0)
                before = block
                spaced = Fraction(period * size, count)
                rows += [(*key, int((block * count + i) * spaced // 1), total + i / 8) for i in range(count)]
        return rows

    return Case(
        name,
        Blocks,
        {"x": data.beats(277, lost=0.04, rows=60)},
        lambda s: s["x"].signal("v").sample(period).iterate(Rate(size, count)),
        expected,
        1e-12,
        "sums in another order",
    )


def _of_segments() -> Case:
    """Every key has a period of its own, which the blocks follow."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        return [
            (k, GRIDS[k].instant(n), float(v))
            for k, x in signals(inputs["x"]).items()
            for n, v in recorded(x, 2).items()
        ]

    return Case(
        "iterate-segments",
        Iterate,
        {"x": segmented(280)},
        lambda s: s["x"].iterate(Record1()),
        expected,
        1e-12,
        "sums in another order",
    )


CASES = [
    filtered("filter-leaky", Leaky(), data.beats(270)),
    filtered("filter-rows", LeakyRows(), data.beats(271, value=data.rough)),
    filtered("filter-zero", Ringing(2.0), data.beats(272, value=data.rough), 5),
    filtered("filter-zero-rows", RingingRows(0.5), _vectors(), 5, period=1, columns=("v", "w")),
    filtered("filter-branches", Limited(), data.beats(273, value=data.whole)),
    filtered("filter-drop", Middle(), data.beats(274), tolerance=0),
    filtered("filter-drop-feedback", Slewed(), data.beats(278)),
    filtered("filter-drop-feedback-rows", SlewedRows(), _vectors(), period=1, columns=("v", "w")),
    filtered("filter-complex", Mixed(), data.beats(275), 2),
    uniform(
        "iterate", Iterate, data.beats(276, lost=0.04, rows=60), lambda x: x.iterate(Record()), lambda x: recorded(x, 3)
    ),
    _of_segments(),
    another_rate("iterate-slower", 4, 1, 10),
    another_rate("iterate-faster", 3, 7, 10),
]
