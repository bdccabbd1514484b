"""Marks every so much data time: no finer than asked for, each ends its batch, and answers stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.model.progress import Policy, Tracker

RNG = np.random.default_rng(11)
TIMES = np.sort(RNG.integers(-500, 1_000, 400))
LATE = TIMES[np.argsort(TIMES + RNG.integers(0, 31, 400), kind="stable")]


def table(times: np.ndarray[Any, Any]) -> pa.Table:
    """Rows of two senders; every fifth also says how far all of them are."""
    far = np.maximum.accumulate(times) - 30
    marks = [int(m) if i % 5 == 0 else None for i, m in enumerate(far)]
    return pa.table({"t": times, "who": RNG.choice(["a", "b"], len(times)), "m": pa.array(marks, pa.int64())})


@pytest.mark.parametrize("rows", [1, 7, 1_000])
@pytest.mark.parametrize(
    "policy",
    [
        hp.delayed(30, every=50),
        hp.delayed(30, every=50, by="who"),
        hp.delayed(30, every=7),
        hp.delayed(100, per_key=30, every=50),
        hp.punctuated("m", every=50),
    ],
    ids=["delayed", "by", "finer", "per-key", "punctuated"],
)
def test_answers_are_the_same_and_marks_are_multiples(policy: Policy, rows: int) -> None:
    run = hp.from_arrow(table(LATE), time="t", progress=policy).tumble(50).agg(n=hp.count()).batches(rows)
    found = Counter({(r["t"], r["n"]): 1 for piece in run for r in piece.to_pylist()})
    assert found == Counter((int(w) * 50, n) for w, n in Counter(TIMES // 50).items())
    marks = [turn["marks"][0] for turn in run.progress[:-1]]
    assert policy.every is not None and all(m % policy.every == 0 for m in marks if abs(m) < 10_000)


def test_a_mark_ends_its_batch() -> None:
    """One large batch would give its first result at the end of the data."""
    ordered = pa.table({"t": TIMES})

    def turns(policy: Policy) -> list[int]:
        run = hp.from_arrow(ordered, time="t", progress=policy).tumble(100).agg(n=hp.count()).batches(10_000)
        assert sum(len(piece) for piece in run) == 15
        return [turn["results"] for turn in run.progress]

    assert max(turns(hp.ordered())) == 14
    assert max(turns(hp.ordered(every=100))) == 1


def test_marks_are_as_fine_as_the_windows_in_use() -> None:
    """What divides all steps and offsets, through row operators and unions; as rows give them where others read too."""

    def fine(make: Callable[[hp.Stream], hp.Stream]) -> int | None:
        source = hp.from_arrow(pa.table({"t": TIMES}), time="t", progress=hp.ordered(every="windows"))
        (found,) = lower([make(source).node]).sources
        assert found.progress is not None
        return found.progress.every

    assert fine(lambda s: s.tumble(100).agg(n=hp.count())) == 100
    assert fine(lambda s: s.tumble(100, offset=30).agg(n=hp.count())) == 10
    assert fine(lambda s: s.where(hp.col("t") > 0).sliding(60, every=40).agg(n=hp.count())) == 20
    assert fine(lambda s: s.tumble(60, report=15).agg(n=hp.count())) == 15
    both = fine(lambda s: s.tumble(60).agg(n=hp.count()).union(s.key_by().tumble(90).agg(n=hp.count())))
    assert both == 30
    assert fine(lambda s: s.session(60).agg(n=hp.count())) is None
    assert fine(lambda s: s) is None


def test_as_windows_need_gives_the_same_answer() -> None:
    source = hp.from_arrow(table(LATE), time="t", progress=hp.delayed(30, every="windows"))
    run = source.tumble(50).agg(n=hp.count()).batches(10_000)
    assert Counter((r["t"], r["n"]) for p in run for r in p.to_pylist()) == Counter(
        (int(w) * 50, n) for w, n in Counter(TIMES // 50).items()
    )
    assert len(run.progress) > 25


def test_rows_for_their_mark_alone_end_a_batch_too() -> None:
    rows = pa.table({"t": pa.array([1, None, 2, None, 12], pa.int64()), "m": pa.array([None, 1, None, 10, None])})
    given = hp.from_arrow(rows, time="t", progress=hp.punctuated("m", every=10)).tumble(10).agg(n=hp.count())
    assert [p.to_pylist() for p in given.batches(100)] == [
        [{"t": 0, "end": 10, "n": 2}],
        [{"t": 10, "end": 20, "n": 1}],
    ]


def test_the_clock_gives_no_finer_marks_either() -> None:
    seen = Tracker(hp.ordered(lull=5, every=10))
    seen.tick(38)
    assert seen.mark == 30


def test_no_time_between_marks_is_refused() -> None:
    with pytest.raises(hp.ParameterError, match="every must be positive"):
        hp.delayed("5s", every=0)


def test_marks_of_ends_end_their_batch_too() -> None:
    rows = pa.table({"start": [0, 1, 2, 3, 4, 5], "stop": [5, 12, 15, 31, 38, 44]})
    flows = hp.from_arrow(rows, time="start", end="stop", progress=hp.delayed(30, end=0, every=10))
    counts = flows.point_at_end().tumble(10).agg(n=hp.count())
    assert [piece["start"].to_pylist() for piece in counts.batches(rows=1_000)] == [[0], [10], [30], [40]]
