"""Integrals over time, from one reset to the next."""

from __future__ import annotations

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
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType

RULES = ("trapezoid", "rectangle")


@dataclass(frozen=True, kw_only=True, eq=False)
class Integrate(Node):
    """The integral over time in seconds since the last reset.

    Reference, over a stretch without a reset: ``scipy.integrate.cumulative_trapezoid(x, dx=period, initial=0)``, and
    ``numpy.cumsum(x) * period`` for ``rectangle``. Sums are compensated: they are as good as one in twice the precision.

    Start: a reset. Gap: a hole is a reset. `every` also resets at multiples of that duration; without it an integral
    lasts until a hole, and the query cannot run in slices. End: nothing follows the last sample.
    A sample that is NaN or infinite gives NaN, and is a reset for the next one; so is one with which the integral overflows.
    """

    stable_name = "integrate"

    every: int | None = None
    rule: str = "trapezoid"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A known rule and a positive duration."""
        if self.rule not in RULES:
            raise ParameterError(f"integrate: rule must be one of {', '.join(RULES)}, got {self.rule!r}")
        if self.every is not None and self.every <= 0:
            raise ParameterError(f"integrate: reset must be 'gap' or a positive duration, got {self.every}")

    def output_type(self, x: UniformType) -> UniformType:
        """At least double precision."""
        return UniformType(x.key, x.time, x.clock, np.result_type(x.dtype, np.float64), x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """Back to the last reset."""
        if self.every is None:
            return Reach.unbounded('integrate: lasts until a hole; reset="1h" bounds it')
        return Reach(before=self.every)

    def kernel(self, x: UniformType) -> Kernel:
        """Add up."""
        return IntegrateKernel(self.every, self.rule == "trapezoid", self.type)


class IntegrateKernel(RecursiveKernel):
    """Per key and channel the sum since the last reset in two parts, and the sample before."""

    def __init__(self, every: int | None, trapezoid: bool, out: UniformType) -> None:
        channels = (max(out.channels, 1),)
        super().__init__(
            out,
            longest=0,
            sum=Field(out.dtype, 0, channels),
            rest=Field(out.dtype, 0, channels),
            last=Field(out.dtype, np.nan, channels),
            share=Field(np.int64, MIN_TIME),
        )
        self.every, self.trapezoid = every, trapezoid

    def loop(self, x: npt.NDArray[Any], batch: Segments) -> None:
        """Add up."""
        share = np.zeros(len(x), np.int64) if self.every is None else batch.sample_time // self.every
        num, den, _ = batch.base.rows(batch.slot)
        state = (self.memory[n] for n in ("sum", "rest", "last", "due", "share"))
        _integrate(x, batch.slot, batch.first, batch.offsets, share, num / den / 1e9, self.trapezoid, *state)


@compiled
def _integrate(
    x: Any, slot: Any, first: Any, offsets: Any, share: Any, period: Any, trapezoid: bool,
    total: Any, rest: Any, last: Any, due: Any, known: Any,
) -> None:  # fmt: skip
    for run in range(len(slot)):
        s = slot[run]
        for i in range(offsets[run], offsets[run + 1]):
            fresh = due[s] != first[run] + i - offsets[run] or known[s] != share[i]
            for c in range(x.shape[1]):
                value = x[i, c]
                if fresh or last[s, c] - last[s, c] != 0:
                    total[s, c] = rest[s, c] = 0
                    part = 0 * value if trapezoid else value * period[run]
                else:
                    part = (last[s, c] + value) / 2 * period[run] if trapezoid else value * period[run]
                last[s, c] = value
                if value - value != 0:
                    x[i, c] = np.nan
                    continue
                before = total[s, c]
                total[s, c] = before + part
                taken = total[s, c] - before
                rest[s, c] += (before - (total[s, c] - taken)) + (part - taken)
                x[i, c] = total[s, c] + rest[s, c]
                if not abs(x[i, c]) < np.inf:
                    x[i, c] = last[s, c] = np.nan
            due[s], known[s] = first[run] + i - offsets[run] + 1, share[i]
