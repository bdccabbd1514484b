"""The loop of filters with feedback: how they start, ring through holes and get over samples that they cannot take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.state import Field
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.base_kernels import RecursiveKernel
from hydrophone.plan.types import Missing, UniformType


def check_initial(what: str, initial: str) -> None:
    """How a filter starts."""
    if initial not in ("rest", "steady"):
        raise ParameterError(
            f"{what}: initial must be one of 'rest', 'steady', got {initial!r}",
            hint="'steady' starts as if the first sample had been there for ever, 'rest' as if zeros had",
        )


def largest_input(pairs: npt.NDArray[Any]) -> float:
    """The largest magnitude of samples with which no number of a filter can overflow, given pairs of numerator and denominator.

    A stable pole p multiplies the largest magnitude by at most ``1 / (1 - abs(p))``, and sections in turn multiply their bounds. All that
    the loop adds up in a section is bounded by its coefficients times the bounds of its input and output.

    Examples
    --------
    >>> largest_input(np.array([[[1.0, 0.0], [1.0, -0.5]]])) > 1e307
    True
    """
    bound = worst = 1.0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for b, a in pairs:
            into = bound * np.abs(b).sum()
            bound = into * np.prod(1 / (1 - np.abs(np.roots(a))))
            worst = np.fmax(worst, into + bound * np.abs(a).sum())
    # The bound is far too large where many poles lie close to the unit circle; samples of this size are no readings anyway.
    return float(max(np.finfo(np.float64).max / (4 * worst), 2.0**512))


class FeedbackKernel(RecursiveKernel):
    """The state of every section per key; a compiled loop over the runs, so that each key costs only its samples.

    Sections are rows of six coefficients, or (three dimensions) pairs of numerator and denominator of any order.
    `steady` is the state of every section under an input of one, where the filter starts so.
    """

    def __init__(
        self,
        sections: npt.NDArray[Any],
        settle: int,
        missing: Missing,
        out: UniformType,
        steady: npt.NDArray[Any] | None = None,
    ) -> None:
        channels, order = max(out.channels, 1), sections.shape[2] - 1 if sections.ndim == 3 else 2
        super().__init__(
            out,
            longest=settle if missing is Missing.ZERO else 0,
            z=Field(out.dtype, 0, (channels, len(sections), order)),
            sick=Field(np.int64, 0, (channels,)),
        )
        self.sections, self.settle = sections, settle
        self.largest = largest_input(sections if sections.ndim == 3 else sections.reshape(-1, 2, 3))
        # Empty: at rest. (One type for both, so that the loop is compiled once.)
        self.steady = np.empty((0, order), out.dtype) if steady is None else np.asarray(steady, out.dtype)

    def loop(self, x: npt.NDArray[Any], batch: Segments) -> None:
        """Filter."""
        state = self.memory["z"], self.memory["sick"], self.memory["due"]
        filter_ = self.sections, self.steady
        _sosfilt(x, batch.slot, batch.first, batch.offsets, *filter_, *state, self.settle, self.longest, self.largest)


_NEW = -1
"""In place of how long a channel is still sick: its next sample is a start."""


@compiled
def _sosfilt(
    x: Any,
    slot: Any,
    first: Any,
    offsets: Any,
    sections: Any,
    steady: Any,
    z: Any,
    sick: Any,
    due: Any,
    settle: int,
    longest: int,
    largest: float,
) -> None:
    """In place, run by run; a hole is at most `longest` zeros, after a longer one the filter starts again."""
    hole = np.zeros((1, 1), x.dtype)
    for run in range(len(slot)):
        s = slot[run]
        gap = first[run] - due[s] if due[s] != MIN_TIME else 0
        if gap > longest or due[s] == MIN_TIME:
            z[s] = 0
            sick[s] = _NEW if len(steady) else 0
            gap = 0
        for c in range(x.shape[1]):
            for _ in range(gap):
                hole[0, 0] = 0
                # A column, as of `x`: a flat array would be a type of its own, and everything below compiled twice.
                _ring(hole[:, 0], sections, steady, z[s, c], sick[s], c, settle, largest)
            _ring(x[offsets[run] : offsets[run + 1], c], sections, steady, z[s, c], sick[s], c, settle, largest)
        due[s] = first[run] + offsets[run + 1] - offsets[run]


@compiled
def _ring(x: Any, sections: Any, steady: Any, state: Any, sick: Any, c: int, settle: int, largest: float) -> None:
    """Samples of one channel through the filter; after those that are not finite, or so large that it would overflow, it is silent.

    It is the sample that is judged, not the state: so the answer does not depend on where a slice of time begins.
    """
    if sick[c] == _NEW:
        _start(x, steady, state, sick, c, largest)
    fine = sick[c] == 0
    for i in range(len(x)):
        fine &= _fits(x[i], largest)
    if fine:
        _filter(x, sections, state)
        return
    for i in range(len(x)):
        bad = not _fits(x[i], largest)
        if sick[c] > 0:
            sick[c] -= 1
            x[i] = np.nan
            if sick[c] == 0 and len(steady):
                sick[c] = _NEW
        else:
            if sick[c] == _NEW:
                _start(x[i : i + 1], steady, state, sick, c, largest)
            _filter(x[i : i + 1], sections, state)
        if bad:
            sick[c] = settle
            state[:] = 0


@compiled
def _fits(value: Any, largest: float) -> bool:
    """Whether a filter can take a sample; NaN fits nowhere."""
    return abs(value.real) + abs(value.imag) <= largest


@compiled
def _start(x: Any, steady: Any, state: Any, sick: Any, c: int, largest: float) -> None:
    """A filter that is new begins as if the first sample had been there for ever; one that it cannot take starts nothing."""
    if len(x) and _fits(x[0], largest):
        sick[c] = 0
        state[:] = steady * x[0]


@compiled
def _filter(x: Any, sections: Any, state: Any) -> None:
    """All sections in turn (transposed direct form II, as SciPy)."""
    if sections.ndim == 3:
        _filter_any_order(x, sections, state)
        return
    for i in range(len(x)):
        value = x[i]
        for k in range(sections.shape[0]):
            y = sections[k, 0] * value + state[k, 0]
            state[k, 0] = sections[k, 1] * value - sections[k, 4] * y + state[k, 1]
            state[k, 1] = sections[k, 2] * value - sections[k, 5] * y
            value = y
        x[i] = value


@compiled
def _filter_any_order(x: Any, sections: Any, state: Any) -> None:
    """As `_filter`, with sections of any order from one on."""
    order = sections.shape[2] - 1
    for i in range(len(x)):
        value = x[i]
        for k in range(sections.shape[0]):
            b, a, z = sections[k, 0], sections[k, 1], state[k]
            y = b[0] * value + z[0]
            for j in range(order - 1):
                z[j] = b[j + 1] * value - a[j + 1] * y + z[j + 1]
            z[order - 1] = b[order] * value - a[order] * y
            value = y
        x[i] = value
