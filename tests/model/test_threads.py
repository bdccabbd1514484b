"""Work that is shared out over threads gives what one thread gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.model import threads
from hydrophone.model.key_table import KeyTable
from hydrophone.model.take_rows import take_all


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the rows are, three threads share them."""
    monkeypatch.setattr(threads, "ROWS_PER_THREAD", 1)
    monkeypatch.setattr("hydrophone.model.take_rows.ROWS_PER_THREAD", 1)
    monkeypatch.setattr("hydrophone.model.take_rows._BLOCK", 7)
    monkeypatch.setattr("pyarrow.cpu_count", lambda: 3)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_stretches_hold_every_row_once(rows: int) -> None:
    cut = threads.split_rows(rows)
    assert len(cut) == 3
    assert [i for s in cut for i in range(rows)[s]] == list(range(rows))


@pytest.mark.usefixtures("shared")
def test_keys_have_one_slot_whichever_thread_meets_them_first() -> None:
    key = np.random.default_rng(1).integers(-5, 40, 1_000)
    keys = KeyTable(pa.schema([("k", pa.int64())]))
    slot = keys.slots([pa.array(key)])
    assert keys.columns(slot)[0].to_pylist() == key.tolist()
    assert sorted(set(slot.tolist())) == list(range(len(set(key.tolist()))))


@pytest.mark.usefixtures("shared")
def test_columns() -> None:
    rows = np.random.default_rng(2).integers(-1, 50, 1_000)
    (found,) = take_all([pa.array(np.arange(50.0))], rows)
    assert found.to_pylist() == [None if r < 0 else float(r) for r in rows]


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_as_of_joins(direction: str, request: pytest.FixtureRequest) -> None:
    random = np.random.default_rng(3)
    tables = [
        pa.table({"k": random.integers(0, 6, n), "t": np.sort(random.integers(0, 900, n)), "v": random.random(n)})
        for n in (700, 90)
    ]

    def found() -> list[str]:
        a, b = (hp.from_arrow(t, key="k", time="t") for t in tables)
        return sorted(map(str, a.asof_join(b, direction=direction, tolerance=50).to_arrow().to_pylist()))

    alone = found()
    request.getfixturevalue("shared")
    assert found() == alone
