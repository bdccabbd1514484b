"""Coincidence: what several keys see at the same time."""

from __future__ import annotations

from typing import Any, Generic

from hydrophone.api.query import Query, SignalT
from hydrophone.errors import ParameterError
from hydrophone.model.time import Duration
from hydrophone.ops.aggregates.summaries import count
from hydrophone.ops.relational.key_by import KeyBy
from hydrophone.plan.expr import col
from hydrophone.plan.parameters import whole


class Coincidences(Query, Generic[SignalT]):
    """Methods of `Stream`."""

    def coincidence(self, k: int, *by: str, within: Duration | None = None, report: Duration | None = None) -> SignalT:
        """Stretches of time in which at least `k` events are alive, of whatever key (or of one group, with columns `by`).

        The intervals of a detector never overlap within a key, so that it is `k` keys that see something: ``n`` says how
        many. Every change of it begins another stretch. `within` lets each event live so much longer, for those that come
        one after the other, or are points; what then touches or overlaps within a key counts once, and is known when it ends.
        `report` cuts long stretches as in `snapshot`. Stretches never overlap: they are a signal, the count `n`, with lifetimes.

        One event for the whole time, however often `n` changes, is ``coincidence(k).select().stitch()``.

        Examples
        --------
        One station that sees something twice is no coincidence:

        >>> import pyarrow as pa, hydrophone as hp
        >>> table = pa.table({"station": ["A", "A", "B"], "t": [0, 20, 38], "end": [10, 30, 60]})
        >>> seen = hp.from_arrow(table, key="station", time="t", end="end")
        >>> seen.coincidence(2, within=15).to_arrow().to_pylist()
        [{'t': 38, 'end': 45, 'n': 2}]

        Three stations, and one event of what two or more of them see:

        >>> table = pa.table({"station": ["A", "B", "C"], "t": [0, 10, 20], "end": [30, 40, 35]})
        >>> seen = hp.from_arrow(table, key="station", time="t", end="end")
        >>> seen.coincidence(2).to_arrow()["n"].to_pylist()
        [2, 3, 2]
        >>> seen.coincidence(2).select().stitch().to_arrow().to_pylist()
        [{'t': 10, 'end': 35}]
        """
        k = whole(k, "coincidence: k", "a whole number, at least 1")
        if k < 1:
            raise ParameterError(f"coincidence: k must be a whole number, at least 1, got {k}")
        lived: Any = self
        if within is not None:
            lived = lived.extend(within).select(*(c for c in by if c not in lived.node.type.key.names)).stitch()
        together = lived._then(KeyBy, columns=tuple((c, c) for c in by))
        return together.snapshot(report=report).agg(n=count()).where(col("n") >= k)
