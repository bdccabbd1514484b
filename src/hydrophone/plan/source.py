"""Where a plan begins: the layout of rows at a source, and the leaves Source and Port."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError, PlanError, SignalTypeError
from hydrophone.model.halves import holds_halves
from hydrophone.model.progress import Policy
from hydrophone.model.timebase import Timebase, Timebases
from hydrophone.plan.data import Data, Place, Times
from hydrophone.plan.node import Node, Order, canonical
from hydrophone.plan.types import Clock, DataType, StreamType, UniformType, arrays_channels, arrays_dtype, clock_of


@dataclass(frozen=True)
class Layout:
    """How rows are read as events: which columns are key, time, end of lifetime and sequence.

    With `samples` a row is a segment instead: the column `samples` is an array whose first value lies at `time`
    and whose spacing is the column `period` (nanoseconds, or the whole grid: a struct of ``num``, ``den`` and ``origin``) or,
    for all rows, `timebase`. Arrays of lists of a fixed size are samples with as many channels.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    time: str
    end: str | None = None
    sequence: str | None = None
    samples: str | None = None
    period: str | None = None
    timebase: Timebase | None = None
    longest: int | None = field(default=None, compare=False)
    """Nanoseconds that no segment lasts longer than. A promise about the rows, as progress is, and so no part of what the source is."""

    def check(self, what: str) -> None:
        """Every column that is named exists and has a type that can serve."""
        names = self.schema.names
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise ParameterError(
                f"{what}: the data has {names.count(twice)} columns {twice!r}, which no query could tell apart",
                hint="give one of them another name, or leave it out, before Hydrophone reads the data",
            )
        named = [*self.key, self.time, *filter(None, [self.end, self.sequence, self.samples, self.period])]
        for name in named:
            if name not in self.schema.names:
                raise ParameterError(f"{what}: no column {name!r}; the data has: {', '.join(self.schema.names)}")
        if len(set(named)) < len(named):
            raise ParameterError(
                f"{what}: a column is named twice among key, time, end and sequence: {', '.join(named)}"
            )
        for name in self.key:
            check_key(self.schema.field(name), what)
        for f in self.schema:
            if holds_halves(f.type):
                raise SignalTypeError(
                    f"{what}: column {f.name!r} is {f.type}, and Spark knows no numbers of half precision",
                    hint="write it as float32, which holds the same numbers; tables in memory are taken so",
                )
        _check_time(self.schema.field(self.time), what)
        for column in self.schema:
            _check_payload(column, what)
        if self.end:
            self.check_same_times(self.end, f"{what}: end column")
        if self.samples and (self.period is None) == (self.timebase is None):
            raise ParameterError(
                f"{what}: segments need a period",
                hint='name its column (period="period") or give one for all: period="1ms"',
            )

    def check_same_times(self, name: str, what: str) -> None:
        """Refuse a column that cannot be compared with the time column: another kind of clock, or a zone on one side only."""
        time, other = (self.schema.field(n).type for n in (self.time, name))
        if clock_of(time) != clock_of(other):
            raise SignalTypeError(
                f"{what} {name!r} is {other}, and time column {self.time!r} is {time}",
                hint="both must be integers in nanoseconds, or timestamps with a zone, or timestamps without one; cast one of them first",
            )

    @property
    def lasts(self) -> int:
        """Nanoseconds after its start at which a row has surely ended, where no column tells: points last one."""
        return self.longest or 1

    @property
    def times(self) -> Times:
        """When rows begin and end."""
        return Times(self.time, self.end, self.lasts)

    @property
    def columns(self) -> list[str]:
        """The columns that are read, in the order of the schema."""
        named = {*self.key, self.time, self.end, self.samples, self.period, *self.payload}
        return [n for n in self.schema.names if n in named]

    def with_payload(self, payload: frozenset[str]) -> Layout:
        """The same layout with no other payload columns than these, and the sequence, which breaks ties."""
        kept = [f for f in self.schema if f.name in payload or f.name not in self.payload or f.name == self.sequence]
        return replace(self, schema=pa.schema(kept))

    @property
    def clock(self) -> Clock:
        """Whether the user's times are timestamps, with or without a zone, or integer nanoseconds."""
        return clock_of(self.schema.field(self.time).type) or "int"

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns, with dictionaries opened."""
        return pa.schema([pa.field(n, plain_type(self.schema.field(n).type)) for n in self.key])

    @property
    def payload(self) -> tuple[str, ...]:
        """The columns that are neither key nor time; the sequence first, because ties are broken from left to right."""
        taken = {*self.key, self.time, self.end, self.samples, self.period, self.sequence}
        first = (self.sequence,) if self.sequence else ()
        return (*first, *(n for n in self.schema.names if n not in taken))

    @cached_property
    def timebases(self) -> Timebases:
        """The grid of all segments, where there is one."""
        assert self.timebase is not None
        return Timebases.shared(self.timebase)

    @cached_property
    def sample_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the samples of segments."""
        return arrays_dtype(self.schema.field(self.samples), "source")

    def type(self) -> DataType:
        """What flows out of such a source."""
        if self.samples:
            channels = arrays_channels(self.schema.field(self.samples).type)
            return UniformType(self.key_schema, self.time, self.clock, self.sample_dtype, channels, self.timebase)
        columns = pa.schema([pa.field(n, plain_type(self.schema.field(n).type)) for n in self.payload])
        return StreamType(self.key_schema, self.time, self.clock, columns, self.end)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values behind a dictionary, text and binary of one width, and one zone: engines disagree on these."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind) and kind.tz:
        return pa.timestamp(kind.unit, "UTC")
    return kind


def check_key(field: pa.Field, what: str) -> None:
    """Refuse a column whose values cannot tell signals apart."""
    kind = plain_type(field.type)
    good = (
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_binary,
    )
    if not any(test(kind) for test in good):
        raise SignalTypeError(
            f"{what}: key column {field.name!r} is {field.type}, which cannot be a key",
            hint="keys are integers, texts, booleans, dates or timestamps; round a float or cast it to text first",
        )


def _check_payload(field: pa.Field, what: str) -> None:
    """Refuse a column that not every engine and file can hold."""
    held = [field]
    for inner in held:
        kind = plain_type(inner.type)
        if pa.types.is_interval(kind) or pa.types.is_run_end_encoded(kind) or pa.types.is_union(kind):
            raise SignalTypeError(
                f"{what}: column {field.name!r} is {field.type}, which neither Parquet nor Spark can hold",
                hint='how long a month is depends on its date: cast to pa.duration("us"), or leave the column out'
                if pa.types.is_interval(kind)
                else "cast it to the type of its values, or leave it out",
            )
        if pa.types.is_nested(kind):
            held += [kind.field(i) for i in range(kind.num_fields)]


def _check_time(field: pa.Field, what: str) -> None:
    if not (pa.types.is_timestamp(field.type) or field.type in (pa.int64(), pa.int32(), pa.uint32())):
        raise SignalTypeError(
            f"{what}: time column {field.name!r} is {field.type}",
            hint="times are timestamps or integers in nanoseconds; cast the column first",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaf(Node):
    """Common to both leaves."""

    stable_name = "leaf"

    layout: Layout
    progress: Policy | None = None

    gives = Order.ANY

    def check(self) -> None:
        """Columns exist and have types that can serve, those of the promise too."""
        self.layout.check("source")
        promise = self.progress
        if promise is None:
            return
        names = self.layout.schema.names
        for name in filter(None, [promise.column, promise.by]):
            if name not in names:
                raise ParameterError(f"progress: no column {name!r}; the data has: {', '.join(names)}")
        if promise.end is not None and self.layout.end is None:
            raise ParameterError(
                "progress: end promises something of ends, and these events have none",
                hint='name their column: end="stop"',
            )
        if promise.column is not None:
            self.layout.check_same_times(promise.column, "progress: column of marks")

    def output_type(self) -> DataType:
        """The layout decides."""
        return self.layout.type()


@dataclass(frozen=True, kw_only=True, eq=False)
class Source(Leaf):
    """Rows from a table, files or a Spark DataFrame.

    Attributes
    ----------
    data : where the rows come from
    label : what the user calls it (``name=``), which then is its identity: the data may move
    """

    stable_name = "source"

    data: Data = field(compare=False)
    label: str | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """The source as messages call it."""
        return self.label or self.data.identity

    @cached_property
    def identity(self) -> str:
        """What tells this source from others in every process: its name, else kind and location of its data."""
        return f"named {self.label}" if self.label else self.data.location

    def identifying(self) -> Iterator[tuple[str, Any]]:
        """The source itself, then layout and promise."""
        yield "source", self.identity
        yield from super().identifying()

    def check_same(self, other: Node) -> None:
        """Refuse two sources that share a name and read different data."""
        super().check_same(other)
        if isinstance(other, Source) and self.data.location != other.data.location:
            raise PlanError(
                f"two sources are named {self.label!r}: {self.data.identity} and {other.data.identity}",
                hint="give each a name of its own, or leave names out",
            )

    def check(self) -> None:
        """A name is a text that says something."""
        if self.label is not None and not (isinstance(self.label, str) and self.label.strip()):
            raise ParameterError(f"source: name must be a text, got {self.label!r}")
        super().check()

    def port(self, number: int) -> Port:
        """The input of a pipeline that stands in for this source."""
        return Port(
            number=number, layout=self.layout, progress=self.progress, where=self.where, source=self._port_identity
        )

    @property
    def _port_identity(self) -> str:
        """The source and its promise, but for how fine its marks are: the plan chooses that, and finer marks change no answer."""
        promise = self.progress and replace(self.progress, every=None, per_key=None)
        return hashlib.sha256(f"{self.identity}\n{canonical(promise)}".encode()).hexdigest()[:32]


def places_of(root: Node) -> list[Place]:
    """What a plan reads of this machine's disk."""
    return [place for source in sources(root) for place in source.data.places]


@dataclass(frozen=True, kw_only=True, eq=False)
class Port(Leaf):
    """An input of a running pipeline, known by what feeds it: a source, or an operator of the stage before.

    Attributes
    ----------
    number : where the host puts the rows in; no part of identity
    source : identity of what feeds the port
    joint : the column with the other time, where pairs come with joint progress
    """

    stable_name = "port"

    progress: Policy | None = field(default=None, compare=False)
    number: int = field(compare=False)
    source: str
    joint: str | None = None

    @cached_property
    def paired(self) -> str | None:
        """As the stage before says."""
        return self.joint


def sources(root: Node) -> list[Source]:
    """The sources of a plan."""
    return [n for n in root.topological() if isinstance(n, Source)]


def ports(root: Node) -> dict[int, Port]:
    """The ports of a plan by number."""
    return {n.number: n for n in root.topological() if isinstance(n, Port)}
