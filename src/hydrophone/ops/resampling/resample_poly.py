"""Resampling by a ratio of whole numbers, with a filter that keeps out what the new rate cannot carry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Ints, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, low_water_mark, lowest_marks, map_mark, marks_of_slots
from hydrophone.model.state import Field, HeldBatches, SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.ops.coefficients import check_coefficients, is_window_name
from hydrophone.ops.resampling.regrid import Regrid, scaled_index
from hydrophone.ops.signals.keep_samples import keep_samples
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType

LARGEST = 100_000
"""Neither number of a ratio may be larger: the filter has twenty times as many taps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ResamplePoly(Node):
    """The signal at `up` / `down` times its rate; reference: ``scipy.signal.resample_poly(x, up, down, window=taps)``.

    The new grid has the same origin and an exact period; SciPy's first sample is that of an index that both grids share. The filter has
    no delay: the sample at an instant is made of those on either side of it.

    Start and end: zeros around the signal, as in SciPy; there is a new sample wherever the old one at or just before its instant is there.
    Gap: ``zero`` counts a hole as zeros; ``drop`` gives only samples for which the filter finds all it needs. A NaN shows as far as the
    filter reaches. The state are the samples under the filter.
    """

    stable_name = "resample_poly"

    up: int
    down: int
    taps: tuple[float | complex, ...]
    missing: Missing = Missing.ZERO

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A ratio, and taps with a middle."""
        if not 1 <= min(self.up, self.down) <= max(self.up, self.down) <= LARGEST:
            raise ParameterError(
                f"resample_poly: up and down must be from 1 to {LARGEST:,}, got {self.up} and {self.down}",
                hint="take a rate whose ratio to this one is simpler, or resample(period), which interpolates",
            )
        if len(self.taps) % 2 == 0 or not np.isfinite(self.taps).all():
            raise ParameterError(
                f"resample_poly: the window must be an odd number of finite taps, got {len(self.taps)}",
                hint="an odd number has a middle, so that the filter has no delay",
            )

    @property
    def regrid(self) -> Regrid:
        """The new grid."""
        return Regrid(Fraction(self.down, self.up))

    def output_type(self, x: UniformType) -> UniformType:
        """Another period, at least double precision."""
        dtype = np.result_type(x.dtype, np.float64, np.asarray(self.taps))
        return replace(x, dtype=dtype, timebase=self.regrid.timebase(x.timebase))

    def reach(self, x: UniformType) -> Reach:
        """The samples under the filter, on either side."""
        side = len(self.taps) // 2 // self.up + 1
        return Reach.samples(x.timebase, before=side, after=side)

    def group_delay(self, frequency: float) -> float:
        """None: the filter is centred."""
        return 0.0

    def kernel(self, x: UniformType) -> Kernel:
        """Resample."""
        return ResamplePolyKernel(self, x, self.type)


class ResamplePolyKernel(Kernel):
    """Holds the samples that the filter may still need; a new sample is made when nothing under the filter can come any more."""

    keyed = True

    def __init__(self, node: ResamplePoly, kind: UniformType, out: UniformType) -> None:
        self.up, self.down, self.half, self.missing = node.up, node.down, len(node.taps) // 2, node.missing
        self.regrid, self.timebase, self.out = node.regrid, kind.timebase, out
        # Row p holds every up-th tap from number p on: those that meet the samples under one phase of the filter.
        width = -(-len(node.taps) // self.up)
        taps = np.asarray(node.taps) * float(self.up)
        table = np.pad(taps, (0, width * self.up - len(taps)))
        self.table = np.ascontiguousarray(table.reshape(width, self.up).T)
        self.waiting: HeldBatches[Segments] = HeldBatches(Segments)
        self.given = SlotArrays(next=Field(np.int64, MIN_TIME))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Segments)
        self.waiting.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """All new samples whose old ones are known."""
        held = self.waiting.all()
        if held is None:
            return (), self._mark(marks[0])
        self.given.reserve(len(self.keys))
        stop = self._ready(self._known(held, marks[0]))
        # The new samples at or after an old one and before the next.
        begin = np.maximum(_ceil(held.first, self.up, self.down), self.given["next"][held.slot])
        counts = np.maximum(np.minimum(_ceil(held.next, self.up, self.down), stop) - begin, 0)
        out = self._made(held, begin, counts)
        self.given["next"][held.slot] = np.maximum(stop, self.given["next"][held.slot])
        self.given.touch(held.slot)
        needed = _ceil(stop, self.down, self.up, -self.half)
        self.waiting.replace(held.split(needed)[1], held.slot[held.first < needed])
        return ((out,) if len(out) else ()), self._mark(marks[0])

    def _known(self, held: Segments, mark: Mark) -> Ints:
        """For every run the index before which no sample of its key is missing but for good."""
        last = np.concatenate([held.slot[1:] != held.slot[:-1], [True]])
        newest = held.next[last][np.cumsum(last) - last]
        # Samples of a key come in order. Beyond the reach of the filter it does not matter how far the mark has come.
        most = newest + 2 * (self.half // self.up) + self.down // self.up + 8
        return np.clip(held.base.index_from_mark(held.slot, marks_of_slots(mark, held.slot)), newest, most)

    def _ready(self, known: Ints) -> Ints:
        """The first new sample that needs one at or after an index."""
        return _ceil(known, self.up, self.down, -self.half)

    def _made(self, held: Segments, begin: Ints, counts: Ints) -> Segments:
        x = held.values.astype(self.out.dtype, copy=False).reshape(len(held.values), -1)
        out = np.zeros((int(counts.sum()), x.shape[1]), self.out.dtype)
        whole = np.ones(len(out), np.bool_)
        runs = held.slot, held.first, held.offsets
        _polyphase(*runs, np.ascontiguousarray(x), begin, counts, self.table, self.down, self.half, out, whole)
        some = np.flatnonzero(counts)
        values, offsets = out[:, 0] if held.values.ndim == 1 else out, np.concatenate([[0], np.cumsum(counts[some])])
        y = Segments(held.slot[some], begin[some], offsets, values, self.regrid.bases(held.base))
        return (keep_samples(y, whole) if self.missing is Missing.DROP else y).joined()

    def _mark(self, mark: Mark) -> Mark:
        """The instant of the first new sample that is not known where nothing has come."""
        old, new = self.timebase, self.regrid.timebase(self.timebase)
        if old is None or new is None:
            return MAX_TIME if low_water_mark(mark) == MAX_TIME else MIN_TIME

        def first(m: Any) -> Mark:
            return lowest_marks((m, new.instant(-scaled_index(-old.index_from(m), self.up, self.down, self.half))))

        return map_mark(mark, first)


def _ceil(index: Ints, by: int, over: int, more: int = 0) -> Ints:
    """``ceil((index * by + more) / over)``, where the product need not fit into 64 bits."""
    out: Ints = -scaled_index(-index, by, over, -more)
    return out


@compiled
def _polyphase(
    slot: Any,
    first: Any,
    offsets: Any,
    x: Any,
    begin: Any,
    counts: Any,
    table: Any,
    down: int,
    half: int,
    out: Any,
    whole: Any,
) -> None:
    """New samples ``begin, begin + 1, …`` of every run; the samples under the filter may lie in other runs of the key."""
    up = table.shape[0]
    n = 0
    for run in range(len(slot)):
        low, m, stop = run, begin[run], begin[run] + counts[run]
        inside, end = _inside(first[run], offsets[run + 1] - offsets[run], m, stop, up, down, half)
        while m < stop:
            if m == inside and end - m >= _ROWS_AT_LEAST * up:
                _rows(x, offsets[run] - first[run], m, end, table, down, half, out, n)
                n, m = n + end - m, end
                continue
            lowest, highest = -((half - m * down) // up), (m * down + half) // up
            phase = (m * down + half) % up
            while low > 0 and slot[low - 1] == slot[run] and first[low - 1] + offsets[low] - offsets[low - 1] > lowest:
                low -= 1
            while low < run and first[low] + offsets[low + 1] - offsets[low] <= lowest:
                low += 1
            found = 0
            at = low
            while at < len(slot) and slot[at] == slot[run] and first[at] <= highest:
                begins = max(lowest, first[at])
                stops = min(highest + 1, first[at] + offsets[at + 1] - offsets[at])
                place = offsets[at] - first[at]
                for c in range(x.shape[1]):
                    total = out[n, c]
                    for k in range(begins, stops):
                        total += x[place + k, c] * table[phase, highest - k]
                    out[n, c] = total
                found += max(stops - begins, 0)
                at += 1
            whole[n] = found == highest - lowest + 1
            n, m = n + 1, m + 1


_ROWS_AT_LEAST = 4
"""New samples of each phase from which on they are made phase by phase."""


@compiled
def _inside(first: int, length: int, begin: int, stop: int, up: int, down: int, half: int) -> Any:
    """The new samples from `begin` to `stop` for which all samples under the filter lie in the run."""
    low = -((-first * up - half + up - 1) // down)  # ceil(m * down - half, up) >= first
    high = (first + length) * up - half  # floor(m * down + half, up) < first + length
    return max(begin, low), min(stop, -(-high // down))


@compiled
def _rows(x: Any, place: int, begin: int, end: int, table: Any, down: int, half: int, out: Any, to: int) -> None:
    """Phase by phase, tap by tap over many samples: each sum is taken in the same order as alone, and none waits for itself."""
    up, width, flat = table.shape[0], x.shape[1], x.reshape(-1)
    step, some = down * width, np.empty(64, out.dtype)
    for m in range(begin, min(begin + up, end)):
        lowest, highest = -((half - m * down) // up), (m * down + half) // up
        taps = table[(m * down + half) % up, : highest - lowest + 1][::-1]
        fours, rows = len(taps) // 4 * 4, (end - m + up - 1) // up
        for start in range(0, rows, len(some)):
            size = min(len(some), rows - start)
            for c in range(width):
                here = (place + lowest + start * down) * width + c
                some[:size] = 0
                for k in range(0, fours, 4):
                    t0, t1, t2, t3 = taps[k], taps[k + 1], taps[k + 2], taps[k + 3]
                    at = here + k * width
                    for i in range(size):
                        j = at + i * step
                        some[i] = (
                            some[i]
                            + flat[j] * t0
                            + flat[j + width] * t1
                            + flat[j + 2 * width] * t2
                            + flat[j + 3 * width] * t3
                        )
                for k in range(fours, len(taps)):
                    for i in range(size):
                        some[i] += flat[here + k * width + i * step] * taps[k]
                for i in range(size):
                    out[to + m - begin + (start + i) * up, c] = some[i]


def design(up: int, down: int, window: Any) -> tuple[float | complex, ...]:
    """SciPy's filter for a ratio: a windowed sinc over ten periods of the slower rate, or the taps that are given."""
    if not is_window_name(window):
        return tuple(check_coefficients(window, "resample_poly: window").tolist())
    import scipy.signal  # here, because it takes as long to load as all the rest, in every Spark worker too

    most = max(up, down)
    if most > LARGEST:
        return (1.0,)  # refused by the node
    return tuple(scipy.signal.firwin(20 * most + 1, 1 / most, window=window).tolist()) if most > 1 else (1.0,)
