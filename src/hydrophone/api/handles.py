"""The four handles: `Stream`, `Signal`, `UniformSignal` and `Windowed`. The families of their methods have files of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import narwhals as nw
import numpy as np

from hydrophone.api.arrays import Arrays
from hydrophone.api.coincidence import Coincidences
from hydrophone.api.detectors import Detectors
from hydrophone.api.feedback import Feedbacks
from hydrophone.api.frames import FramesOfSignals, FramesOfStreams
from hydrophone.api.functions import Functions, FunctionSignal
from hydrophone.api.group_delay import Delays
from hydrophone.api.lifetimes import Lifetimes
from hydrophone.api.quantities import sample_count
from hydrophone.api.rates import Rates
from hydrophone.api.reductions import Reductions, Rollings
from hydrophone.api.relations import Relations
from hydrophone.api.segments import Regroupings
from hydrophone.api.spectra import Spectra, WindowSpectra
from hydrophone.api.tables import Tables
from hydrophone.api.timewindows import TimeWindows
from hydrophone.api.user_defined import UserDefinedFilters, UserDefinedIterations
from hydrophone.api.wavelets import Wavelets, WindowWavelets
from hydrophone.engine import local
from hydrophone.errors import ParameterError
from hydrophone.model.sigseg import SigSeg
from hydrophone.model.time import MAX_TIME, Duration, Instant, duration, instant, period
from hydrophone.model.timebase import Timebase
from hydrophone.ops.detectors.above import Above
from hydrophone.ops.relational.key_by import KeyBy
from hydrophone.ops.relational.rows import Select, ToEvents, Where, WithColumns
from hydrophone.ops.signals.functions import TimeScale
from hydrophone.ops.signals.sample import Fill, Sample
from hydrophone.ops.signals.snap import Snap
from hydrophone.ops.signals.to_signal import Channel, ToSignal, check_number
from hydrophone.ops.windows.map_windows import MapWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.transforms import Fft, Ifft, Irfft, Rfft
from hydrophone.ops.windows.window import Window
from hydrophone.ops.windows.window_channel import WindowChannel
from hydrophone.plan.types import Missing, SignalType, StreamType, UniformType, WindowedType


class Stream(
    Coincidences["Signal"],
    FramesOfStreams["Stream"],
    Lifetimes["Stream"],
    Relations["Stream"],
    TimeWindows["Stream"],
    Tables["Stream"],
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
    ) -> FunctionSignal[UniformSignal]: ...

    def signal(
        self,
        *value: Any,
        ties: str = "error",
        by: str | None = None,
        unit: str = "s",
        origin: Instant = 0,
        dtype: Any = float,
    ) -> Signal | FunctionSignal[UniformSignal]:
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


class Signal(Stream, of=SignalType):
    """A stream whose events of one key never overlap."""

    def where(self, condition: nw.Expr) -> Signal:
        """Keep the events for which a condition over their columns is true."""
        return self._then(Where, condition=condition)

    def sample(self, spacing: Duration, *, offset: Instant = 0, fill: Fill | None = None) -> UniformSignal:
        """Samples every `spacing` (or at a rate such as ``"44.1kHz"``) on the absolute grid; `fill` says what beats between events get.

        Without `fill` only readings that lie exactly on a beat become samples, to the nanosecond; all others are left out (if they are
        more than a tenth, the log says so once). Where stamps have an offset, say `offset`; where they jitter or are rounded (3 kHz in
        microseconds), use `snap`; where beats are to lie between readings, `fill`. To take every nth sample on purpose: `downsample`.

        Inside a lifetime beats have the event's value. It lasts until its last nanosecond, ``end - 1``: from there `hp.linear` draws its
        line to the next start, and from there a fill's `max_gap` counts. Start: nothing before a key's first event. Gap: no samples where
        neighbours are further apart than `max_gap`. End: `hp.hold` goes on for `max_gap` after the last event, other fills end with it.
        """
        timebase = Timebase(period(spacing), instant(offset))
        return self._then(Sample, timebase=timebase, fill=fill)

    def snap(self, spacing: Duration, tolerance: Duration, *, offset: Instant = 0) -> UniformSignal:
        """Samples every `spacing` from readings with jittered stamps: each at the beat within `tolerance` of it, others are left out.

        `hydrophone.estimate_period` finds the spacing of given stamps.
        """
        timebase = Timebase(period(spacing), instant(offset))
        return self._then(Snap, timebase=timebase, tolerance=duration(tolerance))


class UniformSignal(
    Detectors[Stream],
    FramesOfSignals[Stream],
    Delays,
    Feedbacks,
    UserDefinedFilters,
    Rollings,
    Spectra["Windowed"],
    Rates[Stream, "Windowed"],
    Regroupings["Windowed"],
    Wavelets,
    of=UniformType,
):
    """Samples on an exact grid."""

    def window(self, size: int | str, *, hop: int | str | None = None, missing: str = "drop") -> Windowed:
        """Arrays of `size` samples, every `hop` samples (by default `size`); durations that are whole multiples of the period do too.

        A signal with channels gives windows with channels: what follows handles each channel by itself.
        """
        span = sample_count(size, self.node.type, "window: size")
        # What a hop skips is not held.
        step = span if hop is None else sample_count(hop, self.node.type, "window: hop", most=MAX_TIME)
        kind = Missing.of(missing, "window", (Missing.DROP, Missing.ZERO))
        return self._then(Window, size=span, hop=step, missing=kind)

    def above(self, threshold: float, *, report: Duration | None = None) -> Stream:
        """Intervals in which the signal is above a threshold; `report` cuts long ones so that they do not hold back progress."""
        cut = None if report is None else duration(report)
        return self._then(Above, threshold=threshold, report=cut)

    def channel(self, number: int) -> UniformSignal:
        """One channel of a vector signal."""
        return self._then(Channel, number=check_number(number))

    def events(self, column: str = "value", *, fields: Sequence[str] = ()) -> Stream:
        """The samples as point events, to relate them with other streams; with `fields` the channels become one struct."""
        return self._then(ToEvents, column=column, fields=tuple(fields))

    def segments(self) -> Iterator[tuple[tuple[Any, ...], SigSeg]]:
        """Run in this process; every contiguous run as its key and a `SigSeg` that copies nothing.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"k": [7, 7], "t": [0, 10], "v": [1.0, 2.0]})
        >>> for key, segment in hp.from_arrow(rows, key="k", time="t").signal("v").sample(10).segments():
        ...     print(key, segment.to_numpy())
        (7,) [1. 2.]
        """
        return local.execute_segments(self.node)


class Windowed(
    Arrays[UniformSignal],
    Reductions[UniformSignal],
    WindowSpectra[UniformSignal],
    WindowWavelets,
    UserDefinedIterations,
    of=WindowedType,
):
    """Arrays of samples; array operators compose until `overlap_add` or nothing ends them."""

    def fft(self) -> Windowed:
        """Full spectrum."""
        return self._then(Fft)

    def ifft(self) -> Windowed:
        """Windows from their full spectrum."""
        return self._then(Ifft)

    def rfft(self) -> Windowed:
        """Spectrum of real windows."""
        return self._then(Rfft)

    def irfft(self) -> Windowed:
        """Real windows from their spectrum."""
        return self._then(Irfft)

    def map(self, function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Windowed:
        """A function over many windows at once: an array with a row per window in, one with as many rows out.

        Of windows with channels every channel is a row of its own.
        """
        return self._then(MapWindows, function=function)

    def channel(self, number: int) -> Windowed:
        """One channel of the windows of a vector signal."""
        return self._then(WindowChannel, number=check_number(number))

    def overlap_add(self) -> UniformSignal:
        """Lay the windows back on the time axis and add where they overlap; a spectrum goes back by `irfft` or `ifft` first."""
        return self._then(OverlapAdd)
