"""A mark ends a batch early: rows that are few and far between need not wait until others have filled it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from hydrophone.batch import Ints
from hydrophone.engine.ingest import instants
from hydrophone.plan.source import Source
from hydrophone.progress import Policy
from hydrophone.time import add_time


def at_marks(tables: Iterable[pa.Table], source: Source) -> Iterator[pa.Table]:
    """The same rows, cut behind every row with which a sender has come to another multiple of the policy's `every`, by start or by end.

    It changes when rows are taken, and nothing else; so late rows, and senders that are left behind, need no thought here.

    Examples
    --------
    >>> import hydrophone as hp
    >>> table = pa.table({"t": [1, 4, 12, 9, 13, 25, 27]})
    >>> stream = hp.from_arrow(table, time="t", progress=hp.delayed(2, every=10))
    >>> [part["t"].to_pylist() for part in at_marks([table.slice(0, 4), table.slice(4)], stream.node)]
    [[1], [4], [12], [9], [13, 25], [27]]
    """
    policy = source.progress
    if policy is None or not policy.every:
        yield from tables
        return
    promises = [(policy, source.layout.time, dict[str | None, int]())]
    if policy.of_ends is not None and source.layout.end is not None:
        promises.append((policy.of_ends, source.layout.end, {}))
    for table in tables:
        moves = np.unique(np.concatenate([_moves(table, time, promise, far) for promise, time, far in promises]))
        edges = [0, *(moves + 1).tolist(), len(table)]
        for low, high in pairwise(edges):
            if low < high or not len(table):
                yield table.slice(low, high - low)


def _moves(table: pa.Table, time: str, policy: Policy, far: dict[str | None, int]) -> Ints:
    """The rows with which a sender comes further than it was; `far` is how far each has come, in multiples of `every`."""
    assert policy.every
    column = policy.column or time
    rows = np.flatnonzero(table[column].is_valid().to_numpy())
    times = instants(table[column].drop_null(), column)
    number = (times if policy.column else add_time(times, -policy.delay)) // policy.every
    moves = [rows[:0]]
    for who, mine in _senders(table, policy, rows):
        own = number[mine]
        before = np.maximum.accumulate(np.append(far.get(who, np.iinfo(np.int64).min), own))
        moves.append(rows[mine][own > before[:-1]])
        far[who] = int(before[-1])
    return np.concatenate(moves)


def _senders(table: pa.Table, policy: Policy, rows: Ints) -> Iterator[tuple[str | None, Ints]]:
    """Every sender with where its rows are among `rows`."""
    if policy.by is None:
        yield None, np.arange(len(rows))
        return
    names = table[policy.by].take(pa.array(rows)).combine_chunks().dictionary_encode(null_encoding="encode")
    whose = names.indices.to_numpy()
    order = np.argsort(whose, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(whose[order])) + 1) if len(order) else []
    for part in parts:
        yield str(names.dictionary[int(whose[part[0]])]), part
