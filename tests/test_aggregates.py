"""What aggregates promise beyond single answers: how far the order of arrival can change them, and how they scale."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.ops.folding import fold, layered
from hydrophone.ops.summaries import Count, Max, Sum


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_arrival_changes_sums_by_rounding_only(seed: int) -> None:
    """By at most n times 2**-53 of the sum of magnitudes, in any chunks."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=3000) * 10.0 ** rng.integers(-8, 9, 3000)
    table = pa.table({"t": rng.integers(0, 100, 3000), "v": values})
    exact, limit = math.fsum(values), 3000 * 2.0**-53 * math.fsum(np.abs(values))
    for chunk in (1, 17, 3000):
        mixed = table.take(pa.array(rng.permutation(3000)))
        query = hp.from_arrow(mixed, time="t", progress=hp.delayed(100)).tumble(100).agg(s=hp.sum("v"))
        (found,) = [s for piece in query.batches(chunk) for s in piece["s"].to_pylist()]
        assert abs(found - exact) <= limit


def test_stretches_fold_and_layer_as_loops_do() -> None:
    rng = np.random.default_rng(4)
    parts = [rng.integers(-50, 50, 40)]
    first = rng.integers(0, 40, 60)
    stop = np.minimum(first + rng.integers(1, 30, 60), 40)
    for aggregate, reduce in ((Sum("v"), np.sum), (Max("v"), np.max)):
        both = [parts[0], np.ones(40, np.int64)]
        assert fold(aggregate, both, first, stop)[0].tolist() == [
            reduce(parts[0][a:b]) for a, b in zip(first, stop, strict=True)
        ]
    for places in (40, 47, 64):
        found, covered = layered(Count(), [np.ones(60, np.int64)], first, stop, places)
        wanted = [int(((first <= i) & (i < stop)).sum()) for i in range(places)]
        assert found[0].tolist() == wanted
        assert covered.tolist() == [n > 0 for n in wanted]


def test_a_crowd_that_is_alive_at_once_costs_no_pairs() -> None:
    """Twenty thousand overlapping lifetimes have forty thousand stretches, and four hundred million pairs."""
    n = 20_000
    table = pa.table({"t": np.arange(n), "e": np.arange(n) + n, "v": np.ones(n)})
    alive = hp.from_arrow(table, time="t", end="e").snapshot().agg(n=hp.count(), m=hp.mean("v")).to_arrow()
    assert max(alive["n"].to_pylist()) == n
    assert set(alive["m"].to_pylist()) == {1.0}
