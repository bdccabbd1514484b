"""Events with lifetimes: relations and time windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import narwhals as nw
import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.handles.coincidence import Coincidences
from hydrophone.handles.functions import Functions, FunctionSignal
from hydrophone.handles.lifetimes import Lifetimes
from hydrophone.handles.relations import Relations
from hydrophone.handles.tables import Tables
from hydrophone.handles.timewindows import TimeWindows
from hydrophone.ops.functions import TimeScale
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.rows import Select, Where, WithColumns
from hydrophone.ops.signals import ToSignal
from hydrophone.plan.types import StreamType
from hydrophone.time import Instant

if TYPE_CHECKING:
    from hydrophone.handles.signal import Signal


class Stream(
    Coincidences,
    Lifetimes,
    Relations,
    TimeWindows,
    Tables,
    of=StreamType,
):
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

    @overload
    def signal(self, *value: str, ties: str = "error") -> Signal: ...

    @overload
    def signal(
        self, function: Functions, /, *, by: str | None = None, unit: str = "s", origin: Instant = 0, dtype: Any = float
    ) -> FunctionSignal: ...

    def signal(
        self,
        *value: Any,
        ties: str = "error",
        by: str | None = None,
        unit: str = "s",
        origin: Instant = 0,
        dtype: Any = float,
    ) -> Signal | FunctionSignal:
        """Read a column as a signal, or several as its channels: at most one event of a key at any time.

        A column of structs of numbers, or of lists of a fixed size (``pa.list_(pa.float64(), 3)``), is several channels too.

        A function makes events that *are* functions: it gets the times inside an event (floats, in `unit` since `origin`)
        and the event (its columns as attributes, and ``start`` and ``end``), and gives as many values. Several functions
        are a dict, and the column `by` says which one an event follows.
        """
        if len(value) == 1 and (callable(value[0]) or isinstance(value[0], Mapping)):
            if (by is None) == isinstance(value[0], Mapping):
                raise ParameterError(
                    "signal: several functions need by=, the column that says which one; one needs none"
                )
            return FunctionSignal(self, value[0], by, TimeScale.of(unit, origin), str(np.dtype(dtype)))
        return self._then(ToSignal, value=value, ties=ties)
