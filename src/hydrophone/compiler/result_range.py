"""A range of an answer, by key and time: it becomes conditions on the sources, so that less is read."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import reduce

import narwhals as nw

from hydrophone.compiler.reach import reach_of_sources
from hydrophone.errors import ParameterError, PlanError, UnsupportedError
from hydrophone.model.time import MAX_TIME, MIN_TIME, Instant, add_time, instant
from hydrophone.ops.relational.rows import Where
from hydrophone.plan import expr
from hydrophone.plan.node import Node, build, rebuild
from hydrophone.plan.reach import Reach
from hydrophone.plan.source import Source, sources
from hydrophone.plan.types import DataType

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class ResultRange:
    """The wanted range of an answer: keys for which `keys` holds, at instants in ``[start, end)``."""

    keys: nw.Expr | None = None
    start: int = MIN_TIME
    end: int = MAX_TIME
    who: str = "to_spark"

    @classmethod
    def of(
        cls,
        kind: DataType,
        keys: nw.Expr | None,
        start: Instant | None,
        end: Instant | None,
        shape: str,
        who: str = "to_spark",
    ) -> ResultRange:
        """What the user asked for, checked; `who` is the method that was called."""
        wanted = cls(
            keys, MIN_TIME if start is None else instant(start), MAX_TIME if end is None else instant(end), who
        )
        if wanted.start >= wanted.end:
            raise ParameterError(f"{who}: start must be before end, got {start!r} and {end!r}")
        if keys is not None:
            strange = expr.column_names(keys) - set(kind.key.names)
            if strange:
                known = ", ".join(kind.key.names) or "no columns"
                raise ParameterError(
                    f"{who}: keys looks at {min(strange)!r}, which is no part of the key; the key is: {known}",
                    hint="filter rows before they become a signal: readings.where(...)",
                )
        if wanted.timed and shape != "rows":
            raise UnsupportedError(f"{who}: start and end choose rows, and segments are longer", hint='shape="rows"')
        return wanted

    @property
    def timed(self) -> bool:
        """Whether it is bounded in time."""
        return (self.start, self.end) != (MIN_TIME, MAX_TIME)

    def restrict(self, root: Node) -> Node:
        """The plan over sources that give only rows which this range needs, as far as the operators allow."""
        if self.keys is not None and (any(n.changes_key for n in root.topological()) or not _reads_rows(root)):
            raise PlanError(
                f"{self.who}: keys cannot be chosen at the sources of this query, where the key changes on the way or rows are segments",
                hint="filter the answer instead, after the query has run for all keys",
            )
        reaches = reach_of_sources(root)

        def chosen(node: Node, new: Node) -> Node:
            conditions = self._conditions(node, reaches[node]) if isinstance(node, Source) else []
            return reduce(lambda below, c: build(Where(inputs=(below,), condition=c)), conditions, new)

        return rebuild(root, chosen)

    def _conditions(self, source: Source, reach: Reach) -> list[nw.Expr]:
        """The conditions that rows of a source must meet to affect this range."""
        conditions = [] if self.keys is None else [self.keys]
        if self.timed and reach.bounded and not (source.layout.end or source.layout.samples):
            low, high = add_time(self.start, -(reach.before or 0)), add_time(self.end, reach.after or 0)
            conditions += _time_conditions(source, low, high)
        return conditions


def _reads_rows(root: Node) -> bool:
    return not any(s.layout.samples for s in sources(root))


def _time_conditions(source: Source, low: int, high: int) -> list[nw.Expr]:
    """Conditions on the time column, for timestamps rounded outwards to whole microseconds."""
    column, whole = nw.col(source.layout.time), source.layout.clock == "int"

    def value(nanoseconds: int) -> int | dt.datetime:
        if whole:
            return nanoseconds
        # Conditions see times in UTC.
        at = _EPOCH + dt.timedelta(microseconds=nanoseconds // 1000)
        return at.replace(tzinfo=dt.UTC) if source.layout.clock == "zoned" else at

    first = [column >= value(low)] if low > MIN_TIME else []
    last = high if whole else high + 999
    return first + ([column < value(last)] if high < MAX_TIME - 999 else [])
