"""The catalogue: every operator is measured or said to have no peer, answers agree, and the table says what is below 1."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hydrophone as hp
from hydrophone.bench import __main__ as bench
from hydrophone.bench.catalogue import ENTRIES, NO_OPERATORS, WITHOUT_PEER, agreement, case, measured, row_case
from hydrophone.bench.catalogue_entry import Entry, RowEntry
from hydrophone.bench.catalogue_rows import ROWS
from hydrophone.bench.harness import Case, Result, Unchecked, measure
from hydrophone.bench.table import table

SHORT = 6_000


def methods() -> set[str]:
    handles = (hp.Stream, hp.Signal, hp.UniformSignal, hp.Windowed)
    return {n for h in handles for n, f in inspect.getmembers(h, inspect.isfunction) if not n.startswith("_")}


def test_every_operator_is_measured_or_has_no_peer() -> None:
    known = measured() | set(WITHOUT_PEER) | NO_OPERATORS
    assert methods() - known == set()
    assert known - methods() == set()
    assert not measured() & set(WITHOUT_PEER)


def answers(case: Case) -> list[Any]:
    ways = [case.ours, *case.also.values(), *case.peers.values()]
    found = [way() for way in ways]
    return [f.answer() for f in found if isinstance(f, Unchecked)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_peers_agree_on_samples(entry: Entry) -> None:
    found = answers(case(entry, keys=2, dtype=np.dtype(np.float64), total=SHORT, runs=1))
    assert len(found) == 2 + len(entry.peers)
    assert all(answer == found[0] and answer[0] > 0 and answer[1] == 1 for answer in found)


@pytest.mark.parametrize("entry", ROWS, ids=lambda e: e.name)
def test_peers_agree_on_rows(entry: RowEntry) -> None:
    found = answers(row_case(entry, keys=2, total=SHORT, runs=1))
    assert len(found) == 1 + len(entry.peers)
    assert all(answer == found[0] and answer[0] > 0 and answer[1] == 1 for answer in found)


@pytest.mark.parametrize("name", ["scale", "plus", "window and rfft, 256 samples", "mean, tumbling windows of 256"])
def test_single_precision(name: str) -> None:
    (entry,) = (e for e in ENTRIES if e.name == name)
    found = answers(case(entry, keys=1, dtype=np.dtype(np.float32), total=SHORT, runs=1))
    assert all(answer == found[0] and answer[1] == 1 for answer in found)


def test_answers_that_differ_are_seen() -> None:
    x, double = np.arange(4.0), np.dtype(np.float64)
    assert agreement(x, x, double) == (4, 1.0)
    assert agreement(x + 1e-6, x, double)[1] == 0
    assert agreement(x[:3], x, double)[1] == 0


def test_what_is_summed_up_after_the_clock_is_compared_too() -> None:
    def way(value: float) -> Unchecked:
        return Unchecked(lambda: (value,))

    good, bad = measure("b", Case("c", lambda: way(1.0), {"p": lambda: way(1.0), "q": lambda: way(2.0)}, runs=1))
    assert good.agrees and not bad.agrees


def result(case: str, peer: str, theirs: float, ours: float = 1.0) -> Result:
    return Result("catalogue", case, ours, peer, theirs, round(theirs / ours, 3), "a", "a", 1.0, 2.0)


def test_the_table_has_the_fastest_peer_and_bold_ratios_below_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [
        result("fir, 32 taps, 1 key, float64, 1 thread", "slow", 9.0),
        result("fir, 32 taps, 1 key, float64, 1 thread", "quick", 0.5),
        result("fir, 32 taps, 1000 keys, float32, 2 threads", "quick", 2.0),
        result("sort, 1 key, rows, 1 thread", "quick", 3.0),
    ]
    (tmp_path / "results").write_text("\n".join(r.as_json() for r in results))
    assert bench.main(["table", str(tmp_path / "results"), "--to", str(tmp_path / "table.md")]) == 0
    text = (tmp_path / "table.md").read_text()
    assert "| fir, 32 taps | quick 500.0 ms | **0.50** |  |  |  |  | 2.00 | 1000.0 ms | 1 / 2 MB |" in text
    assert "Below 0.8 with 1 thread: fir, 32 taps (1 key, float64) 0.50." in text
    assert bench.main(["table", str(tmp_path / "results")]) == 0
    assert capsys.readouterr().out == text == table(results)


def test_what_is_no_result_has_no_table(tmp_path: Path) -> None:
    (tmp_path / "results").write_text(json.dumps({"bench": "catalogue"}))
    with pytest.raises(hp.DataError, match="line 1 is no result"):
        bench.main(["table", str(tmp_path / "results")])
