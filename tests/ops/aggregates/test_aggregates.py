"""What aggregates promise beyond single answers: how far the order of arrival can change them, and how they scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.ops.aggregates.folding import fold, fold_layers, fold_short
from hydrophone.ops.aggregates.summaries import Count, Max, Sum


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
        wanted = [reduce(parts[0][a:b]) for a, b in zip(first, stop, strict=True)]
        assert fold(aggregate, both, first, stop)[0].tolist() == wanted
        assert fold_short(aggregate, both, first, stop)[0].tolist() == wanted
        assert fold_short(aggregate, both, first[:3], stop[:3])[0].tolist() == wanted[:3]
    for places in (40, 47, 64):
        found, covered = fold_layers(Count(), [np.ones(60, np.int64)], first, stop, places)
        covers = [int(((first <= i) & (i < stop)).sum()) for i in range(places)]
        assert found[0].tolist() == covers
        assert covered.tolist() == [n > 0 for n in covers]


SEEN: list[int] = []
"""How many states the functions below got at a time."""


def _one(values: np.ndarray) -> np.ndarray:
    return np.stack([np.ones(len(values)), values], axis=1)


def _more(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    SEEN.append(len(states))
    return states + _one(values)


def _less(states: np.ndarray, values: np.ndarray) -> np.ndarray:
    SEEN.append(len(states))
    return states - _one(values)


def _both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    SEEN.append(len(a))
    return a + b


def _mean(states: np.ndarray) -> np.ndarray:
    return states[:, 1] / np.maximum(states[:, 0], 1)


def mean_of(remove: Callable[..., Any] | None) -> Any:
    """Count and sum, from which events can be taken away, or not."""
    return hp.aggregate("v", create=lambda n: np.zeros((n, 2)), add=_more, merge=_both, result=_mean, remove=remove)


WINDOWS: dict[str, Callable[[hp.Stream], Any]] = {
    "sliding": lambda x: x.sliding(256, every=1),
    "snapshot": lambda x: x.snapshot(),
}


@pytest.mark.parametrize("rows", [None, 500])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("burst", [1.0, 1e100, np.inf, np.nan])
def test_taking_away_gives_the_same_with_less_work(windows: str, rows: int | None, burst: float) -> None:
    """Also after a loud burst, and after one that no number can be taken away from."""
    rng = np.random.default_rng(5)
    count = 4000
    start = np.sort(rng.integers(0, 4000, count))
    values = rng.normal(5.0, 1.0, count)
    values[700] = burst
    table = pa.table(
        {"k": rng.integers(0, 2, count), "t": start, "e": start + rng.integers(1, 256, count), "v": values}
    )
    found, work = [], []
    for remove in (_less, None):
        stream = hp.from_arrow(table, key="k", time="t", end="e", progress=hp.ordered())
        query = WINDOWS[windows](stream).agg(m=mean_of(remove))
        SEEN.clear()
        with np.errstate(all="ignore"):
            pieces = [query.to_arrow()] if rows is None else list(query.batches(rows))
        found.append(pa.concat_tables(pieces).sort_by([("k", "ascending"), ("t", "ascending")]))
        work.append(sum(SEEN))
    assert len(found[0]) > 4000
    assert found[0].drop_columns("m").equals(found[1].drop_columns("m"))
    np.testing.assert_allclose(found[0]["m"].to_numpy(), found[1]["m"].to_numpy(), rtol=1e-12)
    # What a number that is not finite was in is made afresh, up to the next window that is anyway.
    assert work[0] < (0.8 if np.isfinite(burst) else 1.1) * work[1], work


@pytest.mark.parametrize("windows", [{}, {"every": 15}])
def test_running_results_come_as_soon_as_progress_has_passed_them(windows: dict[str, int]) -> None:
    """After every row: all that is known by then, and nothing more; rows come in another order than their times."""
    rng = np.random.default_rng(6)
    time = np.sort(rng.integers(0, 200, 40))
    time = time[np.argsort(np.arange(40) + rng.uniform(0, 6, 40))]
    stream = hp.from_arrow(pa.table({"t": time}), time="t", progress=hp.delayed(60))
    made = stream.sliding(30, report=10, **windows) if windows else stream.tumble(30, report=10)
    starts = [s for s in range(-30, 260) if s % windows.get("every", 30) == 0]
    whole = {
        (s, e, e == s + 30, int(((time >= s) & (time < e)).sum())) for s in starts for e in (s + 10, s + 20, s + 30)
    }
    whole = {r for r in whole if r[-1]}
    known = [{r for r in whole if r[1] <= time[: n + 1].max() - 60} for n in range(40)] + [whole]
    wanted = [new - old for old, new in zip([set(), *known], known, strict=False) if new - old]
    found = [{tuple(r.values()) for r in piece.to_pylist()} for piece in made.agg(n=hp.count()).batches(rows=1)]
    assert [f for f in found if f] == wanted
    assert len(wanted) > 10 and any(not r[2] for r in whole)


def test_a_crowd_that_is_alive_at_once_costs_no_pairs() -> None:
    """Twenty thousand overlapping lifetimes have forty thousand stretches, and four hundred million pairs."""
    n = 20_000
    table = pa.table({"t": np.arange(n), "e": np.arange(n) + n, "v": np.ones(n)})
    alive = hp.from_arrow(table, time="t", end="e").snapshot().agg(n=hp.count(), m=hp.mean("v")).to_arrow()
    assert max(alive["n"].to_pylist()) == n
    assert set(alive["m"].to_pylist()) == {1.0}
