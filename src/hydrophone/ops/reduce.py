"""One value per window: from windows to samples again, on the exact grid of the hops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.batch import Batch, Segments, Windows
from hydrophone.errors import DataError, ParameterError
from hydrophone.kernel import Kernel, Marks
from hydrophone.marks import Mark
from hydrophone.ops.calls import guarded, name_of
from hydrophone.ops.regrid import Regrid
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import UniformType, WindowedType
from hydrophone.timebase import Timebase

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
    lie at the last sample of each window, or with ``at="start"`` at the first. Channels are reduced each by itself.

    Start, gap and end: where there is no window there is a hole.
    """

    function: Callable[..., Any]
    at: str = "end"

    gives = None

    def check(self) -> None:
        """A place."""
        check_at("reduce", self.at)

    def output_type(self, x: WindowedType) -> UniformType:
        """The function is tried on two or three windows of ones."""
        # As many rows as there are no values, so that a function that reduces the wrong axis is found out.
        probe = one_each(self.function, np.ones((3 if x.length == 2 else 2, x.length), x.dtype))
        grid = Label(x.size, x.hop, self.at).regrid
        return UniformType(x.key, x.time, x.clock, probe.dtype, x.channels, grid.timebase(x.timebase))

    def reach(self, x: WindowedType) -> Reach:
        """The window itself."""
        return Label(x.size, x.hop, self.at).reach(x.timebase)

    def kernel(self, x: WindowedType) -> Kernel:
        """Call it."""
        return ReduceKernel(lambda windows: self._checked(windows), x, self.at)

    def _checked(self, windows: Array) -> Array:
        values = one_each(self.function, windows)
        if not np.can_cast(values.dtype, self.type.dtype, "same_kind"):
            raise DataError(
                f"reduce: {name_of(self.function)} gave {values.dtype}, and {self.type.dtype} when it was tried",
                hint="the type must not depend on the data; end with .astype(...)",
            )
        return values.astype(self.type.dtype, copy=False)


class ReduceKernel(Kernel):
    """Calls a function of arrays and lays its values on the grid of the hops."""

    keyed = True

    def __init__(self, function: Callable[[Array], Array], kind: WindowedType, at: str) -> None:
        self.function, self.timebase = function, kind.timebase
        self.label = Label(kind.size, kind.hop, at)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Reduce one batch."""
        assert isinstance(batch, Windows)
        if not len(batch):
            return ()
        base = self.label.regrid.bases(batch.base)
        values = self.function(batch.rows).reshape(batch.values.shape[:-1])
        return (Segments.of_samples(batch.slot, self.label.index(batch.last), values, base),)

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Nothing waits."""
        return (), self.label.mark(marks[0], self.timebase)


def one_each(function: Callable[..., Any], windows: Array) -> Array:
    """Call a user's function; a wrong shape or an exception names it."""
    options: dict[str, Any] = {"axis": 1} if _has_axis(function) else {}
    values = guarded("reduce", "it gets an array with a row per window", function, windows, **options)
    if values.shape == (len(windows), 1):
        values = values[:, 0]
    if values.shape != (len(windows),):
        raise DataError(
            f"reduce: {name_of(function)} turned an array of shape {windows.shape} into {values.shape}",
            hint="it must give one value per window: reduce along axis 1; map gives arrays",
        )
    if values.dtype.kind not in "iufc":
        raise DataError(
            f"reduce: {name_of(function)} gave {values.dtype}, which is no number", hint="end with .astype(float)"
        )
    return values


def _has_axis(function: Callable[..., Any]) -> bool:
    try:
        return "axis" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
