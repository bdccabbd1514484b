"""MapWindows: a user-defined function of windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError
from hydrophone.model.batch import Batch, Windows
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.ops.user.calls import call_guarded, name_of
from hydrophone.plan.node import Node
from hydrophone.plan.types import WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class MapWindows(Node):
    """A user's function over windows: it gets a two-dimensional array with a row per window, and gives one with as many rows.

    Of windows with channels every channel is a row of its own.
    """

    stable_name = "map_windows"

    function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "map"

    def output_type(self, x: WindowedType) -> WindowedType:
        """The function is tried on two windows of zeros."""
        probe = call_on_window(self.function, np.zeros((2, x.length), x.dtype))
        return x.with_arrays(probe.dtype, probe.shape[1])

    def kernel(self, x: WindowedType) -> Kernel:
        """Call it."""
        return MapWindowsKernel(self.function, self.type)


class MapWindowsKernel(Stateless):
    """Calls the function and checks what comes back."""

    def __init__(self, function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], out: WindowedType) -> None:
        self.function, self.out = function, out

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Windows)
        if not len(batch):
            return batch.with_rows(np.zeros((0, self.out.length), self.out.dtype))
        values = call_on_window(self.function, batch.rows)
        if values.shape[1] != self.out.length:
            raise DataError(
                f"map: {name_of(self.function)} gave windows of {values.shape[1]} values, and {self.out.length} when it was tried",
                hint="the length must not depend on the data; fill up with zeros",
            )
        if not np.can_cast(values.dtype, self.out.dtype, "same_kind"):
            raise DataError(
                f"map: {name_of(self.function)} gave {values.dtype}, and {self.out.dtype} when it was tried",
                hint="the type must not depend on the data; end with .astype(...)",
            )
        return batch.with_rows(values.astype(self.out.dtype, copy=False))


def call_on_window(
    function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], windows: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Call a user's window function; a wrong shape or an exception names the function."""
    values = call_guarded("map", "it gets an array with a row per window", function, windows)
    if values.ndim == 1 and len(values) == len(windows):
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(windows):
        raise DataError(
            f"map: {name_of(function)} turned an array of shape {windows.shape} into {values.shape}",
            hint="it must give one row per window; reduce along axis 1",
        )
    return values
