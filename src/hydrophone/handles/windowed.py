"""Windows: arrays of samples, one for every hop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hydrophone.handles.arrays import Arrays
from hydrophone.handles.own import OwnIterations
from hydrophone.handles.reductions import Reductions
from hydrophone.handles.spectra import WindowSpectra
from hydrophone.handles.wavelets import WindowWavelets
from hydrophone.ops.overlap_add import OverlapAdd
from hydrophone.ops.windows import Fft, Ifft, Irfft, MapWindows, Rfft, WindowChannel
from hydrophone.plan.types import WindowedType

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal


class Windowed(Arrays, Reductions, WindowSpectra, WindowWavelets, OwnIterations, of=WindowedType):
    """Arrays of samples; array operators compose until `overlap_add` or nothing ends them."""

    def fft(self) -> Windowed:
        """Full spectrum."""
        return self._then(Fft)

    def ifft(self) -> Windowed:
        """Windows from their full spectrum."""
        return self._then(Ifft)

    def rfft(self) -> Windowed:
        """Spectrum of real windows."""
        return self._then(Rfft)

    def irfft(self) -> Windowed:
        """Real windows from their spectrum."""
        return self._then(Irfft)

    def map(self, function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Windowed:
        """A function over many windows at once: an array with a row per window in, one with as many rows out.

        Of windows with channels every channel is a row of its own.
        """
        return self._then(MapWindows, function=function)

    def channel(self, number: int) -> Windowed:
        """One channel of the windows of a vector signal."""
        return self._then(WindowChannel, number=number)

    def overlap_add(self) -> UniformSignal:
        """Lay the windows back on the time axis and add where they overlap; a spectrum goes back by `irfft` or `ifft` first."""
        return self._then(OverlapAdd)
