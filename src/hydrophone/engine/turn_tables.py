"""The results of a turn as tables, each made once."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hydrophone.engine.emit import Shape, result_table, result_tables
from hydrophone.model.batch import Batch, Events
from hydrophone.model.key_table import KeyTable
from hydrophone.plan.types import DataType


class TurnTables:
    """Makes tables for sinks. Queries of a family have shares of one batch: it becomes a table once, and each gets its rows of it."""

    def __init__(self) -> None:
        self._whole: dict[tuple[int, Shape], tuple[Batch, pa.Table]] = {}

    def made(self, batches: Sequence[Batch], kind: DataType, keys: KeyTable, shape: Shape) -> list[pa.Table]:
        """Batches of one query as tables, in order."""
        if len(batches) == 1 and isinstance(batches[0], Events) and batches[0].part_of is not None:
            whole, begin = batches[0].part_of
            known = self._whole.get((id(whole), shape))
            if known is None:  # the batch is kept with its table: while it lives, no other one has its id
                known = self._whole[id(whole), shape] = whole, result_table(whole, kind, keys, shape)
            return [known[1].slice(begin, len(batches[0]))]
        return list(result_tables(batches, kind, keys, shape))
