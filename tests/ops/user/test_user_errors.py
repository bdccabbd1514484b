"""Whatever a user's code raises while a query runs ends as an error that names operator, code and line, with the original as its cause."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.compiler.compile import stages
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError, HydrophoneError, ParameterError, SignalTypeError
from hydrophone.ops.aggregates.panes import PaneKernel
from hydrophone.spark.streaming.partial_aggregates import (
    MIN_ROWS,
    PartialAggregates,
    merge_partials,
    partial_aggregates_of,
)

LOUD = 7.0
"""A value that no trial has, and the rows do."""


def rows() -> hp.Stream:
    table = pa.table({"k": ["a"] * 8, "t": np.arange(8) * 10, "v": [1.0, 0.5, 1.0, 0.5, 1.0, LOUD, 1.0, 0.5]})
    return hp.from_arrow(table, key="k", time="t", progress=hp.ordered())


def signal() -> hp.UniformSignal:
    return rows().signal("v").sample(10)


def loud(x: Any, *rest: Any) -> Any:
    """Works when it is tried, and raises on several lines when it meets a loud value."""
    if (np.asarray(x) >= LOUD).any():
        raise LookupError("no level\n  for this value")
    return x


def total(windows: np.ndarray) -> np.ndarray:
    return loud(windows).sum(axis=1)


def add(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    return states + loud(values)


def remove(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    return states - loud(values)


def merge(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return loud(a) + loud(b)


def own(**changed: Any) -> Any:
    return hp.aggregate("v", **{"create": np.zeros, "add": np.add, "merge": np.add, "result": np.asarray, **changed})


class Leaky(hp.DigitalFilter):
    forward, backward, compiled, missing = 1, 1, False, "reset"

    def compute(self, x: Any, y: Any) -> Any:
        return 0.5 * loud(x)[-1] + 0.5 * y[-1]


class Step(hp.StatefulOperator):
    def start(self) -> Any:
        return {"top": 0.0}

    def step(self, x: Any, state: Any) -> Any:
        return loud(x)


class Energy(hp.WindowOperator):
    def output_size(self, size: int) -> int:
        return 1

    def recompute(self, x: Any) -> Any:
        return (x.all**2).sum(axis=1, keepdims=True)

    def update(self, x: Any, y: Any) -> Any:
        return y + (loud(x.new) ** 2).sum(axis=1, keepdims=True) - (x.old**2).sum(axis=1, keepdims=True)


def added(state: np.ndarray, samples: np.ndarray) -> np.ndarray:
    return state + loud(samples).sum(axis=1, keepdims=True)


def first(state: np.ndarray) -> np.ndarray:
    return loud(state)[:, 0]


LATE: list[tuple[str, str, Callable[[], Any]]] = [
    ("tumble", "aggregate: add", lambda: rows().tumble(20).agg(n=own(add=add))),
    ("tumble", "aggregate: merge", lambda: rows().tumble(40).agg(n=own(merge=merge))),
    ("tumble", "aggregate: result (loud)", lambda: rows().tumble(40).agg(n=own(result=loud))),
    ("sliding", "aggregate: add", lambda: rows().sliding(40, every=10).agg(n=own(add=add))),
    ("sliding", "aggregate: remove", lambda: rows().sliding(40, every=10).agg(n=own(remove=remove))),
    ("session", "aggregate: add", lambda: rows().session(15).agg(n=own(add=add))),
    ("snapshot", "aggregate: add", lambda: rows().snapshot().agg(n=own(add=add))),
    ("count_window", "aggregate: add", lambda: _numbered().count_window(2).agg(n=own(add=add))),
    ("map", "loud", lambda: signal().map(loud)),
    ("where", "<lambda>", lambda: signal().where(lambda v: loud(v) > 0)),
    ("combine", "<lambda>", lambda: signal().combine(signal(), lambda a, b: loud(a) + b)),
    ("map", "loud", lambda: signal().window(2).map(loud)),
    ("reduce", "total", lambda: signal().window(2).reduce(total)),
    ("combine", "<lambda>", lambda: signal().window(2).combine(signal().window(2), lambda a, b: loud(a) + b)),
    ("unwindow", "total", lambda: signal().window(2).unwindow(total)),
    ("aggregate", "added", lambda: signal().window(2).aggregate(added)),
    ("aggregate", "first", lambda: signal().window(2, hop=1).aggregate(_sums, result=first)),
    ("apply", "Energy.update", lambda: signal().window(2, hop=1).apply(Energy())),
    ("iterate", "Step.step", lambda: signal().iterate(Step())),
    ("filter", "Leaky.compute", lambda: signal().filter(Leaky())),
    ("function", "loud", lambda: signal() * hp.function(loud, unit="ns")),
    ("fill_with", "<lambda>", lambda: rows().signal("v").sample(5, fill=hp.fill_with(lambda t, y: loud(y)[:, 0], 2))),
]  # fmt: skip


def _sums(state: np.ndarray, samples: np.ndarray) -> np.ndarray:
    return state + samples.sum(axis=1, keepdims=True)


def _numbered() -> hp.Stream:
    table = pa.table({"t": np.arange(4), "n": np.arange(4), "v": [1.0, LOUD, 1.0, 1.0]})
    return hp.from_arrow(table, time="t", sequence="n")


def told(error: HydrophoneError, operator: str, code: str) -> None:
    """Operator, code, line and the original; on one line, so that nothing is lost on the way home from Spark."""
    assert type(error) is DataError
    assert re.match(
        rf"{operator}: (\w+: )?.*{re.escape(code.rpartition(': ')[2])}.* raised LookupError: no level", error.message
    ), error.message
    assert code.partition(": ")[0] in error.message and "\n" not in error.message
    assert re.fullmatch(r"test_user_errors\.py:\d+", error.where or ""), str(error)
    assert type(error.__cause__) is LookupError


@pytest.mark.parametrize(("operator", "code", "build"), LATE, ids=[f"{n}-{a}-{b}" for n, (a, b, _) in enumerate(LATE)])
def test_what_a_function_raises_as_the_query_runs(operator: str, code: str, build: Callable[[], Any]) -> None:
    query = build()
    with pytest.raises(HydrophoneError) as caught:
        query.to_arrow()
    told(caught.value, operator, code)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.args == (again.message,)


@pytest.mark.parametrize("part", ["create", "add", "merge", "result", "remove"])
def test_an_aggregate_that_raises_as_the_query_is_built(part: str) -> None:
    def fails(*_: Any) -> Any:
        raise LookupError("no level")

    with pytest.raises(DataError) as caught:
        rows().sliding(40, every=10).agg(n=own(**{part: fails}))
    told(caught.value, "sliding", f"aggregate: {part} (")


def test_an_aggregate_that_changes_its_mind() -> None:
    query = rows().tumble(20).agg(n=own(add=lambda s, v: s + v if (v < LOUD).all() else np.zeros(1)))
    with pytest.raises(
        DataError, match=r"^tumble: aggregate: add must give states of shape \(8,\), got float64 of shape \(1,\)"
    ) as caught:
        query.to_arrow()
    assert caught.value.where
    query = rows().tumble(20).agg(n=own(result=lambda s: s if (s < LOUD).all() else s[:1]))
    with pytest.raises(DataError, match=r"^tumble: aggregate: result must give one number per state"):
        query.to_arrow()


def test_an_operator_whose_output_size_raises() -> None:
    class Sized(hp.WindowOperator):
        def output_size(self, size: int) -> int:
            raise LookupError("no level")

    with pytest.raises(DataError) as caught:
        signal().window(2).apply(Sized())
    told(caught.value, "apply", "Sized.output_size")


def test_an_aggregate_that_tasks_merge_before_the_exchange() -> None:
    """Both levels: what a task makes of rows, and what a shard makes of the cells that came."""
    stage = stages(rows().tumble(40).agg(n=own(add=add)).node)[0]
    partial = partial_aggregates_of(stage, 0)
    assert isinstance(partial, PartialAggregates)
    table = pa.concat_tables([pa.table({"k": ["a"] * 8, "t": np.arange(8) * 10, "v": [1.0, LOUD] * 4})] * MIN_ROWS)
    with pytest.raises(DataError) as caught:
        partial.begun(1).add(table)
    told(caught.value, "tumble", "aggregate: add")
    stage = stages(rows().tumble(40).agg(n=own(merge=merge)).node)[0]
    pipeline = Pipeline([stage.root])
    node = next(n for n, s in pipeline.stations.items() if isinstance(s.kernel, PaneKernel))
    cells = pa.table([["a"] * 3, [0, 0, 0], [LOUD] * 3, [1] * 3], names=["0", "1", "2", "3"])
    with pytest.raises(DataError) as caught:
        for _ in range(100):
            merge_partials(pipeline, 0, cells)
        pipeline.snapshot()
    assert node.where == caught.value.where
    told(caught.value, "tumble", "aggregate: merge")


def test_a_late_row_names_its_source_and_line() -> None:
    table = pa.table({"t": [0, 50, 10], "v": [1.0, 2.0, 3.0]})
    late = hp.from_arrow(table, time="t", progress=hp.ordered())
    with pytest.raises(hp.LateEventError) as caught:
        list(hp.union(rows().key_by().select("v"), late.select("v")).batches(rows=2, late=hp.late.error()))
    name = late.node.data.identity  # type: ignore[attr-defined]
    assert caught.value.message.startswith(f"source {name}: 1 rows are late; the first starts at")
    assert re.fullmatch(r"test_user_errors\.py:\d+", caught.value.where or "")


def _three_axes() -> Any:
    table = pa.table({"t": np.arange(8) * 10, "x": np.arange(8.0), "y": np.ones(8), "z": np.ones(8)})
    return hp.from_arrow(table, time="t").signal("x", "y", "z").sample(10)


def _one_axis() -> Any:
    return _three_axes().channel(0)


NO_FUNCTION: dict[str, Callable[[Any], Any]] = {
    "where": lambda f: _one_axis().where(f),
    "map": lambda f: _one_axis().map(f),
    "combine": lambda f: _one_axis().combine(_one_axis(), f),
    "windows-map": lambda f: _one_axis().window(4).map(f),
    "windows-combine": lambda f: _one_axis().window(4).combine(_one_axis().window(4), f),
    "reduce": lambda f: _one_axis().window(4).reduce(f),
    "unwindow": lambda f: _one_axis().window(4).unwindow(f),
    "aggregate": lambda f: _one_axis().window(4).aggregate(f),
    "aggregate-result": lambda f: _one_axis().window(4).aggregate(np.add, result=f),
    "fill_with": lambda f: hp.fill_with(f),
}


@pytest.mark.parametrize("name", NO_FUNCTION)
@pytest.mark.parametrize("given", [hp.col("x") > 1, "median", np.ones(8, bool)], ids=["expression", "text", "array"])
def test_what_is_no_function_is_refused_when_the_query_is_built(name: str, given: Any) -> None:
    said = f"a function is expected here, got {type(given).__name__}"
    with pytest.raises(ParameterError, match=said) as error:
        NO_FUNCTION[name](given)
    assert "lambda v: v > 1" in str(error.value) and "at test_user_errors.py" in str(error.value)


def test_three_axes_are_compared_by_their_length() -> None:
    with pytest.raises(SignalTypeError, match=re.escape("take norm() first")):
        _three_axes().trigger(on=4, off=3)
    found = _three_axes().norm().trigger(on=4, off=3).to_arrow()
    assert found["samples"].to_pylist() == [4]  # from x = 4 on: the root of 18 is above 4, and that of 11 is not


@pytest.mark.parametrize("number", ["x", 1.5, True])
def test_channels_have_numbers(number: Any) -> None:
    with pytest.raises(ParameterError, match=f"channel: .* number, got {number!r}"):
        _three_axes().channel(number)
    with pytest.raises(ParameterError, match=f"channel: .* number, got {number!r}"):
        _three_axes().window(4).channel(number)
