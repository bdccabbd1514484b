"""`shj_snj`: a join of two streams of random numbers by hash areas, against lists that are looked through (PIPES, figure 6), and sorting.

Rows come in turn from both sides, a hundred at a time, and stay alive, so that the state grows. A list compares every new row with all.
Where numbers are few and rows live short, but marks come late, a look-up by hash meets all rows of its number; the plan's choice sees that
and sorts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Events, Progress

RANGE = 100_000
AT_ONCE = 100
LIFE = 1 << 50
FEW = 10
SHORT, BEHIND = 100, 1 << 40
"""Of rows of few numbers: how long each lives, and how far marks are behind."""


def cases(quick: bool) -> Iterator[Case]:
    """The paper's 40,000 numbers of each side and fewer; without `--quick` also more."""
    for rows in (10_000, 20_000, 40_000) if quick else (10_000, 20_000, 40_000, 80_000):
        sides = tuple(np.random.default_rng(seed).integers(0, RANGE, rows) for seed in (1, 2))
        peers = {name: partial(joined, sides, form) for name, form in (("list", "list"), ("sorted", "sorted"))}
        yield Case(f"{rows} numbers a side, hash", partial(joined, sides, "auto"), peers, 3)
    for rows in (10_000, 20_000) if quick else (10_000, 20_000, 40_000):
        sides = tuple(np.random.default_rng(seed).integers(0, FEW, rows) for seed in (1, 2))
        crowded = partial(joined, sides, life=SHORT, behind=BEHIND)
        peers = {name: partial(crowded, name) for name in ("hash", "list")}
        yield Case(f"{rows} times one of {FEW} numbers a side, sorted", partial(crowded, "auto"), peers, 3)


def joined(sides: tuple[np.ndarray, ...], area: str, life: int = LIFE, behind: int = 0) -> Answer:
    """Feed both sides in turn; how many pairs there are, and the sums of their times."""
    row = pa.table({"number": [0], "start": [0], "stop": [1]})
    a, b = (hp.from_arrow(row, key="number", time="start", end="stop") for _ in range(2))
    plan = lower([a.join(b, area=area).node])
    pipeline = Pipeline(plan.roots)
    slots = pipeline.keys(pipeline.ports[0]).slots([pa.array(np.arange(RANGE))])
    pairs, times = 0, 0.0
    for at in range(0, len(sides[0]), AT_ONCE):
        start = np.arange(at, min(at + AT_ONCE, len(sides[0])))
        for port, numbers in enumerate(sides):
            columns = pa.table({"_": pa.nulls(len(start))}).select([])
            pipeline.step(port, Events(slots[numbers[start]], start, start + life, columns))
        pipeline.advance([Progress(at - behind)] * 2)
        for batch in pipeline.drain():
            assert isinstance(batch, Events)
            pairs, times = pairs + len(batch), times + float(batch.start.sum())
    return pairs, times
