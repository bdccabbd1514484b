"""The code keeps the shape that the documents say it has."""

import ast
import inspect
from pathlib import Path

import pytest

import hydrophone
from hydrophone import handles
from hydrophone.plan.node import Node

SOURCE = Path(hydrophone.__file__).parent

# What a layer may import from the package; a module that is not named belongs to no layer and is left alone.
LAYERS = {
    "errors": set(),
    "time": {"errors"},
    "timebase": {"errors", "time"},
    "runs": {"errors"},
    "columns": set(),
    "chain": set(),
    "sigseg": {"chain", "errors", "time", "timebase"},
    "expr": {"errors"},
    "pushdown": {"expr"},
    "batch": {"columns", "errors", "runs", "sigseg", "time", "timebase"},
    "hashing": set(),
    "key_rows": {"batch", "hashing"},
    "keys": {"batch", "columns", "errors", "hashing", "key_rows"},
    "state": {"batch"},
    "marks": {"batch", "time"},
    "kernel": {"batch", "keys", "marks", "state"},
    "progress": {"errors", "time"},
    "plan.types": {"errors", "time", "timebase"},
    "plan.function": {"errors"},
    "plan.reach": {"time", "timebase", "plan.node"},
    "plan.node": {"errors", "expr", "kernel", "plan.function", "plan.reach", "plan.types", "time", "timebase"},
    "plan.source": {"errors", "plan.node", "plan.types", "progress", "time", "timebase"},
}


def imports(path: Path) -> set[str]:
    """Modules of the package that a file names in its import statements."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hydrophone"):
            inner = node.module.removeprefix("hydrophone").lstrip(".")
            found |= {inner} if inner else {a.name for a in node.names}
    return found


@pytest.mark.parametrize("module", LAYERS)
def test_the_core_imports_only_downwards(module: str) -> None:
    path = SOURCE / (module.replace(".", "/") + ".py")
    assert imports(path) <= LAYERS[module]


def test_only_spark_knows_spark() -> None:
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts[0]
        if inside in ("spark", "bench", "demo.py", "cli.py"):
            continue
        tree = ast.parse(path.read_text())
        names = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        guarded = {
            n.module or ""
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for n in ast.walk(block)
            if isinstance(n, ast.ImportFrom)
        }
        assert not {n for n in names - guarded if n.startswith("pyspark")}, path


def test_operators_do_not_know_their_hosts() -> None:
    for path in (SOURCE / "ops").glob("*.py"):
        assert not {m for m in imports(path) if m.startswith(("engine", "spark", "handles", "io"))}, path


def concrete_nodes() -> list[type[Node]]:
    found, stack = [], [Node]
    while stack:
        for kind in stack.pop().__subclasses__():
            stack.append(kind)
            if kind.__module__.startswith("hydrophone.ops") and kind.kernel is not Node.kernel:
                found.append(kind)
    return found


METHOD_OF = {
    "Combine": "__add__",
    "Scalar": "__mul__",
    "Modulate": "__mul__",
    "Tumble": "tumble",
    "Place": None,
    "Blocks": "iterate",
    "LookupMany": "lookup",
}
"""Operators that are not written as a method of their own name: the planner's Place, and arithmetic."""


@pytest.mark.parametrize("kind", concrete_nodes(), ids=lambda k: k.__name__)
def test_every_operator_is_a_method(kind: type[Node]) -> None:
    name = METHOD_OF.get(kind.__name__, kind.name())
    found = (handles.Stream, handles.Signal, handles.UniformSignal, handles.Windowed)
    assert name is None or any(hasattr(h, name) for h in found)


def test_every_public_method_is_documented() -> None:
    for handle in (handles.Query, handles.Stream, handles.Signal, handles.UniformSignal, handles.Windowed):
        for name, member in inspect.getmembers(handle, inspect.isfunction):
            assert name.startswith("_") or inspect.getdoc(member), f"{handle.__name__}.{name}"
