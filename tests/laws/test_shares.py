"""In this process files are read in pieces and shared out over threads: no size of pieces and no number of threads changes an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases import ALL_CASES, Case, Source
from tests.choice import for_a_law, representative
from tests.laws.harness import coarseness, key_numbers

from hydrophone.engine import row_buffer, shares
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


def _same_bits(one: pa.Table, other: pa.Table) -> bool:
    """NaN is not equal to itself."""
    return all(str(a.to_pylist()) == str(b.to_pylist()) for a, b in zip(one.columns, other.columns, strict=True))


def test_cases_with_files_of_whole_keys_run_in_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the law above would say little."""
    from hydrophone.compiler.compile import Host, compile_plan

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
