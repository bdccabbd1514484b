"""Filter push-down: row filters move towards the source where the answer stays equal."""

from __future__ import annotations

import narwhals as nw

from hydrophone.plan import expr
from hydrophone.plan.node import Node, readers, rebuild
from hydrophone.plan.source import Source, sources


def push_filters(root: Node) -> Node:
    """Every row filter runs as early as it may."""
    return rebuild(root, lambda _, new: _pushed_down(new))


def _pushed_down(node: Node) -> Node:
    """Move a filter below the operators that let it pass; inputs are done already."""
    passed: list[Node] = []
    while node.row_filter is not None and node.inputs[0].filter_passes(expr.column_names(node.row_filter)):
        passed.append(node.inputs[0])
        node = node.with_inputs(node.inputs[0].inputs)
    for above in reversed(passed):
        node = above.with_inputs([node])
    return node


def filters_on_sources(root: Node) -> dict[Source, tuple[nw.Expr, ...]]:
    """For every source the conditions that a row must meet to affect the answer.

    Hosts use them to read fewer rows. The filters stay in the plan: a reader may return too many rows, never too few.
    """
    above = readers(root)
    return {source: _filters_above(source, above) for source in sources(root)}


def _filters_above(node: Node, above: dict[Node, list[Node]]) -> tuple[nw.Expr, ...]:
    """The conditions of consecutive filters above a node with no other reader."""
    conditions: list[nw.Expr] = []
    while len(found := above.get(node, [])) == 1 and (condition := found[0].row_filter) is not None:
        conditions.append(condition)
        node = found[0]
    return tuple(conditions)
