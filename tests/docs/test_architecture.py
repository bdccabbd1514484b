"""The code keeps the shape that the documents say it has."""

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest

import hydrophone
from hydrophone import api as handles
from hydrophone.connect.sink import Sink
from hydrophone.plan.data import Data
from hydrophone.plan.node import Node
from hydrophone.spark.dataframe_source import SparkData

SOURCE = Path(hydrophone.__file__).parent

# What the modules of a package may import from others; the rest stands on top of all and may import anything.
BELOW = {
    "errors": set(),
    "arguments": {"errors"},
    "version": set(),
    "model": {"errors", "arguments"},
    "plan": {"errors", "arguments", "model"},
    "ops": {"errors", "arguments", "model", "plan"},
    "compiler": {"errors", "model", "plan", "ops"},
    "connect": {"errors", "arguments", "model", "plan"},
    "engine": {"errors", "model", "plan", "ops", "compiler"},
    "spark": {"errors", "version", "model", "plan", "compiler", "engine", "connect"},
    "plot": {"errors", "model", "plan", "ops", "engine", "connect"},
    "api": {"errors", "arguments", "model", "plan", "ops", "compiler", "engine", "connect", "spark", "plot"},
}
ON_TOP = {"", "__main__", "apps", "bench", "cli"}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(code: str) -> set[str]:
    """Modules of the package that code imports: at once, in a function, or only for its types."""
    known, found = modules(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and ours(node.module or ""):
            inner = (node.module or "").removeprefix("hydrophone").lstrip(".")
            names = {f"{inner}.{a.name}".lstrip(".") for a in node.names}
            found |= {n if n in known else inner for n in names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("hydrophone").lstrip(".") for a in node.names if ours(a.name)}
    return found


def ours(module: str) -> bool:
    """Whether a module is in the package."""
    return module.split(".")[0] == "hydrophone"


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """The modules that import each other in a circle, and those that import one of them."""
    done: set[str] = set()
    while ready := {m for m in graph.keys() - done if graph[m] <= done}:
        done |= ready
    return graph.keys() - done


@pytest.mark.parametrize("module", modules())
def test_packages_import_only_downwards(module: str) -> None:
    package = module.split(".")[0]
    if package not in ON_TOP:
        others = {m.split(".")[0] for m in imports(modules()[module].read_text())} - {package}
        assert others <= BELOW[package]


INSERTED = {"Place", "Where"}
"""The operators that the compiler makes itself: to bring rows into order, and to choose a part of an answer."""
HELPERS = {"array_column", "column_values", "sample_columns"}
"""Functions that turn samples into columns and back, at the edges of the engine."""


@pytest.mark.parametrize("module", [m for m in modules() if m.split(".")[0] in ("compiler", "engine")])
def test_compiler_and_engine_know_few_operators(module: str) -> None:
    allowed = INSERTED if module.startswith("compiler") else HELPERS
    assert set(from_ops(ast.parse(modules()[module].read_text()))) <= allowed


def from_ops(tree: ast.Module) -> dict[str, ast.ImportFrom]:
    """The names that a module has from `hydrophone.ops`."""
    found = [
        n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("hydrophone.ops")
    ]
    return {a.asname or a.name: n for n in found for a in n.names}


def names_in(tree: ast.AST) -> set[str]:
    """All names and attributes in a piece of code, but for those of Arrow."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) != "pa"
    }


def asked_classes(tree: ast.AST) -> set[str]:
    """The names that code compares the class of something with: in `isinstance`, `issubclass`, ``type(x) is`` and match cases."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            found |= names_in(node.args[1])
        elif isinstance(node, ast.MatchClass):
            found |= names_in(node.cls)
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            found |= names_in(node)
    return found


@pytest.mark.parametrize("module", [m for m in modules() if m.split(".")[0] in ("plan", "compiler", "engine", "spark")])
def test_nobody_asks_for_the_class_of_an_operator(module: str) -> None:
    """What hosts and passes need to know of an operator is a trait (`plan/traits.py`)."""
    tree = ast.parse(modules()[module].read_text())
    operators = {kind.__name__ for kind in concrete_nodes()} | set(from_ops(tree))
    assert asked_classes(tree) & operators == set()


HOSTS = ("plan", "compiler", "engine", "spark", "api")


@pytest.mark.parametrize("module", [m for m in modules() if m.split(".")[0] in HOSTS])
def test_nobody_asks_for_the_class_of_a_source_or_sink(module: str) -> None:
    """What hosts need to know of them, they offer (`plan/data.py`, `connect/sink.py`)."""
    connectors = {kind.__name__ for kind in (Data, Sink, *below(Data), *below(Sink))}
    assert {
        "ParquetData",
        "CsvData",
        "ArrowData",
        SparkData.__name__,
        "Parquet",
        "Csv",
        "Table",
        "Memory",
    } <= connectors
    assert asked_classes(ast.parse(modules()[module].read_text())) & connectors == set()


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith(("spark.batch", "spark.streaming", "engine"))])
def test_hosts_import_no_connector(module: str) -> None:
    """A new source or sink changes none of them; late rows are kept in Parquet files."""
    protocols = {"connect.files", "connect.output_conflicts", "connect.sink"}
    allowed = protocols | ({"connect.parquet"} if module == "spark.streaming.sinks" else set())
    assert {m for m in imports(modules()[module].read_text()) if m.startswith("connect")} <= allowed


def below(kind: type) -> set[type]:
    """All classes of the package under one."""
    found = {k for k in kind.__subclasses__() if k.__module__.startswith("hydrophone.")}
    return found.union(*(below(k) for k in found))


def test_a_question_for_a_class_is_found() -> None:
    code = "isinstance(a, (B, c.D))\nmatch a:\n    case E(): pass\ntype(a) is F\nisinstance(a, pa.Table)"
    assert {"B", "D", "E", "F"} <= asked_classes(ast.parse(code))
    assert "Table" not in asked_classes(ast.parse(code))


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither when they are imported, nor in a function, nor for their types alone."""
    assert in_circles({m: imports(p.read_text()) - {m} for m, p in modules().items()}) == set()


def test_every_way_to_import_is_found() -> None:
    code = """
from hydrophone.plan.node import Node
from hydrophone import errors, Stream
import hydrophone.model.time
import hydrophoneless
if TYPE_CHECKING:
    from hydrophone.api.handles import Signal
def later():
    from hydrophone.spark import ship
"""
    found = {"plan.node", "errors", "", "model.time", "api.handles", "spark.ship"}
    assert imports(code) == found
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"a", "b", "c"}


def test_only_spark_knows_spark() -> None:
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts[0]
        if inside in ("spark", "bench", "apps", "cli"):
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
    "PartialTumble": None,
    "Blocks": "iterate",
    "LookupMany": "lookup",
}
"""Operators that are not written as a method of their own name: what the compiler puts in, and arithmetic."""


@pytest.mark.parametrize("kind", concrete_nodes(), ids=lambda k: k.__name__)
def test_every_operator_is_a_method_or_function(kind: type[Node]) -> None:
    name = METHOD_OF.get(kind.__name__, kind.name())
    found = (handles.Stream, handles.Signal, handles.UniformSignal, handles.Windowed, hydrophone)
    assert name is None or any(hasattr(h, name) for h in found)


def test_every_public_method_is_documented() -> None:
    for handle in (handles.Query, handles.Stream, handles.Signal, handles.UniformSignal, handles.Windowed):
        for name, member in inspect.getmembers(handle, inspect.isfunction):
            assert name.startswith("_") or inspect.getdoc(member), f"{handle.__name__}.{name}"
