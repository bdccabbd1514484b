"""Reach: what the value at one instant needs around it. One pass serves slices, state sizing and `explain`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hydrophone.time import MAX_TIME, MIN_TIME, format_duration
from hydrophone.timebase import Timebase

if TYPE_CHECKING:
    from hydrophone.plan.node import Node


EVER = MAX_TIME - MIN_TIME
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
        """All that lies before: a slice of time then reads that input from its beginning, which pays where the others are larger.

        Examples
        --------
        >>> print(Reach.past() + Reach(after=5))
        all time before, 5ns after
        """
        return cls(EVER)

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
        return Reach(_plus(self.before, other.before), _plus(self.after, other.after), self.why or other.why)

    def __or__(self, other: Reach) -> Reach:
        return Reach(_larger(self.before, other.before), _larger(self.after, other.after), self.why or other.why)

    def __str__(self) -> str:
        if not self.bounded:
            return f"unbounded ({self.why})" if self.why else "unbounded"
        before = "all time" if self.before is not None and self.before >= EVER else _shown(self.before or 0)
        return f"{before} before, {_shown(self.after or 0)} after"


def _shown(nanoseconds: int) -> str:
    """For people: the rounding of instants (a nanosecond or two) is left out of a long reach."""
    return format_duration(nanoseconds - nanoseconds % 1_000 if nanoseconds >= 1_000_000 else nanoseconds)


def _span(samples: int, period: Fraction) -> int:
    """Nanoseconds that surely cover so many samples: instants are rounded down to whole nanoseconds."""
    return math.ceil(samples * period) + 1 if samples else 0


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def reach_of_sources(root: Node) -> dict[Node, Reach]:
    """For every source under `root`: what the result at one instant needs of it, over all paths."""
    total: dict[Node, Reach] = {root: Reach()}
    for node in reversed(root.topological()):
        for child, own in zip(node.inputs, node.reaches, strict=True):
            through = total[node] + own
            total[child] = total[child] | through if child in total else through
    return {node: reach for node, reach in total.items() if not node.inputs}
