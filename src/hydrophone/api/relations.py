"""Relations between streams: unions, joins and differences, whatever order events come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic

import narwhals as nw

from hydrophone.api.query import Query, StreamT, check_query
from hydrophone.arguments import public
from hydrophone.errors import ParameterError
from hydrophone.model.time import Duration, duration
from hydrophone.ops.relational.asof_join import AsofJoin
from hydrophone.ops.relational.band_join import BandJoin, free_name
from hydrophone.ops.relational.consecutive import Pairs, Pattern
from hydrophone.ops.relational.dead_time import DeadTime
from hydrophone.ops.relational.memory_limit import size_in_bytes
from hydrophone.ops.relational.overlap_joins import AntiJoin, Difference, Join, SemiJoin, Without
from hydrophone.ops.relational.sets import Distinct, Union
from hydrophone.ops.relational.top_k import Reservoir, Sort, TopK
from hydrophone.plan.expr import col

On = str | Sequence[str] | Mapping[str, str] | None
"""Columns that must be equal: names, or pairs of left and right names; None: the key."""
Limit = int | str | None
"""What a side of a join keeps in memory at most: bytes, or a text such as ``"256MB"``."""


class Relations(Query, Generic[StreamT]):
    """Methods of `Stream`."""

    def union(self, *others: StreamT) -> StreamT:
        """All events of this stream and others with the same columns."""
        return self._then(Union, *others)

    def distinct(self) -> StreamT:
        """At every instant each payload of a key at most once."""
        return self._then(Distinct)

    def join(
        self,
        other: StreamT,
        *,
        on: On = None,
        how: str = "inner",
        area: str | tuple[str, str] = "auto",
        limit: Limit = None,
        overflow: str = "spill",
    ) -> StreamT:
        """Pairs of events whose lifetimes overlap, alive while both are; `on` names columns that must be equal (by default the key).

        ``how="left"`` adds the parts of lifetimes that meet nothing, ``how="full"`` also those of the other side. `area` is how
        each side finds its rows: ``"hash"``, ``"sorted"`` or ``"list"``, or one for each side. `limit` (``"256MB"``) is what each
        side keeps in memory; beyond it older rows go to disk, or with ``overflow="shed"`` the oldest are forgotten and counted.
        """
        left, right = _keyed(self, other, on, Join.name())
        return left._then(Join, right, how=how, area=area, limit=size_in_bytes(limit), overflow=overflow)

    def band_join(
        self,
        other: StreamT,
        *,
        before: Duration,
        after: Duration,
        on: On = None,
        by: str = "left",
        limit: Limit = None,
        overflow: str = "spill",
    ) -> StreamT:
        """Pairs with events of another stream that start near in time; `on` names columns that must be equal (by default the key).

        `by` says whose time a pair has: ``"left"``, ``"right"``, or the earlier (``"min"``) or later (``"max"``) of both. With
        ``"both"`` it has that of the left event, and results progress on both times: see `tumble`.
        `limit` and `overflow` as in `join`.
        """
        left, right = _keyed(self, other, on, BandJoin.name())
        band = {"before": duration(before), "after": duration(after), "by": by}
        return left._then(BandJoin, right, **band, limit=size_in_bytes(limit), overflow=overflow)

    def asof_join(
        self,
        other: StreamT,
        *,
        on: On = None,
        direction: str = "backward",
        tolerance: Duration | None = None,
        exact: bool = True,
        ties: str = "earlier",
        limit: Limit = None,
        overflow: str = "spill",
    ) -> StreamT:
        """Every event with the one of another stream that starts nearest: before, after, or on the line between both.

        `direction` is ``"backward"``, ``"forward"``, ``"nearest"`` or ``"interpolated"``; `tolerance` the largest distance, of
        ``"interpolated"`` that from one neighbour to the other. Streams need one, unless they look backward. With ``exact=False`` an
        event at the very same time does not count. Of two that are equally far, ``"nearest"`` takes the one that `ties` says:
        ``"earlier"`` or ``"later"``. Events that start together are ordered by end and columns; a column that counts them, first among
        the columns, makes that the order of arrival. `limit` and `overflow` as in `join`.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> runs = hp.from_arrow(pa.table({"ts": [10, 20], "run": ["a", "b"]}), time="ts")
        >>> readings = hp.from_arrow(pa.table({"at": [5, 10, 18], "celsius": [1.5, 2.5, 3.5]}), time="at")
        >>> runs.asof_join(readings).to_arrow()["celsius"].to_pylist()
        [2.5, 3.5]
        >>> runs.asof_join(readings, exact=False).to_arrow()["celsius"].to_pylist()
        [1.5, 3.5]
        >>> runs.asof_join(readings, direction="forward").to_arrow()["celsius"].to_pylist()
        [2.5, None]
        """
        left, right = _keyed(self, other, on, AsofJoin.name())
        near = {"direction": direction, "tolerance": _optional(tolerance), "exact": exact, "ties": ties}
        return left._then(AsofJoin, right, **near, limit=size_in_bytes(limit), overflow=overflow)

    def semi_join(self, other: StreamT, *, on: On = None, limit: Limit = None, overflow: str = "spill") -> StreamT:
        """Events that overlap at least one event of the other stream, whole and once. `limit` and `overflow` as in `join`."""
        left, right = _keyed(self, other, on, SemiJoin.name())
        return left._then(SemiJoin, right, limit=size_in_bytes(limit), overflow=overflow)

    def anti_join(self, other: StreamT, *, on: On = None, limit: Limit = None, overflow: str = "spill") -> StreamT:
        """Events that overlap no event of the other stream, whole. `limit` and `overflow` as in `join`."""
        left, right = _keyed(self, other, on, AntiJoin.name())
        return left._then(AntiJoin, right, limit=size_in_bytes(limit), overflow=overflow)

    def without(self, other: StreamT, *, on: On = None, limit: Limit = None, overflow: str = "spill") -> StreamT:
        """The parts of lifetimes in which no event of the other stream is alive. `limit` and `overflow` as in `join`."""
        left, right = _keyed(self, other, on, Without.name())
        return left._then(Without, right, limit=size_in_bytes(limit), overflow=overflow)

    def difference(self, other: StreamT, *, limit: Limit = None, overflow: str = "spill") -> StreamT:
        """The parts of lifetimes in which no event of the other stream with the same key and equal columns is alive.

        `limit` and `overflow` as in `join`.
        """
        return self._then(Difference, other, limit=size_in_bytes(limit), overflow=overflow)

    def pairs(self, *, within: Duration | None = None) -> StreamT:
        """Every event of a key with the one before it, whose columns get ``_before``.

        Without `within` the last event of every key is kept for ever: where keys come and go, say how far back an event may be.
        """
        return self._then(Pairs, within=_optional(within))

    def pattern(self, *, within: Duration, **steps: nw.Expr) -> StreamT:
        """Events that follow each other directly and meet one condition each: ``pattern(up=..., down=..., within="5s")``."""
        return self._then(Pattern, steps=tuple(steps.items()), within=duration(within))

    def dead_time(self, span: Duration) -> StreamT:
        """Events that start at least `span` after the last one of their key that was kept: a detector that is blind after it has fired.

        What is left out does not make the dead time longer. Of events that start together the first in order of end and columns counts.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> clicks = hp.from_arrow(pa.table({"t": [0, 4, 9, 11, 30]}), time="t")
        >>> clicks.dead_time(10).to_arrow()["t"].to_pylist()
        [0, 11, 30]
        """
        return self._then(DeadTime, span=duration(span))

    def top_k(self, k: int, *, by: str, size: Duration, offset: Duration = 0) -> StreamT:
        """The k events of every window of time with the largest values in a column."""
        return self._then(TopK, k=k, by=by, size=duration(size), offset=duration(offset))

    def reservoir(self, k: int, *, size: Duration, offset: Duration = 0, seed: int = 0) -> StreamT:
        """A random sample of k events of every window of time, the same for the same seed."""
        return self._then(Reservoir, k=k, size=duration(size), offset=duration(offset), seed=seed)

    def sort(self) -> StreamT:
        """Events in the order of time."""
        return self._then(Sort)


@public
def union(*streams: StreamT) -> StreamT:
    """All events of several streams with the same key and columns; progress is that of the slowest."""
    if not streams:
        raise ParameterError("union: needs at least one stream", hint="hp.union(a, b)")
    first: Any = streams[0]
    check_query(first, "union")
    return first.union(*streams[1:])


def _keyed(left: Any, right: Any, on: On, what: str) -> tuple[Any, Any]:
    """Both sides by the columns that must be equal, under their names on the left."""
    check_query(right, what)
    if on is None:
        return left, right
    pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {c: c for c in on}
    return left.key_by(*pairs), _renamed(right, set(pairs) - set(pairs.values())).key_by(**pairs)


def _renamed(stream: Any, taken: set[str]) -> Any:
    """The stream with ``_right`` behind the columns that have a name which the left side needs for its own."""
    kind = stream.node.type
    clash = [n for n in (*kind.key.names, *kind.columns.names) if n in taken]
    if not clash:
        return stream
    together = stream.key_by()
    names: list[str] = together.node.type.columns.names
    used: set[str | None] = {kind.time, kind.end, *names, *taken}
    new = {free_name(n, used): n for n in clash}
    renamed = together.with_columns(**{name: col(old) for name, old in new.items()})
    return renamed.select(*(n for n in names if n not in clash), *new)


def _optional(value: Duration | None) -> int | None:
    return None if value is None else duration(value)
