"""A part of an answer: conditions on key and time, brought down to the sources before anything is read.

Spark cannot do this itself: to its optimiser our tasks are functions that it does not look into, so a filter on the
DataFrame runs after them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import narwhals as nw

from hydrophone import expr
from hydrophone.errors import ParameterError, PlanError, UnsupportedError
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.rows import Where
from hydrophone.plan.node import Node, build
from hydrophone.plan.reach import reach_of_sources
from hydrophone.plan.source import Source
from hydrophone.plan.types import DataType
from hydrophone.time import MAX_TIME, MIN_TIME, Instant, add_time, instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Part:
    """What of an answer is wanted: results of keys for which `keys` holds, at instants from `start` up to `end`."""

    keys: nw.Expr | None = None
    start: int = MIN_TIME
    end: int = MAX_TIME

    @classmethod
    def of(cls, kind: DataType, keys: nw.Expr | None, start: Instant | None, end: Instant | None, shape: str) -> Part:
        """What the user asked for, checked."""
        part = cls(keys, MIN_TIME if start is None else instant(start), MAX_TIME if end is None else instant(end))
        if part.start >= part.end:
            raise ParameterError(f"to_spark: start must be before end, got {start!r} and {end!r}")
        if keys is not None:
            strange = expr.names(keys) - set(kind.key.names)
            if strange:
                known = ", ".join(kind.key.names) or "no columns"
                raise ParameterError(
                    f"to_spark: keys looks at {min(strange)!r}, which is no part of the key; the key is: {known}",
                    hint="filter rows before they become a signal: readings.where(...)",
                )
        if part.timed and shape != "rows":
            raise UnsupportedError("to_spark: start and end choose rows, and segments are longer", hint='shape="rows"')
        return part

    @property
    def timed(self) -> bool:
        """Whether it is bounded in time."""
        return (self.start, self.end) != (MIN_TIME, MAX_TIME)

    def of_plan(self, root: Node) -> Node:
        """The plan over sources that give no more than this part needs, as far as its operators allow."""
        if self.keys is None and not self.timed:
            return root
        if self.keys is not None and (any(isinstance(n, KeyBy) for n in root.topological()) or not _rows(root)):
            raise PlanError(
                "to_spark: keys cannot be chosen at the sources of this query, where the key changes on the way or rows are segments",
                hint="filter the DataFrame instead, which runs the query for all keys: to_spark(spark).where(...)",
            )
        reaches = reach_of_sources(root)
        done: dict[Node, Node] = {}
        for node in root.topological():
            new = node.with_inputs([done[i] for i in node.inputs])
            if isinstance(node, Source):
                reach = reaches[node]
                conditions = [] if self.keys is None else [self.keys]
                if self.timed and reach.bounded and not (node.layout.end or node.layout.samples):
                    low, high = add_time(self.start, -(reach.before or 0)), add_time(self.end, reach.after or 0)
                    conditions += _between(node, low, high)
                new = reduce(lambda below, c: build(Where(inputs=(below,), condition=c)), conditions, new)
            done[node] = new
        return done[root]

    def of_frame(self, frame: DataFrame, kind: DataType) -> DataFrame:
        """The results in the wanted time, of those that came."""
        column = f"`{kind.time.replace('`', '``')}`"
        for sign, bound, absent in ((">=", self.start, MIN_TIME), ("<", self.end, MAX_TIME)):
            if bound != absent:
                frame = frame.where(f"{column} {sign} {_sql(bound, frame.schema[kind.time].dataType.typeName())}")
        return frame


def _rows(root: Node) -> bool:
    return not any(isinstance(n, Source) and n.layout.samples for n in root.topological())


def _between(source: Source, low: int, high: int) -> list[nw.Expr]:
    """Conditions on the time column, for timestamps rounded outwards to whole microseconds."""
    column, whole = nw.col(source.layout.time), source.layout.clock == "int"

    def value(nanoseconds: int) -> int | dt.datetime:
        if whole:
            return nanoseconds
        # Conditions see times in UTC.
        at = _EPOCH + dt.timedelta(microseconds=nanoseconds // 1000)
        return at.replace(tzinfo=dt.UTC) if source.layout.clock == "zoned" else at

    first = [column >= value(low)] if low > MIN_TIME else []
    return first + ([column < value(high + 999)] if high < MAX_TIME - 999 else [])


def _sql(nanoseconds: int, kind: str) -> str:
    if not kind.startswith("timestamp"):
        return str(nanoseconds)
    # Instants of results are whole microseconds, so the first one that is not before the bound decides.
    text = (_EPOCH + dt.timedelta(microseconds=-(-nanoseconds // 1000))).isoformat(sep=" ")
    return f"timestamp_ntz'{text}'" if kind == "timestamp_ntz" else f"timestamp'{text}+00:00'"
