"""A plan in shares that need nothing of each other: slices of time with the reach around them, or whole keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.compiler.ports import Lowered, over_ports
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine import emit
from hydrophone.engine.held import scan_here, survey_here
from hydrophone.engine.pieces import SourcePieces
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.resources import Resources
from hydrophone.engine.row_buffer import RowBuffer
from hydrophone.engine.scan import ROWS_AT_ONCE, WHOLE, ReadRange, Scan, WholeScan
from hydrophone.engine.workers import results_in_order
from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Progress
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.source import Source, sources

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """The pieces that are read of every source and the stretch of time in them, and the owners that are kept."""

    reads: tuple[tuple[ReadRange, ...], ...]
    around: tuple[tuple[int, int], ...]
    start: int = MIN_TIME
    stop: int = MAX_TIME


@dataclass(frozen=True)
class Shares:
    """A plan without an exchange.

    Attributes
    ----------
    plan : what every share runs
    scans : how it reads the sources
    shares : all of them together are the whole answer
    amplification : bytes that all shares read together over the bytes of the data
    rows : about how many rows operators take at once
    """

    plan: Lowered
    scans: tuple[Scan, ...]
    shares: tuple[Share, ...]
    amplification: float = 1.0
    rows: int = ROWS_AT_ONCE

    @property
    def largest(self) -> int:
        """Bytes that the largest share reads."""
        return max((sum(r.size for ranges in share.reads for r in ranges) for share in self.shares), default=0)


@dataclass(frozen=True)
class _Read:
    """Rows of a range at a port; None: the range is over."""

    port: int
    table: pa.Table | None

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return 0 if self.table is None else int(self.table.nbytes)


def run_share(
    pipeline: Pipeline, scans: Sequence[Scan], share: Share, rows: int = ROWS_AT_ONCE, readers: int = 1
) -> Iterator[list[Batch]]:
    """Read, run, keep what the share owns; range by range in the order of time, about so many rows at once.

    With more than one of them, `readers` are threads that read ahead.
    """

    def read(item: tuple[int, int, ReadRange]) -> Iterator[_Read]:
        _, port, given = item
        for table in scans[port].tables([given], *share.around[port]):
            yield _Read(port, table)
        yield _Read(port, None)

    reads = [(r.low, port, r) for port, ranges in enumerate(share.reads) for r in ranges]
    reads.sort(key=lambda item: item[:2])
    left = [[r.low for r in ranges] for ranges in share.reads]
    waiting = RowBuffer(pipeline, rows)
    with closing(results_in_order(read, reads, readers, AHEAD_BYTES)) as found:
        for part in found:
            if part.table is None:
                left[part.port].pop(0)
            else:
                waiting.add(part.port, part.table)
            if any(left) and waiting.is_full:
                waiting.flush()
                # What is left to read starts no earlier than the first of its ranges.
                ends = [stop for _, stop in share.around]
                marks = [min(lows[0], end) if lows else end for lows, end in zip(left, ends, strict=True)]
                pipeline.advance([Progress(mark) for mark in marks])
                yield _owned(pipeline, share)
    # Up to the end of what was read, and no further: only the last slice has seen the end of the data.
    waiting.flush()
    pipeline.advance([Progress(stop) for _, stop in share.around])
    yield _owned(pipeline, share)


def _owned(pipeline: Pipeline, share: Share) -> list[Batch]:
    found = pipeline.drain()
    if share.start == MIN_TIME and share.stop == MAX_TIME:
        return found
    return [mine for batch in found if len(mine := emit.owned_rows(batch, share.start, share.stop))]


# --- in this process --------------------------------------------------------------------------------------------------

BYTES_PER_SHARE = 8 << 20
"""Bytes of the sources that a share of whole keys has in this process, if it can. Not a matter of threads: these change no answer."""
SMALL_BYTES = 16 << 20
"""Sources of no more bytes are read at once: there is little to share out."""
ROWS_PER_TURN = 1 << 18
"""Rows that operators take at once in this process: enough that fixed costs do not count, few enough to stay near the caches."""
AHEAD_BYTES = 64 << 20
"""Bytes that threads read ahead."""
KEYS_ENOUGH = 16
"""So many shares of whole keys keep the threads busy; with fewer, slices of time are better, if the reach allows them."""
LEAST_SLICES = 3
"""Fewer slices are not worth the reach that they read twice."""
MOST_SLICES = 512
"""More keep no more threads busy, and planning takes time for each."""
MAX_AMPLIFICATION_HERE = 1.15
"""How many times over slices may read the data: two threads gain nearly twice, and one should lose little."""
_COPIES = 16
"""How many times the bytes of its rows a turn takes, for columns, samples and what operators make of them, roughly."""


def one_share(root: Node) -> Shares:
    """Everything at once."""
    plan = over_ports([root])
    scans = tuple(WholeScan.of(root, s) for s in plan.sources)
    everything = ((MIN_TIME, MAX_TIME),) * len(scans)
    return Shares(plan, scans, (Share(((WHOLE,),) * len(scans), everything),))


def shares_in_process(root: Node, resources: Resources) -> Shares:
    """Shares of whole keys where many units of the sources hold them, else slices of time, else one share in the order of time.

    They depend on the data alone, so that every number of threads gives the same results in the same order.
    """
    read = sources(root)
    sizes = [s.data.size for s in read]
    if None in sizes or sum(filter(None, sizes)) <= SMALL_BYTES:
        return one_share(root)
    lakes = {s: lake for s in read if (lake := survey_here(s)) is not None}
    if len(lakes) < len(read):
        return one_share(root)
    _check_room(lakes, resources)
    count = -(-sum(lake.bytes for lake in lakes.values()) // BYTES_PER_SHARE)
    columns = common_key(root, lakes)
    rows = rows_per_turn(lakes.values(), resources)
    by_key = shares_by_key(root, lakes, () if isinstance(columns, str) else columns, count, rows, scan_here)
    if len(by_key.shares) < min(count, KEYS_ENOUGH):
        slices = slices_in_process(root, lakes, count, rows_per_turn(lakes.values(), resources, ROWS_AT_ONCE))
        if slices is not None:
            return slices
        if all(s.data.held(s.layout.columns) is not None for s in read):
            return one_share(root)
    return replace(by_key, rows=rows)


def slices_in_process(root: Node, lakes: dict[Source, SourcePieces], count: int, rows: int) -> Shares | None:
    """At most `count` slices of time, each at once if it has no more than so many rows.

    None where even few would read much of the data twice, or there is no bound to what they need.
    """
    reaches = reach_of_sources(root)
    known = all(lake.known.all() and not lake.nulls.any() for lake in lakes.values())
    untold = any(s.layout.samples and s.layout.longest is None and s.data.held(s.layout.columns) is None for s in lakes)
    early = any(n.without_flush() is not n for n in root.topological())
    if not known or untold or early or not all(r.bounded for r in reaches.values()):
        return None
    count = min(count, MOST_SLICES)
    while count >= LEAST_SLICES:
        found = shares_by_time(root, lakes, reaches, count, rows, scan_here)
        if found.amplification <= MAX_AMPLIFICATION_HERE:
            return replace(found, rows=rows) if len(found.shares) >= LEAST_SLICES else None
        count //= 2
    return None


def rows_per_turn(lakes: Iterable[SourcePieces], resources: Resources, most: int | None = None) -> int:
    """How many rows operators take at once, within the memory that a thread has."""
    widest = max((lake.bytes / count for lake in lakes if (count := int(lake.rows.sum()))), default=1.0)
    return int(min(most or ROWS_PER_TURN, max(1, resources.memory / resources.threads / _COPIES / max(widest, 1.0))))


def _check_room(lakes: Mapping[Source, SourcePieces], resources: Resources) -> None:
    """Refuse a memory that the user states and that is smaller than what is read at once: row groups, whose rows are counted."""
    for source, lake in lakes.items() if resources.stated else ():
        sizes = np.where(lake.rows > 0, lake.size, 0)
        largest = int(sizes.max(initial=0))
        if largest * 2 > resources.memory:
            unit = lake.units[lake.unit[int(sizes.argmax())]]
            raise ParameterError(
                f"memory: {resources.memory >> 10:,} KB are too few to read {source.title}: "
                f"{getattr(unit, 'path', unit)} has a row group of {largest >> 10:,} KB",
                hint=f"allow at least {(2 * largest >> 20) + 1} MB, or write the file with smaller row groups",
            )


# --- slices of time ---------------------------------------------------------------------------------------------------


ScanOf = Callable[[Node, Source], Scan]
"""How a plan reads a source."""


def shares_by_time(
    root: Node,
    lakes: dict[Source, SourcePieces],
    reaches: dict[Node, Reach],
    count: int,
    rows: int | None = None,
    scan: ScanOf = Scan.of,
) -> Shares:
    """Cut the time axis into about `count` slices that read about as many bytes each, about `rows` at once."""
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
            reads.append(lake.ranges(chosen, low, high, rows))
            around.append((low, high))
        shares.append(Share(tuple(reads), tuple(around), start, stop))
    total = sum(lakes[s].bytes for s in plan.sources)
    scans = tuple(scan(root, s) for s in plan.sources)
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


def common_key(root: Node, lakes: Mapping[Source, SourcePieces]) -> tuple[str, ...] | str:
    """Key columns that have one value in every unit of every source, so that units can be shared out by them; or why there are none."""
    if any(n.changes_key for n in root.topological()):
        return "the key changes on the way"
    named = [set(s.layout.key).intersection(*constants(s, lake)) if lake.units else set() for s, lake in lakes.items()]
    common = tuple(k for k in next(iter(lakes)).layout.key if all(k in names for names in named))
    return common or "files and folders hold rows of several keys"


def constants(source: Source, lake: SourcePieces) -> list[Mapping[str, Any]]:
    """The columns that have one value in every unit of a source."""
    return [source.data.constants(unit) for unit in lake.units]


def shares_by_key(
    root: Node,
    lakes: Mapping[Source, SourcePieces],
    columns: Sequence[str],
    count: int,
    rows: int | None = None,
    scan: ScanOf = Scan.of,
) -> Shares:
    """At most `count` shares of whole keys, read about `rows` at once: all units that agree on these columns stay together."""
    plan = over_ports([root])
    places = {s: [tuple(values.get(c) for c in columns) for values in constants(s, lakes[s])] for s in plan.sources}
    weight: dict[tuple[Any, ...], int] = {}
    for source in plan.sources:
        lake = lakes[source]
        for place, size in zip([places[source][u] for u in lake.unit], lake.size.tolist(), strict=True):
            weight[place] = weight.get(place, 0) + size
    shares = []
    for chosen in balanced_bins(weight, count):
        reads = []
        for source in plan.sources:
            lake = lakes[source]
            mine = np.array([p in chosen for p in places[source]], np.bool_)
            reads.append(lake.ranges(mine[lake.unit], rows=rows))
        shares.append(Share(tuple(reads), ((MIN_TIME, MAX_TIME),) * len(reads)))
    return Shares(plan, tuple(scan(root, s) for s in plan.sources), tuple(shares))


def balanced_bins(weight: dict[tuple[Any, ...], int], count: int) -> list[set[tuple[Any, ...]]]:
    """Things in at most `count` bins of about equal weight: the heaviest first, each into the lightest bin."""
    bins: list[set[tuple[Any, ...]]] = [set() for _ in range(max(1, min(count, len(weight))))]
    load = [0] * len(bins)
    for thing in sorted(weight, key=lambda t: (-weight[t], str(t))):
        lightest = load.index(min(load))
        bins[lightest].add(thing)
        load[lightest] += weight[thing]
    return bins
