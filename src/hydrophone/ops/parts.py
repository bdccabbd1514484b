"""Parts of complex samples, each by itself; and the length of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.batch import Batch, Segments
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Stateless
from hydrophone.plan.node import Node
from hydrophone.plan.types import UniformType

PARTS: dict[str, Callable[[Any], Any]] = {
    "magnitude": np.abs,
    "angle": np.angle,
    "real": np.real,
    "imag": np.imag,
    "conjugate": np.conjugate,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Part(Node):
    """One part of every sample; reference: ``numpy.abs``, ``angle``, ``real``, ``imag`` and ``conjugate``. Real samples have these too."""

    which: str

    gives = None

    def check(self) -> None:
        """A known part."""
        if self.which not in PARTS:
            raise ParameterError(f"part: no part {self.which!r}; there are: {', '.join(PARTS)}")

    def output_type(self, x: UniformType) -> UniformType:
        """As NumPy."""
        dtype = PARTS[self.which](np.ones(1, x.dtype)).dtype
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """Sample by sample."""
        return PartKernel(PARTS[self.which])


class PartKernel(Stateless):
    """One NumPy function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def map(self, batch: Batch) -> Batch:
        """Map one batch."""
        assert isinstance(batch, Segments)
        with np.errstate(all="ignore"):
            return batch.with_values(np.ascontiguousarray(self.function(batch.values)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Norm(Node):
    """The length of every sample as a vector of its channels; reference: ``numpy.linalg.norm(x, axis=1)``. NaN in a channel gives NaN."""

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """As NumPy: real, and whole numbers become floats, before they are squared."""
        dtype = np.linalg.norm(np.ones((1, 1), x.dtype), axis=1).dtype
        return UniformType(x.key, x.time, x.clock, dtype, 0, x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """Sample by sample."""
        return PartKernel(_norm)


def _norm(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.linalg.norm(values.reshape(len(values), -1), axis=1)
