"""A key table as one of several threads sees it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hydrophone.model.batch import Ints, Mask
from hydrophone.model.key_table import KeyTable


class KeyView(KeyTable):
    """A key table as the operators of one region see it: other threads may add keys, and it grows only between two batches.

    An operator may ask for the number of keys twice while it takes a batch, and gets the same answer.
    """

    def __init__(self, table: KeyTable) -> None:
        self.schema, self.table = table.schema, table
        self._size = len(table)

    def __len__(self) -> int:
        return self._size

    @property
    def used(self) -> Mask:  # type: ignore[override]
        """Which slots have a key."""
        return self.table.used[: self._size]

    def refresh(self) -> None:
        """See the keys that have come."""
        self._size = len(self.table)

    def slots(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Ints:
        """The slot of every row; keys not seen before get a new one."""
        found = self.table.slots(columns)
        self.refresh()
        return found

    def zeros(self, rows: int) -> Ints:
        """Slots for a scope without key columns."""
        found = self.table.zeros(rows)
        self.refresh()
        return found

    def columns(self, slot: Ints) -> list[pa.Array]:
        """The key columns of these slots."""
        return self.table.columns(slot)

    def column(self, name: str) -> pa.Array:
        """One key column of all slots that it sees."""
        return self.table.column(name)[: self._size]
