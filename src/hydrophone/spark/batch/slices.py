"""Plans without an exchange: every task reads a slice of the time and the reach around it, or whole folders of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.compiler.ports import Lowered, over_ports
from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.source import Source
from hydrophone.spark.arrow_types import end_of, to_spark_types
from hydrophone.spark.batch.pieces import SourcePieces
from hydrophone.spark.batch.scan import ReadRange, Scan
from hydrophone.spark.streaming.row_buffer import RowBuffer
from hydrophone.spark.worker import prepare

Ints = npt.NDArray[np.int64]

ROWS_OUT = 1 << 16
"""Rows that go to Spark in one piece: it takes a piece apart while the next one is made."""


@dataclass(frozen=True)
class Share:
    """What one task does: the pieces it reads of every source and the stretch of time in them, and the owners that it keeps."""

    reads: tuple[tuple[ReadRange, ...], ...]
    around: tuple[tuple[int, int], ...]
    start: int = MIN_TIME
    stop: int = MAX_TIME


@dataclass(frozen=True)
class Shares:
    """A plan without an exchange."""

    plan: Lowered
    scans: tuple[Scan, ...]
    shares: tuple[Share, ...]
    amplification: float = 1.0
    """Bytes that all tasks read together over the bytes of the data."""

    def task(self, shape: emit.Shape, schema: pa.Schema) -> Task:
        """The function that a Spark task runs."""
        return Task(self.plan.roots[0], self.scans, self.shares, shape, schema)


@dataclass(frozen=True)
class Task:
    """Runs the whole pipeline over a share."""

    root: Node
    scans: tuple[Scan, ...]
    shares: tuple[Share, ...]
    shape: emit.Shape
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives the numbers of the shares, one to each task."""
        prepare()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.run(self.shares[number])

    def run(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Read, run, keep what the share owns; range by range in the order of time, so that little is held at once."""
        pipeline = Pipeline([self.root])
        left = [list(ranges) for ranges in share.reads]
        waiting = RowBuffer(pipeline)
        while any(left):
            _, port = min((ranges[0].low, port) for port, ranges in enumerate(left) if ranges)
            for table in self.scans[port].tables([left[port].pop(0)], *share.around[port]):
                waiting.add(port, table)
            if any(left) and waiting.is_full:
                waiting.flush()
                # What is left to read starts no earlier than its first range.
                ends = [stop for _, stop in share.around]
                marks = [min(ranges[0].low, end) if ranges else end for ranges, end in zip(left, ends, strict=True)]
                pipeline.advance([Progress(mark) for mark in marks])
                yield from self._owned(pipeline, share)
        # Up to the end of what was read, and no further: only the last slice has seen the end of the data.
        waiting.flush()
        pipeline.advance([Progress(stop) for _, stop in share.around])
        yield from self._owned(pipeline, share)

    def _owned(self, pipeline: Pipeline, share: Share) -> Iterator[pa.RecordBatch]:
        for batch in pipeline.drain():
            mine = emit.owned_rows(batch, share.start, share.stop)
            if len(mine):
                table = emit.result_table(mine, self.root.type, pipeline.keys(self.root), self.shape)
                yield from to_spark_types(table, self.schema, end_of(self.root.type)).to_batches(max_chunksize=ROWS_OUT)


# --- slices of time ---------------------------------------------------------------------------------------------------


def shares_by_time(root: Node, lakes: dict[Source, SourcePieces], reaches: dict[Node, Reach], count: int) -> Shares:
    """Cut the time axis into about `count` slices that read about as many bytes each."""
    plan = over_ports([root])
    edges = slice_edges([lakes[s] for s in plan.sources], count)
    bounds = [MIN_TIME, *edges, MAX_TIME]
    shares, size = [], 0
    for start, stop in pairwise(bounds):
        reads, around = [], []
        for source in plan.sources:
            lake, reach = lakes[source], reaches[source]
            low, high = add_time(start, -(reach.before or 0)), add_time(stop, reach.after or 0)
            chosen = lake.touching(low, high)
            size += int(lake.size[chosen].sum())
            reads.append(lake.ranges(chosen, low, high))
            around.append((low, high))
        shares.append(Share(tuple(reads), tuple(around), start, stop))
    total = sum(lakes[s].bytes for s in plan.sources)
    scans = tuple(Scan.of(root, s) for s in plan.sources)
    return Shares(plan, scans, tuple(shares), size / total if total else 1.0)


_SNAP = 0.3
"""An edge moves to the beginning of a piece if a slice grows or shrinks by no more than this share."""


def slice_edges(lakes: Sequence[SourcePieces], count: int) -> list[int]:
    """Edges between slices of about equal bytes, where pieces begin if possible.

    Rows are taken to lie evenly over the time of their piece.
    """
    low, high, size = (np.concatenate([getattr(lake, name) for lake in lakes]) for name in ("low", "high", "size"))
    real = low < high
    low, high, size = low[real], high[real], size[real]
    if count < 2 or not len(low):
        return []
    times = np.unique(np.concatenate([low, high]))
    density = np.zeros(len(times))
    slope = size / (high - low).astype(np.float64)
    np.add.at(density, np.searchsorted(times, low), slope)
    np.subtract.at(density, np.searchsorted(times, high), slope)
    mass = np.concatenate([[0.0], np.cumsum(np.cumsum(density)[:-1] * np.diff(times))])
    share = mass[-1] / count
    wanted = np.arange(1, count) * share
    begins = np.unique(low)[1:]
    edges = []
    for goal in wanted:
        at = int(np.interp(goal, mass, (times - times[0]).astype(np.float64))) + int(times[0])
        if len(begins):
            off = np.abs(mass[np.searchsorted(times, begins)] - goal)
            at = int(begins[off.argmin()]) if off.min() <= _SNAP * share else at
        edges.append(at)
    return [int(e) for e in np.unique(edges) if int(times[0]) < e < int(times[-1])]


# --- whole keys -------------------------------------------------------------------------------------------------------


def constants(source: Source, lake: SourcePieces) -> list[Mapping[str, Any]]:
    """The columns that have one value in every unit of a source."""
    return [source.data.constants(unit) for unit in lake.units]


def shares_by_folder(root: Node, lakes: dict[Source, SourcePieces], columns: Sequence[str], count: int) -> Shares:
    """Give every task whole folders: all files whose folders agree on these columns stay together."""
    plan = over_ports([root])
    places = {s: [tuple(values.get(c) for c in columns) for values in constants(s, lakes[s])] for s in plan.sources}
    weight: dict[tuple[Any, ...], int] = {}
    for source in plan.sources:
        lake = lakes[source]
        for place, size in zip([places[source][u] for u in lake.unit], lake.size.tolist(), strict=True):
            weight[place] = weight.get(place, 0) + size
    bins = balanced_bins(weight, count)
    shares = []
    for chosen in bins:
        reads = []
        for source in plan.sources:
            lake = lakes[source]
            mine = np.array([p in chosen for p in places[source]], np.bool_)
            reads.append(lake.ranges(mine[lake.unit]))
        shares.append(Share(tuple(reads), ((MIN_TIME, MAX_TIME),) * len(reads)))
    return Shares(plan, tuple(Scan.of(root, s) for s in plan.sources), tuple(shares))


def balanced_bins(weight: dict[tuple[Any, ...], int], count: int) -> list[set[tuple[Any, ...]]]:
    """Things in at most `count` bins of about equal weight: the heaviest first, each into the lightest bin."""
    bins: list[set[tuple[Any, ...]]] = [set() for _ in range(max(1, min(count, len(weight))))]
    load = [0] * len(bins)
    for thing in sorted(weight, key=lambda t: (-weight[t], str(t))):
        lightest = load.index(min(load))
        bins[lightest].add(thing)
        load[lightest] += weight[thing]
    return bins
