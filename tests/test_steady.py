"""Filters that start steady, where a NaN and a hole meet: cases that say by themselves what is right, since the input is constant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp

HALF = [[0.5, 0, 0, 1, -0.5, 0]]
"""Rings for 60 samples."""


@pytest.mark.parametrize("after", [0, 1, 30])
@pytest.mark.parametrize("hole", [0, 1, 29, 58, 59, 60, 61, 200])
@pytest.mark.parametrize("values", [[20.0, np.nan], [np.nan], [np.nan, np.nan]])
def test_what_follows_a_nan_and_a_hole_is_steady(values: list[float], after: int, hole: int) -> None:
    head = [*values, *[20.0] * after]
    at = np.concatenate([np.arange(len(head)), len(head) + hole + np.arange(100)])
    table = pa.table({"t": at, "v": np.concatenate([head, np.full(100, 20.0)])})
    found = (
        hp.from_arrow(table, time="t").signal("v").sample(1).sos(HALF, initial="steady").to_arrow()["value"].to_numpy()
    )
    heard = found[~np.isnan(found)]
    assert len(heard) >= 39
    np.testing.assert_allclose(heard, 20.0, rtol=1e-12)
