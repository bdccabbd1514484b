"""Identity: one for every operator and source, the same in every process, and never shared by two that do different things."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tests.cases import ALL_CASES
from tests.laws.test_plans import plan_of

import hydrophone as hp
from hydrophone.api import UniformSignal
from hydrophone.compiler.compile import lower, stages
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import ParameterError, PlanError, StateVersionError
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.ops.filters.difference import Difference as Ours
from hydrophone.ops.filters.difference import float_difference
from hydrophone.plan.function_identity import identity, is_ours
from hydrophone.plan.node import Node, Order, build, canonical

GOLDEN = Path(__file__).with_name("digests.txt")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class _Zeros(Stateless):
    def map(self, batch: Any) -> Any:
        return batch.with_values(batch.values * 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference(Node):
    """A user's operator that has the name and the parameters of one of ours, and does something else."""

    lag: int = 1
    gives = Order.INDEX

    def output_type(self, x: Any) -> Any:
        return x

    def kernel(self, x: Any) -> Kernel:
        return _Zeros()


def rows(factor: float = 1.0) -> pa.Table:
    return pa.table({"t": [0, 10, 20, 30], "v": [factor * v for v in (1.0, 2.0, 4.0, 8.0)]})


def signal(table: pa.Table, name: str | None = None) -> UniformSignal:
    return hp.from_arrow(table, time="t", name=name).signal("v").sample(10)


def values(query: Any) -> list[float]:
    return query.to_arrow().columns[-1].to_pylist()


def test_a_users_operator_is_not_ours_of_the_same_name() -> None:
    x = signal(rows())
    ours, users = x.difference(), UniformSignal(build(Difference(inputs=(x.node,))))
    assert ours.node.digest != users.node.digest
    assert values(ours + users) == [1.0, 2.0, 4.0]
    assert values(users + ours) == [1.0, 2.0, 4.0]


def made(gain: float) -> type[Node]:
    """Classes of one name and module."""

    @dataclass(frozen=True, kw_only=True, eq=False)
    class Gain(Node):
        gives = Order.INDEX

        def output_type(self, x: Any) -> Any:
            return x

        def kernel(self, x: Any) -> Kernel:
            class Times(Stateless):
                def map(self, batch: Any) -> Any:
                    return batch.with_values(batch.values * gain)

            return Times()

    return Gain


def test_classes_of_one_name_differ_by_their_code_and_what_it_closes_over() -> None:
    x = signal(rows())
    twice, thrice, again = (UniformSignal(build(made(g)(inputs=(x.node,)))) for g in (2.0, 3.0, 2.0))
    assert twice.node.digest == again.node.digest != thrice.node.digest
    assert values(twice + thrice) == [5.0, 10.0, 20.0, 40.0]
    assert values(twice + again) == [4.0, 8.0, 16.0, 32.0]


def test_a_class_that_a_task_makes_again_is_the_same() -> None:
    here = build(made(2.0)(inputs=(signal(rows(), "x").node,)))
    program = "import sys; from pyspark import cloudpickle; print(cloudpickle.load(sys.stdin.buffer).digest)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    fresh = replace(here)  # without the digest that it has already computed
    there = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        input=cloudpickle.dumps(fresh),
        capture_output=True,
        check=True,
    )
    assert there.stdout.decode().strip() == here.digest


def test_unlike_classes_of_one_identity_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a second operator of ours with a name that is taken would do."""
    monkeypatch.setattr(Difference, "__module__", "hydrophone.ops.another")
    monkeypatch.setattr(Difference, "stable_name", Ours.stable_name)
    x = signal(rows())
    users = UniformSignal(build(Difference(inputs=(x.node,))))
    assert users.node.digest == x.difference().node.digest
    with pytest.raises(
        PlanError, match=r"one identity: .*difference\.Difference and hydrophone.ops.another.Difference"
    ):
        (x.difference() + users).to_arrow()


def concrete(kind: type[Node] = Node) -> Iterator[type[Node]]:
    for one in kind.__subclasses__():
        yield one
        yield from concrete(one)


def test_every_operator_of_ours_declares_a_name_of_its_own() -> None:
    ours = {k for k in concrete() if is_ours(k)}
    assert [k for k in ours if "stable_name" not in vars(k)] == []
    assert [n for n, count in Counter(k.stable_name for k in ours).items() if count > 1] == []


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions that a parameter holds."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, partial):
        yield from functions_in((value.func, value.args, tuple(value.keywords.values())))
    elif isinstance(value, tuple):
        for one in value:
            yield from functions_in(one)
    elif is_dataclass(value):
        yield from functions_in(tuple(getattr(value, f.name) for f in fields(value)))


def test_a_function_of_ours_in_a_plan_has_a_name_of_its_own() -> None:
    """It is known by that name alone, whatever its module and code."""
    used = {
        f
        for case in ALL_CASES
        for node in plan_of(case).topological()
        for _, value in node.identifying()
        for f in functions_in(value)
        if is_ours(f) and "<" not in f.__qualname__
    }
    assert used
    modules = [
        importlib.import_module(m.name)
        for m in pkgutil.walk_packages(hp.__path__, "hydrophone.")
        if not m.name.startswith(("hydrophone.apps", "hydrophone.bench")) and "__main__" not in m.name
    ]
    homes = Counter(n for m in modules for n, f in vars(m).items() if getattr(f, "__module__", None) == m.__name__)
    assert [f.__qualname__ for f in used if homes[f.__qualname__] != 1] == []


def test_the_code_of_a_function_of_ours_is_no_part_of_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(a: Any, b: Any) -> Any:
        return a - b

    before, users = identity(float_difference), identity(apart)
    monkeypatch.setattr(float_difference, "__code__", (lambda a, b, out=None: None).__code__)
    monkeypatch.setattr(apart, "__code__", (lambda a, b: None).__code__)
    assert identity(float_difference) == before == "hydrophone.float_difference"
    assert identity(apart) != users


def test_a_new_version_of_an_operator_is_another_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    x = signal(rows())
    before = x.difference().node.digest
    monkeypatch.setattr(Ours, "version", 2)
    assert x.difference().node.digest != before


# --- sources ----------------------------------------------------------------------------------------------------------


def lowered(query: Any) -> str:
    return lower([query.node]).roots[0].digest


def test_sources_of_equal_layout_that_are_lowered_apart_differ() -> None:
    a, b = signal(rows()), signal(rows(2.0))
    assert lowered(a) != lowered(b)
    assert values(a + b) == [3.0, 6.0, 12.0, 24.0]


def test_a_port_is_known_by_its_source_and_not_by_its_place(tmp_path: Path) -> None:
    a, b = signal(rows()), signal(rows(2.0))
    alone = {n.digest for n in lower([b.node]).roots[0].topological()}
    second = {n.digest for n in lower([(a + b).node]).roots[0].topological()}
    assert alone <= second


def test_stages_are_known_by_what_feeds_them() -> None:
    def counted(table: pa.Table) -> str:
        query = hp.from_arrow(table, key="k", time="t").tumble(10).agg(n=hp.count()).key_by("n").tumble(20)
        return stages(query.agg(m=hp.count()).node)[-1].root.digest

    table = pa.table({"k": [1, 2], "t": [0, 1]})
    assert counted(table) != counted(pa.table({"k": [1, 3], "t": [0, 1]}))


def test_a_name_is_the_identity_of_a_source(tmp_path: Path) -> None:
    assert lowered(signal(rows(), "a")) == lowered(signal(rows(2.0), "a")) != lowered(signal(rows(), "b"))
    for folder in ("one", "two"):
        hp.from_arrow(rows(), time="t").to_parquet(str(tmp_path / folder))
    one, two = (hp.read.parquet(tmp_path / f, time="t") for f in ("one", "two"))
    assert lowered(one) != lowered(two)
    named = [hp.read.parquet(tmp_path / f, time="t", name="readings") for f in ("one", "two")]
    assert lowered(named[0]) == lowered(named[1])


def test_files_are_known_by_their_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hp.from_arrow(rows(), time="t").to_parquet(str(tmp_path / "lake"))
    monkeypatch.chdir(tmp_path)
    assert lowered(hp.read.parquet("lake", time="t")) == lowered(hp.read.parquet(tmp_path / "lake", time="t"))


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_a_name_says_something(name: Any) -> None:
    with pytest.raises(ParameterError, match="name must be a text"):
        signal(rows(), name)


def test_two_sources_of_one_name_in_a_plan_are_refused() -> None:
    query = signal(rows(), "pump") + signal(rows(2.0), "pump")
    with pytest.raises(PlanError, match=r"two sources are named 'pump': arrow-\d+ and arrow-\d+"):
        query.to_arrow()


def test_state_of_another_source_is_refused() -> None:
    a, b = (Pipeline(lower([signal(rows(f)).ema(0.5).node]).roots) for f in (1.0, 2.0))
    state = {path: block for path, block in a.snapshot().items() if block is not None}
    with pytest.raises(StateVersionError, match="another query"):
        b.restore(state)


# --- the golden file --------------------------------------------------------------------------------------------------


def holds_code(plan: Node) -> bool:
    """Whether users' functions take part in the identity: their byte code is another one in every release of Python."""
    return any("#" in canonical(v) or _is_users(v) for n in plan.topological() for _, v in n.identifying())


def _is_users(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_users(v) for v in value)
    return isinstance(value, hp.WindowOperator | hp.DigitalFilter | hp.StatefulOperator)


def digests() -> dict[str, tuple[str, str]]:
    """The identity of every case, and for which release of Python it holds."""
    plans = {c.name: plan_of(c) for c in ALL_CASES}
    return {name: (p.digest, PYTHON if holds_code(p) else "any") for name, p in sorted(plans.items())}


def test_identities_are_those_of_before() -> None:
    """A change here makes checkpoints useless. Where that is wanted: python -m tests.plan.test_identity, and a line in CHANGELOG.md."""
    lines = [line.split("\t") for line in GOLDEN.read_text().splitlines()]
    found = digests()
    kept = {name: digest for name, digest, python in lines if python in ("any", PYTHON)}
    assert len(kept) > 500
    assert {name: found[name][0] for name in kept if name in found} == {n: d for n, d in kept.items() if n in found}
    assert set(kept) <= set(found), "cases of the golden file are gone: write it again"
    assert set(found) <= {name for name, _, _ in lines}, "new cases: write the golden file again"


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{name}\t{digest}\t{python}\n" for name, (digest, python) in digests().items()))
