"""All passes in order, and what each host gets: a plan, a plan over ports, or stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from hydrophone.compiler.filter_pushdown import push_filters
from hydrophone.compiler.marks import marks_of_all_keys, marks_of_windows, without_flush
from hydrophone.compiler.ports import Lowered, over_ports
from hydrophone.compiler.projection import prune_columns
from hydrophone.compiler.stages import Stage, cut_stages
from hydrophone.compiler.two_level_aggregation import two_level_aggregation
from hydrophone.plan.node import Node

__all__ = ["PASSES", "Host", "Lowered", "Pass", "Stage", "compile_plan", "lower", "stages"]


class Host(Enum):
    """Where a plan runs."""

    LOCAL = "this process"
    SLICES = "Spark batch without an exchange"
    SHARDS = "Spark batch with exchanges"
    STREAM = "Spark streaming"
    HUB = "a hub on Spark streaming"


@dataclass(frozen=True)
class Pass:
    """A step from plan to plan that changes no answer.

    Attributes
    ----------
    name : what `explain` calls the plan after it
    run : the step
    hosts : the hosts that run it; None: all hosts
    """

    name: str
    run: Callable[[Node], Node]
    hosts: frozenset[Host] | None = None


_ON_SPARK = frozenset({Host.SLICES, Host.SHARDS, Host.STREAM, Host.HUB})
_ONE_QUERY = frozenset(Host) - {Host.HUB}
"""Where a source is read by one query alone, which needs not all of its columns (decision 12)."""

PASSES = (
    Pass("marked", marks_of_windows),
    Pass("rewritten", push_filters),
    Pass("scoped", marks_of_all_keys),
    Pass("unsmoothed", without_flush, _ON_SPARK),
    Pass("pruned", prune_columns, _ONE_QUERY),
    Pass("combined", two_level_aggregation, frozenset({Host.SHARDS})),
)
"""All passes in their order. After them a plan is put over ports (`lower`), or cut into `stages`."""


def compile_plan(root: Node, host: Host | None = None, last: str | None = None) -> Node:
    """The plan after all passes of a host, up to the pass named `last`; without a host, after those of all hosts."""
    for step in PASSES:
        if step.hosts is None or host in step.hosts:
            root = step.run(root)
        if step.name == last:
            break
    return root


def lower(roots: Sequence[Node], host: Host | None = None) -> Lowered:
    """What one pipeline runs."""
    return over_ports([compile_plan(root, host) for root in roots])


def stages(root: Node, host: Host | None = None) -> list[Stage]:
    """What the tasks between exchanges run; the last stage gives the answer."""
    return cut_stages(compile_plan(root, host))
