"""Some samples of a batch; the others become holes."""

from __future__ import annotations

import numpy as np

from hydrophone.model.batch import Mask, Segments


def keep_samples(x: Segments, keep: Mask) -> Segments:
    """The samples where the mask is true; the others become holes."""
    if keep.all():
        return x
    at = np.flatnonzero(keep)
    if len(at) < len(x):
        run = np.searchsorted(x.offsets[1:], at, "right")
    else:
        run = np.repeat(np.arange(len(x)), np.diff(np.searchsorted(at, x.offsets)))
    return Segments.of_samples(x.slot[run], at + (x.first - x.offsets[:-1])[run], x.values[at], x.base)
