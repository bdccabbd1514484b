"""Aggregates of the last samples, and what is made of them."""

from __future__ import annotations

from typing import Self

from hydrophone.api.quantities import Extent, sample_count
from hydrophone.api.query import Query
from hydrophone.ops.filters.hampel import Hampel
from hydrophone.ops.filters.rolling import Rolling
from hydrophone.ops.filters.shift import Shift


class MovingAggregates(Query):
    """Methods of `UniformSignal`. Sizes are in samples, or durations that are whole multiples of the period."""

    def moving(self, how: str, size: Extent, *, ddof: int = 0, missing: str = "drop") -> Self:
        """An aggregate of the last `size` samples at every sample: `rolling` with a hop of 1.

        ``missing="drop"`` gives nothing until all of them are there, ``"skip"`` aggregates those that are.
        """
        count = sample_count(size, self.node.type, f"moving_{how}: size")
        return self._then(Rolling, kind=how, size=count, ddof=ddof, missing=missing)

    def moving_sum(self, size: Extent, *, missing: str = "drop") -> Self:
        """The sum of the last `size` samples."""
        return self.moving("sum", size, missing=missing)

    def moving_mean(self, size: Extent, *, missing: str = "drop") -> Self:
        """The mean of the last `size` samples."""
        return self.moving("mean", size, missing=missing)

    def moving_min(self, size: Extent, *, missing: str = "drop") -> Self:
        """The smallest of the last `size` samples."""
        return self.moving("min", size, missing=missing)

    def moving_max(self, size: Extent, *, missing: str = "drop") -> Self:
        """The largest of the last `size` samples."""
        return self.moving("max", size, missing=missing)

    def moving_std(self, size: Extent, *, ddof: int = 0, missing: str = "drop") -> Self:
        """The standard deviation of the last `size` samples, as NumPy's (pandas has ``ddof=1``)."""
        return self.moving("std", size, ddof=ddof, missing=missing)

    def moving_energy(self, size: Extent, *, missing: str = "drop") -> Self:
        """The sum of the squared magnitudes of the last `size` samples."""
        return self.moving("energy", size, missing=missing)

    def moving_rms(self, size: Extent, *, missing: str = "drop") -> Self:
        """The root of the mean squared magnitude of the last `size` samples."""
        return self.moving("rms", size, missing=missing)

    def moving_median(self, size: Extent, *, missing: str = "drop") -> Self:
        """The median of the last `size` samples."""
        return self.moving("median", size, missing=missing)

    def hampel(self, size: Extent, sigmas: float = 3.0) -> Self:
        """Outliers replaced by the median of the `size` samples around them (an odd number, the sample itself in the middle).

        Start, gap and end: samples that have fewer than ``size // 2`` neighbours on either side give nothing.
        """
        count = sample_count(size, self.node.type, "hampel: size")
        judged: Query = self._then(Hampel, size=count, sigmas=sigmas)
        return judged._then(Shift, samples=-(count // 2))
