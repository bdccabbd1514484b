"""Where the results of a running query go, as the user writes it: ``hp.write.parquet(...)``."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["Memory", "Parquet", "memory", "parquet"]


@dataclass(frozen=True)
class Parquet:
    """A folder of Parquet files, with a folder ``batch=<number>`` for every micro-batch."""

    path: str


@dataclass(frozen=True, eq=False)
class Memory:
    """The results in this process, by number of micro-batch."""

    batches: dict[int, pa.Table] = field(default_factory=dict)

    def to_arrow(self) -> pa.Table:
        """All results so far."""
        return pa.concat_tables([self.batches[i] for i in sorted(self.batches)])


def parquet(path: str) -> Parquet:
    """Write Parquet files under `path`.

    Every micro-batch has a folder of its own, which is written whole: a micro-batch that is run again after a crash
    replaces its folder with an equal one, so each result is there once. Readers (`hydrophone.read.parquet`, Spark and
    others) see a column ``batch``.

    Examples
    --------
    >>> parquet("clean/")
    Parquet(path='clean/')
    """
    return Parquet(str(path))


def memory() -> Memory:
    """Keep the results in this process, for tests and small things.

    Examples
    --------
    >>> memory().batches
    {}
    """
    return Memory()
