"""The loop of filters with feedback: how they start, ring through holes and get over samples that they cannot take."""

from __future__ import annotations

from functools import lru_cache
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
    return _largest_input(pairs.shape, pairs.dtype.str, pairs.tobytes())


@lru_cache(256)
def _largest_input(shape: tuple[int, ...], dtype: str, numbers: bytes) -> float:
    """Once for each filter: a pipeline makes its kernels anew."""
    pairs = np.frombuffer(numbers, dtype).reshape(shape)
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
        # One form for both, so that the loops are compiled once.
        self.sections = np.ascontiguousarray(sections).reshape(len(sections), 2, order + 1)
        self.settle, self.largest = settle, largest_input(self.sections)
        # Empty: at rest.
        self.steady = np.empty((0, order), out.dtype) if steady is None else np.asarray(steady, out.dtype)

    def loop(self, x: npt.NDArray[Any], batch: Segments) -> None:
        """Filter."""
        state = self.memory["z"], self.memory["sick"], self.memory["due"]
        filter_ = self.sections, self.steady
        _feedback(x, batch.slot, batch.first, batch.offsets, *filter_, *state, self.settle, self.longest, self.largest)


_NEW = -1
"""In place of how long a channel is still sick: its next sample is a start."""
_BLOCK = 1024
"""Samples of one channel that are checked and filtered while they are in the first-level cache."""


@compiled
def _feedback(
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
    width, flat, some = x.shape[1], x.reshape(-1), np.empty(_BLOCK, x.dtype)
    for run in range(len(slot)):
        s, begin, end = slot[run], offsets[run], offsets[run + 1]
        gap = first[run] - due[s] if due[s] != MIN_TIME else 0
        if gap > longest or due[s] == MIN_TIME:
            z[s] = 0
            sick[s] = _NEW if len(steady) else 0
            gap = 0
        for c in range(width):
            for start in range(0, gap, _BLOCK):
                hole = some[: min(_BLOCK, gap - start)]
                hole[:] = 0
                _ring(hole, sections, steady, z[s, c], sick[s], c, settle, largest)
            for start in range(begin, end, _BLOCK):
                size = min(_BLOCK, end - start)
                block = flat[start : start + size] if width == 1 else some[:size]
                if width > 1:
                    for i in range(size):
                        block[i] = x[start + i, c]
                _ring(block, sections, steady, z[s, c], sick[s], c, settle, largest)
                if width > 1:
                    for i in range(size):
                        x[start + i, c] = block[i]
        due[s] = first[run] + end - begin


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
    """All sections in turn (transposed direct form II, as SciPy).

    Sections of second order go four, two or one at a time, with their state in registers: each waits for its own last result, and
    meanwhile the processor works on the others.
    """
    k, count, order = 0, len(sections), sections.shape[2] - 1
    while order == 2 and k + 4 <= count:
        _filter_four(x, sections, k, state)
        k += 4
    if order == 2 and k + 2 <= count:
        _filter_two(x, sections, k, state)
        k += 2
    for m in range(k, count):
        if order == 1:
            _filter_first_order(x, sections[m, 0], sections[m, 1], state[m])
        elif order == 2:
            _filter_one(x, sections, m, state)
        elif order == 3:
            _filter_third_order(x, sections[m, 0], sections[m, 1], state[m])
        else:
            _filter_any_order(x, sections[m, 0], sections[m, 1], state[m])


@compiled
def _coefficients(s: Any, k: int) -> Any:
    """Of a section of second order: b0, b1, b2, a1, a2."""
    return s[k, 0, 0], s[k, 0, 1], s[k, 0, 2], s[k, 1, 1], s[k, 1, 2]


@compiled
def _filter_one(x: Any, sections: Any, k: int, state: Any) -> None:
    b0, b1, b2, a1, a2 = _coefficients(sections, k)
    p, q = state[k, 0], state[k, 1]
    for i in range(len(x)):
        v = x[i]
        y = b0 * v + p
        p, q = b1 * v - a1 * y + q, b2 * v - a2 * y
        x[i] = y
    state[k, 0], state[k, 1] = p, q


@compiled
def _filter_two(x: Any, sections: Any, k: int, state: Any) -> None:
    b0, b1, b2, a1, a2 = _coefficients(sections, k)
    d0, d1, d2, c1, c2 = _coefficients(sections, k + 1)
    p, q = state[k, 0], state[k, 1]
    r, s = state[k + 1, 0], state[k + 1, 1]
    for i in range(len(x)):
        v = x[i]
        y = b0 * v + p
        p, q = b1 * v - a1 * y + q, b2 * v - a2 * y
        w = d0 * y + r
        r, s = d1 * y - c1 * w + s, d2 * y - c2 * w
        x[i] = w
    state[k, 0], state[k, 1] = p, q
    state[k + 1, 0], state[k + 1, 1] = r, s


@compiled
def _filter_four(x: Any, sections: Any, k: int, state: Any) -> None:
    b0, b1, b2, a1, a2 = _coefficients(sections, k)
    d0, d1, d2, c1, c2 = _coefficients(sections, k + 1)
    f0, f1, f2, e1, e2 = _coefficients(sections, k + 2)
    h0, h1, h2, g1, g2 = _coefficients(sections, k + 3)
    p, q = state[k, 0], state[k, 1]
    r, s = state[k + 1, 0], state[k + 1, 1]
    t, u = state[k + 2, 0], state[k + 2, 1]
    m, n = state[k + 3, 0], state[k + 3, 1]
    for i in range(len(x)):
        v = x[i]
        y = b0 * v + p
        p, q = b1 * v - a1 * y + q, b2 * v - a2 * y
        w = d0 * y + r
        r, s = d1 * y - c1 * w + s, d2 * y - c2 * w
        v = f0 * w + t
        t, u = f1 * w - e1 * v + u, f2 * w - e2 * v
        y = h0 * v + m
        m, n = h1 * v - g1 * y + n, h2 * v - g2 * y
        x[i] = y
    state[k, 0], state[k, 1] = p, q
    state[k + 1, 0], state[k + 1, 1] = r, s
    state[k + 2, 0], state[k + 2, 1] = t, u
    state[k + 3, 0], state[k + 3, 1] = m, n


@compiled
def _filter_first_order(x: Any, b: Any, a: Any, z: Any) -> None:
    b0, b1, a1, p = b[0], b[1], a[1], z[0]
    for i in range(len(x)):
        v = x[i]
        y = b0 * v + p
        p = b1 * v - a1 * y
        x[i] = y
    z[0] = p


@compiled
def _filter_third_order(x: Any, b: Any, a: Any, z: Any) -> None:
    b0, b1, b2, b3, a1, a2, a3 = b[0], b[1], b[2], b[3], a[1], a[2], a[3]
    p, q, r = z[0], z[1], z[2]
    for i in range(len(x)):
        v = x[i]
        y = b0 * v + p
        p, q, r = b1 * v - a1 * y + q, b2 * v - a2 * y + r, b3 * v - a3 * y
        x[i] = y
    z[0], z[1], z[2] = p, q, r


@compiled
def _filter_any_order(x: Any, b: Any, a: Any, z: Any) -> None:
    """One section of any order from one on."""
    order = len(a) - 1
    for i in range(len(x)):
        value = x[i]
        y = b[0] * value + z[0]
        for j in range(order - 1):
            z[j] = b[j + 1] * value - a[j + 1] * y + z[j + 1]
        z[order - 1] = b[order] * value - a[order] * y
        x[i] = y
