"""As-of joins: every event with the one of another stream that is nearest in time, before or after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import ParameterError, PlanError, SignalTypeError
from hydrophone.model.batch import Batch, Events, Ints
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark, marks_by_slot, marks_of_slots
from hydrophone.model.sorted_rows import search_rows
from hydrophone.model.take_rows import empty_array, take_all
from hydrophone.model.threads import map_in_threads, split_rows
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.ops.relational.band_join import free_name
from hydrophone.ops.relational.memory_limit import Limited
from hydrophone.ops.relational.sets import same_key
from hydrophone.ops.relational.stored_rows import sort_by_time
from hydrophone.ops.relational.sweep_area import SweepArea, without_rows
from hydrophone.ops.signals.place import sort_events, sort_ties
from hydrophone.plan.reach import UNBOUNDED, Reach
from hydrophone.plan.types import StreamType

DIRECTIONS = ("backward", "forward", "nearest", "interpolated")
TIES = ("earlier", "later")


@dataclass(frozen=True, kw_only=True, eq=False)
class AsofJoin(Limited):
    """Every left event once, with the right event of its key that starts nearest; nulls where there is none.

    ``backward`` takes the last right event that starts at the same time or before, ``forward`` the first that starts at the same
    time or after, ``nearest`` the nearer of both (of two that are equally far the one that `ties` says), ``interpolated`` the straight line
    between both (on it neighbours further apart than `tolerance` are not joined, and NaN and nulls spread). Of right events that start
    together, in order of end and columns, ``backward`` takes the last and ``forward`` the first. `tolerance` is the largest distance.
    Without `exact`, right events that start at the very time of the left one do not count.
    The lifetime is that of the left event. Reference: ``pandas.merge_asof``.

    A left event is given when progress has passed it, by `tolerance` if it looks forward. Without a tolerance ``backward`` keeps
    one right event per key for ever; the others wait for the end of the data, and streams refuse them.
    """

    stable_name = "asof_join"

    direction: str = "backward"
    tolerance: int | None = None
    exact: bool = True
    ties: str = "earlier"

    def describe(self) -> str:
        """With the form of the state."""
        return f"{super().describe()}; state: list areas{self.memory.describe()}"

    def check(self) -> None:
        """A word that is known, and an end to waiting."""
        super().check()
        if self.direction not in DIRECTIONS:
            raise ParameterError(
                f"asof_join: direction must be one of {', '.join(DIRECTIONS)}, got {self.direction!r}",
                hint="backward looks for the last event before",
            )
        if self.ties not in TIES:
            raise ParameterError(
                f"asof_join: ties must be 'earlier' or 'later', got {self.ties!r}",
                hint="which of two right events that are equally far is the nearest",
            )
        if self.ties != "earlier" and self.direction != "nearest":
            raise ParameterError(
                f"asof_join: ties={self.ties!r} needs direction='nearest', got {self.direction!r}",
                hint="only the nearest may be two: one before and one after",
            )
        if not self.exact and self.direction == "interpolated":
            raise ParameterError(
                "asof_join: exact=False has no meaning with direction='interpolated'",
                hint="at the time of an event the line has the value of that event",
            )
        if self.tolerance is not None and self.tolerance < 0:
            raise ParameterError(
                f"asof_join: tolerance must not be negative, got {self.tolerance}", hint="0 joins equal times only"
            )
        if self.tolerance is not None and self.tolerance >= MAX_TIME:
            raise ParameterError(
                "asof_join: the tolerance has no end, so that no event could ever be forgotten",
                hint='a duration, such as "1d"',
            )

    def check_stream(self, waiting: str | None) -> None:
        """What looks forward must come to an end."""
        if self.tolerance is None and self.direction != "backward":
            raise PlanError(
                f"asof_join: direction={self.direction!r} needs a tolerance in a stream: without one, events would wait for ever",
                hint='tolerance="1h" is the largest distance to the event that is joined',
                where=self.where,
            )

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """Both payloads, and the right start; names of the right that clash get ``_right``."""
        same_key(left, right, "asof_join")
        taken = {*left.key.names, left.time, left.end, *left.columns.names}
        fields = [pa.field(right.time, left.stamp), *right.columns]
        if self.direction == "interpolated":
            fields = [f.with_type(pa.float64()) for f in right.columns]
            for f in right.columns:
                if not (pa.types.is_integer(f.type) or pa.types.is_floating(f.type)):
                    raise SignalTypeError(
                        f"asof_join: column {f.name!r} is {f.type} and cannot be interpolated",
                        hint="choose columns of numbers: other.select(...)",
                    )
        named = [f.with_name(free_name(f.name, taken)) for f in fields]
        return StreamType(left.key, left.time, left.clock, pa.schema([*left.columns, *named]), left.end)

    def reach(self, left: StreamType, right: StreamType) -> tuple[Reach, Reach]:
        """The tolerance, to the side it looks to; without one the last event may be any time ago."""
        if self.tolerance is None:
            endless = Reach.unbounded(f"asof_join: {self.direction} without a tolerance")
            return Reach(), Reach.past() if self.direction == "backward" else endless
        before = 0 if self.direction == "forward" else self.tolerance
        return Reach(), Reach(before, 0 if self.direction == "backward" else self.tolerance)

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Match."""
        return AsofJoinKernel(self)


class AsofJoinKernel(Kernel):
    """Holds left events until the right mark has passed them, and the right ones that they, or later ones, may need."""

    keyed = True

    def __init__(self, node: AsofJoin) -> None:
        self.direction, self.exact, self.ties, self.out = node.direction, node.exact, node.ties, node.type
        self.tolerance = UNBOUNDED if node.tolerance is None else node.tolerance
        self.ahead = 0 if self.direction == "backward" else self.tolerance
        self.left = SweepArea("list", node.memory, starts=True, name="asof_join, left")
        self.right = SweepArea("list", node.memory, starts=True, name="asof_join, right")
        self.announced = (MIN_TIME,)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Remember, but no right event that is too old for all left ones, by the progress that is known."""
        assert isinstance(batch, Events)
        if port:
            self.right.insert(without_rows(batch, batch.start < marks_of_slots(self.announced[0], batch.slot)))
        else:
            self.left.insert(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Answer for the left events whose match is known."""
        known = self.left.take(_marks_before(marks[1], self.ahead))
        first = self.left.held_back(marks[0], ended=marks[1])
        self.announced = (self._before(first),)
        return self._answers(known, marks[0]), first

    def _answers(self, known: Iterable[Events], mark: Mark) -> Iterator[Events]:
        for left in known:
            until = (
                np.broadcast_to(MAX_TIME, len(left)) if self.ahead == UNBOUNDED else add_time(left.start, self.ahead)
            )
            yield self._joined(left, self.right.meet(left.slot, np.broadcast_to(MIN_TIME, len(left)), until))
        if not self.right.empty:
            self._forget(mark)

    def _before(self, time: Any) -> Any:
        """The earliest instant that matters to left events from a time on."""
        if self.tolerance == UNBOUNDED and self.direction != "forward":
            return np.full_like(time, MIN_TIME) if isinstance(time, np.ndarray) else MIN_TIME
        return add_time(time, 0 if self.direction == "forward" else -self.tolerance)

    def _joined(self, left: Events, right: Events | None) -> Events:
        names = len(left.columns.column_names)
        if right is None:
            blank = [pa.nulls(len(left), f.type) for f in list(self.out.columns)[names:]]
            return left.with_columns(pa.table([*left.columns.columns, *blank], schema=self.out.columns))
        left, right, back, ahead = neighbours(left, right, self.direction, len(self.keys), self.tolerance, self.exact)
        if self.direction == "interpolated":
            columns = self._between(left, right, back, ahead)
        else:
            found = {"backward": back, "forward": ahead}.get(self.direction)
            if found is None:
                found = _nearer(left.start, right.start, back, ahead, self.ties == "later")
            stamp = pa.array(right.start).cast(self.out.columns.field(names).type)
            columns = take_all([stamp, *right.columns.columns], found)
        return left.with_columns(pa.table([*left.columns.columns, *columns], schema=self.out.columns))

    def _between(self, left: Events, right: Events, back: Ints, ahead: Ints) -> list[pa.Array]:
        """Values on the straight lines; at the very time of an event its own."""
        both = (back >= 0) & (ahead >= 0)
        low, high = np.where(both, back, 0), np.where(both, ahead, 0)
        exact = both & (right.start[low] == left.start)
        high = np.where(exact, low, high)
        gap = right.start[high].view(np.uint64) - right.start[low].view(np.uint64)  # exact, however far apart
        both = both & (gap <= np.uint64(self.tolerance))
        share = (left.start.view(np.uint64) - right.start[low].view(np.uint64)) / np.maximum(gap, np.uint64(1))
        out = []
        for column in right.columns.columns:
            valid = pc.is_valid(column).to_numpy()
            values: npt.NDArray[Any] = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
            with np.errstate(all="ignore"):
                line = values[low] + (values[high] - values[low]) * share
            line = np.where(exact, values[low], line)
            out.append(pa.array(line, mask=~(both & valid[low] & valid[high])))
        return out

    def _forget(self, mark: Mark) -> None:
        """Drop right events that no left event can need: too long ago, or not the last before all that may ask."""
        lowest = marks_by_slot(self.left.oldest_pending(mark), len(self.keys))
        start, count = self.right.latest(lowest if self.exact else add_time(lowest, -1))
        tied = np.flatnonzero((count > 1) & (start < lowest) & (lowest < MAX_TIME))
        start[lowest == MAX_TIME] = MAX_TIME
        needed = np.maximum(start, self._before(lowest))
        winners = None
        if len(tied) and (rows := self.right.meet(tied, start[tied], start[tied])) is not None:
            rows = sort_events(rows)
            winners = rows.select(np.append(np.diff(rows.slot) != 0, True) & (rows.start >= needed[rows.slot]))
            needed[tied] = np.maximum(needed[tied], start[tied] + 1)
        self.right.expire(np.append(needed, MIN_TIME))
        if winners is not None:
            self.right.insert(winners)


def _marks_before(mark: Mark, span: int) -> Any:
    """The mark of left events whose match is known, if they look so far ahead."""
    if span == UNBOUNDED:
        return np.where(mark == MAX_TIME, MAX_TIME, MIN_TIME) if isinstance(mark, np.ndarray) else _at_the_end(mark)
    return add_time(mark, -span) if span else mark


def _at_the_end(mark: int) -> int:
    return MAX_TIME if mark == MAX_TIME else MIN_TIME


# --- neighbours in time -------------------------------------------------------------------------------------------------


def neighbours(
    left: Events, right: Events, direction: str, slots: int, tolerance: int, exact: bool = True
) -> tuple[Events, Events, Ints, Ints]:
    """Both sides in some order, and for every left event the rows of the last right one until then and of the first from then on.

    Without `exact` these are the last before then and the first after it. -1 says that there is none within the tolerance; what the
    direction does not ask for is left out. Where the left side is in the order of time, whatever its keys, one pass over both finds
    all; otherwise every key is searched.
    """
    back = ahead = np.zeros(0, np.int64)
    near = np.uint64(tolerance)
    if is_in_time_order(left.start):
        right = _sort_with_ties(right, slots)
        if direction != "forward":
            back = _walk_neighbours(_last_before, left, right, slots, near, exact)
        if direction != "backward":
            ahead = _walk_neighbours(_first_from, left, right, slots, near, exact)
        return left, right, back, ahead
    left, right = sort_by_time(left), sort_events(right)
    if direction != "forward":
        back = search_rows(right.slot, right.start, left.slot, left.start, "right" if exact else "left") - 1
        _check(left.slot, left.start, right.slot, right.start, back, near)
    if direction != "backward":
        ahead = search_rows(right.slot, right.start, left.slot, left.start, "left" if exact else "right")
        _check(left.slot, left.start, right.slot, right.start, ahead, near)
    return left, right, back, ahead


def _walk_neighbours(
    walk: Callable[..., None], left: Events, right: Events, slots: int, near: np.uint64, exact: bool
) -> Ints:
    """What a pass over both sides finds, for stretches of the left side each by itself."""
    found = empty_array(len(left), np.int64)

    def one(rows: slice) -> None:
        walk(left.slot[rows], left.start[rows], right.slot, right.start, slots, near, exact, found[rows])

    map_in_threads(one, split_rows(len(left)))
    return found


def is_in_time_order(start: Ints) -> bool:
    """Whether no row starts before the one in front of it."""
    return bool(_is_rising(np.ascontiguousarray(start)))


def _sort_with_ties(events: Events, slots: int) -> Events:
    """The rows in the order of time; those of a key that start together in the order of end and columns."""
    if not is_in_time_order(events.start):
        events = events.select(np.argsort(events.start, kind="stable"))
    tied = _tied_rows(events.slot, events.start, slots)
    return sort_ties(events, np.flatnonzero(tied)) if tied.any() else events


def _nearer(left: Ints, right: Ints, back: Ints, ahead: Ints, later: bool) -> Ints:
    """The nearer of two neighbours; the earlier one, or the later, where they are equally far."""
    low, at, high = (t.view(np.uint64) for t in (right[np.maximum(back, 0)], left, right[np.maximum(ahead, 0)]))
    # Unsigned: exact, however far apart.
    nearer = high - at < at - low
    if later:
        nearer |= (high - at == at - low) & (high != low)
    return np.where((ahead >= 0) & ((back < 0) | nearer), ahead, back)


@compiled
def _is_rising(start):  # type: ignore[no-untyped-def]
    for i in range(1, len(start)):  # noqa: SIM110 (compiled)
        if start[i] < start[i - 1]:
            return False
    return True


@compiled
def _neighbours_of(low, high, tolerance):  # type: ignore[no-untyped-def]
    # Times may lie further apart than a signed number holds.
    return np.uint64(high) - np.uint64(low) <= tolerance


@compiled
def _last_before(slot, start, right_slot, right_start, slots, tolerance, exact, found):  # type: ignore[no-untyped-def]
    last = np.full(slots, -1, np.int64)
    j = 0
    for i in range(len(slot)):
        while j < len(right_slot) and (right_start[j] < start[i] or (exact and right_start[j] == start[i])):
            last[right_slot[j]] = j
            j += 1
        row = last[slot[i]]
        found[i] = row if row >= 0 and _neighbours_of(right_start[row], start[i], tolerance) else -1


@compiled
def _first_from(slot, start, right_slot, right_start, slots, tolerance, exact, found):  # type: ignore[no-untyped-def]
    first = np.full(slots, -1, np.int64)
    j = len(right_slot) - 1
    for i in range(len(slot) - 1, -1, -1):
        while j >= 0 and (right_start[j] > start[i] or (exact and right_start[j] == start[i])):
            first[right_slot[j]] = j
            j -= 1
        row = first[slot[i]]
        found[i] = row if row >= 0 and _neighbours_of(start[i], right_start[row], tolerance) else -1


@compiled
def _check(slot, start, right_slot, right_start, found, tolerance):  # type: ignore[no-untyped-def]
    """Put -1 where the row is of another key or too far away."""
    for i in range(len(found)):
        row = found[i]
        if row < 0 or row >= len(right_slot) or right_slot[row] != slot[i]:
            found[i] = -1
            continue
        low, high = min(right_start[row], start[i]), max(right_start[row], start[i])
        if not _neighbours_of(low, high, tolerance):
            found[i] = -1


@compiled
def _tied_rows(slot, start, slots):  # type: ignore[no-untyped-def]
    """Rows of one key that start together, of rows in the order of time."""
    last = np.full(slots, -1, np.int64)
    tied = np.zeros(len(slot), np.bool_)
    for i in range(len(slot)):
        before = last[slot[i]]
        if before >= 0 and start[before] == start[i]:
            tied[before] = tied[i] = True
        last[slot[i]] = i
    return tied
