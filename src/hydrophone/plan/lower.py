"""From the user's plan to one that runs: ports for sources, Place where order is needed, stages where the key changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hydrophone.ops.keys import KeyBy
from hydrophone.ops.place import Place
from hydrophone.plan.node import Node, Order, topological
from hydrophone.plan.rewrite import as_windows, rewrite
from hydrophone.plan.source import Layout, Leaf, Port, Source
from hydrophone.plan.types import DataType, StreamType


@dataclass(frozen=True)
class Lowered:
    """A plan that a pipeline can run: `roots` end in ports; port number i reads ``sources[i]``."""

    roots: tuple[Node, ...]
    sources: tuple[Source, ...]


def lower(roots: Sequence[Node]) -> Lowered:
    """Replace sources by ports and put order where it is needed."""
    roots = [rewrite(as_windows(r)) for r in roots]
    done: dict[Node, Node] = {}
    sources: list[Source] = []
    for node in topological(roots):
        if isinstance(node, Source):
            done[node] = Port(number=len(sources), layout=node.layout, progress=node.progress, where=node.where)
            sources.append(node)
        else:
            done[node] = _ordered(node.with_inputs([done[i] for i in node.inputs]))
    return Lowered(tuple(done[r] for r in roots), tuple(sources))


def _ordered(node: Node) -> Node:
    """Put a Place on every input that comes in any order where this node needs order."""
    if node.needs is Order.ANY:
        return node
    return node.with_inputs(
        [i if i.order is Order.INDEX else Place(inputs=(i,), where=node.where) for i in node.inputs]
    )


@dataclass(frozen=True)
class Input:
    """What feeds a port of a stage: a source or an earlier stage, through row operators that run before the exchange.

    Attributes
    ----------
    source : the source, or None where `stage` feeds the port
    stage : number of the earlier stage
    prefix : the row operators, over port 0 (which is that port itself where there are none)
    """

    source: Source | None
    stage: int | None
    prefix: Node


@dataclass(frozen=True)
class Stage:
    """Operators of one scope, which run together in one task for a share of the keys."""

    root: Node
    inputs: tuple[Input, ...]


def stages(root: Node) -> list[Stage]:
    """Cut a plan where the key changes after an operator that is not row by row; the last stage gives the answer."""
    made: list[Stage] = []
    _stage(rewrite(as_windows(root)), made, {})
    return made


def _stage(root: Node, made: list[Stage], known: dict[Node, int]) -> int:
    """Make the stage that ends at `root` (and those before it); give its number."""
    if root in known:
        return known[root]
    inputs: list[Input] = []
    done: dict[Node, Node] = {}

    def cut(node: Node) -> Node:
        """The node over the ports of this stage."""
        if node not in done:
            chain = _rowwise_chain(node)
            if chain is not None:
                done[node] = _port(chain)
            else:
                done[node] = node.with_inputs([cut(i) for i in node.inputs])
        return done[node]

    def _port(chain: list[Node]) -> Node:
        """A port fed by the bottom of a chain of row operators through the rest of it."""
        bottom, top = chain[0], chain[-1]
        prefix: Node
        source: Source | None
        stage: int | None
        if isinstance(bottom, Source):
            source, stage, prefix = bottom, None, _as_port(0, bottom)
        else:
            below = _stage(bottom, made, known)
            source, stage, prefix = None, below, Port(number=0, layout=layout_of(bottom.type))
        for node in chain[1:]:
            prefix = node.with_inputs([prefix])
        inputs.append(Input(source, stage, prefix))
        if len(chain) == 1 and isinstance(bottom, Source):
            return _as_port(len(inputs) - 1, bottom)
        policy = bottom.progress if isinstance(bottom, Leaf) else None
        return Port(number=len(inputs) - 1, layout=layout_of(top.type), progress=policy, joint=top.paired)

    lowered = cut(root)
    ready: dict[Node, Node] = {}
    for node in lowered.topological():
        ready[node] = _ordered(node.with_inputs([ready[i] for i in node.inputs]))
    made.append(Stage(ready[lowered], tuple(inputs)))
    known[root] = len(made) - 1
    return known[root]


def _as_port(number: int, source: Source) -> Port:
    return Port(number=number, layout=source.layout, progress=source.progress, where=source.where)


def _rowwise_chain(node: Node) -> list[Node] | None:
    """Where a stage may begin: row operators down to a source, or down to a change of key above operators of another scope."""
    chain = [node]
    rekeyed = isinstance(node, KeyBy)
    while chain[0].rowwise and len(chain[0].inputs) == 1:
        rekeyed = rekeyed or isinstance(chain[0], KeyBy)
        chain.insert(0, chain[0].inputs[0])
    if isinstance(chain[0], Source):
        return chain
    return chain if rekeyed and len(chain) > 1 else None


def layout_of(kind: DataType) -> Layout:
    """How the rows of a stream are laid out when they travel between stages."""
    assert isinstance(kind, StreamType)
    ends = [pa.field(kind.end, kind.stamp)] if kind.end else []
    schema = pa.schema([*kind.key, pa.field(kind.time, kind.stamp), *ends, *kind.columns])
    return Layout(schema, tuple(kind.key.names), kind.time, kind.end)
