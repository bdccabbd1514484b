"""What a picture shows, in words; and which columns of events are values to be drawn."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hydrophone.model.time import format_duration
from hydrophone.plan.node import Node
from hydrophone.plan.types import DataType, SignalType, StreamType, UniformType, WindowedType


def in_words(kind: DataType, node: Node) -> str:
    """What a query gives, as a title."""
    if isinstance(kind, UniformType):
        channels = f" with {kind.channels} channels" if kind.channels else ""
        return f"signal{channels}, {_rate(kind)}"
    if isinstance(kind, WindowedType):
        what = "spectra" if kind.lines_of else "windows"
        return f"{what} of {kind.size:,} samples, {_rate(kind)}"
    assert isinstance(kind, StreamType)
    if isinstance(kind, SignalType):
        return f"signal {', '.join(kind.value)}"
    columns = value_columns(kind, node)
    if columns:
        return f"{', '.join(columns)} of windows"
    return "events with lifetimes" if kind.end else "events"


def _rate(kind: UniformType | WindowedType) -> str:
    if kind.timebase is None:
        return "a rate per key"
    period = kind.timebase.period
    if period.denominator == 1 and period >= 10**9:
        return f"one sample every {format_duration(int(period))}"
    hertz = kind.timebase.rate_hz
    return f"{hertz / 1000:g} kHz" if hertz >= 1000 else f"{hertz:g} Hz"


def value_columns(kind: StreamType, node: Node) -> list[str]:
    """The columns that are drawn as lines: of a signal its values, of aggregates of windows their numbers; none of other events."""
    if isinstance(kind, SignalType):
        return [] if kind.dtype.kind == "c" else list(kind.value)
    if not any(getattr(n, "aggregates", None) for n in below_rows(node)):
        return []
    return [f.name for f in kind.columns if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]


def below_rows(node: Node) -> Iterator[Node]:
    """An operator and what lies below it, as far as it only looks at rows one by one."""
    yield node
    while node.rowwise and len(node.inputs) == 1:
        node = node.inputs[0]
        yield node
