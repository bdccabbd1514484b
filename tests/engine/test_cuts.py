"""Where rows are cut into batches changes no answer: ties, gaps, times before 1970, wide keys, values of any size, all ways of progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.test_stateful import energy

import hydrophone as hp

SPAN = 2_000
REMOVING = 2 * 64 * 64 * 2.0**-53
"""What taking events away may cost a state that is never below zero: two merges for each of 64 windows, at most 64 times its size."""


EXACT = {"n": hp.count(), "total": hp.sum("i"), "high": hp.max("v"), "middle": hp.quantile("v", 0.5)}
ROUNDED = {"n": hp.count(), "energy": energy("v")}
QUERIES: dict[str, Callable[[hp.Stream], Any]] = {
    "tumble": lambda s: s.tumble(90, offset=-7).agg(**EXACT),
    "sliding": lambda s: s.sliding(390, every=30, offset=11).agg(**EXACT),
    "sliding, removing": lambda s: s.sliding(390, every=10, offset=11).agg(**ROUNDED),
    "tumble, slow": lambda s: s.tumble(90, offset=-7, flush=hp.slow(every=7, late=3)).agg(**EXACT),
    "sliding, lazy": lambda s: s.sliding(390, every=30, offset=11, flush=hp.lazy(late=1)).agg(**EXACT),
    "tumble, running": lambda s: s.tumble(90, offset=-7, report=15).agg(**EXACT),
    "sliding, running": lambda s: s.sliding(390, every=60, offset=11, report=130).agg(**EXACT),
    "session": lambda s: s.session(25).agg(**EXACT),
    "snapshot": lambda s: s.alter(120).snapshot(report=500).agg(**EXACT),
    "snapshot, removing": lambda s: s.alter(120).snapshot().agg(**ROUNDED),
    "resample": lambda s: s.signal("v").sample(20, fill=hp.linear(max_gap=400)).resample(33, fill=hp.hold(max_gap=99)),
}


def rows(seed: int, count: int = 250) -> tuple[pa.Table, int, int]:
    """Rows out of order, and how far they are behind the latest of all, and of their key."""
    rng = np.random.default_rng(seed)
    base, keys, wide = int(rng.choice([0, -(2**60), 1_790_000_000 * 10**9])), int(rng.choice([1, 4, 120])), 2**40
    time = np.sort(rng.integers(0, SPAN, count) // 5 * 5)
    time[time > SPAN // 2] += 7 * SPAN
    order = np.argsort(np.arange(count) + rng.uniform(0, count / 8, count))
    key, time = rng.integers(0, keys, count) * wide, time[order]
    # One row for a key and a time: which of two a signal takes is said by their order.
    once = np.sort(np.unique(np.stack([key, time]), axis=1, return_index=True)[1])
    key, time, size = key[once], time[once] + base, 10.0 ** rng.integers(-3, 9, len(once))
    behind = int((np.maximum.accumulate(time) - time).max())
    each = [time[key == k] for k in np.unique(key)]
    own = max(int((np.maximum.accumulate(t) - t).max()) for t in each)
    values = {"v": rng.integers(-400, 400, len(time)) / 4 * size, "i": rng.integers(-9, 9, len(time))}
    return pa.table({"k": key, "t": time, **values}), behind, own


@pytest.mark.parametrize("per_key", [False, True], ids=["of all", "per key"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_cuts_change_no_answer(name: str, seed: int, per_key: bool) -> None:
    table, behind, own = rows(seed)
    policy = hp.delayed(max(behind, own), per_key=own) if per_key else hp.delayed(behind)
    query = QUERIES[name](hp.from_arrow(table, key="k", time="t", progress=policy))
    whole = sorted(query.to_arrow().to_pylist(), key=lambda r: (r["k"], r["t"]))
    assert whole
    for cut in (5, 61):
        pieces = list(query.batches(cut, late=hp.late.error()))
        found = sorted(pa.concat_tables(pieces).to_pylist(), key=lambda r: (r["k"], r["t"]))
        if "removing" not in name:
            assert found == whole
            continue
        assert [(r["k"], r["t"], r["end"], r["n"]) for r in found] == [
            (r["k"], r["t"], r["end"], r["n"]) for r in whole
        ]
        energies = [(a["energy"], b["energy"]) for a, b in zip(found, whole, strict=True)]
        assert all(math.isclose(a, b, rel_tol=2 * REMOVING) for a, b in energies)


def test_what_is_taken_away_leaves_no_trace() -> None:
    """Against sums without rounding: after values of 1e8 the windows of small ones are as good as any."""
    table, behind, _ = rows(4)
    query = hp.from_arrow(table, time="t", progress=hp.delayed(behind)).sliding(390, every=10).agg(**ROUNDED)
    time, value = table["t"].to_numpy(), table["v"].to_numpy()
    for piece in query.batches(23):
        for row in piece.to_pylist():
            inside = (time >= row["t"]) & (time < row["end"])
            exact = math.fsum(value[inside] ** 2)
            assert math.isclose(row["energy"], exact, rel_tol=REMOVING + inside.sum() * 2.0**-53)
