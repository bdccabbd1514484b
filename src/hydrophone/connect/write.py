"""Where the results of a running query go, as the user writes it: ``hp.write.parquet(...)``."""

from __future__ import annotations

from hydrophone.connect.csv import Csv
from hydrophone.connect.memory import Memory
from hydrophone.connect.parquet import Parquet
from hydrophone.connect.sink import Sink
from hydrophone.connect.table import Table
from hydrophone.errors import ParameterError

__all__ = ["Csv", "Memory", "Parquet", "Sink", "Table", "csv", "memory", "parquet", "table"]


def check(to: object, what: str) -> None:
    """Refuse what is no sink: the path alone does not say what to write."""
    if not isinstance(to, Sink):
        raise ParameterError(
            f"{what}: {to!r} is no place for results", hint='say what to write: to=hp.write.parquet("clean/")'
        )


def parquet(path: str) -> Parquet:
    """Write Parquet files under `path`.

    Every micro-batch has a folder of its own, which is written whole: a micro-batch that is run again after a crash
    replaces its folder with an equal one, so each result is there once. Readers (`hydrophone.api.read.parquet`, Spark and
    others) see a column ``batch``.

    Examples
    --------
    >>> parquet("clean/")
    Parquet(path='clean/')
    """
    return Parquet(str(path))


def csv(path: str) -> Csv:
    """Write CSV files under `path`; complex values are ``value.re`` and ``value.im``, and windows have no place in a cell.

    Of a stream, micro-batches are written whole and replaced whole, as by `parquet`.

    Examples
    --------
    >>> csv("clean/")
    Csv(path='clean/')
    """
    return Csv(str(path))


def table(name: str, format: str | None = None) -> Table:
    """Write a table of Spark's catalogue, such as ``"lab.clean"``; `format` is one that Spark knows (by default its own choice).

    A stream makes the table if there is none, partitioned by ``query`` (an id that the checkpoint holds) and ``batch``, and
    every micro-batch overwrites its own partition. So each result is there once when the query has gone on from a crash.
    What readers see in between is up to the format: with plain files they may meet a partition that is being replaced, and
    a session that has read the table before must look anew (``spark.catalog.refreshTable``).

    Examples
    --------
    >>> table("lab.clean")
    Table(name='lab.clean', format=None)
    """
    return Table(str(name), format)


def memory() -> Memory:
    """Keep the results in this process, for tests and small things.

    Examples
    --------
    >>> memory().batches
    {}
    """
    return Memory()
