"""The low-level table: whatever it sheds and when, the high level gets every row once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hydrophone.errors import ParameterError
from hydrophone.model.fixed_hash_table import FixedHashTable, FlushMode

MERGE = [(np.add, np.int64), (np.add, np.float64), (np.minimum, np.float64), (np.maximum, np.int64)]


def rows(seed: int, count: int, groups: int, disorder: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    window = np.arange(count) * 6 // count - rng.integers(0, disorder + 1, count)
    value = rng.integers(-50, 50, count)
    value_f = np.where(rng.random(count) < 0.05, np.nan, value / 4)
    return rng.integers(0, groups, count), window, [np.ones(count, np.int64), value / 4, value_f, value]


def merged(shed: list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]]) -> pd.DataFrame:
    frame = pd.concat(pd.DataFrame({"g": g, "w": w, **{f"p{i}": p for i, p in enumerate(ps)}}) for g, w, ps in shed)
    least = lambda x: np.minimum.reduce(x.to_numpy())  # noqa: E731  pandas would skip NaN
    return frame.groupby(["g", "w"]).agg({"p0": "sum", "p1": "sum", "p2": least, "p3": "max"})


@given(
    seed=st.integers(0, 2**20),
    size=st.sampled_from([1, 2, 7, 64, 500]),
    flush=st.sampled_from(list(FlushMode)),
    every=st.sampled_from([1, 3, 50]),
    late=st.sampled_from([0, 1, 2, 3, None]),
    chunk=st.sampled_from([1, 10, 400]),
)
@settings(max_examples=40, deadline=None)
def test_nothing_is_lost(seed: int, size: int, flush: FlushMode, every: int, late: int | None, chunk: int) -> None:
    group, window, parts = rows(seed, 400, 30, 0 if flush is FlushMode.IN_ORDER else 3)
    table = FixedHashTable(size, MERGE, flush, every=every, late=late)
    shed = []
    for at in range(0, 400, chunk):
        shed.append(table.add(*(x[at : at + chunk] for x in (group, window)), [p[at : at + chunk] for p in parts]))
        seen = window[: at + chunk].max()
        if flush is not FlushMode.IN_ORDER and len(shed[-1][0]) == 0 and table.oldest is not None and late is not None:
            assert table.oldest >= seen - late - 3  # what came late itself may be older
    shed.append(table.rest())
    assert table.oldest is None
    pd.testing.assert_frame_equal(merged(shed), merged([(group, window, parts)]))


@given(seed=st.integers(0, 2**20), size=st.sampled_from([2, 16, 64]), every=st.sampled_from([1, 5]))
@example(seed=2700, size=64, every=5)  # two windows are left in the end
@settings(max_examples=20, deadline=None)
def test_in_order_sheds_in_order(seed: int, size: int, every: int) -> None:
    group, window, parts = rows(seed, 400, 30, 0)
    table = FixedHashTable(size, MERGE, FlushMode.IN_ORDER, every=every)
    out = np.concatenate([table.add(group, window, parts)[1], table.rest()[1]])
    assert (np.diff(out) >= 0).all()


def test_what_is_old_leaves_in_time() -> None:
    one = [np.ones(1, np.int64)]
    for late in (0, 1, 2):
        table = FixedHashTable(1000, [(np.add, np.int64)], late=late)
        found = [len(table.add(np.array([w]), np.array([w]), one)[0]) for w in range(5)]
        assert found == [0] * (late + 1) + [1] * (4 - late)
        assert table.oldest == 4 - late


def test_nothing_grows_old_without_a_limit() -> None:
    table, one = FixedHashTable(1000, [(np.add, np.int64)], late=None), [np.ones(1, np.int64)]
    assert [len(table.add(np.array([1]), np.array([w]), one)[0]) for w in range(0, 50, 10)] == [0] * 5
    assert len(table.taken) == len(table.rest()[0]) == 5


@pytest.mark.parametrize("late", [None, 1, 3])
def test_windows_may_be_as_far_apart_as_numbers_reach(late: int | None) -> None:
    table = FixedHashTable(4, [(np.add, np.int64)], late=late)
    window = np.array([-(2**62) - 2, 2**62 + 5, -5, 2**62 + 6])
    shed = table.add(np.arange(4), window, [np.ones(4, np.int64)])
    assert sorted([*shed[1], *table.rest()[1]]) == sorted(window.tolist())


@pytest.mark.parametrize("kind", [np.uint64, np.int8, np.uint8, np.float32])
def test_numbers_keep_their_kind(kind: type) -> None:
    """Large unsigned ones too, which are negative to those who look at their bits."""
    limits = np.finfo(kind) if kind is np.float32 else np.iinfo(kind)
    values = np.array([7, limits.max, limits.min, 3], kind)
    table = FixedHashTable(4, [(np.minimum, kind), (np.maximum, kind)])
    same = np.zeros(4, np.int64)
    for at in (slice(0, 2), slice(2, 4)):
        table.add(same[at], same[at], [values[at], values[at]])
    least, most = table.rest()[2]
    assert (least.dtype, most.dtype) == (kind, kind)
    assert (least.tolist(), most.tolist()) == ([values.min()], [values.max()])


def test_a_large_table_sheds_nothing_of_the_running_window() -> None:
    group = np.random.default_rng(0).integers(0, 50, 5_000)
    table = FixedHashTable(5_000, [(np.add, np.int64)])
    assert len(table.add(group, np.zeros(5_000, np.int64), [np.ones(5_000, np.int64)])[0]) < 5


@pytest.mark.parametrize(("name", "knobs"), [("size", {"size": 0}), ("every", {"every": 0}), ("late", {"late": -1})])
def test_bad_knobs(name: str, knobs: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match=f"low level: {name} must be at least"):
        FixedHashTable(**{"size": 4, "merge": [(np.add, np.int64)], **knobs})  # type: ignore[arg-type]
