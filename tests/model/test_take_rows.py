"""Rows of columns by position, against Arrow's own."""

import numpy as np
import pyarrow as pa
import pytest

from hydrophone.model.batch import Events
from hydrophone.model.take_rows import take, take_all, take_table

HUGE = [2**63 - 1, -(2**63), 2**53 + 1, 0, 7]

COLUMNS = {
    "int64": pa.array(HUGE),
    "int8": pa.array([1, -2, 3, None, 5], pa.int8()),
    "uint16": pa.array([1, 2, 3, 4, 65_535], pa.uint16()),
    "float32": pa.array([1.5, None, float("nan"), -0.0, float("inf")], pa.float32()),
    "timestamp": pa.array(HUGE).cast(pa.timestamp("ns")),
    "bool": pa.array([True, None, False, True, True]),
    "string": pa.array(["a", None, "", "d", "e"]),
    "list": pa.array([[1.0], None, [], [2.0, 3.0], [4.0]]),
    "null": pa.nulls(5),
    "cut": pa.array([9, *HUGE, 9]).slice(1, 5),
    "cut with nulls": pa.array([None, 1, None, 3, 4, 5, 6]).slice(1, 5),
    "pieces": pa.chunked_array([[1, 2], [], [3, None, 5]]),
    "decimal": pa.array([1, 2, 3, 4, 5]).cast(pa.decimal128(20)),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("rows", [[], [4, 0, 0, 2, 1], [-1, 3, -1], [3, 1]])
def test_take(name: str, rows: list[int]) -> None:
    column = COLUMNS[name]
    found = take(column, np.array(rows, np.int64))
    found.validate(full=True)
    wanted = column.take(pa.array(rows, pa.int64(), mask=np.array(rows, np.int64) < 0))
    wanted = wanted.combine_chunks() if isinstance(wanted, pa.ChunkedArray) else wanted
    assert found.type == wanted.type
    assert str(found.to_pylist()) == str(wanted.to_pylist())


def test_nothing_of_nothing() -> None:
    assert take(pa.array([], pa.int64()), np.array([-1, -1])).to_pylist() == [None, None]


def test_many_rows_are_shared_out_over_threads() -> None:
    table = pa.table({"a": np.arange(1000), "b": np.arange(1000) / 7, "s": [str(i) for i in range(1000)]})
    rows = np.random.default_rng(0).integers(0, 1000, 1 << 20)
    assert take_table(table, rows).equals(table.take(pa.array(rows)).combine_chunks())
    rows[0] = -1
    assert [c[0].as_py() for c in take_all(table.columns, rows)] == [None] * 3


@pytest.mark.parametrize("name", ["__end", "__start", "__slot", "__point", "v"])
@pytest.mark.parametrize("end", [None, [5, 6]])
def test_events_of_any_column_names_come_back(name: str, end: list[int] | None) -> None:
    ends = None if end is None else np.array(end)
    given = Events(np.array([0, 1]), np.array([3, 4]), ends, pa.table({name: [7, 8], "w": [1.0, 2.0]}))
    back = Events.from_table(given.to_table())
    assert back.columns.equals(given.columns)
    assert back.start.tolist() == [3, 4] and (back.end is None) == (end is None)
