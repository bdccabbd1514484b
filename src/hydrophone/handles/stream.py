"""Events with lifetimes: relations and time windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import narwhals as nw

from hydrophone.handles.lifetimes import Lifetimes
from hydrophone.handles.timewindows import TimeWindows
from hydrophone.ops.joins import BandJoin
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.rows import Select, Where, WithColumns
from hydrophone.ops.signals import ToSignal
from hydrophone.plan.types import StreamType
from hydrophone.time import Duration, duration

if TYPE_CHECKING:
    from hydrophone.handles.signal import Signal


class Stream(Lifetimes, TimeWindows, of=StreamType):
    """Events with lifetimes, a key and payload columns; lifetimes may overlap."""

    def where(self, condition: nw.Expr) -> Stream:
        """Keep the events for which a condition over their columns is true."""
        return self._then(Where, condition=condition)

    def with_columns(self, **columns: nw.Expr) -> Stream:
        """Add or replace payload columns."""
        return self._then(WithColumns, columns=tuple(columns.items()))

    def select(self, *columns: str) -> Stream:
        """Keep only these payload columns."""
        return self._then(Select, columns=columns)

    def key_by(self, *columns: str, **renamed: str) -> Stream:
        """Group by other columns (``new="old"`` renames); without any, everything belongs together."""
        pairs = tuple((c, c) for c in columns) + tuple(renamed.items())
        return self._then(KeyBy, columns=pairs)

    def signal(self, *value: str, ties: str = "error") -> Signal:
        """Read a column as a signal, or several as its channels: at most one event of a key at any time."""
        return self._then(ToSignal, value=value, ties=ties)

    def band_join(
        self,
        other: Stream,
        *,
        before: Duration,
        after: Duration,
        on: str | Sequence[str] | Mapping[str, str] | None = None,
    ) -> Stream:
        """Pairs with events of another stream that start near in time; `on` names columns that must be equal (by default the key)."""
        left, right = (self, other) if on is None else _keyed(self, other, on)
        return left._then(BandJoin, right, before=duration(before), after=duration(after))


def _keyed(left: Stream, right: Stream, on: str | Sequence[str] | Mapping[str, str]) -> tuple[Stream, Stream]:
    pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {c: c for c in on}
    return left.key_by(*pairs), right.key_by(**pairs)
