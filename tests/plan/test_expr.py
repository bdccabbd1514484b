"""Row expressions: identity, what is row-wise, evaluation against plain Python, and push-down as a superset."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import narwhals as nw
import narwhals.selectors as ncs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.plan import expr as ex
from hydrophone.plan.expr import col, lit, when
from hydrophone.plan.source_filters import arrow_filter, sql_filter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN, INF = math.nan, math.inf
COMPARE = (eq, ne, lt, le, gt, ge)

# --- identity ---------------------------------------------------------------------------------------------------------

LITERALS = [
    1, 1.0, "1", True, b"1", Decimal("1"), None, -1, 0.0, -0.0, NAN, INF, 2, "", "it's", 'a"b', "a\\b", "col('x')",
    date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, microsecond=1),
    datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/London")),
    timedelta(1), np.float32(1), np.int8(1), np.datetime64("2020-01-01", "ns"), np.datetime64("2020-01-01", "us"),
]  # fmt: skip

DISTINCT: list[Callable[[], nw.Expr]] = [
    *(lambda value=value: col("x") == lit(value) for value in LITERALS),
    lambda: col("x") == 1,
    lambda: col("y") == 1,
    lambda: col("x") != 1,
    lambda: col("x") == col("y"),
    lambda: col("x") == "y",
    lambda: col("x").alias("y"),
    lambda: lit(1, nw.Int8),
    lambda: col("x").cast(nw.Int64),
    lambda: col("x").cast(nw.Datetime("us")),
    lambda: col("x").cast(nw.Datetime("ns")),
    lambda: col("x").cast(nw.Datetime("ns", "UTC")),
    lambda: col("x").cast(nw.List(nw.Int8)),
    lambda: col("x").is_in([1, 2]),
    lambda: col("x").is_in([1, 2.0]),
    lambda: col("x").is_in([12]),
    lambda: col("x").is_in(["1, 2"]),
    lambda: col("x").is_in({"a", "b", "c"}),
    lambda: col("x").is_in(np.array([1, 2])),
    lambda: col("x").is_in(pa.array([1, 2])),
    lambda: col("x").is_between(1, 2),
    lambda: col("x").is_between(1, 2, closed="left"),
    lambda: col("x").is_between("1", "2"),
    lambda: (col("x") > 1) & (col("y") > 1) | (col("z") > 1),
    lambda: (col("x") > 1) & ((col("y") > 1) | (col("z") > 1)),
    lambda: when(col("x") > 1).then(1),
    lambda: when(col("x") > 1).then(1).otherwise(2),
    lambda: when(col("x") > 1).then(1).when(col("y") > 1).then(2),
    lambda: col("x").round(1),
    lambda: col("x").round(2),
    lambda: col("x").replace_strict({1: 2}),
    lambda: col("x").replace_strict({1: 2}, default=3),
    lambda: col("x").fill_null("y"),
    lambda: nw.concat_str(["x", "y"], separator="-"),
]


def texts() -> list[str]:
    return [ex.expression_text(make()) for make in DISTINCT]


def test_text_is_equal_for_equal_expressions_only() -> None:
    assert texts() == texts()
    assert len(set(texts())) == len(DISTINCT)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_text_is_the_same_in_every_process(seed: str) -> None:
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['texts']())"
    run = subprocess.run(
        [sys.executable, "-c", code, __file__],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(texts())


@pytest.mark.parametrize("make", DISTINCT)
def test_expressions_survive_pickling(make: Callable[[], nw.Expr]) -> None:
    from pyspark import cloudpickle

    for dumps in (pickle.dumps, cloudpickle.dumps):
        assert ex.expression_text(pickle.loads(dumps(make()))) == ex.expression_text(make())


@pytest.mark.parametrize(
    ("expr", "match"),
    [
        (col("x").map_batches(lambda s: s), "map_batches runs a Python function"),
        (col("x").name.map(str.upper), "name.map runs a Python function"),
        (col("x").is_in(iter([1])), "list_iterator"),
        (col("x") == pd.Timestamp("2020-01-01 00:00:00.000000001"), "nanoseconds"),
        (lit(object()), "type object"),
    ],
)
def test_text_refuses_what_has_no_identity(expr: nw.Expr, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        ex.expression_text(expr)


# --- names and row-wise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (col("x") > 1, "x"),
        (lit(1), ""),
        (col("x") == "y", "x"),
        (col("x").is_between("a", col("b")), "abx"),
        (when(col("a") > 1).then("b").otherwise(lit("c")), "ab"),
        (nw.sum_horizontal("a", nw.col("b")), "ab"),
        (col("x").sum().over("k", order_by="t"), "ktx"),
    ],
)
def test_names(expr: nw.Expr, expected: str) -> None:
    assert ex.column_names(expr) == set(expected)


@pytest.mark.parametrize(
    "expr", [nw.all(), nw.exclude("x"), nw.nth(0), col("x", "y") > 1, ncs.numeric(), nw.sum_horizontal(nw.all())]
)
def test_several_columns_are_refused(expr: nw.Expr) -> None:
    for function in (ex.column_names, lambda e: ex.check_rowwise(e, "where")):
        with pytest.raises(ParameterError, match="several columns"):
            function(expr)


ROWWISE: list[nw.Expr] = [
    col("x"), lit(3), -col("x"), col("x").abs() + 2 * col("y"), 1 - col("x"), col("x") // 3, col("x") % 3,
    col("x") ** 2,
    col("x") / col("y"), col("x").is_between(0, col("y")), col("x").is_in([1, 2]), col("x").is_null(),
    col("y").is_nan(),
    col("x").fill_null(0), col("y").fill_nan(None), col("x").clip(0, 2), col("y").round(1), col("y").exp(),
    col("y").log(),
    col("y").sqrt(), col("y").sin(), col("y").floor(), col("y").is_finite(), col("y").is_close(1.0),
    col("x").cast(nw.Float64),
    when(col("x") > 1).then("y").otherwise(0.0), nw.sum_horizontal("x", "y"), nw.max_horizontal("x", "y"),
    nw.mean_horizontal("x", "y"), nw.coalesce("x", lit(9)), nw.concat_str("s", "s"), col("s").str.len_chars(),
    col("s").str.contains("a"), col("s").str.zfill(4), col("s").str.split("a"), col("s").str.slice(0, 1),
    col("t").dt.hour(),
    col("t").dt.truncate("1h"), col("t").dt.timestamp("ms"), col("t").dt.to_string("%H"), col("t") - col("t"),
    col("x").replace_strict([1, 2, 3, 4], [5, 6, 7, 8]), (col("x") > 1) & ~(col("y") < 0) | (col("s") == "a"),
]  # fmt: skip
ROWS = pa.table(
    {
        "x": pa.array([1, 2, None, 4, 3]),
        "y": [0.5, NAN, 3.0, None, INF],
        "s": ["a", "bab", None, "", "-7"],
        "t": pa.array([0, 1, 10**12, None, 7], pa.timestamp("us", "UTC")),
    }
)


@pytest.mark.parametrize("expr", ROWWISE, ids=repr)
def test_a_rowwise_expression_does_not_see_chunks(expr: nw.Expr) -> None:
    ex.check_rowwise(expr, "select")
    whole = ex.evaluate(expr, ROWS)
    cut = pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1, 0), ROWS.slice(1, 3), ROWS.slice(4)])
    alone = pa.concat_arrays([ex.evaluate(expr, ROWS.slice(k, 1)) for k in range(len(ROWS))])
    for other in (ex.evaluate(expr, cut), alone):
        assert str(other.to_pylist()) == str(whole.to_pylist())  # as text, where NaN equals itself
    assert ex.output_type(expr, ROWS.schema) == whole.type == alone.type
    assert len(whole) == len(ROWS)


@pytest.mark.parametrize(
    "expr",
    [
        col("x").sum(), col("x") > col("x").mean(), col("x").shift(1), col("x").diff(), col("x").rank("min"), nw.len(),
        col("x").sum().over("s"), col("x").cum_sum(), col("x").fill_null(strategy="forward"), col("x").unique(),
        col("x").drop_nulls(), col("x").is_unique(), col("x").is_first_distinct(), col("x").filter(col("x") > 1),
        col("x").rolling_mean(2), col("x").first(), col("x").any(), col("x").null_count(), col("x").map_batches(len),
        col("s").str.to_datetime(), col("s").str.to_date(), col("x") + nw.from_native(ROWS)["x"],
        col("x").is_duplicated(),
        when(col("x").max() > 1).then(1), col("x").name.map(str.upper), lit(1) + col("x").quantile(0.5, "linear"),
    ],
    ids=lambda e: repr(e)[:60],
)  # fmt: skip
def test_what_needs_other_rows_is_refused(expr: nw.Expr) -> None:
    with pytest.raises(ParameterError, match=r"(?s)^where: .*Hint: "):
        ex.check_rowwise(expr, "where")


def test_what_is_no_expression_is_refused() -> None:
    for wrong in (True, "x", None, when(col("x") > 1)):
        with pytest.raises(ParameterError, match="expected an expression"):
            ex.check_rowwise(wrong, "where")  # type: ignore[arg-type]


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_constants_are_repeated() -> None:
    assert ex.evaluate(lit(3) + 1, ROWS).to_pylist() == [4] * len(ROWS)
    assert ex.evaluate(lit("a"), ROWS.slice(0, 0)).to_pylist() == []
    assert ex.evaluate(lit(None), ROWS).to_pylist() == [None] * len(ROWS)
    assert ex.passing_rows(lit(True), ROWS).all()


def test_integers_wrap() -> None:
    table = pa.table({"x": [2**63 - 1]})
    assert ex.evaluate(col("x") + 1, table).to_pylist() == [-(2**63)]


def test_an_integer_beyond_float_is_an_error_and_not_a_rounded_answer() -> None:
    with pytest.raises(DataError, match="9007199254740993"):
        ex.passing_rows(col("x") > 0.5, pa.table({"x": [2**53 + 1]}))


def test_a_missing_column_names_the_choices() -> None:
    table = pa.table({"x": [1], "y": [1], "vz": [1]})
    for call in (
        lambda: ex.evaluate(col("vx") > 1, table),
        lambda: ex.output_type(col("vx") > 1, table.schema),
        lambda: arrow_filter(col("x") > 1, table.schema, ["vx"]),
        lambda: sql_filter(col("x") > 1, table.schema, ["vx"]),
    ):
        with pytest.raises(ParameterError, match="no column 'vx'; this stream has: x, y, vz"):
            call()


@pytest.mark.parametrize(
    "expr",
    [col("s") > 1, col("x").str.len_chars(), col("x") & True, col("t") > datetime(2020, 1, 1), col("x") > 2**70,
    ~col("s"),
     col("x").is_in(["a", 1])],
    ids=repr,
)  # fmt: skip
def test_a_wrong_type_is_found_without_rows(expr: nw.Expr) -> None:
    with pytest.raises(SignalTypeError, match="does not work on"):
        ex.output_type(expr, ROWS.schema)


def test_text_that_is_no_number_is_a_data_error() -> None:
    assert ex.output_type(col("s").cast(nw.Int64), ROWS.schema) == pa.int64()
    with pytest.raises(DataError, match="does not work on s: string"):
        ex.evaluate(col("s").cast(nw.Int64), ROWS)


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(SignalTypeError, match="must be true or false"):
        ex.passing_rows(col("x"), ROWS)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Europe/Paris", "America/New_York", "+02:00"])
def test_a_time_with_a_zone_is_an_instant(zone: str, unit: str) -> None:
    kind = pa.timestamp(unit, zone)
    table = pa.table({"t": pa.array([0, 1, None, -5], pa.timestamp("s", zone)).cast(kind), "x": [1, 2, 3, 4]})
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    local = epoch.astimezone(ZoneInfo("Asia/Tokyo"))
    for expr in (
        col("t") > epoch,
        lit(epoch) < col("t"),
        (col("t") > local) & (col("x") > 1),
        col("t").is_in([epoch + timedelta(seconds=1)]),
        ~col("t").is_between(epoch - timedelta(1), epoch),
        when(col("t") > epoch).then(lit(epoch)).otherwise(None) == epoch,
    ):
        assert ex.passing_rows(expr, table).tolist() == [False, True, False, False]


# A predicate, and the same in plain Python: True, False or None for a row.
Predicate = tuple[nw.Expr, Callable[[dict[str, Any]], "bool | None"]]

INTEGERS = [0, 1, -1, 7, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 5e-324, -5e-324, 1e300, -1e300, 2.0**53, INF, -INF, NAN]
TEXTS = [
    "",
    "a",
    "B",
    "it's",
    'say "hi"',
    "back\\slash",
    "\\",
    "\\'",
    "'; DROP TABLE x; --",
    "${env:HOME}",
    "é\n\0",
    "`",
    "%",
]

integers = st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1)
floats = st.sampled_from(FLOATS) | st.floats()
strings = st.sampled_from(TEXTS) | st.text(max_size=3)
values = {"i": integers, "f": floats, "s": strings, "b": st.booleans()}
TYPES = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "t": pa.int64()}
tables = st.lists(
    st.fixed_dictionaries({k: st.none() | v for k, v in values.items()} | {"t": st.sampled_from([None, 1])}),
    max_size=12,
).map(lambda rows: pa.Table.from_pylist(rows, pa.schema(TYPES)))


@st.composite
def comparisons(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from("ifs"))
    value = draw(values[name])
    op = draw(st.sampled_from(COMPARE))
    left = draw(st.booleans())
    expr = op(col(name), value) if left else op(lit(value), col(name))
    return expr, lambda row: None if row[name] is None else op(row[name], value) if left else op(value, row[name])


@st.composite
def others(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from("is"))
    low, high = draw(values[name]), draw(values[name])
    return draw(
        st.sampled_from(
            [
                (col("b"), lambda row: row["b"]),
                (col(name).is_null(), lambda row: row[name] is None),
                (~col(name).is_null(), lambda row: row[name] is not None),
                (
                    col(name).is_in([low, high, None]),
                    lambda row: None if row[name] is None else row[name] in (low, high),
                ),
                (
                    col(name).is_between(lit(low), lit(high), closed="left"),
                    lambda row: None if row[name] is None else low <= row[name] < high,
                ),
            ]
        )
    )


def both(a: Predicate, b: Predicate) -> Predicate:
    return a[0] & b[0], lambda row: False if False in (x := (a[1](row), b[1](row))) else None if None in x else True


def either(a: Predicate, b: Predicate) -> Predicate:
    return a[0] | b[0], lambda row: True if True in (x := (a[1](row), b[1](row))) else None if None in x else False


def negated(a: Predicate) -> Predicate:
    return ~a[0], lambda row: None if (x := a[1](row)) is None else not x


predicates: st.SearchStrategy[Predicate] = st.recursive(
    comparisons() | others(),
    lambda p: st.builds(both, p, p) | st.builds(both, p, p) | st.builds(either, p, p) | st.builds(negated, p),
    max_leaves=5,
)


@given(tables, predicates)
def test_evaluate_is_what_python_says(table: pa.Table, predicate: Predicate) -> None:
    expr, oracle = predicate
    ex.check_rowwise(expr, "where")
    expected = [oracle(row) for row in table.to_pylist()]
    assert ex.evaluate(expr, table).to_pylist() == expected
    assert ex.passing_rows(expr, table).tolist() == [value is True for value in expected]


@given(st.lists(st.tuples(st.none() | integers, st.none() | floats), max_size=9))
def test_arithmetic_is_what_numpy_says(rows: list[tuple[int | None, float | None]]) -> None:
    table = pa.table(
        {"i": pa.array([r[0] for r in rows], pa.int64()), "f": pa.array([r[1] for r in rows], pa.float64())}
    )
    i, f = (np.array([0 if r[k] is None else r[k] for r in rows], t) for k, t in ((0, np.int64), (1, np.float64)))
    with np.errstate(all="ignore"):
        for expr, expected, source in (
            (col("i") * 3 - 1, i * 3 - 1, 0),
            (col("f") * 2 + 1, f * 2 + 1, 1),
            (col("f") / 3, f / 3, 1),
            (-col("f").abs(), -np.abs(f), 1),
        ):
            got = ex.evaluate(expr, table).to_pylist()
            assert [v is None for v in got] == [r[source] is None for r in rows]
            valid = [k for k, v in enumerate(got) if v is not None]
            np.testing.assert_array_equal([got[k] for k in valid], expected[valid])


# --- push-down --------------------------------------------------------------------------------------------------------


def rows_of(table: pa.Table, path: Path, filter: Any, size: int) -> set[int]:
    """Row numbers that a Parquet file with `size` rows per group yields."""
    pq.write_table(table.append_column("row", pa.array(range(len(table)), pa.int64())), path, row_group_size=size)
    return set(ds.dataset(path).to_table(filter=filter)["row"].to_pylist())


@given(tables, predicates, st.integers(1, 5))
def test_arrow_filter_passes_a_superset(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, predicate: Predicate, size: int
) -> None:
    expr, _ = predicate
    pushed = arrow_filter(expr, table.schema, ["t"])
    if pushed is None:
        return
    passed = rows_of(table, tmp_path_factory.getbasetemp() / "superset.parquet", pushed, size)
    assert passed >= set(np.flatnonzero(ex.passing_rows(expr, table)).tolist())
    assert passed >= {k for k, t in enumerate(table["t"].to_pylist()) if t is None}


NOON = datetime(2020, 3, 29, 12, tzinfo=UTC)
NAIVE = datetime(2020, 3, 29, 2, 30)  # an hour that Paris skips
WEIRD = "we`ird.na me"
EDGES = {
    "i": (pa.int64(), INTEGERS),
    "j": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1]),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float32(), [0.0, -0.0, 1.0, 0.1, 2.0**24, 1e-45, INF, -INF, NAN]),
    WEIRD: (pa.string(), TEXTS),
    "b": (pa.bool_(), [True, False]),
    "ts": (pa.timestamp("us", "UTC"), [NOON, NOON + timedelta(microseconds=1), datetime(1900, 1, 1, tzinfo=UTC)]),
    "nt": (pa.timestamp("us"), [NAIVE, NAIVE + timedelta(microseconds=1), datetime(1900, 1, 1)]),
    "d": (pa.date32(), [date(2020, 3, 29), date(1970, 1, 1), date(1900, 1, 1)]),
}
MORE: dict[str, list[Any]] = {
    "i": [0.0, 1.5, 2.0**53, NAN, np.int64(7)],
    "j": [2**40, -(2**40), 16777216.0],
    "f": [0, 1, 2**53, np.float64(0.1)],
    "g": [2**24 + 1, 0.1],
    "ts": [NOON.astimezone(ZoneInfo("Europe/Paris")), NOON - timedelta(microseconds=1)],
}


def edge_table() -> pa.Table:
    """Every edge value of every column, in columns of one length, with nulls."""
    size = max(len(edges) for _, edges in EDGES.values()) + 1
    columns = {name: pa.array(([None, *edges] * size)[:size], kind) for name, (kind, edges) in EDGES.items()} | {
        "k": pa.array([None if row % 4 == 0 else row for row in range(size)], pa.int64())
    }
    return pa.table(columns)


def edge_predicates() -> list[nw.Expr]:
    """Comparisons of every column with its edge values, and the other forms."""
    made = [op(col(n), v) for n, (_, edges) in EDGES.items() for op, v in product(COMPARE, [*edges, *MORE.get(n, [])])]
    for name, (_, edges) in EDGES.items():
        made += [col(name).is_null(), ~col(name).is_null(), col(name).is_in(edges), col(name).is_in([edges[0], None])]
        made += [col(name).is_in(edges * 2), col(name).is_in(edges[-1:])]
        made += [col(name).is_between(lit(a), lit(b)) for a, b in product(edges[:3], edges[:3])]
    made += [col("b"), ~col("b"), col("b") & (col("f") >= 0), (col("f") >= 0) & (col("i") < 2**53) & (col("f") * 2 > 1)]
    return made


def answers(table: pa.Table) -> list[tuple[nw.Expr, set[int]]]:
    """The predicates that Arrow has an answer to, and the rows that pass."""
    found = []
    for expr in edge_predicates():
        try:
            found.append((expr, set(np.flatnonzero(ex.passing_rows(expr, table)).tolist())))
        except (DataError, SignalTypeError):  # no order on booleans; integers beyond 2**53 against floats
            continue
    return found


@pytest.mark.parametrize("size", [1, 3, 100])
def test_arrow_filter_on_edge_values(tmp_path: Path, size: int) -> None:
    table = edge_table()
    null_keys = {row for row, k in enumerate(table["k"].to_pylist()) if k is None}
    pushed = [(e, rows, f) for e, rows in answers(table) if (f := arrow_filter(e, table.schema, ["k"])) is not None]
    assert len(pushed) > 200
    for expr, expected, condition in pushed:
        assert rows_of(table, tmp_path / "edges.parquet", condition, size) >= expected | null_keys, repr(expr)


def test_statistics_without_nan_would_lose_rows(tmp_path: Path) -> None:
    table = pa.table({"f": [3.0, NAN]})
    # Why "not equal" on floats is not pushed: the file says that all are 3.0.
    assert rows_of(table, tmp_path / "nan.parquet", ds.field("f") != 3.0, 2) == set()
    assert arrow_filter(col("f") != 3.0, table.schema) is None
    assert ex.passing_rows(col("f") != 3.0, table).tolist() == [False, True]


SCHEMA = pa.schema(
    {n: k for n, (k, _) in EDGES.items()}
    | {"u": pa.uint64(), "h": pa.float16(), "c": pa.dictionary(pa.int8(), pa.string()), "z": pa.timestamp("s", "UTC")}
)


@pytest.mark.parametrize(
    "expr",
    [
        col("f") > NAN, col("f") != 1.0, col("f") > INF, col("f") > 2**53 + 1, col("f").is_in([1.0]), col("i") > 0.0,
        col("i") > 2**63, col("i") > "1", col("i") > True, col("b") > True, col("u") > 1, col("h") > 1.0,
        col("c") == "a",
        col("ts") > NAIVE, col("nt") > NOON, col("d") > NAIVE, col("ts") > date(2020, 1, 1), col("i") == col("j"),
        col("z") > NOON + timedelta(microseconds=1), (col("i") > 1) | (col("i") < 0), ~(col("i") > 1), col("i") + 1 > 2,
        col("i").abs() > 1, lit(1) < col("i").abs(), lit(1) < lit(2), col("i") == lit(1, nw.Int8), col("i") == None,  # noqa: E711
        col("i").is_in([]), col("i").is_in([None]), col("i").is_in([1, 2.0]), col("i").is_in(range(3)),
        col("i").is_in(list(range(2000))), col("i").is_between("j", "j"), col("f") > np.float32(0.1), lit(True),
        col(WEIRD) == "\ud800", when(col("i") > 1).then(True), (col("i") > 1).is_null(), ~col("b"),
        nw.all_horizontal(col("i") > 1, ignore_nulls=True), col("nope") > 1,
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_doubtful_is_not_pushed(expr: nw.Expr) -> None:
    assert arrow_filter(expr, SCHEMA) is None
    assert sql_filter(expr, SCHEMA) is None


def test_a_doubtful_part_leaves_the_others() -> None:
    expr = (col("i") > 1) & (col("f") != 1.0) & (lit(2) >= col("j")) & True
    assert sql_filter(expr, SCHEMA, ["b"]) == "(`i` > 1L AND `j` <= 2L) OR `b` IS NULL"
    assert str(arrow_filter(expr, SCHEMA, ["b"])) == "(((i > 1) and (j <= 2)) or is_null(b, {nan_is_null=false}))"


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (col("i") == -(2**63), "`i` = -9223372036854775808L"),
        (col("f") >= 0, "`f` >= -5e-324D"),
        (col("f") == -0.0, "`f` >= -5e-324D AND `f` <= 5e-324D"),
        (col("f") < -1e300, "`f` < -1e+300D"),
        (col("b") == False, "`b` = FALSE"),  # noqa: E712
        (col(WEIRD) == "a b", "`we``ird.na me` = 'a b'"),
        (col(WEIRD).is_in(["a", "\\'"]), "`we``ird.na me` IN ('a', CAST(X'5C27' AS STRING))"),
        (col("ts") > NOON.astimezone(ZoneInfo("Asia/Tokyo")), "`ts` > timestamp_micros(1585483200000000L)"),
        (col("nt") > NAIVE, "`nt` > TIMESTAMP_NTZ '2020-03-29 02:30:00'"),
        (
            col("d").is_between(date(2020, 1, 1), date(2020, 2, 1), "none"),
            "`d` > DATE '2020-01-01' AND `d` < DATE '2020-02-01'",
        ),
        (~col("i").is_null(), "`i` IS NOT NULL"),
    ],
)
def test_sql(expr: nw.Expr, expected: str) -> None:
    assert sql_filter(expr, SCHEMA) == f"({expected})"


def test_sql_is_not_made_where_spark_would_read_something_else() -> None:
    schema = pa.schema(
        {"x": pa.int64(), "X": pa.int64(), "${y}": pa.int64(), "": pa.int64(), "s": pa.string(), "z": pa.int64()}
    )
    for name in ("x", "${y}", ""):
        assert sql_filter(col(name) > 1, schema) is None
        assert sql_filter(col("z") > 1, schema, [name]) is None
        assert arrow_filter(col(name) > 1, schema) is not None
    for expr in (col("s") > "a", col("s") != "a"):  # a collation may order and equate otherwise
        assert sql_filter(expr, schema) is None


@given(strings)
def test_text_cannot_leave_its_quotes(value: str) -> None:
    sql = sql_filter(col("s") == value, pa.schema({"s": pa.string()}))
    assert sql is not None
    assert sql.count("'") == 2
    assert not set(sql.split("'")[1]) & set('\\${}`"\n;')


@pytest.mark.spark
def test_sql_filter_on_edge_values(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    table = edge_table()
    numbered = table.append_column("row", pa.array(range(len(table)), pa.int64()))
    pq.write_table(numbered, tmp_path / "edges.parquet", row_group_size=1)
    null_keys = {row for row, k in enumerate(table["k"].to_pylist()) if k is None}
    pushed = [(e, rows, f) for e, rows in answers(table) if (f := sql_filter(e, table.schema, ["k"])) is not None]
    assert len(pushed) > 200

    settings = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.parser.escapedStringLiterals": "true"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        frame = spark.read.parquet(str(tmp_path / "edges.parquet"))
        flags = frame.select("row", F.array(*(F.expr(sql) for *_, sql in pushed)).alias("passed")).collect()
        # Filters reach the Parquet reader only where they are filters; zero and its neighbours are what it gets wrong.
        zeros = [(e, rows, sql) for e, rows, sql in pushed if "e-324D" in sql or "`g`" in sql]
        scans = [frame.where(sql).select(F.lit(k).alias("k"), "row") for k, (*_, sql) in enumerate(zeros)]
        union = scans[0]
        for scan in scans[1:]:
            union = union.unionAll(scan)
        scanned = union.collect()
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)

    for k, (expr, expected, _) in enumerate(pushed):
        assert {flag.row for flag in flags if flag.passed[k]} >= expected | null_keys, repr(expr)
    for k, (expr, expected, _) in enumerate(zeros):
        assert {found.row for found in scanned if found.k == k} >= expected | null_keys, repr(expr)
