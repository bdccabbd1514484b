"""Norm: the length of samples as vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.model.kernel import Kernel
from hydrophone.ops.base_kernels import PointwiseKernel
from hydrophone.plan.node import Node
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Norm(Node):
    """The length of every sample as a vector of its channels; reference: ``numpy.linalg.norm(x, axis=1)``. NaN in a channel gives NaN."""

    stable_name = "norm"

    gives = None

    def output_type(self, x: UniformType) -> UniformType:
        """As NumPy: real, and whole numbers become floats, before they are squared."""
        dtype = np.linalg.norm(np.ones((1, 1), x.dtype), axis=1).dtype
        return UniformType(x.key, x.time, x.clock, dtype, 0, x.timebase)

    def kernel(self, x: UniformType) -> Kernel:
        """Sample by sample."""
        return PointwiseKernel(_norm)


def _norm(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.linalg.norm(values.reshape(len(values), -1), axis=1)
