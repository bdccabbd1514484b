"""Aggregates: what all operators share that compute them, their checks, their columns and the parts they keep of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.batch import Events, Ints, Mask
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel
from hydrophone.ops.folding import fold
from hydrophone.ops.picks import Pick, picked
from hydrophone.ops.removing import Inverse, inverse
from hydrophone.ops.summaries import Aggregate, Count, Parts
from hydrophone.plan.types import StreamType
from hydrophone.runs import ranges, search, stable_order
from hydrophone.state import Held
from hydrophone.time import MAX_TIME

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

    removes = False
    """Whether windows are made out of others by taking events away, where aggregates can."""

    def __init__(self, aggregates: Aggregates, kind: StreamType, out: StreamType) -> None:
        self.kind, self.out = kind, out
        self.aggregates = [a for _, a in aggregates]
        # A window is there because of its parts, so there is always one.
        self.summaries = [a for a in self.aggregates if not isinstance(a, Pick)] or [Count()]
        undo = [inverse(a) for a in self.summaries] if self.removes else []
        self.own, self.inverses = len(self.summaries), [i for i in undo if i is not None]
        self.summaries += self.inverses
        self.picks = [a for a in self.aggregates if isinstance(a, Pick)]
        for i in range(len(self.picks)):
            setattr(self, f"rows{i}", Held(Events))

    def rows(self) -> Iterator[tuple[Pick, Held[Events]]]:
        """The picks and what is held for them."""
        for i, pick in enumerate(self.picks):
            yield pick, getattr(self, f"rows{i}")

    def parts(self, batch: Events) -> Parts:
        """The parts of every single event."""
        return [p for a in self.summaries for p in a.parts(*numbers(batch, a.column))]

    def folded(self, parts: Parts, first: Ints, stop: Ints) -> Parts:
        """The parts of stretches of rows."""
        return [m for a, own in split(self.summaries, parts) for m in fold(a, own, first, stop)]

    def with_inverses(self, parts: Parts) -> Iterator[tuple[Aggregate, Parts, Inverse | None, Parts]]:
        """Every aggregate that is no inverse, its parts, and the inverse and its parts where there is one."""
        found = split(self.summaries, parts)
        rest = iter(zip(self.inverses, found[self.own :], strict=True))
        for a, own in found[: self.own]:
            if self.inverses and inverse(a) is not None:
                undo, (_, its) = next(rest)
                yield a, own, undo, its
            else:
                yield a, own, None, []

    def pick_rows(self, batch: Events, start: Ints) -> None:
        """Hold what the picks need of a batch; `start` stands for the time where they do not look at it."""
        for pick, held in self.rows():
            there = pc.is_valid(batch.columns[pick.column]).to_numpy(zero_copy_only=False)
            at = batch.start if pick.timed else start
            column = pa.table({"value": batch.columns[pick.column]})
            rows = Events(batch.slot, at, None, column)
            held.add(rows if there.all() else rows.select(there))

    def results(self, parts: Parts, picks: Sequence[pa.Array]) -> pa.Table:
        """The result columns."""
        summaries = iter(split(self.summaries, parts))
        others = iter(picks)
        made = []
        for a in self.aggregates:
            if isinstance(a, Pick):
                made.append(next(others))
            else:
                made.append(a.result(next(summaries)[1]))
        return pa.table([m.cast(f.type) for m, f in zip(made, self.out.columns, strict=True)], schema=self.out.columns)

    def picks_between(self, slot: Ints, start: Ints, stop: Ints) -> list[pa.Array]:
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
            low = search(rows.slot, rows.start, slot, start, "left")
            counts = search(rows.slot, rows.start, slot, stop, "left") - low
            group = np.repeat(np.arange(len(slot)), counts)
            found.append(picked(pick, rows.select(ranges(low, counts)), group, len(slot)))
        return found

    def _nothing(self, pick: Pick) -> pa.Table:
        return pa.table({"value": pa.array([], self.kind.column(pick.column, "").type)})


def split(aggregates: Sequence[Aggregate], parts: Parts) -> list[tuple[Aggregate, Parts]]:
    """The parts of each aggregate."""
    found, at = [], 0
    for a in aggregates:
        found.append((a, parts[at : at + a.width]))
        at += a.width
    return found


def numbers(batch: Events, name: str) -> tuple[npt.NDArray[Any], Mask]:
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


def part_table(parts: Parts) -> pa.Table:
    """Parts as columns."""
    return pa.table(parts, names=[f"p{i}" for i in range(len(parts))])


def parts_of(cells: Events) -> Parts:
    """Undo `part_table`."""
    return [c.to_numpy() for c in cells.columns.columns]


def forget(held: Held[Events], gone: Any) -> None:
    """Drop the held rows for which a function of them is true."""
    rows = held.all()
    if rows is not None and (mask := gone(rows)).any():
        held.take(mask)
