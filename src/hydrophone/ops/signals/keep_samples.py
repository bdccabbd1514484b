"""Some samples of a batch; the others become holes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.model.batch import Mask, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.sorted_rows import gather_ranges


def keep_samples(x: Segments, keep: Mask) -> Segments:
    """The samples where the mask is true; the others become holes."""
    if keep.all():
        return x
    run, begin, lengths = _stretches(x.offsets, np.ascontiguousarray(keep))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = x.first[run] + begin - x.offsets[run]
    return Segments(x.slot[run], first, offsets, gather_ranges(x.values, begin, lengths), x.base)


@compiled
def _stretches(offsets: Any, keep: Any) -> Any:
    """Samples in a row that are kept: the number of their segment, where they begin, and how many they are."""
    count = 0
    for r in range(len(offsets) - 1):
        before = False
        for i in range(offsets[r], offsets[r + 1]):
            count += keep[i] and not before
            before = keep[i]
    run, begin, lengths = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    n = -1
    for r in range(len(offsets) - 1):
        before = False
        for i in range(offsets[r], offsets[r + 1]):
            if keep[i] and not before:
                n += 1
                run[n], begin[n], lengths[n] = r, i, 0
            if keep[i]:
                lengths[n] += 1
            before = keep[i]
    return run, begin, lengths
