"""The exponential moving average."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel
from hydrophone.model.state import Field
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.base_kernels import RecursiveKernel
from hydrophone.ops.filters.sos import LONGEST_SETTLE
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Ema(Node):
    """Exponential moving average, ``y[n] = alpha * x[n] + (1 - alpha) * y[n - 1]``.

    Reference: ``x.ewm(alpha=alpha, adjust=False).mean()`` in pandas, over ``x.reindex(all_beats).bfill()`` where there are holes.

    Start: the first sample of a key is its own average. Gap: ``fade`` weighs the past by the time that went by, as if
    the sample after the hole had been there all along, so that a long hole is a start without a jump (exactly one after
    `settle_ema` samples); ``reset`` starts after any hole. End: nothing follows the last sample.

    A sample that is NaN or infinite gives NaN and counts as missing.
    """

    stable_name = "ema"

    alpha: float
    missing: str = "fade"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A weight, and a policy under which a key that has been silent for long is as good as new."""
        if not 0 < self.alpha <= 1:
            raise ParameterError(f"ema: alpha must be above 0 and at most 1, got {self.alpha!r}")
        if self.missing not in ("fade", "reset"):
            raise ParameterError(
                f"ema: missing must be one of 'fade', 'reset', got {self.missing!r}",
                hint="to count holes as zeros: sos([[alpha, 0, 0, 1, alpha - 1, 0]]), which starts at rest",
            )

    def output_type(self, x: UniformType) -> UniformType:
        """As pandas: at least double precision."""
        return UniformType(x.key, x.time, x.clock, np.result_type(x.dtype, np.float64), x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """As long as a sample weighs more than rounding; holes do not stretch it."""
        steps = settle_ema(self.alpha)
        if steps >= LONGEST_SETTLE:
            return Reach.unbounded(f"ema: remembers more than {LONGEST_SETTLE:,} samples (alpha {self.alpha:g})")
        return Reach.samples(x.timebase, before=steps)

    def kernel(self, x: UniformType) -> Kernel:
        """Average."""
        return EmaKernel(self.alpha, settle_ema(self.alpha) if self.missing == "fade" else 0, self.type)


def settle_ema(alpha: float) -> int:
    """Samples until the past weighs less than 2**-60.

    Examples
    --------
    >>> settle_ema(0.5), settle_ema(1.0)
    (60, 0)
    """
    return 0 if alpha == 1 else min(math.ceil(-60 * math.log(2) / math.log1p(-alpha)), LONGEST_SETTLE)


class EmaKernel(RecursiveKernel):
    """The average of every key and channel, and the index that is due after the last sample in it."""

    def __init__(self, alpha: float, longest: int, out: UniformType) -> None:
        channels = (max(out.channels, 1),)
        super().__init__(out, longest, mean=Field(out.dtype, 0, channels), due=Field(np.int64, MIN_TIME, channels))
        self.alpha = alpha

    def loop(self, x: npt.NDArray[Any], batch: Segments) -> None:
        """Average."""
        state = self.memory["mean"], self.memory["due"]
        _ema(x, batch.slot, batch.first, batch.offsets, self.alpha, *state, self.longest)


@compiled(interpret=False)  # a power of a float is another one in NumPy
def _ema(x: Any, slot: Any, first: Any, offsets: Any, alpha: float, mean: Any, due: Any, longest: int) -> None:
    """In place, run by run; the past fades over holes of up to `longest` samples, and a longer one is a start."""
    for run in range(len(slot)):
        s = slot[run]
        for c in range(x.shape[1]):
            past, expected = mean[s, c], due[s, c]  # in registers as long as the run
            for i in range(offsets[run], offsets[run + 1]):
                index = first[run] + i - offsets[run]
                value = x[i, c]
                if expected == index:
                    value = alpha * value + (1 - alpha) * past
                elif expected != MIN_TIME and index - expected <= longest:
                    faded = (1 - alpha) ** (index - expected + 1)
                    value = (1 - faded) * value + faded * past
                if value - value == 0:
                    past, expected = value, index + 1
                else:
                    value = x.dtype.type(np.nan)
                x[i, c] = value
            mean[s, c], due[s, c] = past, expected
