"""What most likely was not meant when readings meet a grid: a word in the log, or an error before memory runs out."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from hydrophone.batch import Ints
from hydrophone.errors import DataError
from hydrophone.keys import KeyTable
from hydrophone.time import format_instant

_log = logging.getLogger("hydrophone")

MOST_SAMPLES = 1 << 31
"""Samples that one batch of readings may ask for: more is a wrong period or a stray timestamp, long before it is data."""


class Strays:
    """Counts the readings that meet no beat, and says so once: when there are at least ten readings, and more than a tenth are strays.

    The counts are not state: they decide about a line in the log alone, and begin anew after a restart.
    """

    def __init__(self) -> None:
        self.readings = self.strays = 0
        self.said = False

    def count(self, readings: int, strays: int) -> None:
        """Some more readings, and how many of them met no beat."""
        self.readings, self.strays = self.readings + readings, self.strays + strays
        if not self.said and self.readings >= 10 and self.strays * 10 > self.readings:
            self.said = True
            _log.warning(
                "sample: %d of the first %d readings lie between the beats and are left out; "
                'to keep them: sample(..., fill=hp.linear(max_gap="1s")), offset=... or snap(...)',
                self.strays,
                self.readings,
            )


@cache
def most_samples() -> int:
    """`MOST_SAMPLES`, or fewer where slot, index and value of them would take half of this machine's memory: the system would kill us."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        pages = -1
    if pages < 0:  # not every system tells
        return MOST_SAMPLES
    return min(MOST_SAMPLES, pages * os.sysconf("SC_PAGE_SIZE") // 2 // 24)


@contextmanager
def room_for(what: str, keys: KeyTable, slot: Ints, low: Ints, high: Ints, counts: Ints) -> Iterator[None]:
    """Refuse to make more samples than `most_samples`; `low` and `high` are the instants around each count."""
    if counts.sum(dtype=np.float64) > most_samples():  # as floats: whole numbers could wrap
        raise _too_many(what, keys, slot, low, high, counts)
    try:
        yield
    except MemoryError:
        raise _too_many(what, keys, slot, low, high, counts) from None


def _too_many(what: str, keys: KeyTable, slot: Ints, low: Ints, high: Ints, counts: Ints) -> DataError:
    most = np.argmax(counts)
    columns = zip(keys.schema.names, keys.columns(slot[most : most + 1]), strict=True)
    key = {name: column[0].as_py() for name, column in columns}
    whose = f" of key {key}" if key else ""
    return DataError(
        f"{what}: {counts.sum(dtype=np.float64):,.0f} samples from one batch are too many; {int(counts[most]):,} of them lie between "
        f"{format_instant(int(low[most]))} and {format_instant(int(high[most]))}{whose}",
        hint="is the period too small (a bare number is in nanoseconds), or is a timestamp astray? max_gap= bounds what a fill bridges",
    )
