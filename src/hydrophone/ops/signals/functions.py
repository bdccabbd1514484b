"""Functions of time as payloads: kept as functions until they meet a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.arguments import public
from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Events, Ints, Segments
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.time import Instant, duration, instant
from hydrophone.model.timebase import Timebase, Timebases
from hydrophone.ops.relational.rows import column_values
from hydrophone.ops.signals.arithmetic import OPERATIONS, result_dtype
from hydrophone.ops.signals.to_signal import ToSignalKernel
from hydrophone.ops.user.calls import call_guarded, name_of
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import StreamType, UniformType, value_dtype

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class TimeScale:
    """How functions see time: as a float, in `unit` nanoseconds after `origin`."""

    unit: int = 1_000_000_000
    origin: int = 0

    @classmethod
    def of(cls, unit: str, origin: Instant) -> TimeScale:
        """From a user's words: ``"s"``, ``"ms"``, or any duration."""
        return cls(duration(unit if unit[:1].isdigit() else f"1{unit}"), instant(origin))

    def read(self, times: Ints) -> npt.NDArray[np.float64]:
        """Instants in nanoseconds as floats; the origin is taken off before anything is rounded."""
        return (times - self.origin) / self.unit


class TimeFunction:
    """A function of time: takes part in arithmetic, and stays a function until a grid asks for its values.

    Examples
    --------
    >>> ramp = function(lambda t: t)
    >>> (1 - 2 * ramp)(np.array([0, 500_000_000]))
    array([1., 0.])
    """

    dtype: str

    def __call__(self, times: Ints) -> Values:
        """The values at some instants in nanoseconds."""
        raise NotImplementedError

    def _with(self, symbol: str, other: object, reflected: bool = False) -> TimeFunction:
        if isinstance(other, np.generic):
            other = other.item()
        if isinstance(other, bool) or not isinstance(other, TimeFunction | int | float | complex):
            return NotImplemented
        return Combined(symbol, *((other, self) if reflected else (self, other)))

    def __add__(self, other: object) -> TimeFunction:
        return self._with("+", other)

    def __radd__(self, other: object) -> TimeFunction:
        return self._with("+", other, reflected=True)

    def __sub__(self, other: object) -> TimeFunction:
        return self._with("-", other)

    def __rsub__(self, other: object) -> TimeFunction:
        return self._with("-", other, reflected=True)

    def __mul__(self, other: object) -> TimeFunction:
        return self._with("*", other)

    def __rmul__(self, other: object) -> TimeFunction:
        return self._with("*", other, reflected=True)

    def __truediv__(self, other: object) -> TimeFunction:
        return self._with("/", other)

    def __rtruediv__(self, other: object) -> TimeFunction:
        return self._with("/", other, reflected=True)


@dataclass(frozen=True)
class Written(TimeFunction):
    """A function that the user wrote, and the clock that it looks at."""

    function: Callable[[Values], Any]
    clock: TimeScale
    dtype: str = "float64"

    def __call__(self, times: Ints) -> Values:
        """Read the clock and call it."""
        return call_function("function", self.function, np.dtype(self.dtype), self.clock.read(times))


@dataclass(frozen=True)
class Combined(TimeFunction):
    """An operation between two functions of time, or one and a number."""

    symbol: str
    left: Any
    right: Any

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """As NumPy."""
        left, right = (np.ones(1, x.dtype) if isinstance(x, TimeFunction) else x for x in (self.left, self.right))
        return str(np.asarray(OPERATIONS[self.symbol](left, right)).dtype)

    def __call__(self, times: Ints) -> Values:
        """Both sides, then the operation."""
        left, right = (x(times) if isinstance(x, TimeFunction) else x for x in (self.left, self.right))
        with np.errstate(all="ignore"):
            return np.asarray(OPERATIONS[self.symbol](left, right))


@public
def function(
    function: Callable[[Values], Any], *, unit: str = "s", origin: Instant = 0, dtype: Any = float
) -> TimeFunction:
    """A function of time, to add to signals or multiply them by.

    Parameters
    ----------
    function : callable
        Gets an array of times (floats, in `unit` since `origin`) and gives as many values; it must look at nothing else.
    unit : str
        ``"s"``, ``"ms"`` or another duration.
    origin : instant
        When the function's clock shows zero. Years after it, a float shows seconds to a tenth of a microsecond: fast
        carriers want an origin near the data.
    dtype : the type of its values

    Examples
    --------
    >>> def carrier(t):
    ...     return np.cos(2 * np.pi * 50 * t)
    >>> function(carrier)(np.array([0, 10_000_000])).round(9)
    array([ 1., -1.])
    """
    if not callable(function):
        raise ParameterError(f"function: expected a function of time, got {type(function).__name__}")
    return Written(function, TimeScale.of(unit, origin), str(np.dtype(dtype)))


def call_function(what: str, function: Callable[..., Any], dtype: np.dtype[Any], times: Values, *event: Any) -> Values:
    """The values of a user's function, one for every instant; anything else is an error that names it."""
    hint = "it gets an array of many instants at once"
    values = call_guarded(what, hint, lambda t: function(t, *event), times, name=name_of(function), code=function)
    if values.shape not in (times.shape, ()):
        raise DataError(f"{what}: {name_of(function)} gave an array of shape {values.shape} for {len(times)} instants")
    if not np.can_cast(values.dtype, dtype, "same_kind"):
        raise DataError(f"{what}: {name_of(function)} gave {values.dtype}, which is no {dtype}", hint="say dtype=")
    return np.broadcast_to(values, times.shape).astype(dtype, copy=False)


# --- a function beside a signal -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Modulate(Node):
    """``signal * hp.function(carrier)`` and its kin, sample by sample; reference: the operation over ``function(times)``.

    Start, gap and end: as the signal. `reflected` for a function on the left.
    """

    stable_name = "modulate"

    operation: str
    function: TimeFunction
    reflected: bool = False

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """As NumPy."""
        dtype = result_dtype(self.operation, x.dtype, np.ones(1, self.function.dtype))
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """Sample by sample."""
        return ModulateKernel(OPERATIONS[self.operation], self.function, self.reflected)


class ModulateKernel(Stateless):
    """Asks the function for its values at the samples."""

    def __init__(self, operation: Callable[[Any, Any], Any], function: TimeFunction, reflected: bool) -> None:
        self.operation, self.function, self.reflected = operation, function, reflected

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Segments)
        wave = self.function(
            batch.base.times(np.repeat(batch.slot, batch.lengths), concat_ranges(batch.first, batch.lengths))
        )
        if batch.values.ndim == 2:
            wave = wave[:, None]
        pair = (wave, batch.values) if self.reflected else (batch.values, wave)
        with np.errstate(all="ignore"):
            return batch.with_values(self.operation(*pair))


# --- events that are functions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleFunction(Node):
    """Beats inside events, with the values that a function of time and the event's columns has there.

    With several functions the column `by` says which one an event follows. Start, gap and end: samples lie inside events
    only. Events of one key must not overlap; those with a null in their payload are none.
    """

    stable_name = "sample_function"

    timebase: Timebase
    functions: tuple[tuple[Any, Callable[..., Any]], ...]
    by: str | None
    clock: TimeScale
    dtype: str

    needs = Order.INDEX
    gives = Order.INDEX

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "sample"

    def check(self) -> None:
        """Functions."""
        for _, function in self.functions:
            if not callable(function):
                raise ParameterError(f"signal: expected a function of time and event, got {type(function).__name__}")

    def output_type(self, x: StreamType) -> UniformType:
        """A grid for all keys."""
        if self.by is not None:
            x.column(self.by, "signal")
        return UniformType(x.key, x.time, x.clock, np.dtype(self.dtype), 0, self.timebase)

    def kernel(self, x: StreamType) -> Kernel:
        """Sample."""
        return SampleFunctionKernel(self, x)


class SampleFunctionKernel(ToSignalKernel):
    """Events that do not overlap, as in any signal, and the beats inside them."""

    def __init__(self, node: SampleFunction, kind: StreamType) -> None:
        super().__init__({name: (name, None) for name in kind.columns.names}, "error")
        self.node, self.kind = node, kind
        self.base = Timebases.shared(node.timebase)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Every beat inside an event."""
        for events in super().step(port, batch):
            assert isinstance(events, Events)
            if len(events):
                self.node.timebase.check_holds(int(events.start.min()), int(events.stop.max()))
            first = self.base.index_from(events.slot, events.start)
            counts = self.base.index_from(events.slot, events.stop) - first
            which = np.repeat(np.arange(len(events)), counts)
            slot, index = events.slot[which], concat_ranges(first, counts)
            yield Segments.of_samples(slot, index, self._values(events, which, slot, index), self.base)

    def _values(self, events: Events, which: Ints, slot: Ints, index: Ints) -> Values:
        times = self.node.clock.read(self.base.instant(slot, index))
        columns = {n: _plain(events, n, self.kind)[which] for n in self.kind.columns.names}
        clock = self.node.clock
        columns |= {"start": clock.read(events.start)[which], "end": clock.read(events.stop)[which]}
        dtype = np.dtype(self.node.dtype)
        if self.node.by is None:
            ((_, function),) = self.node.functions
            return call_function("signal", function, dtype, times, SimpleNamespace(**columns))
        out, known = np.empty(len(times), dtype), np.zeros(len(times), np.bool_)
        for name, function in self.node.functions:
            its = columns[self.node.by] == name
            known |= its
            event = SimpleNamespace(**{n: c[its] for n, c in columns.items()})
            out[its] = call_function("signal", function, dtype, times[its], event)
        if not known.all():
            other = columns[self.node.by][~known][0]
            names = ", ".join(repr(n) for n, _ in self.node.functions)
            raise DataError(f"signal: no function for {self.node.by} = {other!r}; there are: {names}")
        return out


def _plain(events: Events, name: str, kind: StreamType) -> Values:
    """A column as NumPy: numbers where it has arithmetic, else Python's values."""
    field = kind.columns.field(name)
    try:
        dtype = value_dtype(field, "signal")
    except TypeError:
        return np.array([*events.columns[name].to_pylist(), None], object)[:-1]
    return column_values(events.columns[name], dtype)
