"""The benchmarks by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from hydrophone.bench.harness import Case

NAMES = ("local_engine", "grouped_batch", "grouped_streaming", "hot_key", "relational", "lake")
MODULES = {name: f"hydrophone.bench.{name}" for name in NAMES}


def load(name: str) -> Callable[[bool], Iterator[Case]]:
    """The function that makes a benchmark's cases; benchmarks are imported when they are run, because some need Spark."""
    module = importlib.import_module(MODULES[name])
    found: Callable[[bool], Iterator[Case]] = module.cases
    return found


def describe(name: str) -> str:
    """One line on a benchmark: the first of its module's docstring."""
    doc = importlib.import_module(MODULES[name]).__doc__ or ""
    return doc.strip().splitlines()[0]
