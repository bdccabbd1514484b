"""Stations: roots come and go between turns, plans may be deep, errors stay where they happen, and parts of a snapshot can be put back."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES, rows
from tests.golden import states
from tests.laws.harness import merged

import hydrophone as hp
from hydrophone.compiler.compile import Lowered, lower
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.stations import Station
from hydrophone.errors import DataError, ParameterError, PlanError, StateVersionError
from hydrophone.model.batch import Batch, Progress
from hydrophone.model.kernel import Kernel, Marks, Stateless
from hydrophone.model.marks import Mark
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.node import Node

TURNS, ROWS = 8, 20
LOUD = 7.0


@cache
def readings(shift: int = 0, name: str = "readings") -> hp.Stream:
    n = TURNS * ROWS
    table = pa.table({"k": ["a", "b"] * (n // 2), "t": np.arange(n) * 10, "v": np.arange(n) % 13 + shift - 0.5})
    return hp.from_arrow(table, key="k", time="t", progress=hp.ordered(), name=name)


def queries() -> list[Any]:
    """Plans that share a filter, samples, or nothing but their source; one has another scope too."""
    shared = readings().where(hp.col("v") > 1)
    signal = shared.signal("v").sample(20)
    return [
        signal.fir([0.5, 0.25]),
        signal.fir([0.5, 0.25]).window(4).map(np.negative),
        shared.tumble(100).agg(n=hp.count(), v=hp.sum("v")),
        shared.with_columns(z=hp.col("v") > 4).key_by("z").tumble(70).agg(n=hp.count()),
        readings().tumble(50).agg(v=hp.max("v")),
        shared.join(readings(1, "others").where(hp.col("v") < 9).alter(30)),
    ]


def turns(plan: Lowered) -> Iterator[tuple[list[pa.Table], list[Progress]]]:
    """The rows of every port in slices, and marks behind them."""
    for turn in range(TURNS):
        tables = [s.data.table.slice(turn * ROWS, ROWS) for s in plan.sources]  # type: ignore[attr-defined]
        mark = MAX_TIME if turn == TURNS - 1 else (turn + 1) * ROWS * 10
        yield tables, [Progress(mark)] * len(tables)


def take(pipeline: Pipeline, tables: Sequence[pa.Table], marks: Sequence[Progress]) -> None:
    for port, table in enumerate(tables):
        pipeline.rows(port, table)
    pipeline.advance(marks)


def drained(pipeline: Pipeline, root: Node) -> list[Any]:
    batches = pipeline.drain(root)
    return [row for b in batches for row in rows(emit.result_table(b, root.type, pipeline.keys(root)))]


def answers(plan: Lowered, root: Node, first: int = 0, last: int = TURNS) -> list[Any]:
    """What a pipeline gives that has this root alone, and runs from one turn to another."""
    pipeline = Pipeline([root])
    for number, (tables, marks) in enumerate(turns(plan)):
        if first <= number < last:
            take(pipeline, tables, marks)
    return drained(pipeline, root)


# --- roots come and go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [range(6), range(5, -1, -1), [2, 0, 3, 5, 1, 4]], ids=str)
def test_roots_added_one_by_one_before_the_first_turn(order: Sequence[int]) -> None:
    plan = lower([q.node for q in queries()])
    at_once, one_by_one = Pipeline(plan.roots), Pipeline([])
    for number in order:
        one_by_one.add([plan.roots[number]])
    assert set(at_once.nodes) == set(one_by_one.nodes)
    for node in one_by_one.nodes:
        before = one_by_one.nodes[: one_by_one.nodes.index(node)]
        assert all(i in before for i in node.inputs), "an input after what reads it"
    for tables, marks in turns(plan):
        take(at_once, tables, marks)
        take(one_by_one, tables, marks)
        at_once.sweep()
        one_by_one.sweep()
    for root in plan.roots:
        assert drained(one_by_one, root) == drained(at_once, root) == answers(plan, root)


@pytest.mark.parametrize("which", range(6))
def test_a_root_that_goes_and_comes_again_begins_anew_and_changes_no_other(which: int) -> None:
    plan = lower([q.node for q in queries()])
    root = plan.roots[which]
    pipeline = Pipeline(plan.roots)
    for number, (tables, marks) in enumerate(turns(plan)):
        if number == 3:
            pipeline.drop([root])
            assert root not in pipeline.roots
        if number == 5:
            pipeline.add([root])
        take(pipeline, tables, marks)
        pipeline.sweep()
    for other in plan.roots:
        if other != root:
            assert drained(pipeline, other) == answers(plan, other)
    alone = [n for n in root.topological() if not any(n in r.topological() for r in plan.roots if r != root)]
    if all(n in alone for n in root.topological() if n.inputs):  # nothing that it shares was there before
        assert drained(pipeline, root) == answers(plan, root, 5)


def test_equal_operators_are_shared_and_keep_their_state() -> None:
    plan = lower([q.node for q in queries()])
    fir, windows = plan.roots[:2]
    pipeline = Pipeline([fir])
    stations = dict(pipeline.stations)
    made = list(turns(plan))
    take(pipeline, *made[0])
    pipeline.add([windows])
    assert all(pipeline.stations[n] is s for n, s in stations.items())
    assert pipeline.stations[fir].roots == {fir, windows}
    pipeline.add([fir])
    assert pipeline.roots == (fir, windows)
    for turn in made[1:]:
        take(pipeline, *turn)
    assert drained(pipeline, fir) == answers(plan, fir)


def test_what_no_root_needs_goes_and_then_its_keys() -> None:
    plan = lower([q.node for q in queries()])
    other_key, tumble = plan.roots[3], plan.roots[2]
    pipeline = Pipeline([tumble, other_key])
    assert len(pipeline.scopes) == 2
    pipeline.drop([other_key])
    assert set(pipeline.nodes) == set(tumble.topological()) and len(pipeline.scopes) == 1
    assert all(c.node in pipeline.stations for s in pipeline.stations.values() for c, _ in s.consumers)
    pipeline.drop([tumble])
    assert not pipeline.nodes and not pipeline.scopes and not pipeline.ports
    with pytest.raises(ParameterError, match="no such root"):
        pipeline.drop([tumble])
    pipeline.rows(0, next(turns(plan))[0][0])  # nobody reads this port any more


def test_a_root_below_another_stays_as_an_operator() -> None:
    plan = lower([q.node for q in queries()[:2]])
    pipeline = Pipeline(plan.roots)
    pipeline.drop([plan.roots[0]])
    with pytest.raises(ParameterError, match="no such root"):
        pipeline.drain(plan.roots[0])
    for turn in turns(plan):
        take(pipeline, *turn)
    assert drained(pipeline, plan.roots[1]) == answers(plan, plan.roots[1])


def test_two_sources_cannot_have_one_number() -> None:
    one, other = (lower([readings(name=n).tumble(50).agg(n=hp.count()).node]) for n in ("one", "other"))
    pipeline = Pipeline(one.roots)
    with pytest.raises(PlanError, match="port 0 reads another source"):
        pipeline.add(other.roots)


# --- deep plans -----------------------------------------------------------------------------------------------------------


class PassKernel(Stateless):
    def map(self, batch: Batch) -> Batch:
        return batch


class GenerousKernel(Kernel):
    """Gives every batch in two pieces, lazily, and says when."""

    keyed = True

    def __init__(self, said: list[str], name: str) -> None:
        self.said, self.name = said, name

    def step(self, port: int, batch: Batch) -> Iterator[Batch]:
        self.said.append(f"{self.name} takes {len(batch)}")
        half = len(batch) // 2
        for part in (batch.select(np.arange(half)), batch.select(np.arange(half, len(batch)))):
            self.said.append(f"{self.name} gives {len(part)}")
            yield part

    def advance(self, marks: Marks) -> tuple[tuple[Batch, ...], Mark]:
        self.said.append(f"{self.name} at {marks[0]}")
        return (), marks[0]


SAID: list[str] = []


@dataclass(frozen=True, kw_only=True, eq=False)
class Pass(Node):
    stable_name = "pass"
    rowwise = True
    gives = None

    def output_type(self, x: Any) -> Any:
        return x

    def kernel(self, x: Any) -> Kernel:
        return PassKernel()


@dataclass(frozen=True, kw_only=True, eq=False)
class Generous(Pass):
    stable_name = "generous"
    label: str

    def kernel(self, x: Any) -> Kernel:
        return GenerousKernel(SAID, self.label)


def chain(node: Node, depth: int) -> Node:
    """Made without looking at digests or types, as nodes come from a rewrite."""
    for _ in range(depth):
        node = Pass(inputs=(node,))
    return node


@pytest.mark.parametrize("depth", [1_000, 5_000])
def test_deep_plans_run(depth: int) -> None:
    plan = lower([chain(readings().node, depth)])
    root = plan.roots[0]
    pipeline = Pipeline(plan.roots)
    for turn in turns(plan):
        take(pipeline, *turn)
        pipeline.sweep()
    assert len(pipeline.nodes) == depth + 1
    assert drained(pipeline, root) == answers(lower([readings().node]), lower([readings().node]).roots[0])
    assert pipeline.progress(root).mark == MAX_TIME
    again = Pipeline(plan.roots)
    again.restore(merged({}, pipeline.snapshot()))


def test_deep_plans_of_the_language() -> None:
    depth = 1_000
    signal: Any = readings().signal("v").sample(20)
    for _ in range(depth):
        signal = signal + 1.0
    assert signal.to_arrow().num_rows == readings().signal("v").sample(20).to_arrow().num_rows
    stream: Any = readings()
    for number in range(depth):
        stream = stream.with_columns(z=hp.col("v") + number)
    counted = stream.where(hp.col("v") > 3).tumble(100).agg(n=hp.count())
    assert counted.to_arrow() == readings().where(hp.col("v") > 3).tumble(100).agg(n=hp.count()).to_arrow()
    assert len(counted.explain("stages").splitlines()) > depth


@pytest.mark.parametrize("ask", ["digest", "type", "reaches", "order", "paired", "pickle", "repr", "reach", "hash"])
def test_deep_plans_are_known(ask: str) -> None:
    root = chain(readings().node, 5_000)
    if ask == "pickle":
        copy = pickle.loads(pickle.dumps(root))
        assert copy == root and copy.type == root.type and len(copy.topological()) == 5_001
    elif ask == "repr":
        assert repr(root)
    elif ask == "reach":
        assert len(reach_of_sources(root)) == 1
    elif ask == "hash":
        assert hash(root) == hash(chain(readings().node, 5_000))
    else:
        getattr(root, ask)


def test_pickled_plans_keep_what_they_share() -> None:
    below = chain(readings().node, 2)
    root = lower([Pass(inputs=(below,))]).roots[0]
    twice = readings().union(readings().where(hp.col("v") > 3), readings()).node
    for plan in (root, twice):
        copy = pickle.loads(pickle.dumps(plan))
        assert copy.digest == plan.digest and copy.where == plan.where
        assert [n.digest for n in copy.topological()] == [n.digest for n in plan.topological()]
        assert len({id(n) for n in copy.topological()}) == len({id(n) for n in plan.topological()})


def test_delivery_is_depth_first_and_asks_for_batches_one_by_one() -> None:
    SAID.clear()
    first = Generous(inputs=(readings().node,), label="first")
    left, right = (Generous(inputs=(first,), label=label) for label in ("left", "right"))
    plan = lower([left, right])
    pipeline = Pipeline(plan.roots)
    pipeline.rows(0, plan.sources[0].data.table.slice(0, 4))  # type: ignore[attr-defined]
    half = ["left takes 2", "left gives 1", "left gives 1", "right takes 2", "right gives 1", "right gives 1"]
    assert ["first takes 4", "first gives 2", *half, "first gives 2", *half] == SAID


# --- marks ----------------------------------------------------------------------------------------------------------------


def test_marks_are_one_value_that_nobody_changes() -> None:
    marks = Marks((3, np.array([5, 4])), ((3, 1), None), 9)
    assert (
        marks[0] == 3 and len(marks) == 2 and next(iter(marks)) == 3 and marks.ends == 9 and marks.joints[0] == (3, 1)
    )
    with pytest.raises(AttributeError):
        marks.ends = 4  # type: ignore[misc]


def test_kernels_keep_nothing_that_the_pipeline_told_them() -> None:
    stream = readings().alter(30)
    plan = lower([stream.band_join(readings(1, "others"), before=20, after=20).node])
    pipeline = Pipeline(plan.roots)
    names = {s.node: set(vars(s.kernel)) for s in pipeline.stations.values() if s.kernel}
    for turn in turns(plan):
        take(pipeline, *turn)
    assert all(set(vars(pipeline.stations[n].kernel)) == before for n, before in names.items())


@pytest.mark.parametrize("case", ALL_CASES[:: max(1, len(ALL_CASES) // 60)], ids=lambda c: c.name)
def test_states_do_not_change_while_a_query_runs(case: Any) -> None:
    pipeline, _ = states.half_way(case, "plain")
    for station in pipeline.stations.values():
        found = {} if station.kernel is None else station.kernel.states()
        assert {name: id(s) for name, s in found.items()} == {name: id(s) for name, s in station.states.items()}


# --- isolation ------------------------------------------------------------------------------------------------------------


def loud(x: Any) -> Any:
    if (np.asarray(x) >= LOUD).any():
        raise LookupError("too loud")
    return x


def failing() -> dict[str, Any]:
    """Queries over one filter: two are well, one raises when rows come, one when a mark does."""
    shared = readings().where(hp.col("v") > 1)
    signal = shared.signal("v").sample(20)
    own = hp.aggregate("v", create=np.zeros, add=np.add, merge=np.maximum, result=loud)
    return {
        "before": shared.tumble(100).agg(n=hp.count()),
        "step": signal.map(loud).fir([1.0, 0.5]),
        "advance": shared.tumble(40).agg(n=own),
        "after": signal.fir([0.5, 0.25]),
    }


@pytest.mark.parametrize("bad", [{"step"}, {"advance"}, {"step", "advance"}], ids=lambda b: "+".join(sorted(b)))
@pytest.mark.parametrize("first", [True, False])
def test_an_error_fails_the_roots_above_it_and_no_other(bad: set[str], first: bool) -> None:
    names = sorted(failing(), key=lambda n: (n in bad) != first)
    names = [n for n in names if n in bad or n in ("before", "after")]
    plan = lower([failing()[n].node for n in names])
    roots = dict(zip(names, plan.roots, strict=True))
    pipeline = Pipeline(plan.roots)
    for turn in turns(plan):
        take(pipeline, *turn)
        pipeline.sweep()
    assert set(pipeline.failed) == {roots[n] for n in bad}
    for name in bad:
        error = pipeline.failed[roots[name]]
        assert (
            isinstance(error, DataError) and isinstance(error.__cause__, LookupError) and "test_stations" in str(error)
        )
        alone = Pipeline([roots[name]])
        with pytest.raises(DataError) as raised:
            for turn in turns(plan):
                take(alone, *turn)
        assert str(raised.value) == str(error)
    for name in set(names) - bad:
        assert drained(pipeline, roots[name]) == answers(plan, roots[name])
    with pytest.raises(DataError):
        pipeline.check()
    dead = [s for s in pipeline.stations.values() if s.roots <= {roots[n] for n in bad}]
    assert dead and not any(s.live for s in dead)
    pipeline.drop([roots[n] for n in bad])
    assert not pipeline.failed and all(s.live for s in pipeline.stations.values())
    pipeline.check()


def test_a_failed_root_is_fed_no_more_and_its_siblings_are() -> None:
    plan = lower([failing()[n].node for n in ("step", "after")])
    pipeline, fed = Pipeline(plan.roots), []
    bad = next(s for s in pipeline.stations.values() if s.node.name() == "map")
    step = bad.step

    def counted(port: int, batch: Batch) -> Any:
        fed.append(len(batch))
        return step(port, batch)

    bad.step = counted
    for turn in turns(plan):
        take(pipeline, *turn)
        if pipeline.failed:
            fed.append(0)
    assert 0 in fed and not any(fed[fed.index(0) :])


def test_bad_rows_fail_the_roots_above_their_port() -> None:
    plan = lower(
        [readings().tumble(50).agg(n=hp.count()).node, readings(1, "others").tumble(50).agg(n=hp.count()).node]
    )
    pipeline = Pipeline(plan.roots)
    tables, marks = next(turns(plan))
    nulls = tables[0].set_column(1, "t", pa.array([None] * ROWS, pa.int64()))
    take(pipeline, [nulls, tables[1]], marks)
    assert set(pipeline.failed) == {plan.roots[0]}
    assert drained(pipeline, plan.roots[1])
    with pytest.raises(DataError):
        take(Pipeline(plan.roots[:1]), [nulls], marks)


# --- snapshots ------------------------------------------------------------------------------------------------------------


def half(plan: Lowered, roots: Sequence[Node]) -> tuple[Pipeline, dict[str, bytes]]:
    pipeline = Pipeline(roots)
    for turn in list(turns(plan))[: TURNS // 2]:
        take(pipeline, *turn)
    for root in roots:
        pipeline.drain(root)
    return pipeline, merged({}, pipeline.snapshot())


def rest(pipeline: Pipeline, plan: Lowered, root: Node) -> list[Any]:
    for turn in list(turns(plan))[TURNS // 2 :]:
        take(pipeline, *turn)
    return drained(pipeline, root)


@pytest.mark.parametrize("which", range(6))
def test_a_part_of_a_snapshot_goes_on(which: int) -> None:
    plan = lower([q.node for q in queries()])
    root = plan.roots[which]
    whole, state = half(plan, plan.roots)
    expected = rest(whole, plan, root)
    alone = Pipeline([root])
    with pytest.raises(StateVersionError, match="another query"):
        alone.restore(state)
    alone = Pipeline([root])
    alone.restore(state, forget=True)
    store = merged(state, alone.snapshot(changed=True))
    own = {s.digest for s in alone.stations.values()} | set(alone.scopes)
    assert {p.split("/")[1] if p.startswith("keys/") else p.split("/")[0] for p in store} <= own | {"marks"}
    assert rest(alone, plan, root) == expected
    again = Pipeline([root])
    again.restore(store)  # nothing of the others is left in it
    assert rest(again, plan, root) == expected


def test_roots_without_state_begin_beside_those_that_have_some() -> None:
    plan = lower([q.node for q in queries()])
    old, new = plan.roots[2], plan.roots[0]
    pipeline, state = half(plan, [old])
    expected = rest(pipeline, plan, old)
    both = Pipeline([old, new])
    with pytest.raises(StateVersionError, match="another query"):
        both.restore(state)
    both = Pipeline([old, new])
    both.restore(state, roots=[old])
    assert rest(both, plan, old) == expected
    assert drained(both, new) == answers(plan, new, TURNS // 2)


def test_scopes_go_by_their_columns_and_not_by_order() -> None:
    plan = lower([q.node for q in queries()])
    state = half(plan, plan.roots)[1]
    backwards = Pipeline(plan.roots[::-1])
    backwards.restore(state)
    for root in plan.roots:
        pipeline = Pipeline(plan.roots)
        pipeline.restore(state)
        assert rest(pipeline, plan, root) == rest(_restored(plan.roots[::-1], state), plan, root)


def _restored(roots: Sequence[Node], state: Mapping[str, bytes]) -> Pipeline:
    pipeline = Pipeline(roots)
    pipeline.restore(state)
    return pipeline


def test_blocks_of_dropped_roots_go_from_the_store() -> None:
    plan = lower([q.node for q in queries()])
    gone, kept = plan.roots[3], plan.roots[0]
    pipeline, store = half(plan, [gone, kept])
    pipeline.drop([gone])
    store = merged(store, pipeline.snapshot(changed=True))
    _restored([kept], store)
    pipeline.add([gone])
    for turn in list(turns(plan))[TURNS // 2 : -1]:
        take(pipeline, *turn)
    _restored([kept, gone], merged(store, pipeline.snapshot(changed=True)))


def test_state_of_format_1_is_refused() -> None:
    plan = lower([q.node for q in queries()[:1]])
    _, state = half(plan, plan.roots)
    old = state | {"marks": json.dumps(json.loads(state["marks"]) | {"format": 1}).encode()}
    with pytest.raises(StateVersionError, match=r"the state has format 1, this release reads format 2"):
        Pipeline(plan.roots).restore(old)


def test_a_station_says_the_line_of_its_input_where_it_has_none() -> None:
    plan = lower([readings().where(hp.col("v") > 1).node])
    pipeline = Pipeline([Pass(inputs=plan.roots)])
    station: Station = pipeline.stations[pipeline.roots[0]]
    error = DataError("no good", inside=True)
    station.locate(error)
    assert str(error).startswith("pass: no good\n  at ") and pipeline.progress(station.node).mark == MIN_TIME
