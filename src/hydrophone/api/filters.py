"""Filters: samples in, as many samples out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hydrophone.api.query import Query
from hydrophone.errors import ParameterError
from hydrophone.ops.coefficients import check_coefficients
from hydrophone.ops.filters.ema import Ema
from hydrophone.ops.filters.fir import Fir
from hydrophone.ops.filters.sos import Sos
from hydrophone.plan.types import Missing


class Filters(Query):
    """Methods of `UniformSignal`."""

    def ema(self, alpha: float, *, missing: str = "fade") -> Self:
        """Exponential moving average: `alpha` of the new sample, the rest of the average so far; ``"fade"`` or ``"reset"`` at a hole.

        Reference: ``x.ewm(alpha=alpha, adjust=False).mean()`` in pandas, over ``x.reindex(all_beats).bfill()`` where there are holes.

        Start: the first sample of a key is its own average. Gap: ``"fade"`` weighs the past by the time that went by, as if the sample
        after the hole had been there all along: after `n` missing samples the past still counts ``(1 - alpha) ** (n + 1)``, and a long
        hole is a start without a jump. ``"reset"`` starts after any hole. End: nothing follows the last sample. A sample
        that is NaN or infinite gives NaN and counts as missing.
        """
        return self._then(Ema, alpha=alpha, missing=missing)

    def fir(self, taps: Sequence[float] | np.ndarray[Any, Any], *, missing: str = "zero") -> Self:
        """Weighted sum of the last ``len(taps)`` samples, newest first, as ``scipy.signal.lfilter(taps, 1, x)``."""
        found = check_coefficients(taps, "fir: taps")
        return self._then(Fir, taps=tuple(found.tolist()), missing=Missing.of(missing, "fir"))

    def sos(
        self,
        sections: np.ndarray[Any, Any] | Sequence[Sequence[float]],
        *,
        missing: str = "zero",
        initial: str = "rest",
    ) -> Self:
        """Second-order sections as SciPy designs them: ``signal.sos(scipy.signal.butter(4, 0.1, output="sos"))``.

        Start: at rest, as if zeros had come before, so that a low-pass of a signal around 20 begins at 0; with ``initial="steady"``
        as if the first sample had been there for ever (``scipy.signal.sosfilt_zi(sections) * x[0]``). Gap: ``missing="zero"`` rings on
        through the hole as through zeros and starts again after one that is longer than it rings, ``"reset"`` after any.
        End: nothing follows the last sample.
        """
        table = np.asarray(sections)
        if table.dtype.kind not in "iuf":
            raise ParameterError(
                f"sos: sections must be rows of six real coefficients, got {table.dtype} of shape {table.shape}",
                hint='scipy.signal.butter(..., output="sos"); iir takes complex coefficients',
            )
        table = table.astype(float)
        rows = tuple(tuple(r) for r in table.tolist()) if table.ndim == 2 else ()
        kind = Missing.of(missing, "sos", (Missing.ZERO, Missing.RESET))
        return self._then(Sos, sections=rows, missing=kind, initial=initial)
