"""Wavelets: methods of `UniformSignal` and `Windowed`."""

from __future__ import annotations

from typing import Any, Self

from hydrophone.api.query import Query
from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.resampling.downsample import Downsample
from hydrophone.ops.spectra.wavelets import Dwt, Idwt, WaveletEnergy, check_levels, discrete_wavelet
from hydrophone.plan.parameters import whole
from hydrophone.plan.types import Missing


class Wavelets(Query):
    """Methods of `UniformSignal`."""

    def dwt(self, wavelet: str, levels: int, *, missing: str = "zero") -> tuple[Self, ...]:
        """Wavelet coefficients of the whole signal: the approximation, then the details from the coarsest to the finest level.

        Reference: ``pywt.wavedec(x, wavelet, "zero", level=levels)`` from an index on that is a multiple of ``2**levels``. Each level is a
        signal of half the rate of the one before, and each coefficient lies at the last sample that it is made of. Start: zeros
        before the first sample, as there. End: coefficients that would need samples after the last one are left out, so that every
        level is the begin of PyWavelets'. Gap: at every level a hole counts as zeros, and there is no coefficient where the sample that
        it lies at is missing; ``missing="drop"`` gives only those that lack no sample.
        """
        levels = whole(levels, "dwt: levels")
        check_levels("dwt", levels)
        bank, policy = discrete_wavelet("dwt", wavelet), Missing.of(missing, "dwt", (Missing.ZERO, Missing.DROP))
        low, high = tuple(bank.dec_lo), tuple(bank.dec_hi)
        found: list[Self] = []
        rest: Any = self
        for _ in range(levels):
            found.append(rest._then(Fir, taps=high, missing=policy)._then(Downsample, n=2, phase=1))
            rest = rest._then(Fir, taps=low, missing=policy)._then(Downsample, n=2, phase=1)
        return (rest, *reversed(found))


class WindowWavelets(Query):
    """Methods of `Windowed`."""

    def dwt(self, wavelet: str, levels: int) -> Self:
        """Wavelet coefficients of every window, taken as periodic: the approximation, then the details from coarse to fine, end to end."""
        return self._then(Dwt, wavelet=wavelet, levels=levels)

    def idwt(self, wavelet: str, levels: int) -> Self:
        """Windows from the coefficients that `dwt` gave."""
        return self._then(Idwt, wavelet=wavelet, levels=levels)

    def wavelet_energy(self, levels: int, wavelet: str = "haar") -> Self:
        """The energy of every band of a window, ``levels + 1`` values: the approximation, then the details from coarse to fine."""
        return self._then(WaveletEnergy, wavelet=wavelet, levels=levels)
