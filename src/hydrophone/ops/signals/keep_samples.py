"""Some samples of a batch; the others become holes."""

from __future__ import annotations

import numpy as np

from hydrophone.model.batch import Ints, Mask, Segments
from hydrophone.model.sorted_rows import gather_ranges


def keep_samples(x: Segments, keep: Mask) -> Segments:
    """The samples where the mask is true; the others become holes."""
    if keep.all():
        return x
    run, begin, lengths = stretches(x, keep)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = x.first[run] + begin - x.offsets[run]
    return Segments(x.slot[run], first, offsets, gather_ranges(x.values, begin, lengths), x.base)


def stretches(x: Segments, keep: Mask) -> tuple[Ints, Ints, Ints]:
    """Samples in a row that are kept: the number of their segment, where they begin, and how many they are."""
    begins, ends = keep.copy(), keep.copy()
    begins[1:] &= ~keep[:-1]
    ends[:-1] &= ~keep[1:]
    full = x.lengths > 0
    head, last = x.offsets[:-1][full], x.offsets[1:][full] - 1
    begins[head], ends[last] = keep[head], keep[last]
    begin = np.flatnonzero(begins)
    return x.runs_of(begin), begin, np.flatnonzero(ends) + 1 - begin
