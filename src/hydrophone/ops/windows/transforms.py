"""Fourier transforms of windows: rfft, irfft, fft, ifft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # scipy.fft is loaded when it is first used

from hydrophone.errors import SignalTypeError
from hydrophone.model.batch import Batch, Windows
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.plan.node import Node
from hydrophone.plan.types import WindowedType


def spectrum_dtype(values: np.dtype[Any]) -> np.dtype[Any]:
    """What SciPy transforms these values to: single precision stays so, whole numbers of any width become double."""
    return np.dtype(scipy.fft.fft(np.zeros(1, values)).dtype)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rfft(Node):
    """Spectrum of real windows; reference: ``numpy.fft.rfft``."""

    stable_name = "rfft"

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """Half the values, and complex."""
        if x.dtype.kind == "c":
            raise SignalTypeError("rfft: the windows are complex", hint="use fft, which is for complex values")
        return replace(x, dtype=spectrum_dtype(x.dtype), length=x.length // 2 + 1, two_sided=False, lines_of=x.length)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.rfft)


@dataclass(frozen=True, kw_only=True, eq=False)
class Irfft(Node):
    """Real windows from their spectrum; reference: ``numpy.fft.irfft`` with the window's size."""

    stable_name = "irfft"

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """As many real values as the window has samples."""
        if x.length != x.size // 2 + 1 or x.two_sided:
            whole = ", a whole spectrum" if x.two_sided else ""
            raise SignalTypeError(
                f"irfft: expected {x.size // 2 + 1} values for windows of {x.size} samples, got {x.length}{whole}",
                hint="irfft undoes rfft, ifft undoes fft",
            )
        dtype = np.dtype(np.float32 if x.dtype == np.complex64 else np.float64)
        return replace(x, dtype=dtype, length=x.size, lines_of=0)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.irfft, x.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fft(Node):
    """Full spectrum of windows; reference: ``numpy.fft.fft``."""

    stable_name = "fft"

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """Complex."""
        return replace(x, dtype=spectrum_dtype(x.dtype), two_sided=True, lines_of=x.length)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.fft)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ifft(Node):
    """Windows from their full spectrum; reference: ``numpy.fft.ifft``. The result is complex."""

    stable_name = "ifft"

    gives = None

    def output_type(self, x: WindowedType) -> WindowedType:
        """Complex."""
        return replace(x, dtype=spectrum_dtype(x.dtype), two_sided=False, lines_of=0)

    def kernel(self, x: WindowedType) -> Kernel:
        """Row by row."""
        return Rows(scipy.fft.ifft)


class Rows(Stateless):
    """A transform of every row by itself: a NaN in one key's window stays there."""

    def __init__(self, transform: Callable[..., Any], length: int | None = None) -> None:
        self.transform, self.length = transform, length

    def map(self, batch: Batch) -> Batch:
        """Transform one batch."""
        assert isinstance(batch, Windows)
        if len(batch):
            return batch.with_values(self.transform(batch.values, n=self.length, axis=-1))
        one = np.ones_like(batch.values, shape=(1, *batch.values.shape[1:]))
        return batch.with_values(self.transform(one, n=self.length, axis=-1)[:0])
