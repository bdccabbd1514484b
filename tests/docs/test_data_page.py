"""What docs/data.md says of good and bad data: every line has a test, and those that had none are here."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.signal

import hydrophone as hp

ROOT = Path(__file__).parents[2]


def rows(**columns: Any) -> hp.Stream:
    """Events of the key column k at the times t."""
    return hp.from_arrow(pa.table(columns), key="k", time="t")


def test_every_line_names_tests_that_exist() -> None:
    tests = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    lines = [line for line in (ROOT / "docs/data.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(lines) > 15
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line.split(" | ")[-1])
        assert named, f"no test: {line}"
        for name in named:
            assert f"def {name}(" in tests, f"{name} is no test"


def test_nan_of_pandas_is_a_missing_value() -> None:
    frame = pd.DataFrame({"k": [0, 0, 0], "t": [0, 10, 20], "v": [1.0, np.nan, 3.0]})
    stream = hp.from_pandas(frame, key="k", time="t")
    assert stream.signal("v").sample(10).to_arrow()["t"].to_pylist() == [0, 20]
    assert stream.tumble(100).agg(n=hp.count("v"), v=hp.mean("v")).to_arrow()["v"].to_pylist() == [2.0]
    assert rows(k=[0], t=[10], v=[1.0]).lookup(frame[["t", "v"]].rename(columns={"v": "w"}), on="t").to_arrow()[
        "w"
    ].to_pylist() == [None]
    table = pa.table({name: frame[name].to_numpy() for name in frame})
    kept = hp.from_arrow(table, key="k", time="t").signal("v").sample(10).to_arrow()["value"].to_numpy()
    assert np.isnan(kept).tolist() == [False, True, False]


def test_nan_spreads_as_far_as_memory() -> None:
    values = np.ones(2_000)
    values[10] = np.nan
    signal = rows(k=[0] * 2_000, t=np.arange(2_000) * 10, v=values).signal("v").sample(10)
    fir = signal.fir([0.5, 0.25, 0.25]).to_arrow().sort_by("t")["value"].to_numpy()
    assert np.flatnonzero(np.isnan(fir)).tolist() == [10, 11, 12]
    sections = scipy.signal.butter(2, 0.3, output="sos")
    sos = signal.sos(sections).to_arrow().sort_by("t")["value"].to_numpy()
    bad = np.flatnonzero(np.isnan(sos))
    assert bad[0] == 10 and len(bad) == bad[-1] - 9 and 2 < len(bad) < 500
    after = bad[-1] + 1
    np.testing.assert_allclose(sos[after:], scipy.signal.sosfilt(sections, values[after:]), atol=1e-12)


def test_ties_are_ordered_by_what_the_page_says() -> None:
    table = pa.table(
        {"k": [0] * 3, "t": [5] * 3, "end": [9, 7, 7], "n": [0, 2, 1], "a": [0, 1, 1], "v": [1.0, 2.0, 3.0]}
    )

    def chosen(ties: str, **options: Any) -> Any:
        stream = hp.from_arrow(table, key="k", time="t", **options)
        return stream.signal("v", ties=ties).sample(5).to_arrow()["value"].to_pylist()

    assert chosen("first", end="end", sequence="n") == [3.0]  # the end is 7, then n is 1
    assert chosen("last", end="end", sequence="n") == [1.0]  # the end is 9
    assert chosen("first", sequence="n") == [1.0]
    assert chosen("last", sequence="n") == [2.0]
    assert chosen("first") == [3.0]  # end, read as a column, then n


def test_text_is_no_signal_and_a_float_is_no_key() -> None:
    with pytest.raises(hp.SignalTypeError, match="v"):
        rows(k=[0], t=[0], v=["x"]).signal("v")
    with pytest.raises(hp.SignalTypeError, match="cannot be a key"):
        rows(k=[0.5], t=[0], v=[1.0])


@pytest.mark.parametrize("bad", [0, -1])
def test_nothing_is_zero_or_negative(bad: int) -> None:
    stream = rows(k=[0], t=[0], v=[1.0])
    signal = stream.signal("v")
    for build in (
        lambda: signal.sample(bad),
        lambda: signal.sample(10, fill=hp.linear(max_gap=bad)),
        lambda: signal.sample(10).window(bad),
        lambda: signal.sample(10).window(4, hop=bad),
        lambda: stream.tumble(bad).agg(n=hp.count()),
    ):
        with pytest.raises(hp.ParameterError):
            build()


def test_a_window_larger_than_the_data() -> None:
    signal = rows(k=[0, 0], t=[0, 10], v=[1.0, 2.0]).signal("v").sample(10)
    assert len(signal.window(8).to_arrow()) == 0
    found = signal.window(8, hop=4, missing="zero").to_arrow()["values"].to_pylist()
    assert found and all(any(window) for window in found)


def test_an_empty_file_among_others(tmp_path: Path) -> None:
    table = pa.table({"k": [0, 0], "t": [0, 10], "v": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "b.parquet")
    signal = hp.read.parquet(tmp_path, key="k", time="t").signal("v").sample(10)
    assert signal.to_arrow()["value"].to_pylist() == [1.0, 2.0]
    (tmp_path / "a.parquet").unlink()
    empty = hp.read.parquet(tmp_path, key="k", time="t").signal("v").sample(10).to_arrow()
    assert empty.column_names == ["k", "t", "value"] and not len(empty)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [0], "t": [0], "v": [1.0]}), tmp_path / "a.parquet")
    query = hp.read.parquet(tmp_path, key="k", time="t")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(hp.DataError, match=r"a\.parquet is gone"):
        query.to_arrow()


def test_integers_wrap_as_in_numpy_unless_cast() -> None:
    table = pa.table(
        {"k": [0, 0], "t": [0, 10], "v": pa.array([300, 200], pa.int16()), "w": pa.array([1, 2], pa.uint8())}
    )
    stream = hp.from_arrow(table, key="k", time="t")
    v, w = (stream.signal(name).sample(10) for name in "vw")
    square = (v * v).to_arrow()["value"]
    assert square.type == pa.int16() and square.to_pylist() == [300 * 300 - 2**16, 200 * 200 - 2**16]
    assert (w - w * 3).to_arrow()["value"].to_pylist() == [254, 252]
    wide = stream.with_columns(v=hp.col("v").cast(nw.Int64)).signal("v").sample(10)
    assert (wide * wide).to_arrow()["value"].to_pylist() == [300 * 300, 200 * 200]
    assert v.moving_sum(2).to_arrow()["value"].type == pa.int64()


def test_readings_between_the_beats_are_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def left(stamps: np.ndarray, **how: Any) -> int:
        stream = hp.from_arrow(pa.table({"t": stamps, "v": np.arange(len(stamps))}), time="t")
        return len(stream.signal("v").sample(**how).to_arrow())

    caplog.set_level(logging.WARNING, "hydrophone")
    third = np.arange(3000) * 1_000_000 // 3000 * 1000  # 3 kHz, in microseconds
    assert left(third, spacing="3kHz") == 1000
    assert [r.getMessage().partition(" and")[0] for r in caplog.records] == [
        "sample: 2000 of the first 3000 readings lie between the beats"
    ]
    assert all(word in caplog.text for word in ("fill=", "offset=", "snap"))
    late = np.arange(50) * 10_000_000 + 3_000_000
    assert left(late, spacing="10ms") == 0 and len(caplog.records) == 2
    caplog.clear()
    assert left(late, spacing="10ms", offset=3_000_000) == 50
    assert left(late, spacing="10ms", fill=hp.linear()) == 49
    assert left(late[:9], spacing="10ms") == 0  # too few to tell
    few = np.append(np.arange(19) * 10_000_000, 3)
    assert left(few, spacing="10ms") == 19
    assert not caplog.records


def test_short_lifetimes_between_the_beats_are_told_across_batches(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hydrophone")
    start = np.arange(40) * 10 + 3
    rows = pa.table({"t": start, "e": start + 2, "v": start})
    query = hp.from_arrow(rows, time="t", end="e", progress=hp.ordered()).signal("v").sample(10)
    assert sum(map(len, query.batches(rows=4))) == 0
    assert len(caplog.records) == 1 and "lie between the beats" in caplog.text


TOO_MANY: dict[str, tuple[Callable[[], Any], str]] = {
    "period": (lambda: _every_second(200).sample(5, fill=hp.linear(max_gap="1s")), "sample: 39,800,000,001 samples"),
    "stray": (lambda: _stray().sample("1ms", fill=hp.linear()), "1,767,225,600,000 of them lie between"),
    "fill-function": (lambda: _stray().sample("1ms", fill=hp.zero_order()), "sample: 1,767,225,600,001 samples"),
    "hold": (lambda: _every_second(1).sample(1, fill=hp.hold("10min")), "sample: 600,000,000,000 samples"),
    "continuous": (lambda: _stray().sample("1ms").continuous(0), "resample: 1,767,225,600,001 samples"),
    "resample": (
        lambda: _every_second(200).sample("1s").resample(5, fill=hp.linear()),
        "resample: 39,800,000,001 samples",
    ),
    "lifetime": (lambda: _lifetime().sample(1), "sample: 3,600,000,000,000 samples"),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_too_many_samples_are_refused_before_memory_is_asked_for(name: str) -> None:
    query, count = TOO_MANY[name]
    with pytest.raises(hp.DataError, match=re.escape(count)) as error:
        query().to_arrow()
    assert "of key {'k': 'a'}" in str(error.value) and "max_gap=" in str(error.value)
    assert "1970-01-01" in str(error.value) and "at test_data_page.py" in str(error.value)


def _every_second(count: int) -> Any:
    return _keyed(np.arange(count) * 10**9)


def _stray() -> Any:
    return _keyed(np.array([0, 1_767_225_600 * 10**9]))  # 1970 and 2026


def _lifetime() -> Any:
    table = pa.table({"k": ["a"], "t": [0], "e": [3600 * 10**9], "v": [1.0]})
    return hp.from_arrow(table, key="k", time="t", end="e").signal("v")


def _keyed(times: np.ndarray) -> Any:
    table = pa.table({"k": ["a"] * len(times), "t": times, "v": np.arange(float(len(times)))})
    return hp.from_arrow(table, key="k", time="t").signal("v")


def test_lines_begin_at_the_last_nanosecond_of_a_lifetime() -> None:
    table = pa.table({"k": [0, 0], "t": [0, 30], "e": [11, 40], "v": [1.0, 3.0]})
    signal = hp.from_arrow(table, key="k", time="t", end="e").signal("v")
    assert signal.sample(10, fill=hp.linear()).to_arrow()["value"].to_pylist() == [
        1,
        1,
        2,
        3,
    ]  # 10 is the last instant at 1.0
    assert signal.sample(10, fill=hp.linear(20)).to_arrow()["value"].to_pylist() == [1, 1, 2, 3]
    assert signal.sample(10, fill=hp.linear(19)).to_arrow()["value"].to_pylist() == [1, 1, 3]


def test_a_sender_that_appears_later_is_late_unless_it_has_said_so() -> None:
    names, times = ["a", "a", "a", "b", "a", "b"], [0, 15, 30, 2, 40, 35]

    def late(names: list[str], times: list[int | None], marks: list[int | None]) -> set[int]:
        table = pa.table({"t": pa.array(times, pa.int64()), "who": names, "m": pa.array(marks, pa.int64())})
        run = hp.from_arrow(table, time="t", progress=hp.punctuated("m", by="who")).batches(2, late=hp.late.drop())
        found = {t for piece in run for t in piece["t"].to_pylist()}
        return {t for t in times if t is not None} - found

    assert late(names, times, times) == {2}
    assert late(["b", *names], [None, *times], [0, *times]) == set()
