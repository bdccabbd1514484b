"""Files and frames in, files out: what is read is what was written, and output is there whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.connect.files import list_files, write_then_rename
from hydrophone.connect.parquet import naming_file
from hydrophone.connect.parquet_footer import check_statistics

ROWS = pa.table({"sensor": ["a", "a", "b"], "ts": [0, 20, 10], "value": [1.0, 3.0, 5.0]})


def stream(table: pa.Table = ROWS) -> hp.Stream:
    return hp.from_arrow(table, key="sensor", time="ts")


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=str)


def names(folder: Path) -> list[str]:
    """Everything in a folder, hidden names too."""
    return sorted(os.listdir(folder))


# --- frames -----------------------------------------------------------------------------------------------------------


def test_record_batches_and_their_readers_are_tables() -> None:
    for given in (ROWS.to_batches()[0], ROWS.to_reader(), pl.DataFrame(ROWS.to_pydict())):
        assert rows(hp.from_arrow(given, key="sensor", time="ts").to_arrow()) == rows(ROWS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("read", "given", "says"),
    [
        (hp.from_arrow, {"ts": [0]}, "from_arrow: needs a table of Arrow's, got dict"),
        (hp.from_pandas, ROWS, "from_pandas: needs a DataFrame of pandas, got pyarrow.lib.Table"),
        (hp.from_polars, ROWS.to_pandas(), "from_polars: needs a DataFrame or LazyFrame of Polars, got pandas"),
        (hp.from_spark, ROWS, "from_spark: needs a DataFrame of Spark, got pyarrow.lib.Table"),
        (hp.from_pandas, ROWS.to_pandas().set_index("ts"), "'ts' is in the index, not a column\n"),
        (hp.from_pandas, ROWS.to_pandas().rename(columns={"value": "ts"}), "Duplicate column names"),
        (hp.from_pandas, pd.DataFrame({"sensor": ["a", 1], "ts": [0, 1]}), "failed for column sensor"),
    ],
)
def test_what_is_no_frame_is_told(read: Callable[..., hp.Stream], given: object, says: str) -> None:
    with pytest.raises(hp.ParameterError) as caught:
        read(given, key="sensor", time="ts")
    assert says in str(caught.value) and "test_io.py" in str(caught.value)


def test_polars_frames_of_every_text_type_are_read() -> None:
    frame = pl.DataFrame(ROWS.to_pydict()).with_columns(kind=pl.Series(["x", "y", "x"], dtype=pl.Categorical))
    want = rows(ROWS.append_column("kind", pa.array(["x", "y", "x"])))
    assert rows(hp.from_polars(frame, key="sensor", time="ts").to_arrow()) == want
    assert rows(hp.from_polars(frame.lazy(), key=["sensor", "kind"], time="ts").select("value").to_arrow()) == rows(
        pa.table({"sensor": ["a", "a", "b"], "kind": ["x", "y", "x"], "ts": [0, 20, 10], "value": [1.0, 3.0, 5.0]})
    )


def test_polars_times_of_every_unit_are_the_same_instants() -> None:
    for unit in ("ms", "us", "ns"):
        frame = pl.DataFrame({"ts": pd.to_datetime(["2024-01-01T00:00:00.125"]), "v": [1]})
        frame = frame.with_columns(pl.col("ts").cast(pl.Datetime(unit)))  # type: ignore[arg-type]
        got = hp.from_polars(frame, time="ts").to_arrow()["ts"].cast(pa.int64()).to_pylist()
        assert got == [1_704_067_200_125_000_000]


# --- which files ------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for day, values in (("01", [1.0]), ("02", [2.0]), ("10", [3.0])):
        folder = tmp_path / "lake" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"ts": [int(day)], "v": values}), folder / "part.parquet")
    (tmp_path / "lake" / "_temporary").mkdir()
    (tmp_path / "lake" / "_temporary" / "part.parquet").write_bytes(b"not yet")
    (tmp_path / "lake" / "day=01" / ".part.parquet.partial").write_bytes(b"not yet")
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", [1.0, 2.0, 3.0]),
        ("/day=0*", [1.0, 2.0]),
        ("/day=0?/*.parquet", [1.0, 2.0]),
        ("/**/*.parquet", [1.0, 2.0, 3.0]),
        ("/**", [1.0, 2.0, 3.0]),
        ("/day=[1]0/part.parquet", [3.0]),
        ("/day=02/part.parquet", [2.0]),
    ],
)
def test_a_path_is_a_file_a_folder_or_a_pattern(lake: Path, pattern: str, found: list[float]) -> None:
    query = hp.read.parquet(f"{lake}{pattern}", time="ts")
    assert sorted(query.to_arrow()["v"].to_pylist()) == found


def test_folders_under_a_pattern_still_give_columns(lake: Path) -> None:
    query = hp.read.parquet(f"{lake}/day=0*/*.parquet", key="day", time="ts")
    assert sorted(query.to_arrow()["day"].to_pylist()) == [1, 2]


def test_what_matches_nothing_is_said_when_the_query_is_built(tmp_path: Path) -> None:
    with pytest.raises(hp.ParameterError, match="no file or folder matches"):
        hp.read.parquet(str(tmp_path / "*.parquet"), time="ts")
    with pytest.raises(hp.ParameterError, match=r"no \*.csv or \*.csv.gz"):
        hp.read.csv(tmp_path, time="ts")
    with pytest.raises(hp.ParameterError, match="there is no file or folder"):
        hp.read.csv(tmp_path / "no.csv", time="ts")


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("ts", pa.array([500], pa.timestamp("us"))),  # as integers these would be 500 ns, not 500 µs
        ("value", pa.array(["7"])),
        ("sensor", pa.array([7])),
    ],
)
@pytest.mark.parametrize("rows_at_once", [None, 2])
def test_files_whose_columns_mean_other_things_are_refused(
    tmp_path: Path, column: str, other: pa.Array, rows_at_once: int | None
) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    odd = pa.table({"sensor": ["a"], "ts": [500], "value": [1.0]})
    pq.write_table(odd.set_column(odd.column_names.index(column), column, other), tmp_path / "b.parquet")
    query = hp.read.parquet(tmp_path, key="sensor", time="ts", progress=hp.delayed("1s"))
    with pytest.raises(hp.DataError, match=rf"column '{column}' is .* in \S+a\.parquet and .* in \S+b\.parquet"):
        query.to_arrow() if rows_at_once is None else list(query.batches(rows_at_once))


def test_files_whose_columns_are_cast_without_loss_are_read(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"sensor": pa.array(["c"]).dictionary_encode(), "ts": pa.array([5], pa.int32()), "value": [7]}),
        tmp_path / "b.parquet",
    )
    pq.write_table(pa.table({"sensor": ["d"], "ts": [6]}), tmp_path / "c.parquet")
    found = rows(hp.read.parquet(tmp_path, key="sensor", time="ts").to_arrow())[2:]
    assert [(r["sensor"], r["value"]) for r in found] == [("b", 5.0), ("c", 7.0), ("d", None)]


@pytest.mark.parametrize("text", [b"", b"sensor,ts,value", b"PAR1 and then something else PAR1"])
@pytest.mark.parametrize("name", ["a.parquet", "z.parquet"])
def test_a_file_that_is_not_parquet_is_named(tmp_path: Path, name: str, text: bytes) -> None:
    pq.write_table(ROWS, tmp_path / "m.parquet")
    (tmp_path / name).write_bytes(text)
    with pytest.raises(hp.DataError, match=rf"read\.parquet: \S*{name}: \S") as caught:
        hp.read.parquet(tmp_path, key="sensor", time="ts").to_arrow()
    assert caught.value.hint and len(caught.value.message.splitlines()) == 1


def test_a_file_whose_name_has_wild_cards_is_that_file(tmp_path: Path) -> None:
    odd = tmp_path / "a[1]*.parquet"
    pq.write_table(ROWS, odd)
    pq.write_table(ROWS, tmp_path / "a1b.parquet")
    assert list_files(str(odd)) == [str(odd)]


@pytest.mark.parametrize("read", [hp.read.csv, hp.read.parquet, hp.read.segments])
@pytest.mark.parametrize("path", [[], [1], 3, None])
def test_what_is_no_path_nor_a_list_of_them_is_refused(read: Any, path: Any) -> None:
    with pytest.raises(hp.ParameterError, match=r"read\.\w+: path must be "):
        read(path, time="t")


@pytest.mark.parametrize("read", [hp.read.csv, hp.read.parquet, hp.read.segments])
def test_the_path_of_a_list_that_is_not_there_is_named(read: Any, tmp_path: Path) -> None:
    with pytest.raises(hp.ParameterError, match=r"read\.\w+: there is no file or folder '\S*/nowhere'"):
        read([tmp_path / "nowhere"], time="t")


# --- sinks ------------------------------------------------------------------------------------------------------------


def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    signal = stream().signal("value").sample(10, fill=hp.linear())
    for name in ("out.parquet", "folder"):
        signal.to_parquet(tmp_path / name)
        assert rows(hp.read.parquet(tmp_path / name, key="sensor", time="ts").to_arrow()) == rows(signal.to_arrow())
    assert (tmp_path / "out.parquet").is_file() and names(tmp_path / "folder") == ["part-00000.parquet"]


@pytest.mark.parametrize("factor", [1.0, np.float32(2), 1j])
def test_segments_come_back_as_they_were(tmp_path: Path, factor: complex) -> None:
    signal = stream().signal("value").sample(10, fill=hp.linear()) * factor
    signal.to_parquet(tmp_path / "out.parquet", shape="segments")
    again = hp.from_segments(pq.read_table(tmp_path / "out.parquet"), key="sensor", time="ts")
    assert rows(again.to_arrow()) == rows(signal.to_arrow())
    read = hp.read.segments(tmp_path / "out.parquet", key="sensor", time="ts")
    assert rows(read.to_arrow()) == rows(signal.to_arrow())


def test_a_segment_may_not_last_longer_than_was_said(tmp_path: Path) -> None:
    table = pa.table({"ts": [0, 30], "values": [[1.0, 2.0], [4.0, 5.0, 6.0]]})
    pq.write_table(table, tmp_path / "segments.parquet")
    whole = hp.read.segments(tmp_path, time="ts", period=10, longest=30)
    assert whole.to_arrow()["ts"].to_pylist() == [0, 10, 30, 40, 50]
    with pytest.raises(hp.DataError, match="a segment lasts 30ns, and longest says 29ns"):
        hp.read.segments(tmp_path, time="ts", period=10, longest=29).to_arrow()
    with pytest.raises(hp.ParameterError, match="longest must be more than 0, got 0"):
        hp.read.segments(tmp_path, time="ts", period=10, longest=0)


def test_complex_segments_may_be_arrays_of_structs_too() -> None:
    values = pa.array([[{"re": 1.0, "im": 2.0}, {"re": 3.0, "im": 4.0}]])
    signal = hp.from_segments(pa.table({"t": [0], "values": values}), time="t", period="10ns")
    assert signal.to_arrow()["value"].to_pylist() == [{"re": 1.0, "im": 2.0}, {"re": 3.0, "im": 4.0}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"re": [1.0, 2.0], "im": [1.0]}, "more real parts than imaginary"),
        ({"re": [1.0, None], "im": [1.0, 2.0]}, "null samples in 'values.re'"),
        ({"re": [1.0], "im": None}, "null arrays in 'values.im'"),
        (None, "null arrays in 'values'"),
    ],
)
def test_complex_segments_are_whole(values: dict[str, list[float]] | None, message: str) -> None:
    arrays = pa.list_(pa.float64())
    column = pa.array([values], pa.struct([("re", arrays), ("im", arrays)]))
    with pytest.raises(hp.DataError, match=message):
        hp.from_segments(pa.table({"t": [0], "values": column}), time="t", period="10ns").to_arrow()


@pytest.mark.parametrize("stamp", ["int", "timestamp"])
def test_csv_comes_back_as_it_was(tmp_path: Path, stamp: str) -> None:
    table = pa.table(
        {"k": ["a", "", 'x,y"z\n'], "ts": [1, 2, 3], "v": [0.1, float("inf"), None], "s": ["", None, "NA"]}
    )
    if stamp == "timestamp":
        table = table.set_column(1, "ts", table["ts"].cast(pa.timestamp("ns")))
    hp.from_arrow(table, key="k", time="ts").to_csv(tmp_path / "out.csv")
    again = hp.read.csv(tmp_path / "out.csv", key="k", time="ts")
    assert again.to_arrow().to_pylist() == table.to_pylist()


def test_complex_samples_are_two_columns_of_csv(tmp_path: Path) -> None:
    (stream().signal("value").sample(10) * 1j).to_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == '"sensor","ts","value.re","value.im"'


def test_arrays_have_no_place_in_csv(tmp_path: Path) -> None:
    with pytest.raises(hp.UnsupportedError, match="to_parquet"):
        stream().signal("value").sample(10).window(2).to_csv(tmp_path / "out.csv")
    assert names(tmp_path) == []


SINKS: list[tuple[str, Callable[..., None]]] = [
    ("out.parquet", hp.Stream.to_parquet),
    ("out", hp.Stream.to_parquet),
    ("out.csv", hp.Stream.to_csv),
]


@pytest.mark.parametrize(("name", "sink"), SINKS)
def test_an_existing_path_is_an_error_unless_stated(tmp_path: Path, name: str, sink: Callable[..., None]) -> None:
    path = tmp_path / name
    sink(stream(), path)
    with pytest.raises(hp.ParameterError, match="exists already"):
        sink(stream(), path)
    sink(stream().where(hp.col("value") > 2), path, overwrite=True)
    read = hp.read.csv if name.endswith("csv") else hp.read.parquet
    assert sorted(read(path, key="sensor", time="ts").to_arrow()["value"].to_pylist()) == [3, 5]
    assert names(tmp_path) == [name]


@pytest.mark.parametrize(("name", "sink"), SINKS)
def test_an_existing_path_is_found_before_the_query_runs(tmp_path: Path, name: str, sink: Callable[..., None]) -> None:
    (tmp_path / name).write_text("mine")
    bad = stream(pa.table({"sensor": ["a", "a"], "ts": [0, 0], "value": [1.0, 2.0]})).signal("value")
    with pytest.raises(hp.ParameterError, match="exists already"):
        sink(bad, tmp_path / name)
    with pytest.raises(hp.ParameterError, match="there is no folder"):
        sink(bad, tmp_path / "no" / name)


@pytest.mark.parametrize(("name", "sink"), SINKS)
def test_a_query_that_fails_leaves_what_was_there(tmp_path: Path, name: str, sink: Callable[..., None]) -> None:
    sink(stream(), tmp_path / name)
    bad = stream(pa.table({"sensor": ["a", "a"], "ts": [0, 0], "value": [1.0, 2.0]})).signal("value")
    with pytest.raises(hp.DataError):
        sink(bad, tmp_path / name, overwrite=True)
    read = hp.read.csv if name.endswith("csv") else hp.read.parquet
    assert len(read(tmp_path / name, key="sensor", time="ts").to_arrow()) == 3
    assert names(tmp_path) == [name]


def test_a_folder_of_other_things_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(hp.ParameterError, match=r"other things than a result, for example thesis.tex"):
        stream().to_parquet(tmp_path / "home", overwrite=True)
    assert names(tmp_path / "home") == ["thesis.tex"]


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_nothing_half_written_is_left(tmp_path: Path, kind: str, end: type[BaseException]) -> None:
    with pytest.raises(end), write_then_rename(str(tmp_path / "out"), what="test") as draft:
        if kind == "folder":
            draft.mkdir()
        (draft if kind == "file" else draft / "part").write_text("half")
        raise end
    assert names(tmp_path) == []


def test_an_output_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    with (
        pytest.raises(hp.ParameterError, match="exists"),
        write_then_rename(str(tmp_path / "out"), what="test") as draft,
    ):
        draft.write_text("ours")
        (tmp_path / "out").write_text("theirs")
    assert names(tmp_path) == ["out"] and (tmp_path / "out").read_text() == "theirs"


def test_a_file_may_take_the_place_of_a_folder_of_parts_and_back(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stream().to_parquet(path)
    stream().to_csv(path, overwrite=True)
    assert path.is_file()
    stream().to_parquet(path, overwrite=True)
    assert path.is_dir() and names(tmp_path) == ["out"]


def test_memory_before_the_first_result_is_empty() -> None:
    assert len(hp.write.memory().to_arrow()) == 0


@pytest.mark.parametrize("path", [None, 3, b"out", ["out"], "", " "])
@pytest.mark.parametrize("place", [hp.write.parquet, hp.write.csv, hp.write.table, hp.late.side])
def test_what_is_no_path_names_no_folder(place: Any, path: Any) -> None:
    if place is hp.late.side and path is None:
        return  # beside the checkpoint
    with pytest.raises(hp.ParameterError, match=r"(write|late)\.\w+: (path|name) must be a text.*, got ") as told:
        place(path)
    assert told.value.where and "test_io.py" in told.value.where


def test_paths_may_be_objects(tmp_path: Path) -> None:
    assert (
        hp.write.parquet(tmp_path).path == hp.write.csv(tmp_path).path == hp.late.side(tmp_path).path == str(tmp_path)
    )


def test_a_path_alone_is_no_sink(tmp_path: Path) -> None:
    with pytest.raises(hp.ParameterError, match="save: 'out' is no place for results"):
        stream().save("out")  # type: ignore[arg-type]


def test_without_pandas_the_error_says_what_to_install() -> None:
    code = (
        "import importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pandas' else found(name, *rest)\n"
        "import pyarrow as pa, hydrophone as hp\n"
        "hp.from_arrow(pa.table({'t': [1], 'v': [1.0]}), time='t').to_pandas()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "to_pandas: pandas is not installed" in result.stderr and "hydrophone[pandas]" in result.stderr


def test_damage_anywhere_in_a_file_is_told_with_its_name(tmp_path: Path) -> None:
    """Bytes at random places: the file is named, whatever Arrow raises for it. (Values that are still values nobody can tell.)"""
    rng = np.random.default_rng(7)
    pq.write_table(ROWS, tmp_path / "a.parquet")
    table = pa.table({"sensor": ["a", "b"] * 50, "ts": np.arange(100), "value": rng.normal(size=100)})
    pq.write_table(table, tmp_path / "whole.parquet")
    whole, told = (tmp_path / "whole.parquet").read_bytes(), 0
    (tmp_path / "whole.parquet").unlink()
    for _ in range(150):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 4):
            data[at] = rng.integers(256)
        (tmp_path / "b.parquet").write_bytes(data)
        try:
            hp.read.parquet(tmp_path, time="ts").to_arrow()
        except hp.DataError as error:
            told += "b.parquet" in str(error) or "rows have" in str(error)
        except (hp.ParameterError, hp.SignalTypeError):
            pass  # the damaged footer names or types its columns otherwise
    assert told > 50


@pytest.mark.parametrize(("way", "flips", "step"), [("planned", (1, 4, 14, 128, 255), 1), ("filtered", (1,), 3)])
def test_damage_in_a_footer_does_not_end_the_process(
    tmp_path: Path, way: str, flips: tuple[int, ...], step: int
) -> None:
    """Arrow throws where nothing catches it: planning by statistics would end the process, and a read with a filter would never end."""
    table = pa.table({"k": ["a"] * 9, "ts": np.arange(9), "v": np.zeros(9), "w": [[1.0]] * 9, "f": np.zeros(9, "f4")})
    pq.write_table(table, tmp_path / "whole.parquet", store_schema=False)
    code = (
        "import sys\n"
        "import hydrophone as hp\n"
        "from hydrophone.connect.parquet import ParquetData\n"
        "from hydrophone.plan.data import Times\n"
        "whole, path = open(sys.argv[1], 'rb').read(), sys.argv[1].replace('whole', 'b')\n"
        "told = 0\n"
        "for at in range(len(whole) - 8 - int.from_bytes(whole[-8:-4], 'little'), len(whole), int(sys.argv[3])):\n"
        "    for flip in map(int, sys.argv[4:]):\n"
        "        print(at, flip)\n"
        "        with open(path, 'wb') as file:\n"
        "            file.write(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])\n"
        "        try:\n"
        "            if sys.argv[2] == 'planned':\n"
        "                ParquetData(path).pieces(['k', 'ts', 'v', 'w', 'f'], Times('ts'))\n"
        "            else:\n"
        "                hp.read.parquet(path, time='ts').where(hp.col('v') > -1).to_arrow()\n"
        "        except KeyError:\n"
        "            pass  # a column has another name now, which `hp.read` would have refused\n"
        "        except hp.HydrophoneError as error:\n"
        "            told += 'footer is damaged' in str(error) and path in str(error)\n"
        "print('told' if told > 5 else told)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "whole.parquet"), way, str(step), *map(str, flips)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0 and run.stdout.endswith("told\n"), run.stdout[-20:] + run.stderr


def test_statistics_of_every_type_are_sound(tmp_path: Path) -> None:
    days = pa.array([1, 2], pa.int32()).cast(pa.date32())
    nested = pa.array(
        [[{"x": [1, 2], "y": None}], None], pa.list_(pa.struct([("x", pa.list_(pa.int8())), ("y", pa.string())]))
    )
    table = pa.table(
        {
            "ts": pa.array([1, 2], pa.timestamp("us", "UTC")),
            "bool": [True, False],
            "half": np.zeros(2, np.float16),
            "decimal": pa.array([1, 2], pa.int64()).cast(pa.decimal128(30, 2)),
            "fixed": pa.array([b"abc", None], pa.binary(3)),
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
            **{
                str(t): pa.array([1, None], t) for t in (pa.uint8(), pa.int16(), pa.uint32(), pa.uint64(), pa.float32())
            },
            "days": days,
            "nested": nested,
            "text": pa.array(["a", "b"]).dictionary_encode(),
            "none": pa.nulls(2),
        }
    )
    for number, options in enumerate(
        (
            {},
            {"version": "1.0"},
            {"use_deprecated_int96_timestamps": True},
            {"write_statistics": False},
            {"write_page_index": True},
        )
    ):
        path = str(tmp_path / f"{number}.parquet")
        pq.write_table(pa.concat_tables([table, table]), path, row_group_size=1, **options)
        check_statistics(path)
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    check_statistics(str(tmp_path / "empty.parquet"))


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("malloc of size 9 failed"), pa.ArrowNotImplementedError("x")])
def test_whatever_arrow_raises_names_the_file(error: Exception) -> None:
    with pytest.raises(hp.DataError, match=r"read\.parquet: a\.parquet: \S") as told, naming_file("a.parquet"):
        raise error
    assert told.value.hint
