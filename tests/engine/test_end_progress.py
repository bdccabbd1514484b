"""Two progressing attributes: records of flows come by their ends, while their starts lie far apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.test_stateful import Rehearsal

import hydrophone as hp
from hydrophone.model.time import MAX_TIME

RNG = np.random.default_rng(3)
START = RNG.integers(0, 2_000, 500)
STOP = START + RNG.integers(1, 300, 500)
ARRIVAL = np.argsort(STOP + RNG.integers(0, 6, 500), kind="stable")
FLOWS = pa.table({"host": RNG.choice(["a", "b"], 500), "start": START, "stop": STOP}).take(pa.array(ARRIVAL))
LATE = pa.table({"host": ["a"], "start": [1_500], "stop": [1_600]})
"""Its start is not late when it comes; its end is."""


def flows(table: pa.Table, end: int | None, **options: Any) -> hp.Stream:
    return hp.from_arrow(table, key="host", time="start", end="stop", progress=hp.delayed(600, end=end, **options))


def by_end(stream: hp.Stream) -> hp.Stream:
    return stream.point_at_end().key_by().tumble(100).agg(n=hp.count())


@pytest.mark.parametrize("rows", [1, 13, 1_000])
def test_windows_of_ends_are_those_of_a_plain_count(rows: int) -> None:
    wanted = Counter((int(w) * 100, n) for w, n in Counter(STOP // 100).items())
    for query in (
        by_end(flows(FLOWS, 5)),
        by_end(flows(FLOWS, 5, by="host")),
        by_end(flows(FLOWS, 5, every=50)),
        by_end(flows(FLOWS, 5).where(hp.col("start") >= 0)),
        by_end(hp.union(flows(FLOWS.slice(0, 200), 5), flows(FLOWS.slice(200), 5))),
    ):
        assert Counter((r["start"], r["n"]) for p in query.batches(rows) for r in p.to_pylist()) == wanted


def test_ends_do_not_wait_for_starts() -> None:
    """After 300 rows ends have passed far more than starts have."""

    def passed(end: int | None) -> int:
        run = by_end(flows(FLOWS, end)).batches(20)
        for _ in run:
            pass
        return int(run.progress[14]["passed"])

    seen = FLOWS.slice(0, 300)
    assert passed(5) == (max(seen["stop"].to_pylist()) - 5) // 100 * 100
    assert passed(None) == (max(seen["start"].to_pylist()) - 600) // 100 * 100


def test_shards_restarts_and_stages_change_nothing() -> None:
    table = pa.concat_tables([FLOWS, LATE])
    running = Rehearsal(by_end(flows(table, 5)), 3, hp.late.drop(), seed=2, combine=True)
    told = [running.run({0: table.slice(at, 25)}) for at in range(0, len(table), 25)]
    assert max(m.get("passed", 0) for m in told[11]) == (max(FLOWS["stop"].to_pylist()[:300]) - 5) // 100 * 100
    assert sum(sum(m["late"].values()) for turn in told for m in turn) == 1
    running.run({}, {0: MAX_TIME})
    found = Counter((r["start"], r["n"]) for piece in running.results for r in piece.to_pylist())
    assert found == Counter((int(w) * 100, n) for w, n in Counter(STOP // 100).items())


@pytest.mark.parametrize("policy", ["drop", "adjust", "side"])
def test_a_row_that_ends_too_early_is_late(policy: str, tmp_path: Path) -> None:
    table = pa.concat_tables([FLOWS, LATE])
    late = hp.late.side(str(tmp_path)) if policy == "side" else getattr(hp.late, policy)()
    run = by_end(flows(table, 5)).batches(500, late=late)
    assert sum(r["n"] for p in run for r in p.to_pylist()) == 500 + (policy == "adjust")
    assert sum(sum(turn["late"].values()) for turn in run.progress) == 1
    if policy == "side":
        assert pq.read_table(tmp_path).to_pylist() == LATE.to_pylist()


def test_a_row_that_ends_too_early_may_be_an_error() -> None:
    with pytest.raises(hp.LateEventError, match="1 rows are late; the first ends at"):
        list(by_end(flows(pa.concat_tables([FLOWS, LATE]), 5)).batches(500))


def test_points_have_no_ends_to_promise() -> None:
    with pytest.raises(hp.ParameterError, match="these events have none"):
        hp.from_arrow(FLOWS, time="start", progress=hp.delayed(5, end=5))
    with pytest.raises(hp.ParameterError, match="end must not be negative"):
        hp.delayed(5, end=-1)
