"""What a run in this process may use: threads, and bytes of memory for what is on its way."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hydrophone.errors import ParameterError
from hydrophone.model.memory import memory_allowed
from hydrophone.plan.parameters import byte_count, whole

MEMORY_SHARE = 4
"""By default a run may take one of this many parts of what the process may have."""
MEMORY_UNKNOWN = 4 << 30
"""Bytes that the process is taken to have where the system does not tell."""
MOST_THREADS = 256
"""More are a mistake."""


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Resources:
    """Threads and memory of one run.

    Attributes
    ----------
    threads : how many shares of the work run at the same time
    memory : bytes of rows and results that are on their way at the same time, without the state of operators
    stated : whether the user says how much memory there is

    Examples
    --------
    >>> Resources.of("to_arrow", threads=2, memory="1 GB")
    Resources(threads=2, memory=1073741824, stated=True)
    """

    threads: int = field(default_factory=_cores)
    memory: int = field(default_factory=lambda: (memory_allowed() or MEMORY_UNKNOWN) // MEMORY_SHARE)
    stated: bool = False

    @classmethod
    def of(cls, what: str, threads: int | None = None, memory: int | str | None = None) -> Resources:
        """What the user allows; None: all cores, and a quarter of the memory that the process may have."""
        default = cls()
        if threads is not None:
            threads = whole(threads, f"{what}: threads")
            if not 1 <= threads <= MOST_THREADS:
                raise ParameterError(
                    f"{what}: threads must be between 1 and {MOST_THREADS}, got {threads}",
                    hint=f"None takes all cores, {default.threads} here",
                )
        size = default.memory if memory is None else byte_count(memory, f"{what}: memory")
        return cls(threads or default.threads, size, memory is not None)
