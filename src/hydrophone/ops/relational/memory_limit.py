"""How much the state of an operator may take in memory, and what happens beyond it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hydrophone.errors import ParameterError
from hydrophone.plan.node import Node
from hydrophone.plan.parameters import whole

OVERFLOW = ("spill", "shed")


@dataclass(frozen=True)
class Memory:
    """How much an area may keep in memory, and what happens beyond: older rows go to a file, or are shed."""

    limit: int | None = None
    overflow: str = "spill"

    def check(self, what: str) -> None:
        """A limit and a word that make sense."""
        if self.limit is not None and self.limit < 1:
            raise ParameterError(f"{what}: limit must be positive, got {self.limit}", hint='limit="256MB"')
        if self.overflow not in OVERFLOW:
            raise ParameterError(
                f"{what}: overflow must be one of {', '.join(OVERFLOW)}, got {self.overflow!r}",
                hint="spill keeps all answers; shed forgets the oldest rows and counts them",
            )
        if self.overflow == "shed" and self.limit is None:
            raise ParameterError(f"{what}: overflow='shed' needs a limit", hint='limit="256MB"')

    def describe(self) -> str:
        """For `explain`."""
        if self.limit is None:
            return ""
        beyond = "older rows go to disk" if self.overflow == "spill" else "the oldest rows are shed"
        return f", each up to {self.limit} bytes, beyond that {beyond}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Limited(Node):
    """An operator whose areas have a limit."""

    stable_name = "limited"

    limit: int | None = None
    overflow: str = "spill"

    @property
    def memory(self) -> Memory:
        """What each area may keep."""
        return Memory(self.limit, self.overflow)

    def check(self) -> None:
        """A limit that makes sense."""
        self.memory.check(self.name())


def size_in_bytes(size: int | str | None) -> int | None:
    """A size in memory: a number of bytes, or text.

    Examples
    --------
    >>> size_in_bytes("64MB"), size_in_bytes("1.5 GiB"), size_in_bytes(1000)
    (64000000, 1610612736, 1000)
    """
    if size is None:
        return None
    if not isinstance(size, str):
        return whole(size, "limit", 'a number of bytes, or text such as "64MB"')
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B\s*", size)
    if found is None:
        raise ParameterError(f"limit: {size!r} is no size in bytes", hint='for example 1_000_000, "64MB" or "1GiB"')
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " "))
