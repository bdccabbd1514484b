"""What Spark calls our tasks, in its plans and on its web page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hydrophone.ops.place import Place
from hydrophone.plan.node import Node
from hydrophone.plan.source import Leaf

LONGEST = 120


def title(plan: str, root: Node) -> str:
    """The plan and its operators in the order in which rows meet them.

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = hp.from_arrow(pa.table({"ts": [0], "value": [1.0]}), time="ts")
    >>> title("slices", rows.signal("value").sample(10).fir([0.5, 0.5]).node)
    'hydrophone slices: signal, sample, fir'
    """
    names = [n.name() for n in root.topological() if not isinstance(n, Leaf | Place)]
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
