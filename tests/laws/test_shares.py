"""In this process data is read in pieces and shared out over threads, as whole keys or slices of time: no size of pieces and no number
of threads changes an answer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases import ALL_CASES, Case, Source
from tests.choice import for_a_law, representative
from tests.laws.harness import coarseness, key_numbers

import hydrophone as hp
from hydrophone.compiler.compile import Host, compile_plan
from hydrophone.engine import held, row_buffer, shares
from hydrophone.engine.resources import Resources

LAID_OUT = [c for c in ALL_CASES if all(len(s.table) for s in c.inputs.values())]


def write_files(source: Source, folder: Path, rng: np.random.Generator, by_key: bool) -> None:
    """Rows in any order, in files of whole keys or in files that hold all keys and overlap in time."""
    folder.mkdir()
    number = key_numbers(source) if by_key else rng.integers(0, 3, len(source.table))
    order = rng.permutation(len(source.table))
    size = int(rng.integers(1, 9)) * coarseness(len(source.table))
    for n in np.unique(number):
        mine = pa.array(order[number[order] == n])
        pq.write_table(source.table.take(mine), folder / f"{n}.parquet", row_group_size=size)


@pytest.fixture(params=[1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3, 4))])
def rng(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[np.random.Generator]:
    """Small pieces, drawn by the seed."""
    rng = np.random.default_rng(request.param)
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    monkeypatch.setattr(shares, "KEYS_ENOUGH", 0)  # no slices
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", int(rng.choice([1, 300])))
    monkeypatch.setattr(shares, "ROWS_PER_TURN", int(rng.choice([1, 7, 100])))
    monkeypatch.setattr(row_buffer, "ROWS_PER_KEY", int(rng.choice([0, 2])))
    return rng


@for_a_law(LAID_OUT)
@pytest.mark.parametrize("by_key", [True, False])
def test_pieces_and_threads_change_nothing(
    case: Case, by_key: bool, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = max(coarseness(len(s.table)) for s in case.inputs.values())
    monkeypatch.setattr(shares, "ROWS_PER_TURN", shares.ROWS_PER_TURN * most)
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", shares.BYTES_PER_SHARE * most)
    for name, source in case.inputs.items():
        write_files(source, tmp_path / name, rng, by_key)
    query = case.build({name: source.lake(tmp_path / name) for name, source in case.inputs.items()})
    answers = [query.to_arrow(threads=threads) for threads in (1, 3)]
    case.check(answers[0])
    assert answers[0].combine_chunks().equals(answers[1].combine_chunks()) or _same_bits(*answers)


@pytest.fixture
def sliced(
    request: pytest.FixtureRequest, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> np.random.Generator:
    """Slices of time, however short they are beside the reach around them; other sizes for every case."""
    rng = np.random.default_rng([int(rng.integers(1 << 20)), zlib.crc32(request.node.name.encode())])
    monkeypatch.setattr(shares, "MAX_AMPLIFICATION_HERE", float("inf"))
    monkeypatch.setattr(shares, "LEAST_SLICES", 2)
    monkeypatch.setattr(shares, "KEYS_ENOUGH", 1 << 20)
    monkeypatch.setattr(shares, "MOST_SLICES", int(rng.integers(2, 7)))
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", 1)
    monkeypatch.setattr(shares, "ROWS_AT_ONCE", int(rng.choice([15, 60, 400])))
    monkeypatch.setattr(held, "BLOCK_ROWS", int(rng.choice([3, 20])))
    return rng


@for_a_law(LAID_OUT)
def test_slices_of_time_and_threads_change_nothing(case: Case, sliced: np.random.Generator, tmp_path: Path) -> None:
    in_files = zlib.crc32(case.name.encode()) % 4 == 0  # the others in memory
    for name, source in case.inputs.items():
        if in_files:
            write_files(source, tmp_path / name, sliced, by_key=False)
    query = case.build(
        {name: source.lake(tmp_path / name) if in_files else source.stream() for name, source in case.inputs.items()}
    )
    answers = [query.to_arrow(threads=threads) for threads in (1, int(sliced.integers(2, 6)))]
    case.check(answers[0])
    assert answers[0].combine_chunks().equals(answers[1].combine_chunks()) or _same_bits(*answers)


def _same_bits(one: pa.Table, other: pa.Table) -> bool:
    """NaN is not equal to itself."""
    return all(str(a.to_pylist()) == str(b.to_pylist()) for a, b in zip(one.columns, other.columns, strict=True))


@pytest.mark.parametrize("key", [None, "pump"])
@pytest.mark.parametrize("channels", [1, 2])
def test_long_signals_in_memory_run_in_slices(monkeypatch: pytest.MonkeyPatch, key: str | None, channels: int) -> None:
    """Else the law of slices would say little of arrays: cut at any sample, they give the bits of the whole."""
    x = np.random.default_rng(3).normal(size=(20_011, channels))
    signal = hp.from_numpy(
        x[:, 0] if channels == 1 else x, rate="44.1kHz", start="2026-01-01T00:00:00.000000123Z", key=key
    )
    query = signal.fir([0.25, 0.5, 0.25]).moving_mean(50)
    whole = query.to_arrow(threads=1)
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", 30_000)
    monkeypatch.setattr(held, "BLOCK_ROWS", 256)
    found = shares.shares_in_process(compile_plan(query.node, Host.LOCAL), Resources(threads=2, memory=1 << 30))
    assert len(found.shares) > 4
    assert found.amplification < shares.MAX_AMPLIFICATION_HERE
    assert query.to_arrow(threads=3).combine_chunks().equals(whole.combine_chunks())


def test_complex_samples_and_several_segments_run_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    signals = {k: rng.normal(size=n) + 1j * rng.normal(size=n) for k, n in (("a", 9_000), ("b", 300), ("c", 7_001))}
    query = hp.from_numpy(signals, rate="1kHz").fir([0.5, 0.5])
    whole = query.to_arrow(threads=1).sort_by([("key", "ascending"), ("time", "ascending")])
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", 20_000)
    monkeypatch.setattr(held, "BLOCK_ROWS", 100)
    found = shares.shares_in_process(compile_plan(query.node, Host.LOCAL), Resources(threads=2, memory=1 << 30))
    assert len(found.shares) > 4
    sliced = query.to_arrow(threads=2).sort_by([("key", "ascending"), ("time", "ascending")])
    assert sliced.combine_chunks().equals(whole.combine_chunks())


@pytest.mark.parametrize("query", ["cumulative", "small"])
def test_what_cannot_gain_runs_as_one(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    signal = hp.from_numpy(np.ones(1_000 if query == "small" else 40_000), rate="1kHz")
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", 10_000)
    if query == "cumulative":
        monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    node = (signal.integrate() if query == "cumulative" else signal.fir([0.5, 0.5])).node
    found = shares.shares_in_process(compile_plan(node, Host.LOCAL), Resources(threads=2, memory=1 << 30))
    assert len(found.shares) == 1


def test_cases_with_files_of_whole_keys_run_in_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the law above would say little."""
    monkeypatch.setattr(shares, "SMALL_BYTES", 0)
    monkeypatch.setattr(shares, "BYTES_PER_SHARE", 1)
    several = 0
    cases = representative(LAID_OUT)
    for case in cases:
        for name, source in case.inputs.items():
            write_files(source, tmp_path / f"{case.name} {name}", np.random.default_rng(0), True)
        query = case.build({n: s.lake(tmp_path / f"{case.name} {n}") for n, s in case.inputs.items()})
        found = shares.shares_in_process(compile_plan(query.node, Host.LOCAL), Resources(threads=2, memory=1 << 30))
        several += len(found.shares) > 1
    assert several > len(cases) // 3
