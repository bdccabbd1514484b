"""Tables that cannot be looked up."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.errors import HydrophoneError, ParameterError, SignalTypeError
from hydrophone.ops.relational import lookup

READINGS = pa.table({"k": ["a", "b"], "t": [0, 10], "v": [1.0, 2.0]})
ROOMS = pa.table({"k": ["a", "b"], "room": ["hall", "attic"]})


def readings() -> hp.Stream:
    return hp.from_arrow(READINGS, key="k", time="t")


def versioned(**columns: list[Any]) -> pa.Table:
    return pa.table({"k": ["a", "a"], "room": ["hall", "attic"], **columns})


@pytest.mark.parametrize(
    ("table", "options", "kind", "says"),
    [
        (ROOMS, {"on": "who"}, ParameterError, "the table has no column 'who'; it has: k, room"),
        (ROOMS, {"on": {"who": "k"}}, ParameterError, "no column 'who'; this stream has: k, t, v"),
        (ROOMS, {"on": []}, ParameterError, "name at least one column"),
        (ROOMS, {"on": "k", "how": "outer"}, ParameterError, "how must be 'inner' or 'left', got 'outer'"),
        (ROOMS, {"on": "k", "columns": ["floor"]}, ParameterError, "no column 'floor'"),
        (ROOMS, {"on": {"v": "k"}}, SignalTypeError, "'v' is double in the stream and 'k' is string in the table"),
        (ROOMS.rename_columns(["k", "v"]), {"on": "k"}, ParameterError, "columns of these names already: v"),
        (versioned(), {"on": "k"}, ParameterError, "two rows of the table hold for {'k': 'a'}"),
        (versioned(s=[0, 5], u=[7, 9]), {"on": "k", "since": "s", "until": "u"}, ParameterError, "two rows .* at "),
        (
            versioned(s=[0, 5], u=[5, 5]),
            {"on": "k", "since": "s", "until": "u"},
            ParameterError,
            "1 rows .* end before",
        ),
        (
            versioned(s=["2024", "2025"]),
            {"on": "k", "since": "s"},
            SignalTypeError,
            "'s' of the table has string, which is no time, and the stream has integer times",
        ),
        (
            versioned(s=[0, 5], u=[datetime(2024, 1, 1), datetime(2024, 1, 2)]),
            {"on": "k", "since": "s", "until": "u"},
            SignalTypeError,
            "'u' of the table has timestamps without a zone",
        ),
        (3, {"on": "k"}, ParameterError, "a int is no table"),
    ],
)
def test_refused(table: Any, options: dict[str, Any], kind: type[HydrophoneError], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        readings().lookup(table, **options)
    assert caught.value.where is not None and caught.value.where.startswith("test_bad_lookup.py")


def test_a_table_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "LARGEST", 10)
    with pytest.raises(ParameterError, match="too much to travel with the plan"):
        readings().lookup(ROOMS, on="k")


def test_any_table_will_do(tmp_path: Path) -> None:
    pq.write_table(ROOMS, tmp_path / "rooms.parquet")
    tables = [ROOMS, pd.DataFrame(ROOMS.to_pydict()), pl.DataFrame(ROOMS.to_pydict()), tmp_path / "rooms.parquet"]
    answers = [readings().lookup(t, on="k").to_arrow()["room"].to_pylist() for t in tables]
    assert answers == [["hall", "attic"]] * 4


def test_null_finds_nothing() -> None:
    rooms = pa.table({"v": [None, 2.0], "room": ["nowhere", "attic"]})
    assert readings().lookup(rooms, on="v").to_arrow()["room"].to_pylist() == ["attic"]


def test_a_row_without_an_end_holds_until_the_next() -> None:
    rooms = versioned(s=[0, 5], u=[None, 20])
    times = pa.table({"k": ["a"] * 4, "t": [0, 4, 5, 25], "v": [1.0] * 4})
    found = hp.from_arrow(times, key="k", time="t").lookup(rooms, on="k", since="s", until="u", how="left")
    assert found.to_arrow().sort_by("t")["room"].to_pylist() == ["hall", "hall", "attic", None]


@pytest.mark.parametrize("index", [None, "place"])
def test_an_index_of_pandas_is_no_column(index: str | None) -> None:
    names = pd.DataFrame({"k": [0, 5, 1], "name": ["a", "b", "c"]}).rename_axis(index)
    rows = hp.from_arrow(pa.table({"k": [0, 1], "t": [1, 2]}), key="k", time="t")
    found = rows.lookup(names[names["k"] < 5], on="k").to_arrow()
    assert found.column_names == ["k", "t", "name"]


@pytest.mark.parametrize(("columns", "rows"), [(4, 60_000), (5, 65_535)])
def test_many_columns_of_many_values_are_told_apart(columns: int, rows: int) -> None:
    """More combinations than 64 bits can number: once rows were lost, and events found rows of which one column differed."""
    random = np.random.default_rng(0)
    names = [f"k{i}" for i in range(columns)]
    table = pa.table({**{n: random.permutation(rows) for n in names}, "row": np.arange(rows)})
    asked = table.slice(rows - 500, 500)
    wrong = np.arange(500) % 2 == 1
    first = np.where(wrong, (asked["k0"].to_numpy() + 1) % rows, asked["k0"].to_numpy())
    nulls = pa.table({n: pa.array([None if n == names[-1] else 1]) for n in names}).append_column("row", pa.array([-1]))
    events = pa.table({"t": np.arange(500), "k0": first, **{n: asked[n] for n in names[1:]}})
    found = hp.from_arrow(events, time="t").lookup(
        pa.concat_tables([table, nulls], promote_options="permissive"), on=names, how="left"
    )
    want = [None if w else r for w, r in zip(wrong, asked["row"].to_pylist(), strict=True)]
    assert found.to_arrow().sort_by("t")["row"].to_pylist() == want


def test_many_rows_at_once() -> None:
    """As pandas merges; the order of events stays, and a row without any end holds for ever."""
    rooms = pa.table({"k": ["a", "b", "a"], "u": [None, None, None], "room": ["hall", "attic", "cellar"]})
    found = readings().lookup(rooms, on="k", until="u", many=True).to_arrow()
    assert found["t"].to_pylist() == [0, 0, 10]
    whole = READINGS.to_pandas().merge(rooms.drop_columns("u").to_pandas(), on="k")
    assert sorted(map(tuple, found.to_pandas().itertuples(index=False))) == sorted(
        map(tuple, whole[["k", "t", "v", "room"]].itertuples(index=False))
    )
    assert len(readings().lookup(rooms.slice(0, 0), on="k", many=True).to_arrow()) == 0
