"""Frequencies: turn the phase of every sample, to move a band in frequency."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hydrophone.model.batch import Batch, Ints, Segments, Values
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.sorted_rows import gather_ranges
from hydrophone.plan.node import Node
from hydrophone.plan.types import UniformType

_FINEST = 10**9
"""Cycles per sample are held as fractions up to this denominator, so that phases are exact whole numbers of 64 bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftFrequency(Node):
    """Sample k times ``exp(2j * pi * (cycles * k + phase))``, where k counts from the origin of the grid.

    The phase is taken in whole numbers, so that it is as good after a year as at the start. Start, gap and end: sample by sample.
    """

    stable_name = "shift_frequency"

    cycles: Fraction
    phase: Fraction = Fraction(0)
    double: bool = False
    """Whether single precision becomes double, for what goes on to compute with it."""

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """Complex; of single precision only where the samples are."""
        single = x.dtype in (np.float32, np.complex64) and not self.double
        dtype = np.dtype(np.complex64 if single else np.complex128)
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """Turn."""
        return ShiftFrequencyKernel(self.cycles, self.phase, self.type)


class ShiftFrequencyKernel(Stateless):
    """One factor per sample."""

    def __init__(self, cycles: Fraction, phase: Fraction, out: UniformType) -> None:
        self.cycles, self.phase, self.dtype = cycles, phase, out.dtype

    def map(self, batch: Batch) -> Batch:
        """Turn one batch."""
        assert isinstance(batch, Segments)
        factor = self._factors(batch)
        with np.errstate(all="ignore"):
            return batch.with_values((batch.values * _shaped(factor, batch.values)).astype(self.dtype, copy=False))

    def _factors(self, batch: Segments) -> Values:
        """For every sample; where keys share indices, each is computed once."""
        if not len(batch):
            return np.zeros(0, np.complex128)
        low, high = int(batch.first.min()), int(batch.next.max())
        shared = high - low < len(batch.values)
        factor = self._of_indices(low, high) if shared else self._of(batch.sample_index)
        return gather_ranges(factor, batch.first - low, batch.lengths) if shared else factor

    def _of_indices(self, low: int, high: int) -> Values:
        """The factors of all indices from one to another; those that come back are computed once."""
        period = self.cycles.denominator
        if 2 * period > high - low:
            return self._of(np.arange(low, high))
        once = self._of(np.arange(low, low + period))
        return np.resize(once, high - low)

    def _of(self, index: Ints) -> Values:
        factor: Values = np.exp(2j * np.pi * (turns(self.cycles, index) + float(self.phase % 1)))
        return factor


def _shaped(factor: Values, values: Values) -> Values:
    return factor[:, None] if values.ndim == 2 else factor


def exact_cycles(cycles: Fraction) -> Fraction:
    """The nearest fraction whose phases fit 64 bits.

    Examples
    --------
    >>> exact_cycles(Fraction(50, 8000))
    Fraction(1, 160)
    """
    return cycles.limit_denominator(_FINEST)


def turns(cycles: Fraction, index: Ints) -> Values:
    """The part of ``cycles * index`` below one, exactly before it is rounded once."""
    p, q = cycles.numerator % cycles.denominator, cycles.denominator
    out: Values = (p * (index % q) % q) / q
    return out
