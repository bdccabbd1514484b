"""Both ways to find neighbours in time, the single pass and the search, against each other and against all pairs."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hydrophone as hp
from hydrophone.model.batch import Events
from hydrophone.model.time import FIRST_DATE, LAST_DATE, MAX_TIME, MIN_TIME
from hydrophone.ops.relational.asof_join import is_in_time_order, neighbours
from hydrophone.plan.reach import UNBOUNDED

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(-4, 9) | st.sampled_from([MIN_TIME + 1, MAX_TIME - 1])))


def events(pairs: list[tuple[int, int]]) -> Events:
    slot, start = np.array(pairs, np.int64).reshape(-1, 2).T
    return Events(slot, start, None, pa.table({"n": np.arange(len(slot))}))


@given(rows.filter(bool), rows, st.sampled_from([0, 3, MAX_TIME, UNBOUNDED]))
@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_neighbours(direction: str, left: list, right: list, tolerance: int) -> None:
    for order in (left, sorted(left, key=lambda row: row[1]), sorted(left)):
        a, b, back, ahead = neighbours(events(order), events(right), direction, 3, tolerance)
        found = back if direction == "backward" else ahead
        for slot, start, row in zip(a.slot.tolist(), a.start.tolist(), found.tolist(), strict=True):
            if direction == "backward":
                near = [(t, n) for n, (s, t) in enumerate(right) if s == slot and t <= start and start - t <= tolerance]
                wanted = max(near, default=None)
            else:
                near = [(t, n) for n, (s, t) in enumerate(right) if s == slot and t >= start and t - start <= tolerance]
                wanted = min(near, default=None)
            assert (wanted is None) == (row < 0)
            if wanted is not None:
                assert (int(b.start[row]), b.columns["n"][row].as_py()) == wanted


def test_no_line_is_drawn_between_neighbours_further_apart_than_any_number() -> None:
    left = hp.from_arrow(pa.table({"t": [0]}), time="t")
    right = hp.from_arrow(pa.table({"t": [FIRST_DATE, LAST_DATE - 1], "v": [0.0, 1.0]}), time="t")
    found = left.asof_join(right, direction="interpolated", tolerance=MAX_TIME - 1).to_arrow()
    assert found["v"].to_pylist() == [None]


def test_in_time() -> None:
    assert is_in_time_order(np.array([1, 1, 2]))
    assert is_in_time_order(np.array([], np.int64))
    assert not is_in_time_order(np.array([2, 1]))
