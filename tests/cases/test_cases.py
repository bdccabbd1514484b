"""Every case in this process, and a case for every operator."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable

import pytest
from tests.cases import ALL_CASES, Case
from tests.golden import states

import hydrophone.ops
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.ops.aggregates.tumble import FinalTumble, PartialTumble
from hydrophone.plan.node import Node


def operators() -> set[type[Node]]:
    """All concrete operators: the node classes of the modules under hydrophone.ops."""
    found: set[type[Node]] = set()
    for module in pkgutil.walk_packages(hydrophone.ops.__path__, "hydrophone.ops."):
        names = vars(importlib.import_module(module.name)).values()
        found |= {
            c
            for c in names
            if inspect.isclass(c)
            and issubclass(c, Node)
            and c.__module__.startswith("hydrophone.ops")
            and c.kernel is not Node.kernel
        }
    # The two levels of a tumble are in plans by shards, where every case of Tumble runs them.
    return found - {PartialTumble, FinalTumble}


@pytest.mark.parametrize("node", sorted(operators(), key=lambda c: c.__name__), ids=lambda c: c.__name__)
def test_every_operator_has_a_case(node: type[Node]) -> None:
    assert any(c.node is node for c in ALL_CASES), f"add a case of {node.__name__} to tests/cases"


def test_names_are_unique() -> None:
    assert [n for n, count in Counter(c.name for c in ALL_CASES).items() if count > 1] == []


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda c: c.name)
def test_case(case: Case, golden: Callable[..., None]) -> None:
    query = case.build()
    plan = lower([query.node])
    assert any(isinstance(n, case.node) for r in [query.node, *plan.roots] for n in r.topological()), (
        "the case is of another operator"
    )
    answer = query.to_arrow()
    case.check(answer)
    golden("local", case, answer)
    assert not states.lacking(Pipeline(plan.roots)), "no golden state: python -m tests.golden.make states"
