"""Projection: sources read only the payload columns that a plan uses."""

from __future__ import annotations

from dataclasses import replace

from hydrophone.plan.node import Node, rebuild
from hydrophone.plan.source import Source
from hydrophone.plan.traits import Columns


def prune_columns(root: Node) -> Node:
    """Drop the payload columns that no operator reads from the sources."""
    needed = columns_needed(root)

    def with_needed(node: Node, new: Node) -> Node:
        names = needed[node]
        return (
            replace(new, layout=new.layout.with_payload(names))
            if isinstance(new, Source) and names is not None
            else new
        )

    return rebuild(root, with_needed)


def columns_needed(root: Node) -> dict[Node, Columns]:
    """For every node the payload columns of its output that are read above it; of the root all columns."""
    needed: dict[Node, Columns] = {root: None}
    for node in reversed(root.topological()):
        for port, child in enumerate(node.inputs):
            read = node.columns_read(port, needed[node])
            needed[child] = _union(needed[child], read) if child in needed else read
    return needed


def _union(a: Columns, b: Columns) -> Columns:
    return None if a is None or b is None else a | b
