"""Rows that wait in a task until there are enough of them for all operators to take at once."""

from __future__ import annotations

import pyarrow as pa

from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.scan import ROWS_AT_ONCE

ROWS_PER_KEY = 8
"""Rows of a key that a task takes at a time, on average, so that what is done once for a key and batch (the end of its last samples is put
before the new ones) is done for several. A million keys in the order of time would have one row each otherwise."""


def row_count(table: pa.Table) -> int:
    """How many rows a table counts for: one that holds an array of samples is as much work as that many rows.

    Examples
    --------
    >>> row_count(pa.table({"t": [1, 2], "values": [[1.0, 2.0, 3.0], [4.0]]})), row_count(pa.table({"t": [1, 2]}))
    (4, 2)
    """
    arrays = [c for c in table.columns if pa.types.is_list(c.type) or pa.types.is_large_list(c.type)]
    longest = [sum(int(a.offsets[-1].as_py()) - int(a.offsets[0].as_py()) for a in c.chunks if len(a)) for c in arrays]
    return max([len(table), *longest])


class RowBuffer:
    """Rows by port, for a pipeline.

    Parameters
    ----------
    pipeline : what takes them
    rows : about how many it takes at once

    Examples
    --------
    >>> waiting = RowBuffer(Pipeline([]))
    >>> waiting.add(0, pa.table({"t": [1, 2]}))
    >>> waiting.is_full
    False
    """

    def __init__(self, pipeline: Pipeline, rows: int = ROWS_AT_ONCE) -> None:
        self.pipeline, self._enough = pipeline, rows
        self._held: dict[int, list[pa.Table]] = {}
        self._rows = 0

    def add(self, port: int, table: pa.Table) -> None:
        """Let rows wait."""
        self._held.setdefault(port, []).append(table)
        self._rows += row_count(table)

    @property
    def is_full(self) -> bool:
        """Whether the operators should take them: nearly enough is enough, as what comes next would have to be joined with them."""
        keys = max((len(table) for table in self.pipeline.scopes.values()), default=0)
        return self._rows >= max(self._enough * 3 // 4, ROWS_PER_KEY * keys)

    def flush(self) -> None:
        """Let the operators take all of them, port by port."""
        held, self._held, self._rows = self._held, {}, 0
        for port in sorted(held):
            self.pipeline.rows(port, pa.concat_tables(held[port]))
