"""Filters with many taps: what waits for its block costs little for each batch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

from hydrophone.bench.local_engine import ours, signal
from hydrophone.bench.trill_more import in_batches
from hydrophone.model.batch import Segments
from hydrophone.ops.filters.long_fir import block_size


def test_samples_that_wait_are_joined_once_for_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    concat = Segments.concat.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Segments], parts: list[Segments]) -> Segments:
        joined.append(len(parts))
        return concat(cls, parts)

    monkeypatch.setattr(Segments, "concat", classmethod(counted))
    taps = scipy.signal.firwin(512, 0.2)
    samples = np.random.default_rng(1).random(4 * block_size(len(taps)))
    found = in_batches(signal().fir(taps), samples, 64)
    assert 0 < len([n for n in joined if n > 1]) <= 5
    np.testing.assert_allclose(found, ours(signal().fir(taps), samples, keys=1), rtol=1e-12)
