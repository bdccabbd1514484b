"""The map side of a hub: tasks read what their micro-batch runs, tell it to every shard, and pack rows for the ports in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from hydrophone.errors import UnsupportedError
from hydrophone.plan.data import Data
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.hub.folders import HubFolder
from hydrophone.spark.hub.pins import Pin
from hydrophone.spark.streaming.chunks import Chunk, ChunkPacker, Kind, Target, to_record_batch

BATCH = "streaming.sql.batchId"
"""Spark's own name for the number of the micro-batch."""


def batch_number() -> int:
    """In a task: the number of its micro-batch."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(BATCH)
    if number is None:
        raise UnsupportedError(f"hub: Spark does not tell tasks the number of the micro-batch ({BATCH})")
    return int(number)


def control_chunks(folder: HubFolder, batch: int) -> Iterator[pa.RecordBatch]:
    """Tell every shard of every stage which micro-batch this is: each runs in all of them."""
    for label in shard_labels(folder.shards):
        said = [Chunk(label, level, 0, Kind.CONTROL, "", 0, str(batch).encode()) for level in range(folder.levels)]
        yield to_record_batch(said)


def source_packer(folder: HubFolder, number: int) -> ChunkPacker:
    """What packs the rows of a source, still without targets. All stages hear its marks, at the port of its number."""
    source = folder.sources[number]
    assert source.progress is not None
    layout = source.layout
    return ChunkPacker(
        layout.schema,
        layout.time,
        source.progress,
        (),
        shard_labels(folder.shards),
        layout.key,
        None,
        layout.end,
        tuple((level, number) for level in range(folder.levels)),
    )


def targets(folder: HubFolder, pin: Pin, number: int) -> tuple[Target, ...]:
    """The ports that want the rows of a source: its own always, and those of queries that want them by another key or later."""
    own = folder.sources[number].port(0)
    found = {(0, number): Target(0, number, own)}
    for query in pin.queries:
        for gate in folder.placed(query).gates:
            at = gate.level, pin.ports[gate.address]
            if gate.source == number and at not in found:
                found[at] = Target(*at, own if gate.by is None else gate.by)
    return tuple(found[at] for at in sorted(found))


@dataclass(frozen=True)
class PinnedPacker:
    """Packs the rows of one source; runs in Spark tasks.

    Attributes
    ----------
    data : what reads the files whose paths come in; None where rows come in
    clock : whether the times of the clock come in
    """

    folder: HubFolder
    source: int
    data: Data | None = None
    clock: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack what comes in."""
        batch = batch_number()
        yield from control_chunks(self.folder, batch)
        packer = source_packer(self.folder, self.source)
        if self.clock:
            yield from packer.clock(batches)
            return
        packer = replace(packer, targets=targets(self.folder, self.folder.pins.read(batch), self.source))
        if self.data is None:
            yield from packer.rows(batches)
        else:
            yield from packer.files(self.data, self.source)(batches)


@dataclass(frozen=True)
class RequestPacker:
    """Turns requests into nothing but a micro-batch; runs in Spark tasks."""

    folder: HubFolder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The driver reads the requests."""
        for _ in batches:
            pass
        yield from control_chunks(self.folder, batch_number())
