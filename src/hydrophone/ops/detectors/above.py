"""Intervals found in signals: operators that hold what is still open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints, Mask, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, hold_back_mark, marks_of_slots
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.model.state import HeldBatches
from hydrophone.model.time import MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.ops.base_kernels import GridKernel
from hydrophone.ops.detectors.above_family import AboveFamily
from hydrophone.ops.signals.keep_samples import stretches
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType, UniformType

OPEN = "an interval that stays open holds back the progress of all keys, report= cuts it"
"""What may stall in a stream of intervals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Above(Node):
    """Intervals in which a signal is above a threshold: from the first sample above it to the first that is not; a hole ends an interval.

    `report` cuts long intervals at multiples of that duration, so that an interval that stays open holds back neither progress nor slices.
    Columns: `peak`, the largest sample, and `samples`, how many.
    """

    stable_name = "above"

    threshold: float
    report: int | None = None

    needs = Order.INDEX

    def check(self) -> None:
        """A number and a positive duration."""
        if np.isnan(self.threshold):
            raise ParameterError("above: the threshold is not a number")
        if self.report is not None and self.report <= 0:
            raise ParameterError(f"above: report must be positive, got {self.report}")

    @property
    def stalls(self) -> str | None:
        """An open interval does, unless it is cut."""
        return None if self.report is not None else OPEN

    @property
    def family(self) -> tuple[str, ...] | None:
        """Other thresholds, where all keys share a grid."""
        x = self.inputs[0].type
        if x.timebase is None or x.dtype.kind != "f" or float(x.dtype.type(self.threshold)) != self.threshold:
            return None
        return "above", str(self.report)

    def output_type(self, x: UniformType) -> StreamType:
        """A stream of intervals."""
        return interval_type(x, "above")

    def reach(self, x: UniformType) -> Reach:
        """As far as an interval can last."""
        if self.report is None:
            return Reach.unbounded("above: an interval may last for ever without report=")
        if x.timebase is None:
            return Reach.unbounded("every key has a period of its own")
        return Reach(self.report, self.report) + Reach.samples(x.timebase, 2, 2)

    def kernel(self, x: UniformType) -> Kernel:
        """Find them."""
        return AboveKernel(self.threshold, self.report, x.timebase, self.type)


def interval_type(x: UniformType, what: str) -> StreamType:
    """The type of intervals in a signal: their largest sample and how many they are."""
    refuse_unordered(x, what)
    columns = pa.schema([("peak", pa.from_numpy_dtype(x.dtype)), ("samples", pa.int64())])
    refuse_taken_names(x, ["end", *columns.names], f"{what}: intervals")
    return StreamType(x.key, x.time, x.clock, columns, "end")


def refuse_unordered(x: UniformType, what: str) -> None:
    """Only real samples of one channel can be compared."""
    if x.channels or x.dtype.kind == "c":
        hint = (
            "take norm() first, the length of the vector over all channels, or pick a channel(0)"
            if x.channels
            else "take the magnitude() first"
        )
        raise SignalTypeError(f"{what}: {x.describe()} has no order", hint=hint)


def refuse_taken_names(x: UniformType, names: Sequence[str], what: str) -> None:
    """Columns of what is found must not have the names of the key or of time."""
    taken = set(names) & {*x.key.names, x.time}
    if taken:
        raise ParameterError(
            f"{what} have a column {min(taken)!r}, and the key or time of this signal has that name",
            hint=f"rename the key before: stream.key_by(name={min(taken)!r})",
        )


class AboveKernel(GridKernel[Segments]):
    """Open intervals are held as events whose start and end are grid indices."""

    keyed = True

    @classmethod
    def together(cls, kernels: Sequence[AboveKernel]) -> AboveFamily:
        """All thresholds at once."""
        one = kernels[0]
        return AboveFamily([k.threshold for k in kernels], [k.open for k in kernels], one.report, one.grids, one.out)

    def __init__(self, threshold: float, report: int | None, timebase: Timebase | None, out: StreamType) -> None:
        super().__init__(timebase)
        self.threshold, self.report, self.out = threshold, report, out
        self.open: HeldBatches[Events] = HeldBatches(Events)

    def take(self, batch: Segments) -> Iterable[Batch]:
        """Join the pieces of this batch with the open ones, and give those that have ended."""
        pieces = self._joined(self.open.all(), self._pieces(batch))
        seen = np.full(len(self.keys), MIN_TIME)
        np.maximum.at(seen, batch.slot, batch.next)
        closed = (seen[pieces.slot] != MIN_TIME) & (pieces.stop < seen[pieces.slot])
        successor = np.concatenate([pieces.slot[1:] == pieces.slot[:-1], [False]])
        closed |= successor
        touched = np.zeros(len(self.keys), np.bool_)
        touched[pieces.slot] = touched[batch.slot] = True
        self.open.replace(pieces.select(~closed), np.flatnonzero(touched))
        return (self._finished(pieces.select(closed)),) if closed.any() else ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """An interval whose next sample did not come before the mark has ended; the others hold the output mark."""
        held, mark = self.open.all(), marks[0]
        if held is None:
            return (), mark
        ended = self.grids.base.instant(held.slot, held.stop) < marks_of_slots(mark, held.slot)
        out = (self._finished(self.open.take(ended)),) if ended.any() else ()
        rest = self.open.all()
        if rest is None:
            return out, mark
        return out, hold_back_mark(mark, rest.slot, self.grids.base.instant(rest.slot, rest.start))

    def inside(self, x: Segments) -> Mask:
        """Which samples belong to an interval."""
        with np.errstate(invalid="ignore"):
            found: Mask = x.values > self.threshold
        return found

    def _pieces(self, x: Segments) -> Events:
        """Stretches of samples that belong to an interval within runs (and report intervals)."""
        run, begin, lengths = stretches(x, self.inside(x))
        if self.report is not None:
            run, begin, lengths = _cut_at_reports(x, self.report, run, begin, lengths)
        slot, index = x.slot[run], begin + (x.first - x.offsets[:-1])[run]
        # Adding zero makes -0.0 plain: which of the two zeros is larger would depend on the cut.
        peak = _peaks(np.ascontiguousarray(x.values), begin, lengths) + x.values.dtype.type(0)
        columns = pa.table({"peak": peak, "samples": lengths}, schema=self.out.columns)
        return Events(slot, index, index + lengths, columns)

    def _joined(self, held: Events | None, new: Events) -> Events:
        """One piece where an open one goes on."""
        if held is None:
            return new
        pieces = Events.concat([held, new])
        pieces = pieces.select(np.lexsort((pieces.start, pieces.slot)))
        apart = (pieces.slot[1:] != pieces.slot[:-1]) | (pieces.start[1:] != pieces.stop[:-1]) | self._cut(pieces)
        first = np.flatnonzero(np.concatenate([[True], apart]))
        last = np.append(first[1:], len(pieces)) - 1
        peak, samples = pieces.columns["peak"].to_numpy(), pieces.columns["samples"].to_numpy()
        columns = pa.table(
            {"peak": np.maximum.reduceat(peak, first), "samples": np.add.reduceat(samples, first)},
            schema=self.out.columns,
        )
        return Events(pieces.slot[first], pieces.start[first], pieces.stop[last], columns)

    def _cut(self, pieces: Events) -> Mask:
        """Whether a report interval ends between a piece and the next."""
        if self.report is None:
            return np.zeros(len(pieces) - 1, np.bool_)
        share: Ints = self.grids.base.instant(pieces.slot, pieces.start) // self.report
        return share[1:] != share[:-1]

    def _finished(self, pieces: Events) -> Events:
        """From indices to instants."""
        base = self.grids.base
        return Events(
            pieces.slot, base.times(pieces.slot, pieces.start), base.times(pieces.slot, pieces.stop), pieces.columns
        )


def _cut_at_reports(x: Segments, report: int, run: Ints, begin: Ints, lengths: Ints) -> tuple[Ints, Ints, Ints]:
    """Stretches cut where a report interval ends."""
    at, run = concat_ranges(begin, lengths), np.repeat(run, lengths)
    share = x.base.instant(x.slot[run], at + (x.first - x.offsets[:-1])[run]) // report
    fresh = np.ones(len(at), np.bool_)
    fresh[1:] = (share[1:] != share[:-1]) | (at[1:] != at[:-1] + 1) | (run[1:] != run[:-1])
    first = np.flatnonzero(fresh)
    return run[first], at[first], np.diff(np.append(first, len(at)))


@compiled
def _peaks(x: Any, begin: Any, lengths: Any) -> Any:
    """The largest sample of every stretch; none of them is NaN, for which there is no interval."""
    out = np.empty(len(begin), x.dtype)
    for n in range(len(begin)):
        peak = x[begin[n]]
        for i in range(begin[n] + 1, begin[n] + lengths[n]):
            peak = max(peak, x[i])
        out[n] = peak
    return out
