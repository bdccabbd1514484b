"""Other rates and other times, and functions of single samples: methods of `UniformSignal`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Generic, Self

from hydrophone.api.quantities import Extent, sample_count
from hydrophone.api.query import Query, StreamT, WindowedT
from hydrophone.errors import ParameterError, SignalTypeError, user_line
from hydrophone.model.time import Duration, Instant, duration, instant, period
from hydrophone.model.timebase import Timebase
from hydrophone.ops.filters.shift import Shift
from hydrophone.ops.resampling.downsample import Downsample
from hydrophone.ops.resampling.resample import Resample
from hydrophone.ops.resampling.resample_poly import ResamplePoly, design
from hydrophone.ops.resampling.shift_time import ShiftTime
from hydrophone.ops.resampling.upsample import Upsample
from hydrophone.ops.signals.epochs import Epochs
from hydrophone.ops.signals.fills import constant
from hydrophone.ops.signals.part import Part
from hydrophone.ops.signals.sample import Fill
from hydrophone.ops.signals.samples import ClipSamples, Function, MapSamples, WhereSamples
from hydrophone.plan.parameters import length, real
from hydrophone.plan.types import Missing

_KAISER = ("kaiser", 5.0)


class Rates(Query, Generic[StreamT, WindowedT]):
    """Methods of `UniformSignal`."""

    def downsample(self, n: int, phase: int = 0) -> Self:
        """Every `n`-th sample, unfiltered: those whose index leaves the remainder `phase`."""
        return self._then(Downsample, n=n, phase=phase)

    def upsample(self, n: int, how: str = "zero") -> Self:
        """`n` samples for one: zeros after it, or with ``"hold"`` the same again."""
        return self._then(Upsample, n=n, how=how)

    def decimate(self, n: int, *, missing: str = "zero") -> Self:
        """Every `n`-th sample after a filter without delay: ``scipy.signal.decimate(x, n, ftype="fir")``."""
        if length(n, "decimate: n") < 1:
            raise ParameterError(f"decimate: n must be at least 1, got {n}", where=user_line())
        return self.resample_poly(up=1, down=n, window="hamming", missing=missing)

    def resample_poly(
        self,
        rate: float | str | None = None,
        *,
        up: int | None = None,
        down: int | None = None,
        window: Any = _KAISER,
        missing: str = "zero",
    ) -> Self:
        """The signal at another rate (in hertz, or as ``"48kHz"``), or at ``up / down`` times its own: ``scipy.signal.resample_poly``.

        `window` designs the filter as in SciPy, or is the filter: an odd number of taps. With ``missing="drop"`` there are only samples
        for which no sample under the filter is missing.
        """
        if (rate is None) == (up is None and down is None):
            raise ParameterError("resample_poly: give either a rate, or up and down", where=user_line())
        numbers = tuple(
            1 if n is None else length(n, f"resample_poly: {name}") for name, n in (("up", up), ("down", down))
        )
        if min(numbers) < 1:
            raise ParameterError(
                f"resample_poly: up and down must be at least 1, got {numbers[0]} and {numbers[1]}", where=user_line()
            )
        ratio = Fraction(*numbers) if rate is None else self._ratio(rate)
        policy = Missing.of(missing, "resample_poly", (Missing.ZERO, Missing.DROP))
        number = ratio.numerator, ratio.denominator
        taps = design(*number, window)
        return self._then(ResamplePoly, up=number[0], down=number[1], taps=taps, missing=policy)

    def _ratio(self, rate: float | str) -> Fraction:
        timebase = self.node.type.timebase
        if timebase is None:
            raise SignalTypeError(
                "resample_poly: a rate needs one period for all keys", hint="give up and down", where=user_line()
            )
        if isinstance(rate, str):
            return timebase.period / period(rate)
        if not 0 < real(rate, "resample_poly: the rate") < math.inf:
            raise ParameterError(f"resample_poly: the rate must be positive, got {rate!r}", where=user_line())
        return (
            timebase.period
            * Fraction(rate if isinstance(rate, Fraction) else real(rate, "resample_poly: the rate"))
            / 10**9
        )

    def resample(self, spacing: Duration, *, fill: Fill | None = None, offset: Instant | None = None) -> Self:
        """Samples every `spacing`, between the old ones as `fill` says; by default on straight lines, and holes stay holes.

        Nothing is filtered (`resample_poly` does). Instants of samples are whole nanoseconds, and lines are drawn between those.
        """
        old = self.node.type.timebase
        origin = instant(offset) if offset is not None else 0 if old is None else old.origin
        return self._then(Resample, timebase=Timebase(period(spacing), origin), fill=fill)

    def continuous(self, value: float = math.nan, *, max_gap: Duration | None = None) -> Self:
        """The same samples without holes: between two samples of a key, every beat that has none gets `value`.

        With `max_gap` only where they are at most so far apart. Nothing comes before a key's first sample or after its last.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from hydrophone import from_arrow
        >>> rows = from_arrow(pa.table({"t": [0, 10, 40], "v": [1.0, 2.0, 5.0]}), time="t")
        >>> rows.signal("v").sample("10ns").continuous(0).to_arrow()["value"].to_pylist()
        [1.0, 2.0, 0.0, 0.0, 5.0]
        """
        timebase = self.node.type.timebase
        if timebase is None:
            raise SignalTypeError(
                "continuous: every key has a period of its own",
                hint="resample(period, fill=hp.linear()) gives all keys one",
                where=user_line(),
            )
        return self._then(Resample, timebase=timebase, fill=constant(value, max_gap))

    def epochs(self, events: StreamT, *, before: Extent, after: Extent, columns: str | Sequence[str] = ()) -> WindowedT:
        """For every event of the key the samples around its start, as a window that ends `after` samples later.

        A window that lacks a sample is left out, at the start, the end and beside holes; events between the same two samples share
        one. With `columns` every event has a window of its own, which carries these columns of it through what is made of each
        window by itself; one value per window (`max`, `reduce`, ...) is then an event with these columns.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from hydrophone import from_arrow
        >>> sound = from_arrow(pa.table({"t": [0, 10, 20, 30, 40], "v": [1.0, 2.0, 9.0, 3.0, 4.0]}), time="t").signal("v").sample(10)
        >>> cues = from_arrow(pa.table({"t": [8, 27], "cue": ["tone", "click"]}), time="t")
        >>> sound.epochs(cues, before=1, after=1, columns="cue").max().to_arrow().to_pylist()
        [{'t': 20, 'cue': 'tone', 'value': 9.0}, {'t': 40, 'cue': 'click', 'value': 9.0}]
        """
        back = sample_count(before, self.node.type, "epochs: before")
        on = sample_count(after, self.node.type, "epochs: after")
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        return self._then(Epochs, events, before=back, after=on, columns=names)

    def shift_time(self, by: Duration) -> Self:
        """All samples later by a duration; negative: earlier. By whole periods they stay on their grid, otherwise it moves with them."""
        timebase, ns = self.node.type.timebase, duration(by)
        if timebase is not None and (ns / timebase.period).denominator == 1:
            return self._then(Shift, samples=int(ns / timebase.period))
        return self._then(ShiftTime, by=ns)

    def scale(self, number: complex) -> Self:
        """All samples times a number."""
        made: Any = self
        return made * number

    def abs(self) -> Self:
        """Magnitudes."""
        return self._then(Part, which="magnitude")

    def clip(self, low: float | None = None, high: float | None = None) -> Self:
        """Samples no lower than `low` and no higher than `high`."""
        return self._then(ClipSamples, low=low, high=high)

    def map(self, function: Function) -> Self:
        """A function of every sample by itself: an array with a row per sample in, one with as many rows out."""
        return self._then(MapSamples, function=function)

    def where(self, function: Function) -> Self:
        """Keep the samples for which a function is true (an array in, truth values out); the others become holes."""
        return self._then(WhereSamples, function=function)
