"""Spark jobs as something that can be timed: what a DataFrame costs, and the numbers that stand for its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import psutil

from hydrophone.bench.harness import Answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Way = Callable[[], "DataFrame"]
"""Makes a DataFrame that has not run yet; to plan it counts as well."""


def job(way: Way, answer: Callable[[DataFrame], Answer]) -> Callable[[], Answer]:
    """A way as the harness runs it: all rows go to Spark's noop sink.

    The first turn is the warm-up: it computes the answer, once for all turns, so that a peer that takes minutes is not run
    twice as often as it must.
    """
    known = cache(lambda: answer(way()))

    def timed() -> Answer:
        if known.cache_info().currsize:
            run(way)
        return known()

    return timed


def run(way: Way) -> tuple[float, float]:
    """Seconds to plan and run all of it, by the clock and of processors."""
    start, busy = time.perf_counter(), processor_seconds()
    way().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start, processor_seconds() - busy


def processor_seconds() -> float:
    """Processor time of this process and all below it."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total
