"""Difference: the change from an earlier sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Segments, Values
from hydrophone.model.kernel import Kernel
from hydrophone.model.sorted_rows import concat_ranges, gather_ranges
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.history import History
from hydrophone.ops.signals.keep_samples import keep_samples
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference(Node):
    """The change from the sample `lag` steps before; reference: ``x[lag:] - x[:-lag]`` in NumPy.

    Start: nothing until there is a sample to compare with (``zero``: the difference from zero). Gap: ``drop`` gives
    nothing where the sample `lag` steps before is missing, whatever lies between; ``zero`` counts it as zero.
    End: nothing follows the last sample. NaN shows where it is compared, and nowhere else. Whole numbers stay whole.
    """

    stable_name = "difference_samples"

    lag: int = 1
    missing: Missing = Missing.DROP
    floats: bool = False
    """Whether differences of whole numbers are given as doubles, which do not wrap."""

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """An earlier sample."""
        if self.lag < 1:
            raise ParameterError(f"difference: lag must be at least 1 sample, got {self.lag}")

    def output_type(self, x: UniformType) -> UniformType:
        """As the input, or doubles."""
        return replace(x, dtype=np.dtype(np.float64)) if self.floats and x.dtype.kind in "iu" else x

    def reach(self, x: UniformType) -> Reach:
        """The sample before."""
        return Reach.samples(x.timebase, before=self.lag)

    def kernel(self, x: UniformType) -> Kernel:
        """Subtract."""
        return DifferenceKernel(self.lag, self.missing, x, float_difference if self.floats else np.subtract)


class DifferenceKernel(LookBackKernel):
    """The last `lag` samples of every key, and which of them are there."""

    def __init__(self, lag: int, missing: Missing, kind: UniformType, subtract: Callable[..., Values]) -> None:
        super().__init__(kind, lag, Missing.ZERO)
        self.lag, self.missing, self.subtract = lag, missing, subtract
        self.there = History(lag, np.dtype(np.int8), 0, Missing.ZERO)

    def take(self, batch: Segments) -> Iterable[Batch]:
        """Subtract in one batch: at once over all samples, then anew where a segment begins, from the history of its key."""
        seams, x, lag = self.history.seams(batch, len(self.keys)), batch.values, self.lag
        heads = concat_ranges(batch.offsets[:-1], seams.heads)
        with np.errstate(all="ignore"):
            begin = self.subtract(x[heads], gather_ranges(seams.values, seams.at - lag, seams.heads))
            values = np.empty(x.shape, begin.dtype)
            self.subtract(x[lag:], x[:-lag], values[lag:])
        values[heads] = begin
        y = batch.with_values(values)
        if self.missing is Missing.ZERO:
            return (y,)
        there = self.there.seams(batch.with_values(np.ones(len(x), np.int8)), len(self.keys))
        known = np.ones(len(x), np.bool_)
        known[heads] = gather_ranges(there.values, there.at - lag, there.heads) > 0
        return (keep_samples(y, known),)


def float_difference(a: Values, b: Values, out: Values | None = None) -> Values:
    """``a - b``; of whole numbers as doubles, each the nearest to the true difference, however wide the numbers are.

    Examples
    --------
    >>> float_difference(np.array([2**63 - 1]), np.array([-(2**63)])), float_difference(np.array([1], "u1"), np.array([3], "u1"))
    (array([1.84467441e+19]), array([-2.]))
    """
    if a.dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return np.subtract(a, b, out)
    wide = np.uint64 if a.dtype == np.uint64 else np.int64
    a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
    up = a >= b
    # Of two's complements the smaller one taken from the larger is right as an unsigned number, whether it wraps or not.
    size = np.where(up, a - b, b - a).view(np.uint64).astype(np.float64)
    return np.multiply(size, np.where(up, 1.0, -1.0), out)
