"""Fir: a weighted sum of the last samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Ints, Segments
from hydrophone.model.kernel import Kernel
from hydrophone.ops.base_kernels import LookBackKernel
from hydrophone.ops.filters.convolution import convolve
from hydrophone.ops.filters.group_delay import polynomial_delay, radians_per_sample, rate_hz
from hydrophone.ops.filters.history import Seams
from hydrophone.ops.filters.long_fir import MIN_TAPS, LongFirKernel, block_size
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType


@dataclass(frozen=True, kw_only=True, eq=False)
class Fir(Node):
    """Weighted sum of the last ``len(taps)`` samples; reference: ``scipy.signal.lfilter(taps, 1, x)``.

    Start: zeros before the first sample (``drop``: no output until all taps have a sample). Gap: see `Missing`.
    End: nothing follows the last sample.

    From 256 taps on it is computed by FFT in blocks on the absolute grid, as ``scipy.signal.oaconvolve``: the error is below 1e-11 of
    the largest sample near, and a result comes when its block, about three times the taps, is complete.
    """

    stable_name = "fir"

    taps: tuple[float | complex, ...]
    missing: Missing = Missing.ZERO

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """At least one tap, all finite."""
        if not self.taps:
            raise ParameterError("fir: taps must hold at least one number", hint="scipy.signal.firwin designs some")
        if not np.isfinite(self.taps).all():
            raise ParameterError("fir: all taps must be finite")

    def output_type(self, x: UniformType) -> UniformType:
        """As SciPy: at least double precision."""
        dtype = np.result_type(x.dtype, np.float64, np.asarray(self.taps))
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """The samples under the taps; of many taps those of the whole block, which are filtered together."""
        wait = block_size(len(self.taps)) - 1 if self._long else 0
        return Reach.samples(x.timebase, before=len(self.taps) - 1 + wait, after=wait)

    @property
    def _long(self) -> bool:
        return len(self.taps) >= MIN_TAPS

    def group_delay(self, frequency: float) -> float:
        """That of the taps."""
        x = self.inputs[0].type
        return polynomial_delay(self.taps, radians_per_sample(frequency, x)) / rate_hz(x)

    def kernel(self, x: UniformType) -> Kernel:
        """Convolve: by FFT where there are many taps."""
        return (LongFirKernel if self._long else FirKernel)(np.asarray(self.taps), self.missing, self.type)


class FirKernel(LookBackKernel):
    """A compiled convolution over the runs of all keys, each with its own history in front."""

    def __init__(self, taps: npt.NDArray[Any], missing: Missing, out: UniformType) -> None:
        super().__init__(out, len(taps) - 1, missing)
        self.taps, self.missing, self.out = taps, missing, out

    def take(self, batch: Segments) -> Iterable[Batch]:
        """Filter one batch."""
        dtype = np.dtype(np.float64) if batch.values.dtype.kind != "c" else self.out.dtype
        batch = batch.with_values(np.ascontiguousarray(batch.values, dtype))
        seams = self.history.seams(batch, len(self.keys))
        y = batch.with_values(_fir(batch, seams, self.taps.astype(self.out.dtype)))
        return (self.history.complete(y, seams.seen) if self.missing is Missing.DROP else y,)


def _fir(x: Segments, seams: Seams, taps: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The filtered segments; sums are taken tap by tap, so that no cut can change a bit of them.

    Complex taps over real samples are two real filters. Their zeros are left out where samples are finite: these change no sum.
    """
    lags = np.arange(len(taps))
    if x.values.dtype == taps.dtype:
        return _sums(x, seams, lags, taps)
    if not (np.isfinite(x.values).all() and np.isfinite(seams.values).all()):
        return _sums(x.with_values(x.values.astype(taps.dtype)), seams, lags, taps)
    out = np.empty(x.values.shape, taps.dtype)
    real = replace(seams, values=np.ascontiguousarray(seams.values.real))
    for part, weights in ((out.real, taps.real), (out.imag, taps.imag)):
        lags = np.flatnonzero(weights)
        part[...] = _sums(x, real, lags, weights[lags])
    return out


def _sums(x: Segments, seams: Seams, lags: Ints, taps: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The begin of every segment from the seams, the rest from the batch itself."""
    out = np.empty(x.values.shape, taps.dtype)
    width = out.shape[1] if out.ndim > 1 else 1
    begin, end = x.offsets[:-1] * width, x.offsets[1:] * width
    middle = begin + seams.heads * width
    convolve(seams.values.reshape(-1), seams.at * width, begin, middle, lags, taps, width, out.reshape(-1))
    if (middle < end).any():
        convolve(x.values.reshape(-1), middle, middle, end, lags, taps, width, out.reshape(-1))
    return out
