"""A loud burst, then silence: moving aggregates keep no running total, so nothing of the burst is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cases import rows
from tests.laws.test_drift import BURST, loud_then_silent

import hydrophone as hp


@pytest.mark.parametrize("chunk", [pytest.param(1, marks=pytest.mark.soak), 7, 1000])
@pytest.mark.parametrize("how", ["sum", "mean", "min", "max", "std", "energy", "rms", "median"])
def test_silence_after_a_burst_is_silent(how: str, chunk: int) -> None:
    stream = hp.from_arrow(loud_then_silent().table, key="k", time="t", progress=hp.ordered())
    query = stream.signal("v").sample(10).moving(how, 16)
    found = [r for piece in query.batches(chunk) for r in rows(piece)]
    assert {v for _, t, v in found if t > (BURST + 16) * 10} == {0.0}


@pytest.mark.parametrize("how", ["sum", "mean", "std", "energy", "rms"])
def test_the_cut_changes_no_bit(how: str) -> None:
    def run(chunk: int) -> Any:
        stream = hp.from_arrow(loud_then_silent().table, key="k", time="t", progress=hp.ordered())
        return np.concatenate(
            [p["value"].to_numpy() for p in stream.signal("v").sample(10).moving(how, 7).batches(chunk)]
        )

    assert run(1).tobytes() == run(5).tobytes() == run(1000).tobytes()
