"""Cut batches at marks: sparse rows need not wait until a batch is full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from hydrophone.engine.ingest import instants
from hydrophone.model.batch import Ints
from hydrophone.model.progress import Policy
from hydrophone.model.time import add_time
from hydrophone.plan.source import Source


def split_at_marks(tables: Iterable[pa.Table], source: Source) -> Iterator[pa.Table]:
    """The same rows, cut after every row that takes a sender to a new multiple of the policy's `every`, by start or by end.

    This changes only when rows are taken. Late rows and idle senders need no handling here.

    Examples
    --------
    >>> import hydrophone as hp
    >>> table = pa.table({"t": [1, 4, 12, 9, 13, 25, 27]})
    >>> stream = hp.from_arrow(table, time="t", progress=hp.delayed(2, every=10))
    >>> [mine["t"].to_pylist() for mine in split_at_marks([table.slice(0, 4), table.slice(4)], stream.node)]
    [[1], [4], [12], [9], [13, 25], [27]]
    """
    cuts = MarkCuts(source)
    for table in tables:
        yield from cuts.split(table)


class MarkCuts:
    """Where the rows of one source are cut; see `split_at_marks`."""

    def __init__(self, source: Source) -> None:
        policy = source.progress
        self._promises: list[tuple[Policy, str, dict[str | None, int]]] = []
        if policy is not None and policy.every:
            self._promises.append((policy, source.layout.time, {}))
            if policy.of_ends is not None and source.layout.end is not None:
                self._promises.append((policy.of_ends, source.layout.end, {}))

    def split(self, table: pa.Table) -> Iterator[pa.Table]:
        """The pieces of the next table."""
        if not self._promises or not len(table):
            yield table
            return
        moves = [_rows_that_advance(table, time, promise, reached) for promise, time, reached in self._promises]
        edges = [0, *(np.unique(np.concatenate(moves)) + 1).tolist(), len(table)]
        for low, high in pairwise(edges):
            if low < high:
                yield table.slice(low, high - low)


def _rows_that_advance(table: pa.Table, time: str, policy: Policy, reached: dict[str | None, int]) -> Ints:
    """The rows that advance their sender; `reached` is the mark of each sender, in multiples of `every`."""
    assert policy.every
    column = policy.column or time
    rows = np.flatnonzero(table[column].is_valid().to_numpy())
    times = instants(table[column].drop_null(), column)
    number = (times if policy.column else add_time(times, -policy.delay)) // policy.every
    moves = [rows[:0]]
    for who, mine in _rows_by_sender(table, policy, rows):
        own = number[mine]
        before = np.maximum.accumulate(np.append(reached.get(who, np.iinfo(np.int64).min), own))
        moves.append(rows[mine][own > before[:-1]])
        reached[who] = int(before[-1])
    return np.concatenate(moves)


def _rows_by_sender(table: pa.Table, policy: Policy, rows: Ints) -> Iterator[tuple[str | None, Ints]]:
    """Every sender, with the positions of its rows in `rows`."""
    if policy.by is None:
        yield None, np.arange(len(rows))
        return
    names = table[policy.by].take(pa.array(rows)).combine_chunks().dictionary_encode(null_encoding="encode")
    whose = names.indices.to_numpy()
    order = np.argsort(whose, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(whose[order])) + 1) if len(order) else []
    for mine in parts:
        yield str(names.dictionary[int(whose[mine[0]])]), mine
