"""A loud burst, then silence: nothing of the burst may be left where the reference has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import Source, rows

BURST, SILENCE = 40, 400


def loud_then_silent() -> Source:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=BURST) * 1e12, np.zeros(SILENCE)])
    t = np.arange(len(values)) * 10
    return Source(pa.table({"k": ["a"] * len(t), "t": t, "v": values}), key="k")


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize(
    "operator",
    [
        lambda x: x.window(16, hop=1).overlap_add(),
        lambda x: x.window(16, hop=4).rfft().irfft().overlap_add(),
        lambda x: x.fir([0.25] * 16),
    ],
    ids=["overlap-add", "spectrum", "fir"],
)
def test_silence_after_a_burst_is_silent(operator: Any, chunk: int) -> None:
    """Exactly: these keep no running total."""
    import hydrophone as hp

    source = loud_then_silent()
    stream = hp.from_arrow(source.table, key="k", time="t", progress=hp.ordered())
    query = operator(stream.signal("v").sample(10))
    found = [r for piece in query.batches(chunk) for r in rows(piece)]
    assert len(found) > SILENCE / 2
    assert {v for _, t, v in found if t > (BURST + 32) * 10} == {0.0}


def test_a_recursive_filter_forgets_a_burst_as_its_poles_say() -> None:
    source = loud_then_silent()
    query = source.stream().signal("v").sample(10).sos([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
    found = {t: v for _, t, v in rows(query.to_arrow())}
    for n in range(BURST, BURST + 60):
        assert abs(found[n * 10]) <= 1e13 * 0.5 ** (n - BURST)
