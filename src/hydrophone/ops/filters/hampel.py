"""Order statistics of the last samples: medians, and the outlier filter that is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Ints, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.history import Extended
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType

MAD_TO_SIGMA = 1.4826
"""What the median distance from the median is multiplied with to estimate a Gaussian's standard deviation."""


def moving_medians(
    values: npt.NDArray[np.float64],
    there: npt.NDArray[np.int8],
    at: Ints,
    offsets: Ints,
    size: int,
    distances: bool = True,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], Ints]:
    """Of the last `size` rows of a buffer at every sample: the median, the median distance from it, and how many are NaN.

    NaN is left out of both medians; where nothing else is there they are NaN. Without `distances` there are none of these.
    """
    shape = (int(offsets[-1]), values.shape[1])
    middle, bad = np.empty(shape), np.empty(shape, np.int64)
    distance = np.empty(shape if distances else (0, 0))
    # Adding zero makes -0.0 plain: which of the two zeros is in the middle would depend on the cut.
    _moving_medians(np.ascontiguousarray(values) + 0.0, there, at, offsets, size, middle, distance, bad)
    return middle, distance, bad


@compiled
def _moving_medians(x: Any, there: Any, at: Any, offsets: Any, size: int, middle: Any, distance: Any, bad: Any) -> None:
    """The window of each run and channel is kept in order, one sample in and one out."""
    order = np.empty(size)
    for run in range(len(at)):
        for c in range(x.shape[1]):
            count = nans = 0
            for i in range(at[run] - size + 1, at[run] + offsets[run + 1] - offsets[run]):
                oldest = i - size
                gone = oldest > at[run] - size and there[oldest]
                leaves = gone and x[oldest, c] == x[oldest, c]
                comes = there[i] and x[i, c] == x[i, c]
                nans += int(there[i] and not comes) - int(gone and not leaves)
                if leaves and comes:
                    _replace(order, count, x[oldest, c], x[i, c])
                elif leaves:
                    count -= 1
                    for j in range(_place(order, count + 1, x[oldest, c]), count):
                        order[j] = order[j + 1]
                elif comes:
                    place = _place(order, count, x[i, c])
                    for j in range(count, place, -1):
                        order[j] = order[j - 1]
                    order[place] = x[i, c]
                    count += 1
                if i < at[run]:
                    continue
                n = offsets[run] + i - at[run]
                middle[n, c] = _middle(order, count)
                if len(distance):
                    distance[n, c] = _median_distance(order, count, middle[n, c])
                bad[n, c] = nans


@compiled
def _place(order: Any, count: int, value: float) -> int:
    """How many of the values in order are smaller: of few all are compared, which is faster than to guess."""
    low, high = 0, count
    while high - low > 64:
        middle = (low + high) // 2
        if order[middle] < value:
            low = middle + 1
        else:
            high = middle
    place = low
    for j in range(low, high):
        place += order[j] < value
    return place


@compiled
def _replace(order: Any, count: int, old: float, new: float) -> None:
    """One value out and another in: only those between them move."""
    out, to = _place(order, count, old), _place(order, count, new)
    if to > out:
        for j in range(out, to - 1):
            order[j] = order[j + 1]
        order[to - 1] = new
    else:
        for j in range(out, to, -1):
            order[j] = order[j - 1]
        order[to] = new


@compiled
def _middle(order: Any, count: int) -> float:
    if count == 0:
        return np.nan
    half = count // 2
    return order[half] if count % 2 else (order[half - 1] + order[half]) / 2


@compiled
def _median_distance(order: Any, count: int, middle: float) -> float:
    """The median of the distances, which grow to both sides of the middle: the nearest half of them is walked through."""
    if count == 0 or middle - middle != 0:
        return np.nan
    left, right = count // 2 - 1, count // 2
    before = last = 0.0
    for _ in range(count // 2 + 1):
        before = last
        if right >= count or (left >= 0 and middle - order[left] < order[right] - middle):
            last = middle - order[left]
            left -= 1
        else:
            last = order[right] - middle
            right += 1
    return last if count % 2 else (before + last) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Hampel(Node):
    """The middle one of the last `size` samples, or their median where it lies too far from it.

    Too far is more than `sigmas` times 1.4826 times the median distance from the median. Reference, over
    ``w = sliding_window_view(x, size)``: ``m = nanmedian(w)`` and ``d = nanmedian(abs(w - m))`` along the last axis, then
    ``where(abs(w[:, size // 2] - m) <= sigmas * 1.4826 * d, w[:, size // 2], m)``.

    Start and gap: nothing until the last `size` beats all have a sample. End: nothing follows the last sample.
    NaN is an outlier: it is replaced, and left out of the medians.
    """

    stable_name = "hampel"

    size: int
    sigmas: float = 3.0

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A window that has a middle."""
        if self.size < 3 or self.size % 2 == 0:
            raise ParameterError(f"hampel: size must be odd and at least 3 samples, got {self.size}")
        if not self.sigmas >= 0:
            raise ParameterError(f"hampel: sigmas must be at least 0, got {self.sigmas!r}")

    def output_type(self, x: UniformType) -> UniformType:
        """At least double precision."""
        if x.dtype.kind == "c":
            raise SignalTypeError(f"hampel: {x.describe()} has no order", hint="take the magnitude() first")
        return UniformType(x.key, x.time, x.clock, np.dtype(np.float64), x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """The samples in the window."""
        return Reach.samples(x.timebase, before=self.size - 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Compare."""
        return HampelKernel(self.size, self.sigmas, self.type)


class HampelKernel(LookBackKernel):
    """The last samples of every key."""

    def __init__(self, size: int, sigmas: float, out: UniformType) -> None:
        super().__init__(out, size - 1, Missing.DROP)
        self.size, self.sigmas = size, sigmas

    def extended(self, batch: Segments, wide: Extended) -> Iterable[Batch]:
        """Compare in one batch."""
        values = wide.values.reshape(len(wide.values), -1)
        middle, distance, _ = moving_medians(values, np.ones(len(values), np.int8), wide.at, batch.offsets, self.size)
        x = wide.lagged(self.size // 2).reshape(middle.shape)
        with np.errstate(all="ignore"):
            y = np.where(np.abs(x - middle) <= self.sigmas * MAD_TO_SIGMA * distance, x, middle)
        return (self.history.complete(batch.with_values(y.reshape(batch.values.shape)), wide.seen),)
