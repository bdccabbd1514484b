"""Reach: how far before and after an instant its value depends on the input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hydrophone.model.time import MAX_TIME, MIN_TIME, format_duration
from hydrophone.model.timebase import Timebase

UNBOUNDED = MAX_TIME - MIN_TIME
"""Longer than any two instants are apart."""


@dataclass(frozen=True)
class Reach:
    """How far before and after an instant an operator looks on one input, in nanoseconds; None where there is no bound.

    Examples
    --------
    >>> Reach(before=5) + Reach(before=2, after=1)
    Reach(before=7, after=1, why='')
    >>> Reach.unbounded("no max_gap").why
    'no max_gap'
    """

    before: int | None = 0
    after: int | None = 0
    why: str = ""

    @classmethod
    def unbounded(cls, why: str) -> Reach:
        """No bound, and the reason that `explain` gives."""
        return cls(None, None, why)

    @classmethod
    def past(cls) -> Reach:
        """Everything before: a slice then reads this input from its beginning, which pays if the other inputs are larger.

        Examples
        --------
        >>> print(Reach.past() + Reach(after=5))
        all time before, 5ns after
        """
        return cls(UNBOUNDED)

    @classmethod
    def samples(cls, timebase: Timebase | None, before: int = 0, after: int = 0) -> Reach:
        """A reach in samples of a grid."""
        if timebase is None:
            return cls.unbounded("every key has a period of its own")
        return cls(_span(before, timebase.period), _span(after, timebase.period))

    @property
    def bounded(self) -> bool:
        """Whether both sides are finite."""
        return self.before is not None and self.after is not None

    def __add__(self, other: Reach) -> Reach:
        return Reach(_add_reach(self.before, other.before), _add_reach(self.after, other.after), self.why or other.why)

    def __or__(self, other: Reach) -> Reach:
        return Reach(
            _wider_reach(self.before, other.before), _wider_reach(self.after, other.after), self.why or other.why
        )

    def __str__(self) -> str:
        if not self.bounded:
            return f"unbounded ({self.why})" if self.why else "unbounded"
        before = "all time" if self.before is not None and self.before >= UNBOUNDED else _reach_text(self.before or 0)
        return f"{before} before, {_reach_text(self.after or 0)} after"


def _reach_text(nanoseconds: int) -> str:
    """As text; a long reach is shown without the nanosecond or two of rounding."""
    return format_duration(nanoseconds - nanoseconds % 1_000 if nanoseconds >= 1_000_000 else nanoseconds)


def _span(samples: int, period: Fraction) -> int:
    """Nanoseconds that cover `count` samples at least: instants are rounded down."""
    return math.ceil(samples * period) + 1 if samples else 0


def _add_reach(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _wider_reach(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
