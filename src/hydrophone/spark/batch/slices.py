"""Shares of a plan as tasks of Spark, without an exchange."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hydrophone.engine import emit
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.scan import Scan
from hydrophone.engine.shares import Share, Shares, run_share
from hydrophone.plan.node import Node
from hydrophone.spark.arrow_types import end_of, to_spark_types
from hydrophone.spark.worker import prepare

ROWS_OUT = 1 << 16
"""Rows that go to Spark in one piece: it takes a piece apart while the next one is made."""


@dataclass(frozen=True)
class Task:
    """Runs the whole pipeline over a share."""

    root: Node
    scans: tuple[Scan, ...]
    shares: tuple[Share, ...]
    shape: emit.Shape
    schema: pa.Schema

    @classmethod
    def of(cls, shares: Shares, shape: emit.Shape, schema: pa.Schema) -> Task:
        """The function that Spark sends to all tasks."""
        return cls(shares.plan.roots[0], shares.scans, shares.shares, shape, schema)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark gives the numbers of the shares, one to each task."""
        prepare()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.run(self.shares[number])

    def run(self, share: Share) -> Iterator[pa.RecordBatch]:
        """The answer of one share, in types of Spark's."""
        pipeline = Pipeline([self.root])
        for mine in run_share(pipeline, self.scans, share):
            for batch in mine:
                table = emit.result_table(batch, self.root.type, pipeline.keys(self.root), self.shape)
                yield from to_spark_types(table, self.schema, end_of(self.root.type)).to_batches(max_chunksize=ROWS_OUT)
