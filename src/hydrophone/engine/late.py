"""Late rows: what happens to a row that starts before the mark that its source had promised."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from hydrophone.engine.ingest import instants
from hydrophone.errors import LateEventError
from hydrophone.time import format_instant


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


def side(path: str | None = None) -> Late:
    """Keep late rows aside as they came, in Parquet files under `path`. This is what happens unless another policy is chosen.

    Examples
    --------
    >>> side("late/").action
    <Action.SIDE: 'side'>
    """
    return Late(Action.SIDE, path)


def drop() -> Late:
    """Count late rows and forget them."""
    return Late(Action.DROP)


def adjust() -> Late:
    """Move late rows to the mark, so that they take part after all."""
    return Late(Action.ADJUST)


def error() -> Late:
    """Stop at the first late row."""
    return Late(Action.ERROR)


class LateRows:
    """Sifts the rows of one source.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 5, 2]})
    >>> sieve = LateRows(drop(), "t")
    >>> sieve.sift(rows, mark=3)["t"].to_pylist(), sieve.count
    ([5], 2)
    """

    def __init__(self, policy: Late, time: str) -> None:
        self.policy, self.time = policy, time
        self.count = 0
        self.aside: list[pa.Table] = []

    def sift(self, table: pa.Table, mark: int) -> pa.Table:
        """The rows that are in time (or were moved to it)."""
        times = instants(table[self.time], self.time)
        late = times < mark
        if not late.any():
            return table
        self.count += int(late.sum())
        if self.policy.action is Action.ERROR:
            raise LateEventError(
                f"source: {int(late.sum())} rows are late; the first starts at {format_instant(int(times[late][0]))}, "
                f"the mark is {format_instant(mark)}",
                hint="allow more delay (progress=hp.delayed(...)), or choose another policy: hp.late.side(...)",
            )
        if self.policy.action is Action.ADJUST:
            return self._moved(table, np.maximum(times, mark))
        if self.policy.action is Action.SIDE:
            self.aside.append(table.filter(pa.array(late)))
        return table.filter(pa.array(~late))

    def _moved(self, table: pa.Table, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
        kind = table.schema.field(self.time).type
        moved = (
            pa.array(times) if not pa.types.is_timestamp(kind) else pa.array(times).cast(pa.timestamp("ns", kind.tz))
        )
        return table.set_column(table.column_names.index(self.time), self.time, moved)
