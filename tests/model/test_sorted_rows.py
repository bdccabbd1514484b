"""The array primitives of kernels against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydrophone.errors import ParameterError
from hydrophone.model.sorted_rows import concat_ranges, intersect_ranges, search_rows, stable_order
from hydrophone.model.time import MAX_TIME, MIN_TIME

times = st.integers(-3, 12) | st.sampled_from([MIN_TIME, MAX_TIME])
rows = st.lists(st.tuples(st.integers(0, 4), times), max_size=40)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array(pairs, np.int64).reshape(-1, 2).T)


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5))))
def test_ranges(runs: list[tuple[int, int]]) -> None:
    starts, lengths = columns(runs)
    expected = [k for start, length in runs for k in range(start, start + length)]
    result = concat_ranges(starts, lengths)
    assert result.tolist() == expected
    assert result.dtype == np.int64


# Queries in order take another path: each is looked for near the last answer.
@given(rows, rows | rows.map(sorted), st.sampled_from(["left", "right"]))
def test_search(table: list[tuple[int, int]], queries: list[tuple[int, int]], side: str) -> None:
    table = sorted(table)
    before = (lambda row, q: row < q) if side == "left" else (lambda row, q: row <= q)
    expected = [sum(before(row, q) for row in table) for q in queries]
    assert search_rows(*columns(table), *columns(queries), side).tolist() == expected


def test_search_in_one_slot_is_searchsorted() -> None:
    rng = np.random.default_rng(1)
    table, queries = np.sort(rng.integers(0, 50, 100)), rng.integers(0, 50, 70)
    slot = np.zeros(100, np.int64)
    for side in ("left", "right"):
        assert (search_rows(slot, table, slot[:70], queries, side) == np.searchsorted(table, queries, side)).all()


def test_search_refuses_another_side() -> None:
    nothing = np.array([], np.int64)
    with pytest.raises(ParameterError, match="'left' or 'right', got 'middle'"):
        search_rows(nothing, nothing, nothing, nothing, "middle")


def check_order(slot: np.ndarray, time: np.ndarray) -> None:
    expected = np.lexsort((time, slot))
    order = stable_order(slot, time)
    if order is None:
        assert (expected == np.arange(len(slot))).all()
    else:
        assert order.tolist() == expected.tolist()


@given(rows)
def test_stable_order_of_anything(pairs: list[tuple[int, int]]) -> None:
    check_order(*columns(pairs))


@given(rows)
def test_stable_order_of_time_order(pairs: list[tuple[int, int]]) -> None:
    check_order(*columns(sorted(pairs, key=lambda row: row[1])))


@given(rows, st.sampled_from([10**6, 10**15, -(10**15)]))
def test_stable_order_of_sparse_slots(pairs: list[tuple[int, int]], factor: int) -> None:
    slot, time = columns(pairs)
    check_order(slot * factor, time)


@given(rows)
def test_stable_order_of_sorted_rows_is_none(pairs: list[tuple[int, int]]) -> None:
    assert stable_order(*columns(sorted(pairs))) is None


def test_stable_order_of_late_rows() -> None:
    rng = np.random.default_rng(2)
    slot = rng.integers(0, 100, 20_000)
    time = np.arange(20_000) + rng.integers(0, 500, 20_000)
    check_order(slot, time)


@pytest.mark.parametrize("width", [3, 10**9, 2**62], ids=["ties", "samples", "ages"])
@pytest.mark.parametrize("bend", [1, 30], ids=["even", "bursts"])
def test_stable_order_of_long_runs(width: int, bend: int) -> None:
    rng = np.random.default_rng(3)
    # Both halves of all time: the largest and the smallest are further apart than an int64 says.
    time = np.trunc(rng.random(5_000) ** bend * width).astype(np.int64) * rng.choice([-1, 1], 5_000)
    check_order(rng.integers(0, 3, 5_000), time)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_stable_order_of_any_times(times: list[int]) -> None:
    check_order(np.zeros(len(times), np.int64), np.array(times, np.int64))


@pytest.mark.parametrize(
    "convert", [lambda x: x[::2], lambda x: x.astype(np.int32), lambda x: np.broadcast_to(x, len(x))]
)
def test_any_layout_is_taken(convert: object) -> None:
    slot, time = convert(np.array([1, 1, 0, 0, 1, 0])), convert(np.array([3, 1, 2, 2, 0, 5]))
    check_order(slot, time)


def a_list_of_runs() -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """Disjoint runs in order: cut points of each slot, taken in pairs."""
    cuts = st.lists(st.integers(0, 30), max_size=8).map(sorted)
    pairs = cuts.map(lambda c: list(zip(c[::2], c[1::2], strict=False)))
    return st.lists(pairs, max_size=4).map(lambda slots: [(s, *run) for s, runs in enumerate(slots) for run in runs])


@given(a_list_of_runs(), a_list_of_runs())
def test_intersect_runs(a: list[tuple[int, int, int]], b: list[tuple[int, int, int]]) -> None:
    expected = [
        (i, j, max(fa, fb), min(na, nb))
        for i, (sa, fa, na) in enumerate(a)
        for j, (sb, fb, nb) in enumerate(b)
        if sa == sb and max(fa, fb) < min(na, nb)
    ]
    as_columns = [np.array(runs, np.int64).reshape(-1, 3).T for runs in (a, b)]
    found = intersect_ranges(*as_columns[0], *as_columns[1])
    assert list(zip(*(x.tolist() for x in found), strict=True)) == expected
