"""The exchange: rows leave a task packed by shard, a few large rows in place of many small ones, and labels that Spark spreads evenly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from hydrophone.model.key_table import shard_of_keys
from hydrophone.model.sorted_rows import stable_order
from hydrophone.model.take_rows import take_table
from hydrophone.plan.source import Layout
from hydrophone.spark.exchange.table_bytes import table_to_buffer

PACKED = pa.schema([("label", pa.int32()), ("port", pa.int32()), ("data", pa.binary())])
"""What crosses the exchange: rows of one shard and one port as an Arrow stream."""

ROWS = 1 << 20
"""Rows that are gathered before they are packed."""
BYTES = 256 << 20
"""Bytes that are gathered before they are packed: Spark holds a row in one buffer."""


@lru_cache(maxsize=16)
def shard_labels(shards: int) -> tuple[int, ...]:
    """For every shard a number that Spark's hash partitioning sends to the partition of that number.

    Examples
    --------
    >>> [spark_hash(label) % 4 for label in shard_labels(4)]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < shards:
        found.setdefault(spark_hash(candidate) % shards, candidate)
        candidate += 1
    return tuple(found[shard] for shard in range(shards))


def spark_hash(value: int) -> int:
    """What Spark's ``hash`` gives for a 32-bit integer: Murmur3_x86_32 with seed 42.

    Examples
    --------
    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mask = 0xFFFFFFFF
    k = value * 0xCC9E2D51 & mask
    k = (k << 15 | k >> 17) & mask
    h = 42 ^ k * 0x1B873593 & mask
    h = (h << 13 | h >> 19) & mask
    h = (h * 5 + 0xE6546B64 & mask) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


class ShardPacker:
    """Gathers the rows of one port and packs them by shard."""

    def __init__(self, port: int, layout: Layout, shards: int) -> None:
        self.port, self.layout, self.shards = port, layout, shards
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Take rows; give packed ones when there are enough."""
        self._held.append(table)
        self._rows += len(table)
        self._bytes += table.nbytes
        if self._rows >= ROWS or self._bytes >= BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Pack what is held."""
        if not self._rows:
            return
        table = pa.concat_tables(self._held).combine_chunks()
        self._held, self._rows, self._bytes = [], 0, 0
        shard = shard_of_keys([table[k] for k in self.layout.key], self.shards, len(table))
        order = stable_order(shard, np.zeros(len(shard), np.int64))
        if order is not None:
            table = take_table(table, order)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(shard, minlength=self.shards))])
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            piece = table.slice(bounds[number], bounds[number + 1] - bounds[number])
            yield _packed_row(shard_labels(self.shards)[number], self.port, table_to_buffer(piece))


def _packed_row(label: int, port: int, data: pa.Buffer) -> pa.RecordBatch:
    """One packed row; its data is not copied."""
    bounds = pa.py_buffer(np.array([0, data.size], np.int32))
    blob = pa.Array.from_buffers(pa.binary(), 1, [None, bounds, data])
    return pa.RecordBatch.from_arrays(
        [pa.array([label], pa.int32()), pa.array([port], pa.int32()), blob], schema=PACKED
    )
