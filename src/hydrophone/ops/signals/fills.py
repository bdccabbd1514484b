"""Further fills: constants, steps, polynomials, and user-defined functions of the last reference points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.arguments import public
from hydrophone.errors import DataError, ParameterError
from hydrophone.model.time import Duration, scalar
from hydrophone.ops.signals.sample import Fill, _check_max_gap
from hydrophone.ops.user.calls import call_guarded, name_of, refuse_no_function
from hydrophone.plan.parameters import whole

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Constant(Fill):
    """The same value at every beat between two events."""

    value: float | complex | int = 0

    def dtype(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        """Wide enough for the value."""
        return np.result_type(kind, self.value)

    def between(self, share: Array, left: Array, right: Array) -> Array:
        """The value."""
        return np.full_like(left, self.value)


@dataclass(frozen=True)
class ZeroOrder(Fill):
    """The value of the event before the beat, where an event follows."""

    def between(self, share: Array, left: Array, right: Array) -> Array:
        """The left value."""
        return left


@dataclass(frozen=True)
class Polynomial(Fill):
    """The polynomial through the last events before the beat and the one after it."""

    order: int = 2

    by_share = False

    @property
    def points(self) -> int:  # type: ignore[override]
        """One more than the order."""
        return self.order + 1

    def dtype(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        """Integers become floats."""
        return kind if kind.kind in "fc" else np.dtype(np.float64)

    def through(self, offsets: Array, values: Array) -> Array:
        """Lagrange's form; points that are missing lower the order."""
        there = ~np.isnan(offsets)
        total = np.zeros_like(values[:, 0])
        for j in range(self.points):
            weight = np.ones(len(offsets))
            for other in range(self.points):
                if other != j:
                    factor = offsets[:, other] / (offsets[:, other] - offsets[:, j])
                    weight *= np.where(there[:, other], factor, 1)
            term = values[:, j] * (weight[:, None] if values.ndim == 3 else weight)
            total += np.where(there[:, j].reshape(-1, *[1] * (term.ndim - 1)), term, 0)
        return total


@dataclass(frozen=True)
class FillWith(Fill):
    """A user's function of the last reference points."""

    function: Callable[[Array, Array], Array] | None = None
    count: int = 2

    by_share = False

    @property
    def points(self) -> int:  # type: ignore[override]
        """As many as the user wants."""
        return max(self.count, 2)

    def dtype(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        """Integers become floats."""
        return kind if kind.kind in "fc" else np.dtype(np.float64)

    def through(self, offsets: Array, values: Array) -> Array:
        """Call it."""
        assert self.function is not None
        name, hint = name_of(self.function), "it gets offsets and values of the points around each beat, a row per beat"
        out = call_guarded("fill_with", hint, self.function, offsets, values)
        if out.shape != values[:, 0].shape:
            raise DataError(
                f"fill_with: {name} gave an array of shape {out.shape} for {values[:, 0].shape} beats",
                hint="it must give one value per row",
            )
        return out


@public
def constant(value: complex, max_gap: Duration | None = None) -> Constant:
    """Fill with a number, between neighbours that are at most `max_gap` apart.

    Examples
    --------
    >>> constant(0, max_gap="5s")
    Constant(max_gap=5000000000, value=0)
    """
    number = scalar(value)
    if isinstance(number, Fraction):
        number = float(number)
    number = number.item() if isinstance(number, np.number) and not isinstance(number, np.timedelta64) else number
    if isinstance(number, bool) or not isinstance(number, int | float | complex):
        raise ParameterError(f"constant: expected a number, got {value!r}")
    return Constant(_check_max_gap(max_gap), number)


@public
def zero_order(max_gap: Duration | None = None) -> ZeroOrder:
    """Fill with the value before the beat, between neighbours that are at most `max_gap` apart.

    `hold` also goes on for `max_gap` where nothing follows, and is known at once; this one interpolates only, and waits for the next event.
    """
    return ZeroOrder(_check_max_gap(max_gap))


@public
def quadratic(max_gap: Duration | None = None) -> Polynomial:
    """Fill on the parabola through the last two events before the beat and the one after it.

    Neighbours are at most `max_gap` apart; events before a larger gap do not count, and with fewer the order is lower.
    """
    return Polynomial(_check_max_gap(max_gap), 2)


@public
def cubic(max_gap: Duration | None = None) -> Polynomial:
    """Fill on the cubic through the last three events before the beat and the one after it; otherwise as `quadratic`."""
    return Polynomial(_check_max_gap(max_gap), 3)


@public
def fill_with(function: Callable[[Array, Array], Array], points: int = 3, max_gap: Duration | None = None) -> FillWith:
    """Fill with a function of the last `points` reference points: those before the beat, the oldest first, and the event after it.

    The function gets two arrays with a row per beat and a column per point: how many nanoseconds the point lies after the beat (NaN where
    there is none), and its value. It gives one value per row.
    """
    refuse_no_function("fill_with", function)
    points = whole(points, "fill_with: points")
    if points < 2:
        raise ParameterError(f"fill_with: points must be at least 2, got {points}")
    return FillWith(_check_max_gap(max_gap), function, points)
