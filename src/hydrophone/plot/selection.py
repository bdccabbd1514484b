"""The keys and the time range of a plot, and their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.engine import local
from hydrophone.engine.ingest import array_samples, instants
from hydrophone.errors import DataError, ParameterError, UnsupportedError, user_line
from hydrophone.model.sigseg import SigSeg
from hydrophone.model.take_rows import one_chunk
from hydrophone.model.time import Instant, format_instant, instant
from hydrophone.plan.node import Node
from hydrophone.plan.types import DataType, StreamType, WindowedType
from hydrophone.plot.envelope import Ints, Trace


class Query(Protocol):
    """What can be drawn: any handle, for its plan."""

    @property
    def node(self) -> Node:
        """The plan."""
        ...


@dataclass(frozen=True)
class Selection:
    """The keys and the time range that the user asked for."""

    kind: DataType
    key: Any
    start: Instant | None
    end: Instant | None

    def __post_init__(self) -> None:
        for name in self.keys or ():
            if len(name) != len(self.kind.key.names):
                columns = ", ".join(self.kind.key.names) or "no columns"
                raise ParameterError(f"plot: key {name!r} has {len(name)} parts; the key of this query is {columns}")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ParameterError(f"plot: start must be before end, got {self.start!r} and {self.end!r}")

    @property
    def low(self) -> int | None:
        """The start in nanoseconds."""
        return None if self.start is None else instant(self.start)

    @property
    def high(self) -> int | None:
        """The end in nanoseconds."""
        return None if self.end is None else instant(self.end)

    @property
    def keys(self) -> list[tuple[Any, ...]] | None:
        """The keys to draw, None for all."""
        if self.key is None:
            return None
        return [k if isinstance(k, tuple) else (k,) for k in (self.key if isinstance(self.key, list) else [self.key])]

    def order(self, found: Sequence[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
        """The keys to draw, out of those present, if they fit into one plot."""
        if self.keys is not None:
            missing = [k for k in self.keys if k not in found]
            if missing:
                raise DataError(f"plot: no data of key {key_name(missing[0])}{self._span()}", hint=_some_keys(found))
        if not found:
            raise DataError(f"plot: there is nothing to draw{self._span()}")
        keys = sorted(found, key=str) if self.keys is None else self.keys
        if len(keys) > most:
            raise ParameterError(
                f"plot: {len(keys)} keys are too many for one picture", hint=f"choose: key=...; {_some_keys(found)}"
            )
        return keys

    def _span(self) -> str:
        parts = [(" from ", self.low), (" to ", self.high)]
        return "".join(word + format_instant(t) for word, t in parts if t is not None)

    def inside(self, time: Ints) -> Any:
        """Which instants to draw."""
        low = np.ones(len(time), bool) if self.low is None else time >= self.low
        return low if self.high is None else low & (time < self.high)


def key_name(key: tuple[Any, ...]) -> str:
    """A key in words."""
    return ", ".join(str(part) for part in key)


def _some_keys(keys: Sequence[tuple[Any, ...]]) -> str:
    names = [key_name(k) for k in sorted(keys, key=str)[:5]]
    return f"there are: {'; '.join(names)}{', ...' if len(keys) > 5 else ''}" if names else "there are no keys at all"


@dataclass(frozen=True)
class Samples:
    """The traces of one key, one per channel, and what they leave out."""

    traces: tuple[Trace, ...]
    period: float
    odd: int
    """Samples that are not finite."""


def samples_by_key(query: Query, chosen: Selection, most: int) -> dict[tuple[Any, ...], Samples]:
    """The samples of a uniform signal, by key."""
    runs: dict[tuple[Any, ...], list[SigSeg]] = {}
    for key, segment in local.execute_segments(query.node):
        low = segment.start if chosen.low is None else chosen.low
        part = segment.between(low, segment.end if chosen.high is None else chosen.high)
        if len(part):
            runs.setdefault(key, []).append(part)
    return {key: _samples(sorted(runs[key], key=lambda s: s.first)) for key in chosen.order(list(runs), most)}


def _samples(parts: list[SigSeg]) -> Samples:
    grid = parts[0].timebase
    index = np.concatenate([np.arange(s.first, s.next) for s in parts])
    values = np.concatenate([s.to_numpy() for s in parts])
    flat = (np.abs(values) if np.iscomplexobj(values) else values).reshape(len(values), -1)
    time, apart = grid.instant(index), np.diff(index, prepend=index[0] - 2) != 1
    found = tuple(Trace.of(time, flat[:, c], apart) for c in range(flat.shape[1]))
    return Samples(found, grid.period_ns, int((~np.isfinite(flat)).sum()))


@dataclass(frozen=True)
class EventTimes:
    """Events of one key: points where `end` is None."""

    start: Ints
    end: Ints | None
    columns: pa.Table


def events_by_key(query: Query, kind: StreamType, chosen: Selection) -> dict[tuple[Any, ...], EventTimes]:
    """The events of a stream, by key."""
    table = local.execute(query.node)
    start = instants(table[kind.time], kind.time)
    end = instants(table[kind.end], kind.end) if kind.end else None
    if end is None:
        inside = chosen.inside(start)
    else:
        inside = np.ones(len(start), bool) if chosen.low is None else end > chosen.low
        inside &= True if chosen.high is None else start < chosen.high
    keep = np.flatnonzero(inside)
    table, start, end = table.take(pa.array(keep)), start[keep], None if end is None else end[keep]
    slot, keys = _rows_by_key(table, kind.key.names)
    found = {}
    for number, key in enumerate(keys):
        rows = np.flatnonzero(slot == number) if chosen.keys is None or key in chosen.keys else np.zeros(0, np.int64)
        if len(rows):
            rows = rows[np.argsort(start[rows], kind="stable")]
            found[key] = EventTimes(start[rows], None if end is None else end[rows], table.take(pa.array(rows)))
    return found


def _rows_by_key(table: pa.Table, names: list[str]) -> tuple[Ints, list[tuple[Any, ...]]]:
    """A number per row, equal for equal keys, and the key of each number."""
    if not names:
        return np.zeros(len(table), np.int64), [()] if len(table) else []
    numbered = table.select(names).append_column("row", pa.array(np.arange(len(table))))
    groups = numbered.group_by(names).aggregate([("row", "list")])
    slot = np.zeros(len(table), np.int64)
    rows = groups["row_list"].combine_chunks()
    lengths = pc.list_value_length(rows).to_numpy(zero_copy_only=False)
    slot[pc.list_flatten(rows).to_numpy()] = np.repeat(np.arange(len(groups)), lengths)
    return slot, [tuple(row[n] for n in names) for row in groups.select(names).to_pylist()]


@dataclass(frozen=True)
class Spectra:
    """Windows of one key in order of time: the instants of their last samples, the spacing of samples, a row per window."""

    last: Ints
    period: float
    values: Any


def spectra_by_key(query: Query, kind: WindowedType, chosen: Selection) -> dict[tuple[Any, ...], Spectra]:
    """The arrays of windows, by key."""
    if kind.timebase is None:
        raise UnsupportedError("plot: windows of signals that each have a period of their own can't be drawn yet")
    if kind.channels:
        raise UnsupportedError(
            f"plot: these windows have {kind.channels} channels",
            hint="draw one of them: windows.channel(0)",
            where=user_line(),
        )
    table = local.execute(query.node)
    last = instants(table[kind.time], kind.time)
    keep = np.flatnonzero(chosen.inside(last))
    table, last = table.take(pa.array(keep)), last[keep]
    slot, keys = _rows_by_key(table, kind.key.names)
    found = {}
    for number, key in enumerate(keys):
        rows = np.flatnonzero(slot == number)
        rows = rows[np.argsort(last[rows], kind="stable")]
        found[key] = Spectra(last[rows], kind.timebase.period_ns, _array(table["values"].take(pa.array(rows)), kind))
    return found


def _array(arrays: pa.ChunkedArray, kind: WindowedType) -> Any:
    return array_samples(one_chunk(arrays), "values", kind.dtype)[1].reshape(-1, kind.length)
