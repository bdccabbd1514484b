"""Recursive filters as second-order sections, and how long they ring."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.kernel import Kernel
from hydrophone.ops.filters.feedback import FeedbackKernel, check_initial
from hydrophone.ops.filters.group_delay import polynomial_delay, radians_per_sample, rate_hz
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Sos(Node):
    """Second-order sections; reference: ``scipy.signal.sosfilt(sos, x)`` as long as samples are finite.

    Start: at rest. Gap: ``zero`` lets the filter ring on through the hole (after `settle` samples it is at rest
    again), ``reset`` puts it to rest. End: nothing follows the last sample.

    With ``initial="steady"`` it starts, and starts again wherever it would be put to rest, as if its first sample had been there for
    ever: ``scipy.signal.sosfilt(sos, x, zi=scipy.signal.sosfilt_zi(sos)[..., None] * x[0])``. Where it starts again inside a hole that
    is ``zero``, because what rang after a NaN has ended there, the first sample is such a zero.

    After a NaN or infinity the output is NaN for `settle` samples, as long as it would have rung in the output; then the
    filter starts again. SciPy's would stay NaN for ever, and one bad reading would silence a sensor for good. So does a sample
    so large that the filter could overflow (`largest_input`, about 1e300), which counts as an infinity.
    """

    stable_name = "sos"

    sections: tuple[tuple[float, float, float, float, float, float], ...]
    missing: Missing = Missing.ZERO
    initial: str = "rest"

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """Stable sections of six coefficients."""
        check_initial("sos", self.initial)
        table = np.asarray(self.sections, float)
        if table.ndim != 2 or table.shape[1:] != (6,) or not len(table):
            raise ParameterError(
                f"sos: expected rows of six coefficients, got an array of shape {table.shape}",
                hint='scipy.signal.butter(..., output="sos")',
            )
        if not np.isfinite(table).all() or (table[:, 3] != 1).any():
            raise ParameterError("sos: coefficients must be finite and every a0 must be 1")
        if pole_radius(table) >= 1:
            raise ParameterError(
                f"sos: the filter is unstable (pole radius {pole_radius(table):.6g})",
                hint=unstable_hint(
                    any(np.polyval(row[3:], 1) == 0 for row in table),
                    "poles must lie inside the unit circle; where a cutoff far below the rate brought them to its edge, decimate first",
                ),
            )

    def output_type(self, x: UniformType) -> UniformType:
        """As SciPy: at least double precision."""
        return UniformType(x.key, x.time, x.clock, np.result_type(x.dtype, np.float64), x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """As long as the impulse response is above rounding; twice that, because a NaN puts the filter to rest later."""
        steps = settle(np.asarray(self.sections))
        if steps >= LONGEST_SETTLE:
            return Reach.unbounded(
                f"sos: rings for more than {LONGEST_SETTLE:,} samples (pole radius {pole_radius(np.asarray(self.sections)):.8g})"
            )
        return Reach.samples(x.timebase, before=2 * steps + 1)

    def group_delay(self, frequency: float) -> float:
        """That of all sections."""
        x = self.inputs[0].type
        w = radians_per_sample(frequency, x)
        return sum(polynomial_delay(s[:3], w) - polynomial_delay(s[3:], w) for s in self.sections) / rate_hz(x)

    def kernel(self, x: UniformType) -> Kernel:
        """Filter."""
        import scipy.signal

        sections = np.asarray(self.sections, float)
        steady = scipy.signal.sosfilt_zi(sections) if self.initial == "steady" else None
        return FeedbackKernel(sections, settle(sections), self.missing, self.type, steady)


LONGEST_SETTLE = 1 << 22
"""Samples after which we no longer call a filter's reach finite."""


def pole_radius(sections: npt.NDArray[np.float64]) -> float:
    """The largest magnitude of a pole: the filter is stable below one."""
    return max((float(np.abs(np.roots(row[3:])).max(initial=0)) for row in sections), default=0.0)


def unstable_hint(sums_up: bool, otherwise: str) -> str:
    """What to write instead of a filter that rings for ever; a pole at one adds up all samples."""
    return (
        "it adds up samples for ever: integrate() begins anew after a hole or a time, moving_sum(n) forgets"
        if sums_up
        else otherwise
    )


def settle(sections: npt.NDArray[np.float64]) -> int:
    """Samples until the impulse response has fallen below 2**-60 of its peak for good."""
    table = np.ascontiguousarray(sections, np.float64)
    return _settle(len(table), table.tobytes())


@lru_cache(256)
def _settle(count: int, numbers: bytes) -> int:
    """Once for each filter: a pipeline makes its kernels anew."""
    import scipy.signal  # here, because it takes as long to load as all the rest, in every Spark worker too

    sections = np.frombuffer(numbers).reshape(count, 6).copy()
    radius = pole_radius(sections)
    if radius == 0:
        return 2 * len(sections)
    guess = int(np.ceil(60 * np.log(2) / -np.log(radius))) if radius < 1 else LONGEST_SETTLE
    if guess >= LONGEST_SETTLE:
        return LONGEST_SETTLE
    impulse = np.zeros(2 * guess + 64 * len(sections))
    impulse[0] = 1
    response = np.abs(scipy.signal.sosfilt(sections, impulse))
    return int(np.flatnonzero(response > 2.0**-60 * response.max())[-1]) + 1
