"""Unwindow: from windows back to samples, where a user-defined function combines overlapping windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, SignalTypeError
from hydrophone.model.batch import Batch, Ints, Segments, Windows
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.user.calls import call_guarded, name_of
from hydrophone.ops.windows.overlap_add import OverlapAddKernel, laid_out, write_finished
from hydrophone.ops.windows.refusals import refuse_labels
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, WindowedType

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Unwindow(Node):
    """Lay windows back on the time axis as `OverlapAdd` does; a function makes one value of those that meet at a sample.

    It gets an array with a row per sample and a column per window that may cover it, the oldest first, with NaN where there
    is none (``lambda v: np.nanmedian(v, axis=1)``), and gives one value per row. Samples that no window covers are holes. With
    channels every channel of a sample is a row of its own.
    """

    stable_name = "unwindow"

    function: Callable[[Array], Array]

    gives = Order.INDEX
    needs = Order.INDEX

    def output_type(self, x: WindowedType) -> UniformType:
        """The function is tried on two samples (three, where two windows may meet)."""
        refuse_labels("unwindow", x)
        if x.dtype.kind == "c":
            raise SignalTypeError(
                "unwindow: the windows are complex", hint="irfft makes them real; overlap_add adds complex ones"
            )
        depth = depth_of(x)
        probe = combine_covering(self.function, np.ones((3 if depth == 2 else 2, depth)))
        return UniformType(x.key, x.time, x.clock, probe.dtype, x.channels, x.timebase)

    def reach(self, x: WindowedType) -> Reach:
        """A sample needs all windows that cover it, and these end after it."""
        return Reach.samples(x.timebase, after=x.length - 1)

    def kernel(self, x: WindowedType) -> Kernel:
        """Collect."""
        return UnwindowKernel(x, self.function, self.type)


def depth_of(x: WindowedType) -> int:
    """How many windows may cover a sample."""
    return -(-x.length // x.hop)


class UnwindowKernel(OverlapAddKernel):
    """As overlap-add, with a column per window in place of one sum."""

    VERSION = 1
    keyed = True

    def __init__(self, kind: WindowedType, function: Callable[[Array], Array], out: UniformType) -> None:
        super().__init__(kind)
        self.function, self.out, self.depth = function, out, depth_of(kind)
        shape = (kind.length, kind.channels, self.depth) if kind.channels else (kind.length, self.depth)
        self.sums = SlotArrays(
            sum=Field(np.float64, np.nan, shape),
            last=Field(np.int64, MIN_TIME),
            owed=Field(np.int64, MIN_TIME),
        )

    def take(self, batch: Windows) -> Iterable[Batch]:
        """What no later window can cover."""
        return [self._made(b) for b in super().take(batch) if isinstance(b, Segments)]

    def _add(self, batch: Windows, slot: Ints, index: Ints, value: Array) -> int:
        """Write windows into their columns."""
        number = (batch.last - self.kind.size + 1) // self.kind.hop % self.depth
        width = max(self.kind.channels, 1)
        windows = laid_out(batch.values.astype(np.float64, copy=False)).reshape(-1, self.length, width)
        state = self.sums["sum"].reshape(len(self.sums), -1), self.sums["last"], self.sums["owed"]
        out = value.reshape(-1, width * self.depth)
        return int(_collect(batch.slot, batch.last, number, windows, *state, slot, index, out))

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """What the next window that progress allows cannot cover."""
        batches, mark = super().advance(marks)
        return [self._made(b) for b in batches if isinstance(b, Segments)], mark

    def _made(self, x: Segments) -> Segments:
        """One value per sample; the column of the oldest window that may cover it comes first."""
        if not len(x):
            return x.with_values(np.zeros(x.values.shape[:-1], self.out.dtype))
        newest = (x.sample_index + self.length - self.kind.size) // self.kind.hop
        turn = (newest[:, None] + 1 + np.arange(self.depth)) % self.depth
        turn = turn.reshape(len(turn), *(1 for _ in x.values.shape[2:]), self.depth)
        met = np.take_along_axis(x.values, turn, axis=-1)
        values = combine_covering(self.function, met.reshape(-1, self.depth)).reshape(met.shape[:-1])
        if not np.can_cast(values.dtype, self.out.dtype, "same_kind"):
            raise DataError(f"unwindow: the function gave {values.dtype}, and {self.out.dtype} when it was tried")
        return x.with_values(values.astype(self.out.dtype, copy=False))


def combine_covering(function: Callable[[Array], Array], values: Array) -> Array:
    """Call a user's function; a wrong shape or an exception names it."""
    name = name_of(function)
    out = call_guarded("unwindow", "it gets an array with a row per sample", function, values)
    if out.shape != (len(values),) or out.dtype.kind not in "iuf":
        raise DataError(
            f"unwindow: {name} turned an array of shape {values.shape} into {out.dtype} of shape {out.shape}",
            hint="it must give one number per row: reduce along axis 1",
        )
    return out


@compiled
def _collect(
    slot: Any,
    last: Any,
    column: Any,
    windows: Any,
    table: Any,
    prior: Any,
    owed: Any,
    out_slot: Any,
    out_index: Any,
    out_value: Any,
) -> int:
    """Write windows in order, each into its column; what the next window of the key cannot reach leaves."""
    length, channels, width, count = windows.shape[1], windows.shape[2], out_value.shape[1], 0
    depth = width // channels
    for w in range(len(slot)):
        rows = table[slot[w]]
        shift, count = write_finished(slot[w], last[w], rows, prior, owed, count, out_slot, out_index, out_value)
        kept = (length - shift) * width
        for i in range(kept):
            rows[i] = rows[i + shift * width]
        for i in range(kept, length * width):
            rows[i] = np.nan
        for i in range(length):
            for c in range(channels):
                rows[i * width + c * depth + column[w]] = windows[w, i, c]
    return count
