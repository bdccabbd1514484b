"""Slices of time, each with only its reach around it, together give the whole."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Row, Source, rows
from tests.cases.filters import sos
from tests.choice import for_a_law
from tests.laws.harness import EXAMPLES, pieces, sources_of, tables_of

from hydrophone.compiler.compile import lower
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time


def bounded(case: Case) -> bool:
    return all(r.bounded for r in reach_of_sources(case.plan).values())


SLICED = [c for c in ALL_CASES if bounded(c)]


def edges(sources: list[Source], rng: np.random.Generator) -> list[int]:
    """Where to cut: at starts and ends of rows and a nanosecond beside them, inside lifetimes and holes, outside the data."""
    near = np.unique(np.concatenate([x for s in sources for x in (s.starts(), s.stops())] or [np.zeros(1, np.int64)]))
    if not len(near):
        return [0]
    picked = rng.choice(near, int(rng.integers(1, 7))) + rng.integers(-1, 2)
    low, high = int(near.min()) - 30, int(near.max()) + 30
    somewhere = low + rng.integers(0, max(high - low, 1), int(rng.integers(0, 4)))
    beside = picked[:1] + int(rng.integers(1, 15))  # a slice shorter than most reaches
    return sorted({int(t) for t in (*picked, *somewhere, *beside)})


def run_slice(case: Case, start: int, stop: int) -> list[Row]:
    root = case.plan
    plan = lower([root])
    reaches = reach_of_sources(root)
    pipeline = Pipeline(plan.roots)
    marks = []
    for port, (node, source) in enumerate(zip(plan.sources, sources_of(case, plan), strict=True)):
        reach = reaches[node]
        low, high = add_time(start, -(reach.before or 0)), add_time(stop, reach.after or 0)
        pipeline.rows(port, tables_of(source, (source.starts() < high) & (source.stops() > low)))
        marks.append(Progress(high))
    pipeline.advance(marks)
    out = plan.roots[0]
    return [
        r
        for b in pieces(pipeline.drain(out), start, stop)
        for r in rows(emit.result_table(b, out.type, pipeline.keys(out)))
    ]


def run_slices(case: Case, cuts: list[int]) -> list[Row]:
    bounds = [MIN_TIME, *cuts, MAX_TIME]
    return [r for a, b in itertools.pairwise(bounds) for r in run_slice(case, a, b)]


@for_a_law(SLICED)
@given(seed=st.integers(0, 2**20))
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_slices_equal_the_whole(case: Case, seed: int) -> None:
    plan = lower([case.plan])
    case.check(run_slices(case, edges(sources_of(case, plan), np.random.default_rng(seed))))


def test_most_cases_are_sliced() -> None:
    assert len(SLICED) > len(ALL_CASES) * 2 // 3


def test_slices_of_a_recursive_filter_after_nan() -> None:
    values = [float(n % 7) for n in range(400)]
    values[5] = float("nan")
    source = Source(pa.table({"k": ["a"] * 400, "t": range(0, 4000, 10), "v": values}), key="k")
    case = sos("sos-long-after-nan", source, [[1.0, 0.5, 0.0, 1.0, -0.1, 0.0]])
    case.check(run_slices(case, [3000]))
    case.check(run_slices(case, [60, 70, 200, 650, 660, 3000]))


def test_slices_of_a_recursive_filter_that_has_long_settled() -> None:
    values = [1e6 if n < 9 else float(n % 7) for n in range(400)]
    source = Source(pa.table({"k": ["a"] * 400, "t": range(0, 4000, 10), "v": values}), key="k")
    case = sos("sos-long", source, [[1.0, 0.5, 0.0, 1.0, -0.1, 0.0]])
    case.check(run_slices(case, [1500, 3000, 3005]))
