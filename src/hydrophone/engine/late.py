"""Late rows: rows that start before the mark of their source, and the policies for them."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hydrophone.engine.ingest import instants
from hydrophone.errors import LateEventError, ParameterError, path_text
from hydrophone.model.batch import Ints
from hydrophone.model.time import extremes, format_instant

_log = logging.getLogger("hydrophone")


class Action(Enum):
    """What to do with a late row."""

    SIDE = "side"
    DROP = "drop"
    ADJUST = "adjust"
    ERROR = "error"


@dataclass(frozen=True)
class Late:
    """A policy for late rows; they are always counted.

    Attributes
    ----------
    action : what happens
    path : where the side output goes; None: beside the checkpoint
    """

    action: Action = Action.SIDE
    path: str | None = None


def side(path: str | PathLike[str] | None = None) -> Late:
    """Keep late rows aside as they came, in Parquet files under `path`. This is what happens unless another policy is chosen.

    Examples
    --------
    >>> side("late/").action
    <Action.SIDE: 'side'>
    """
    return Late(Action.SIDE, None if path is None else path_text(path, "late.side: path"))


def drop() -> Late:
    """Count late rows and forget them."""
    return Late(Action.DROP)


def adjust() -> Late:
    """Move late rows to the mark, so that they are used; a lifetime keeps its length."""
    return Late(Action.ADJUST)


def error() -> Late:
    """Stop at the first late row."""
    return Late(Action.ERROR)


class LateRows:
    """Splits late rows from the rows of one source, and applies the policy.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 5, 2]})
    >>> sieve = LateRows(drop(), "t")
    >>> sieve.split_late(rows, mark=3)["t"].to_pylist(), sieve.count
    ([5], 2)
    """

    def __init__(self, policy: Late, time: str, end: str | None = None, name: str = "") -> None:
        self.policy, self.time, self.end, self.name = policy, time, end, name
        self.count = 0
        if policy.action is Action.SIDE and policy.path is None:
            raise ParameterError("late: the local engine needs a path for late rows", hint='late=hp.late.side("late/")')

    def split_late(self, table: pa.Table, mark: int | Ints, what: str | None = None) -> pa.Table:
        """The rows that are not late (or were moved), by one `mark` or one per row; `what` names another column of times."""
        times = instants(table[what or self.time], what or self.time)
        if isinstance(mark, int) and (not len(times) or extremes(times)[0] >= mark):
            return table
        late = times < mark
        if not late.any():
            return table
        self.count += int(late.sum())
        marks = np.broadcast_to(mark, times.shape)
        if self.policy.action is Action.ERROR:
            rows = {self.end: "ends", None: "starts"}  # where there are no ends, None is the start
            said = f"rows are late; the first {rows[what]} at" if what in rows else "marks go back; the first to"
            raise LateEventError(
                f"{f'source {self.name}'.rstrip()}: {int(late.sum())} {said} {self._said(table, times[late][0])}, "
                f"the mark is {self._said(table, marks[late][0])}",
                hint="allow more delay (progress=hp.delayed(...)), or choose another policy: hp.late.side(...)",
            )
        if self.policy.action is Action.ADJUST and what in (None, self.end):
            return self._moved(table, np.where(late, marks - times, 0))
        if self.policy.action is Action.SIDE:
            self._put_aside(table.filter(pa.array(late)))
        return table.filter(pa.array(~late))

    def split_ahead(self, table: pa.Table, limit: int, what: str | None = None) -> pa.Table:
        """The rows up to `limit`, the latest time that is believed; `what` names another column of times (marks)."""
        column = table[what or self.time]
        if not column.null_count:
            times = instants(column, what or self.time)
            if not len(times) or extremes(times)[1] <= limit:
                return table
        valid = pc.is_valid(column).to_numpy()
        beyond = valid.copy()
        beyond[valid] = instants(column.drop_null(), what or self.time) > limit
        if not beyond.any():
            return table
        self.count += int(beyond.sum())
        first = int(instants(column.filter(pa.array(beyond)), what or self.time)[0])
        if self.policy.action is Action.ERROR:
            raise LateEventError(
                f"{f'source {self.name}'.rstrip()}: {int(beyond.sum())} {'rows' if what is None else 'marks'} are ahead; "
                f"the first says {self._said(table, first)}, the rest has come to {self._said(table, limit)}",
                hint='set the clock, allow more (progress=hp.delayed(..., ahead="1d")), or choose another policy: hp.late.side(...)',
            )
        if self.policy.action is Action.ADJUST and what is None:
            return self._moved(table, np.where(beyond, limit - instants(column, self.time), 0))
        if self.policy.action is Action.SIDE:
            self._put_aside(table.filter(pa.array(beyond)))
        return table.filter(pa.array(~beyond))

    def _said(self, table: pa.Table, time: int) -> str:
        return format_instant(int(time), zoned=bool(getattr(table.schema.field(self.time).type, "tz", None)))

    def _put_aside(self, rows: pa.Table) -> None:
        assert self.policy.path is not None
        folder = Path(self.policy.path)
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / f"late-{uuid.uuid4().hex}.parquet")

    def close(self, source: str) -> None:
        """Log the number of late rows."""
        if self.count:
            _log.warning("%s: %d late rows (policy: %s)", source, self.count, self.policy.action.value)

    def _moved(self, table: pa.Table, by: Ints) -> pa.Table:
        for name in filter(None, [self.time, self.end]):
            kind = table.schema.field(name).type
            moved = pa.array(instants(table[name], name) + by)
            if pa.types.is_timestamp(kind):
                moved = moved.cast(pa.timestamp("ns", kind.tz))
            table = table.set_column(table.column_names.index(name), name, moved)
        return table
