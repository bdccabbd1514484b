"""What Spark calls our tasks and jobs, in its plans and on its web page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hydrophone.plan.node import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = 120
_DESCRIPTION = "spark.job.description"


def title(plan: str, root: Node) -> str:
    """The plan and its operators in the order in which rows meet them.

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = hp.from_arrow(pa.table({"ts": [0], "value": [1.0]}), time="ts")
    >>> title("slices", rows.signal("value").sample(10).fir([0.5, 0.5]).node)
    'hydrophone slices: signal, sample, fir'
    """
    names = [n.name() for n in root.topological() if n.inputs and not n.inserted]
    text = f"hydrophone {plan}: {', '.join(names) or 'rows as they are'}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


@dataclass(frozen=True)
class Titled:
    """A task with a name of its own: Spark shows the ``__name__`` of a function, else that of its class."""

    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    title: str

    @property
    def __name__(self) -> str:
        return self.title

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        return self.task(batches)


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Let the jobs that Spark runs in this block have a description, on the page of its jobs.

    Spark hands the settings of a session to the jobs of its queries as properties, and a job's description is one. So this works
    through Spark Connect too, where nobody can reach the context of the server. Jobs that other threads run on the session meanwhile
    have the description as well.

    Examples
    --------
    >>> from hydrophone.spark.session import session
    >>> spark = session(cores=2)
    >>> with described(spark, "ten numbers"):
    ...     spark.range(10).count()
    10
    """
    before = spark.conf.get(_DESCRIPTION, None)
    spark.conf.set(_DESCRIPTION, text)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_DESCRIPTION)
        else:
            spark.conf.set(_DESCRIPTION, before)
