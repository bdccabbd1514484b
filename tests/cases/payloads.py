"""Cases of payloads that are structs: channels under field-by-field arithmetic, and a product of one's own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from tests import oracles
from tests.cases import data
from tests.cases.sampling import sampled
from tests.cases.table import Case, Row, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.ops.relational.rows import ToEvents
from hydrophone.ops.signals.arithmetic import CombineSamples
from hydrophone.ops.signals.to_signal import ToSignal

_LINE = "the line between two points, up to the rounding of one multiplication"


def _structs(source: Source, *, nulls: bool = False) -> Source:
    """The values as structs of two fields, of which some lack one, and some are missing."""
    v = source.table["v"].combine_chunks()
    n, rng = len(v), np.random.default_rng(len(v))
    second = pa.array(np.arange(n) - 7, mask=rng.random(n) < 0.1 if nulls else None)
    missing = pa.array(rng.random(n) < 0.1) if nulls else None
    made = pa.StructArray.from_arrays([v, second], ["x", "n"], mask=missing)
    return Source(source.table.set_column(2, "v", made), key="k")


def _lists(source: Source) -> Source:
    """The values as lists of two, of which some lack one, and some are missing."""
    rows = _structs(source, nulls=True).table["v"].to_pylist()
    lists = pa.array([v and [v["x"], v["n"]] for v in rows], pa.list_(pa.float64(), 2))
    return Source(source.table.set_column(2, "v", lists), key="k")


def _spread(source: Source) -> Source:
    """The same readings with a column per value."""
    rows = [r for r in source.table.to_pylist() if r["v"] is not None]
    columns = {"k": [r["k"] for r in rows], "t": [r["t"] for r in rows]}
    return Source(
        pa.table(columns | {name: pa.array([r["v"][i] for r in rows]) for i, name in enumerate("vw")}), key="k"
    )


def _flat(source: Source) -> Source:
    """The same readings with a column per field."""
    rows = [r for r in source.table.to_pylist() if r["v"] is not None]
    columns = {"k": [r["k"] for r in rows], "t": [r["t"] for r in rows]}
    columns |= {name: pa.array([r["v"][field] for r in rows]) for name, field in (("v", "x"), ("w", "n"))}
    return Source(pa.table(columns), key="k")


def turned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of complex numbers, on pairs."""
    return np.stack([a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1], a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]], axis=1)


def scaled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A vector by a scalar."""
    return a * b[:, None]


def _product(name: str, x: Source, y: Source) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        a, b = sampled(_flat(i["a"]), 10, columns=("v", "w")), sampled(_flat(i["b"]), 10, columns=("v", "w"))
        with np.errstate(all="ignore"):
            pairs = oracles.each(lambda p, q: {k: turned(p[k][None], q[k][None])[0] for k in p.keys() & q.keys()}, a, b)
        return sample_rows(pairs, grid(10))

    return Case(
        name,
        CombineSamples,
        {"a": x, "b": y},
        lambda s: s["a"].signal("v").sample(10).combine(s["b"].signal("v").sample(10), turned),
        expected,
    )


CASES = [
    Case(
        "signal-struct",
        ToSignal,
        {"x": _structs(data.points(320, value=data.rough), nulls=True)},
        lambda s: s["x"].signal("v").sample(9, fill=hp.linear(60)),
        lambda i: sample_rows(sampled(_flat(i["x"]), 9, fill="linear", gap=60, columns=("v", "w")), grid(9)),
        1e-12,
        _LINE,
    ),
    Case(
        "signal-list",
        ToSignal,
        {"x": _lists(data.points(327, value=data.rough))},
        lambda s: s["x"].signal("v").sample(9, fill=hp.linear(60)),
        lambda i: sample_rows(sampled(_spread(i["x"]), 9, fill="linear", gap=60, columns=("v", "w")), grid(9)),
        1e-12,
        _LINE,
    ),
    Case(
        "struct-field-by-field",
        ToSignal,
        {"x": _structs(data.beats(321))},
        lambda s: s["x"].signal("v").sample(10) * 3 - s["x"].signal("v").sample(10),
        lambda i: sample_rows(
            oracles.each(
                lambda x: {k: v * 3 - v for k, v in x.items()}, sampled(_flat(i["x"]), 10, columns=("v", "w"))
            ),
            grid(10),
        ),
    ),
    _product("combine-samples", _structs(data.beats(322)), _structs(data.beats(323, value=data.rough))),
    Case(
        "combine-samples-scalar",
        CombineSamples,
        {"a": _structs(data.beats(324)), "b": data.beats(325, period=20)},
        lambda s: s["a"].signal("v").sample(10).combine(s["b"].signal("v").sample(20), scaled, fill=hp.hold(20)),
        lambda i: sample_rows(
            oracles.each(
                lambda p, q: {k: p[k] * q[k] for k in p.keys() & q.keys()},
                sampled(_flat(i["a"]), 10, columns=("v", "w")),
                sampled(i["b"], 10, fill="last", gap=20),
            ),
            grid(10),
        ),
    ),
    Case(
        "events-struct",
        ToEvents,
        {"x": _structs(data.beats(326))},
        lambda s: s["x"].signal("v").sample(10).events("at", fields=["x", "n"]).signal("at").sample(10),
        lambda i: sample_rows(sampled(_flat(i["x"]), 10, columns=("v", "w")), grid(10)),
    ),
]
