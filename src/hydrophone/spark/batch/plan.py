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

from hydrophone.compiler import result_range
from hydrophone.compiler.compile import Host, Stage, compile_plan, stages
from hydrophone.compiler.filter_pushdown import filters_on_sources
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.compiler.stages import cut_stages
from hydrophone.compiler.two_level_aggregation import aggregation_remarks
from hydrophone.connect.files import check_replaceable, output_target
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.connect.sink import Sink
from hydrophone.engine import emit
from hydrophone.engine import pieces as lakes_
from hydrophone.engine import shares as slices_
from hydrophone.engine.pieces import Measure, SourcePieces
from hydrophone.engine.scan import WHOLE, ReadRange, Scan, condition_of
from hydrophone.engine.shares import Shares
from hydrophone.errors import ParameterError, PlanError, UnsupportedError
from hydrophone.model.time import Instant
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.source import Source, places_of, sources
from hydrophone.plan.source_filters import sql_filter
from hydrophone.plan.types import DataType, StreamType, WindowedType
from hydrophone.spark.arrow_types import check_grid, local_path, spark_arrow_schema, spark_schema
from hydrophone.spark.batch.result_range import rows_in_range
from hydrophone.spark.batch.shards import PackRows, PortFeed, ReadAndPack, RunAndPack, RunLast, without_sources
from hydrophone.spark.batch.slices import Task
from hydrophone.spark.exchange.shuffle import PACKED
from hydrophone.spark.streaming.outlets import on_this_machine
from hydrophone.spark.streaming.partial_aggregates import describe_partials as merging
from hydrophone.spark.streaming.refusals import refusals
from hydrophone.spark.titles import Titled, described, title
from hydrophone.spark.version import check_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Plan = Literal["auto", "slices", "keys", "shards"]
PLANS = ("auto", "slices", "keys", "shards")

BYTES_PER_TASK = 64 << 20
"""Bytes that a task should read."""
MIN_BYTES_PER_TASK = 4 << 20
"""Bytes below which another task costs more than it saves."""
MAX_BYTES_PER_TASK = 4 << 30
"""Bytes that a task may read at most, where more tasks would read more of them twice: it holds few at once, but begins anew if it fails."""
MAX_AMPLIFICATION = 1.3
"""How many times over slices should read the data: beyond it there are fewer of them, if enough tasks stay busy."""
MIN_BYTES_FOR_SLICES = 3.0
"""How many times over they may read it at most: an exchange also writes and reads everything once more."""
MAX_SKEW = 1.5
"""How many times the mean a task with whole keys may read: beyond it slices or shards share out better."""
MEASURE_ON_SPARK_ABOVE = 64
"""Pieces without statistics that are measured in this process; more are measured by a Spark job."""
MANY_BYTES = 1 << 30
"""As `MEASURE_ON_SPARK_ABOVE`, in bytes of what the query reads of them."""


@dataclass(frozen=True)
class PlanRequest:
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
class PlanChoice:
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


def choose_plan(root: Node, wish: PlanRequest, tasks: int, partitions: int, measure: Measure) -> PlanChoice:
    """Pick the plan for a query that is compiled for slices; `tasks` run at a time, `partitions` is Spark's number for a shuffle."""
    wish.check()
    read = sources(root)
    lakes = {s: lake for s in read if (lake := lakes_.survey_pieces(s)) is not None}
    refused: list[str] = []
    if wish.plan in ("auto", "keys"):
        shares, not_keys = _plan_by_keys(root, read, lakes, tasks, few=wish.plan == "keys")
        if shares is not None:
            return PlanChoice("keys", ("folders or files hold whole keys, so no task needs rows of another",), shares)
        if wish.plan == "keys":
            refused.append(not_keys)
    if wish.plan in ("auto", "slices"):
        shares, why = _plan_by_slices(root, read, lakes, wish, tasks, measure, refused)
        if shares is not None:
            return PlanChoice("slices", why, shares)
    if wish.plan in ("slices", "keys"):
        raise PlanError(f"to_spark: plan={wish.plan!r} is not possible: {'; '.join(refused)}", hint='use plan="auto"')
    reasons = tuple(f"not slices: {r}" for r in refused) or ("the user asked for it",)
    size = sum(lake.bytes for lake in lakes.values())
    count = wish.shards or (partitions if len(lakes) < len(read) else _task_count(size, tasks))
    return PlanChoice("shards", reasons, None, count)


def _plan_by_keys(
    root: Node, sources: Sequence[Source], lakes: dict[Source, SourcePieces], tasks: int, few: bool
) -> tuple[Shares | None, str]:
    """Whole keys, where files or folders of every source hold one of the same key columns and the key never changes; or why not."""
    if len(lakes) < len(sources):
        return None, "a source is not in files"
    common = slices_.common_key(root, lakes)
    if isinstance(common, str):
        return None, common
    size = sum(lake.bytes for lake in lakes.values())
    count = _task_count(size, tasks)
    shares = slices_.shares_by_key(root, lakes, common, count)
    if few:
        return shares, ""
    if len(shares.shares) < count:
        return None, "there are fewer folders or files with whole keys than tasks"
    if shares.largest * len(shares.shares) > MAX_SKEW * size:
        return None, "one key has most of the data"
    return shares, ""


def _plan_by_slices(
    root: Node,
    sources: Sequence[Source],
    lakes: dict[Source, SourcePieces],
    wish: PlanRequest,
    tasks: int,
    measure: Measure,
    refused: list[str],
) -> tuple[Shares | None, tuple[str, ...]]:
    reaches = reach_of_sources(root)
    for source in sources:
        if source not in lakes:
            refused.append(f"{source.title} is not in files")
        elif wish.plan == "auto" and not source.data.measurable and not lakes[source].known.all():
            refused.append(f"{source.title} has no statistics of time, and to measure them would read all of it")
        elif source.layout.samples and source.layout.longest is None:
            refused.append(f"{source.title} holds segments, whose length no statistics tell: say it with longest=")
        if not reaches[source].bounded:
            refused.append(f"the reach is {reaches[source]}")
    if refused:
        return None, ()
    known = {s: lake if lake.known.all() else lakes_.measure_times(lake, s, measure) for s, lake in lakes.items()}
    size = sum(lake.bytes for lake in known.values())
    why = [f"reach: {reaches[s]}" for s in sources]
    passed = sum(lake.measured for lake in known.values())
    if passed:
        why.append(
            f"{passed} row groups or files had no statistics of time and were measured by a pass over that column"
        )
    make = partial(slices_.shares_by_time, root, known, reaches)
    if wish.plan == "slices" and wish.slices:
        return make(wish.slices), tuple(why)
    most = wish.slices or _task_count(size, tasks)
    least = wish.slices or max(-(-size // MAX_BYTES_PER_TASK), min(tasks, most))
    count = most
    while True:
        shares = make(count)
        if shares.amplification <= MAX_AMPLIFICATION:
            return shares, tuple(why)
        if count <= least:
            break
        count = max(least, int(count * 0.7))
    bare = slices_.shares_by_time(root, known, {s: Reach() for s in sources}, count).amplification
    why.append(
        f"files overlap in time: without any reach {count} slices would read {bare:.2f} times the data"
        if bare > MAX_AMPLIFICATION
        else f"the reach is long against a slice: without it {count} slices would read {bare:.2f} times the data"
    )
    if shares.amplification <= MIN_BYTES_FOR_SLICES:
        return shares, tuple(why)
    if wish.plan == "slices":
        return shares, (*why, f"the user asked for it, though {MIN_BYTES_FOR_SLICES} times is the limit")
    refused.append(
        f"{count} slices would read {shares.amplification:.2f} times the data (limit {MIN_BYTES_FOR_SLICES}): {why[-1]}"
    )
    return None, ()


def _never_null(kind: DataType, schema: pa.Schema) -> list[str]:
    """Times and samples: where a sample is missing, there is no row of it, or a run ends. What windows carry of events may be null."""
    if isinstance(kind, StreamType):
        return []
    carried = kind.labels.names if isinstance(kind, WindowedType) and kind.labels else []
    return [n for n in schema.names[len(kind.key) :] if n not in carried]


def _task_count(size: int, tasks: int) -> int:
    """How many tasks share so many bytes: as many as run at a time or a multiple, none of them tiny."""
    wanted = max(-(-size // BYTES_PER_TASK), tasks)
    if wanted < 4 * tasks:
        wanted = -(-wanted // tasks) * tasks
    return int(min(wanted, max(1, size // MIN_BYTES_PER_TASK)))


def explain(root: Node, spark: SparkSession | None = None) -> str:
    """Which plan `to_spark` would run, over how many tasks, and why; without a session for as many tasks as this machine has cores."""
    tasks, partitions = (_tasks(spark), _partitions(spark)) if spark else (os.cpu_count() or 1, os.cpu_count() or 1)
    late = [n for n in root.topological() if n.without_flush() is not n]
    sliced = compile_plan(root, Host.SLICES)
    choice = choose_plan(sliced, PlanRequest(), tasks, partitions, lakes_.measure_here)
    lines = choice.describe()
    for source in sources(sliced):
        lines.append(f"  {source.title}: reads {', '.join(source.layout.columns)}")
        if (condition := condition_of(sliced, source)) is not None:
            lines.append(f"    where {condition}")
    lines += [f"  {n.name()}: flush is without effect, results leave when the task or micro-batch ends" for n in late]
    lines += [
        f"  {line}"
        for line in (aggregation_remarks(compile_plan(root, Host.SHARDS)) if choice.name == "shards" else ())
    ]
    lines += [f"  in a stream: {line}" for line in merging(stages(root, Host.STREAM))]
    lines += [f"  as a stream it is refused: {line}" for line in refusals(root)]
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
    wanted = result_range.ResultRange.of(kind, keys, start, end, form)
    root = wanted.restrict(root)
    for source in sources(root):
        source.data.check_batch(source.title)
    check_grid(kind)
    sliced = compile_plan(root, Host.SLICES)
    choice = choose_plan(
        sliced, PlanRequest(plan, slices, shards), _tasks(spark), _partitions(spark), partial(_measure, spark)
    )
    schema = spark_arrow_schema(emit.result_schema(kind, form))
    shown = spark_schema(schema, _never_null(kind, schema))
    if choice.shares is not None:
        task = Task.of(choice.shares, form, schema)
        titled = Titled(task, title(choice.name, sliced))
        frame = _numbers(spark, len(choice.shares.shares)).mapInArrow(titled, shown)
        return rows_in_range(wanted, frame, kind)
    exchange = _Exchange(spark, root, choice.shards)
    last = exchange.stages[-1]
    packed = exchange.shuffled(len(exchange.stages) - 1)
    titled = Titled(RunLast(without_sources(last), form, schema), title("shards", last.root))
    return rows_in_range(wanted, packed.mapInArrow(titled, shown), kind)


def save(root: Node, spark: SparkSession, to: Sink, *, overwrite: bool, shape: str, plan: Plan) -> None:
    """Run a query and let Spark write its answer."""
    to.check(emit.result_schema(root.type, emit.check_shape(root.type, shape)))
    if to.in_process:
        raise UnsupportedError("save: with a session results go to files or tables", hint="to_spark(spark).toArrow()")
    to.check_spark("save")
    if to.folder is not None:
        to = to.moved(_output_path(root, spark, to.folder, to.suffix, overwrite))
    frame = to_spark(root, spark, plan=plan, shape=shape)
    try:
        with described(spark, title("save", root)):
            to.save_frame(frame, overwrite=overwrite)
    except AnalysisException as error:
        if "ALREADY_EXISTS" not in (error.getCondition() or ""):
            raise
        raise ParameterError(f"save: {to.place} exists already", hint="choose another one, or overwrite=True") from None


def _output_path(root: Node, spark: SparkSession, path: str, suffix: str, overwrite: bool) -> str:
    """The path that Spark is to write, after the checks that files of this machine get everywhere: it would delete whatever is there."""
    if (bare := local_path(path)) is not None:
        check_output_apart(places_of(root), bare, what="save", writes=suffix or None)
    here = on_this_machine(spark, path)
    if here is None:
        return path
    target = output_target(str(here), what="save")
    if overwrite:
        check_replaceable(target, path, what="save")
    return str(target) if here.is_symlink() else path


class _Exchange:
    """Builds the DataFrames of a plan with exchanges, stage by stage."""

    def __init__(self, spark: SparkSession, root: Node, shards: int) -> None:
        self.spark, self.root, self.shards = spark, compile_plan(root, Host.SHARDS), shards
        self.stages = cut_stages(self.root)

    def shuffled(self, number: int) -> DataFrame:
        """The packed rows of all inputs of a stage, every shard in a partition of its own."""
        stage = self.stages[number]
        producers: dict[Source | int, list[int]] = {}
        for port, source in enumerate(stage.inputs):
            producer = source.source if source.source is not None else source.stage
            assert producer is not None
            producers.setdefault(producer, []).append(port)
        frames = [self._packed(p, tuple(PortFeed.of(stage, i) for i in ports)) for p, ports in producers.items()]
        packed = frames[0]
        for frame in frames[1:]:
            packed = packed.unionByName(frame)
        return packed.repartition(self.shards, "label")

    def _packed(self, producer: Source | int, feeds: tuple[PortFeed, ...]) -> DataFrame:
        kind = spark_schema(PACKED)
        if isinstance(producer, int):
            stage: Stage = without_sources(self.stages[producer])
            task = Titled(RunAndPack(stage, feeds, self.shards), title("shards", stage.root))
            return self.shuffled(producer).mapInArrow(task, kind)
        frame = producer.data.dataframe(producer.layout.columns)
        if frame is not None:
            schema = pa.schema([producer.layout.schema.field(n) for n in producer.layout.columns])
            for passed in _conditions(self.root, producer):
                frame = frame.where(passed)
            return frame.mapInArrow(Titled(PackRows(feeds, self.shards, schema), "pack rows"), kind)
        reads = self._reads(producer)
        pack = ReadAndPack(feeds, self.shards, Scan.of(self.root, producer), reads)
        titled = Titled(pack, f"read {producer.data.identity} and pack")
        return _numbers(self.spark, len(reads)).mapInArrow(titled, kind)

    def _reads(self, source: Source) -> tuple[tuple[ReadRange, ...], ...]:
        """What every task reads of a source."""
        lake = lakes_.survey_pieces(source)
        if lake is None:
            return ((WHOLE,),)
        return _row_group_shares(lake, min(_task_count(lake.bytes, _tasks(self.spark)), max(1, len(lake.size))))


def _conditions(root: Node, source: Source) -> list[str]:
    """What Spark may check before rows reach Python; the rows that are errors pass."""
    layout = source.layout
    if layout.end:
        return []
    found = [sql_filter(c, layout.schema, [*layout.key, layout.time]) for c in filters_on_sources(root)[source]]
    return [f for f in found if f is not None]


def _row_group_shares(lake: SourcePieces, count: int) -> tuple[tuple[ReadRange, ...], ...]:
    """Pieces in their order, in `count` shares of about equal bytes."""
    before = np.cumsum(lake.size) - lake.size
    share = np.minimum(before * count // max(lake.bytes, 1), count - 1)
    return tuple(lake.ranges(share == number) for number in range(count))


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers of the tasks, each in a partition of its own."""
    return spark.range(0, count, 1, count)


def _measure(spark: SparkSession, scan: Scan, ranges: Sequence[ReadRange]) -> list[list[int]]:
    """Measure a few pieces here, many or large ones in a Spark job."""
    if len(ranges) <= MEASURE_ON_SPARK_ABOVE and sum(r.size for r in ranges) <= MANY_BYTES:
        return lakes_.measure_here(scan, ranges)
    count = min(len(ranges), 4 * _tasks(spark))
    rows = _numbers(spark, count).mapInArrow(
        partial(_measure_share, scan, tuple(ranges), count), "number long, low long, high long, nulls long"
    )
    with described(spark, "hydrophone: times of files without statistics"):
        return [list(row)[1:] for row in sorted(rows.collect())]


def _measure_share(scan: Scan, ranges: tuple[ReadRange, ...], count: int, batches):  # type: ignore[no-untyped-def]
    for batch in batches:
        for number in batch.column(0).to_pylist():
            mine = range(number, len(ranges), count)
            found = np.array([[i, *lakes_.measure_range(scan, ranges[i])] for i in mine], np.int64).reshape(-1, 4)
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
