"""Frames: episodes in which a key has one status, found in readings that dither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.time import MAX_TIME, add_time, exact_sum
from hydrophone.ops.aggregates.aggregates import check_span
from hydrophone.ops.frames import episodes
from hydrophone.ops.relational.keyed_buffer import KeyedBuffer
from hydrophone.ops.relational.rows import visible_columns, visible_schema
from hydrophone.plan import expr
from hydrophone.plan.node import Node, Order
from hydrophone.plan.parameters import real
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bands:
    """Bands of a number: statuses for `frames`. Made by `hydrophone.bands`."""

    edges: tuple[float, ...]
    names: tuple[str, ...] | None = None
    hysteresis: float = 0.0
    of: str | None = None


def bands(
    edges: Sequence[float], *, names: Sequence[str] | None = None, hysteresis: float = 0.0, of: str | None = None
) -> Bands:
    """Bands between ascending edges, as statuses for `frames`: an upper edge belongs to the band below it.

    Parameters
    ----------
    edges : sequence of float
        Where one band ends and the next begins: n edges make n + 1 bands.
    names : sequence of str, optional
        One for each band; without them a status is the number of its band.
    hysteresis : float
        A reading keeps the band of the reading before until it is more than so far outside of it: above the upper edge plus this, or at or
        below the lower edge minus this. It then has the band in which it lies. The first reading, and one after a hole, has that too.
    of : str, optional
        The column; needed where a stream has more than one column of numbers.

    Examples
    --------
    >>> import hydrophone as hp
    >>> hp.bands([1, 11], names=["standing", "trot", "run"], hysteresis=0.5).names
    ('standing', 'trot', 'run')
    """
    found = tuple(real(e, "bands: an edge") for e in edges)
    if not found or any(not a < b for a, b in pairwise(found)) or not np.isfinite(found).all():
        raise ParameterError(f"bands: edges must be finite and ascend, got {list(found)}", hint="hp.bands([1, 11, 14])")
    if names is not None:
        names = (names,) if isinstance(names, str) else tuple(names)
        if len(names) != len(found) + 1 or not all(isinstance(n, str) for n in names):
            raise ParameterError(f"bands: {len(found)} edges make {len(found) + 1} bands, got {len(names)} names")
        if len(set(names)) < len(names):
            raise ParameterError("bands: two bands have the same name", hint="merge them by leaving out the edge")
    slack = real(hysteresis, "bands: hysteresis")
    if not 0 <= slack < np.inf:
        raise ParameterError(f"bands: hysteresis must be a number from 0 on, got {slack}")
    return Bands(found, names, slack, of)


@dataclass(frozen=True, kw_only=True, eq=False)
class Frames(Node):
    """Episodes in which a key has one status. A reading lasts until its end, a point for `hold`, or until the next reading of its key.

    See the method for the rules. The reference is `tests.oracles_frames.frames`, a list of runs that is rewritten rule by rule.
    """

    stable_name = "frames"

    bands: Bands | None = None
    status: nw.Expr | None = None
    noise: int = 0
    at_least: int = 0
    report: int | None = None
    hold: int | None = None
    sums: tuple[str, ...] = ()

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """One kind of status, and durations."""
        if (self.bands is None) == (self.status is None):
            raise ParameterError("frames: a status is bands, a condition or a column", hint="frames(hp.bands([1, 11]))")
        for name in ("noise", "at_least"):
            value = getattr(self, name)
            if not 0 <= value < MAX_TIME:
                raise ParameterError(f"frames: {name} must be a duration from 0 on, got {value}")
        for name in ("report", "hold"):
            value = getattr(self, name)
            if value is not None:
                check_span(value, "frames", name)
        if self.status is not None:
            expr.check_rowwise(self.status, "frames")

    @property
    def stalls(self) -> str | None:
        """A frame that stays open does, unless it is cut."""
        return (
            None
            if self.report is not None
            else "a frame that stays open holds back the progress of all keys, report= cuts it"
        )

    def output_type(self, x: StreamType) -> StreamType:
        """The status, how many readings there are, and sums."""
        if x.end is None and self.hold is None:
            raise ParameterError(
                "frames: points have no end: hold= says how long a reading counts if none follows it",
                hint='hold="1s": about the longest time between two readings that is no hole',
            )
        if x.end is not None and self.hold is not None:
            raise ParameterError("frames: these readings have an end, hold= is for points", hint="leave hold= out")
        for name in self.sums:
            check_number(x, name, "frames: sums")
        columns = [("status", self._status_type(x)), ("readings", pa.int64()), *((n, pa.float64()) for n in self.sums)]
        schema = pa.schema(columns)
        taken = {*x.key.names, x.time} & {"end", *schema.names}
        if taken or len(set(schema.names)) < len(schema):
            twice = min(taken) if taken else next(n for n in schema.names if schema.names.count(n) > 1)
            raise ParameterError(
                f"frames: two columns would have the name {twice!r}", hint="rename the key or the column"
            )
        return StreamType(x.key, x.time, x.clock, schema, "end")

    def _status_type(self, x: StreamType) -> pa.DataType:
        """Text or a number for bands, else the type of the expression."""
        if self.bands is not None:
            band_column(self.bands, x)
            return pa.int64() if self.bands.names is None else pa.string()
        kind = expr.output_type(self.status, visible_schema(x))  # type: ignore[arg-type]
        if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind)):
            raise ParameterError(
                f"frames: a status is text, a whole number or true and false, this is {kind}",
                hint="make bands of a number: hp.bands([1, 11])",
            )
        return kind

    def reach(self, x: StreamType) -> Reach:
        """A frame may begin any time ago."""
        return Reach.unbounded("frames: a status may last for any time, and what follows depends on it")

    def kernel(self, x: StreamType) -> Kernel:
        """Find them."""
        return FramesKernel(self, x, self.type)


def check_number(x: StreamType, name: str, what: str) -> None:
    """A column of real numbers."""
    kind = x.column(name, what).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ParameterError(f"{what}: {name!r} is {kind}, not a number")


def band_column(bands: Bands, x: StreamType) -> str:
    """The column that bands are of."""
    if bands.of is not None:
        check_number(x, bands.of, "frames: bands")
        return bands.of
    numbers = [f.name for f in x.columns if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    if len(numbers) != 1:
        raise ParameterError(
            f"frames: bands of which column? This stream has: {', '.join(numbers) or 'no number'}",
            hint='hp.bands([1, 11], of="speed")',
        )
    return numbers[0]


class FramesKernel(Kernel):
    """What is open of every key: up to one row for each of the roles of `episodes`."""

    keyed = True

    def __init__(self, node: Frames, x: StreamType, out: StreamType) -> None:
        self.node, self.kind, self.out = node, x, out
        self.rules = (node.noise, node.at_least, node.report or 0)
        self.open = KeyedBuffer(_due)
        of = node.bands
        self.edges = np.array(of.edges if of else (), np.float64)
        self.hysteresis = of.hysteresis if of else 0.0
        self.code_type = pa.int64() if of else out.columns.field("status").type

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Follow the readings of a batch, which come in order."""
        assert isinstance(batch, Events)
        if not len(batch):
            return ()
        slots, key = np.unique(batch.slot, return_inverse=True)
        held = self.open.take_of(slots)
        values, codes, words = self._statuses(held, batch)
        known = 0 if held is None else len(held)
        ints, sums = self._unpacked(held, codes[:known], slots)
        stop = batch.stop if self.kind.end else exact_sum(batch.start, self.node.hold or 0)
        rows = key.astype(np.int64), batch.start, stop, codes[known:], values, self.edges, self.hysteresis
        amounts = self._amounts(batch)
        found, at = [], 0
        while at < len(batch):
            room = self._room(min(len(batch) - at, 1 << 16))
            at, count = episodes.follow(at, *rows, amounts, ints, sums, *self.rules, *room)
            found.append(self._frames(slots, room, count, words))
        self._hold(slots, ints, sums, words)
        return tuple(f for f in found if len(f))

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """A reading that nothing can follow directly ends the stretch of its key; what is open holds the output mark."""
        held, out = self.open.take_due(marks[0]), []
        if held is not None:
            slots = np.unique(held.slot)
            _, codes, words = self._statuses(held, None)
            ints, sums = self._unpacked(held, codes, slots)
            room = self._room(episodes.MOST * len(slots))
            out = [self._frames(slots, room, episodes.finish(ints, sums, *self.rules, *room), words)]
        return out, self.open.held_back(marks[0])

    def _statuses(self, held: Events | None, batch: Events | None) -> tuple[Any, Codes, pa.Array | None]:
        """Numbers of which bands are made; statuses of held rows and new ones as numbers, and what these stand for."""
        node, known = self.node, [] if held is None else [held.columns["status"]]
        if node.bands is not None:
            column = None if batch is None else batch.columns[band_column(node.bands, self.kind)]
            values = np.zeros(0) if column is None else _floats(column, np.nan)
            return values, known[0].to_numpy() if known else np.zeros(0, np.int64), None
        if batch is not None:
            assert node.status is not None
            table = visible_columns(batch, self.kind, self, expr.column_names(node.status))
            known.append(expr.evaluate(node.status, table).cast(self.code_type))
        return np.zeros(0), *_encoded(known)

    def _amounts(self, batch: Events) -> Any:
        """The columns that are summed, a row for each."""
        out = np.zeros((len(self.node.sums), len(batch)))
        for i, name in enumerate(self.node.sums):
            out[i] = _floats(batch.columns[name], 0.0)
        return out

    def _room(self, frames: int) -> tuple[Any, Any]:
        """Arrays for frames that are found."""
        size = episodes.MOST + frames
        return np.empty((size, 5), np.int64), np.empty((size, len(self.node.sums)))

    def _unpacked(self, held: Events | None, codes: Codes, slots: Ints) -> tuple[Any, Any]:
        """The state of some keys as arrays, from the rows that hold it."""
        ints = np.zeros((len(slots), episodes.ROLES, episodes.COLUMNS), np.int64)
        ints[:, :, episodes.STATUS] = -1
        sums = np.zeros((len(slots), episodes.ROLES, len(self.node.sums)))
        if held is not None:
            at = np.searchsorted(slots, held.slot), held.columns["role"].to_numpy()
            columns = (
                codes,
                held.start,
                held.columns["since"].to_numpy(),
                held.stop,
                held.columns["readings"].to_numpy(),
            )
            ints[at] = np.stack(columns, axis=1)
            for i, name in enumerate(self.node.sums):
                sums[(*at, i)] = held.columns[f"sum {name}"].to_numpy()
        return ints, sums

    def _hold(self, slots: Ints, ints: Any, sums: Any, words: pa.Array | None) -> None:
        """Keep what is open: a row for each role of a key that has something."""
        key, role = np.nonzero(ints[:, :, episodes.STATUS] >= 0)
        rows = ints[key, role]
        columns = {
            "role": role.astype(np.int8),
            "since": rows[:, episodes.SINCE],
            "readings": rows[:, episodes.COUNT],
            "status": _decoded(rows[:, episodes.STATUS], words),
            **{f"sum {name}": sums[key, role, i] for i, name in enumerate(self.node.sums)},
        }
        start, end = (np.ascontiguousarray(rows[:, c]) for c in (episodes.START, episodes.END))
        held = Events(slots[key], start, end, pa.table(columns))
        self.open.put(held, _due(held))

    def _frames(self, slots: Ints, room: tuple[Any, Any], count: int, words: pa.Array | None) -> Events:
        """Frames that were found, as events."""
        found, totals = room[0][:count], room[1][:count]
        of = self.node.bands
        names = pa.array(of.names) if of and of.names else words
        columns = [_decoded(found[:, 3], names), pa.array(found[:, 4]), *(pa.array(t) for t in totals.T)]
        start, end = (np.ascontiguousarray(found[:, c]) for c in (1, 2))
        return Events(slots[found[:, 0]], start, end, pa.table(columns, schema=self.out.columns))


def _due(rows: Events) -> Ints:
    """A key is looked at again when nothing can follow its last reading directly."""
    last = rows.columns["role"].to_numpy() == episodes.READING
    return np.where(last, add_time(rows.stop, 1), MAX_TIME)


def _floats(column: pa.ChunkedArray, missing: float) -> Any:
    """Numbers as floats, and what stands for null."""
    return pc.fill_null(column.cast(pa.float64(), safe=False), missing).to_numpy()


def _encoded(parts: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Codes, pa.Array]:
    """Statuses as numbers, -1 for null, and what these stand for."""
    chunks = [c for p in parts for c in (p.chunks if isinstance(p, pa.ChunkedArray) else [p])]
    words = pa.concat_arrays(chunks).dictionary_encode()
    return pc.fill_null(words.indices, -1).to_numpy().astype(np.int64), words.dictionary


def _decoded(codes: Codes, words: pa.Array | None) -> pa.Array:
    """What numbers stand for."""
    return pa.array(codes) if words is None else words.take(pa.array(codes))
