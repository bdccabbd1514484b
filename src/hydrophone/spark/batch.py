"""Queries as batch DataFrames: which plan runs and why, and the DataFrame that runs it when Spark asks for rows.

Only the DataFrame API is used, so that all this works through Spark Connect too. Nothing here imports PySpark: `explain` works without.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException

from hydrophone.engine import emit
from hydrophone.errors import ParameterError, PlanError, UnsupportedError
from hydrophone.io.arrow import ArrowData
from hydrophone.io.parquet import ParquetData
from hydrophone.ops.keys import KeyBy
from hydrophone.plan.lower import Stage, stages
from hydrophone.plan.node import Node
from hydrophone.plan.reach import reach_of_sources
from hydrophone.plan.rewrite import filters_on_sources, rewrite
from hydrophone.plan.source import Source
from hydrophone.plan.types import DataType, StreamType, WindowedType
from hydrophone.pushdown import sql_filter
from hydrophone.spark import lake as lakes_
from hydrophone.spark import narrow
from hydrophone.spark import slices as slices_
from hydrophone.spark.combine import combine
from hydrophone.spark.combine import describe as merging_in_shards
from hydrophone.spark.data import SparkData, check_grid, held_schema, spark_schema
from hydrophone.spark.exchange import PACKED
from hydrophone.spark.lake import Lake, Measure
from hydrophone.spark.partial import describe as merging
from hydrophone.spark.scan import ParquetScan, Part, TableScan, at_once, columns, prune, scan_of, smoothed
from hydrophone.spark.shards import Feed, PackFiles, PackRows, PackTable, RunAndPack, RunLast, without_sources
from hydrophone.spark.sinks import check_cells, flat
from hydrophone.spark.slices import Shares
from hydrophone.spark.titles import Titled, described, title
from hydrophone.spark.version import check_session
from hydrophone.time import Instant
from hydrophone.write import Csv, Memory, Sink, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Plan = Literal["auto", "slices", "keys", "shards"]
PLANS = ("auto", "slices", "keys", "shards")

TARGET = 64 << 20
"""Bytes that a task should read."""
LEAST = 4 << 20
"""Bytes below which another task costs more than it saves."""
LARGEST = 4 << 30
"""Bytes that a task may read at most, where more tasks would read more of them twice: it holds few at once, but begins anew if it fails."""
AMPLIFICATION = 1.3
"""How many times over slices should read the data: beyond it there are fewer of them, if enough tasks stay busy."""
WORTH = 3.0
"""How many times over they may read it at most: an exchange also writes and reads everything once more."""
MANY_GROUPS = 64
"""Row groups without statistics that are measured in this process; more are measured by a Spark job."""


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    plan: Plan = "auto"
    slices: int | None = None
    shards: int | None = None

    def check(self) -> None:
        """Legal words and numbers."""
        if self.plan not in PLANS:
            raise ParameterError(f"to_spark: plan must be one of {', '.join(PLANS)}, got {self.plan!r}")
        for name, value in (("slices", self.slices), ("shards", self.shards)):
            if value is not None and value < 1:
                raise ParameterError(f"to_spark: {name} must be at least 1, got {value}")


@dataclass(frozen=True)
class Choice:
    """The plan that runs: `shares` for slices and keys, `shards` for the exchange."""

    name: Plan
    why: tuple[str, ...]
    shares: Shares | None = None
    shards: int = 0

    def describe(self) -> list[str]:
        """Lines for `explain`."""
        if self.shares is None:
            head = f"plan: shards, {self.shards} of them"
        else:
            count = len(self.shares.shares)
            what = f"{count} slices of time" if self.name == "slices" else f"{count} tasks with whole folders"
            head = f"plan: {self.name}, {what}, reading {self.shares.amplification:.2f} times the data"
        return [head, *(f"  because {line}" for line in self.why)]


# --- choosing ---------------------------------------------------------------------------------------------------------


def ready(root: Node) -> Node:
    """The query as batch plans run it: filters first, and no column that nobody looks at."""
    return prune(at_once(rewrite(root)))


def choose(root: Node, wish: Wish, tasks: int, partitions: int, measure: Measure) -> Choice:
    """Pick the plan for a query that is `ready`; `tasks` run at a time, `partitions` is Spark's number for a shuffle."""
    wish.check()
    sources = [n for n in root.topological() if isinstance(n, Source)]
    lakes = {s: lakes_.survey(s) for s in sources if isinstance(s.data, ParquetData)}
    refused: list[str] = []
    if wish.plan in ("auto", "keys"):
        shares, not_keys = _keys(root, sources, lakes, tasks, few=wish.plan == "keys")
        if shares is not None:
            return Choice("keys", ("folders hold whole keys, so no task needs rows of another",), shares)
        if wish.plan == "keys":
            refused.append(not_keys)
    if wish.plan in ("auto", "slices"):
        shares, why = _slices(root, sources, lakes, wish, tasks, measure, refused)
        if shares is not None:
            return Choice("slices", why, shares)
    if wish.plan in ("slices", "keys"):
        raise PlanError(f"to_spark: plan={wish.plan!r} is not possible: {'; '.join(refused)}", hint='use plan="auto"')
    reasons = tuple(f"not slices: {r}" for r in refused) or ("the user asked for it",)
    size = sum(lake.bytes for lake in lakes.values())
    count = wish.shards or (partitions if len(lakes) < len(sources) else _count(size, tasks))
    return Choice("shards", reasons, None, count)


def _keys(
    root: Node, sources: Sequence[Source], lakes: dict[Source, Lake], tasks: int, few: bool
) -> tuple[Shares | None, str]:
    """Whole folders, where every source has folders by the same key columns and the key never changes; or why not."""
    if len(lakes) < len(sources):
        return None, "a source is not in Parquet files"
    if any(isinstance(n, KeyBy) for n in root.topological()):
        return None, "the key changes on the way"
    named = [set.intersection(*(set(v) for v in lakes_.folder_values(lakes[s]))) & set(s.layout.key) for s in sources]
    common = [k for k in sources[0].layout.key if all(k in names for names in named)]
    if not common:
        return None, "no folders are named by a key column"
    count = _count(sum(lake.bytes for lake in lakes.values()), tasks)
    shares = slices_.by_folder(root, lakes, common, count)
    if len(shares.shares) < count and not few:
        return None, "there are fewer folders than tasks"
    return shares, ""


def _slices(
    root: Node,
    sources: Sequence[Source],
    lakes: dict[Source, Lake],
    wish: Wish,
    tasks: int,
    measure: Measure,
    refused: list[str],
) -> tuple[Shares | None, tuple[str, ...]]:
    reaches = reach_of_sources(root)
    for source in sources:
        if source not in lakes:
            refused.append(f"{source.data.identity} is not in Parquet files")
        elif source.layout.samples and source.layout.longest is None:
            refused.append(
                f"{source.data.identity} holds segments, whose length no statistics tell: say it with longest="
            )
        if not reaches[source].bounded:
            refused.append(f"the reach is {reaches[source]}")
    if refused:
        return None, ()
    known = {s: lake if lake.known.all() else lakes_.measured(lake, s, measure) for s, lake in lakes.items()}
    size = sum(lake.bytes for lake in known.values())
    why = [f"reach: {reaches[s]}" for s in sources]
    passed = sum(lake.measured for lake in known.values())
    if passed:
        why.append(f"{passed} row groups had no statistics of time and were measured by a pass over that column")
    make = partial(slices_.slices, root, known, reaches)
    if wish.plan == "slices" and wish.slices:
        return make(wish.slices), tuple(why)
    most = wish.slices or _count(size, tasks)
    least = wish.slices or max(-(-size // LARGEST), min(tasks, most))
    count = most
    while True:
        shares = make(count)
        if shares.amplification <= AMPLIFICATION:
            return shares, tuple(why)
        if count <= least:
            break
        count = max(least, int(count * 0.7))
    why.append("files overlap in time, or the reach is long against a slice")
    if shares.amplification <= WORTH:
        return shares, tuple(why)
    if wish.plan == "slices":
        return shares, (*why, f"the user asked for it, though {WORTH} times is the limit")
    refused.append(f"{count} slices would read {shares.amplification:.2f} times the data (limit {WORTH}): {why[-1]}")
    return None, ()


def _never_null(kind: DataType, schema: pa.Schema) -> list[str]:
    """Times and samples: where a sample is missing, there is no row of it, or a run ends. What windows carry of events may be null."""
    if isinstance(kind, StreamType):
        return []
    carried = kind.labels.names if isinstance(kind, WindowedType) and kind.labels else []
    return [n for n in schema.names[len(kind.key) :] if n not in carried]


def _count(size: int, tasks: int) -> int:
    """How many tasks share so many bytes: as many as run at a time or a multiple, none of them tiny."""
    wanted = max(-(-size // TARGET), tasks)
    if wanted < 4 * tasks:
        wanted = -(-wanted // tasks) * tasks
    return int(min(wanted, max(1, size // LEAST)))


def explain(root: Node, spark: SparkSession | None = None) -> str:
    """Which plan `to_spark` would run, over how many tasks, and why; without a session for as many tasks as this machine has cores."""
    tasks, partitions = (_tasks(spark), _partitions(spark)) if spark else (os.cpu_count() or 1, os.cpu_count() or 1)
    late = [n for n in root.topological() if smoothed(n)]
    root = ready(root)
    choice = choose(root, Wish(), tasks, partitions, lakes_.measure_here)
    lines = choice.describe()
    for source in (n for n in root.topological() if isinstance(n, Source)):
        lines.append(f"  {source.data.identity}: reads {', '.join(columns(source.layout))}")
        if isinstance(source.data, ParquetData) and (condition := scan_of(root, source).condition) is not None:
            lines.append(f"    where {condition}")
    lines += [f"  {n.name()}: flush is without effect, results leave when the task or micro-batch ends" for n in late]
    lines += [f"  {line}" for line in (merging_in_shards(root) if choice.name == "shards" else ())]
    lines += [f"  in a stream: {line}" for line in merging(stages(root))]
    return "\n".join(lines)


# --- building the DataFrame -------------------------------------------------------------------------------------------


def to_spark(
    root: Node,
    spark: SparkSession,
    *,
    plan: Plan = "auto",
    shape: str = "rows",
    slices: int | None = None,
    shards: int | None = None,
    keys: nw.Expr | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
) -> DataFrame:
    """The result of a query as a lazy DataFrame."""
    check_session(spark, "to_spark")
    kind, form = root.type, emit.check_shape(root.type, shape)
    part = narrow.Part.of(kind, keys, start, end, form)
    root = part.of_plan(root)
    sources = [n for n in root.topological() if isinstance(n, Source)]
    for source in sources:
        _refuse(source)
    check_grid(kind)
    root = ready(root)
    choice = choose(root, Wish(plan, slices, shards), _tasks(spark), _partitions(spark), partial(_measure, spark))
    schema = held_schema(emit.schema(kind, form))
    shown = spark_schema(schema, _never_null(kind, schema))
    if choice.shares is not None:
        task = choice.shares.task(form, schema)
        titled = Titled(task, title(choice.name, root))
        frame = _numbers(spark, len(choice.shares.shares)).mapInArrow(titled, shown)
        return part.of_frame(frame, kind)
    exchange = _Exchange(spark, root, choice.shards)
    last = exchange.stages[-1]
    packed = exchange.shuffled(len(exchange.stages) - 1)
    titled = Titled(RunLast(without_sources(last), form, schema), title("shards", last.root))
    return part.of_frame(packed.mapInArrow(titled, shown), kind)


def save(root: Node, spark: SparkSession, to: Sink, *, overwrite: bool, shape: str, plan: Plan) -> None:
    """Run a query and let Spark write its answer."""
    if isinstance(to, Csv):
        check_cells(emit.schema(root.type, emit.check_shape(root.type, shape)))
    if isinstance(to, Memory):
        raise UnsupportedError("save: with a session results go to files or tables", hint="to_spark(spark).toArrow()")
    frame = to_spark(root, spark, plan=plan, shape=shape)
    writer = (flat(frame) if isinstance(to, Csv) else frame).write.mode("overwrite" if overwrite else "errorifexists")
    try:
        with described(spark, title("save", root)):
            if isinstance(to, Table):
                (writer.format(to.format) if to.format else writer).saveAsTable(to.name)
            elif isinstance(to, Csv):
                writer.csv(to.path, header=True)
            else:
                writer.parquet(to.path)
    except AnalysisException as error:
        if "ALREADY_EXISTS" not in (error.getCondition() or ""):
            raise
        where = to.name if isinstance(to, Table) else to.path
        raise ParameterError(f"save: {where} exists already", hint="choose another one, or overwrite=True") from None


def _refuse(source: Source) -> None:
    if isinstance(source.data, SparkData) and source.data.frame.isStreaming:
        raise PlanError(
            f"to_spark: {source.data.identity} is a streaming DataFrame",
            hint="run the query as a stream: query.start(spark, to=..., checkpoint=...)",
        )
    if not isinstance(source.data, SparkData | ParquetData | ArrowData):
        raise UnsupportedError(
            f"to_spark: tasks cannot read {source.data.identity}",
            hint="let Spark read it and hand over the DataFrame: hp.from_spark(spark.read..., ...)",
        )


class _Exchange:
    """Builds the DataFrames of a plan with exchanges, stage by stage."""

    def __init__(self, spark: SparkSession, root: Node, shards: int) -> None:
        self.spark, self.root, self.shards = spark, root, shards
        self.stages = stages(combine(root))

    def shuffled(self, number: int) -> DataFrame:
        """The packed rows of all inputs of a stage, every shard in a partition of its own."""
        stage = self.stages[number]
        producers: dict[Source | int, list[int]] = {}
        for port, source in enumerate(stage.inputs):
            producer = source.source if source.source is not None else source.stage
            assert producer is not None
            producers.setdefault(producer, []).append(port)
        frames = [self._packed(p, tuple(Feed.of(stage, i) for i in ports)) for p, ports in producers.items()]
        packed = frames[0]
        for frame in frames[1:]:
            packed = packed.unionByName(frame)
        return packed.repartition(self.shards, "label")

    def _packed(self, producer: Source | int, feeds: tuple[Feed, ...]) -> DataFrame:
        kind = spark_schema(PACKED)
        if isinstance(producer, int):
            stage: Stage = without_sources(self.stages[producer])
            task = Titled(RunAndPack(stage, feeds, self.shards), title("shards", stage.root))
            return self.shuffled(producer).mapInArrow(task, kind)
        data = producer.data
        if isinstance(data, SparkData):
            names = columns(producer.layout)
            schema = pa.schema([producer.layout.schema.field(n) for n in names])
            quoted = [f"`{n.replace('`', '``')}`" for n in names]
            frame = data.frame.select(*quoted)
            for passed in _conditions(self.root, producer):
                frame = frame.where(passed)
            return frame.mapInArrow(Titled(PackRows(feeds, self.shards, schema), "pack rows"), kind)
        if isinstance(data, ArrowData):
            task = Titled(PackTable(feeds, self.shards, TableScan.of(producer)), "pack a table")
            return _numbers(self.spark, 1).mapInArrow(task, kind)
        scan = scan_of(self.root, producer)
        lake = lakes_.survey(producer)
        reads = _in_turn(lake, min(_count(lake.bytes, _tasks(self.spark)), max(1, len(lake.size))))
        task = Titled(PackFiles(feeds, self.shards, scan, reads), f"read {data.identity} and pack")
        return _numbers(self.spark, len(reads)).mapInArrow(task, kind)


def _conditions(root: Node, source: Source) -> list[str]:
    """What Spark may check before rows reach Python; the rows that are errors pass."""
    layout = source.layout
    if layout.end:
        return []
    found = [sql_filter(c, layout.schema, [*layout.key, layout.time]) for c in filters_on_sources(root)[source]]
    return [f for f in found if f is not None]


def _in_turn(lake: Lake, count: int) -> tuple[tuple[Part, ...], ...]:
    """Row groups in their order, in `count` shares of about equal bytes."""
    before = np.cumsum(lake.size) - lake.size
    share = np.minimum(before * count // max(lake.bytes, 1), count - 1)
    return tuple(lake.parts(share == number) for number in range(count))


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers of the tasks, each in a partition of its own."""
    return spark.range(0, count, 1, count)


def _measure(spark: SparkSession, scan: ParquetScan, parts: Sequence[Part]) -> list[list[int]]:
    """Measure a few row groups here, many in a Spark job."""
    if len(parts) <= MANY_GROUPS:
        return lakes_.measure_here(scan, parts)
    count = min(len(parts), 4 * _tasks(spark))
    rows = _numbers(spark, count).mapInArrow(
        partial(_measure_share, scan, tuple(parts), count), "number long, low long, high long, nulls long"
    )
    with described(spark, "hydrophone: times of files without statistics"):
        return [list(row)[1:] for row in sorted(rows.collect())]


def _measure_share(scan: ParquetScan, parts: tuple[Part, ...], count: int, batches):  # type: ignore[no-untyped-def]
    for batch in batches:
        for number in batch.column(0).to_pylist():
            mine = range(number, len(parts), count)
            found = np.array([[i, *lakes_.measure_part(scan, parts[i])] for i in mine], np.int64).reshape(-1, 4)
            yield pa.RecordBatch.from_arrays(
                [pa.array(c) for c in found.T.copy()], names=["number", "low", "high", "nulls"]
            )


def _tasks(spark: SparkSession) -> int:
    """How many tasks run at a time, as far as the settings tell."""
    cores = re.fullmatch(r"local(?:-cluster)?\[(\d+|\*)(?:,\s*(\d+))?.*\]", _setting(spark, "spark.master", ""))
    if cores and cores[1] == "*":
        return os.cpu_count() or 1
    if cores:
        return int(cores[1]) * int(cores[2] or 1 if "cluster" in cores[0] else 1)
    executors = int(_setting(spark, "spark.executor.instances", "0")) * int(
        _setting(spark, "spark.executor.cores", "1")
    )
    return int(_setting(spark, "spark.default.parallelism", "0")) or executors or _partitions(spark)


def _partitions(spark: SparkSession) -> int:
    return int(_setting(spark, "spark.sql.shuffle.partitions", "200"))


def _setting(spark: SparkSession, name: str, default: str) -> str:
    return str(spark.conf.get(name, default))
