"""The reach of a whole plan: one pass serves slices, parts of answers and `explain`."""

from __future__ import annotations

from hydrophone.plan.node import Node
from hydrophone.plan.reach import Reach


def reach_of_sources(root: Node) -> dict[Node, Reach]:
    """For every source under `root`: what the result at one instant needs of it, over all paths."""
    total: dict[Node, Reach] = {root: Reach()}
    for node in reversed(root.topological()):
        for child, own in zip(node.inputs, node.reaches, strict=True):
            through = total[node] + own
            total[child] = total[child] | through if child in total else through
    return {node: reach for node, reach in total.items() if not node.inputs}
