"""Families: queries that differ in a number run as one kernel, and none can tell."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import rows

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine import emit
from hydrophone.engine.families import FamilyStation
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError
from hydrophone.model import family
from hydrophone.model.batch import Progress
from hydrophone.model.time import MAX_TIME
from hydrophone.plan.node import Node

LEVELS = [0.5, -1.0, 0.0, 2.0, 0.5000000001, float("inf"), -float("inf"), 1.0]
ROWS, TURN = 600, 75


def data(kind: str = "double") -> pa.Table:
    """Numbers that meet the levels exactly, and where the type has them NaN, null and both zeros."""
    rng = np.random.default_rng(4)
    v = rng.choice([-1.0, -0.5, 0.0, -0.0, 0.5, 1.0, 2.0, 3.0], ROWS)
    if kind.startswith("int"):
        column = pa.array((v * 2).astype(np.int64)).cast(kind)
    else:
        v[rng.random(ROWS) < 0.05] = np.nan
        column = pa.array(v).cast(kind)
    nulls = pa.array(rng.random(ROWS) < 0.05)
    column = pa.compute.if_else(nulls, pa.scalar(None, column.type), column)
    return pa.table({"k": rng.choice(["a", "b", "c"], ROWS), "t": np.arange(ROWS) * 10, "v": column})


@cache
def readings(kind: str) -> hp.Stream:
    return hp.from_arrow(data(kind), key="k", time="t", progress=hp.ordered(), name=f"readings of {kind}")


@cache
def signal() -> hp.UniformSignal:
    table = data()
    table = table.filter(table["v"].is_valid())
    return (
        hp.from_arrow(table, key="k", time="t", progress=hp.ordered(), name="s")
        .signal("v")
        .sample(30, fill=hp.hold(max_gap=70))
    )


def filters(kind: str = "double", numbers: Sequence[Any] = LEVELS) -> list[hp.Stream]:
    """Four families: one per comparison."""
    v = hp.col("v") * 2 if kind == "double" else hp.col("v")
    return [readings(kind).where(c) for n in numbers for c in (v > n, v >= n, v < n, v <= n)]


def detectors() -> list[hp.Stream]:
    return [signal().above(level, report=report) for level in LEVELS for report in (None, 100)]


def run(plan: Any, pipeline: Pipeline, first: int = 0, last: int = ROWS, end: bool = True) -> None:
    table = plan.sources[0].data.table
    for at in range(first, last, TURN):
        pipeline.rows(0, table.slice(at, TURN))
        pipeline.advance([Progress(MAX_TIME if end and at + TURN >= len(table) else (at + TURN) * 10)])
        pipeline.sweep()


def drained(pipeline: Pipeline, root: Node) -> list[Any]:
    found = pipeline.drain(root)
    return [row for b in found for row in rows(emit.result_table(b, root.type, pipeline.keys(root)))]


def alone(plan: Any, root: Node) -> list[Any]:
    pipeline = Pipeline([root])
    run(plan, pipeline)
    assert not families_of(pipeline)
    return drained(pipeline, root)


def families_of(pipeline: Pipeline) -> set[FamilyStation]:
    return {s.family for s in pipeline.stations.values() if s.family is not None}


def same(found: list[Any], wanted: list[Any]) -> None:
    """Row for row, in their order; NaN is NaN."""
    assert repr(found) == repr(wanted)


@pytest.mark.parametrize("few", [family.SHARE_BELOW_ROWS, 3])
@pytest.mark.parametrize(
    ("queries", "families"),
    [(filters, 4), (lambda: filters("float"), 4), (lambda: filters("int16", [-1, 0, 1, 3, 300]), 4), (detectors, 2)],
)
def test_each_member_gives_what_it_gives_alone(
    queries: Callable[[], list[hp.Stream]], families: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family, "SHARE_BELOW_ROWS", few)
    plan = lower([q.node for q in queries()])
    pipeline = Pipeline(plan.roots)
    assert len(families_of(pipeline)) == families
    run(plan, pipeline)
    answers = [drained(pipeline, root) for root in plan.roots]
    assert sum(map(len, answers)) > 500
    for root, found in zip(plan.roots, answers, strict=True):
        same(found, alone(plan, root))


@pytest.mark.parametrize("queries", [filters, detectors])
def test_members_come_and_go(queries: Callable[[], list[hp.Stream]]) -> None:
    """Members that run through give what they give alone, whoever joins and leaves their family, with open intervals or without."""
    plan = lower([q.node for q in queries()])
    through, passing = plan.roots[: len(plan.roots) // 2], plan.roots[len(plan.roots) // 2 :]
    pipeline = Pipeline(through)
    for number, at in enumerate(range(0, ROWS, TURN)):
        one = passing[number % len(passing)]
        pipeline.add([one])
        run(plan, pipeline, at, at + TURN)
        if number % 3:
            pipeline.drop([one])
    for root in through:
        same(drained(pipeline, root), alone(plan, root))


def test_state_is_each_members_own() -> None:
    """What is open is in the snapshot under the member's name, also in one of changes, and any of the members can be put back."""
    plan = lower([q.node for q in detectors()])
    half = ROWS // 2 // TURN * TURN
    pipeline, lone = Pipeline(plan.roots), [Pipeline([r]) for r in plan.roots]
    stored: dict[str, bytes] = {}
    for at in range(0, half, TURN):
        for one in (pipeline, *lone):
            run(plan, one, at, at + TURN)
        for path, block in pipeline.snapshot(changed=True).items():
            if block is None:
                stored.pop(path, None)
            else:
                stored[path] = block
        assert stored.keys() == pipeline.snapshot().keys()
    apart: dict[str, bytes | None] = {}
    for one in lone:
        apart |= one.snapshot()
    assert apart.keys() == stored.keys() and sum("/open/" in path for path in stored) > 5
    for path in stored:
        assert path == "marks" or stored[path] == apart[path], path

    for chosen in (plan.roots, plan.roots[2:7], plan.roots[3:4]):
        again = Pipeline(chosen)
        again.restore(stored, forget=True)
        run(plan, again, half, ROWS)
        for root in chosen:
            whole = Pipeline([root])
            run(plan, whole, 0, half)
            whole.drain(root)
            run(plan, whole, half, ROWS)
            same(drained(again, root), drained(whole, root))


def test_what_is_kept_is_shown_for_each_member() -> None:
    plan = lower([q.node for q in detectors()])
    pipeline = Pipeline(plan.roots)
    for at in range(0, ROWS, TURN):
        run(plan, pipeline, at, at + TURN)
        if at == 2 * TURN:
            together = [pipeline.stations[r].waiting for r in plan.roots]
    for root, waiting in zip(plan.roots, together, strict=True):
        one = Pipeline([root])
        run(plan, one, 0, 3 * TURN)
        assert one.stations[root].waiting == waiting
    assert sum(together) > 3 and pipeline.state_bytes > 0


def test_who_looks_at_a_member_from_another_thread_waits_for_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Graph.nodes` asks for the state of members while a region works: their open intervals must not get lost."""
    plan = lower([q.node for q in detectors()])
    pipeline = Pipeline(plan.roots)
    family = pipeline.stations[plan.roots[0]].family
    lookers, joined = list[threading.Thread](), family.kernel._joined

    def looked_at(pieces: Any) -> Any:
        lookers.append(threading.Thread(target=lambda: pipeline.stations[plan.roots[0]].nbytes))
        lookers[-1].start()
        lookers[-1].join(0.02)  # it ends later, unless nothing holds it up
        return joined(pieces)

    monkeypatch.setattr(family.kernel, "_joined", looked_at)
    run(plan, pipeline)
    for looker in lookers:
        looker.join()
    assert lookers
    for root in plan.roots:
        same(drained(pipeline, root), alone(plan, root))


def test_readers_of_members_run_behind_them() -> None:
    counts = [q.tumble(200).agg(n=hp.count()) for q in filters()[:8]]
    plan = lower([q.node for q in counts])
    pipeline = Pipeline(plan.roots)
    run(plan, pipeline)
    assert families_of(pipeline)
    for root in plan.roots:
        same(sorted(drained(pipeline, root)), sorted(alone(plan, root)))


def test_a_reader_that_fails_fails_its_own_query() -> None:
    """Also in the middle of a delivery, when the others must still get the batch."""

    def broken(x: np.ndarray) -> np.ndarray:
        if x.any():
            raise ZeroDivisionError("broken")
        return x

    ways: list[Any] = [*detectors()[:8:2], *filters()[:4]]
    failing = [
        readings("double").where(hp.col("v") * 2 > n).signal("v").sample(30, fill=hp.hold()).window(2).map(broken)
        for n in (0.25, 0.75)
    ]
    healthy = [readings("double").where(hp.col("v") * 2 > n) for n in (0.1, 0.3, 0.8, 0.9)]
    order: list[Any] = [healthy[0], failing[0], healthy[1], *ways, failing[1], *healthy[2:]]
    plan = lower([q.node for q in order])
    pipeline = Pipeline(plan.roots)
    table = plan.sources[0].data.table  # type: ignore[attr-defined]
    bad = {root for root, q in zip(plan.roots, order, strict=True) if any(q is f for f in failing)}
    for at in range(0, ROWS, TURN):
        pipeline.rows(0, table.slice(at, TURN))
        pipeline.advance([Progress(MAX_TIME)] * len(plan.sources))
    assert pipeline.failed.keys() == bad
    for root in plan.roots:
        if root not in bad and root.topological()[0] == plan.roots[0].topological()[0]:
            same(drained(pipeline, root), alone(plan, root))


def test_an_error_is_that_of_each_query_alone() -> None:
    """Conditions whose value cannot be computed."""
    text = pa.table({"t": [1, 2], "v": ["1.5", "no number"]})
    source = hp.from_arrow(text, time="t", progress=hp.ordered())
    queries = [source.where(hp.col("v").cast(pa_float()) > n) for n in (1.0, 2.0)]
    plan = lower([q.node for q in queries])
    pipeline = Pipeline(plan.roots, isolated=True)
    assert len(families_of(pipeline)) == 1
    pipeline.rows(0, text)
    for root, query in zip(plan.roots, queries, strict=True):
        error = pipeline.failed[root]
        with pytest.raises(DataError) as one:
            query.to_arrow()
        assert isinstance(error, DataError) and error.message == one.value.message


def pa_float() -> Any:
    import narwhals as nw

    return nw.Float64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (hp.col("v") > 1.0, hp.col("v") >= 1.0),
        (hp.col("v") > 1.0, hp.col("v") + 0 > 1.0),
        (hp.col("v") > float("nan"), hp.col("v") > 1.0),
        (hp.col("v") > hp.col("t"), hp.col("v") > 1.0),
        ((hp.col("v") > 1.0) & (hp.col("v") < 2.0), (hp.col("v") > 1.0) & (hp.col("v") < 3.0)),
    ],
)
def test_others_are_no_family(one: Any, other: Any) -> None:
    pipeline = Pipeline(lower([readings("double").where(c).node for c in (one, other)]).roots)
    assert not families_of(pipeline)


def test_a_family_in_a_graph_gives_tables_that_last() -> None:
    """Queries that come and go in a graph, with tables that stay as they are when further rows come."""
    source = hp.from_arrow(data().schema, key="k", time="t", progress=hp.ordered(), name="live")
    found: dict[float, list[pa.Table]] = {level: [] for level in LEVELS}
    table = data()
    with hp.Graph() as graph:
        for level, at in itertools.zip_longest(LEVELS, range(0, ROWS, TURN)):
            graph.subscribe(source.where(hp.col("v") > level), found[level].append)
            graph.push(source, table.slice(at, TURN))
    for number, level in enumerate(LEVELS):
        rest = table.slice(number * TURN)
        wanted = rest.filter(pa.compute.greater(rest["v"], level))
        got = pa.concat_tables(found[level]) if found[level] else wanted.slice(0, 0)
        same(sorted(got["t"].to_pylist()), sorted(wanted["t"].to_pylist()))
        same(got.sort_by("t")["v"].to_pylist(), wanted.sort_by("t")["v"].to_pylist())
