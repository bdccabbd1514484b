"""Decimate samples for a plot without visible loss: the extremes of every column of pixels, and every hole, stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_POINTS = 5
"""Points per column at the most: a break, the first sample, the least, the largest, the last."""


@dataclass(frozen=True)
class Trace:
    """Samples of one signal in order of time.

    Attributes
    ----------
    time : instants in nanoseconds
    value : as many numbers, all finite
    apart : whether there is a hole between a sample and the one before it; true for the first
    """

    time: Ints
    value: Floats
    apart: Mask

    @classmethod
    def of(cls, time: Ints, value: npt.NDArray[Any], apart: Mask) -> Trace:
        """Drop what is not finite; where it was is a hole."""
        keep = np.isfinite(value)
        if keep.all():
            return cls(time, value.astype(np.float64, copy=False), apart)
        # A hole before a dropped sample is one before the next sample that stays.
        since = np.cumsum(apart | ~keep)[keep]
        return cls(time[keep], value[keep].astype(np.float64), np.diff(since, prepend=0) > 0)


@dataclass(frozen=True)
class Line:
    """A line that breaks at NaN, and dots for isolated samples."""

    time: Ints
    value: Floats
    dots: Ints
    """Positions of samples with a hole on either side: a line would not show them."""


def columns_of(time: Ints, low: int, high: int, columns: int) -> Ints:
    """The column of pixels that each instant of ``[low, high]`` falls into.

    Examples
    --------
    >>> columns_of(np.array([0, 4, 5, 10]), 0, 10, 2)
    array([0, 0, 1, 1])
    """
    share = (time - low) / max(high - low, 1)
    return np.minimum((share * columns).astype(np.int64), columns - 1)


def thin_trace(trace: Trace, low: int, high: int, columns: int) -> Line:
    """At most five points for each column of pixels; few samples stay as they are.

    The least and the largest sample of every column are among them, so a spike of one sample is never lost, and in the
    picture the line covers the very pixels that all samples would cover. Between columns the line breaks at holes.

    Examples
    --------
    >>> spike = np.zeros(1_000_000)
    >>> spike[123_456] = 1
    >>> line = thin_trace(Trace(np.arange(1_000_000), spike, np.arange(1_000_000) == 0), 0, 1_000_000, 100)
    >>> len(line.value), np.nanmax(line.value)
    (500, np.float64(1.0))
    """
    if len(trace.time) <= _POINTS * columns:
        return _whole(trace)
    start = np.flatnonzero(np.diff(columns_of(trace.time, low, high, columns), prepend=-1))
    last = np.append(start[1:], len(trace.time)) - 1
    middle = trace.time[start] + (trace.time[last] - trace.time[start]) // 2
    least, largest = np.minimum.reduceat(trace.value, start), np.maximum.reduceat(trace.value, start)
    first = trace.value[start]
    time = np.stack([trace.time[start], trace.time[start], middle, middle, trace.time[last]], axis=1)
    value = np.stack([np.where(trace.apart[start], np.nan, first), first, least, largest, trace.value[last]], axis=1)
    alone = (start == last) & trace.apart[start] & np.append(trace.apart[start[1:]], True)
    return Line(time.ravel(), value.ravel(), np.flatnonzero(alone) * _POINTS + 1)


def _whole(trace: Trace) -> Line:
    at = np.flatnonzero(trace.apart)
    alone = at[np.append(trace.apart[1:], True)[at]] if len(at) else at
    time, value = np.insert(trace.time, at, trace.time[at]), np.insert(trace.value, at, np.nan)
    return Line(time, value, alone + np.searchsorted(at, alone, side="right"))


def hole_spans(trace: Trace, period: float, low: int, high: int, columns: int) -> Ints:
    """The holes between samples as rows of start and end, each at least a column wide, those that then touch joined.

    So there are no more than columns, and a hole of one sample among millions can be seen.

    Examples
    --------
    >>> trace = Trace(np.array([0, 10, 50, 60]), np.zeros(4), np.array([True, False, True, False]))
    >>> hole_spans(trace, 10, 0, 100, 100)
    array([[20, 50]])
    """
    at = np.flatnonzero(trace.apart[1:]) + 1
    if not len(at):
        return np.zeros((0, 2), np.int64)
    start, end = trace.time[at - 1] + int(period), trace.time[at]
    return thin_spans(start, end, low, high, columns)


def thin_spans(start: Ints, end: Ints, low: int, high: int, columns: int) -> Ints:
    """Intervals as rows of start and end, each at least a column wide; if there are many, those that then touch are joined.

    Examples
    --------
    >>> thin_spans(np.array([0, 70]), np.array([1, 90]), 0, 100, 10)
    array([[ 0, 10],
           [70, 90]])
    """
    width = max((high - low) // columns, 1)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum(end[order], start[order] + width)
    if len(start) <= columns:
        return np.stack([start, end], axis=1)
    reached = np.maximum.accumulate(end)
    new = np.append(True, start[1:] > reached[:-1])
    first = np.flatnonzero(new)
    return np.stack([start[first], np.maximum.reduceat(end, first)], axis=1)


def thin_instants(time: Ints, low: int, high: int, columns: int) -> Ints:
    """Instants, at most one for each column of pixels.

    Examples
    --------
    >>> len(thin_instants(np.arange(1_000_000), 0, 1_000_000, 500))
    500
    """
    if len(time) <= columns:
        return time
    time = np.sort(time)
    return time[np.flatnonzero(np.diff(columns_of(time, low, high, columns), prepend=-1))]
