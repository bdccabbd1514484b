"""CSV files in: what their text means, and what is told of text that means nothing."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp


def csv(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("cell", "nanoseconds"),
    [
        ("2024-01-01", 0),
        ("2024-01-01 00:00", 0),
        ("2024-01-01T00:00:01", 1_000_000_000),
        ("2024-01-01 00:00:00.000000001", 1),
        ("2024-01-01T00:00:00.5Z", 500_000_000),
        ("2024-01-01T01:00:00+01:00", 0),
    ],
)
def test_times_of_csv_files_are_read_to_the_nanosecond(tmp_path: Path, cell: str, nanoseconds: int) -> None:
    query = hp.read.csv(csv(tmp_path, f"ts,v\n{cell},1\n"), time="ts")
    assert query.to_arrow()["ts"].cast(pa.int64()).to_pylist() == [1_704_067_200_000_000_000 + nanoseconds]


def test_later_rows_may_show_finer_times_than_the_first(tmp_path: Path) -> None:
    csv(tmp_path, "ts,v\n2024-01-01,1\n", "1.csv")
    csv(tmp_path, "ts,v\n2024-01-01 00:00:00.25,2\n", "2.csv")
    times = hp.read.csv(tmp_path, time="ts").to_arrow()["ts"].cast(pa.int64()).to_numpy()
    assert np.ptp(times) == 250_000_000


def test_integers_are_nanoseconds_and_stay_integers(tmp_path: Path) -> None:
    assert hp.read.csv(csv(tmp_path, "ts,v\n7,1\n"), time="ts").to_arrow()["ts"].to_pylist() == [7]


@pytest.mark.parametrize(
    ("unit", "cell", "nanoseconds"),
    [
        ("s", "1714521600", 1714521600_000000000),
        ("ms", "1714521600123", 1714521600123_000000),
        ("us", "-9007199254740993", -9007199254740993_000),  # one more than floats can count
        ("ns", "9007199254740993", 9007199254740993),
        ("s", "0.1", 100_000_000),
        ("s", "-0.25", -250_000_000),
        ("s", "1714521600.5", 1714521600_500000000),
        ("ms", "0.0000015", 2),
        ("ns", "3.0", 3),
    ],
)
def test_times_that_are_numbers_count_a_unit(tmp_path: Path, unit: Any, cell: str, nanoseconds: int) -> None:
    found = hp.read.csv(csv(tmp_path, f"t,v\n{cell},1\n"), time="t", time_unit=unit).to_arrow()
    assert found["t"].type == pa.int64() and found["t"].to_pylist() == [nanoseconds]


def test_short_floats_are_times_as_exactly_as_they_can(tmp_path: Path) -> None:
    found = hp.read.csv(csv(tmp_path, "t,v\n0.1,1\n"), time="t", time_unit="s", types={"t": "float32"}).to_arrow()
    assert found["t"].to_pylist() == [round(float(np.float32(0.1)) * 1e9)]


def test_ends_marks_and_missing_times_have_the_unit_too(tmp_path: Path) -> None:
    file = csv(tmp_path, "t,e,m,v\n0,1.5,,1\n2,2.5,0.5,2\n")
    promise = hp.punctuated("m")
    rows = hp.read.csv(file, time="t", end="e", time_unit="s", progress=promise)
    assert rows.to_arrow().to_pydict()["e"] == [1_500_000_000, 2_500_000_000]
    assert rows.node.layout.schema.field("m").type == pa.int64()  # type: ignore[attr-defined]
    with pytest.raises(hp.DataError, match="1 row"):
        hp.read.csv(csv(tmp_path, "t,v\n1,1\n,2\n", "hole.csv"), time="t", time_unit="s").to_arrow()


def test_numbers_that_are_no_times_are_told(tmp_path: Path) -> None:
    seconds = csv(tmp_path, "t,v\n0.0,1\n0.1,2\n")
    with pytest.raises(hp.SignalTypeError, match=r"column 't' is double[\s\S]*time_unit=\"s\""):
        hp.read.csv(seconds, time="t")
    with pytest.raises(hp.ParameterError, match="time_unit must be one of s, ms, us, ns, got 'min'"):
        hp.read.csv(seconds, time="t", time_unit="min")  # type: ignore[arg-type]
    with pytest.raises(hp.ParameterError, match="time_format is for times that are text"):
        hp.read.csv(seconds, time="t", time_unit="s", time_format="%H")
    with pytest.raises(hp.SignalTypeError, match="for times that are numbers, and column 't' is timestamp"):
        hp.read.csv(csv(tmp_path, "t,v\n2024-01-01 10:00:00,1\n", "iso.csv"), time="t", time_unit="s")
    for cell in ("1714521600123", "nan", "-inf"):
        file = csv(tmp_path, f"t,v\n1.0,1\n{cell},2\n", "far.csv")
        with pytest.raises(hp.DataError, match=r"far.csv: column 't': .* s is no instant"):
            hp.read.csv(file, time="t", time_unit="s").to_arrow()


def test_one_file_read_in_two_ways_is_two_sources(tmp_path: Path) -> None:
    file = csv(tmp_path, "t,v\n1,x\n2,NA\n")
    ways: list[dict[str, Any]] = [{"time_unit": "s"}, {"time_unit": "ms"}, {"null_values": ("NA",)}]
    first, second, third = (hp.read.csv(file, time="t", **way) for way in ways)
    found = first.union(second, third).to_arrow()
    times = [1, 2, 1_000_000, 2_000_000, 1_000_000_000, 2_000_000_000]
    assert sorted(found["t"].to_pylist()) == times and found["v"].null_count == 1


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["2024-01-01T00:00:00Z", "2024-01-01T00:00:01"], r"row 3, column 't': .*\s.*\s.*zone \(such as Z\) in all"),
        (
            ["2024-01-01T00:00:00", "2024-01-01T00:00:01+01:00"],
            r"row 3, column 't': .*\s.*\s.*in all its rows or in none",
        ),
        (["2024-01-01", "noon"], r"row 3, column 't': .*invalid value 'noon'"),
        (["01.05.2024 10:00:00", "01.05.2024 10:00:01"], r"row 2, column 't': .*\s.*\s.*time_format="),
    ],
)
def test_text_that_is_no_time_is_told_with_its_row(tmp_path: Path, cells: list[str], message: str) -> None:
    with pytest.raises(hp.DataError, match=message):
        hp.read.csv(csv(tmp_path, "t,v\n" + "".join(f"{c},1\n" for c in cells)), time="t")


def test_fractions_of_seconds_in_another_format_are_refused(tmp_path: Path) -> None:
    file = csv(tmp_path, "t,v\n01.05.2024 10:00:00.5,1\n")
    with pytest.raises(hp.ParameterError, match=r"fractions of a second \(%f\) are read in ISO 8601 only"):
        hp.read.csv(file, time="t", time_format="%d.%m.%Y %H:%M:%S.%f")


def test_csv_files_are_read_by_column_name_also_compressed(tmp_path: Path) -> None:
    csv(tmp_path, "ts,key,v\n1,a,1.5\n")
    (tmp_path / "more.csv.gz").write_bytes(gzip.compress(b"v,key,ts\n2.5,b,2\n"))
    query = hp.read.csv(str(tmp_path), key="key", time="ts")
    found = sorted(query.to_arrow().to_pylist(), key=str)
    assert found == [{"key": "a", "ts": 1, "v": 1.5}, {"key": "b", "ts": 2, "v": 2.5}]


def test_csv_options(tmp_path: Path) -> None:
    file = csv(tmp_path, "ts;sensor;v\n31.12.2023 10:00:00;007;NA\n31.12.2023 10:00:01;x;2\n")
    query = hp.read.csv(
        file,
        key="sensor",
        time="ts",
        types={"sensor": "string"},
        delimiter=";",
        null_values=["NA"],
        time_format="%d.%m.%Y %H:%M:%S",
    )
    assert query.to_arrow().drop_columns("ts").to_pylist() == [{"sensor": "007", "v": None}, {"sensor": "x", "v": 2}]


def test_nan_is_a_number_and_an_empty_cell_is_none(tmp_path: Path) -> None:
    query = hp.read.csv(csv(tmp_path, 'ts,v,s\n1,nan,NA\n2,,""\n3,inf,\n'), time="ts")
    assert str(query.to_arrow()["v"].to_pylist()) == "[nan, None, inf]"
    assert query.to_arrow()["s"].to_pylist() == ["NA", "", None]


def test_a_header_without_rows_is_an_empty_stream(tmp_path: Path) -> None:
    query = hp.read.csv(csv(tmp_path, "sensor,ts,value\n"), key="sensor", time="ts")
    assert len(query.signal("value").sample("1s").to_arrow()) == 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("3,x\n", r"rows.csv, row 4, column 'v': CSV conversion error to int64: invalid value 'x'"),
        ("3\n", r"rows.csv, row 4: CSV parse error: Expected 2 columns, got 1"),
        ("noon,1\n", r"rows.csv, row 4, column 'ts': .*invalid value 'noon'"),
    ],
)
def test_a_wrong_cell_is_named_with_file_and_row(tmp_path: Path, bad: str, message: str) -> None:
    # The first block decides the types; the bad row must not be in it.
    filler = "0,1\n" * 300_000
    for text, found in (
        ("ts,v\n1,1\n2,2\n" + bad, message),
        ("ts,v\n" + filler + bad, message.replace("4", "300002", 1)),
    ):
        with pytest.raises(hp.DataError, match=found):
            hp.read.csv(csv(tmp_path, text), time="ts", types={"ts": "int64", "v": "int64"}).to_arrow()


def test_text_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("sensor,ts,value\né,1,2\n".encode("latin1"))
    with pytest.raises(hp.DataError, match=r"column 'sensor' holds text that is not UTF-8\n[^$]*iconv"):
        hp.read.csv(tmp_path / "a.csv", key="sensor", time="ts")
    taken = hp.read.csv(tmp_path / "a.csv", key="sensor", time="ts", types={"sensor": "binary"})
    assert taken.to_arrow()["sensor"].to_pylist() == [b"\xe9"]


def test_columns_of_one_name_in_csv_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sensor,ts,value,value\na,1,2,3\n")
    with pytest.raises(hp.ParameterError, match="2 columns 'value'"):
        hp.read.csv(tmp_path / "a.csv", key="sensor", time="ts")


def test_csv_parameters_are_checked_when_the_query_is_built(tmp_path: Path) -> None:
    file = csv(tmp_path, "ts,v\n1,1\n")
    with pytest.raises(hp.ParameterError, match=r"no column 'w'; .*rows.csv has: ts, v"):
        hp.read.csv(file, time="ts", types={"w": "int64"})
    with pytest.raises(hp.ParameterError, match="'v' has 'number', which is no type"):
        hp.read.csv(file, time="ts", types={"v": "number"})
    with pytest.raises(hp.ParameterError, match="delimiter must be one ASCII character"):
        hp.read.csv(file, time="ts", delimiter=";;")
    with pytest.raises(hp.ParameterError, match="no column 't'; the data has: ts, v"):
        hp.read.csv(file, time="t")
    with pytest.raises(hp.DataError, match="Empty CSV file"):
        hp.read.csv(csv(tmp_path, "", "empty.csv"), time="ts")


def test_a_csv_file_that_changed_since_the_plan_is_an_error(tmp_path: Path) -> None:
    file = csv(tmp_path, "ts,v\n1,1\n")
    query = hp.read.csv(file, time="ts")
    file.write_text("ts,v\n1,1\n2,2\n")
    with pytest.raises(hp.DataError, match="has changed since"):
        query.to_arrow()


def test_csv_runs_as_it_comes(tmp_path: Path) -> None:
    file = csv(tmp_path, "ts,v\n" + "".join(f"{t},{t}\n" for t in range(1000)))
    query = hp.read.csv(file, time="ts", progress=hp.ordered()).tumble(100).agg(n=hp.count())
    pieces = list(query.batches(rows=64))
    assert pa.concat_tables(pieces)["n"].to_pylist() == [100] * 10
    assert len(pieces) > 1
