"""What a Python worker of Spark does once, before its first task of ours."""

from __future__ import annotations

import gc
from functools import cache


@cache
def prepare() -> None:
    """Leave what is imported by now out of garbage collection.

    Spark collects garbage after every task; to look through the modules of NumPy, Numba and Arrow took longer
    (50 to 80 ms) than many a task of ours.
    """
    gc.collect()
    gc.freeze()
