"""The types of streams, signals, uniform signals and windows: what a query knows before it reads data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.time import format_duration
from hydrophone.model.timebase import Timebase

Clock = Literal["timestamp", "zoned", "int"]
"""The type of time that the user sees, as in the source: timestamps without a zone, with a zone, or integer nanoseconds."""

STAMPS = {"timestamp": pa.timestamp("ns"), "zoned": pa.timestamp("ns", "UTC"), "int": pa.int64()}
CLOCKS = {"timestamp": "timestamps without a zone", "zoned": "timestamps with a zone", "int": "integer times"}


def clock_of(kind: pa.DataType) -> Clock | None:
    """The clock of a time column; None for other columns. Only times of one clock can be compared.

    Examples
    --------
    >>> clock_of(pa.timestamp("us", "Europe/Berlin")), clock_of(pa.timestamp("ns")), clock_of(pa.int64()), clock_of(pa.string())
    ('zoned', 'timestamp', 'int', None)
    """
    if pa.types.is_timestamp(kind):
        return "zoned" if kind.tz else "timestamp"
    return "int" if pa.types.is_integer(kind) else None


class Missing(Enum):
    """What an operator does where a sample is missing.

    ``ZERO`` counts a hole as zeros and keeps history, ``DROP`` gives no output that would need a missing sample,
    ``RESET`` starts afresh after a hole.
    """

    ZERO = "zero"
    DROP = "drop"
    RESET = "reset"

    @classmethod
    def of(cls, value: str | Missing, what: str, allowed: Iterable[Missing] | None = None) -> Missing:
        """Parse a user's word."""
        choices = tuple(allowed or cls)
        for choice in choices:
            if value in (choice, choice.value):
                return choice
        names = ", ".join(repr(c.value) for c in choices)
        raise ParameterError(f"{what}: missing must be one of {names}, got {value!r}")


@dataclass(frozen=True)
class DataType:
    """Common to all types: the key columns, the name of the time column and its clock."""

    key: pa.Schema
    time: str
    clock: Clock

    @property
    def scope(self) -> tuple[tuple[str, str], ...]:
        """The key columns as plain text: operators of one scope share slots."""
        return tuple((f.name, str(f.type)) for f in self.key)

    @property
    def stamp(self) -> pa.DataType:
        """The type of a column of instants; all zones become UTC, because Spark knows no other."""
        return STAMPS[self.clock]

    def describe(self) -> str:
        """One line for `explain`."""
        raise NotImplementedError

    def _by(self) -> str:
        return f" by {', '.join(self.key.names)}" if self.key.names else ""


def same_clock(left: DataType, right: DataType, what: str) -> None:
    """Refuse times of two clocks: the zone of times without a zone is unknown."""
    if left.clock != right.clock:
        raise SignalTypeError(
            f"{what}: one side has {CLOCKS[left.clock]}, the other {CLOCKS[right.clock]}",
            hint="cast one of the time columns before the source",
        )


@dataclass(frozen=True)
class StreamType(DataType):
    """Events with payload columns; lifetimes may overlap. `end` names the column that ends them; points have none."""

    columns: pa.Schema
    end: str | None

    def column(self, name: str, what: str) -> pa.Field:
        """A payload column, or an error that names the choices."""
        if not isinstance(name, str):
            raise ParameterError(f"{what}: columns are named by texts, got a value of type {type(name).__name__}")
        if name in self.columns.names:
            return self.columns.field(name)
        names = ", ".join(self.columns.names) or "none"
        raise ParameterError(f"{what}: no column {name!r}; this stream has: {names}")

    def describe(self) -> str:
        """One line for `explain`."""
        fields = ", ".join(f"{f.name}: {f.type}" for f in self.columns)
        return f"Stream({fields}){self._by()}"


@dataclass(frozen=True)
class SignalType(StreamType):
    """A stream whose events of one key never overlap; `value` names the columns that are its samples."""

    value: tuple[str, ...]
    dtype: np.dtype[Any]

    @property
    def channels(self) -> int:
        """Channels of a vector signal; 0 for a scalar one."""
        return len(self.value) if len(self.value) > 1 else 0

    def describe(self) -> str:
        """One line for `explain`."""
        return f"Signal({_values(self.dtype, self.channels)}){self._by()}"


@dataclass(frozen=True)
class UniformType(DataType):
    """Samples on an exact grid; `timebase` is None where every key has its own."""

    dtype: np.dtype[Any]
    channels: int
    timebase: Timebase | None

    def describe(self) -> str:
        """One line for `explain`."""
        return f"UniformSignal({_values(self.dtype, self.channels)}, {rate(self.timebase)}){self._by()}"


@dataclass(frozen=True)
class WindowedType(DataType):
    """Arrays of `length` values; each stands for the `size` samples that end at its instant, every `hop` samples.

    With `channels` every window has as many arrays, one for each of them. With `labels` it carries columns, as those of the event that
    it lies around, and several windows may end at one sample. Spectra are the lines of the Fourier transform of `lines_of` samples; whole
    ones are `two_sided`: at sizes 1 and 2 their length does not tell.
    """

    dtype: np.dtype[Any]
    length: int
    size: int
    hop: int
    timebase: Timebase | None
    channels: int = 0
    labels: pa.Schema | None = None
    two_sided: bool = False
    lines_of: int = 0

    def with_arrays(self, dtype: np.dtype[Any], length: int) -> WindowedType:
        """The same windows with other arrays; lines of a spectrum stay such while there are as many."""
        return replace(self, dtype=dtype, length=length, lines_of=self.lines_of if length == self.length else 0)

    def describe(self) -> str:
        """One line for `explain`."""
        labels = f" with {', '.join(self.labels.names)}" if self.labels else ""
        each = f"{self.channels} of " if self.channels else ""
        return f"Windowed({each}{self.dtype}[{self.length}], size {self.size}, hop {self.hop}, {rate(self.timebase)}){labels}{self._by()}"


def sample_names(kind: UniformType | WindowedType) -> list[str]:
    """The columns of samples in results: one, or one per channel."""
    return [f"value_{i}" for i in range(kind.channels)] if kind.channels else ["value"]


def array_names(kind: WindowedType) -> list[str]:
    """The columns of windows in results: one, or one per channel."""
    return [f"values_{i}" for i in range(kind.channels)] if kind.channels else ["values"]


def rate(timebase: Timebase | None) -> str:
    """The period of a grid as text."""
    if timebase is None:
        return "a period per key"
    period = timebase.period
    return (
        f"every {format_duration(int(period))}" if period.denominator == 1 else f"{float(1_000_000_000 / period):g} Hz"
    )


def _values(dtype: np.dtype[Any], channels: int) -> str:
    return f"{dtype}[{channels}]" if channels else str(dtype)


def value_dtype(field: pa.Field, what: str) -> np.dtype[Any]:
    """The NumPy type of a payload column that holds samples; complex numbers are structs of ``re`` and ``im``."""
    kind = field.type
    if _is_complex(kind):
        return np.dtype(np.complex64 if kind.field(0).type == pa.float32() else np.complex128)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    raise SignalTypeError(
        f"{what}: column {field.name!r} is {kind}, which has no arithmetic",
        hint="a signal is made of ints, floats, complex numbers (a struct of re and im), structs of such, or a list of a fixed size; "
        'channels are columns of their own: signal("x", "y")',
    )


def arrow_type(dtype: np.dtype[Any]) -> pa.DataType:
    """The Arrow type for samples of this NumPy type."""
    if dtype.kind == "c":
        return _complex(pa.float32() if dtype == np.complex64 else pa.float64())
    return pa.from_numpy_dtype(dtype)


def arrays_type(dtype: np.dtype[Any], depth: int = 1) -> pa.DataType:
    """The Arrow type for arrays of such samples; complex numbers become one array of ``re`` and one of ``im``.

    NumPy reads both without a copy, and in Spark they take half the space of an array of structs.
    """
    if dtype.kind == "c":
        return _complex(arrays_type(np.empty(0, dtype).real.dtype, depth))
    kind = arrow_type(dtype)
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


def arrays_dtype(field: pa.Field, what: str) -> np.dtype[Any]:
    """The NumPy type of the samples in a column of arrays, the inverse of `arrays_type`; arrays of complex structs do as well."""
    kind = field.type
    if _is_complex(kind) and all(hasattr(part.type, "value_type") for part in kind):
        return value_dtype(pa.field(field.name, _complex(kind.field(0).type.value_type)), what)
    if not hasattr(kind, "value_type"):
        raise SignalTypeError(f"{what}: column {field.name!r} is {kind}, not an array of samples")
    item = kind.value_type
    return value_dtype(pa.field(field.name, item.value_type if pa.types.is_fixed_size_list(item) else item), what)


def arrays_channels(kind: pa.DataType) -> int:
    """How many channels the samples in a column of arrays have: those of a fixed size inside; 0 for plain samples.

    Examples
    --------
    >>> arrays_channels(pa.list_(pa.list_(pa.float64(), 2))), arrays_channels(pa.list_(pa.float64()))
    (2, 0)
    """
    item = getattr(kind, "value_type", None)
    return int(item.list_size) if item is not None and pa.types.is_fixed_size_list(item) else 0


def _complex(part: pa.DataType) -> pa.DataType:
    return pa.struct([("re", part), ("im", part)])


def _is_complex(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and [part.name for part in kind] == ["re", "im"]
