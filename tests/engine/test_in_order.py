"""The in-order twin: the same answers, and no more memory than order costs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Source, rows
from tests.choice import for_a_law
from tests.engine import test_out_of_order as paper
from tests.laws.harness import EXAMPLES

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.in_order import InOrder, SortedRuns, enforce_order
from hydrophone.engine.local import Live
from hydrophone.model.batch import Events
from hydrophone.model.progress import Policy

S = 1_000_000_000


@pytest.mark.parametrize("way", ["in order", "late by up to 45 s"])
@pytest.mark.parametrize("name", paper.example.QUERIES)
def test_the_paper_s_queries_have_the_same_answers(name: str, way: str) -> None:
    query = paper.example.QUERIES[name](paper.arrivals(way))
    found = [r for piece in query.batches(7, order="enforce") for r in piece.to_pylist()]
    assert paper.found(name, found) == paper.wanted(name)


EVENTS = [c for c in ALL_CASES if all(not s.samples for s in c.inputs.values()) and isinstance(c.build(), hp.Stream)]
"""What is sorted and merged is events; a query that ends in a signal has them at its sources alone."""


def delayed(source: Source, seed: int, most: int) -> Source:
    """Rows that come late by up to so much, and a source that says so."""
    late = np.random.default_rng(seed).integers(0, most + 1, len(source.table))
    order = pa.array(np.argsort(source.starts() + late, kind="stable"))
    promise = hp.delayed(most) if most else hp.ordered()
    return Source(source.table.take(order), source.key, source.time, source.end, source.sequence, promise)


@for_a_law(EVENTS)
@given(seed=st.integers(0, 2**20), most=st.sampled_from([0, 30, 400]), size=st.sampled_from([3, 20]))
@settings(max_examples=max(EXAMPLES // 5, 1), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_order_never_changes_an_answer(case: Case, seed: int, most: int, size: int) -> None:
    query = case.build({n: delayed(s, seed, most).stream() for n, s in case.inputs.items()})
    case.check([r for t in query.batches(size, late=hp.late.error(), order="enforce") for r in rows(t)])


RATE, ROW = 2_000, 8 + 8 + 8  # rows per second; slot, time and one column


def link(seed: int, seconds: int, progress: Policy) -> hp.Stream:
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, seconds * S, seconds * RATE))
    if progress.delay:
        time = time[np.argsort(time + rng.integers(0, progress.delay, len(time)), kind="stable")]
    return hp.from_arrow(
        pa.table({"ts": time, "length": rng.integers(40, 1500, len(time))}), time="ts", progress=progress
    )


def run(query: hp.Stream, skew: int, order: str) -> tuple[list[int], Counter[str]]:
    """The state after every tenth of a second of arrivals, the last source coming later than the others."""
    live = Live(query.node, hp.late.error(), order)  # type: ignore[arg-type]
    tables = [s.data.table for s in live.sources]  # type: ignore[attr-defined]
    size, state, answer = RATE // 10, [], Counter[str]()
    late = [0] * (len(tables) - 1) + [skew * 10]
    for tick in range(max(len(t) // size + d for t, d in zip(tables, late, strict=True))):
        for port, table in enumerate(tables):
            at = (tick - late[port]) * size
            if 0 <= at < len(table):
                live.rows(port, table.slice(at, size))
            elif at >= len(table):
                live.end(port)
        live.advance()
        state.append(live.pipeline.state_bytes)
        answer.update(map(str, (r for t in live.pieces() for r in rows(t))))
    for port in range(len(tables)):
        live.end(port)
    live.advance()
    answer.update(map(str, (r for t in live.pieces() for r in rows(t))))
    return state, answer


@pytest.mark.parametrize("skew", [2, 8])
def test_a_merge_holds_what_the_skew_makes_it_hold(skew: int) -> None:
    query = hp.union(*(link(i, 20, hp.ordered()) for i in range(2))).tumble("10s").agg(n=hp.count(), s=hp.sum("length"))
    (twin, same), (ours, answer) = run(query, skew, "enforce"), run(query, skew, "any")
    assert same == answer
    needed = skew * RATE * ROW
    assert needed * 0.9 < max(twin) < needed * 1.2
    assert max(ours) < 2_000  # a few open windows, whatever the skew


@pytest.mark.parametrize("delay", [2, 8])
def test_a_sort_holds_what_the_delay_makes_it_hold(delay: int) -> None:
    query = link(0, 20, hp.delayed(f"{delay}s")).tumble("10s").agg(n=hp.count(), s=hp.sum("length"))
    (twin, same), (ours, answer) = run(query, 0, "enforce"), run(query, 0, "any")
    assert same == answer
    # Rows that are late by d of at most `delay` seconds still wait for the rest of it: half of all on average.
    assert 0.4 * delay * RATE * ROW < max(twin) < 1.2 * delay * RATE * ROW
    assert max(ours) < 2_000


def test_what_is_ordered_already_is_not_buffered() -> None:
    ordered, late = (
        hp.from_arrow(paper.TABLES[n], time="ts", progress=p)
        for n, p in (("main1", hp.ordered()), ("main2", hp.delayed("45s")))
    )

    def sorts(query: hp.Stream) -> int:
        return sum(isinstance(n, InOrder) for n in enforce_order(lower([query.node])).roots[0].topological())

    assert sorts(ordered.tumble("1min").agg(n=hp.count())) == 0
    assert sorts(late.key_by("src").tumble("1min").agg(n=hp.count())) == 1
    assert sorts(hp.union(ordered, late).tumble("1min").agg(n=hp.count())) == 2
    assert sorts(ordered.band_join(late, on="src", before="1s", after="1s")) == 1  # nobody reads the result
    assert sorts(ordered.band_join(late, on="src", before="1s", after="1s").tumble("1s").agg(n=hp.count())) == 2


def test_another_word_for_order_is_refused() -> None:
    with pytest.raises(hp.ParameterError, match="order must be 'any' or 'enforce', got 'sorted'"):
        link(0, 1, hp.ordered()).batches(order="sorted")  # type: ignore[arg-type]


def test_runs_that_are_sorted_offer_nothing_that_would_unsort_them() -> None:
    """Rows come in by `add` and leave by `before`: what takes out by a mask or puts others in their place is not there."""
    assert not {"take", "replace"} & set(dir(SortedRuns))
    runs = SortedRuns()
    for start in ([5, 1], [3], [9, 2]):
        runs.add(Events(np.zeros(len(start), np.int64), np.array(start), None, pa.table({"v": start})))
    left = runs.before(4)
    assert left is not None and left.start.tolist() == [1, 2, 3]
    saved = SortedRuns()
    for _, block in runs.blocks(changed=False):
        saved.load(block)
    for again in (runs, saved):
        rest = again.before(100)
        assert rest is not None and rest.start.tolist() == [5, 9] and again.empty
