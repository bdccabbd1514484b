"""Plans are values: equal in every process, different for any other parameter, and shared where they are equal."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from tests.cases import ALL_CASES, Case
from tests.cases.data import beats
from tests.choice import for_a_law

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.ops.aggregates.aggregates import Aggregate
from hydrophone.ops.aggregates.flush import Flush
from hydrophone.ops.relational.lookup import Reference
from hydrophone.ops.signals.functions import TimeScale
from hydrophone.ops.signals.sample import Fill
from hydrophone.plan.node import Node
from hydrophone.plan.source import Layout


def plan_of(case: Case) -> Node:
    """The plan as it runs, over named sources: its identity does not depend on where the rows come from."""
    return lower([case.build({n: s.stream(name=n) for n, s in case.inputs.items()}).node]).roots[0]


def fresh(node: Node) -> Node:
    """The same plan with nothing remembered."""
    return dataclasses.replace(node, inputs=tuple(fresh(i) for i in node.inputs))


def test_identity_is_equal_in_every_process() -> None:
    program = "from tests.laws.test_plans import *; print('\\n'.join(plan_of(c).digest for c in ALL_CASES))"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.split() == [plan_of(c).digest for c in ALL_CASES]


@for_a_law(ALL_CASES)
def test_identity_survives_pickling(case: Case) -> None:
    plan = plan_of(case)
    copy = fresh(pickle.loads(pickle.dumps(plan)))
    assert copy == plan
    assert copy.digest == plan.digest
    assert copy.type == plan.type


def another(value: Any) -> Any:
    """A value of the same kind that is not equal; NotImplemented where we know none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value + 1 if math.isfinite(value) else 0.25
    if isinstance(value, int | complex | Fraction):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, Enum):
        return next(v for v in type(value) if v is not value)
    if isinstance(value, Fill):
        return dataclasses.replace(value, max_gap=7 if value.max_gap is None else None)
    if isinstance(value, Aggregate):
        return dataclasses.replace(value, column=value.column + "x")
    for kind in (hp.WindowOperator, hp.DigitalFilter, hp.StatefulOperator):
        if isinstance(value, kind):
            return kind()
    if isinstance(value, Reference):
        return Reference(value.table.append_column("another", pa.nulls(len(value.table))))
    if isinstance(value, Flush):
        return dataclasses.replace(value, late=value.late + 1)
    if isinstance(value, TimeScale):
        return dataclasses.replace(value, origin=value.origin + 1)
    if isinstance(value, hp.Timebase):
        return dataclasses.replace(value, origin=value.origin + 1)
    if isinstance(value, Layout):
        return dataclasses.replace(value, time=value.time + "x")
    if isinstance(value, nw.Expr):
        return value & hp.col("another")
    if value is None:
        return 3
    if isinstance(value, tuple) and value:
        changed = another(value[-1])
        return NotImplemented if changed is NotImplemented else (*value[:-1], changed)
    return (lambda x: x) if callable(value) else NotImplemented


def test_identity_is_all_parameters() -> None:
    seen = set()
    for node in {n for c in ALL_CASES for n in plan_of(c).topological()}:
        for f in node.parameters():
            changed = another(getattr(node, f.name))
            if changed is not NotImplemented:
                seen.add((type(node), f.name))
                assert dataclasses.replace(node, **{f.name: changed}).digest != node.digest, (
                    f"{type(node).__name__}.{f.name}"
                )
    known = {(type(n), f.name) for c in ALL_CASES for n in plan_of(c).topological() for f in n.parameters()}
    assert {(c.__name__, n) for c, n in known - seen} <= {("KeyBy", "columns"), ("Select", "columns")}


def test_different_cases_are_different_plans() -> None:
    digests: dict[str, str] = {}
    for case in ALL_CASES:
        root = case.plan
        assert digests.setdefault(root.digest, case.name) == case.name, "sources are different data"


def gain(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda windows: windows * factor


def test_a_function_is_its_code_and_what_it_closes_over() -> None:
    windows = beats(1).stream().signal("v").sample(10).window(4)
    assert windows.map(gain(2.0)).node == windows.map(gain(2.0)).node
    assert windows.map(gain(2.0)).node != windows.map(gain(3.0)).node


def test_common_parts_run_once() -> None:
    source = beats(1).stream()

    def smooth() -> Any:
        return source.signal("v").sample(10).fir([0.5, 0.5])

    roots = [smooth().node, (smooth() * 2.0).node, (smooth() + smooth()).node]
    plan = lower(roots)
    names = [type(n).__name__ for n in Pipeline(plan.roots).stations if n.inputs]
    assert sorted(names) == sorted(["Place", "ToSignal", "Sample", "Fir", "Scalar", "Combine"])
    assert len(plan.sources) == 1
