"""Two-level aggregation: tasks send partial aggregates through the exchange, not rows.

The low level is a table in each task; the high level is the shard, which merges partial aggregates in any order.
"""

from __future__ import annotations

from hydrophone.plan.node import Node, rebuild
from hydrophone.plan.source import Source


def two_level_aggregation(root: Node) -> Node:
    """Split aggregates over windows of time into two levels, where the first can run before an exchange."""
    return rebuild(root, lambda _, new: _split_aggregate(new))


def _split_aggregate(node: Node) -> Node:
    below = node.inputs[0] if node.inputs else node
    inputs = below.inputs if below.unites else node.inputs[:1]
    if not all(_before_exchange(i) for i in inputs):
        return node
    partials = [partial for i in inputs if (partial := node.partial_form(i)) is not None]
    if not partials or len(partials) < len(inputs):
        return node
    return node.final_form(below.with_inputs(partials) if below.unites else partials[0])


def _before_exchange(node: Node) -> bool:
    """Whether only row operators lie between a node and a source of rows."""
    while node.rowwise and len(node.inputs) == 1:
        node = node.inputs[0]
    return isinstance(node, Source) and not node.layout.samples


def aggregation_remarks(root: Node) -> list[str]:
    """For `explain`: what tasks merge before the exchange."""
    return list(dict.fromkeys(n.remark for n in root.topological() if n.remark is not None))
