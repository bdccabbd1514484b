"""Zip: two signals as the channels of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hydrophone.model.kernel import Kernel
from hydrophone.ops.signals.arithmetic import CombineKernel, check_pair
from hydrophone.plan.node import Node, Order
from hydrophone.plan.types import UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Zip(Node):
    """The channels of two signals beside each other, where both have a sample; reference: ``numpy.column_stack``. Elsewhere: a hole."""

    stable_name = "zip"

    needs = Order.INDEX
    gives = Order.INDEX

    def output_type(self, a: UniformType, b: UniformType) -> UniformType:
        """The channels of both, in the type that holds both."""
        check_pair("zip", a, b)
        channels = max(a.channels, 1) + max(b.channels, 1)
        return UniformType(a.key, a.time, a.clock, np.result_type(a.dtype, b.dtype), channels, a.timebase)

    def kernel(self, a: UniformType, b: UniformType) -> Kernel:
        """Match samples."""
        return CombineKernel(_beside, broadcast=False)


def _beside(a: Any, b: Any) -> Any:
    return np.column_stack((a, b))
