"""When the answer of a query that joins a running graph begins to be exact, and the operator with which it begins anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hydrophone.engine.emit import owned_rows
from hydrophone.errors import PlanError
from hydrophone.model.batch import Batch
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time
from hydrophone.plan.node import Node
from hydrophone.plan.reach import UNBOUNDED
from hydrophone.plan.types import DataType


@dataclass(frozen=True, kw_only=True, eq=False)
class Since(Node):
    """The rows of a source from an instant on, for queries that begin while the source runs: events by their start, signals by sample.

    Attributes
    ----------
    start : the instant, in nanoseconds
    history : the number of the subscription that is given kept rows first; 0: it begins with the next rows
    """

    stable_name = "since"

    start: int
    history: int = 0

    gives = None
    rowwise = True
    inserted = True

    def output_type(self, x: DataType) -> DataType:
        """Unchanged."""
        return x

    @cached_property
    def paired(self) -> str | None:
        """Fewer pairs progress as all do."""
        return self.inputs[0].paired

    def kernel(self, x: DataType) -> Kernel:
        """Filter."""
        return SinceKernel(self.start)


class SinceKernel(Stateless):
    """Lets rows through from an instant on."""

    def __init__(self, start: int) -> None:
        self.start = start

    def map(self, batch: Batch) -> Batch:
        """Filter one batch."""
        return batch if self.start == MIN_TIME else owned_rows(batch, self.start, MAX_TIME)


def settled_start(root: Node, missed: Callable[[Node], int], made: Mapping[Node, int]) -> int:
    """The first instant from which on the results of a query that begins now equal those of a run that began with the sources.

    A result at instant t needs no row that ended before t minus the reach of the query. So all rows that it needs are still to come
    if t is the reach after the largest end that the query has missed, at every source.

    Parameters
    ----------
    missed : for a leaf, the largest end of the rows that the query does not get; ``MIN_TIME``: none
    made : operators without a bound on their reach that run since the beginning, with the largest end of their results so far:
        they have missed nothing, and what reads them has missed their results up to now
    """
    start, before = MIN_TIME, {root: 0}
    for node in reversed(root.topological()):
        if node not in before:
            continue  # below an operator that runs since the beginning
        if node in made or not node.inputs:
            end = made[node] if node in made else missed(node)
            start = max(start, MIN_TIME if end == MIN_TIME else add_time(end, before[node]))
            continue
        if unbounded(node) and any(missed(leaf) > MIN_TIME for leaf in node.topological() if not leaf.inputs):
            raise _no_bound(node)
        for child, reach in zip(node.inputs, node.reaches, strict=True):
            before[child] = max(before.get(child, 0), before[node] + (reach.before or 0))
    return start


def unbounded(node: Node) -> bool:
    """Whether an operator may need rows from any time before."""
    return any(reach.before is None or reach.before >= UNBOUNDED for reach in node.reaches)


def _no_bound(node: Node) -> PlanError:
    why = next((r.why for r in node.reaches if r.why), "")
    return PlanError(
        f"subscribe: {node.name()} may need rows from any time before{f' ({why})' if why else ''}, and rows have come already",
        hint='begin anew with the next rows: start="fresh"; or subscribe before the first row, and keep it running '
        'for others: close="warm"; or keep all rows from the beginning: graph.keep(...) and start="history"',
        where=node.where,
    )
