"""Group delay: by how much the filters of a chain delay a tone."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.handles.lengths import hertz, rate
from hydrophone.handles.query import Query
from hydrophone.ops.ahead import FirAhead
from hydrophone.ops.arithmetic import Scalar
from hydrophone.ops.filters import Fir, Sos
from hydrophone.ops.iir import Iir
from hydrophone.ops.polyphase import ResamplePoly
from hydrophone.ops.rates import ShiftTime
from hydrophone.ops.shift import Shift
from hydrophone.plan.node import Node


class Delays(Query):
    """Methods of `UniformSignal`."""

    def group_delay(self, frequency: float | str) -> float:
        """By how many seconds the filters that made this signal delay a tone: ``scipy.signal.group_delay``, added up along the chain.

        The chain goes back over `fir`, `iir`, `sos` and what is made of them, shifts, products with numbers and `resample_poly` (which has
        no delay) to the first other operator. NaN at a frequency that a filter takes away. ``shift(-n)`` makes up for a delay of n samples.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> x = hp.from_arrow(pa.table({"t": [0], "v": [1.0]}), time="t").signal("v").sample("1ms")
        >>> x.lowpass(100, taps=51).group_delay(20), x.lowpass(100, taps=51).shift(-25).group_delay(20)
        (0.025, 0.0)
        """
        at, node, total = hertz(frequency, self.node.type, "group_delay: frequency"), self.node, 0.0
        while (own := _own(node, at)) is not None:
            total, node = total + own, node.inputs[0]
        return round(total, 12) + 0.0  # no minus zero


def _own(node: Node, frequency: float) -> float | None:
    """The delay of one operator in seconds, or None where there is no such thing."""
    if isinstance(node, ShiftTime):
        return node.by / 1e9
    if isinstance(node, ResamplePoly) or (
        isinstance(node, Scalar) and (node.operation == "*" or (node.operation == "/" and not node.reflected))
    ):
        return 0.0
    if not isinstance(node, Fir | FirAhead | Iir | Sos | Shift):
        return None
    fs = rate(node.inputs[0].type, "group_delay")
    w = 2 * np.pi * frequency / fs
    if isinstance(node, Shift):
        return node.samples / fs
    if isinstance(node, Fir):
        return _delay(node.taps, w) / fs
    if isinstance(node, FirAhead):
        return -_delay(node.taps, -w) / fs
    if isinstance(node, Iir):
        return (_delay(node.b, w) - _delay(node.a, w)) / fs
    return sum(_delay(s[:3], w) - _delay(s[3:], w) for s in node.sections) / fs


def _delay(polynomial: Any, w: float) -> float:
    """In samples: minus the derivative of the phase of ``sum(c[k] * exp(-1j * w * k))``."""
    k = np.arange(len(polynomial))
    terms = np.asarray(polynomial) * np.exp(-1j * w * k)
    whole = terms.sum()
    if abs(whole) <= len(k) * np.finfo(np.float64).eps * np.abs(terms).sum():
        return float("nan")
    return float(((k * terms).sum() / whole).real)
