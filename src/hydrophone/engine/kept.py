"""Connection points: a source of a graph keeps its latest rows for queries that come later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time


class KeptRows:
    """The rows of a source that end after its mark minus `span`, as they came.

    Attributes
    ----------
    span : in nanoseconds; None: all rows
    missed : rows that end before this, or at it, may be lacking; ``MIN_TIME``: all rows are here

    Examples
    --------
    >>> kept = KeptRows(10, missed=3)
    >>> for t in (5, 12, 30):
    ...     kept.add(pa.table({"t": [t]}), first=t + 1, latest=t + 1)
    ...     kept.forget(mark=t)
    >>> [table["t"].to_pylist() for table in kept], kept.missed
    ([[30]], 20)
    """

    def __init__(self, span: int | None, missed: int) -> None:
        self.span, self.missed = span, missed
        self._tables: deque[tuple[int, pa.Table]] = deque()
        self._first: int | None = None

    def __iter__(self) -> Iterator[pa.Table]:
        return (table for _, table in self._tables)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(table.nbytes for table in self)

    def widen(self, span: int | None) -> None:
        """Keep at least so much from now on."""
        self.span = None if span is None or self.span is None else max(span, self.span)

    def add(self, table: pa.Table, first: int, latest: int) -> None:
        """Keep rows that end between `first` and `latest`."""
        self._tables.append((latest, table))
        self._first = first if self._first is None else min(self._first, first)

    def forget(self, mark: int) -> None:
        """Let go of what the mark of the source has left behind."""
        if self.span is None or mark == MIN_TIME or self._first is None:
            return
        horizon = add_time(mark, -self.span)
        if self._first <= horizon:
            self.missed = max(self.missed, horizon)
            if min((end for end, _ in self._tables), default=MAX_TIME) <= horizon:
                self._tables = deque((end, held) for end, held in self._tables if end > horizon)
