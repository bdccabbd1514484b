"""Digital filters on uniform signals: state is carried exactly across chunks, keys and restarts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from hydrophone.batch import Batch, Mask, Segments
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.ops.feedback import FeedbackKernel, check_initial
from hydrophone.ops.grids import Grids
from hydrophone.ops.history import History, Seams
from hydrophone.ops.recursive import RecursiveKernel
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType
from hydrophone.state import Field
from hydrophone.time import MIN_TIME


@dataclass(frozen=True, kw_only=True, eq=False)
class Fir(Node):
    """Weighted sum of the last ``len(taps)`` samples; reference: ``scipy.signal.lfilter(taps, 1, x)``.

    Start: zeros before the first sample (``drop``: no output until all taps have a sample). Gap: see `Missing`.
    End: nothing follows the last sample.
    """

    taps: tuple[float | complex, ...]
    missing: Missing = Missing.ZERO

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """At least one tap, all finite."""
        if not self.taps:
            raise ParameterError("fir: taps must hold at least one number", hint="scipy.signal.firwin designs some")
        if not np.isfinite(self.taps).all():
            raise ParameterError("fir: all taps must be finite")

    def output_type(self, x: UniformType) -> UniformType:
        """As SciPy: at least double precision."""
        return UniformType(
            x.key, x.time, x.clock, np.result_type(x.dtype, np.asarray(self.taps)), x.channels, x.timebase
        )

    def reach(self, x: UniformType) -> Reach:
        """The samples under the taps."""
        return Reach.samples(x.timebase, before=len(self.taps) - 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Convolve."""
        return FirKernel(np.asarray(self.taps), self.missing, self.type)


class FirKernel(Kernel):
    """A compiled convolution over the runs of all keys, each with its own history in front."""

    def __init__(self, taps: npt.NDArray[Any], missing: Missing, out: UniformType) -> None:
        self.taps, self.missing, self.out = taps, missing, out
        self.grids = Grids(out.timebase)
        self.history = History(len(taps) - 1, out.dtype, out.channels, missing)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Filter one batch."""
        assert isinstance(batch, Segments)
        if not len(batch):
            return ()
        self.grids.learn(batch, len(self.keys))
        seams = self.history.seams(batch, len(self.keys))
        y = batch.with_values(_fir(batch, seams, self.taps, self.out.dtype))
        if self.missing is Missing.DROP:
            y = y.cut(np.arange(len(y)), np.minimum(y.first + self.history.size - seams.seen, y.next), y.next)
        return (y,)

    def idle(self, marks: Marks) -> Mask:
        """Keys that have been silent for longer than the taps."""
        return self.history.idle(self.grids, len(self.keys), marks[0])


def _fir(x: Segments, seams: Seams, taps: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The filtered runs, their begin from the seams; sums are taken tap by tap, so that no cut can change a bit of them."""
    out = np.empty(x.values.shape, dtype)
    width = out.shape[1] if out.ndim > 1 else 1
    begin, end, weights = x.offsets[:-1] * width, x.offsets[1:] * width, taps.astype(dtype)
    middle = begin + seams.heads * width
    _convolve(seams.values.reshape(-1), seams.at * width, begin, middle, weights, width, out.reshape(-1))
    if (middle < end).any():
        values = np.ascontiguousarray(x.values, dtype)
        _convolve(values.reshape(-1), middle, middle, end, weights, width, out.reshape(-1))
    return out


@numba.njit(cache=True, nogil=True)
def _convolve(values: Any, at: Any, begin: Any, end: Any, taps: Any, channels: int, out: Any) -> None:
    """Blocks of samples that stay in the nearest cache, four taps at a time over each; every sum is still taken tap by tap."""
    block, fours = 1024, len(taps) // 4 * 4
    for run in range(len(at)):
        for start in range(begin[run], end[run], block):
            size = min(block, end[run] - start)
            y, here = out[start : start + size], at[run] + start - begin[run]
            y[:] = 0
            for k in range(0, fours, 4):
                x0, x1, x2, x3 = (
                    values[here - k * channels : here - k * channels + size],
                    values[here - (k + 1) * channels : here - (k + 1) * channels + size],
                    values[here - (k + 2) * channels : here - (k + 2) * channels + size],
                    values[here - (k + 3) * channels : here - (k + 3) * channels + size],
                )
                t0, t1, t2, t3 = taps[k], taps[k + 1], taps[k + 2], taps[k + 3]
                for i in range(size):
                    y[i] = y[i] + t0 * x0[i] + t1 * x1[i] + t2 * x2[i] + t3 * x3[i]
            for k in range(fours, len(taps)):
                x, t = values[here - k * channels : here - k * channels + size], taps[k]
                for i in range(size):
                    y[i] += t * x[i]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sos(Node):
    """Second-order sections; reference: ``scipy.signal.sosfilt(sos, x)`` as long as samples are finite.

    Start: at rest. Gap: ``zero`` lets the filter ring on through the hole (after `settle` samples it is at rest
    again), ``reset`` puts it to rest. End: nothing follows the last sample.

    With ``initial="steady"`` it starts, and starts again wherever it would be put to rest, as if its first sample had been there for
    ever: ``scipy.signal.sosfilt(sos, x, zi=scipy.signal.sosfilt_zi(sos)[..., None] * x[0])``. Where it starts again inside a hole that
    is ``zero``, because what rang after a NaN has ended there, the first sample is such a zero.

    After a NaN or infinity the output is NaN for `settle` samples, as long as it would have rung in the output; then the
    filter starts again. SciPy's would stay NaN for ever, and one bad reading would silence a sensor for good.
    """

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
    import scipy.signal  # here, because it takes as long to load as all the rest, in every Spark worker too

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Ema(Node):
    """Exponential moving average, ``y[n] = alpha * x[n] + (1 - alpha) * y[n - 1]``.

    Reference: ``x.ewm(alpha=alpha, adjust=False).mean()`` in pandas, over ``x.reindex(all_beats).bfill()`` where there are holes.

    Start: the first sample of a key is its own average. Gap: ``fade`` weighs the past by the time that went by, as if
    the sample after the hole had been there all along, so that a long hole is a start without a jump (exactly one after
    `settle_ema` samples); ``reset`` starts after any hole. End: nothing follows the last sample.

    A sample that is NaN or infinite gives NaN and counts as missing.
    """

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


@numba.njit(cache=True, nogil=True)
def _ema(x: Any, slot: Any, first: Any, offsets: Any, alpha: float, mean: Any, due: Any, longest: int) -> None:
    """In place, run by run; the past fades over holes of up to `longest` samples, and a longer one is a start."""
    for run in range(len(slot)):
        s = slot[run]
        for i in range(offsets[run], offsets[run + 1]):
            index = first[run] + i - offsets[run]
            for c in range(x.shape[1]):
                value = x[i, c]
                if due[s, c] == index:
                    value = alpha * value + (1 - alpha) * mean[s, c]
                elif due[s, c] != MIN_TIME and index - due[s, c] <= longest:
                    past = (1 - alpha) ** (index - due[s, c] + 1)
                    value = (1 - past) * value + past * mean[s, c]
                if value - value == 0:
                    mean[s, c], due[s, c] = value, index + 1
                else:
                    value = x.dtype.type(np.nan)
                x[i, c] = value
