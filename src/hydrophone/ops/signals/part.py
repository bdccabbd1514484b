"""Part: one part of complex samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.errors import ParameterError
from hydrophone.model.kernel import Kernel
from hydrophone.ops.base_kernels import PointwiseKernel
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

    stable_name = "part"

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
        part = PARTS[self.which]
        return PointwiseKernel(lambda v: np.ascontiguousarray(part(v)))  # one layout, for what is compiled
