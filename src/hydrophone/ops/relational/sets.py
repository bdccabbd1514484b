"""Streams as sets of events: union, and events with equal payload once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Joint, Kernel, Marks
from hydrophone.model.marks import Mark, marks_of_slots
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer, due_at_end
from hydrophone.ops.relational.payload_codes import payload_codes
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType, same_clock


def same_key(left: StreamType, right: StreamType, what: str) -> None:
    """Refuse streams whose rows cannot meet: other keys, or times of another kind."""
    if left.scope != right.scope:
        raise SignalTypeError(
            f"{what}: the keys differ: {list(left.scope)} and {list(right.scope)}",
            hint="cast the column of one side to the type of the other, before the source"
            if left.key.names == right.key.names
            else "name the columns that must be equal (on=...), or give both the same key with key_by",
        )
    same_clock(left, right, what)


def same_columns(first: StreamType, other: StreamType, what: str) -> None:
    """Refuse streams whose payloads differ; the order of columns does not matter."""
    mine, others = ({f.name: f.type for f in x.columns} for x in (first, other))
    if mine != others:
        shown = [", ".join(f"{n}: {t}" for n, t in x.items()) or "none" for x in (mine, others)]
        raise SignalTypeError(
            f"{what}: the columns differ: {shown[0]}; and {shown[1]}",
            hint="choose the same columns on both sides: select(...), with_columns(...)",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Union(Node):
    """All events of several streams with the same key and columns; an event of two streams is there twice.

    Progress is that of the slowest; of pairs with two times, joint progress is the least of each. Where one stream has lifetimes, so has
    the result. Reference: ``pandas.concat``.
    """

    stable_name = "union"

    unites = True

    def check(self) -> None:
        """Something to unite."""
        if not self.inputs:
            raise ParameterError("union: needs at least one stream", hint="hp.union(a, b)")

    def output_type(self, *inputs: StreamType) -> StreamType:
        """As the first; lifetimes if any has them."""
        first = inputs[0]
        for other in inputs[1:]:
            same_key(first, other, "union")
            same_columns(first, other, "union")
        end = next((x.end for x in inputs if x.end), None)
        if end in (*first.key.names, first.time, *first.columns.names):
            raise ParameterError(
                f"union: lifetimes end in {end!r}, and the first stream has another column of that name",
                hint="put the stream with lifetimes first, or rename the column",
            )
        return StreamType(first.key, first.time, first.clock, first.columns, end)

    @property
    def keeps_ends(self) -> bool:
        """All events stay as they are."""
        return True

    @cached_property
    def paired(self) -> str | None:
        """The other time, where all streams are pairs."""
        self.bottom_up("paired")
        other = {i.paired for i in self.inputs}
        return other.pop() if len(other) == 1 else None

    def kernel(self, *inputs: StreamType) -> Kernel:
        """Put together."""
        return UnionKernel(self.type)


class UnionKernel(Kernel):
    """Hands rows on; the base class takes the least of the marks."""

    def __init__(self, out: StreamType) -> None:
        self.out = out

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """The same rows with columns in the order of the first stream."""
        assert isinstance(batch, Events)
        columns = batch.columns.select(self.out.columns.names)
        return (replace(batch, end=batch.stop if self.out.end else None, columns=columns),)

    def jointly(self, marks: Marks) -> Joint | None:
        """What all have passed."""
        told = [j for j in marks.joints if j is not None]
        return (min(s for s, _ in told), min(o for _, o in told)) if len(told) == len(marks.joints) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Distinct(Node):
    """At every instant each payload of a key at most once.

    Events in order of (start, end) lose the part of their lifetime that earlier ones with equal payload have covered, and
    vanish if nothing is left: of identical points one stays. Null equals null and NaN equals NaN; -0.0 and 0.0 are two values.
    """

    stable_name = "distinct"

    needs = Order.INDEX

    def output_type(self, x: StreamType) -> StreamType:
        """Unchanged."""
        return StreamType(x.key, x.time, x.clock, x.columns, x.end)

    def reach(self, x: StreamType) -> Reach:
        """As far back as lifetimes reach."""
        return Reach() if x.end is None else Reach.unbounded("distinct: lifetimes may be of any length")

    def kernel(self, x: StreamType) -> Kernel:
        """Leave out."""
        return DistinctKernel()


class DistinctKernel(Kernel):
    """Holds for every payload up to where it was covered."""

    keyed = True

    def __init__(self) -> None:
        self.seen = KeyedBuffer(due_at_end)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Trim one batch, which comes in order."""
        assert isinstance(batch, Events)
        seen = self.seen.take_of(batch.slot)
        whole = replace(batch, end=batch.stop)
        rows = whole if seen is None else Events.concat([seen, whole])
        old = len(rows) - len(batch)
        code = payload_codes([rows])[0]
        order = np.argsort(code, kind="stable")
        covered = np.empty(len(rows), np.int64)
        covered[order] = _covered(code[order], rows.start[order], rows.stop[order])
        last = order[np.append(np.flatnonzero(np.diff(code[order])), len(order) - 1)]
        stop = np.maximum.reduceat(rows.stop[order], np.flatnonzero(np.diff(code[order], prepend=-1)))
        self.seen.put(replace(rows.select(last), end=stop), due=stop)
        start = np.maximum(batch.start, covered[old:])
        left = start < batch.stop
        return (replace(batch, start=start).select(left),) if left.any() else ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Forget what no event can meet."""
        seen = self.seen.take_due(marks[0])
        if seen is not None:
            rest = seen.select(seen.stop > marks_of_slots(marks[0], seen.slot))
            self.seen.put(rest, due=rest.stop)
        return (), marks[0]


@compiled
def _covered(code, start, stop):  # type: ignore[no-untyped-def]
    """Up to where the rows of the same code before each row reach; its own start where there are none."""
    out = start.copy()
    for i in range(1, len(code)):
        if code[i] == code[i - 1]:
            out[i] = max(out[i - 1], stop[i - 1])
    return out
