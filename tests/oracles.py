"""One-shot references, written from the documented meaning of each operator and never from its kernel.

Everything here is per key, in plain Python over plain dictionaries, with NumPy and SciPy for whole arrays: slow and easy
to check by eye. A uniform signal is ``{grid index: sample}``, a windowed one ``{index of the last sample: array}``, a
stream a list of `Event`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.signal

Key = tuple[Any, ...]
Samples = dict[int, Any]
Arrays = dict[int, np.ndarray]


class Event(NamedTuple):
    key: Key
    start: int
    stop: int
    payload: dict[str, Any]


class Grid(NamedTuple):
    period: Fraction
    origin: int = 0

    def instant(self, k: int) -> int:
        return math.floor(k * self.period) + self.origin

    def first(self, t: int) -> int:
        """The smallest index whose instant is not before `t`."""
        k = math.ceil(Fraction(t - self.origin) / self.period)
        while self.instant(k - 1) >= t:
            k -= 1
        while self.instant(k) < t:
            k += 1
        return k


def by_key(events: Iterable[Event]) -> dict[Key, list[Event]]:
    found: dict[Key, list[Event]] = {}
    for event in events:
        found.setdefault(event.key, []).append(event)
    return found


def each(function: Callable[..., Any], *signals: Mapping[Key, Any]) -> dict[Key, Any]:
    """Apply a reference to the signals of every key that all of them have."""
    shared = [k for k in signals[0] if all(k in s for s in signals[1:])]
    return {k: function(*(s[k] for s in signals)) for k in shared}


# --- sampling -----------------------------------------------------------------------------------------------------------------


def sample(
    events: list[Event], value: Callable[[Event], Any], grid: Grid, fill: str | None = None, gap: int | None = None
) -> Samples:
    """One key at the beats of a grid. Between two events, the last instant of one and the start of the next are the reference points."""
    events = sorted(events, key=lambda e: e.start)
    reach = math.inf if gap is None else gap
    out: Samples = {}
    for event, later in zip(events, [*events[1:], None], strict=True):
        for k in range(grid.first(event.start), grid.first(event.stop)):
            out[k] = value(event)
        if fill is None:
            continue
        ref = event.stop - 1
        k = grid.first(event.stop)
        while True:
            t = grid.instant(k)
            if later is not None and t >= later.start:
                break
            if fill == "last":
                if t - ref > reach or (later is None and gap is None):
                    break
                out[k] = value(event)
            else:
                if later is None or later.start - ref > reach:
                    break
                with np.errstate(all="ignore"):
                    a, b = np.asarray(value(event)), np.asarray(value(later))
                    out[k] = a + (b - a) * ((t - ref) / (later.start - ref))
            k += 1
    return out


# --- filters ------------------------------------------------------------------------------------------------------------------


def runs(x: Samples) -> list[tuple[int, np.ndarray]]:
    """Stretches without a hole."""
    found: list[tuple[int, list[Any]]] = []
    for k in sorted(x):
        if found and found[-1][0] + len(found[-1][1]) == k:
            found[-1][1].append(x[k])
        else:
            found.append((k, [x[k]]))
    return [(first, np.asarray(values)) for first, values in found]


def filtered(x: Samples, run: Callable[[np.ndarray], np.ndarray], missing: str, skip: int = 0) -> Samples:
    """A SciPy filter over one signal: ``zero`` over holes filled with zeros, ``reset`` and ``drop`` over every stretch by itself."""
    if not x:
        return {}
    if missing == "zero":
        first, last = min(x), max(x)
        dense = np.zeros((last - first + 1, *np.shape(x[first])), np.asarray(list(x.values())).dtype)
        for k, v in x.items():
            dense[k - first] = v
        y = run(dense)
        return {k: y[k - first] for k in x}
    return {
        first + i: y
        for first, values in runs(x)
        for i, y in enumerate(run(values))
        if i >= (skip if missing == "drop" else 0)
    }


def fir(x: Samples, taps: Sequence[complex], missing: str = "zero") -> Samples:
    """``lfilter(taps, 1, x)`` written out: SciPy's FFT-free direct form, one dot product per sample so that NaN stays under the taps."""
    b = np.asarray(taps)

    def run(v: np.ndarray) -> np.ndarray:
        if np.isfinite(v).all():
            return scipy.signal.lfilter(b, 1, v, axis=0)
        padded = np.concatenate([np.zeros((len(b) - 1, *v.shape[1:]), v.dtype), v])
        with np.errstate(all="ignore"):
            return np.stack([np.tensordot(b[::-1], padded[i : i + len(b)], axes=(0, 0)) for i in range(len(v))])

    return filtered(x, run, missing, len(b) - 1)


def parted(x: Samples, longest: int) -> list[Samples]:
    """A signal in parts, between which more than `longest` samples are missing."""
    parts: list[Samples] = []
    for k in sorted(x):
        if not parts or k - max(parts[-1]) - 1 > longest:
            parts.append({})
        parts[-1][k] = x[k]
    return parts


def sos(x: Samples, sections: np.ndarray, missing: str = "zero", initial: str = "rest") -> Samples:
    """``sosfilt``; after a sample that is not finite NaN for as long as the filter rings, then it starts again.

    At rest, or ``"steady"`` with SciPy's ``sosfilt_zi`` times the first sample.
    """
    rings = ringing(np.asarray(sections, float))
    steady = scipy.signal.sosfilt_zi(sections) * (initial == "steady")

    def column(v: np.ndarray) -> np.ndarray:
        out = np.full(len(v), np.nan, v.dtype)
        at = 0
        while at < len(v):
            bad = np.flatnonzero(~np.isfinite(v[at:]))
            stop = at + int(bad[0]) + 1 if len(bad) else len(v)
            begin = steady * (v[at] if np.isfinite(v[at]) else 0)
            out[at:stop] = scipy.signal.sosfilt(sections, v[at:stop], zi=begin)[0]
            last = stop - 1
            while len(bad) and (worse := np.flatnonzero(~np.isfinite(v[last + 1 : last + 1 + rings]))).size:
                last += 1 + int(worse[-1])
            at = last + 1 + rings if len(bad) else len(v)
        return out

    def run(v: np.ndarray) -> np.ndarray:
        v = v.astype(np.result_type(v.dtype, float))
        return column(v) if v.ndim == 1 else np.stack([column(v[:, c]) for c in range(v.shape[1])], axis=1)

    with np.errstate(all="ignore"):
        return {k: y for part in parted(x, rings) for k, y in filtered(part, run, missing).items()}


def ringing(sections: np.ndarray) -> int:
    """Samples until the impulse response stays below 2**-60 of its peak."""
    response = np.abs(scipy.signal.sosfilt(sections, np.eye(1, 200_000)[0]))
    return int(np.flatnonzero(response > 2.0**-60 * response.max())[-1]) + 1


# --- windows ------------------------------------------------------------------------------------------------------------------


def windows(x: Samples, size: int, hop: int, missing: str = "drop") -> Arrays:
    """Every window on the absolute grid that ``missing`` allows, by trying them all."""
    out: Arrays = {}
    if not x:
        return out
    dtype = np.asarray(list(x.values())).dtype
    for end in range(min(x), max(x) + size):
        if (end - (size - 1)) % hop:
            continue
        span = range(end - size + 1, end + 1)
        there = [k in x for k in span]
        if all(there) if missing == "drop" else any(there):
            out[end] = np.array([x.get(k, 0) for k in span], dtype)
    return out


def overlap_add(w: Arrays) -> Samples:
    out: Samples = {}
    for end in sorted(w):
        for i, v in enumerate(w[end]):
            k = end - len(w[end]) + 1 + i
            with np.errstate(all="ignore"):
                out[k] = out[k] + v if k in out else v
    return out


# --- arithmetic ---------------------------------------------------------------------------------------------------------------


def combine(operation: Callable[[Any, Any], Any], a: Samples, b: Samples) -> Samples:
    with np.errstate(all="ignore"):
        return {k: operation(np.asarray(a[k]), np.asarray(b[k])) for k in sorted(a) if k in b}


# --- streams ------------------------------------------------------------------------------------------------------------------


def tumble(events: list[Event], size: int, offset: int = 0) -> dict[tuple[Key, int], list[Event]]:
    """The events of every window that has any, by key and start of window."""
    found: dict[tuple[Key, int], list[Event]] = {}
    for event in events:
        start = math.floor(Fraction(event.start - offset, size)) * size + offset
        found.setdefault((event.key, start), []).append(event)
    return found


def total(values: Iterable[Any]) -> Any:
    there = [v for v in values if v is not None]
    if not there:
        return None
    if all(isinstance(v, int) for v in there):
        return sum(there)
    finite = all(math.isfinite(v) for v in there)
    with np.errstate(all="ignore"):
        return math.fsum(there) if finite else float(np.sum(np.asarray(there, float)))


def mean(values: Iterable[Any]) -> Any:
    there = [v for v in values if v is not None]
    return None if not there else total(float(v) for v in there) / len(there)


def extreme(choose: Callable[[Any], Any], values: Iterable[Any]) -> Any:
    there = [v for v in values if v is not None]
    if not there:
        return None
    return math.nan if any(v != v for v in there) else choose(there) + 0


def band_join(left: list[Event], right: list[Event], before: int, after: int) -> list[tuple[Event, Event]]:
    return [(a, b) for a in left for b in right if a.key == b.key and a.start - before <= b.start <= a.start + after]


def above(x: Samples, threshold: float, grid: Grid, report: int | None = None) -> list[tuple[int, int, Any, int]]:
    """(start, end, peak, samples) of every interval above a threshold."""
    found: list[list[int]] = []
    for k in sorted(x):
        if not x[k] > threshold:
            continue
        goes_on = bool(found) and found[-1][-1] == k - 1
        if goes_on and report is not None:
            goes_on = grid.instant(k) // report == grid.instant(found[-1][-1]) // report
        if goes_on:
            found[-1].append(k)
        else:
            found.append([k])
    return [(grid.instant(f[0]), grid.instant(f[-1] + 1), max(x[k] for k in f) + 0, len(f)) for f in found]
