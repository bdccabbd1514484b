"""Smoke tests of the benchmarks of latency and of the first answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hydrophone.bench import cold_start, latency


def test_both_ways_of_latency_give_the_same_samples() -> None:
    pieces = np.random.default_rng(3).normal(size=(6, latency.PIECE))
    ours, by_hand = latency.ours(), latency.by_hand()
    for number, samples in enumerate(pieces):
        np.testing.assert_allclose(ours(number, samples), by_hand(number, samples), rtol=1e-12, atol=1e-12)


def test_latency_counts_from_the_intended_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "WARM_UP", 0)
    clock = iter(range(1000))  # every look at the clock is a second later: all pieces are late, each more than the last
    monkeypatch.setattr(latency.time, "perf_counter", lambda: float(next(clock)))
    took, answer = latency.latencies(lambda number, samples: samples[:2], 4)
    assert took == sorted(took) and took[0] > 0
    assert answer[0] == 8


@pytest.mark.parametrize("name", cold_start.QUERIES)
def test_every_query_of_cold_start_answers(name: str) -> None:
    assert cold_start.answer(name, 300)[0] > 0


def test_five_rows_compile_nothing(tmp_path: Path) -> None:
    _, answer = cold_start.fresh(cold_start.FIRST, 5, str(tmp_path))
    assert answer[0] > 0
    assert not list(tmp_path.rglob("*.nbi"))
