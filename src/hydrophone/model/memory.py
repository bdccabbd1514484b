"""How much memory this process may have: the machine's, or less where a container or a limit of the process says so."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux tells the limit of a control group, in its second and first version."""


@cache
def memory_allowed() -> int | None:
    """Bytes that this process may take; None where the system does not tell.

    Examples
    --------
    >>> memory_allowed() > 1 << 20
    True
    """
    found = [limit for limit in (_machine(), _container(), _process()) if limit is not None]
    return min(found, default=None)


def _machine() -> int | None:
    try:
        pages = os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") if pages > 0 else None


def _container() -> int | None:
    for path in _CONTAINER:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            return int(text)
    return None


def _process() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
