"""Cells of a task: whatever its table sheds and when, all that leaves is what one merge of all rows gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hydrophone as hp
from hydrophone.model.batch import Events
from hydrophone.ops.aggregates import task_aggregates as cells
from hydrophone.ops.aggregates.aggregates import partials_from_table
from hydrophone.ops.aggregates.panes import PaneKernel

PLAIN = {"n": hp.count(), "there": hp.count("v"), "total": hp.sum("i"), "low": hp.min("v"), "high": hp.max("u")}
OWN = {
    "spread": hp.std("v"),
    "pair": hp.aggregate(  # a state of two numbers: how many, and the largest
        "i",
        create=lambda n: np.tile([0.0, -np.inf], (n, 1)),
        add=lambda s, v: np.stack([s[:, 0] + 1, np.maximum(s[:, 1], v)], axis=1),
        merge=lambda a, b: np.stack([a[:, 0] + b[:, 0], np.maximum(a[:, 1], b[:, 1])], axis=1),
        result=lambda s: s[:, 1],
    ),
}


def rows(seed: int, count: int, groups: int) -> Events:
    rng = np.random.default_rng(seed)
    columns = {
        "v": pa.array(rng.integers(-40, 40, count) / 4, mask=rng.random(count) < 0.1),
        "i": rng.integers(-(2**62), 2**62, count),
        "u": rng.integers(0, 2**64, count, np.uint64),
    }
    return Events(rng.integers(0, groups, count), rng.integers(-300, 300, count), None, pa.table(columns))


def kernel(aggregates: dict[str, hp.Aggregate]) -> PaneKernel:
    columns = {"k": pa.array([0]), "t": pa.array([0]), **{n: c.slice(0, 1) for n, c in _columns().items()}}
    node = hp.from_arrow(pa.table(columns), key="k", time="t").tumble(50, offset=7).agg(**aggregates).node
    found = node.kernel(node.inputs[0].type)
    assert isinstance(found, PaneKernel)
    return found


def _columns() -> dict[str, pa.ChunkedArray]:
    table = rows(0, 1, 1).columns
    return dict(zip(table.column_names, table.columns, strict=True))


@given(
    seed=st.integers(0, 2**20),
    entries=st.sampled_from([1, 3, 40, 5_000]),
    chunk=st.sampled_from([1, 20, 400]),
    which=st.sampled_from([PLAIN, PLAIN | OWN]),
)
@settings(max_examples=30, deadline=None)
def test_nothing_is_lost(seed: int, entries: int, chunk: int, which: dict[str, hp.Aggregate]) -> None:
    panes, every = kernel(which), rows(seed, 400, 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "ENTRIES", entries)
        held = cells.TaskAggregateTable(panes, "test", 1)
    left = []
    for at in range(0, 400, chunk):
        batch = every.select(np.arange(at, at + chunk))
        shed = held.add(panes.partial_aggregates(batch), chunk)
        assert shed is not None
        left.append(shed)
        assert len(held.table.taken) <= entries
    early = sum(map(len, left))
    left.append(held.rest())
    assert len(held.rest()) == len(held.table.taken) == 0
    whole = panes.partial_aggregates(every)
    assert (early > 0) == (
        entries < len(whole)
    ) or entries == 5_000  # where there is room, two may want an entry all the same
    found = panes._merged(*(np.concatenate([getattr(c, n) for c in left]) for n in ("slot", "start")), _joined(left))
    assert (found.slot.tolist(), found.start.tolist()) == (whole.slot.tolist(), whole.start.tolist())
    for a, b in zip(partials_from_table(found), partials_from_table(whole), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            a, b, rtol=1e-9, atol=1e-9
        ) if a.dtype.kind == "f" else np.testing.assert_array_equal(a, b)


def _joined(left: list[Events]) -> list[np.ndarray]:
    return [np.concatenate(p) for p in zip(*(partials_from_table(c) for c in left), strict=True)]


def test_a_task_gives_up_where_little_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what leaves the table: at once where cells have no room, after a batch that shed much, and after a task of which much was left."""
    monkeypatch.setattr(cells, "ENTRIES", 64)
    monkeypatch.setattr(cells, "_skip", {})
    monkeypatch.setattr(cells, "BATCHES_BETWEEN_TRIES", 2)
    panes = kernel(PLAIN)

    def tried(count: int, groups: int) -> tuple[bool, list[bool]]:
        held, batch = cells.TaskAggregateTable(panes, "test", 0.25), rows(1, count, groups)
        assert held.due()
        taken = held.add(panes.partial_aggregates(batch), count) is not None
        held.rest()
        return taken, [held.due() for _ in range(3)]

    assert tried(4_000, 3) == (True, [True, True, True])
    assert tried(4_000, 300) == (False, [False, False, True])
    assert tried(400, 13) == (True, [False, False, True])
    assert tried(40, 30) == (True, [False, False, True])


def test_memory_is_bounded() -> None:
    held, panes = cells.TaskAggregateTable(kernel(PLAIN), "test", 1), kernel(PLAIN)
    for seed in range(5):
        held.add(panes.partial_aggregates(rows(seed, 50_000, 1_000_000)), 50_000)
    assert len(held.table.taken) <= cells.ENTRIES
    assert held.table.nbytes < 3 * cells.ENTRIES * (16 + 8 * len(held.table.kinds))


def test_a_users_function_is_never_asked_about_no_rows() -> None:
    """NumPy's `vectorize` refuses them, and so may anything that a user writes."""
    own = hp.aggregate("v", create=np.zeros, add=np.vectorize(lambda s, v: s + v), merge=np.add, result=np.asarray)
    held = cells.TaskAggregateTable(kernel({"total": own}), "vectorized", 1.0)
    assert len(held.rest()) == 0
    panes = held.panes
    for seed in (1, 2):
        batch = rows(seed, 50, 3)
        kept = batch.select(np.asarray(batch.columns["v"].is_valid()))
        held.add(panes.partial_aggregates(kept), len(kept))
    assert len(held.rest()) > 0
    assert len(held.rest()) == 0
