"""Types that differ between files: one type that holds all values, or an error with the files and the column."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.connect.schemas import common, conform, merge

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
BYTES = [pa.binary(), pa.large_binary(), pa.binary(2)]
ZONED = [pa.timestamp(u, z) for u, z in (("s", "UTC"), ("us", "UTC"), ("ns", "Europe/Paris"))]
NAIVE = [pa.timestamp(u) for u in ("s", "ms", "us", "ns")]
FAMILIES: dict[str, list[pa.DataType]] = {
    "numbers": [*INTEGERS, *FLOATS],
    "decimals": [pa.decimal128(9, 2), pa.decimal128(20, 0), pa.decimal256(12, 4)],
    "texts": TEXTS,
    "bytes": BYTES,
    "zoned": ZONED,
    "naive": NAIVE,
    "durations": [pa.duration("s"), pa.duration("ns")],
    "times of day": [pa.time32("s"), pa.time64("us"), pa.time64("ns")],
    "dates": [pa.date32(), pa.date64()],
    "booleans": [pa.bool_()],
    "lists": [pa.list_(pa.int32()), pa.large_list(pa.float64()), pa.list_(pa.float32(), 2), pa.list_(pa.float64(), 2)],
    "structs": [
        pa.struct([("re", pa.float32()), ("im", pa.float32())]),
        pa.struct([("im", pa.float64()), ("re", pa.int16()), ("n", pa.string())]),
    ],
}
ALL = [(name, kind) for name, kinds in FAMILIES.items() for kind in kinds]


def values(kind: pa.DataType) -> list[Any]:
    """Nulls and the values at which casts go wrong."""
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        edges = [0, 1, limits.min, limits.max, 2**53, 2**53 + 1, -(2**53) - 1, 2**24 + 1, 2049, 2**63, 2**60]
        return [None, *(v for v in edges if limits.min <= v <= limits.max)]
    if pa.types.is_floating(kind):
        top = float(np.finfo(kind.to_pandas_dtype()).max)
        return [None, 0.0, -0.0, 1.0, 2.5, math.nan, math.inf, -math.inf, top, -top, 2048.0]
    if pa.types.is_decimal(kind):
        return [None, Decimal(5), Decimal(10) ** (kind.precision - kind.scale - 1)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [None, [], [1, None, 3], [7]]
    if pa.types.is_fixed_size_list(kind):
        return [None, [1, 2], [None, 4]]
    if pa.types.is_struct(kind):
        return [None, {f.name: None for f in kind}, {f.name: "x" if f.name == "n" else 2 for f in kind}]
    if pa.types.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        return [None, dt.datetime(2024, 5, 1, 12, tzinfo=zone), dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=zone)]
    samples: dict[Any, list[Any]] = {
        pa.types.is_duration: [None, dt.timedelta(seconds=3), dt.timedelta(0)],
        pa.types.is_time: [None, dt.time(1, 2, 3)],
        pa.types.is_date: [None, dt.date(2024, 2, 29)],
        pa.types.is_boolean: [None, True, False],
        pa.types.is_fixed_size_binary: [None, b"ab"],
    }
    found = next((v for is_kind, v in samples.items() if is_kind(kind)), None)
    return found or ([None, b"", b"ab"] if kind in BYTES else [None, "", "ab", "é"])


def array(kind: pa.DataType, some: list[Any]) -> pa.Array:
    if pa.types.is_floating(kind):
        numbers = np.array([0 if v is None else v for v in some], kind.to_pandas_dtype())
        return pa.array(numbers, kind, mask=np.array([v is None for v in some]))
    return pa.array(some, kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(some, kind)


def same(one: Any, other: Any) -> bool:
    """As values, exactly: NaN is NaN, and -0.0 is not 0; what a struct has not is null in it."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(n), other.get(n)) for n in one | other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    sign = [math.copysign(1, v) if v == 0 and not isinstance(v, Decimal) else 1 for v in (one, other) if _number(v)]
    return bool(one == other) and len(set(sign)) <= 1


def _number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


@pytest.mark.parametrize("kind", [k for _, k in ALL], ids=str)
def test_two_types_have_one_that_holds_both_or_none(kind: pa.DataType) -> None:
    family = next(name for name, k in ALL if k == kind)
    for name, other in ALL:
        found = common(kind, other)
        assert common(other, kind) == found or pa.types.is_struct(kind), (kind, other)
        mixed = {"numbers", "decimals"} == {name, family}
        assert (found is not None) == (name == family) or mixed, (kind, other, found)
        assert not mixed or (found is not None) == (not (pa.types.is_floating(kind) or pa.types.is_floating(other)))
        if found is not None:
            assert common(found, kind) == found and common(found, other) == found
    assert common(kind, pa.null()) == common(pa.null(), kind) == common(kind, kind) == kind


EXACT_ENOUGH = [(i, f) for i, f in product((pa.int64(), pa.uint64()), FLOATS)] + [
    (i, pa.uint64()) for i in INTEGERS if pa.types.is_signed_integer(i)
]
"""Pairs for which there is no type that holds all values of both."""


@pytest.mark.parametrize("kind", [k for _, k in ALL], ids=str)
def test_values_stay_what_they_are_or_are_told(kind: pa.DataType) -> None:
    """Into the type of both, and into the type of the other, as in a stream whose schema is frozen."""
    together = [(o, both) for _, o in ALL if (both := common(kind, o)) is not None]
    for wanted, other, found in ((w, o, both) for o, both in together for w in (both, o)):
        schema = pa.schema([("v", wanted)])
        refused = []
        for value in values(kind):
            one = array(kind, [None, value, None]).slice(1)  # with an offset, which casts of lists may forget
            try:
                told = conform(pa.table({"v": one}), schema, "b.parquet", what="read.parquet")
            except hp.DataError as error:
                assert f"b.parquet: column 'v' is {kind}, and the query reads it as {wanted}" in str(error)
                refused.append(value)
                continue
            assert told.schema == schema
            assert all(map(same, one.to_pylist(), told["v"].to_pylist())), (value, told["v"].to_pylist())
        promised = (kind, other) not in EXACT_ENOUGH and (other, kind) not in EXACT_ENOUGH
        assert not (refused and wanted == found and promised), refused
        assert None not in refused


def test_times_beyond_the_finer_unit_are_told() -> None:
    far = pa.table({"t": pa.array([10**11], pa.timestamp("s"))})
    with pytest.raises(hp.DataError, match=r"a\.csv: column 't' is timestamp\[s\], and the query .*out of bounds"):
        conform(far, pa.schema([("t", pa.timestamp("ns"))]), "a.csv", what="read.csv")
    fine = pa.table({"t": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(hp.DataError, match="would lose data: 1001"):
        conform(fine, pa.schema([("t", pa.timestamp("us"))]), "a.csv", what="read.csv")


def test_the_first_file_leads_and_both_files_are_named() -> None:
    files = [
        ("a", pa.schema([("k", pa.int32()), ("v", pa.float32()), ("n", pa.null())])),
        ("b", pa.schema([("v", pa.float64()), ("k", pa.int64()), ("w", pa.string())])),
        ("c", pa.schema([("n", pa.bool_()), ("w", pa.int8()), ("v", pa.string())])),
    ]
    merged = merge(files, what="read.parquet")
    assert merged.schema.names == ["k", "v", "n", "w"]
    assert merged.schema.types == [pa.int64(), pa.float64(), pa.bool_(), pa.string()]
    merged.check(["k", "n"])  # what nobody reads may be anything
    with pytest.raises(hp.DataError, match="column 'v' is double in b and string in c"):
        merged.check(["k", "v"])
    with pytest.raises(hp.DataError, match="column 'w' is string in b and int8 in c"):
        merged.check(["w"])


# --- files ------------------------------------------------------------------------------------------------------------


def lake(folder: Path, *files: dict[str, pa.Array]) -> hp.Stream:
    folder.mkdir(exist_ok=True)
    for number, columns in enumerate(files):
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return hp.read.parquet(folder, key="k", time="t", progress=hp.delayed("1d"))


def drifted(number: int, k: pa.DataType, t: pa.DataType, v: pa.DataType, s: pa.DataType) -> dict[str, pa.Array]:
    rows = range(4 * number, 4 * number + 4)
    times = [1_700_000_000 + n for n in rows]
    return {
        "k": pa.array([n % 2 for n in rows], k),
        "t": pa.array(times, pa.timestamp("s", getattr(t, "tz", None))).cast(t),
        "v": array(v, [float(n) if pa.types.is_floating(v) else n for n in rows]),
        "s": pa.array([str(n) for n in rows], pa.string()).cast(s),
    }


DRIFT = [
    drifted(0, pa.int16(), pa.timestamp("ms", "UTC"), pa.float32(), pa.string()),
    drifted(1, pa.int64(), pa.timestamp("us", "Europe/Paris"), pa.float64(), pa.large_string()),
    dict(reversed(drifted(2, pa.int32(), pa.timestamp("us", "UTC"), pa.int64(), pa.string()).items())),
    {**drifted(3, pa.uint8(), pa.timestamp("s", "UTC"), pa.int8(), pa.string()), "s": pa.nulls(4)},
    {n: c for n, c in drifted(4, pa.int16(), pa.timestamp("ms", "UTC"), pa.float16(), pa.string()).items() if n != "s"},
]
"""Files of one lake: key, time, number and text of other types, in another order, all null, and missing."""


def expected() -> list[dict[str, Any]]:
    start = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    return [
        {"k": n % 2, "t": start + dt.timedelta(seconds=n), "v": float(n), "s": str(n) if n < 12 else None}
        for n in range(20)
    ]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.select(["k", "t", "v", "s"]).to_pylist(), key=lambda row: row["t"])


@pytest.mark.parametrize("first", range(len(DRIFT)))
def test_files_that_drift_are_read_exactly_in_any_order(tmp_path: Path, first: int) -> None:
    stream = lake(tmp_path, *DRIFT[first:], *DRIFT[:first])
    kinds = {f.name: f.type for f in stream.node.layout.schema}  # type: ignore[attr-defined]
    assert kinds["k"] == pa.int64() and kinds["v"] == pa.float64() and kinds["t"] == pa.timestamp("us", "UTC")
    assert rows(stream.to_arrow()) == rows(pa.concat_tables(stream.batches(3))) == expected()
    some = stream.where((hp.col("v") > 3) & (hp.col("k") == 1)).to_arrow()
    assert rows(some) == [row for row in expected() if row["v"] > 3 and row["k"] == 1]


@pytest.mark.spark
@pytest.mark.parametrize("plan", ["slices", "shards"])
def test_files_that_drift_are_read_exactly_on_spark(spark: Any, tmp_path: Path, plan: Any) -> None:
    stream = lake(tmp_path, *DRIFT)
    assert rows(stream.to_spark(spark, plan=plan).toArrow()) == expected()
    some = stream.where((hp.col("v") > 3) & (hp.col("k") == 1)).to_spark(spark, plan=plan).toArrow()
    assert rows(some) == [row for row in expected() if row["v"] > 3 and row["k"] == 1]


BAD: dict[str, tuple[dict[str, pa.Array], str]] = {
    "zones": (drifted(9, pa.int16(), pa.timestamp("ms"), pa.float32(), pa.string()), "column 't' is .* with a zone"),
    "text": ({**DRIFT[0], "v": pa.array(["1", "2", "3", "4"])}, "column 'v' is .* and string in"),
    "text as key": ({**DRIFT[0], "k": pa.array(["1", "2", "3", "4"])}, "column 'k' is .* and string in"),
    "booleans": ({**DRIFT[0], "v": pa.array([True, False, True, None])}, "column 'v' is .* and bool in"),
    "dates": ({**DRIFT[0], "v": pa.array([1, 2, 3, 4], pa.date32())}, "column 'v' is .* and date32"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_means_other_things_names_both_files(tmp_path: Path, name: str) -> None:
    columns, says = BAD[name]
    for folder, files in (("last", [DRIFT[0], columns]), ("first", [columns, DRIFT[0]])):
        with pytest.raises(hp.DataError, match=r"read\.parquet: column") as told:
            lake(tmp_path / folder, *files).to_arrow()
        assert "0.parquet" in str(told.value) and "1.parquet" in str(told.value) and told.value.hint
        assert folder == "first" or re.search(says, str(told.value))


def test_a_column_that_nobody_reads_may_be_anything(tmp_path: Path) -> None:
    stream = lake(tmp_path, DRIFT[0], {**DRIFT[1], "s": pa.array([1, 2, 3, 4])})
    assert len(stream.select("v").to_arrow()) == 8
    with pytest.raises(hp.DataError, match=r"column 's' is string in \S+0\.parquet and int64 in \S+1\.parquet"):
        stream.to_arrow()


def test_integers_that_a_double_does_not_hold_are_told(tmp_path: Path) -> None:
    stream = lake(tmp_path, {**DRIFT[2], "v": pa.array([1, 2, 2**53 + 1, None])}, DRIFT[1])
    with pytest.raises(
        hp.DataError,
        match=r"0\.parquet: column 'v' is int64, .* as double because of \S*1\.parquet, which does not hold 9007199254740993",
    ):
        stream.to_arrow()


# --- stated columns, and no file yet ----------------------------------------------------------------------------------

STATED = {"k": "int64", "t": pa.timestamp("us", "UTC"), "v": "float64", "s": "string"}


def test_stated_columns_need_no_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(hp.ParameterError, match=r"no \*\.parquet files under[\s\S]*schema="):
        hp.read.parquet(tmp_path / "in", key="k", time="t")
    for read in (hp.read.parquet, hp.read.csv):
        query = read(tmp_path / "in", key="k", time="t", schema=STATED, progress=hp.delayed("1d")).tumble("1s")
        empty = query.agg(n=hp.count(), v=hp.mean("v"))
        assert empty.to_arrow().num_rows == 0 and empty.to_arrow().column_names == ["k", "t", "end", "n", "v"]
        assert list(empty.batches(10)) == []
    lake(tmp_path / "in", *DRIFT)
    query = hp.read.parquet(tmp_path / "in", key="k", time="t", schema=STATED)
    assert rows(query.to_arrow()) == expected()
    narrow = hp.read.parquet(tmp_path / "in", key="k", time="t", schema={**STATED, "v": "int8"})
    assert [row["v"] for row in rows(narrow.to_arrow())] == list(range(20))  # all are whole and small
    with pytest.raises(hp.DataError, match=r"0\.parquet: column 'v' is float, and the query reads it as string"):
        hp.read.parquet(tmp_path / "in", key="k", time="t", schema={**STATED, "v": "string"}).to_arrow()
    with pytest.raises(hp.ParameterError, match=r"read\.parquet: schema: 'v' has 'number', which is no type"):
        hp.read.parquet(tmp_path / "in", key="k", time="t", schema={**STATED, "v": "number"})
    with pytest.raises(hp.ParameterError, match=r"read\.csv: types and schema"):
        hp.read.csv(tmp_path / "in", time="t", schema=STATED, types={"v": "float64"})


@pytest.mark.spark
@pytest.mark.parametrize("plan", ["auto", "shards"])
def test_no_files_yet_on_spark(spark: Any, tmp_path: Path, plan: Any) -> None:
    query = hp.read.parquet(tmp_path, key="k", time="t", schema=STATED).tumble("1s").agg(n=hp.count())
    assert query.to_spark(spark, plan=plan).toArrow().num_rows == 0


# --- folders ----------------------------------------------------------------------------------------------------------


def in_folder(root: Path, folder: str, **columns: Any) -> None:
    (root / folder).mkdir(parents=True)
    pq.write_table(pa.table({"t": [1, 2], **columns}), root / folder / "a.parquet")


def test_a_column_of_the_file_and_of_its_folder(tmp_path: Path) -> None:
    """The file's type reads the text of the folder, and the values must agree: Arrow would take the folder's."""
    in_folder(tmp_path, "k=7", v=[1.0, 2.0], k=pa.array([7, 7], pa.int64()))
    in_folder(tmp_path, "k=8", v=[3.0, 4.0])
    stream = hp.read.parquet(tmp_path, key="k", time="t")
    assert sorted(stream.to_arrow()["k"].to_pylist()) == [7, 7, 8, 8]
    in_folder(tmp_path, "k=9", v=[3.0, 4.0], k=pa.array([9, 5], pa.int64()))
    stream = hp.read.parquet(tmp_path, key="k", time="t")
    with pytest.raises(
        hp.DataError, match=r"k=9/a\.parquet: column 'k' has other values than its folder, which says 9"
    ):
        stream.to_arrow()


def test_text_in_folders_keeps_its_zeros_where_files_say_text(tmp_path: Path) -> None:
    in_folder(tmp_path, "k=007", v=[1.0, 2.0], k=["007", "007"])
    in_folder(tmp_path, "k=008", v=[1.0, 2.0])
    assert set(hp.read.parquet(tmp_path, key="k", time="t").to_arrow()["k"].to_pylist()) == {"007", "008"}


def test_a_folder_whose_text_is_no_value_is_told(tmp_path: Path) -> None:
    in_folder(tmp_path, "k=7", v=[1.0, 2.0])
    in_folder(tmp_path, "k=seven", v=[1.0, 2.0])
    assert set(hp.read.parquet(tmp_path, key="k", time="t").to_arrow()["k"].to_pylist()) == {"7", "seven"}
    stated = hp.read.parquet(tmp_path, key="k", time="t", schema={"k": "int32", "t": "int64", "v": "float64"})
    with pytest.raises(hp.DataError, match=r"k=seven/a\.parquet: the folder says 'seven', and .* as int32"):
        stated.to_arrow()


# --- CSV --------------------------------------------------------------------------------------------------------------


def texts(folder: Path, *files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(files):
        (folder / f"{number}.csv").write_text(text)
    return folder


@pytest.mark.parametrize("turned", [False, True])
def test_csv_files_follow_the_same_rules(tmp_path: Path, turned: bool) -> None:
    files = ["t,v,w\n1,1,2024-01-01\n2,2,2024-01-02\n", "t,w,v\n3,2024-01-01 10:00:00.5,2.5\n", "t,v\n4,7\n", "t,v,w\n"]
    found = hp.read.csv(texts(tmp_path, *(files[::-1] if turned else files)), time="t").to_arrow().sort_by("t")
    assert found["v"].to_pylist() == [1.0, 2.0, 2.5, 7.0]
    assert found["w"].cast(pa.timestamp("us")).to_pylist() == [
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 1, 2),
        dt.datetime(2024, 1, 1, 10, 0, 0, 500_000),
        None,
    ]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ("t,v\n2024-01-01T10:00:00Z,1\n", "t,v\n2024-01-01T10:00:00,1\n", "column 't' is timestamp.*with a zone"),
        ("t,v\n2024-01-01T10:00:00,1\n", "t,v\n17,1\n", "column 't' is .* in"),
        ("t,v\n1,5\n", "t,v\n2,five\n", "column 'v' is .* in"),
        ("t,v\n1,true\n", "t,v\n2,7\n", "column 'v' is .* in"),
        ("t,v\n1,9007199254740993\n", "t,v\n2,0.5\n", "column 'v' holds integers of 9007199254740992 and more"),
    ],
)
def test_csv_files_that_mean_other_things_are_named(
    tmp_path: Path, one: str, other: str, says: str, turned: bool
) -> None:
    folder = texts(tmp_path, *((other, one) if turned else (one, other)))
    with pytest.raises(hp.DataError, match=says) as told:
        hp.read.csv(folder, time="t").to_arrow()
    assert "0.csv" in str(told.value) and "1.csv" in str(told.value) and "types=" in str(told.value.hint)
    if "integers" in says:  # a stated type is what the user wants
        assert len(hp.read.csv(folder, time="t", types={"v": "float64"}).to_arrow()) == 2


def test_a_csv_file_without_its_time_or_key_is_named(tmp_path: Path) -> None:
    folder = texts(tmp_path, "k,t,v\na,1,2\n", "k;t;v\na;2;3\n")
    with pytest.raises(hp.DataError, match=r"1\.csv: no column 'k'; the file has: k;t;v[\s\S]*delimiter"):
        hp.read.csv(folder, key="k", time="t").to_arrow()


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (pa.list_(pa.int32()), pa.list_(pa.float64())),
        (pa.large_list(pa.int32()), pa.list_(pa.float64())),
        (pa.list_(pa.int32(), 2), pa.list_(pa.float64(), 2)),
        (pa.list_(pa.int32(), 2), pa.large_list(pa.int64())),
    ],
)
def test_a_slice_of_lists_is_converted_by_itself(kind: pa.DataType, wanted: pa.DataType) -> None:
    rows = [[n, n + 1] if n % 7 else None for n in range(50)]
    table = pa.table({"v": pa.array(rows, kind)})
    for start, count in ((0, 50), (3, 10), (7, 1), (48, 2), (20, 0)):
        found = conform(table.slice(start, count), pa.schema([("v", wanted)]), "a", what="read")["v"]
        assert found.type == wanted
        assert found.to_pylist() == rows[start : start + count]
    # A value that the wanted type does not hold lies outside of the slice.
    odd = pa.table({"v": pa.array([[2**53 + 1], [1]], pa.list_(pa.int64()))})
    assert conform(odd.slice(1), pa.schema([("v", pa.list_(pa.float64()))]), "a", what="read")["v"].to_pylist() == [
        [1.0]
    ]
