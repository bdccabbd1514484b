"""Two-level aggregation: parts of aggregates, made of any shares of the rows, give the answers of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.batch import Progress
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.plan.lower import stages
from hydrophone.spark.combine import High, Low, LowKernel, combine

RNG = np.random.default_rng(3)
ROWS = pa.table(
    {
        "k": RNG.integers(0, 20, 3_000),
        "t": RNG.permutation(3_000) * 10,
        "v": pa.array(RNG.integers(-40, 40, 3_000) / 4, mask=RNG.random(3_000) < 0.1),
        "i": pa.array(RNG.integers(-5, 5, 3_000).astype(np.int16)),
        "s": np.array(["x", "y"])[RNG.integers(0, 2, 3_000)],
    }
)
AGGREGATES = {
    "n": hp.count(),
    "there": hp.count("v"),
    "texts": hp.count("s"),
    "total": hp.sum("i"),
    "level": hp.mean("v"),
    "low": hp.min("v"),
    "high": hp.max("i"),
}


def queries() -> dict[str, hp.Stream]:
    rows = hp.from_arrow(ROWS, key="k", time="t")
    large = rows.where(hp.col("i") > 0)
    return {
        "rows": rows.tumble(500, offset=7).agg(**AGGREGATES),
        "row by row": large.key_by("s").tumble(500).agg(n=hp.count(), level=hp.mean("v")),
        "union": hp.union(rows, large).tumble(500).agg(**AGGREGATES),
        "above": rows.tumble(500)
        .agg(total=hp.sum("i"))
        .where(hp.col("total") > 3)
        .key_by()
        .tumble(1000)
        .agg(n=hp.count()),
    }


def in_two(query: hp.Stream, chunk: int, skip: int) -> list[dict[str, object]]:
    """The answer as tasks and shards would give it, in this process."""
    results: list[pa.Table] = []
    for stage in stages(combine(query.node)):
        pipeline = Pipeline([stage.root])
        for port, given in enumerate(stage.inputs):
            table = ROWS.select(given.source.layout.schema.names) if given.source else results[given.stage or 0]
            task = Pipeline([given.prefix])
            for kernel in task.kernels.values():
                if isinstance(kernel, LowKernel):
                    kernel._skip = skip
            for at in range(0, len(table), chunk):
                task.rows(0, table.slice(at, chunk))
                for batch in task.drain():
                    pipeline.rows(port, emit.table(batch, given.prefix.type, task.keys(given.prefix)))
        pipeline.advance([Progress.end()] * len(stage.inputs))
        found = [emit.table(b, stage.root.type, pipeline.keys(stage.root)) for b in pipeline.drain()]
        results.append(pa.concat_tables(found))
    return sorted(results[-1].to_pylist(), key=str)


@pytest.mark.parametrize("chunk", [60, 3_000])
@pytest.mark.parametrize("skip", [0, 2])
@pytest.mark.parametrize("name", queries())
def test_parts_give_the_answer_of_the_rows(name: str, chunk: int, skip: int) -> None:
    query = queries()[name]
    assert any(isinstance(n, Low) for n in combine(query.node).topological())
    assert in_two(query, chunk, skip) == sorted(query.to_arrow().to_pylist(), key=str)


def test_fewer_rows_travel() -> None:
    stage = stages(combine(queries()["rows"].node))[-1]
    task = Pipeline([stage.inputs[0].prefix])
    task.rows(0, ROWS)
    assert sum(len(b) for b in task.drain()) < len(ROWS) / 2


@pytest.mark.parametrize("one", [hp.first("v"), hp.quantile("v", 0.5), hp.std("v")], ids=lambda a: type(a).__name__)
def test_what_does_not_merge_by_itself_stays(one: object) -> None:
    query = hp.from_arrow(ROWS, key="k", time="t").tumble(500).agg(n=hp.count(), x=one)  # type: ignore[arg-type]
    assert not any(isinstance(n, High | Low) for n in combine(query.node).topological())
