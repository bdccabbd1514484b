"""``+ - * /`` between uniform signals, with signals at any times, with numbers and with functions of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from hydrophone.api.query import Query
from hydrophone.errors import ParameterError, SignalTypeError, user_line
from hydrophone.ops.resampling.resample import Resample
from hydrophone.ops.resampling.shift_to import ShiftTo
from hydrophone.ops.signals.arithmetic import Combine, CombineSamples, Scalar
from hydrophone.ops.signals.functions import Modulate, TimeFunction
from hydrophone.ops.signals.sample import Fill, Sample
from hydrophone.plan.types import SignalType, rate


class Arithmetic(Query):
    """Methods of `UniformSignal`.

    Signals on different grids are aligned first, as `plus` says.
    """

    def plus(self, other: object, *, fill: Fill | None = None, realign: str = "resample") -> Self:
        """``self + other``; where the grids differ, one side is brought to the grid of the other.

        Periods differ: the signal with the longer one is resampled to the other's grid by `fill` (by default on straight lines between
        neighbours; holes stay holes). Only the instants differ: `other` is resampled to the grid of this one, or with
        ``realign="shift"`` moved to its nearest beats, at most half a period (which needs equal periods). A signal at any times is sampled
        by `fill` on this grid.
        """
        return self._combine("+", other, fill=fill, realign=realign)

    def minus(self, other: object, *, fill: Fill | None = None, realign: str = "resample") -> Self:
        """``self - other``, aligned as `plus` says."""
        return self._combine("-", other, fill=fill, realign=realign)

    def times(self, other: object, *, fill: Fill | None = None, realign: str = "resample") -> Self:
        """``self * other``, aligned as `plus` says."""
        return self._combine("*", other, fill=fill, realign=realign)

    def over(self, other: object, *, fill: Fill | None = None, realign: str = "resample") -> Self:
        """``self / other``, aligned as `plus` says."""
        return self._combine("/", other, fill=fill, realign=realign)

    def combine(
        self,
        other: Self,
        function: Callable[[Any, Any], Any],
        *,
        fill: Fill | None = None,
        realign: str = "resample",
    ) -> Self:
        """A function of the samples of two signals, aligned as `plus` says: two arrays with a row per sample in, one out.

        So a payload of several fields gets a product of its own, such as that of quaternions.
        """
        _check_realign("combine", realign)
        a, b = _aligned("combine", self, self._sampled("combine", other, fill), fill, realign)
        return a._then(CombineSamples, b, function=function)

    def shift_to(self, other: Self) -> Self:
        """All samples at the nearest beats of another signal with the same period: moved by at most half of it."""
        grid = other.node.type.timebase if isinstance(other, Arithmetic) else None
        if grid is None:
            raise SignalTypeError("shift_to: the other signal has no period for all keys", where=user_line())
        return self._then(ShiftTo, timebase=grid)

    def _combine(
        self,
        operation: str,
        other: object,
        reflected: bool = False,
        fill: Fill | None = None,
        realign: str = "resample",
    ) -> Self:
        _check_realign(f"'{operation}'", realign)
        if isinstance(other, Query):
            found = self._sampled(f"'{operation}'", other, fill)
            left, right = (found, self) if reflected else (self, found)
            a, b = _aligned(f"'{operation}'", left, right, fill, realign)
            return a._then(Combine, b, operation=operation)
        if isinstance(other, TimeFunction):
            return self._then(Modulate, operation=operation, function=other, reflected=reflected)
        if isinstance(other, np.generic):
            other = other.item()
        return self._then(Scalar, operation=operation, number=other, reflected=reflected)

    def _sampled(self, what: str, other: object, fill: Fill | None) -> Arithmetic:
        """The other signal; one at any times on the grid of this one."""
        if isinstance(other, Query) and isinstance(other.node.type, SignalType):
            grid = self.node.type.timebase
            if grid is None:
                raise SignalTypeError(f"{what}: needs one period for all keys", where=user_line())
            other = other._then(Sample, timebase=grid, fill=fill)
        if not isinstance(other, Arithmetic):
            kind = other.node.type.describe() if isinstance(other, Query) else type(other).__name__
            raise SignalTypeError(f"{what}: the other side must be a signal, got {kind}", where=user_line())
        return other

    def __add__(self, other: object) -> Self:
        return self._combine("+", other)

    def __neg__(self) -> Self:
        return self * -1

    def __radd__(self, other: object) -> Self:
        return self._combine("+", other, reflected=True)

    def __sub__(self, other: object) -> Self:
        return self._combine("-", other)

    def __rsub__(self, other: object) -> Self:
        return self._combine("-", other, reflected=True)

    def __mul__(self, other: object) -> Self:
        return self._combine("*", other)

    def __rmul__(self, other: object) -> Self:
        return self._combine("*", other, reflected=True)

    def __truediv__(self, other: object) -> Self:
        return self._combine("/", other)

    def __rtruediv__(self, other: object) -> Self:
        return self._combine("/", other, reflected=True)


def _check_realign(what: str, realign: object) -> None:
    if realign not in ("resample", "shift"):
        raise ParameterError(f"{what}: realign must be 'resample' or 'shift', got {realign!r}", where=user_line())


def _aligned(what: str, a: Arithmetic, b: Arithmetic, fill: Fill | None, realign: str) -> tuple[Arithmetic, Arithmetic]:
    """Both signals on one grid; where every key has a period of its own, they are left as they are."""
    one, two = a.node.type.timebase, b.node.type.timebase
    if one is None or two is None or one == two:
        return a, b
    if realign == "shift" and one.period != two.period:
        raise ParameterError(
            f"{what}: realign='shift' needs signals of one period, got {rate(one)} and {rate(two)}",
            hint="leave realign out: the signal with the longer period is then resampled to the grid of the other",
            where=user_line(),
        )
    if one.period > two.period:
        return a._then(Resample, timebase=two, fill=fill), b
    if one.period == two.period and (realign == "shift" or one.same_grid(two)):
        return a, b._then(ShiftTo, timebase=one)
    return a, b._then(Resample, timebase=one, fill=fill)
