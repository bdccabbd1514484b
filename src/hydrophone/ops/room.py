"""Whether there is room for what a batch asks for: an error before memory runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from hydrophone.errors import DataError
from hydrophone.model.batch import Ints
from hydrophone.model.key_table import KeyTable
from hydrophone.model.memory import memory_allowed
from hydrophone.model.time import format_instant

MOST = 1 << 31
"""Samples or rows that one batch may ask for: more is a wrong period or a stray timestamp, long before it is data."""

PERIOD = "is the period too small (a bare number is in nanoseconds), or is a timestamp astray? max_gap= bounds what a fill bridges"


@cache
def most() -> int:
    """`MOST`, or fewer where slot, index and value of them would take half of the memory that we may have: the system would kill us."""
    allowed = memory_allowed()
    return MOST if allowed is None else min(MOST, allowed // 2 // 24)


@contextmanager
def room_for(
    what: str, keys: KeyTable, slot: Ints, low: Ints, high: Ints, counts: Any, unit: str = "samples", hint: str = PERIOD
) -> Iterator[None]:
    """Refuse to make more than `most`; `low` and `high` are the instants around each count."""
    if counts.sum(dtype=np.float64) > most():  # as floats: whole numbers could wrap
        raise _too_many(what, keys, slot, low, high, counts, unit, hint)
    try:
        yield
    except MemoryError:
        raise _too_many(what, keys, slot, low, high, counts, unit, hint) from None


def _too_many(
    what: str, keys: KeyTable, slot: Ints, low: Ints, high: Ints, counts: Any, unit: str, hint: str
) -> DataError:
    at = np.argmax(counts)
    return DataError(
        f"{what}: {counts.sum(dtype=np.float64):,.0f} {unit} from one batch are too many; {int(counts[at]):,} of them lie between "
        f"{format_instant(int(low[at]))} and {format_instant(int(high[at]))}{keys.of_key(slot[at])}",
        hint=hint,
    )
