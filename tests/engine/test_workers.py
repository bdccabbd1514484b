"""Threads and memory of a run in this process: order, limits, errors in threads, and whoever stops asking."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.connect import sink
from hydrophone.engine import shares
from hydrophone.engine.workers import results_in_order

MACHINES, COUNT = 6, 400
PLACE = ContextVar("PLACE", default="nowhere")
SEEN: set[tuple[str, bool]] = set()
"""What a function of a test saw: not in a variable around it, as that would be told as a memory of its own."""


def tables(number: int) -> Iterator[pa.Table]:
    for part in range(3):
        time.sleep(0.001 * (number % 3))
        yield pa.table({"n": [number], "part": [part]})


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("limit", [None, 1, 40])
def test_results_come_in_the_order_of_shares(threads: int, limit: int | None) -> None:
    found = pa.concat_tables(results_in_order(tables, range(20), threads, limit))
    assert found["n"].to_pylist() == [n for n in range(20) for _ in range(3)]
    assert found["part"].to_pylist() == [0, 1, 2] * 20


def test_what_waits_stays_within_the_limit() -> None:
    made = taken = most = 0
    lock = threading.Lock()

    def work(number: int) -> Iterator[pa.Table]:
        nonlocal made, most
        for _ in range(50):
            with lock:
                made += 1
                most = max(most, made - taken)
            yield pa.table({"x": np.zeros(1000)})

    for _ in results_in_order(work, range(10), threads=4, limit=5 * 8_000):
        time.sleep(0.0005)
        with lock:
            taken += 1
    assert taken == 500 and most <= 5 + 1 + 4 + 1  # those that lie there, the one of the turn, and one in every thread


def test_an_error_in_a_thread_is_raised_at_once_and_ends_the_others() -> None:
    asked: list[int] = []

    def work(number: int) -> Iterator[pa.Table]:
        for _ in range(1000):
            asked.append(number)
            time.sleep(0.001)
            yield pa.table({"x": [number]})
            if number == 1:
                raise hp.DataError("a file is damaged")

    before = threading.active_count()
    with pytest.raises(hp.DataError, match="a file is damaged"):
        list(results_in_order(work, range(4), threads=2))
    assert len(asked) < 500 and threading.active_count() == before


def test_threads_end_when_nobody_asks_any_more() -> None:
    before = threading.active_count()
    results = results_in_order(tables, range(100), threads=3, limit=1)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file per machine, that every share has one of."""
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", 1)
    (tmp_path / "lake").mkdir()
    for machine in range(MACHINES):
        times, values = np.arange(COUNT) * 1_000_000, np.random.default_rng(machine).normal(size=COUNT)
        rows = pa.table({"machine": [machine] * COUNT, "t": times, "v": values})
        pq.write_table(rows, tmp_path / "lake" / f"{machine}.parquet", row_group_size=100)
    return tmp_path / "lake"


def signal(lake: Path) -> hp.UniformSignal:
    return hp.read.parquet(lake, key="machine", time="t").signal("v").sample("1ms")


def test_files_are_written_as_results_come(lake: Path, tmp_path: Path) -> None:
    query = signal(lake).lowpass(50).spectrogram(32)
    whole = query.to_arrow(threads=1)
    for threads in (1, 3):
        query.to_parquet(tmp_path / "out.parquet", overwrite=True, threads=threads, memory="1 MB")
        assert pq.read_table(tmp_path / "out.parquet").equals(whole.combine_chunks())
    rows = signal(lake).lowpass(50)
    rows.to_csv(tmp_path / "out.csv", threads=2)
    assert hp.read.csv(tmp_path / "out.csv", key="machine", time="t").to_arrow().num_rows == MACHINES * COUNT


def test_functions_of_users_run_in_the_callers_context(lake: Path) -> None:
    """With one thread also in the thread of the caller."""

    def look(windows: np.ndarray) -> np.ndarray:
        SEEN.add((PLACE.get(), threading.current_thread() is threading.main_thread()))
        return windows

    query = signal(lake).window(50).map(look)
    SEEN.clear()
    token = PLACE.set("here")
    query.to_arrow(threads=3)
    PLACE.reset(token)
    assert {("here", False)} == SEEN
    SEEN.clear()
    query.to_arrow(threads=1)
    assert {alone for _, alone in SEEN} == {True}


def test_an_error_leaves_nothing_that_looks_whole(lake: Path, tmp_path: Path) -> None:
    def fails(windows: np.ndarray) -> np.ndarray:
        raise ValueError("no score")

    for threads in (1, 3):
        with pytest.raises(Exception, match="no score"):
            signal(lake).window(50).map(fails).to_parquet(tmp_path / "out.parquet", threads=threads)
    (lake / "3.parquet").write_bytes((lake / "3.parquet").read_bytes()[:-40])
    with pytest.raises(hp.DataError, match=r"3\.parquet"):
        signal(lake).to_csv(tmp_path / "out.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lake"]


def test_threads_and_memory_are_checked(lake: Path, tmp_path: Path) -> None:
    query = signal(lake)
    for threads in (0, -1, 1000, 2.5, "2"):
        with pytest.raises((hp.ParameterError, hp.SignalTypeError, TypeError), match="threads"):
            query.to_arrow(threads=threads)  # type: ignore[arg-type]
    for memory in (0, -5, "much", "MB", "nan GB", "", 1.5):
        with pytest.raises((hp.ParameterError, hp.SignalTypeError, TypeError), match="memory"):
            query.to_parquet(tmp_path / "out.parquet", memory=memory)  # type: ignore[arg-type]
    with pytest.raises(hp.ParameterError, match=r"1 KB are too few to read .*\.parquet has a row group of") as told:
        query.to_arrow(memory=1024)
    assert "allow at least 1 MB" in str(told.value)
    assert len(query.to_arrow(memory="1 MB", threads=np.int64(2))) == MACHINES * COUNT


def test_text_files_are_read_in_pieces_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has counted their rows, and a file is read block by block: no limit of memory is too small for it."""
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    for number in range(3):
        times = np.arange(number * COUNT, (number + 1) * COUNT) * 1_000_000
        table = pa.table({"k": [number % 2] * COUNT, "t": times, "v": np.arange(COUNT) * 0.5})
        hp.from_arrow(table, key="k", time="t").to_csv(tmp_path / f"{number}.csv")
    query = hp.read.csv(tmp_path, key="k", time="t").tumble("100ms").agg(n=hp.count())
    answers = [
        query.to_arrow(threads=threads, memory=2000).sort_by([("k", "ascending"), ("t", "ascending")])
        for threads in (1, 3)
    ]
    assert answers[0].equals(answers[1]) and answers[0]["n"].to_pylist() == [100] * 12


def test_one_large_file_leaves_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    monkeypatch.setattr(sink, "BYTES_PER_WRITE", 2_000)
    monkeypatch.setattr(shares, "ROWS_PER_TURN", 50)
    table = pa.table({"t": np.arange(COUNT) * 1_000_000, "v": np.arange(COUNT) * 0.5})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=40)
    query = hp.read.parquet(tmp_path / "in.parquet", time="t").signal("v").sample("1ms").ema(0.1)
    query.to_parquet(tmp_path / "out.parquet")
    written = pq.ParquetFile(tmp_path / "out.parquet")
    groups = [written.metadata.row_group(n).num_rows for n in range(written.num_row_groups)]
    assert len(groups) > 2 and min(groups) > 0 and sum(groups) == COUNT
    assert written.read().equals(query.to_arrow().combine_chunks())
