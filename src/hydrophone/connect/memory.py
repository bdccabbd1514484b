"""The memory of this process as a sink."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from hydrophone.connect.sink import Answer, Sink


@dataclass(frozen=True, eq=False)
class Memory(Sink):
    """The results in this process, by number of micro-batch."""

    noun = "memory"
    adds = ()
    in_process = True

    batches: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Memory has no name."""
        return "memory"

    def to_arrow(self) -> pa.Table:
        """All results so far; before the first of them a table without columns."""
        return pa.concat_tables([self.batches[i] for i in sorted(self.batches)]) if self.batches else pa.table({})

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """Beside the answers that are there."""
        self.keep(len(self.batches), answer.table())

    def keep(self, batch: int, results: pa.Table) -> None:
        """A micro-batch by its number."""
        self.batches[batch] = results

    def process(self, table: pa.Table, mark: int) -> None:
        """Beside what is there."""
        self.keep(len(self.batches), table)
