"""Recursive filters given by the two polynomials of their transfer function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.kernel import Kernel
from hydrophone.ops.filters.feedback import FeedbackKernel, check_initial
from hydrophone.ops.filters.group_delay import polynomial_delay, radians_per_sample, rate_hz
from hydrophone.ops.filters.sos import LONGEST_SETTLE, unstable_hint
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Iir(Node):
    """A recursive filter; reference: ``scipy.signal.lfilter(b, a, x)`` as long as samples are finite.

    It is not turned into second-order sections, which would have other rounding: the loop is that of SciPy.

    Start: at rest. Gap: ``zero`` lets the filter ring on through the hole (after `settle_iir` samples it is at rest
    again), ``reset`` puts it to rest. With ``initial="steady"`` it starts as if its first sample had been there for ever, see `Sos`:
    ``lfilter(b, a, x, zi=lfilter_zi(b, a) * x[0])``. End: nothing follows the last sample. NaN, infinities and
    samples that would overflow: as `Sos`, the output is NaN for as long as they would have rung, then the filter starts again.
    """

    stable_name = "iir"

    b: tuple[float | complex, ...]
    a: tuple[float | complex, ...]
    missing: Missing = Missing.ZERO
    initial: str = "rest"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A stable filter."""
        check_initial("iir", self.initial)
        if not self.b or not self.a:
            raise ParameterError(
                "iir: b and a must hold at least one number each", hint="a filter without feedback is a fir"
            )
        if not np.isfinite([*self.b, *self.a]).all():
            raise ParameterError("iir: all coefficients must be finite")
        if self.a[0] == 0:
            raise ParameterError(
                "iir: a[0] must not be zero", hint="a[0] is the weight of the output itself; SciPy's is 1"
            )
        radius = float(np.abs(np.roots(self.a)).max(initial=0))
        if radius >= 1:
            raise ParameterError(
                f"iir: the filter is unstable (pole radius {radius:.6g})",
                hint=unstable_hint(
                    np.polyval(self.a, 1) == 0,
                    'filters of high order lose their poles to rounding as b and a: design with output="sos" and use sos',
                ),
            )

    def output_type(self, x: UniformType) -> UniformType:
        """As SciPy: at least double precision."""
        dtype = np.result_type(x.dtype, np.float64, np.asarray(self.b).dtype, np.asarray(self.a).dtype)
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """As long as the impulse response is above rounding; twice that, because a NaN puts the filter to rest later."""
        steps = settle_iir(self.pair)
        if steps >= LONGEST_SETTLE:
            return Reach.unbounded(f"iir: rings for more than {LONGEST_SETTLE:,} samples")
        return Reach.samples(x.timebase, before=2 * steps + 1)

    def group_delay(self, frequency: float) -> float:
        """That of the numerator, less that of the denominator."""
        x = self.inputs[0].type
        w = radians_per_sample(frequency, x)
        return (polynomial_delay(self.b, w) - polynomial_delay(self.a, w)) / rate_hz(x)

    def kernel(self, x: UniformType) -> Kernel:
        """Filter."""
        import scipy.signal

        steady = scipy.signal.lfilter_zi(*self.pair)[None] if self.initial == "steady" else None
        return FeedbackKernel(self.pair[None], settle_iir(self.pair), self.missing, self.type, steady)

    @property
    def pair(self) -> npt.NDArray[Any]:
        """Both polynomials, equally long and divided by a[0]."""
        size = max(len(self.a), len(self.b), 2)
        pair = np.stack([np.pad(np.asarray(p), (0, size - len(p))) for p in (self.b, self.a)])
        return pair.astype(np.result_type(pair, np.float64)) / self.a[0]


def settle_iir(pair: npt.NDArray[Any]) -> int:
    """Samples until the impulse response has fallen below 2**-60 of its peak for good."""
    return _settle(pair.dtype.str, np.ascontiguousarray(pair).tobytes())


@lru_cache(256)
def _settle(dtype: str, numbers: bytes) -> int:
    """Once for each filter: a pipeline makes its kernels anew."""
    import scipy.signal  # here, because it takes as long to load as all the rest, in every Spark worker too

    pair = np.frombuffer(numbers, dtype).reshape(2, -1).copy()
    order = pair.shape[1]
    radius = float(np.abs(np.roots(pair[1])).max(initial=0))
    guess = int(np.ceil(60 * np.log(2) / -np.log(radius))) if 0 < radius < 1 else LONGEST_SETTLE * int(radius >= 1)
    if guess >= LONGEST_SETTLE:
        return LONGEST_SETTLE
    response = np.abs(scipy.signal.lfilter(*pair, np.eye(1, 2 * guess + 64 * order)[0]))
    ringing = np.flatnonzero(response > 2.0**-60 * response.max())
    return int(ringing[-1]) + 1 if len(ringing) else 1
