"""Compiled work on all processors: functions that release the interpreter lock run in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

P = TypeVar("P")
T = TypeVar("T")

ROWS_PER_THREAD = 1 << 20
"""Minimum rows for more than one thread."""


def split_rows(rows: int) -> list[slice]:
    """Split rows into one range per processor, or one range if they are few.

    Examples
    --------
    >>> split_rows(10)
    [slice(0, 10, None)]
    """
    count = pa.cpu_count() if rows >= ROWS_PER_THREAD else 1
    return [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]


def map_in_threads(work: Callable[[P], T], pieces: Sequence[P]) -> list[T]:
    """The results of the work for each piece, in order.

    Examples
    --------
    >>> map_in_threads(len, ["a", "bc"])
    [1, 2]
    """
    if len(pieces) < 2 or pa.cpu_count() == 1:
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        return list(threads.map(work, pieces))
