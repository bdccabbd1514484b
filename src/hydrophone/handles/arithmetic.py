"""``+ - * /`` between uniform signals, with numbers and with functions of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hydrophone.handles.query import Query
from hydrophone.ops.arithmetic import Combine, Scalar
from hydrophone.ops.functions import Modulate, TimeFunction

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal


class Arithmetic(Query):
    """Methods of `UniformSignal`."""

    def _combine(self, operation: str, other: object, reflected: bool = False) -> UniformSignal:
        if isinstance(other, Arithmetic):
            return self._then(Combine, other, operation=operation)
        if isinstance(other, TimeFunction):
            return self._then(Modulate, operation=operation, function=other, reflected=reflected)
        if isinstance(other, np.generic):
            other = other.item()
        return self._then(Scalar, operation=operation, number=other, reflected=reflected)

    def __add__(self, other: object) -> UniformSignal:
        return self._combine("+", other)

    def __radd__(self, other: object) -> UniformSignal:
        return self._combine("+", other, reflected=True)

    def __sub__(self, other: object) -> UniformSignal:
        return self._combine("-", other)

    def __rsub__(self, other: object) -> UniformSignal:
        return self._combine("-", other, reflected=True)

    def __mul__(self, other: object) -> UniformSignal:
        return self._combine("*", other)

    def __rmul__(self, other: object) -> UniformSignal:
        return self._combine("*", other, reflected=True)

    def __truediv__(self, other: object) -> UniformSignal:
        return self._combine("/", other)

    def __rtruediv__(self, other: object) -> UniformSignal:
        return self._combine("/", other, reflected=True)
