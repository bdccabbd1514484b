"""Aggregates: what all operators share that compute them, their checks, their columns and the parts they keep of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Events, Ints, Mask
from hydrophone.model.kernel import Kernel
from hydrophone.model.sorted_rows import concat_ranges, search_rows, stable_order
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import MAX_TIME
from hydrophone.ops.aggregates.folding import fold
from hydrophone.ops.aggregates.invertible import Inverse, inverse
from hydrophone.ops.aggregates.order_statistics import OrderStatistic, order_statistic
from hydrophone.ops.aggregates.summaries import Aggregate, Count, Partials
from hydrophone.plan.types import StreamType

Aggregates = Sequence[tuple[str, Aggregate]]


def check_aggregates(aggregates: Aggregates, what: str) -> None:
    """At least one, and each of them an aggregate."""
    if not aggregates:
        raise ParameterError(f"{what}: agg needs at least one aggregate", hint="agg(n=hp.count())")
    for name, a in aggregates:
        if not isinstance(a, Aggregate):
            raise ParameterError(
                f"{what}: {name!r} must be an aggregate, got {a!r}",
                hint="agg(n=hp.count())",
            )


def aggregate_columns(aggregates: Aggregates) -> frozenset[str]:
    """The payload columns that aggregates look at."""
    return frozenset(a.column for _, a in aggregates if a.column)


def unmergeable(aggregates: Aggregates) -> tuple[str, ...]:
    """The names of aggregates that keep rows, and so cannot be merged from parts."""
    return tuple(name for name, a in aggregates if isinstance(a, OrderStatistic))


def check_span(value: int, what: str, name: str) -> None:
    """A positive duration that ends: what never ends could never be given, and its state never purged."""
    if value <= 0:
        raise ParameterError(f"{what}: {name} must be positive, got {value}", hint='a duration, such as "5min"')
    if value >= MAX_TIME:
        raise ParameterError(
            f"{what}: {name} has no end, so that nothing could ever be given or forgotten",
            hint='a duration, such as "1d"',
        )


def aggregate_fields(aggregates: Aggregates, x: StreamType, what: str, *taken: str | None) -> list[pa.Field]:
    """The columns of results, whose names must be free."""
    fields = [pa.field(name, a.output_type(x)) for name, a in aggregates]
    for f in fields:
        if f.name in (*x.key.names, x.time, *taken):
            raise ParameterError(
                f"{what}: the name {f.name!r} is taken by the key or time of this stream", hint="choose another name"
            )
    return fields


def end_name(x: StreamType, what: str) -> str:
    """The name of the column in which results end: that of the input, or ``end``."""
    end = x.end or "end"
    if end in (*x.key.names, x.time):
        raise ParameterError(
            f"{what}: results end in a column {end!r}, and the key or time of this stream has that name",
            hint=f"rename the key: stream.key_by(name={end!r})",
        )
    return end


class Aggregating(Kernel):
    """Common to kernels that aggregate: what they keep of events, and results from it.

    The parts of open windows are held as events whose columns are the parts. The rows that picks need are held beside them.
    """

    VERSION = 2
    removes = False
    """Whether windows are made out of others by taking events away, where aggregates can."""

    def __init__(self, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        self.kind, self.out = kind, out
        self.aggregates = [a.over(kind) for _, a in aggregates]
        # A window is there because of its parts, so there is always one.
        self.summaries = [a for a in self.aggregates if not isinstance(a, OrderStatistic)] or [Count()]
        undo = [inverse(a) for a in self.summaries] if self.removes else []
        self.own, self.inverses = len(self.summaries), [i for i in undo if i is not None]
        self.summaries += self.inverses
        self.order_statistics = [a for a in self.aggregates if isinstance(a, OrderStatistic)]
        for i in range(len(self.order_statistics)):
            setattr(self, f"rows{i}", HeldBatches(Events))

    def rows(self) -> Iterator[tuple[OrderStatistic, HeldBatches[Events]]]:
        """The picks and what is held for them."""
        for i, pick in enumerate(self.order_statistics):
            yield pick, getattr(self, f"rows{i}")

    def partials(self, batch: Events) -> Partials:
        """The parts of every single event."""
        return [p for a in self.summaries for p in a.partials(*numeric_column(batch, a.column))]

    def folded(self, partials: Partials, first: Ints, stop: Ints) -> Partials:
        """The parts of stretches of rows."""
        return [m for a, own in split_partials(self.summaries, partials) for m in fold(a, own, first, stop)]

    def with_inverses(self, partials: Partials) -> Iterator[tuple[Aggregate, Partials, Inverse | None, Partials]]:
        """Every aggregate that is no inverse, its parts, and the inverse and its parts where there is one."""
        found = split_partials(self.summaries, partials)
        rest = iter(zip(self.inverses, found[self.own :], strict=True))
        for a, own in found[: self.own]:
            if self.inverses and inverse(a) is not None:
                undo, (_, its) = next(rest)
                yield a, own, undo, its
            else:
                yield a, own, None, []

    def order_statistic_rows(self, batch: Events, start: Ints) -> None:
        """Hold what the picks need of a batch; `start` stands for the time where they do not look at it."""
        for pick, held in self.rows():
            there = pc.is_valid(batch.columns[pick.column]).to_numpy(zero_copy_only=False)
            at = batch.start if pick.timed else start
            column = pa.table({"value": batch.columns[pick.column]})
            rows = Events(batch.slot, at, None, column)
            held.add(rows if there.all() else rows.select(there))

    def results(self, partials: Partials, picks: Sequence[pa.Array]) -> pa.Table:
        """The result columns."""
        summaries = iter(split_partials(self.summaries, partials))
        others = iter(picks)
        made = []
        for a in self.aggregates:
            if isinstance(a, OrderStatistic):
                made.append(next(others))
            else:
                made.append(a.result(next(summaries)[1]))
        return pa.table([m.cast(f.type) for m, f in zip(made, self.out.columns, strict=True)], schema=self.out.columns)

    def order_statistics_between(self, slot: Ints, start: Ints, stop: Ints) -> list[pa.Array]:
        """The answers of the picks over the held rows that start in ``[start, stop)``."""
        found = []
        for pick, held in self.rows():
            rows = held.all()
            if rows is None:
                rows = Events(slot[:0], slot[:0], None, self._nothing(pick))
            order = stable_order(rows.slot, rows.start)
            if order is not None:
                rows = rows.select(order)
                held.replace(rows, order[:0])
            low = search_rows(rows.slot, rows.start, slot, start, "left")
            counts = search_rows(rows.slot, rows.start, slot, stop, "left") - low
            group = np.repeat(np.arange(len(slot)), counts)
            found.append(order_statistic(pick, rows.select(concat_ranges(low, counts)), group, len(slot)))
        return found

    def _nothing(self, pick: OrderStatistic) -> pa.Table:
        return pa.table({"value": pa.array([], self.kind.column(pick.column, "").type)})


def split_partials(aggregates: Sequence[Aggregate], partials: Partials) -> list[tuple[Aggregate, Partials]]:
    """The parts of each aggregate."""
    found, at = [], 0
    for a in aggregates:
        found.append((a, partials[at : at + a.width]))
        at += a.width
    return found


def numeric_column(batch: Events, name: str) -> tuple[npt.NDArray[Any], Mask]:
    """A column as numbers (times as they are counted), and where it is not null."""
    if not name:
        return np.broadcast_to(0.0, len(batch)), np.broadcast_to(np.True_, len(batch))
    column = batch.columns[name].combine_chunks()
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not numeric:
        return np.zeros(len(batch)), valid
    filled = pc.fill_null(column, 0) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False)), valid


def partials_to_table(partials: Partials) -> pa.Table:
    """Parts as columns."""
    return pa.table(partials, names=[f"p{i}" for i in range(len(partials))])


def partials_from_table(cells: Events) -> Partials:
    """Undo `partials_to_table`."""
    return [c.to_numpy() for c in cells.columns.columns]


def forget_rows(held: HeldBatches[Events], gone: Any) -> None:
    """Drop the held rows for which a function of them is true."""
    rows = held.all()
    if rows is not None and (mask := gone(rows)).any():
        held.take(mask)
