"""What a graph gives while it sheds is the answer over the rows that were kept, for every operator, chunking and order of arrival."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Source, assert_same, rows
from tests.choice import for_a_law
from tests.laws.harness import EXAMPLES
from tests.laws.test_subscriptions import alone, arriving, some_manner

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.model.row_hash import kept_rows, row_hashes

LAW = settings(max_examples=max(EXAMPLES // 50, 1), phases=[Phase.explicit, Phase.reuse, Phase.generate])


def kept(source: Source, name: str, factor: float) -> Source:
    """The rows that stay, by a look at all of them together."""
    table = source.table
    order = None if source.sequence is None else table[source.sequence]
    hashes = row_hashes(name, [table[k] for k in source.keys], source.starts(), order)
    return replace(source, table=table.filter(pa.array(kept_rows(hashes, factor))))


@for_a_law(ALL_CASES)
@LAW
@given(st.integers(0, 2**20))
def test_shedding_gives_the_answer_over_the_rows_that_were_kept(case: Case, seed: int) -> None:
    manner = some_manner(case, seed)
    rng = np.random.default_rng(manner.seed)
    factor = float(rng.choice([0.1, 0.5, 0.5, 0.8, 1.0]))
    sources = {n: arriving(s, manner, seed + i) for i, (n, s) in enumerate(case.inputs.items())}
    streams = {n: s.stream(n) for n, s in sources.items()}
    query, found, graph = case.build(streams), list[pa.Table](), hp.Graph(shed=hp.shed.fixed(factor))
    subscription = graph.subscribe(query, found.append)
    taken = dict.fromkeys(sources, 0)
    while left := [n for n, s in sources.items() if taken[n] < len(s.table)]:
        name, count = str(rng.choice(left)), int(rng.integers(1, manner.chunk + 1))
        graph.push(streams[name], sources[name].table.slice(taken[name], count))
        taken[name] += count
    for name, skipped in (
        (node["operator"], node["skipped"]) for node in graph.nodes() if "source" in node["operator"]
    ):
        mine = name.removeprefix("source ").partition("(")[0]
        assert skipped == len(sources[mine].table) - len(kept(sources[mine], mine, factor).table)
    for stream in streams.values():
        graph.end(stream)
    assert subscription.error is None

    by_data = {id(q.node.data): n for n, q in streams.items()}  # type: ignore[attr-defined]
    names = [by_data[id(s.data)] for s in lower([query.node]).sources]
    batches, shown = alone(query.node, [kept(sources[n], n, factor) for n in names])
    wanted = [r for b in batches if len(b) for r in shown(b)]
    assert_same([r for t in found for r in rows(t)], wanted, max(case.tolerance, 1e-9))
