"""Lowering to the plan that a pipeline runs: ports instead of sources, and `Place` where an operator needs order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hydrophone.ops.signals.place import Place
from hydrophone.plan.node import Node, Order, topological
from hydrophone.plan.source import Source


@dataclass(frozen=True)
class Lowered:
    """A plan that a pipeline can run: `roots` end in ports; port number i reads ``sources[i]``."""

    roots: tuple[Node, ...]
    sources: tuple[Source, ...]


def over_ports(roots: Sequence[Node]) -> Lowered:
    """Replace sources by ports, numbered as they appear, and put order where it is needed."""
    sources: list[Source] = []

    def numbered(source: Source) -> Node:
        sources.append(source)
        return source.port(len(sources) - 1)

    return Lowered(over_leaves(roots, numbered), tuple(sources))


def over_leaves(roots: Sequence[Node], leaf: Callable[[Source], Node]) -> tuple[Node, ...]:
    """Put what `leaf` gives in the place of each source, and order where it is needed."""
    done: dict[Node, Node] = {}
    for node in topological(roots):
        if isinstance(node, Source):
            done[node] = leaf(node)
        else:
            done[node] = with_order(node.with_inputs([done[i] for i in node.inputs]))
    return tuple(done[r] for r in roots)


def with_order(node: Node) -> Node:
    """If a node needs order, put a `Place` on every input without order."""
    if node.needs is Order.ANY:
        return node
    return node.with_inputs(
        [i if i.order is Order.INDEX else Place(inputs=(i,), where=node.where) for i in node.inputs]
    )
