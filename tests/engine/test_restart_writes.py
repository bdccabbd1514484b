"""After a restart a checkpoint writes what changed since, and not all that was put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import SLOTS_PER_BLOCK, Progress

KEYS = 2 * SLOTS_PER_BLOCK
ROWS = pa.table(
    {
        "k": np.arange(KEYS),
        "t": np.zeros(KEYS, np.int64),
        "e": np.full(KEYS, 1_000_000),
        "v": np.ones(KEYS, np.int64),
    }
)


def stream(table: pa.Table = ROWS) -> Any:
    return hp.from_arrow(table, key="k", time="t", end="e")


QUERIES: dict[str, Callable[[Any], Any]] = {
    "session": lambda x: x.session(1000).agg(n=hp.count()),
    "stitch": lambda x: x.stitch(),
    "distinct": lambda x: x.distinct(),
    "pairs": lambda x: x.pairs(within=1_000_000),
    "last_n": lambda x: x.last_n(3, within=1_000_000).agg(n=hp.count()),
    "count_window": lambda x: x.count_window(5, by="v").agg(n=hp.count()),
    "left join": lambda x: x.join(stream(ROWS.slice(0, 0)), how="left"),
    "anti_join": lambda x: x.anti_join(stream(ROWS.slice(0, 0))),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_mark_after_a_restart_changes_no_block(name: str) -> None:
    """Nothing is over by the mark, so there is nothing to write."""
    plan = lower([QUERIES[name](stream()).node])
    before, after = Pipeline(plan.roots), Pipeline(plan.roots)
    before.rows(0, ROWS)
    before.advance([Progress(5)] * len(plan.sources))
    after.restore({path: block for path, block in before.snapshot().items() if block is not None})
    after.advance([Progress(6)] * len(plan.sources))
    assert set(after.snapshot(changed=True)) == {"marks"}
