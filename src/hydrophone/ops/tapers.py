"""Tapers: the weights of a window by name, as SciPy designs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.errors import ParameterError, user_line


def taper(window: Any, length: int, what: str) -> tuple[float, ...]:
    """The weights that a name, tuple (``scipy.signal.get_window``) or array stands for."""
    if not isinstance(window, str | tuple) or (isinstance(window, tuple) and not isinstance(window[0], str)):
        return tuple(np.asarray(window).ravel().tolist())
    import scipy.signal  # here, because it takes as long to load as all the rest, in every Spark worker too

    try:
        return tuple(scipy.signal.get_window(window, length).tolist())
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"{what}: scipy.signal.get_window does not know {window!r}: {error}",
            hint='"hann", "hamming", "boxcar", ("kaiser", 8.0), or an array of weights',
            where=user_line(),
        ) from error
