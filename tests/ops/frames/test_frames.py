"""Frames and trailing windows: all rules against the reference on many random readings, the words of errors, and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import oracles_frames as reference

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError, ParameterError

EDGES = (-1.0, 1.0)


def stream(**columns: Any) -> hp.Stream:
    return hp.from_arrow(pa.table(columns), time="t", end="e" if "e" in columns else None, progress=hp.ordered())


@pytest.mark.parametrize("seed", range(40))
def test_every_rule_on_random_readings(seed: int) -> None:
    """Statuses of all lengths from far below to far above noise and at_least, holes, nulls, ties, many of a kind."""
    rng = np.random.default_rng(seed)
    noise, at_least = (int(rng.choice([0, 1, 5, 12])), int(rng.choice([0, 1, 10, 30])))
    report = [None, 7, 50][rng.integers(3)]
    hold, hysteresis = int(rng.choice([3, 8, 20])), float(rng.choice([0.0, 0.6]))
    n = 600
    t = np.cumsum(rng.choice([0, 1, 2, 3, 5, 25], n, p=[0.02, 0.5, 0.2, 0.17, 0.08, 0.03]))
    v = np.repeat(rng.normal(0, 1.5, n), rng.choice([1, 2, 3, 20], n))[:n] + rng.normal(0, 0.2, n)
    v[rng.random(n) < 0.01] = np.nan
    rows = sorted(zip(t.tolist(), v.tolist(), strict=True), key=lambda r: (r[0], r[1] != r[1], r[1]))
    given = [(a, a + hold, x, 1.0) for a, x in rows]
    how = {"noise": noise, "at_least": at_least, "report": report}
    want = reference.frames(reference.readings(given, reference.banded([], EDGES, hysteresis)), **how)
    x = stream(t=t, v=v, one=np.ones(n))
    found = x.frames(hp.bands(EDGES, hysteresis=hysteresis, of="v"), hold=hold, sums="one", **how).to_arrow()
    assert [tuple(r.values()) for r in found.to_pylist()] == want
    assert not want or sum(r[3] for r in want) > n / 4


def test_short_statuses_do_not_wait_for_ever() -> None:
    t = np.arange(0, 3000, 2)
    words = ["abc"[i % 3] for i in range(len(t))]
    found = stream(t=t, s=words).frames("s", hold=2, at_least=5).to_arrow().to_pylist()
    assert len(found) > 4
    assert max(f["end"] - f["t"] for f in found) <= 502
    assert found[0]["t"] == 0 and found[-1]["end"] == 3000


def test_frames_of_the_papers_example() -> None:
    """Trot for 2 s, low for 0.8 s, medium for 2 s: the time of low goes to medium."""
    t = np.arange(0, 4800, 100) * 1_000_000
    words = ["trot"] * 20 + ["low"] * 8 + ["medium"] * 20
    found = stream(t=t, s=words).frames("s", hold="100ms", at_least="1s").to_arrow().to_pylist()
    assert [(f["t"] // 10**6, f["end"] // 10**6, f["status"]) for f in found] == [
        (0, 2000, "trot"),
        (2000, 4800, "medium"),
    ]


def test_frames_are_given_as_soon_as_the_next_is_certain() -> None:
    t = np.arange(0, 100, 10)
    live = stream(t=t, s=["a"] * 5 + ["b"] * 5).frames("s", hold=10, at_least=20)
    pieces = [p.num_rows for p in live.batches(rows=1)]
    assert sum(pieces) == 2
    assert pieces.index(1) < len(pieces) - 1


def test_report_lets_progress_pass_an_open_frame() -> None:
    t = np.arange(0, 1000, 10)
    open_frame = stream(t=t, s=["a"] * 100).frames("s", hold=10, report=100)
    counted = open_frame.tumble(200).agg(n=hp.count())
    pieces = [p for p in counted.batches(rows=10) if len(p)]
    assert len(pieces) > 2
    assert counted.to_arrow()["n"].to_pylist() == [2] * 5


BAD = {
    "hold": (lambda: stream(t=[1], v=[1.0]).frames(hp.bands([0])), "hold= says how long"),
    "no hold": (lambda: stream(t=[1], e=[2], v=[1.0]).frames(hp.bands([0]), hold=3), "hold= is for points"),
    "which": (lambda: stream(t=[1], v=[1.0], w=[1]).frames(hp.bands([0]), hold=3), "of which column"),
    "column": (lambda: stream(t=[1], v=[1.0]).frames(hp.bands([0], of="q"), hold=3), "no column 'q'"),
    "text": (lambda: stream(t=[1], v=["a"]).frames(hp.bands([0], of="v"), hold=3), "not a number"),
    "float status": (lambda: stream(t=[1], v=[1.0]).frames("v", hold=3), "make bands"),
    "status": (lambda: stream(t=[1], v=[1.0]).frames(3, hold=3), "got int"),  # type: ignore[arg-type]
    "negative": (lambda: stream(t=[1], v=[1.0]).frames(hp.bands([0]), hold=3, noise=-1), "noise must be"),
    "sums": (lambda: stream(t=[1], v=[1.0], s=["x"]).frames(hp.bands([0]), hold=3, sums="s"), "not a number"),
    "twice": (lambda: stream(t=[1], v=[1.0]).frames(hp.bands([0]), hold=3, sums=("v", "v")), "'v'"),
    "edges": (lambda: hp.bands([2, 1]), "ascend"),
    "no edges": (lambda: hp.bands([]), "ascend"),
    "nan edge": (lambda: hp.bands([float("nan")]), "finite"),
    "names": (lambda: hp.bands([1], names=["a"]), "make 2 bands, got 1 names"),
    "same names": (lambda: hp.bands([1], names=["a", "a"]), "same name"),
    "hysteresis": (lambda: hp.bands([1], hysteresis=-1), "from 0 on"),
    "points": (lambda: stream(t=[1], v=[1.0]).trailing(5).agg(n=hp.count()), "take no time"),
    "no lengths": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing().agg(n=hp.count()), "different lengths"),
    "equal lengths": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing(5, "5ns").agg(n=hp.count()), "different lengths"),
    "length": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing(0).agg(n=hp.count()), "must be positive"),
    "aggregate": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing(5).agg(n=hp.max("v")), "weighed by time"),
    "no aggregate": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing(5).agg(), "needs an aggregate"),
    "unnamed": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing(5).agg(hp.duration()), "needs a name"),
    "by": (lambda: stream(t=[1], e=[2], v=[1.0]).trailing(5).agg(n=hp.count(), by="q"), "no column 'q'"),
    "elsewhere": (lambda: stream(t=[1], v=[1.0]).tumble(5).agg(n=hp.duration()), "only trailing"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_is_said_when_the_query_is_built(what: str) -> None:
    make, says = BAD[what]
    with pytest.raises(ParameterError) as error:
        make()
    assert says in str(error.value)


def test_events_that_overlap_are_refused() -> None:
    overlapping = stream(t=[0, 5], e=[10, 12], v=[1.0, 2.0]).trailing(5).agg(n=hp.count())
    with pytest.raises(DataError, match="events of a key overlap"):
        overlapping.to_arrow()


def test_frames_are_held_once_for_all_windows() -> None:
    """What is kept grows with the longest window alone, neighbours of equal status are one frame, and all of it goes with time."""

    def held(*lengths: int | None) -> int:
        t = np.arange(0, 2000, 10)
        x = stream(t=t, e=t + 10, s=["ab"[i // 5 % 2] for i in range(200)])
        query = x.trailing(*lengths).agg(time=hp.duration(), by="s")
        pipeline = Pipeline(lower([query.node]).roots)
        pipeline.rows(0, pa.table({"t": t, "e": t + 10, "s": ["ab"[i // 5 % 2] for i in range(200)]}))
        kernel = next(s.kernel for s in pipeline.stations.values() if type(s.kernel).__name__ == "TrailingKernel")
        pipeline.advance([hp.Progress(2000)])
        return sum(len(b) for b in kernel.recent.batches) if kernel.recent.batches else 0  # type: ignore[attr-defined]

    assert held(500) == held(100, 300, 500) <= 11
    assert held(None) <= 1
