"""State comes back to its floor: keys that nothing needs are forgotten, in as much time as their rows took."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.engine.local import Live
from hydrophone.engine.turns import MARKS_PER_SWEEP


def counts(table: pa.Table) -> hp.Stream:
    return hp.from_arrow(table, key="key", time="ts", progress=hp.ordered()).tumble(10).agg(n=hp.count())


def test_keys_that_come_and_go_leave_nothing_behind() -> None:
    fresh, turns = 500, 300
    table = pa.table({"key": np.arange(fresh * turns), "ts": np.repeat(np.arange(turns) * 10, fresh)})
    live = Live(counts(table).node, hp.late.error())
    held, bytes_held, given = [], [], 0
    for turn in range(turns):
        live.rows(0, table.slice(turn * fresh, fresh))
        live.advance()
        given += sum(map(len, live.pieces()))
        held.append(live.metrics()["keys"])
        bytes_held.append(live.metrics()["state_bytes"])
    assert given == fresh * (turns - 1)
    assert max(held) <= 4 * fresh
    assert max(bytes_held[turns // 2 :]) <= max(bytes_held[: turns // 10])


def test_few_rows_at_a_time_do_not_look_at_all_keys_and_forget_them_all_the_same() -> None:
    many = 100_000
    old = pa.table({"key": np.arange(many), "ts": np.zeros(many, np.int64)})
    late = pa.table({"key": np.zeros(MARKS_PER_SWEEP, np.int64), "ts": np.full(MARKS_PER_SWEEP, 20)})
    live = Live(counts(old).node, hp.late.error())
    live.rows(0, old)
    live.advance()
    swept = []
    sweep = live.pipeline.sweep
    live.pipeline.sweep = lambda: swept.append(1) or sweep()  # type: ignore[method-assign, func-returns-value]
    for row in range(len(late)):
        live.rows(0, late.slice(row, 1))
        live.advance()
        assert sum(map(len, live.pieces())) == (many if row == 0 else 0)
    assert len(swept) == 1
    assert live.metrics()["keys"] == 1
