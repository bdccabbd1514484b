"""Change of key: the only operator whose output belongs to another scope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Joint, Kernel, Marks, Stateless
from hydrophone.model.marks import low_water_mark, map_mark
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.time import add_time, check_finite, multiples, step_number
from hydrophone.ops.room import room_for
from hydrophone.plan.node import Node, Order
from hydrophone.plan.source import check_key
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyBy(Node):
    """Group by other columns: pairs of (new name, column). The old key columns become payload. No columns: everything together.

    With `window` (column, size, every, offset) a column of times counts as the start of the window of time that it lies in; a row whose
    time lies in several is there once for each.
    """

    stable_name = "key_by"

    columns: tuple[tuple[str, str], ...]
    window: tuple[str, int, int, int] | None = None

    gives = Order.ANY
    rowwise = True
    changes_key = True

    def output_type(self, x: StreamType) -> StreamType:
        """Columns move between key and payload."""
        fields = {f.name: f for f in (*x.key, *x.columns)}
        for _, old in self.columns:
            if old not in fields:
                raise ParameterError(f"key_by: no column {old!r}; this stream has: {', '.join(fields)}")
        for _, old in self.columns:
            check_key(fields[old], "key_by")
        key = pa.schema([fields[old].with_name(new) for new, old in self.columns])
        taken = {old for _, old in self.columns}
        payload = pa.schema([f for name, f in fields.items() if name not in taken])
        clash = {x.time, x.end, *payload.names} & set(key.names)
        if clash or len(set(key.names)) < len(key.names):
            raise ParameterError(f"key_by: the names {', '.join(key.names)} clash with other columns of this stream")
        return StreamType(key, x.time, x.clock, payload, x.end)

    def describe(self) -> str:
        """The window only where there is one."""
        return super().describe() if self.window else f"columns={self.columns}"

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """Also those that become the key."""
        return None if needed is None else needed | {old for _, old in self.columns}

    def key_below(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """Under their old names; windows are computed."""
        renamed = dict(self.columns)
        return None if self.window is not None else tuple(renamed.get(n, n) for n in names)

    @cached_property
    def paired(self) -> str | None:
        """The other time, under its new name."""
        self.bottom_up("paired")
        other = self.inputs[0].paired
        return next((new for new, old in self.columns if old == other), other)

    def kernel(self, x: StreamType) -> Kernel:
        """Hand out slots of the new scope."""
        return KeyByKernel(self.columns, x, self.type.columns, self.window, self.inputs[0].paired)


class KeyByKernel(Stateless):
    """Looks the new keys up in the table of the new scope."""

    def __init__(
        self,
        columns: tuple[tuple[str, str], ...],
        kind: StreamType,
        payload: pa.Schema,
        window: tuple[str, int, int, int] | None,
        other: str | None,
    ) -> None:
        self.columns, self.kind, self.payload = columns, kind, payload
        self.window, self.other = window, other

    @property
    def takes_key_marks(self) -> bool:
        """Never: they are those of the old keys, even where the new ones have the same names and types."""
        return False

    def map(self, batch: Batch) -> Batch:
        """Re-key one batch."""
        assert isinstance(batch, Events)
        old_key = dict(zip(self.kind.key.names, self.keys.columns(batch.slot), strict=True))
        fields = old_key | {n: batch.columns[n] for n in self.kind.columns.names}
        if self.window is not None:
            name, *window = self.window
            first, counts = windows_of(fields[name].cast(pa.int64()).to_numpy(), *window)
            late, hint = add_time(batch.start, window[0]), "windows that begin less often"
            with room_for("sliding", self.keys, batch.slot, batch.start, late, counts, "rows", hint):
                number, offset = concat_ranges(first, counts), window[2] % window[1]
            if len(number):
                ends = (int(n) * window[1] + offset for n in (number.min(), number.max()))
                check_finite(*ends)
            if not (counts == 1).all():
                row = np.repeat(np.arange(len(batch)), counts)
                batch = batch.select(row)
                fields = {n: c.take(pa.array(row)) for n, c in fields.items()}
            fields[name] = pa.array(number * window[1] + offset).cast(fields[name].type)
        chosen = [fields[old] for _, old in self.columns]
        slot = self.out_keys.slots(chosen) if chosen else self.out_keys.zeros(len(batch))
        payload = (
            batch.columns.select([])
            if not self.payload.names
            else pa.table([fields[n] for n in self.payload.names], schema=self.payload)
        )
        return Events(slot, batch.start, batch.end, payload)

    def jointly(self, marks: Marks) -> Joint | None:
        """Of windows of the other time, those that end by the mark are over."""
        joint, window = marks.joints[0], self.window
        if joint is None or window is None or window[0] != self.other:
            return joint
        return joint[0], low_water_mark(map_mark(joint[1], lambda m: first_after(m, *window[1:])))


def first_after(time: Any, size: int, every: int, offset: int) -> Any:
    """The start of the first window that ends after an instant.

    Examples
    --------
    >>> first_after(25, size=10, every=10, offset=0), first_after(25, size=10, every=4, offset=0)
    (20, 16)
    """
    offset %= every
    return add_time(multiples(step_number(add_time(time, -size), every, offset) + 1, every), offset)


def windows_of(time: Ints, size: int, every: int, offset: int) -> tuple[Ints, Ints]:
    """The number of the first window that each instant lies in, and in how many it lies.

    Examples
    --------
    >>> windows_of(np.array([25, 19]), size=10, every=4, offset=0)
    (array([4, 3]), array([3, 2]))
    """
    offset %= every
    first = step_number(add_time(time, -size), every, offset) + 1
    return first, step_number(time, every, offset) + 1 - first
