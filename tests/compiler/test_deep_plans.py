"""Plans of thousands of operators: every walk over a plan is a loop, so that no plan is too deep."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import hydrophone as hp
from hydrophone.compiler.compile import PASSES, Host, compile_plan, stages
from hydrophone.compiler.reach import reach_of_sources

DEEP = 2_000
"""Operators: twice as many as Python calls may be deep."""


def readings() -> hp.Stream:
    rows = pa.table({"k": [1, 2, 1, 2], "t": [0, 10, 20, 30], "v": [1.0, 2.0, 3.0, 4.0]})
    return hp.from_arrow(rows, key="k", time="t")


def row_operators(count: int) -> Any:
    found: Any = readings()
    for n in range(count):
        found = (
            found.shift(1),
            found.with_columns(v=hp.col("v") + 1),
            found.where(hp.col("v") > n // 4),
            found.select("v"),
        )[n % 4]
    return found


def filters(count: int) -> Any:
    found: Any = readings().signal("v").sample(10)
    for n in range(count):
        found = (found + 1.0, found.shift(1), found.fir([1.0]), found.shift_time(10))[n % 4]
    return found


def windows(count: int) -> Any:
    found: Any = readings().signal("v").sample(10).window(1)
    for n in range(count):
        found = (found.multiply([1.0]), found.magnitude())[n % 2]
    return found


def two_of_each(count: int) -> Any:
    """Every operator reads the one before it twice: walks that do not know what they have seen would never end."""
    found: Any = readings().key_by()
    for _ in range(count):
        found = found.union(found)
    return found.tumble(100).agg(n=hp.max("v"))


CHAINS = {"rows": row_operators, "filters": filters, "windows": windows}


@cache
def deep(kind: str) -> Any:
    return CHAINS[kind](DEEP)


STAGES = ["logical", PASSES[-1].name, "lowered", "stages"]
"""The last pass comes after all others."""


@pytest.mark.parametrize(
    ("kind", "stage"), [*(("rows", stage) for stage in STAGES), ("filters", "lowered"), ("windows", "lowered")]
)
def test_deep_plans_are_explained(kind: str, stage: str) -> None:
    assert len(deep(kind).explain(stage).splitlines()) > DEEP


@pytest.mark.parametrize("kind", CHAINS)
def test_deep_plans_are_copied_and_sent(kind: str) -> None:
    query = deep(kind)
    for other in (copy.copy(query), copy.deepcopy(query), cloudpickle.loads(cloudpickle.dumps(query))):
        assert other.node == query.node and repr(other) == repr(query) and repr(other.node) == repr(query.node)
        assert len(other.node.topological()) == len(query.node.topological()) > DEEP


@pytest.mark.parametrize("kind", CHAINS)
def test_deep_plans_run_in_this_process(kind: str) -> None:
    query = deep(kind)
    assert query.to_arrow().num_rows == CHAINS[kind](4).to_arrow().num_rows == 4


def test_shared_inputs_are_walked_once() -> None:
    query = two_of_each(6)
    assert query.to_arrow()["n"].to_pylist() == [4.0]
    shared = two_of_each(1_000)
    assert (
        len(shared.explain("stages")) > 0
        and len(cloudpickle.loads(cloudpickle.dumps(shared)).node.topological()) == 1_003
    )


def rekeyed(count: int) -> Any:
    found: Any = readings()
    for n in range(count):
        found = found.sort().key_by(*(["k"] if n % 2 else []))
    return found


@pytest.mark.parametrize("host", Host)
def test_thousands_of_changes_of_key_are_cut(host: Host) -> None:
    cut = stages(rekeyed(2_000).node, host)
    assert [s.inputs[0].stage for s in cut] == [None, *range(2_000)]
    assert all(r.bounded for r in reach_of_sources(compile_plan(rekeyed(2_000).node, host)).values())


def test_thousands_of_changes_of_key_run() -> None:
    query = rekeyed(2_000)
    assert query.to_arrow().sort_by("t") == readings().to_arrow()
    assert query.explain().endswith("shards: 2001 exchanges")
