"""Two-level aggregation: parts of aggregates, made of any shares of the rows, give the answers of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.compiler.compile import Host, stages
from hydrophone.compiler.two_level_aggregation import two_level_aggregation
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.ops.aggregates import task_aggregates as cells
from hydrophone.ops.aggregates.tumble import FinalTumble, PartialTumble, PartialTumbleKernel
from hydrophone.spark.batch import shards

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


def in_two(query: hp.Stream, chunk: int) -> tuple[list[dict[str, object]], int]:
    """The answer as tasks and shards would give it, in this process; and the rows that crossed the exchange before a task ended."""
    results: list[pa.Table] = []
    early = 0
    for stage in stages(query.node, Host.SHARDS):
        pipeline = Pipeline([stage.root])
        for port, given in enumerate(stage.inputs):
            table = ROWS.select(given.source.layout.schema.names) if given.source else results[given.stage or 0]
            task = Pipeline([given.prefix])
            for at in range(0, len(table), chunk):
                task.rows(0, table.slice(at, chunk))
                found = task.drain()
                early += sum(map(len, found))
                if at + chunk >= len(table):
                    task.advance([Progress.end()])
                    found += task.drain()
                for batch in found:
                    pipeline.rows(port, emit.result_table(batch, given.prefix.type, task.keys(given.prefix)))
        pipeline.advance([Progress.end()] * len(stage.inputs))
        found = [emit.result_table(b, stage.root.type, pipeline.keys(stage.root)) for b in pipeline.drain()]
        results.append(pa.concat_tables(found))
    return sorted(results[-1].to_pylist(), key=str), early


@pytest.mark.parametrize("chunk", [60, 3_000])
@pytest.mark.parametrize("entries", [7, 1 << 17])
@pytest.mark.parametrize("worth", [0, 1])
@pytest.mark.parametrize("name", queries())
def test_parts_give_the_answer_of_the_rows(
    name: str, worth: float, entries: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether merging is given up or not, and with a table that sheds or not."""
    monkeypatch.setattr(cells, "ENTRIES", entries)
    monkeypatch.setattr(cells, "_skip", {})
    monkeypatch.setattr(PartialTumbleKernel, "WORTH", worth)
    query = queries()[name]
    assert any(isinstance(n, PartialTumble) for n in two_level_aggregation(query.node).topological())
    found, early = in_two(query, chunk)
    assert found == sorted(query.to_arrow().to_pylist(), key=str)
    assert (early > 0) == (entries == 7 or name == "above")


def test_fewer_rows_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged over all batches of a task: every key and window leaves once."""
    monkeypatch.setattr(cells, "_skip", {})
    query = queries()["rows"]
    stage = stages(query.node, Host.SHARDS)[-1]
    task = Pipeline([stage.inputs[0].prefix])
    for at in range(0, len(ROWS), 60):
        task.rows(0, ROWS.slice(at, 60))
    assert not task.drain()
    task.advance([Progress.end()])
    assert sum(len(b) for b in task.drain()) == len(query.to_arrow()) < len(ROWS) / 2


def test_explain_says_what_tasks_merge() -> None:
    text = queries()["rows"].explain("spark")
    assert (
        "\n  tumble(" in text and "tasks merge rows before the exchange, in a table of 131,072 keys and windows" in text
    )
    whole = hp.from_arrow(ROWS, key="k", time="t").tumble(500).agg(middle=hp.quantile("v", 0.5))
    assert "tasks merge" not in whole.explain("spark")


def test_a_task_forgets_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds leaves, and it begins anew."""
    monkeypatch.setattr(shards, "KEY_COLUMNS", 5)
    monkeypatch.setattr(cells, "_skip", {})
    query = queries()["rows"]
    stage = stages(query.node, Host.SHARDS)[-1]
    feeder = shards.FeedRunner([shards.PortFeed.of(stage, 0)], 1)
    packed = []
    for at in range(0, len(ROWS), 60):
        packed += feeder.rows(ROWS.slice(at, 60))
        assert len(feeder.feeds[0].pipeline.keys(stage.inputs[0].prefix)) <= 5
    packed += feeder.flush()
    found = pa.concat_tables(shards.run_stage(stage, iter(packed))).to_pylist()
    assert sorted(found, key=str) == sorted(query.to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("one", [hp.first("v"), hp.quantile("v", 0.5), hp.std("v")], ids=lambda a: type(a).__name__)
def test_what_does_not_merge_by_itself_stays(one: object) -> None:
    query = hp.from_arrow(ROWS, key="k", time="t").tumble(500).agg(n=hp.count(), x=one)  # type: ignore[arg-type]
    assert not any(isinstance(n, FinalTumble | PartialTumble) for n in two_level_aggregation(query.node).topological())
