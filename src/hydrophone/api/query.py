"""What all handles can do: explain a query and run it, in this process or on Spark."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import narwhals as nw
import pyarrow as pa

from hydrophone.api import foreign
from hydrophone.api.live import LiveQuery
from hydrophone.arguments import public
from hydrophone.compiler.explain import explain
from hydrophone.compiler.result_range import ResultRange
from hydrophone.connect import write
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.connect.sink import Answer
from hydrophone.engine import emit, late, local
from hydrophone.engine.clock_report import ClockReport, report
from hydrophone.engine.resources import Resources
from hydrophone.engine.watch import UNMARKED_LIMIT
from hydrophone.errors import ParameterError, SignalTypeError, UnsupportedError
from hydrophone.model.time import Instant
from hydrophone.plan.node import Node, build
from hydrophone.plan.parameters import whole
from hydrophone.plan.source import places_of
from hydrophone.plan.types import DataType, UniformType

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame, SparkSession

    from hydrophone.spark.streaming.running import RunningQuery


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """A query: a plan that can be explained and run. Handles are values; every method gives a new one."""

    node: Node

    def __init_subclass__(cls, of: type[DataType] | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if of is not None:
            _HANDLES[of] = cls
        _make_public(cls)

    def _then(self, kind: type[Node], /, *others: Query, **parameters: Any) -> Any:
        """The handle of an operator over this query (and others): the handle that its type asks for."""
        for other in others:
            check_query(other, kind.name())
        return handle(build(kind(inputs=(self.node, *(o.node for o in others)), **parameters)))

    def __repr__(self) -> str:
        return f"<{self.node.type.describe()}>"

    if not TYPE_CHECKING:  # a type checker must go on to refuse what is not there

        def __getattr__(self, name: str) -> Any:
            """A method that only another handle has: say how to get there."""
            raise AttributeError(_no_method(type(self).__name__, name))

    def explain(self, stage: str = "logical") -> str:
        """What the plan does, node by node: type, reach, scope, host and why.

        Parameters
        ----------
        stage : "logical", "lowered" (what this process runs), "stages" (what runs between exchanges), "spark" (which plan, and why),
            or a pass of the compiler, after which the plan is shown: "marked", "rewritten", "scoped", "unsmoothed", "pruned", "combined"
        """
        if stage == "spark":
            from hydrophone.spark.batch import plan as batch

            return batch.explain(self.node)
        return explain(self.node, stage)

    def to_arrow(
        self,
        shape: str = "rows",
        *,
        keys: nw.Expr | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
    ) -> pa.Table:
        """Run in this process; the whole answer as an Arrow table, in no particular order of rows.

        `keys` (a condition on key columns, ``hp.col("sensor") == 3``), `start` and `end` choose a part of the answer: the same
        rows that a filter on the whole would give. They reach the sources, as the query's own row filters do: columns that nobody
        looks at are not read, nor are files and row groups of Parquet that cannot matter.

        Files are read piece by piece. Where files or folders hold whole keys, `threads` of them are worked on at the same time (by
        default as many as there are cores); elsewhere, also in memory, as many slices of time, each with the reach around it, where
        data is large and the reach is short. A function of your own is then called from several threads: give ``threads=1`` if it
        must not be. `memory` bounds the rows and results that are on their way (``"500 MB"``; by default a quarter of what the
        process may have), beside the state of operators and the answer itself. Neither changes an answer nor the order of its rows.
        """
        form = emit.check_shape(self.node.type, shape)
        wanted = ResultRange.of(self.node.type, keys, start, end, form, "to_arrow")
        return local.execute(self.node, form, wanted, Resources.of("to_arrow", threads, memory))

    def head(self, rows: int = 5) -> pa.Table:
        """Run in this process until there are so many rows, and give these as an Arrow table: whichever come first.

        Examples
        --------
        >>> import hydrophone as hp, numpy as np
        >>> hp.from_numpy(np.arange(1e6), rate="1kHz").head(2).to_pydict()
        {'time': [0, 1000000], 'value': [0.0, 1.0]}
        """
        rows = whole(rows, "head: rows")
        if rows < 0:
            raise ParameterError(f"head: rows must be at least 0, got {rows}")
        found: list[pa.Table] = []
        with closing(local.execute_tables(self.node, "rows", None, Resources(threads=1))) as results:
            for table in results:
                found.append(table.slice(0, min(len(table), rows - sum(map(len, found)))))
                if sum(map(len, found)) >= rows:
                    break
        return pa.concat_tables(found) if found else emit.result_schema(self.node.type).empty_table()

    def describe(self, *, threads: int | None = None, memory: int | str | None = None) -> ClockReport:
        """Run in this process and report what the clocks do: by key rows, first and last time, rate, gaps, duplicates and back-jumps.

        A gap of events is a step of more than one and a half times the key's median step; a uniform signal says itself which samples are
        missing. A back-jump is a row that comes after a later one of its key, in the order of reading. A row takes 40 bytes of memory, of
        uniform signals a run without gaps. The `table` of the report has the numbers.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> rows = pa.table({"k": ["a"] * 6, "t": [0, 10, 20, 20, 60, 50], "v": [1.0] * 6})
        >>> hp.from_arrow(rows, key="k", time="t").describe()
        k  rows  first  last  rate      gaps  longest_gap  duplicates  back_jumps
        a  6     0      60    1e+08 Hz  1     30ns         1           1
        """
        segments = isinstance(self.node.type, UniformType)
        resources = Resources.of("describe", threads, memory)
        tables = local.execute_tables(self.node, "segments" if segments else "rows", None, resources)
        return report(tables, self.node.type, segments)

    def to_pandas(
        self, shape: str = "rows", *, threads: int | None = None, memory: int | str | None = None
    ) -> pd.DataFrame:
        """Run in this process; the whole answer as a pandas DataFrame. `threads` and `memory` are as in `to_arrow`."""
        if find_spec("pandas") is None:
            raise UnsupportedError("to_pandas: pandas is not installed", hint="pip install 'hydrophone[pandas]'")
        return self.to_arrow(shape, threads=threads, memory=memory).to_pandas()

    def to_parquet(
        self,
        path: str | PathLike[str],
        *,
        shape: str = "rows",
        overwrite: bool = False,
        threads: int | None = None,
        memory: int | str | None = None,
    ) -> None:
        """Run in this process and write the whole answer, or nothing: a file if the name ends in ``.parquet``, else a folder with one.

        Results are written as they come: an answer may be larger than memory. `threads` and `memory` are as in `to_arrow`.
        """
        resources = Resources.of("to_parquet", threads, memory)
        write.parquet(os.fspath(path)).save(self._answer(shape, resources), overwrite=overwrite)

    def to_csv(
        self,
        path: str | PathLike[str],
        *,
        overwrite: bool = False,
        threads: int | None = None,
        memory: int | str | None = None,
    ) -> None:
        """Run in this process and write the whole answer as one CSV file, or nothing; complex values are ``value.re`` and ``value.im``.

        Results are written as they come; `threads` and `memory` are as in `to_arrow`.
        """
        resources = Resources.of("to_csv", threads, memory)
        write.csv(os.fspath(path)).save(self._answer("rows", resources), overwrite=overwrite)

    def plot(
        self,
        *,
        key: Any = None,
        start: Instant | None = None,
        end: Instant | None = None,
        ax: Axes | None = None,
        path: str | PathLike[str] | None = None,
        scale: Literal["db", "linear"] | None = None,
        title: str | None = None,
        unit: str | None = None,
    ) -> Axes:
        """Run in this process and draw the answer, of one key or a list of them; `path` also writes it: see `hydrophone.plot.plot`.

        `scale` is that of a spectrogram's colours, ``"db"`` (the default for power) or ``"linear"``; `title` and `unit` are for its labels.
        """
        from hydrophone.plot import plot

        return plot(self, key=key, start=start, end=end, ax=ax, path=path, scale=scale, title=title, unit=unit)

    def to_spark(
        self,
        spark: SparkSession,
        *,
        plan: Literal["auto", "slices", "keys", "shards"] = "auto",
        shape: str = "rows",
        slices: int | None = None,
        shards: int | None = None,
        keys: nw.Expr | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
    ) -> DataFrame:
        """Run on Spark: a lazy DataFrame, to compose with Spark code of your own.

        The plan ("slices", "shards", "keys") and its counts are chosen from the data unless given; ``explain("spark")``
        says which and why. A uniform signal leaves as rows, or with ``shape="segments"`` as one row per contiguous run.

        A filter on the DataFrame (``.where("sensor = 3")``) runs after the query, which has worked for all sensors by then:
        Spark does not look into our tasks. `keys` (a condition on key columns, ``hp.col("sensor") == 3``), `start` and
        `end` give the same rows and reach the sources: files and row groups that cannot matter are not read.
        """
        from hydrophone.spark.batch import plan as batch

        return batch.to_spark(
            self.node, spark, plan=plan, shape=shape, slices=slices, shards=shards, keys=keys, start=start, end=end
        )

    def save(
        self,
        to: write.Sink,
        spark: SparkSession | None = None,
        *,
        overwrite: bool = False,
        shape: str = "rows",
        plan: Literal["auto", "slices", "keys", "shards"] = "auto",
        threads: int | None = None,
        memory: int | str | None = None,
    ) -> None:
        """Run over what is there and write the whole answer: with a session on Spark, without one in this process.

        On Spark, files and tables are written by its tasks, and appear when all are done, as far as their format can do
        that; a table needs a session, and memory is `to_arrow`. In this process see `to_parquet` and `to_csv`; `threads` and `memory`
        are for it alone.
        """
        write.check(to, "save")
        if spark is None:
            to.save(self._answer(to.shape or shape, Resources.of("save", threads, memory)), overwrite=overwrite)
            return
        if threads is not None or memory is not None:
            raise ParameterError(
                "save: threads and memory are for a run in this process",
                hint="Spark's tasks have what the session gives them: spark.task.cpus, spark.executor.memory",
            )
        from hydrophone.spark.batch import plan as batch

        batch.save(self.node, spark, to, overwrite=overwrite, shape=shape, plan=plan)

    def _answer(self, shape: str, resources: Resources) -> Answer:
        form = emit.check_shape(self.node.type, shape)
        return Answer(
            lambda: local.execute_tables(self.node, form, None, resources),
            emit.result_schema(self.node.type, form),
            form,
            places_of(self.node),
        )

    def batches(
        self,
        rows: int = 65_536,
        *,
        late: late.Late | None = None,
        shape: str = "rows",
        order: Literal["any", "enforce"] = "any",
        unmarked: int | None = UNMARKED_LIMIT,
    ) -> local.Batches:
        """Run in this process as the rows come, so many at a time; results follow the progress that the sources promise.

        A late row is an error unless `late` says otherwise. ``order="enforce"`` gives the same answer the way of systems that
        need order: rows are sorted at the sources and merged at unions first. It costs memory and time, and is for comparison.

        A source that never sends progress while an operator waits for it is reported after a million rows, and an error after
        `unmarked` of them (None: never); results before it were given. The `progress` of what is given back says how far sources and
        results are, and how long marks took through all operators.
        """
        _check_unmarked(unmarked, "batches")
        check_late(late, "batches")
        rows = whole(rows, "batches: rows")
        if rows < 1:
            raise ParameterError(f"batches: rows must be at least 1, got {rows}")
        if order not in ("any", "enforce"):
            raise ParameterError(f"batches: order must be 'any' or 'enforce', got {order!r}")
        if late is not None and late.path is not None:
            check_output_apart(places_of(self.node), late.path, what="batches: late", writes=".parquet")
        shaped = emit.check_shape(self.node.type, shape)
        return local.Batches(self.node, rows, late or _ERROR, shaped, order, unmarked)

    def live(self, *, late: late.Late | None = None, shape: str = "rows") -> LiveQuery:
        """Run in this process as rows are pushed: ``push(rows)`` returns the results that have become final, ``close()`` the rest.

        A late row is an error unless `late` says otherwise; rows that are refused with an error change nothing. For several queries,
        sources that are read, and queries that come and go, there is `hydrophone.Graph`.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
        >>> live = rows.tumble(10).agg(sum=hp.sum("value")).live()
        >>> live.push({"ts": [0, 4], "value": [1.0, 2.0]})["sum"].to_pylist()
        []
        >>> live.push({"ts": [12], "value": [5.0]})["sum"].to_pylist()
        [3.0]
        >>> live.close()["sum"].to_pylist()
        [5.0]
        """
        check_late(late, "live")
        return LiveQuery(self.node, late or _ERROR, emit.check_shape(self.node.type, shape))

    def start(
        self,
        spark: SparkSession,
        *,
        to: write.Sink,
        checkpoint: str,
        name: str | None = None,
        late: late.Late | None = None,
        shards: int | None = None,
        files_per_batch: int | None = None,
        trigger: str | None = None,
        shape: str = "rows",
        unmarked: int | None = UNMARKED_LIMIT,
        combine: bool = True,
    ) -> RunningQuery:
        """Run as a stream on Spark: new rows are taken as they arrive, and results follow the progress that the sources promise.

        Every result is written once, whatever crashes: the query goes on from its checkpoint, and a micro-batch that is run
        again replaces its results with equal ones. Progress comes from rows: while no source has new rows, the last
        results wait for rows after them, unless the source's promise names a `lull`.

        Parameters
        ----------
        spark : SparkSession
        to : where results go, such as ``hp.write.parquet("clean/")``; also ``csv``, ``table`` and ``memory``
        checkpoint : str
            A folder that belongs to this query alone. Starting again with it continues; another query or number of shards is refused.
        name : str, optional
            What Spark calls the query, in its reports and on its web page; unlike those of other running queries of the session.
        late : optional
            What happens to rows that come later than their source promised; by default they are kept aside in ``<checkpoint>/late``.
        shards : int, optional
            Shares of the keys, each run by one task at a time; by default Spark's ``spark.sql.shuffle.partitions``. Fixed by
            the first start.
        files_per_batch : int, optional
            How many new files of every source a micro-batch takes at most; by default all that are there.
        trigger : str, optional
            How often to look for new rows (``"10s"``), or ``"available"``: take what is there and stop. By default as often as possible.
        shape : "rows" or "segments"
        unmarked : int, optional
            Rows that a source may send since the start without any mark (such as a column of punctuation that is always null),
            while an operator waits for it; then the query ends with an error. It is reported before. None: no limit.
        combine : bool
            Whether tasks may merge rows into partial aggregates before the exchange, where they are in time and that makes them few;
            ``explain("spark")`` says of which operators. It changes no answer but for the last digits of floats, and may
            change from start to start.
        """
        from hydrophone.spark.streaming import query as streaming

        write.check(to, "start")
        _check_unmarked(unmarked, "start")
        check_late(late, "start")
        return streaming.start(
            self.node,
            spark,
            to=to,
            checkpoint=str(checkpoint),
            name=name,
            late=late or _SIDE,
            shards=shards,
            files_per_batch=files_per_batch,
            trigger=trigger,
            shape=emit.check_shape(self.node.type, shape),
            unmarked=unmarked,
            combine=combine,
        )


def _make_public(cls: type) -> None:
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, public(member))


_make_public(Query)

StreamT = TypeVar("StreamT", bound=Query)
SignalT = TypeVar("SignalT", bound=Query)
UniformT = TypeVar("UniformT", bound=Query)
WindowedT = TypeVar("WindowedT", bound=Query)
"""The handles, for families of methods that take or give another one than their own (`Self`): `handles.py` says which class each is."""


def check_late(policy: late.Late | None, what: str) -> None:
    """Refuse what is no policy for late rows."""
    if policy is not None and not isinstance(policy, late.Late):
        raise ParameterError(
            f"{what}: late must be a policy, got {policy!r}",
            hint='one of hp.late.side("late/"), hp.late.drop(), hp.late.adjust(), hp.late.error()',
        )


def _check_unmarked(limit: int | None, what: str) -> None:
    if limit is not None and whole(limit, f"{what}: unmarked", "a whole number of rows, or None") < 1:
        raise ParameterError(f"{what}: unmarked must be at least 1 row, got {limit}", hint="None: no limit")


_ERROR = late.error()
_SIDE = late.side()

_HANDLES: dict[type[DataType], type[Query]] = {}
_WAYS = {
    ("Stream", "Signal"): "signal(column)",
    ("Stream", "UniformSignal"): "signal(column).sample(period)",
    ("Stream", "Windowed"): "signal(column).sample(period).window(size)",
    ("Signal", "UniformSignal"): "sample(period)",
    ("Signal", "Windowed"): "sample(period).window(size)",
    ("UniformSignal", "Stream"): "events()",
    ("UniformSignal", "Windowed"): "window(size)",
    ("Windowed", "UniformSignal"): "overlap_add()",
    ("Windowed", "Stream"): "overlap_add().events()",
}
"""From one handle to another, for errors."""


def _no_method(me: str, name: str) -> str:
    """What is written instead of a method that a handle does not have."""
    if me in ("Stream", "Signal") and name in foreign.STREAM:
        return f"a {me} has no {name!r}: write {foreign.STREAM[name]}"
    if name in foreign.NAMES:
        return f"a {me} has no {name!r}: write {_way_to(me, foreign.NAMES[name])}"
    for other in _HANDLES.values():
        way = _WAYS.get((me, other.__name__))
        if way and not name.startswith("_") and hasattr(other, name):
            return f"a {me} has no {name!r}, a {other.__name__} has: {way}.{name}(...)"
    return f"{me!r} object has no attribute {name!r}"


def _way_to(me: str, call: str) -> str:
    """A call of a method, from a handle on that may not have it itself."""
    method = call.partition("(")[0]
    handles = list(_HANDLES.values())
    if (
        "=" not in call
    ):  # with parameters it is a stream's: `top_k(5, by="x")`, `difference(other)` of sets has no place here
        handles.sort(key=lambda o: (o.__name__ != me, o.__name__ == "Stream"))
    for other in (o for o in handles if hasattr(o, method)):
        if other.__name__ == me:
            return call
        if way := _WAYS.get((me, other.__name__)):
            return f"{way}.{call}"
    return call


def check_query(other: object, what: str) -> None:
    """Refuse what is no query where an operator takes one."""
    if isinstance(other, Query):
        return
    name = f"{type(other).__module__.partition('.')[0]}.{type(other).__name__}".removeprefix("builtins.")
    table = hasattr(other, "columns") or hasattr(other, "column_names")
    raise SignalTypeError(
        f"{what}: expected a stream or signal of Hydrophone's, got {name}",
        hint="make it one: hp.from_pandas(frame, key=..., time=...), hp.from_arrow or the like; "
        "for a table without times there is lookup(table, on=...)"
        if table
        else None,
    )


def handle(node: Node) -> Query:
    """The handle for a node's type."""
    return _HANDLES[type(node.type)](node)
