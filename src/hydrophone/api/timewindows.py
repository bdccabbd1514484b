"""Windows of time over events: what falls into each, and what to compute from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa

from hydrophone.api.query import Query, StreamT, handle
from hydrophone.arguments import public
from hydrophone.errors import ParameterError
from hydrophone.model.time import Duration, duration
from hydrophone.ops.aggregates.aggregates import check_span
from hydrophone.ops.aggregates.count_window import CountWindow, sequence_of
from hydrophone.ops.aggregates.flush import Flush
from hydrophone.ops.aggregates.sliding import RunningTumble, Session, Sliding
from hydrophone.ops.aggregates.snapshot import Snapshot
from hydrophone.ops.aggregates.summaries import Aggregate
from hydrophone.ops.aggregates.tumble import Tumble
from hydrophone.ops.relational.band_join import BandJoin
from hydrophone.ops.relational.consecutive import LastN
from hydrophone.ops.relational.key_by import KeyBy
from hydrophone.ops.signals.to_signal import ToSignal
from hydrophone.plan.node import Node, build


class TimeWindows(Query, Generic[StreamT]):
    """Methods of `Stream`."""

    def tumble(
        self,
        size: Duration,
        *,
        offset: Duration = 0,
        by: str | None = None,
        report: Duration | None = None,
        flush: Flush | None = None,
    ) -> Grouped[StreamT]:
        """Windows of time that do not overlap; `agg` says what to compute in each.

        With `report`, which divides `size`, a window also has running results before it closes: one at every multiple of
        `report` from its start, over the events that start before that instant, if there are any. It is given as soon as progress
        has passed the instant, at which the row ends. The column ``final`` says whether a row is the result of the whole window.

        `flush` spreads the results of a window over the time after it, where all at once would be a burst: ``hp.lazy(late=2)`` lets a
        result leave with the next event of its key, ``hp.slow(every=8)`` also one more for every so many events; all have left when
        progress is `late` windows further. The answer is the same. It matters in ``batches``; on Spark it is without effect.

        After a `band_join`, `by` says whose time counts: ``"left"``, ``"right"``, ``"min"`` or ``"max"``. With ``"both"`` there
        is a window for every two windows of the left and the right time, whose start joins the key; it is given as soon as both
        sides have passed it, however wide the band is. Row by row operators may lie between, if the join says ``by="both"`` too.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> table = pa.table({"ts": [12, 1, 3, 25], "value": [4, 1, 2, 8]})
        >>> stream = hp.from_arrow(table, time="ts", progress=hp.delayed(20))
        >>> stream.tumble(20, report=10).agg(total=hp.sum("value")).to_pandas()
           ts  end  final  total
        0   0   10  False      3
        1   0   20   True      7
        2  20   30  False      8
        3  20   40   True      8
        """
        how = {"size": duration(size), "offset": duration(offset)}
        stream = self._timed("tumble", by, **how)
        if report is None:
            return Grouped(stream, Tumble, {**how, "flush": flush})
        return Grouped(stream, RunningTumble, {**how, "every": how["size"], "report": duration(report), "flush": flush})

    def sliding(
        self,
        size: Duration,
        *,
        every: Duration,
        offset: Duration = 0,
        by: str | None = None,
        report: Duration | None = None,
        flush: Flush | None = None,
    ) -> Grouped[StreamT]:
        """Windows of time that begin `every` so often and may overlap; `agg` says what to compute in each.

        With `report` there are running results of each, and after a `band_join`, `by` says whose time counts, as in `tumble`. So does
        `flush`, where progress is a window further with every `every`.
        """
        how = {"size": duration(size), "every": duration(every), "offset": duration(offset)}
        stream = self._timed("sliding", by, **how)
        running = None if report is None else duration(report)
        return Grouped(stream, Sliding, {**how, "report": running, "flush": flush})

    def session(self, gap: Duration) -> Grouped[StreamT]:
        """Windows that end where nothing happens for `gap`; `agg` says what to compute in each."""
        return Grouped(self, Session, {"gap": duration(gap)})

    def last_n(self, n: int, *, within: Duration | None = None) -> Grouped[StreamT]:
        """For every event the last n of its key, itself included; `agg` says what to compute from them.

        Without `within` the last events of every key are kept for ever: where keys come and go, say how far back an event may be.
        """
        return Grouped(self, LastN, {"n": n, "within": None if within is None else duration(within)})

    def count_window(self, size: int, *, by: str | None = None, within: Duration | None = None) -> Grouped[StreamT]:
        """Windows of `size` numbers of a column that counts the events of a key; `agg` says what to compute in each.

        Without `by` it is the `sequence` of the source, and an error where there is none: windows would depend on the arrival.
        `within` ends a window that long after its first event: what follows of the same numbers makes another one. Without it the last
        window of a key that falls silent stays open until the end of the data and holds back all that waits for it; so a stream
        refuses a `count_window` without `within` where another operator waits for its results.
        """
        how = {
            "by": sequence_of(self.node) if by is None else by,
            "within": None if within is None else duration(within),
        }
        return Grouped(self, CountWindow, {"size": size, **how})

    def snapshot(self, *, report: Duration | None = None) -> Snapshots[StreamT]:
        """What is alive at each instant; `agg` says what to compute from it.

        `report` cuts long stretches at multiples of a duration, so that they do not hold back progress.
        """
        return Snapshots(self, Snapshot, {"report": None if report is None else duration(report)})

    def _timed(self, what: str, by: str | None, size: int, offset: int, every: int | None = None) -> Query:
        """The same pairs with the time of another side, or with the windows of the other time in the key."""
        if by is None:
            return self
        pairs: Query = self
        if isinstance(self.node, BandJoin):
            pairs = handle(build(replace(self.node, by=by)))
        elif by != "both":
            raise ParameterError(
                f"{what}: by={by!r} chooses among the times of a pair, and this is {self.node.name()}",
                hint="say it where pairs are made: band_join(..., by=...)",
            )
        if by != "both":
            return pairs
        check_span(size, what, "size")
        check_span(size if every is None else every, what, "every")
        other = pairs.node.paired
        if other is None:
            raise ParameterError(
                f'{what}: by="both" needs pairs with both of their times, and this is {self.node.name()}',
                hint='say it where pairs are made, and keep the right time: band_join(..., by="both")',
            )
        key = tuple(n for n in pairs.node.type.key.names if n != other)
        columns = tuple((n, n) for n in (*key, other))
        found: Query = pairs._then(KeyBy, columns=columns, window=(other, size, every or size, offset))
        return found


@dataclass(frozen=True, eq=False)
class Grouped(Generic[StreamT]):
    """A stream whose events were put together, waiting for `agg`."""

    stream: Query
    kind: type[Node]
    parameters: dict[str, Any]

    @public
    def agg(self, *unnamed: Any, **aggregates: Aggregate) -> StreamT:
        """Compute aggregates per key and window, each under a name: ``agg(n=hp.count(), level=hp.mean("value"))``."""
        if unnamed:
            raise ParameterError(
                f"{self.kind.name()}: agg: every aggregate needs a name, which becomes its column",
                hint='agg(n=hp.count(), level=hp.mean("value"))',
            )
        return self.stream._then(self.kind, **self.parameters, aggregates=tuple(aggregates.items()))

    if not TYPE_CHECKING:  # a type checker must go on to refuse what is not there

        def __getattr__(self, name: str) -> Any:
            """Windows without aggregates are no query yet: say so."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"{self.kind.name()} has no {name!r} before agg says what to compute: agg(n=hp.count()).{name}(...)"
                if hasattr(Query, name)
                else f"{self.kind.name()} has no {name!r}; it has agg: agg(n=hp.count())"
            )


class Snapshots(Grouped[StreamT]):
    """What is alive at each instant, waiting for `agg`."""

    @public
    def agg(self, *unnamed: Any, **aggregates: Aggregate) -> StreamT:
        """Compute aggregates over what is alive: a signal if all of them are numbers, else a stream.

        An instant at which one of the numbers is null is no part of the signal.
        """
        found = super().agg(*unnamed, **aggregates)
        if all(pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in found.node.type.columns):
            return found._then(ToSignal, value=tuple(aggregates))
        return found
