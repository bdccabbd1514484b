"""As-of joins: every event with the one of another stream that is nearest in time, before or after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.batch import Batch, Events, Ints, Mask
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.kernel import Kernel, Marks
from hydrophone.ops.joins import free_name
from hydrophone.ops.overlaps import by_time
from hydrophone.ops.place import in_order
from hydrophone.ops.sets import same_key
from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import StreamType
from hydrophone.runs import search
from hydrophone.state import Held
from hydrophone.time import MAX_TIME, add_time

DIRECTIONS = ("backward", "forward", "nearest", "interpolated")


@dataclass(frozen=True, kw_only=True, eq=False)
class AsofJoin(Node):
    """Every left event once, with the right event of its key that starts nearest; nulls where there is none.

    ``backward`` takes the last right event that starts at the same time or before, ``forward`` the first that starts at the same
    time or after, ``nearest`` the nearer of both (the earlier one of two that are equally far), ``interpolated`` the straight line
    between both (on it neighbours further apart than `tolerance` are not joined, and NaN and nulls spread). Of right events that start
    together, in order of end and columns, ``backward`` takes the last and ``forward`` the first. `tolerance` is the largest distance.
    The lifetime is that of the left event. Reference: ``pandas.merge_asof``.

    A left event is given when progress has passed it, by `tolerance` if it looks forward. Without a tolerance ``backward`` keeps
    one right event per key for ever; the others would wait for ever, and are refused.
    """

    direction: str = "backward"
    tolerance: int | None = None

    def check(self) -> None:
        """A word that is known, and an end to waiting."""
        if self.direction not in DIRECTIONS:
            raise ParameterError(
                f"asof_join: direction must be one of {', '.join(DIRECTIONS)}, got {self.direction!r}",
                hint="backward looks for the last event before",
            )
        if self.tolerance is None and self.direction != "backward":
            raise ParameterError(
                f"asof_join: direction={self.direction!r} needs a tolerance: without one, events could wait for ever",
                hint='tolerance="1h" is the largest distance to the event that is joined',
            )
        if self.tolerance is not None and not 0 <= self.tolerance < MAX_TIME:
            raise ParameterError(
                f"asof_join: tolerance must not be negative, got {self.tolerance}", hint="0 joins equal times only"
            )

    def output_type(self, left: StreamType, right: StreamType) -> StreamType:
        """Both payloads, and the right start; names of the right that clash get ``_right``."""
        same_key(left, right, "asof_join")
        taken = {*left.key.names, left.time, left.end, *left.columns.names}
        stamp = pa.timestamp("ns") if left.clock == "timestamp" else pa.int64()
        fields = [pa.field(right.time, stamp), *right.columns]
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
        """The tolerance, to the side it looks to."""
        if self.tolerance is None:
            return Reach(), Reach.unbounded("asof_join: without tolerance the last event may be any time ago")
        before = 0 if self.direction == "forward" else self.tolerance
        return Reach(), Reach(before, 0 if self.direction == "backward" else self.tolerance)

    def kernel(self, left: StreamType, right: StreamType) -> Kernel:
        """Match."""
        return AsofJoinKernel(self.direction, self.tolerance, self.type)


class AsofJoinKernel(Kernel):
    """Holds left events until the right mark has passed them, and the right ones that they, or later ones, may need."""

    def __init__(self, direction: str, tolerance: int | None, out: StreamType) -> None:
        self.direction, self.out = direction, out
        self.tolerance = MAX_TIME if tolerance is None else tolerance
        self.left: Held[Events] = Held(Events)
        self.right: Held[Events] = Held(Events)

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold."""
        assert isinstance(batch, Events)
        (self.right if port else self.left).add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], int]:
        """Answer for the left events whose match is known."""
        held, right = self.left.all(), self.right.all()
        if right is not None:
            right = in_order(right)
            self.right.replace(right, np.zeros(0, np.int64))
        out: list[Batch] = []
        if held is not None:
            ahead = 0 if self.direction == "backward" else self.tolerance
            ready = add_time(held.start, ahead) < marks[1] if marks[1] < MAX_TIME else np.ones(len(held), np.bool_)
            if ready.any():
                out.append(self._joined(by_time(self.left.take(ready)), right))
        waiting = self.left.all()
        if right is not None:
            self._forget(right, waiting, marks[0])
        return out, marks[0] if waiting is None else min(marks[0], int(waiting.start.min()))

    def _joined(self, left: Events, right: Events | None) -> Events:
        names = len(left.columns.column_names)
        if right is None:
            blank = [pa.nulls(len(left), f.type) for f in list(self.out.columns)[names:]]
            return left.with_columns(pa.table([*left.columns.columns, *blank], schema=self.out.columns))
        back = search(right.slot, right.start, left.slot, left.start, "right") - 1
        ahead = search(right.slot, right.start, left.slot, left.start, "left")
        far_back, far_ahead = self._distance(left, right, back), self._distance(left, right, ahead)
        if self.direction == "interpolated":
            columns = self._between(left, right, back, ahead, (far_back >= 0) & (far_ahead >= 0))
        else:
            forward = self.direction == "forward" or (
                (far_ahead >= 0) & ((far_back < 0) | (far_ahead < far_back)) & (self.direction == "nearest")
            )
            row, far = np.where(forward, ahead, back), np.where(forward, far_ahead, far_back)
            found = pa.array(np.where(far >= 0, row, 0), mask=far < 0)
            stamp = pa.array(right.start).cast(self.out.columns.field(names).type)
            columns = [c.take(found) for c in (stamp, *right.columns.columns)]
        return left.with_columns(pa.table([*left.columns.columns, *columns], schema=self.out.columns))

    def _distance(self, left: Events, right: Events, row: Ints) -> Ints:
        """How far the right events lie; -1 where there is none within the tolerance."""
        at = np.clip(row, 0, len(right) - 1)
        far = np.abs(right.start[at] - left.start)
        good = (row == at) & (right.slot[at] == left.slot) & (far <= self.tolerance)
        return np.where(good, far, -1)

    def _between(self, left: Events, right: Events, back: Ints, ahead: Ints, both: Mask) -> list[pa.Array]:
        """Values on the straight lines; at the very time of an event its own."""
        low, high = np.where(both, back, 0), np.where(both, ahead, 0)
        exact = both & (right.start[low] == left.start)
        high = np.where(exact, low, high)
        gap = right.start[high] - right.start[low]
        both = both & (gap <= self.tolerance)
        share = (left.start - right.start[low]) / np.maximum(gap, 1)
        out = []
        for column in right.columns.columns:
            valid = pc.is_valid(column).to_numpy()
            values: npt.NDArray[Any] = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
            with np.errstate(all="ignore"):
                line = values[low] + (values[high] - values[low]) * share
            line = np.where(exact, values[low], line)
            out.append(pa.array(line, mask=~(both & valid[low] & valid[high])))
        return out

    def _forget(self, right: Events, waiting: Events | None, mark: int) -> None:
        """Drop right events that no left event can need: too long ago, or not the last before all that may ask."""
        lowest = np.full(len(self.keys), mark)
        if waiting is not None:
            np.minimum.at(lowest, waiting.slot, waiting.start)
        bound = lowest[right.slot]
        back = 0 if self.direction == "forward" else self.tolerance
        gone = (bound == MAX_TIME) | (right.start < add_time(bound, -back))
        later = (right.slot[1:] == right.slot[:-1]) & (right.start[1:] <= bound[1:])
        gone[:-1] |= later & (right.start[:-1] < bound[:-1])
        if gone.any():
            self.right.take(gone)
