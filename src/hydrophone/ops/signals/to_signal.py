"""From streams to signals: the assertion that events of one key never overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Mask
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME, format_instant
from hydrophone.ops.base_kernels import PointwiseKernel
from hydrophone.plan.node import Node, Order
from hydrophone.plan.parameters import whole
from hydrophone.plan.traits import Columns
from hydrophone.plan.types import SignalType, StreamType, UniformType, value_dtype

TIES = ("error", "first", "last")


@dataclass(frozen=True, kw_only=True, eq=False)
class ToSignal(Node):
    """Read columns of a stream as a signal. Overlap is an error that names key and time; null readings are no readings.

    A struct of numbers is as many channels as it has fields (of ``re`` and ``im`` it is a complex number), a list of a fixed size as many
    as it has values, and arithmetic goes field by field. A reading that lacks a field is none.
    """

    stable_name = "to_signal"

    value: tuple[str, ...]
    ties: str = "error"

    needs = Order.INDEX
    gives = Order.INDEX

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "signal"

    def check(self) -> None:
        """At least one column."""
        if not self.value:
            raise ParameterError("signal: name at least one column")
        if self.ties not in TIES:
            raise ParameterError(f"signal: ties must be one of {', '.join(TIES)}, got {self.ties!r}")

    def columns_read(self, port: int, needed: Columns) -> Columns:
        """The channels; all where ties are broken."""
        return frozenset(self.value) if self.ties == "error" else None

    def output_type(self, x: StreamType) -> SignalType:
        """All channels have one type."""
        columns = pa.schema([f for v in self.value for f, _ in fields_of(x.column(v, "signal"))])
        kinds = {value_dtype(f, "signal") for f in columns}
        if len(kinds) > 1 and any(k.kind == "c" for k in kinds):
            raise SignalTypeError(f"signal: the channels {', '.join(columns.names)} mix complex and real columns")
        if len(set(columns.names)) < len(columns.names):
            raise ParameterError(f"signal: two channels have one name: {', '.join(columns.names)}")
        return SignalType(x.key, x.time, x.clock, columns, x.end, tuple(columns.names), np.result_type(*kinds))

    def kernel(self, x: StreamType) -> Kernel:
        """Check."""
        places = {f.name: (v, place) for v in self.value for f, place in fields_of(x.column(v, "signal"))}
        return ToSignalKernel(places, self.ties)


def fields_of(column: pa.Field) -> list[tuple[pa.Field, int | None]]:
    """The channels that a column gives, each with its place in it: itself, fields of a struct (of no complex number), or values of a list.

    Examples
    --------
    >>> [f.name for f, _ in fields_of(pa.field("at", pa.struct([("x", pa.float64()), ("y", pa.float64())])))]
    ['at.x', 'at.y']
    >>> [f.name for f, _ in fields_of(pa.field("at", pa.list_(pa.float64(), 2)))]
    ['at.0', 'at.1']
    """
    kind = column.type
    if pa.types.is_fixed_size_list(kind) and kind.list_size:
        return [(pa.field(f"{column.name}.{i}", kind.value_type), i) for i in range(kind.list_size)]
    if not pa.types.is_struct(kind) or [f.name for f in kind] == ["re", "im"]:
        return [(column, None)]
    return [(pa.field(f"{column.name}.{f.name}", f.type), i) for i, f in enumerate(kind)]


def _part(column: pa.ChunkedArray, place: int) -> pa.ChunkedArray:
    """One field of structs, or one value of lists; null where the whole is."""
    return pc.struct_field(column, [place]) if pa.types.is_struct(column.type) else pc.list_element(column, place)


class ToSignalKernel(Kernel):
    """Remembers where the last event of every key ended."""

    def __init__(self, places: dict[str, tuple[str, int | None]], ties: str) -> None:
        self.places, self.ties = places, ties
        self.seen = SlotArrays(stop=Field(np.int64, MIN_TIME))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Check one batch, which comes in order."""
        assert isinstance(batch, Events)
        batch = self._chosen(self._readings(batch))
        if not len(batch):
            return ()
        self.seen.reserve(len(self.keys))
        new = np.concatenate([[True], batch.slot[1:] != batch.slot[:-1]])
        before = np.concatenate([[MIN_TIME], batch.stop[:-1]])
        before[new] = self.seen["stop"][batch.slot[new]]
        self._refuse(batch, batch.start < before)
        last = np.concatenate([new[1:], [True]])
        self.seen["stop"][batch.slot[last]] = batch.stop[last]
        self.seen.touch(batch.slot[last])
        return (batch,)

    def idle(self, marks: Marks) -> Mask:
        """An event that ended before the mark can no longer be overlapped."""
        self.seen.reserve(len(self.keys))
        return self.seen["stop"][: len(self.keys)] <= marks[0]

    def _readings(self, batch: Events) -> Events:
        columns = {
            name: batch.columns[column] if place is None else _part(batch.columns[column], place)
            for name, (column, place) in self.places.items()
        }
        if columns:  # functions of time may have none
            batch = batch.with_columns(pa.table(columns))
        if not any(c.null_count for c in batch.columns.columns):
            return batch
        bad = np.zeros(len(batch), np.bool_)
        for column in batch.columns.columns:
            bad |= pc.is_null(column).to_numpy()
        return batch.select(~bad)

    def _chosen(self, batch: Events) -> Events:
        if self.ties == "error" or not len(batch):
            return batch
        tied = (batch.slot[1:] == batch.slot[:-1]) & (batch.start[1:] == batch.start[:-1])
        if not tied.any():
            return batch
        return batch.select(
            ~np.concatenate([[False], tied]) if self.ties == "first" else ~np.concatenate([tied, [False]])
        )

    def _refuse(self, batch: Events, overlap: Mask) -> None:
        if not overlap.any():
            return
        at = int(np.flatnonzero(overlap)[0])
        raise DataError(
            f"signal: two events{self.keys.of_key(batch.slot[at])} overlap at {format_instant(int(batch.start[at]))}",
            hint='a signal has one value at a time: aggregate first, or choose among equal times with signal(..., ties="first")',
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel(Node):
    """One channel of a vector signal."""

    stable_name = "channel"

    number: int

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """Scalar."""
        if not 0 <= self.number < max(x.channels, 1):
            raise ParameterError(f"channel: no channel {self.number}; this signal has {max(x.channels, 1)}")
        return UniformType(x.key, x.time, x.clock, x.dtype, 0, x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """A view."""
        return PointwiseKernel(lambda v: v[:, self.number] if v.ndim == 2 else v)


def check_number(number: object) -> int:
    """Channels have no names."""
    try:
        return whole(number, "channel: number")
    except ParameterError:
        raise ParameterError(
            f"channel: a channel has a number, got {number!r}",
            hint="from 0 on, in the order in which signal() named the columns",
        ) from None
