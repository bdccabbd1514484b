"""Functions of single samples: mapped, kept or dropped, clipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.ops.base_kernels import PointwiseKernel
from hydrophone.ops.signals.keep_samples import keep_samples
from hydrophone.ops.user.calls import as_declared, call_guarded, name_of
from hydrophone.ops.windows.refusals import refuse_complex
from hydrophone.plan.node import Node
from hydrophone.plan.types import UniformType

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class MapSamples(Node):
    """A user's function of every sample by itself: it gets an array with a row per sample, and gives one with as many rows.

    Many samples of many keys come in one call, however they lie in time: a row must depend on that row alone. Holes stay holes.
    """

    stable_name = "map_samples"

    function: Function

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "map"

    def output_type(self, x: UniformType) -> UniformType:
        """The function is tried on three samples of one."""
        probe = call_on_samples("map", self.function, _trial(x))
        channels = probe.shape[1] if probe.ndim == 2 else 0
        return replace(x, dtype=probe.dtype, channels=channels)

    def kernel(self, x: UniformType) -> Kernel:
        """Call it."""
        return PointwiseKernel(self._checked)

    def _checked(self, values: Array) -> Array:
        out = call_on_samples("map", self.function, values)
        return as_declared("map", self.function, out, self.type.dtype, self.type.channels)


@dataclass(frozen=True, kw_only=True, eq=False)
class WhereSamples(Node):
    """Keep the samples for which a user's function is true; the others become holes. As `MapSamples`, it must look at single samples."""

    stable_name = "where_samples"

    function: Function

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "where"

    def output_type(self, x: UniformType) -> UniformType:
        """As the input; the function is tried on three samples of one."""
        self.mask(_trial(x))
        return x

    def mask(self, values: Array) -> Array:
        """What is kept."""
        keep = call_on_samples("where", self.function, values, numbers="b")
        if keep.ndim != 1:
            raise DataError(
                f"where: {name_of(self.function)} gave an array of shape {keep.shape}",
                hint="give one truth value per sample; of channels: (v > 0).all(axis=1)",
            )
        return keep

    def kernel(self, x: UniformType) -> Kernel:
        """Choose."""
        return WhereSamplesKernel(self)


class WhereSamplesKernel(Stateless):
    """Drops samples."""

    def __init__(self, node: WhereSamples) -> None:
        self.node = node

    def map(self, batch: Batch) -> Batch:
        """Choose from one batch."""
        assert isinstance(batch, Segments)
        return keep_samples(batch, self.node.mask(batch.values))


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipSamples(Node):
    """Samples below `low` become `low`, those above `high` become `high`; reference: ``numpy.clip``. NaN stays."""

    stable_name = "clip_samples"

    low: float | int | None = None
    high: float | int | None = None

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "clip"

    def check(self) -> None:
        """Limits in order."""
        if self.low is None and self.high is None:
            raise ParameterError("clip: give low, high or both")
        if any(
            v is not None and (isinstance(v, bool) or not isinstance(v, int | float) or v != v) for v in self._limits
        ):
            raise ParameterError(f"clip: low and high must be numbers, got {self.low!r} and {self.high!r}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ParameterError(f"clip: low must not be above high, got {self.low!r} and {self.high!r}")

    @property
    def _limits(self) -> tuple[Any, Any]:
        return self.low, self.high

    def output_type(self, x: UniformType) -> UniformType:
        """As NumPy: whole numbers stay whole between whole limits."""
        refuse_complex("clip", x.dtype, "take magnitude() or real() first")
        try:
            return replace(x, dtype=np.clip(np.ones(1, x.dtype), self.low, self.high).dtype)
        except OverflowError:
            raise ParameterError(
                f"clip: a limit does not fit into samples of type {x.dtype}", hint="write it as a float"
            ) from None

    def kernel(self, x: UniformType) -> Kernel:
        """Clip."""
        return PointwiseKernel(lambda v: np.clip(v, self.low, self.high))


def _trial(x: UniformType) -> Array:
    # Another number of samples than of channels, so that a function that reduces the wrong axis is found out.
    rows = 4 if x.channels == 3 else 3
    return np.ones((rows, x.channels) if x.channels else rows, x.dtype)


def call_on_samples(what: str, function: Function, values: Array, numbers: str = "iufc") -> Array:
    """Call a user's function of samples; a wrong shape, a wrong type or an exception names it."""
    out = call_guarded(what, "it gets an array with a row per sample", function, values)
    if out.ndim not in (1, 2) or len(out) != len(values):
        raise DataError(
            f"{what}: {name_of(function)} turned an array of shape {values.shape} into {out.shape}",
            hint="it must give one row per sample",
        )
    if out.dtype.kind not in numbers:
        kinds = "truth values" if numbers == "b" else "numbers"
        raise DataError(f"{what}: {name_of(function)} gave {out.dtype}, and not {kinds}")
    return out
