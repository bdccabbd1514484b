"""Regrid: from one exact grid to another whose period is a rational multiple, for one timebase or a table of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.marks import Mark, lowest_marks, map_mark
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase, Timebases


@dataclass(frozen=True)
class Regrid:
    """The grid whose sample m lies at sample ``phase + m * step`` of another one.

    The new period is exact, so that nothing drifts. The new origin is the instant of sample `phase`, a whole nanosecond;
    where the period is none (44.1 kHz) and the phase is not 0, instants therefore lie up to 1 ns before those of the samples.

    Examples
    --------
    >>> Regrid(Fraction(441)).timebase(Timebase.every("44.1kHz"))
    Timebase(period=Fraction(10000000, 1), origin=0)
    >>> Regrid(Fraction(2), phase=1).timebase(Timebase.every("10ms"))
    Timebase(period=Fraction(20000000, 1), origin=10000000)
    """

    step: Fraction
    phase: int = 0

    def timebase(self, timebase: Timebase | None) -> Timebase | None:
        """One grid; None where every key has its own."""
        if timebase is None:
            return None
        return Timebase(timebase.period * self.step, timebase.instant(self.phase))

    def bases(self, base: Timebases) -> Timebases:
        """The grids of many slots."""
        if (single := base.single) is not None:
            made = self.timebase(single)
            assert made is not None
            return Timebases.shared(made)
        up, down = self.step.numerator, self.step.denominator
        shared = np.gcd(base.num, down), np.gcd(base.den, up)
        num, den = base.num // shared[0], base.den // shared[1]
        top, bottom = up // shared[1], down // shared[0]
        if (num > MAX_TIME // top).any() or (den > MAX_TIME // bottom).any():
            raise ParameterError(f"the period of a key times {self.step} is too fine a fraction for 64-bit arithmetic")
        slot = np.arange(len(base.num))
        return Timebases(num * top, den * bottom, base.instant(slot, np.full(len(slot), self.phase)))

    def exact(self, timebase: Timebase | None) -> bool:
        """Whether new samples lie on the very instants of old ones."""
        return self.phase == 0 or (timebase is not None and (self.phase * timebase.period).denominator == 1)

    def mark(self, mark: Mark, timebase: Timebase | None, *, back: int = 0) -> Mark:
        """The output mark of an operator whose new sample at old index ``k - back`` is known with old sample k.

        `back` counts old samples. Where every key has its own grid, only the rounding is known, or nothing.
        """
        made = self.timebase(timebase)
        if timebase is None or made is None:
            return map_mark(mark, lambda m: MIN_TIME if back else m - 1)
        up, down = self.step.numerator, self.step.denominator

        def first(m: Any) -> Mark:
            return lowest_marks((m, made.instant(-scaled_index(back + self.phase - timebase.index_from(m), down, up))))

        return map_mark(mark, first)


def scaled_index(index: Any, by: int, over: int, more: int = 0) -> Any:
    """``(index * by + more) // over``, where the product need not fit into 64 bits.

    Examples
    --------
    >>> scaled_index(np.array([1_700_000_000_000_000]), 8191, 4096, more=-5), (1_700_000_000_000_000 * 8191 - 5) // 4096
    (array([3399584960937499]), 3399584960937499)
    """
    whole, rest = index // over, index % over
    return whole * by + (rest * by + more) // over
