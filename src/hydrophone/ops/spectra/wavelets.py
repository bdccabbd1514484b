"""Wavelets of windows, by PyWavelets: coefficients of several levels, back again, and the energy of each band."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.ops.windows.arrays import RowByRow
from hydrophone.plan.node import Node
from hydrophone.plan.types import WindowedType

Array = npt.NDArray[Any]

MODE = "periodization"
"""A window is taken as one turn of a signal that repeats: there are as many coefficients as samples, and no others."""


def discrete_wavelet(what: str, name: object) -> Any:
    """The wavelet of this name; ``pywt.wavelist(kind="discrete")`` has them all."""
    import pywt  # here, because not every worker needs it

    if not isinstance(name, str) or name not in pywt.wavelist(kind="discrete"):
        raise ParameterError(
            f"{what}: no discrete wavelet is called {name!r}", hint="such as 'haar', 'db4', 'sym5', 'coif2', 'bior2.2'"
        )
    return pywt.Wavelet(name)


def check_levels(what: str, levels: object) -> None:
    """At least one."""
    if isinstance(levels, bool) or not isinstance(levels, int) or not 1 <= levels <= 40:
        raise ParameterError(f"{what}: levels must be a whole number from 1 to 40, got {levels!r}")


def _accept(what: str, wavelet: str, levels: int, length: int) -> None:
    import pywt

    if length % 2**levels:
        raise ParameterError(
            f"{what}: windows of {length} values cannot be halved {levels} times",
            hint=f"take windows of a multiple of {2**levels} samples, or fewer levels",
        )
    most = pywt.dwt_max_level(length, discrete_wavelet(what, wavelet).dec_len)
    if levels > most:
        raise ParameterError(
            f"{what}: {levels} levels of {wavelet!r} need longer windows than {length} values",
            hint=f"at most {most} here" if most else "larger windows, or a shorter wavelet such as 'haar'",
        )


def bands(length: int, levels: int) -> list[slice]:
    """Where the coefficients lie: the approximation, then the details from the coarsest to the finest level."""
    edges = [0, *(length >> level for level in range(levels, -1, -1))]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dwt(RowByRow, Node):
    """Wavelet coefficients of every window by itself; reference: ``pywt.wavedec(x, wavelet, "periodization", level=levels)``, end to end.

    Every row holds the approximation, then the details from the coarsest to the finest level: as many values as samples. A value that is
    not finite shows in the coefficients whose wavelet covers it.
    """

    stable_name = "dwt"

    wavelet: str
    levels: int

    def check(self) -> None:
        """A wavelet and its levels."""
        discrete_wavelet("dwt", self.wavelet)
        check_levels("dwt", self.levels)

    def accept(self, x: WindowedType) -> None:
        """Windows that can be halved so often."""
        _accept("dwt", self.wavelet, self.levels, x.length)

    def rows(self, windows: Array) -> Array:
        """All levels of all windows."""
        import pywt

        return np.concatenate(pywt.wavedec(windows, self.wavelet, MODE, self.levels, axis=1), axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Idwt(RowByRow, Node):
    """Windows from their coefficients; reference: ``pywt.waverec(coefficients, wavelet, "periodization")``. Undoes `Dwt`."""

    stable_name = "idwt"

    wavelet: str
    levels: int

    def check(self) -> None:
        """A wavelet and its levels."""
        discrete_wavelet("idwt", self.wavelet)
        check_levels("idwt", self.levels)

    def accept(self, x: WindowedType) -> None:
        """Arrays that a `Dwt` can have made."""
        _accept("idwt", self.wavelet, self.levels, x.length)

    def rows(self, windows: Array) -> Array:
        """All levels of all windows."""
        import pywt

        parts = [windows[:, band] for band in bands(windows.shape[1], self.levels)]
        out: Array = pywt.waverec(parts, self.wavelet, MODE, axis=1)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class WaveletEnergy(RowByRow, Node):
    """The energy of every band of a window: of the approximation, then of the details from the coarsest to the finest level.

    Reference: the sums of squares of the arrays of ``pywt.wavedec(x, wavelet, "periodization", level=levels)``. With an orthogonal
    wavelet (Haar, Daubechies, symlets, coiflets) they add up to the energy of the window.
    """

    stable_name = "wavelet_energy"

    wavelet: str = "haar"
    levels: int

    def check(self) -> None:
        """A wavelet and its levels."""
        discrete_wavelet("wavelet_energy", self.wavelet)
        check_levels("wavelet_energy", self.levels)

    def accept(self, x: WindowedType) -> None:
        """Windows of samples."""
        if x.dtype.kind not in "fiuc":
            raise SignalTypeError(f"wavelet_energy: windows of {x.dtype} have no energy")
        _accept("wavelet_energy", self.wavelet, self.levels, x.length)

    def rows(self, windows: Array) -> Array:
        """A sum of squares for each band."""
        import pywt

        found = pywt.wavedec(windows, self.wavelet, MODE, self.levels, axis=1)
        return np.stack([(c.real**2 + c.imag**2).sum(axis=1) for c in found], axis=1)
