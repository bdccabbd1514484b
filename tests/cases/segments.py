"""Cases where every key has a period and a phase of its own: rows are segments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from tests import oracles
from tests.cases.filters import BUTTER, LOW
from tests.cases.table import Case, Row, Source

from hydrophone.ops.detectors.above import Above
from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.filters.sos import Sos
from hydrophone.ops.signals.arithmetic import Combine, Scalar
from hydrophone.ops.signals.place import Place
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.window import Window

GRIDS = {
    "a": oracles.Grid(Fraction(10), 3),
    "b": oracles.Grid(Fraction(7)),
    "c": oracles.Grid(Fraction(10**9, 44_100)),
    "d": oracles.Grid(Fraction(1), 0),
}


def segmented(seed: int, count: int = 6) -> Source:
    """Segments in any order; some touch, some leave holes, from negative times on."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for key, at in GRIDS.items():
        k = -9
        for _ in range(count):
            values = rng.normal(0, 3, int(rng.integers(1, 9))).tolist()
            rows.append((key, at.instant(k), values, float(at.period)))
            k += len(values) + int(rng.choice([0, 0, 2, 20]))
    order = rng.permutation(len(rows))
    return Source(
        pa.table({n: [rows[i][c] for i in order] for c, n in enumerate(["k", "t", "values", "period"])}),
        key="k",
        samples="values",
    )


def signals(source: Source) -> dict[str, oracles.Samples]:
    found: dict[str, oracles.Samples] = {k: {} for k in GRIDS}
    for row in source.table.to_pylist():
        first = GRIDS[row["k"]].first(row["t"])
        found[row["k"]] |= {first + i: v for i, v in enumerate(row["values"])}
    return found


def case(
    name: str,
    node: Any,
    query: Callable[[Any], Any],
    answer: Callable[[oracles.Samples], Mapping[int, Any]],
    seed: int = 130,
) -> Case:
    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        return [
            (k, GRIDS[k].instant(n), _value(v)) for k, x in signals(inputs["x"]).items() for n, v in answer(x).items()
        ]

    return Case(
        name,
        node,
        {"x": segmented(seed)},
        lambda s: query(s["x"]),
        expected,
        1e-12,
        "sums of products in another order than SciPy's",
    )


def _value(v: Any) -> Any:
    return tuple(v.tolist()) if np.ndim(v) else float(v)


def _above(inputs: Mapping[str, Source]) -> list[Row]:
    return [(k, *row) for k, x in signals(inputs["x"]).items() for row in oracles.above(x, 0.0, GRIDS[k], 25)]


def _sum(inputs: Mapping[str, Source]) -> list[Row]:
    a, b = signals(inputs["a"]), signals(inputs["b"])
    return [
        (k, GRIDS[k].instant(n), float(v)) for k in GRIDS for n, v in oracles.combine(operator.add, a[k], b[k]).items()
    ]


CASES = [
    case("segments-place", Place, lambda x: x.fir([1.0]), lambda x: x),
    case("segments-scalar", Scalar, lambda x: x * 2.0, lambda x: {n: 2 * v for n, v in x.items()}),
    case("segments-fir", Fir, lambda x: x.fir(LOW), lambda x: oracles.fir(x, LOW)),
    case("segments-fir-drop", Fir, lambda x: x.fir(LOW[:3], missing="drop"), lambda x: oracles.fir(x, LOW[:3], "drop")),
    case("segments-sos", Sos, lambda x: x.sos(BUTTER), lambda x: oracles.sos(x, BUTTER)),
    case("segments-window", Window, lambda x: x.window(4, hop=3), lambda x: oracles.windows(x, 4, 3)),
    case(
        "segments-overlap-add",
        OverlapAdd,
        lambda x: x.window(4, hop=2).overlap_add(),
        lambda x: oracles.overlap_add(oracles.windows(x, 4, 2)),
    ),
    case(
        "segments-overlap-add-apart",
        OverlapAdd,
        lambda x: x.window(2, hop=5).overlap_add(),
        lambda x: oracles.overlap_add(oracles.windows(x, 2, 5)),
    ),
    Case("segments-above", Above, {"x": segmented(131)}, lambda s: s["x"].above(0.0, report=25), _above),
    Case("segments-combine", Combine, {"a": segmented(132), "b": segmented(133)}, lambda s: s["a"] + s["b"], _sum),
]
