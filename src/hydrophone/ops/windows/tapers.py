"""Tapers: the weights of a window by name, as SciPy designs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.errors import ParameterError, user_line
from hydrophone.ops.coefficients import check_coefficients, is_window_name


def taper(window: Any, length: int, what: str, *, real: bool = False) -> tuple[float, ...]:
    """The weights that a name, tuple (``scipy.signal.get_window``) or array stands for."""
    if not is_window_name(window):
        return tuple(check_coefficients(window, f"{what}: window", real=real).tolist())
    import scipy.signal  # here, because it takes as long to load as all the rest, in every Spark worker too

    try:
        return tuple(scipy.signal.get_window(window, length).tolist())
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"{what}: scipy.signal.get_window does not know {window!r}: {error}",
            hint='"hann", "hamming", "boxcar", ("kaiser", 8.0), or an array of weights',
            where=user_line(),
        ) from error


def dual(weights: tuple[float, ...], hop: int) -> tuple[float, ...]:
    """The weights that undo a taper by overlap-add: SciPy's canonical dual window."""
    import scipy.signal  # see above

    try:
        made = scipy.signal.ShortTimeFFT(np.asarray(weights), hop, 1.0, fft_mode="twosided").dual_win
    except ValueError as error:
        raise ParameterError(
            f"istft: windows every {hop} samples cannot be undone: {error}",
            hint="take a hop of at most half the size, and the taper of stft",
            where=user_line(),
        ) from error
    return tuple(made.conj().tolist())  # SciPy weighs by the conjugate, we by the window itself


def one_sided(size: int) -> np.ndarray[Any, Any]:
    """How often each line of a one-sided spectrum counts: all but the first, and the last of an even size, stand for two."""
    lines = np.full(size // 2 + 1, 2.0)
    lines[0] = 1
    if size % 2 == 0:
        lines[-1] = 1
    return lines
