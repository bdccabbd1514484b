"""One value per window: from windows to samples again, on the exact grid of the hops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Events, Segments, Windows
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.timebase import Timebase
from hydrophone.ops.relational.rows import sample_columns
from hydrophone.ops.resampling.regrid import Regrid
from hydrophone.ops.user.calls import call_guarded, name_of
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType, UniformType, WindowedType, arrow_type, sample_names, value_dtype

Array = npt.NDArray[Any]
AT = ("end", "start")


@dataclass(frozen=True)
class Label:
    """Where on the time axis the value of a window lies: at its last sample (``end``) or its first (``start``)."""

    size: int
    hop: int
    at: str

    @property
    def offset(self) -> int:
        """Samples from the first of the window to the label."""
        return self.size - 1 if self.at == "end" else 0

    @property
    def regrid(self) -> Regrid:
        """The grid of the labels."""
        return Regrid(Fraction(self.hop), self.offset % self.hop)

    def index(self, last: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """On the grid of the labels, from the index of a window's last sample."""
        return (last - (self.size - 1) + self.offset - self.regrid.phase) // self.hop

    def reach(self, timebase: Timebase | None) -> Reach:
        """From the label to the window's instant, which is that of its last sample."""
        if self.at == "start":
            return Reach.samples(timebase, after=self.size - 1)
        return Reach() if self.regrid.exact(timebase) else Reach(after=1)

    def mark(self, mark: Mark, timebase: Timebase | None) -> Mark:
        """No label of a window that ends at or after `mark` lies before this."""
        return self.regrid.mark(mark, timebase, back=self.size - 1 - self.offset)


def check_at(what: str, at: str) -> None:
    """A user's word for where the value of a window lies."""
    if at not in AT:
        raise ParameterError(
            f"{what}: at must be 'end' or 'start', got {at!r}",
            hint="'end': the value lies at the last sample of its window, 'start': at the first",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduce(Node):
    """One value per window, from a user's function; reference: the function on ``sliding_window_view(x, size)[::hop]``.

    A function with a parameter `axis` (all of NumPy's) is called with ``axis=1``; any other gets an array with a row per
    window and gives one value for each. The result is a uniform signal with the period ``hop * period``, exactly; its samples
    lie at the last sample of each window, or with ``at="start"`` at the first. Channels are reduced each by itself. Windows that carry
    columns of events become events with these columns and the value.

    Start, gap and end: where there is no window there is a hole.
    """

    stable_name = "reduce"

    function: Callable[..., Any]
    at: str = "end"
    what: str = "reduce"
    """What the user wrote, for errors."""

    gives = None

    def check(self) -> None:
        """A place."""
        check_at(self.what, self.at)

    @cached_property
    def order(self) -> Order:
        """That of the windows; values with labels may tie."""
        return labelled_order(self)

    def output_type(self, x: WindowedType) -> UniformType | StreamType:
        """The function is tried on two or three windows of ones."""
        # As many rows as there are no values, so that a function that reduces the wrong axis is found out.
        probe = reduce_windows(self.what, self.function, np.ones((3 if x.length == 2 else 2, x.length), x.dtype))
        return reduced_type(self.what, x, probe.dtype, self.at)

    def reach(self, x: WindowedType) -> Reach:
        """The window itself."""
        return Label(x.size, x.hop, self.at).reach(x.timebase)

    def kernel(self, x: WindowedType) -> Kernel:
        """Call it."""
        return ReduceKernel(lambda windows: self._checked(windows), x, self.type, self.at)

    def _checked(self, windows: Array) -> Array:
        values, dtype = reduce_windows(self.what, self.function, windows), reduced_dtype(self.type)
        if not np.can_cast(values.dtype, dtype, "same_kind"):
            raise DataError(
                f"{self.what}: {name_of(self.function)} gave {values.dtype}, and {dtype} when it was tried",
                hint="the type must not depend on the data; end with .astype(...)",
            )
        return values.astype(dtype, copy=False)


def reduced_type(what: str, x: WindowedType, dtype: np.dtype[Any], at: str) -> UniformType | StreamType:
    """One value per window (and channel): samples on the grid of the hops, or where windows carry columns, events with these."""
    if not x.labels:
        grid = Label(x.size, x.hop, at).regrid
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, grid.timebase(x.timebase))
    taken = {*x.key.names, x.time, *x.labels.names} & set(sample_names(x))
    if taken:
        raise ParameterError(
            f"{what}: the result would have two columns {min(taken)!r}",
            hint="give the other one another name first: events.with_columns(cue=hp.col(...))",
        )
    values = [pa.field(n, arrow_type(dtype)) for n in sample_names(x)]
    return StreamType(x.key, x.time, x.clock, pa.schema([*x.labels, *values]), None)


def reduced_dtype(kind: UniformType | StreamType) -> np.dtype[Any]:
    """The type of the values that `reduced_type` has room for."""
    return kind.dtype if isinstance(kind, UniformType) else value_dtype(kind.columns.field(-1), "reduce")


def labelled_order(node: Node) -> Order:
    """Samples leave as their windows; events may tie, and in which order depends on what came when."""
    node.bottom_up("order")
    return Order.ANY if isinstance(node.type, StreamType) else node.inputs[0].order


class ReduceKernel(Kernel):
    """Calls a function of arrays and lays its values on the grid of the hops."""

    keyed = True

    def __init__(
        self, function: Callable[[Array], Array], kind: WindowedType, out: UniformType | StreamType, at: str
    ) -> None:
        self.function, self.timebase, self.out = function, kind.timebase, out
        self.label = Label(kind.size, kind.hop, at)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Reduce one batch."""
        assert isinstance(batch, Windows)
        if not len(batch):
            return ()
        base, index = self.label.regrid.bases(batch.base), self.label.index(batch.last)
        values = self.function(batch.rows).reshape(batch.values.shape[:-1])
        if batch.labels is None:
            return (Segments.of_samples(batch.slot, index, values, base),)
        assert isinstance(self.out, StreamType)
        columns = pa.table([*batch.labels.columns, *sample_columns(values)], schema=self.out.columns)
        return (Events(batch.slot, base.times(batch.slot, index), None, columns),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Nothing waits."""
        return (), self.label.mark(marks[0], self.timebase)


def reduce_windows(what: str, function: Callable[..., Any], windows: Array) -> Array:
    """Call a user's function; a wrong shape or an exception names it."""
    options: dict[str, Any] = {"axis": 1} if _has_axis(function) else {}
    values = call_guarded(what, "it gets an array with a row per window", function, windows, **options)
    if values.shape == (len(windows), 1):
        values = values[:, 0]
    if values.shape != (len(windows),):
        raise DataError(
            f"{what}: {name_of(function)} turned an array of shape {windows.shape} into {values.shape}",
            hint="it must give one value per window: reduce along axis 1; map gives arrays",
        )
    if values.dtype.kind not in "iufc":
        raise DataError(
            f"{what}: {name_of(function)} gave {values.dtype}, which is no number", hint="end with .astype(float)"
        )
    return values


def _has_axis(function: Callable[..., Any]) -> bool:
    try:
        return "axis" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
