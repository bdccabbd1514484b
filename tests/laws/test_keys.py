"""Keys do not touch, may be spread over shards, and leave nothing behind when they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Source, rows
from tests.choice import for_a_law
from tests.laws.harness import sources_of

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.model.key_table import KeyTable, shard_of_keys
from hydrophone.ops.relational.key_by import KeyBy
from hydrophone.plan.reach import UNBOUNDED


def keeps_key(case: Case) -> bool:
    """One scope from the sources to the result."""
    return not any(isinstance(n, KeyBy) for n in case.plan.topological()) and all(s.keys for s in case.inputs.values())


KEYED = [c for c in ALL_CASES if keeps_key(c)]
NEIGHBOURS = {pa.string(): "~loud", pa.int64(): 987_654_321}
POISON = [float("nan"), float("inf"), -float("inf"), 1e12, -1e12, 1e300]


def plain_key(case: Case) -> bool:
    return all(
        len(s.keys) == 1 and s.table.schema.field(s.keys[0]).type in NEIGHBOURS and not s.samples
        for s in case.inputs.values()
    )


def poisoned(source: Source, seed: int) -> Source:
    """The same rows once more under another key, with terrible numbers."""
    rng = np.random.default_rng(seed)
    name, table = source.keys[0], source.table
    loud = {name: pa.array([NEIGHBOURS[table.schema.field(name).type]] * len(table), table.schema.field(name).type)}
    if table.num_rows:
        # One event per time: the rows of one key only.
        mine = np.asarray([k == table[name][0].as_py() for k in table[name].to_pylist()])
        table = table.filter(pa.array(mine))
        loud = {name: loud[name].slice(0, len(table))}
    for f in table.schema:
        if pa.types.is_floating(f.type):
            loud[f.name] = pa.array(rng.choice(POISON, len(table))).cast(f.type)
        elif pa.types.is_struct(f.type):
            parts = [pa.array(rng.choice(POISON, len(table))) for _ in range(2)]
            loud[f.name] = pa.StructArray.from_arrays(parts, ["re", "im"])
    extra = pa.table([loud.get(n, table[n]) for n in table.column_names], schema=table.schema)
    both = pa.concat_tables([source.table, extra])
    return replace(source, table=both.take(pa.array(rng.permutation(len(both)))))


@for_a_law(c for c in KEYED if plain_key(c))
@pytest.mark.parametrize("seed", [1, 2])
def test_neighbours_change_nothing(case: Case, seed: int) -> None:
    inputs = {n: poisoned(s, seed) for n, s in case.inputs.items()}
    with np.errstate(over="ignore"):
        answer = rows(case.build({n: s.stream() for n, s in inputs.items()}).to_arrow())
    case.check([r for r in answer if r[0] not in NEIGHBOURS.values()])


@for_a_law(KEYED)
@pytest.mark.parametrize("shards", [2, 7])
def test_shards_equal_the_whole(case: Case, shards: int) -> None:
    found = []
    for shard in range(shards):
        mine = {
            n: replace(s, table=s.table.filter(pa.array(shard_of(s, shards) == shard))) for n, s in case.inputs.items()
        }
        found += rows(case.build({n: s.stream() for n, s in mine.items()}).to_arrow())
    case.check(found)


def shard_of(source: Source, shards: int) -> np.ndarray:
    return shard_of_keys([source.table[k] for k in source.keys], shards, len(source.table))


# --- what keys leave behind -----------------------------------------------------------------------------------------------------


def comes_and_goes(case: Case) -> bool:
    if not all(s.keys == ("k",) and s.time == "t" and s.end in (None, "e") for s in case.inputs.values()):
        return False
    reaches = reach_of_sources(case.plan).values()
    whole = all(pa.types.is_integer(s.table.schema.field("t").type) and not s.samples for s in case.inputs.values())
    text = all(s.table.schema.field("k").type == pa.string() for s in case.inputs.values())
    return whole and text and all(r.bounded and (r.before or 0) < UNBOUNDED for r in reaches)


def later(source: Source, turn: int, by: int) -> Source:
    """The same rows of other keys, so much later."""
    table = source.table.set_column(
        0, "k", pa.array([f"{k}{turn}" for k in source.table["k"].to_pylist()], pa.string())
    )
    for name in filter(None, [source.time, source.end]):
        moved = pa.array(source.table[name].to_numpy() + turn * by)
        table = table.set_column(table.column_names.index(name), name, moved)
    return replace(source, table=table)


def size_of(state: Mapping[str, bytes | None]) -> int:
    return sum(len(b) for path, b in state.items() if b is not None and path != "marks")


@for_a_law(c for c in ALL_CASES if comes_and_goes(c))
def test_keys_that_go_leave_nothing_behind(case: Case) -> None:
    plan = lower([case.plan])
    pipeline, sources = Pipeline(plan.roots), sources_of(case, plan)
    reaches = reach_of_sources(case.plan).values()
    reach = sum((r.before or 0) + (r.after or 0) for r in reaches)
    starts, stops = (np.concatenate([getattr(s, what)() for s in sources]) for what in ("starts", "stops"))
    if not len(starts):
        return
    by = int(stops.max() - starts.min()) + 2 * reach + 1_000_000
    by += -by % 1_000_000  # a round number: where windows of time are keys, every turn has as many of them
    slots = []
    for turn in range(4):
        for port, source in enumerate(sources):
            pipeline.rows(port, later(source, turn, by).table)
        pipeline.advance([Progress(int(starts.min()) + (turn + 1) * by - 1)] * len(sources))
        pipeline.drain()
        pipeline.sweep()
        slots.append(sum(len(t) for t in pipeline.scopes.values()))
        assert sum(t.live for t in pipeline.scopes.values()) == 0
        assert size_of(pipeline.snapshot()) == 0
    assert slots[-1] == slots[0], "slots of keys that went are not used again"


@given(
    keys=st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), min_size=1), min_size=1, max_size=6
    ),
    data=st.data(),
)
@settings(max_examples=100)
def test_a_key_table_knows_its_keys(keys: list[list[int]], data: st.DataObject) -> None:
    """Whatever was released before: every row finds its own key again, and live keys have slots of their own."""
    table, live = KeyTable(pa.schema([("k", pa.int64())])), {}
    for batch in keys:
        slots = table.slots([pa.array(batch, pa.int64())])
        assert table.columns(slots)[0].to_pylist() == batch
        for k, s in zip(batch, slots.tolist(), strict=True):
            assert live.setdefault(k, s) == s
        assert len(set(live.values())) == len(live) == table.live
        gone = data.draw(st.lists(st.sampled_from(sorted(live)), unique=True))
        table.release(np.array([live.pop(k) for k in gone], np.int64))


@given(
    keys=st.lists(
        st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), st.integers(0, 2)), min_size=1),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
@settings(max_examples=100)
def test_a_key_of_several_integers_is_found_again(keys: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    """As above; and a table that is put back from its blocks knows the same keys."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.uint8())])
    table, live = KeyTable(schema), {}
    for batch in keys:
        slots = table.slots([pa.array(c, f.type) for c, f in zip(zip(*batch, strict=True), schema, strict=True)])
        found = [c.to_pylist() for c in table.columns(slots)]
        assert list(zip(*found, strict=True)) == batch
        for k, s in zip(batch, slots.tolist(), strict=True):
            assert live.setdefault(k, s) == s
        assert len(set(live.values())) == len(live) == table.live
        gone = data.draw(st.lists(st.sampled_from(sorted(live)), unique=True))
        table.release(np.array([live.pop(k) for k in gone], np.int64))
    again = KeyTable(schema)
    for _, block in table.blocks(False):
        if block is not None:
            again.load(block)
    for k, s in live.items():
        assert again.slots([pa.array([v], f.type) for v, f in zip(k, schema, strict=True)]).tolist() == [s]
    assert again.live == len(live)


def test_a_table_without_key_columns_is_swept_and_used_again() -> None:
    source = Source(pa.table({"t": [1, 2]}))
    plan = lower([source.stream().tumble(10).agg(n=hp.count()).node])
    pipeline: Any = Pipeline(plan.roots)
    for turn in range(3):
        pipeline.rows(0, pa.table({"t": [turn * 100 + 1]}))
        pipeline.advance([Progress(turn * 100 + 50)])
        assert len(pipeline.drain()) == 1
        assert pipeline.sweep() == 1
